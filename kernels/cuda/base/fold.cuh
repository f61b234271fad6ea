/* kernels/cuda/base/fold.cuh - what neighbouring threads have, made one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_FOLD_CUH
#define TD_KERNELS_CUDA_BASE_FOLD_CUH

#include <limits>

#include "kernels/cuda/base/launch.cuh"

/* What no A is below, and above. */
template <class A>
constexpr A td_cuda_least = std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity()
                                                                 : std::numeric_limits<A>::lowest();
template <class A>
constexpr A td_cuda_most = std::numeric_limits<A>::has_infinity ? std::numeric_limits<A>::infinity()
                                                                : std::numeric_limits<A>::max();

/* f over the v of each GROUP of neighbouring threads (a power of two), in one order whatever the data:
 * on each of them. All threads of the block are there; shared [THREADS] is free again afterwards. */
template <int GROUP, class A, class F> __device__ A td_cuda_fold(A v, A *shared, F f)
{
    const int at = threadIdx.x % GROUP;
    shared[threadIdx.x] = v;
    __syncthreads();
    for (int apart = GROUP / 2; apart > 0; apart /= 2) {
        if (at < apart) {
            shared[threadIdx.x] = f(shared[threadIdx.x], shared[threadIdx.x + apart]);
        }
        __syncthreads();
    }
    v = shared[threadIdx.x - at];
    __syncthreads();
    return v;
}

#endif
