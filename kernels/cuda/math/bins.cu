/* kernels/cuda/math/bins.cu - counts of values, a thread a value. Counts are integers: in which order they
 * are raised makes no difference.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/bins.h"

#include <type_traits>

#include "kernels/cuda/base/lines.cuh"

namespace
{

/* -1: none. */
__device__ int64_t bin_of(const td_cuda_bins &s, int64_t i)
{
    const int64_t v = td_cuda_index_at(s.values, i);
    if (v < 0) {
        td_cuda_refuse(s.fault);
    }
    return v < 0 || v >= s.size ? -1 : i / s.length * s.size + v;
}

__global__ void make_keys(td_cuda_bins s, int32_t most, int32_t *keys)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t bin = bin_of(s, i);
        keys[i] = bin < 0 ? most : static_cast<int32_t>(bin);
    }
}

__global__ void count(td_cuda_bins s, int32_t *counts)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t bin = bin_of(s, i);
        if (bin >= 0) {
            (void)atomicAdd(counts + bin, 1);
        }
    }
}

/* How far v is above low, as T subtracts floats. */
template <class T> __device__ double above(double v, double low)
{
    const double by = (v > low ? v : low) - low;
    return sizeof(T) == sizeof(float) && std::is_floating_point_v<T>
               ? static_cast<double>(static_cast<float>(by))
               : by;
}

template <class T> __global__ void histogram(td_cuda_histogram s, int32_t *counts)
{
    const double low = static_cast<double>(static_cast<const T *>(s.range)[0]);
    const double high = static_cast<double>(static_cast<const T *>(s.range)[1]);
    const double step = (high - low) / static_cast<double>(s.bins);
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const double v = static_cast<double>(static_cast<const T *>(s.x)[i]);
        if (!(low < high) || v != v) {
            td_cuda_refuse(s.fault);
            continue;
        }
        const double at = above<T>(v, low) / step;
        const int64_t bin = at < static_cast<double>(s.bins) ? static_cast<int64_t>(at) : s.bins - 1;
        (void)atomicAdd(counts + bin, 1);
    }
}

template <class T> __global__ void deliver(const int32_t *counts, bool binary, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = static_cast<T>(binary && counts[i] != 0 ? 1 : counts[i]);
    }
}

struct run_histogram {
    const td_cuda_histogram *s;
    int32_t *counts;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(histogram<T>, s->n, stream, *s, counts);
    }
};

struct run_deliver {
    const int32_t *counts;
    bool binary;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(deliver<T>, n, stream, counts, binary, static_cast<T *>(y), n);
    }
};

/* Float, double, int32 and int64. */
template <class F> int with_native(int type, F f)
{
    return type == TD_CUDA_INT32   ? f(int32_t())
           : type == TD_CUDA_INT64 ? f(int64_t())
                                   : td_cuda_with_wide(type, f);
}

} // namespace

int td_cuda_bin_keys(const struct td_cuda_bins *s, int32_t most, int32_t *keys, struct td_cuda_stream *stream)
{
    return td_cuda_over(make_keys, s->n, stream, *s, most, keys);
}

int td_cuda_bin_counts(const struct td_cuda_bins *s, int32_t *counts, struct td_cuda_stream *stream)
{
    return td_cuda_over(count, s->n, stream, *s, counts);
}

int td_cuda_histogram_counts(enum td_cuda_type type, const struct td_cuda_histogram *s, int32_t *counts,
                             struct td_cuda_stream *stream)
{
    return with_native(type, run_histogram{s, counts, stream});
}

int td_cuda_counts_to(enum td_cuda_type type, const int32_t *counts, bool binary, void *y, int64_t n,
                      struct td_cuda_stream *stream)
{
    return with_native(type, run_deliver{counts, binary, y, n, stream});
}
