/* tests/host_cuda/run_kernels.h - what the .cu tests share: a check of CUDA's calls, and arrays that are
 * freed with their scope.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_RUN_KERNELS_H
#define TD_TESTS_HOST_CUDA_RUN_KERNELS_H

#include <cuda_runtime.h>

#include "tests/test.h"

#include <vector>

/* By name, so that a failure says which error it was. */
#define CHECK_CUDA(call) CHECK_STR(cudaGetErrorName(call), "cudaSuccess")
#define CHECK_ERROR(call, want) CHECK_STR(cudaGetErrorName(call), #want)

template <class T> T *new_array(size_t n)
{
    T *at = nullptr;
    CHECK_CUDA(cudaMalloc(&at, n * sizeof(T)));
    return at;
}

template <class T> T *new_array_of(const std::vector<T> &values)
{
    T *const at = new_array<T>(values.size());
    CHECK_CUDA(cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return at;
}

/* Waits for all work on the device. */
template <class T> std::vector<T> read_array(const T *at, size_t n)
{
    std::vector<T> values(n);
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(values.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

#endif
