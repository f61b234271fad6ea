/* kernels/cuda/base/combine.cu - slices that go to one place, added up or otherwise made one there, in the
 * order in which they stand: as the host does it, step by step, run after run the same. No two threads write
 * one element, so there are no atomic additions of floats.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/combine.h"

#include <type_traits>

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/fold.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

/* ------------------------------------------------------------------ keys */

__device__ int64_t key_of(const td_cuda_keys &s, int64_t i, bool *silent)
{
    if (s.kind == TD_CUDA_TUPLES) {
        return td_cuda_tuple_at(s.indices, s.tuples, i);
    }
    const int64_t at = td_cuda_index_at(s.indices, i);
    if (s.kind == TD_CUDA_ROUND) {
        return (at % s.dim + s.dim) % s.dim;
    }
    if (s.kind == TD_CUDA_AXIS) {
        return at < 0 || at >= s.dim ? -1 : i / (s.n / s.batches) * s.dim + at;
    }
    *silent = s.kind == TD_CUDA_IDS && at < 0;
    const bool falls = s.kind == TD_CUDA_SORTED && i > 0 && at < td_cuda_index_at(s.indices, i - 1);
    return at >= s.most || falls ? -1 : at;
}

__global__ void make_keys(td_cuda_keys s, int32_t *keys)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        bool silent = false;
        const int64_t key = key_of(s, i, &silent);
        keys[i] = key < 0 ? s.most : static_cast<int32_t>(key);
        if (key < 0 && !silent && s.fault != nullptr) {
            td_cuda_refuse(s.fault);
        }
    }
}

__global__ void count_ids(td_cuda_counting s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t id = td_cuda_index_at(s.ids, i), at = td_cuda_index_at(s.indices, i);
        if (id < 0 || id >= s.rows || at < 0 || at >= s.limit) {
            td_cuda_refuse(s.fault);
        } else if (s.counts != nullptr) {
            (void)atomicAdd(s.counts + id, 1);
        }
    }
}

/* ------------------------------------------------------------------ the ops */

template <class W, class F> __device__ W wrapping(W a, W b, F f)
{
    if constexpr (std::is_integral_v<W>) {
        using U = std::make_unsigned_t<W>;
        return static_cast<W>(f(static_cast<U>(a), static_cast<U>(b)));
    } else {
        return f(a, b);
    }
}

struct adds {
    template <class W> __device__ static W of(W a, W b)
    {
        return wrapping(a, b, [](auto p, auto q) { return p + q; });
    }
};
struct subtracts : adds {
    template <class W> __device__ static W of(W a, W b)
    {
        return wrapping(a, b, [](auto p, auto q) { return p - q; });
    }
};
struct multiplies {
    template <class W> __device__ static W of(W a, W b)
    {
        return wrapping(a, b, [](auto p, auto q) { return p * q; });
    }
};
/* Where either is NaN: the first, or the second. */
struct lesser {
    template <class W> __device__ static W of(W a, W b) { return b < a ? b : a; }
};
struct greater {
    template <class W> __device__ static W of(W a, W b) { return a < b ? b : a; }
};
struct least_later : lesser {
    template <class W> __device__ static W of(W a, W b) { return a < b ? a : b; }
};
struct most_later : greater {
    template <class W> __device__ static W of(W a, W b) { return b < a ? a : b; }
};

/* ------------------------------------------------------------------ combining */

template <class W> __device__ W scale_of(td_cuda_scale scale, int32_t count)
{
    return static_cast<W>(scale == TD_CUDA_BY_COUNT ? 1.0 / count : 1.0 / sqrt(static_cast<double>(count)));
}

/* Element (o, i) of slice `at` of a tensor [.., outer, dim, inner]. */
__device__ int64_t place(const td_cuda_combining &s, int64_t at, int64_t dim, int64_t o, int64_t i)
{
    const int64_t line = s.outer == 1 ? 0 : at / dim;
    return ((line * s.outer + o) * dim + at - line * dim) * s.inner + i;
}

template <class W, class T>
__device__ W source(const td_cuda_combining &s, const T *x, int64_t p, int64_t o, int64_t i)
{
    int64_t at = s.order == nullptr ? p : s.order[p];
    at = s.rows.at == nullptr ? at : td_cuda_index_at(s.rows, at);
    if (at < 0 || at >= s.sources) {
        return 0; /* refused */
    }
    W v = td_cuda_load(x[place(s, at, s.per, o, i)]);
    if constexpr (!std::is_integral_v<W>) {
        const bool scales = s.counts != nullptr && s.scale != TD_CUDA_AS_IT_IS;
        v = scales ? td_cuda_times(v, scale_of<W>(s.scale, s.counts[at])) : v;
    }
    return v;
}

template <class T, class W> __device__ W as_stored(W a)
{
    return td_cuda_load(td_cuda_store<T>::of(a));
}

