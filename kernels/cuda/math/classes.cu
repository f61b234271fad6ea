/* kernels/cuda/math/classes.cu - classes drawn by their logits: a block cumulates a row's weights, then a
 * thread makes a draw and finds where it lies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/classes.h"

#include "kernels/cuda/base/fold.cuh"

namespace
{

/* Sums of v of this thread and all before it; *all: of the block. shared [2 * THREADS] is free again
 * afterwards. */
__device__ double sum_up_to(double v, double *shared, double *all)
{
    double *from = shared, *to = shared + THREADS;
    from[threadIdx.x] = v;
    __syncthreads();
    for (int apart = 1; apart < THREADS; apart *= 2) {
        const int at = threadIdx.x;
        to[at] = at >= apart ? from[at - apart] + from[at] : from[at];
        __syncthreads();
        double *const swap = from;
        from = to;
        to = swap;
    }
    v = from[threadIdx.x];
    *all = from[THREADS - 1];
    __syncthreads();
    return v;
}

__device__ bool is_number(double v)
{
    return v - v == 0;
}

/* Of exp(logit - greatest); a class whose logit is not finite has no weight. */
template <class T> __global__ void cumulate(td_cuda_classes s)
{
    TD_DYNAMIC_SHARED(double, shared);
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const T *const logits = static_cast<const T *>(s.logits) + row * s.n;
        double top = td_cuda_least<double>, before = 0;
        for (int64_t i = threadIdx.x; i < s.n; i += THREADS) {
            const double v = td_cuda_load(logits[i]);
            top = is_number(v) && v > top ? v : top;
        }
        top = td_cuda_fold<THREADS>(top, shared, [](double a, double b) { return a > b ? a : b; });
        for (int64_t from = 0; from < s.n; from += THREADS) {
            const int64_t i = from + threadIdx.x;
            const double v = i < s.n ? static_cast<double>(td_cuda_load(logits[i])) : td_cuda_least<double>;
            double all;
            const double sum = sum_up_to(is_number(v) ? exp(v - top) : 0, shared, &all);
            if (i < s.n) {
                s.sums[row * s.n + i] = before + sum;
            }
            before += all;
        }
    }
}

/* The first class whose sum is above v, or n. */
__device__ int64_t first_above(const double *sums, int64_t n, double v)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const bool is_above = sums[middle] > v;
        high = is_above ? middle : high;
        low = is_above ? low : middle + 1;
    }
    return low;
}

__global__ void draw(td_cuda_classes s)
{
    for (int64_t i = td_cuda_first(); i < s.rows * s.draws; i += td_cuda_stride()) {
        const double *const sums = s.sums + i / s.draws * s.n;
        const int at = static_cast<int>(i % 2) * 2;
        struct td_philox g = s.g;
        uint32_t words[4];
        td_philox_skip(&g, static_cast<uint64_t>(i / 2));
        td_philox_next(&g, words);
        const double v = td_philox_double(words[at], words[at + 1]) * sums[s.n - 1];
        const int64_t found = first_above(sums, s.n, v);
        if (s.wide) {
            static_cast<int64_t *>(s.y)[i] = found;
        } else {
            static_cast<int32_t *>(s.y)[i] = static_cast<int32_t>(found);
        }
    }
}

struct run_cumulate {
    const td_cuda_classes *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_blocks_of<THREADS>(cumulate<T>, s->rows, 2 * THREADS * sizeof(double), stream, *s);
    }
};

} // namespace

int td_cuda_draw_classes(enum td_cuda_type type, const struct td_cuda_classes *s,
                         struct td_cuda_stream *stream)
{
    const int error = td_cuda_with_float(type, run_cumulate{s, stream});
    return error != 0 ? error : td_cuda_over(draw, s->rows * s->draws, stream, *s);
}
