/* kernels/cuda/math/search.cu - where values lie among ascending ones: a thread a value, by halving.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/search.h"

#include <type_traits>

#include "kernels/cuda/base/launch.cuh"

namespace
{

/* The first of n places where is_behind is false, true being before false. */
template <class F> __device__ int64_t first_not(int64_t n, F is_behind)
{
    int64_t low = 0;
    while (n > 0) {
        const int64_t half = n / 2;
        const bool right = is_behind(low + half);
        low += right ? half + 1 : 0;
        n = right ? n - half - 1 : half;
    }
    return low;
}

template <class T> __global__ void bound(td_cuda_bound s)
{
    for (int64_t i = td_cuda_first(); i < s.rows * s.m; i += td_cuda_stride()) {
        const T *const row = static_cast<const T *>(s.sorted) + i / s.m * s.n;
        const auto v = td_cuda_load(static_cast<const T *>(s.values)[i]);
        const int64_t at = first_not(s.n, [&](int64_t k) {
            const auto w = td_cuda_load(row[k]);
            return s.upper ? !(v < w) : w < v;
        });
        if (s.wide) {
            static_cast<int64_t *>(s.y)[i] = at;
        } else {
            static_cast<int32_t *>(s.y)[i] = static_cast<int32_t>(at);
        }
    }
}

/* Integers are compared as floats. */
template <class T> __global__ void buckets(td_cuda_buckets s)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const W v = static_cast<W>(static_cast<const T *>(s.x)[i]);
        s.y[i] = static_cast<int32_t>(
            first_not(s.n_boundaries, [&](int64_t k) { return !(v < static_cast<W>(s.boundary[k])); }));
    }
}

struct run_bound {
    const td_cuda_bound *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const { return td_cuda_over(bound<T>, s->rows * s->m, stream, *s); }
};

struct run_buckets {
    const td_cuda_buckets *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const { return td_cuda_over(buckets<T>, s->n, stream, *s); }
};

} // namespace

int td_cuda_bound_of(enum td_cuda_type type, const struct td_cuda_bound *s, struct td_cuda_stream *stream)
{
    return td_cuda_with_real(type, run_bound{s, stream});
}

int td_cuda_bucketize(enum td_cuda_type type, const struct td_cuda_buckets *s, struct td_cuda_stream *stream)
{
    switch (type) {
    case TD_CUDA_INT32:
        return run_buckets{s, stream}(int32_t());
    case TD_CUDA_INT64:
        return run_buckets{s, stream}(int64_t());
    default:
        return td_cuda_with_wide(type, run_buckets{s, stream});
    }
}
