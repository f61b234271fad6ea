/* kernels/cuda/base/sums.cuh - sums over the threads of a block that stand before one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_SUMS_CUH
#define TD_KERNELS_CUDA_BASE_SUMS_CUH

#include "kernels/cuda/base/launch.cuh"

/* The sum of v over the threads before this one; *all: over all of them. shared [THREADS] is free again
 * afterwards. All threads of the block are there. */
__device__ inline int32_t td_cuda_sum_before(int32_t v, int32_t *shared, int32_t *all)
{
    shared[threadIdx.x] = v;
    __syncthreads();
    for (int apart = 1; apart < THREADS; apart *= 2) {
        const int t = threadIdx.x;
        const int32_t more = t >= apart ? shared[t - apart] : 0;
        __syncthreads();
        shared[t] += more;
        __syncthreads();
    }
    const int32_t until = shared[threadIdx.x];
    *all = shared[THREADS - 1];
    __syncthreads();
    return until - v;
}

#endif
