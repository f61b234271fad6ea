/* kernels/cuda/base/nccl_api.h - the part of NCCL's interface that is used, as plain C (cublaslt_api.h says
 * why). Where NVIDIA's header is, tests/host_cuda/library_api.cc holds this against it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_NCCL_API_H
#define TD_KERNELS_CUDA_BASE_NCCL_API_H

#include <stddef.h>

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NVIDIA's numbers. */
enum { TD_NCCL_FLOAT = 7, TD_NCCL_DOUBLE = 8 };
enum { TD_NCCL_SUM = 0 };
enum {
    TD_NCCL_SUCCESS = 0,
    TD_NCCL_SYSTEM_ERROR = 2,
    TD_NCCL_INVALID_ARGUMENT = 4,
    TD_NCCL_INVALID_USAGE = 5,
    TD_NCCL_REMOTE_ERROR = 6
};
enum { TD_NCCL_ID_BYTES = 128 };

struct td_nccl_id {
    char bytes[TD_NCCL_ID_BYTES];
};

struct td_nccl_api {
#define CALL(type, name, parameters) type(*name) parameters;
#include "kernels/cuda/base/nccl_api.def"
};

#ifdef __cplusplus
}
#endif
#endif
