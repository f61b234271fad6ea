/* kernels/cuda/array/pick.cu - a thread an element of the result, which asks where it comes from.
 *
 * Places are found with 32 bits where both tensors are so small: divisions by sizes are most of the work.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/pick.h"

#include <type_traits>

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/cells.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

/* ------------------------------------------------------------------ where elements come from: -1: nowhere */

/* n = quotient; returns the remainder. */
template <class I> __device__ I off(I *n, int64_t by)
{
    const I d = static_cast<I>(by), up = *n / d, rest = *n - up * d;
    *n = up;
    return rest;
}

struct shifted {
    td_cuda_shifts s;
    template <class I> __device__ int64_t at(I i) const
    {
        int64_t at = 0;
        for (int d = 0; d < s.rank; d++) {
            int64_t v = static_cast<int64_t>(off(&i, s.dim[d])) - s.before[d];
            if (s.kind == TD_CUDA_WRAP) {
                v += v < 0 ? s.in[d] : 0;
            } else {
                v = v < 0 ? s.skips - 1 - v : v >= s.in[d] ? 2 * s.in[d] - 1 - s.skips - v : v;
            }
            at += v * s.step[d];
        }
        return at;
    }
};

struct sequences {
    td_cuda_sequences s;
    template <class I> __device__ int64_t at(I i) const
    {
        const I steps = i / static_cast<I>(s.sequence_step), rows = i / static_cast<I>(s.batch_step);
        const int64_t t = steps % static_cast<I>(s.sequence);
        const int64_t length = td_cuda_index_at(s.lengths, rows % static_cast<I>(s.batch));
        if (length < 0 || length > s.sequence) {
            td_cuda_refuse(s.fault);
            return -1;
        }
        return static_cast<int64_t>(i) + (t < length ? length - 1 - 2 * t : 0) * s.sequence_step;
    }
};

struct to_small {
    td_cuda_blocking s;
    template <class I> __device__ int64_t at(I i) const
    {
        const int64_t inner = off(&i, s.inner);
        I within = i;
        for (int a = s.n - 1; a >= 0; a--) {
            (void)off(&within, s.small[a]);
        }
        int64_t at = inner, step = s.inner;
        const int64_t image = off(&within, s.batch);
        for (int a = s.n - 1; a >= 0; a--) {
            const int64_t o = off(&i, s.small[a]), k = off(&within, s.size[a]);
            const int64_t v = o * s.size[a] + k - s.before[a];
            if (v < 0 || v >= s.big[a]) {
                return -1;
            }
            at += v * step;
            step *= s.big[a];
        }
        return at + image * step;
    }
};

struct to_big {
    td_cuda_blocking s;
    template <class I> __device__ int64_t at(I i) const
    {
        int64_t at = off(&i, s.inner), step = s.inner, block = 0, blocks = 1;
        for (int a = s.n - 1; a >= 0; a--) {
            I o = static_cast<I>(static_cast<int64_t>(off(&i, s.big[a])) + s.before[a]);
            block += off(&o, s.size[a]) * blocks;
            blocks *= s.size[a];
            at += static_cast<int64_t>(o) * step;
            step *= s.small[a];
        }
        return at + (block * s.batch + i) * step;
    }
};

/* Where diagonal d begins in its row, and how long it is. */
__device__ int64_t diagonal_begins(const td_cuda_diagonals &s, int64_t d, int64_t *length)
{
    const int64_t below = s.rows + (d < 0 ? d : 0), above = s.cols - (d > 0 ? d : 0);
    *length = below < above ? below : above;
    const bool left = (d >= 0 && s.left_above) || (d <= 0 && s.left_below);
    return left ? 0 : s.longest - *length;
}

struct packed {
    td_cuda_diagonals s;
    template <class I> __device__ int64_t at(I i) const
    {
        int64_t length;
        const int64_t column = off(&i, s.longest), d = s.hi - off(&i, s.hi - s.lo + 1);
        const int64_t k = column - diagonal_begins(s, d, &length);
        if (k < 0 || k >= length) {
            return -1;
        }
        const int64_t row = k - (d < 0 ? d : 0);
        return (i * s.rows + row) * s.cols + k + (d > 0 ? d : 0);
    }
};

