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
    TD_CUDNN_NO_HOST_MEMORY = 4003,
    TD_CUDNN_EXECUTION_FAILED = 5000
};

/* Of the graph interface: kinds of descriptors. */
enum {
    TD_CUDNN_ENGINE = 2,
    TD_CUDNN_CONFIG = 3,
    TD_CUDNN_HEUR = 4,
    TD_CUDNN_PLAN = 5,
    TD_CUDNN_GRAPH = 15,
    TD_CUDNN_PACK = 16,
    TD_CUDNN_TENSOR = 17,
    TD_CUDNN_SDPA_FORWARD = 41
};
/* Of the graph interface: their attributes. */
enum {
    TD_CUDNN_HEUR_MODE = 200,
    TD_CUDNN_HEUR_GRAPH = 201,
    TD_CUDNN_HEUR_RESULTS = 202,
    TD_CUDNN_CONFIG_ENGINE = 300,
    TD_CUDNN_PLAN_HANDLE = 400,
    TD_CUDNN_PLAN_CONFIG = 401,
    TD_CUDNN_PLAN_WORKSPACE = 402,
    TD_CUDNN_GRAPH_HANDLE = 800,
    TD_CUDNN_GRAPH_OPS = 801,
    TD_CUDNN_TENSOR_BYTE_ALIGNMENT = 900,
    TD_CUDNN_TENSOR_DATA_TYPE = 901,
    TD_CUDNN_TENSOR_DIMENSIONS = 902,
    TD_CUDNN_TENSOR_STRIDES = 903,
    TD_CUDNN_TENSOR_UNIQUE_ID = 906,
    TD_CUDNN_TENSOR_IS_BY_VALUE = 908,
    TD_CUDNN_PACK_UNIQUE_IDS = 1000,
    TD_CUDNN_PACK_POINTERS = 1001,
    TD_CUDNN_PACK_WORKSPACE = 1003,
    TD_CUDNN_ENGINE_NOTES = 1303,
    TD_CUDNN_SDPA_Q = 2800,
    TD_CUDNN_SDPA_K = 2801,
    TD_CUDNN_SDPA_V = 2802,
    TD_CUDNN_SDPA_O = 2803,
    TD_CUDNN_SDPA_SCALE = 2805
};
/* Of the graph interface: what an attribute is made of. */
enum {
    TD_CUDNN_TYPE_HANDLE = 0,
    TD_CUDNN_TYPE_DATA_TYPE = 1,
    TD_CUDNN_TYPE_BOOLEAN = 2,
    TD_CUDNN_TYPE_INT64 = 3,
    TD_CUDNN_TYPE_POINTER = 6,
    TD_CUDNN_TYPE_HEUR_MODE = 8,
    TD_CUDNN_TYPE_NOTE = 11,
    TD_CUDNN_TYPE_DESCRIPTOR = 15
};
enum { TD_CUDNN_HEUR_MODE_A = 3, TD_CUDNN_NONDETERMINISTIC = 4 }; /* a mode; a numerical note */

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
