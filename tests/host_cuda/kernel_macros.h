/* tests/host_cuda/kernel_macros.h - kernels/cuda/base/launch.cuh, and a kernel in a table.
 *
 *   TD_KERNEL(k)      the kernel as a const void *, for tables and for cudaLaunchKernel
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_KERNEL_MACROS_H
#define TD_TESTS_HOST_CUDA_KERNEL_MACROS_H

#include "kernels/cuda/base/launch.cuh"

#ifdef __CUDACC__
#define TD_KERNEL(k) reinterpret_cast<const void *>(k)
#else
#define TD_KERNEL(k) host_cuda::known(k)
#endif

#endif