template <class T, class W> __device__ W finished(const td_cuda_combining &s, W a, int64_t n)
{
    a = s.divides ? static_cast<W>(a / static_cast<W>(n)) : a;
    if constexpr (!std::is_integral_v<W>) {
        const bool scales = s.scale != TD_CUDA_AS_IT_IS && s.counts == nullptr && n > 1;
        a = scales ? td_cuda_times(a, scale_of<W>(s.scale, static_cast<int32_t>(n))) : a;
    }
    return a;
}

template <class Op, class T>
__global__ void combine(td_cuda_lines l, td_cuda_combining s, const T *__restrict__ x, T *__restrict__ y)
{
    using W = typename td_cuda_wide<T>::type;
    if (s.fault != nullptr && *s.fault != 0) {
        return; /* or two threads would write what one key has in two places */
    }
    td_cuda_each_line(l, [&](int64_t p, int64_t first, int64_t last, int step) {
        const int32_t key = s.keys[p];
        if (key >= s.most || (p > 0 && s.keys[p - 1] == key)) {
            return;
        }
        for (int64_t c = first; c < last; c += step) {
            const int64_t o = s.outer == 1 ? 0 : c / s.inner, i = c - o * s.inner;
            T *to = y + place(s, key, s.dim, o, i);
            int64_t q = s.from_y ? p : p + 1;
            W a = s.from_y ? static_cast<W>(td_cuda_load(*to)) : source<W>(s, x, p, o, i);
            for (; q < s.n && s.keys[q] == key; q++) {
                a = Op::of(a, source<W>(s, x, q, o, i));
                a = s.rounds ? as_stored<T>(a) : a;
            }
            *to = td_cuda_store<T>::of(finished<T>(s, a, q - p));
        }
    });
}

template <class T>
__global__ void put(td_cuda_lines l, td_cuda_combining s, const T *__restrict__ x, T *__restrict__ y)
{
    td_cuda_each_line(l, [&](int64_t p, int64_t first, int64_t last, int step) {
        const int32_t key = s.keys[p];
        if (key >= s.most || (p + 1 < s.n && s.keys[p + 1] == key)) {
            return;
        }
        const int64_t from = s.order == nullptr ? p : s.order[p];
        for (int64_t c = first; c < last; c += step) {
            y[key * l.width + c] = x[from * l.width + c];
        }
    });
}

template <class Op> struct run_combine {
    const td_cuda_combining *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const td_cuda_lines l = td_cuda_lines_of(s->n, s->outer * s->inner);
        return td_cuda_blocks(combine<Op, T>, td_cuda_line_blocks(l), stream, l, *s,
                              static_cast<const T *>(x), static_cast<T *>(y));
    }
};

struct run_put {
    const td_cuda_combining *s;
    size_t bytes;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        const td_cuda_lines l = td_cuda_lines_of(s->n, static_cast<int64_t>(bytes / sizeof(T)));
        return td_cuda_blocks(put<T>, td_cuda_line_blocks(l), stream, l, *s, static_cast<const T *>(x),
                              static_cast<T *>(y));
    }
};

/* run(Op) for the op of that name. */
template <class F> int with_op(td_cuda_combine_op op, F run)
{
    switch (op) {
    case TD_CUDA_ADD:
        return run(adds());
    case TD_CUDA_SUBTRACT:
        return run(subtracts());
    case TD_CUDA_MULTIPLY:
        return run(multiplies());
    case TD_CUDA_LESSER:
        return run(lesser());
    case TD_CUDA_GREATER:
        return run(greater());
    case TD_CUDA_LEAST_LATER:
        return run(least_later());
    case TD_CUDA_MOST_LATER:
        return run(most_later());
    }
    return static_cast<int>(cudaErrorInvalidValue);
}

} // namespace

int td_cuda_keys_make(const struct td_cuda_keys *s, int32_t *keys, struct td_cuda_stream *stream)
{
    return td_cuda_over(make_keys, s->n, stream, *s, keys);
}

int td_cuda_keys_sort(const struct td_cuda_keys *s, void *workspace, struct td_cuda_sort *out,
                      struct td_cuda_stream *stream)
{
    *out = td_cuda_sort_in(workspace, s->n);
    const int error = td_cuda_keys_make(s, out->keys, stream);
    return error != 0 ? error : td_cuda_sort_run(out, s->most, stream);
}

int td_cuda_count_ids(const struct td_cuda_counting *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(count_ids, s->n, stream, *s);
}

int td_cuda_combine(enum td_cuda_combine_op op, enum td_cuda_type type, const struct td_cuda_combining *s,
                    const void *x, void *y, struct td_cuda_stream *stream)
{
    return with_op(op, [&](auto which) {
        return td_cuda_with_number(type, run_combine<decltype(which)>{s, x, y, stream});
    });
}

int td_cuda_put(const struct td_cuda_combining *s, size_t bytes, const void *x, void *y,
                struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(td_cuda_unit(bytes, x, y), run_put{s, bytes, x, y, stream});
}
