/* kernels/cuda/base/exact.cuh - arithmetic that is rounded step by step, as the host's is: nvcc joins a
 * product and a sum into one operation otherwise, which moves a coordinate across a whole number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_EXACT_CUH
#define TD_KERNELS_CUDA_BASE_EXACT_CUH

#ifdef __CUDACC__
__device__ inline float td_cuda_times(float a, float b)
{
    return __fmul_rn(a, b);
}
__device__ inline double td_cuda_times(double a, double b)
{
    return __dmul_rn(a, b);
}
#else
inline float td_cuda_times(float a, float b)
{
    return a * b;
}
inline double td_cuda_times(double a, double b)
{
    return a * b;
}
#endif

#endif
