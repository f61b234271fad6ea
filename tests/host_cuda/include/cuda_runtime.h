/* tests/host_cuda/include/cuda_runtime.h - the name under which the .cu sources ask for CUDA; the host build
 * finds this one first. What it is and how it is set: tests/host_cuda/host_cuda.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_CUDA_RUNTIME_H
#define HOST_CUDA_CUDA_RUNTIME_H

#include "host_cuda/runtime_api.h"
#include "host_cuda/kernel_call.h"
#include "host_cuda/device_code.h"
#include "host_cuda/device_atomics.h"
#include "host_cuda/device_math.h"

#endif
