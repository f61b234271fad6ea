/* kernels/cuda/base/cudnn_api.h - the part of cuDNN's interface (version 9) that is used, as plain C: it is
 * looked up in the library when that is opened, so that neither NVIDIA's headers nor the library are wanted
 * for a build. Where the headers are, tests/host_cuda/library_api.cc holds this against them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUDNN_API_H
#define TD_KERNELS_CUDA_BASE_CUDNN_API_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NVIDIA's numbers. */
enum { TD_CUDNN_FLOAT = 0, TD_CUDNN_HALF = 2, TD_CUDNN_BFLOAT16 = 9 };
enum { TD_CUDNN_NHWC = 1, TD_CUDNN_CROSS_CORRELATION = 1, TD_CUDNN_DETERMINISTIC = 1 };
enum { TD_CUDNN_DEFAULT_MATH = 0, TD_CUDNN_TENSOR_OP_MATH = 1, TD_CUDNN_FMA_MATH = 3 };
enum { TD_CUDNN_RELU = 1, TD_CUDNN_IDENTITY = 5, TD_CUDNN_NOT_PROPAGATE_NAN = 0 };
enum { TD_CUDNN_IMPLICIT_PRECOMP_GEMM = 1 }; /* of the forward algorithms */
enum {
    TD_CUDNN_SUCCESS = 0,
    TD_CUDNN_BAD_PARAM = 2000,
    TD_CUDNN_NOT_SUPPORTED = 3000,
    TD_CUDNN_NO_HOST_MEMORY = 4003
};

/* What a heuristic says of one algorithm, best first. */
struct td_cudnn_found {
    int algo, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
};

struct td_cudnn_api {
#define CALL(type, name, parameters) type(*name) parameters;
#include "kernels/cuda/base/cudnn_api.def"
};

#ifdef __cplusplus
}
#endif
#endif
