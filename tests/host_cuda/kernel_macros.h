/* tests/host_cuda/kernel_macros.h - the two things that a .cu source cannot say in one way to nvcc and to the
 * host's compiler.
 *
 *   TD_DYNAMIC_SHARED(float, tile);    in a kernel: float *tile, the launch's dynamic shared memory
 *   TD_KERNEL(k)                       the kernel as a const void *, for tables and for cudaLaunchKernel
 *
 * The memory is aligned to 16 bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_KERNEL_MACROS_H
#define TD_TESTS_HOST_CUDA_KERNEL_MACROS_H

#include <cuda_runtime.h>

#ifdef __CUDACC__
extern __shared__ __align__(16) unsigned char td_dynamic_shared_bytes[];
#define TD_DYNAMIC_SHARED(T, name) T *const name = reinterpret_cast<T *>(td_dynamic_shared_bytes)
#define TD_KERNEL(k) reinterpret_cast<const void *>(k)
#else
#define TD_DYNAMIC_SHARED(T, name) T *const name = static_cast<T *>(host_cuda::dynamic_shared())
#define TD_KERNEL(k) host_cuda::known(k)
#endif

#endif