struct matrix {
    td_cuda_diagonals s;
    template <class I> __device__ int64_t at(I i) const
    {
        int64_t length;
        const int64_t column = off(&i, s.cols), row = off(&i, s.rows), d = column - row;
        if (d < s.lo || d > s.hi) {
            return -1;
        }
        const int64_t k = (d < 0 ? column : row) + diagonal_begins(s, d, &length);
        return (i * (s.hi - s.lo + 1) + s.hi - d) * s.longest + k;
    }
};

struct band {
    td_cuda_band s;
    template <class I> __device__ int64_t at(I i) const
    {
        I rest = i;
        const int64_t column = off(&rest, s.cols), row = off(&rest, s.rows);
        const bool in = (s.below < 0 || row - column <= s.below) && (s.above < 0 || column - row <= s.above);
        return in ? static_cast<int64_t>(i) : -1;
    }
};

struct one_hot {
    td_cuda_one_hot s;
    template <class I> __device__ int64_t at(I i) const
    {
        const int64_t inner = off(&i, s.inner), depth = off(&i, s.depth);
        return td_cuda_index_at(s.indices, i * s.inner + inner) == depth ? 0 : -1;
    }
};

struct patches {
    td_cuda_patches s;
    template <class I> __device__ int64_t at(I i) const
    {
        td_cuda_cell in;
        const int64_t c = off(&i, s.depth), tap = off(&i, td_cuda_taps(s.axis));
        if (!td_cuda_tap_in(s.axis, td_cuda_out_cell(s.axis, i), td_cuda_tap(s.axis, tap), &in)) {
            return -1;
        }
        const int64_t rows = (in.batch * s.axis[0].in + in.at[0]) * s.axis[1].in + in.at[1];
        return (rows * s.axis[2].in + in.at[2]) * s.depth + c;
    }
};

/* ------------------------------------------------------------------ picking */

template <class From, class T, class I>
__global__ void pick(From from, const T *__restrict__ x, const T *__restrict__ other, bool each,
                     T *__restrict__ y, I n)
{
    const I step = static_cast<I>(td_cuda_stride());
    for (I i = static_cast<I>(td_cuda_first()); i < n; i += step) {
        const int64_t at = from.at(i);
        y[i] = at >= 0 ? x[at] : other != nullptr ? other[each ? i : 0] : T();
        if (n - i <= step) {
            break; /* the next may be past 32 bits */
        }
    }
}

template <class From> struct run_pick {
    From from;
    const td_cuda_pick *p;
    td_cuda_stream *stream;
    template <class T, class I> int go() const
    {
        return td_cuda_over(pick<From, T, I>, p->n, stream, from, static_cast<const T *>(p->x),
                            static_cast<const T *>(p->other), p->each, static_cast<T *>(p->y), p->n);
    }
    template <class T> int with() const
    {
        return p->most <= UINT32_MAX ? go<T, uint32_t>() : go<T, uint64_t>();
    }
};

template <class From> int run(From from, const td_cuda_pick *p, td_cuda_stream *stream)
{
    return td_cuda_with_bytes(p->bytes, run_pick<From>{from, p, stream});
}

/* ------------------------------------------------------------------ sums, rounded as on the host */

struct unmirrored {
    td_cuda_unmirror s;
    template <class F> __device__ void each(int64_t i, F f) const
    {
        const int64_t inner = off(&i, s.inner), inside = off(&i, s.in);
        const int64_t front = s.skips - 1 - inside, back = 2 * s.in - 1 - s.skips - inside;
        const auto at = [&](int64_t v) { return (i * s.dim + v + s.before) * s.inner + inner; };
        f(at(inside));
        if (front < 0 && front + s.before >= 0) {
            f(at(front));
        }
        if (back >= s.in && back + s.before < s.dim) {
            f(at(back));
        }
    }
};

