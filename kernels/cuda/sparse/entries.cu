/* kernels/cuda/sparse/entries.cu - what is done with the entries of sparse tensors one by one, a thread an
 * entry.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/entries.h"

#include "kernels/cuda/base/lines.cuh"
#include "kernels/cuda/base/scalar.cuh"

namespace
{

__global__ void must_ascend(const int32_t *keys, int64_t n, int32_t *fault)
{
    for (int64_t i = td_cuda_first() + 1; i < n; i += td_cuda_stride()) {
        if (keys[i] <= keys[i - 1]) {
            td_cuda_refuse(fault);
        }
    }
}

/* ------------------------------------------------------------------ with a dense tensor */

/* False: it is outside. */
__device__ bool place_of(const td_cuda_entries &s, int64_t i, int64_t *at)
{
    bool inside = true;
    *at = 0;
    for (int d = 0; d < TD_CUDA_DEPTH && d < s.tuples.depth; d++) {
        const int64_t v = s.indices[i * s.tuples.depth + d];
        inside = inside && v >= 0 && v < s.tuples.dim[d];
        *at += inside ? v * s.step[d] : 0;
    }
    return inside;
}

/* By zero: false. */
struct adds {
    template <class W> __device__ static bool of(W a, W b, W *y)
    {
        *y = sum(a, b);
        return true;
    }
};
struct multiplies {
    template <class W> __device__ static bool of(W a, W b, W *y)
    {
        *y = product(a, b);
        return true;
    }
};
struct divides {
    template <class W> __device__ static bool of(W a, W b, W *y)
    {
        const bool none = std::is_integral_v<W> && b == 0;
        *y = none ? W(0) : quotient(a, b);
        return !none;
    }
};

template <class Op, class T> __global__ void with_dense(td_cuda_entries s)
{
    using W = typename td_cuda_wide<T>::type;
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        int64_t at;
        W y = 0;
        const bool goes = place_of(s, i, &at) &&
                          Op::of(static_cast<W>(td_cuda_load(static_cast<const T *>(s.values)[i])),
                                 static_cast<W>(td_cuda_load(static_cast<const T *>(s.dense)[at])), &y);
        static_cast<T *>(s.y)[i] = td_cuda_store<T>::of(y);
        if (!goes) {
            td_cuda_refuse(s.fault);
        }
    }
}

template <class Op> struct run_with {
    const td_cuda_entries *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const { return td_cuda_over(with_dense<Op, T>, s->n, stream, *s); }
};

/* ------------------------------------------------------------------ places that a map leaves out */

__global__ void fill_keys(int32_t *keys, int64_t m)
{
    for (int64_t i = td_cuda_first(); i < m; i += td_cuda_stride()) {
        keys[i] = 0;
    }
}

__global__ void name_keys(const int64_t *map, int64_t n, int64_t m, int32_t *keys, int32_t *fault)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        if (map[i] < 0 || map[i] >= m) {
            td_cuda_refuse(fault);
        } else {
            (void)atomicExch(keys + map[i], 1);
        }
    }
}

} // namespace

int td_cuda_must_ascend(const int32_t *keys, int64_t n, int32_t *fault, struct td_cuda_stream *stream)
{
    return td_cuda_over(must_ascend, n, stream, keys, n, fault);
}

int td_cuda_entries_with(enum td_cuda_entry_op op, enum td_cuda_type type, const struct td_cuda_entries *s,
                         struct td_cuda_stream *stream)
{
    return op == TD_CUDA_ENTRY_ADD        ? td_cuda_with_number(type, run_with<adds>{s, stream})
           : op == TD_CUDA_ENTRY_MULTIPLY ? td_cuda_with_number(type, run_with<multiplies>{s, stream})
                                          : td_cuda_with_number(type, run_with<divides>{s, stream});
}

int td_cuda_unnamed_keys(const int64_t *map, int64_t n, int64_t m, int32_t *keys, int32_t *fault,
                         struct td_cuda_stream *stream)
{
    const int error = td_cuda_over(fill_keys, m, stream, keys, m);
    return error != 0 ? error : td_cuda_over(name_keys, n, stream, map, n, m, keys, fault);
}