struct unpatched {
    td_cuda_patches s;
    template <class F> __device__ void each(int64_t i, F f) const
    {
        const int64_t taps = td_cuda_taps(s.axis), c = off(&i, s.depth);
        const td_cuda_cell in = td_cuda_in_cell(s.axis, i);
        td_cuda_cell out;
        for (int64_t t = 0; t < taps; t++) {
            if (td_cuda_window_of(s.axis, in, td_cuda_tap(s.axis, t), &out)) {
                const int64_t rows = (out.batch * s.axis[0].out + out.at[0]) * s.axis[1].out + out.at[1];
                f(((rows * s.axis[2].out + out.at[2]) * taps + t) * s.depth + c);
            }
        }
    }
};

template <class W> __device__ W added(W a, W b)
{
    if constexpr (std::is_integral_v<W>) {
        return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
        return a + b;
    }
}

template <class From, class T>
__global__ void sum(From from, const T *__restrict__ x, T *__restrict__ y, int64_t n)
{
    using W = typename td_cuda_wide<T>::type;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        T a = td_cuda_store<T>::of(W(0));
        from.each(
            i, [&](int64_t at) { a = td_cuda_store<T>::of(added<W>(td_cuda_load(a), td_cuda_load(x[at]))); });
        y[i] = a;
    }
}

template <class From> struct run_sum {
    From from;
    const void *x;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(sum<From, T>, n, stream, from, static_cast<const T *>(x), static_cast<T *>(y), n);
    }
};

} // namespace

int td_cuda_pick_shifted(const struct td_cuda_pick *p, const struct td_cuda_shifts *s,
                         struct td_cuda_stream *stream)
{
    return run(shifted{*s}, p, stream);
}

int td_cuda_pick_unmirrored(enum td_cuda_type type, const struct td_cuda_unmirror *s, const void *x, void *y,
                            struct td_cuda_stream *stream)
{
    return td_cuda_with_number(type, run_sum<unmirrored>{{*s}, x, y, s->outer * s->in * s->inner, stream});
}

int td_cuda_pick_sequences(const struct td_cuda_pick *p, const struct td_cuda_sequences *s,
                           struct td_cuda_stream *stream)
{
    return run(sequences{*s}, p, stream);
}

int td_cuda_pick_small(const struct td_cuda_pick *p, const struct td_cuda_blocking *s,
                       struct td_cuda_stream *stream)
{
    return run(to_small{*s}, p, stream);
}

int td_cuda_pick_big(const struct td_cuda_pick *p, const struct td_cuda_blocking *s,
                     struct td_cuda_stream *stream)
{
    return run(to_big{*s}, p, stream);
}

int td_cuda_pick_packed(const struct td_cuda_pick *p, const struct td_cuda_diagonals *s,
                        struct td_cuda_stream *stream)
{
    return run(packed{*s}, p, stream);
}

int td_cuda_pick_matrix(const struct td_cuda_pick *p, const struct td_cuda_diagonals *s,
                        struct td_cuda_stream *stream)
{
    return run(matrix{*s}, p, stream);
}

int td_cuda_pick_band(const struct td_cuda_pick *p, const struct td_cuda_band *s,
                      struct td_cuda_stream *stream)
{
    return run(band{*s}, p, stream);
}

int td_cuda_pick_one_hot(const struct td_cuda_pick *p, const struct td_cuda_one_hot *s,
                         struct td_cuda_stream *stream)
{
    return run(one_hot{*s}, p, stream);
}

int td_cuda_pick_patches(const struct td_cuda_pick *p, const struct td_cuda_patches *s,
                         struct td_cuda_stream *stream)
{
    return run(patches{*s}, p, stream);
}

int td_cuda_pick_unpatched(enum td_cuda_type type, const struct td_cuda_pick *p,
                           const struct td_cuda_patches *s, struct td_cuda_stream *stream)
{
    return td_cuda_with_number(type, run_sum<unpatched>{{*s}, p->x, p->y, p->n, stream});
}
