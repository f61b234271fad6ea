/* kernels/cuda/base/cublaslt_api.h - the part of cuBLASLt's interface that is used, as plain C: it is looked
 * up in the library when that is opened, so that neither NVIDIA's headers nor the library are wanted for a
 * build. Where the headers are, tests/host_cuda/library_api.cc holds this against them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CUBLASLT_API_H
#define TD_KERNELS_CUDA_BASE_CUBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NVIDIA's numbers. */
enum { TD_CUBLASLT_R_32F = 0, TD_CUBLASLT_R_64F = 1, TD_CUBLASLT_R_16F = 2, TD_CUBLASLT_R_16BF = 14 };
enum { TD_CUBLASLT_COMPUTE_32F = 68, TD_CUBLASLT_COMPUTE_64F = 70, TD_CUBLASLT_COMPUTE_32F_FAST_TF32 = 77 };
enum { TD_CUBLASLT_OP_N = 0, TD_CUBLASLT_OP_T = 1 };
enum { TD_CUBLASLT_SUCCESS = 0, TD_CUBLASLT_ALLOC_FAILED = 3, TD_CUBLASLT_NOT_SUPPORTED = 15 };
enum {
    TD_CUBLASLT_DESC_TRANSA = 3,
    TD_CUBLASLT_DESC_TRANSB = 4,
    TD_CUBLASLT_DESC_EPILOGUE = 7,
    TD_CUBLASLT_DESC_BIAS_POINTER = 8
};
enum { TD_CUBLASLT_LAYOUT_BATCH_COUNT = 5, TD_CUBLASLT_LAYOUT_BATCH_OFFSET = 6 };
enum {
    TD_CUBLASLT_PREF_MAX_WORKSPACE_BYTES = 1,
    TD_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    TD_CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    TD_CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    TD_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum {
    TD_CUBLASLT_EPILOGUE_DEFAULT = 1,
    TD_CUBLASLT_EPILOGUE_RELU = 2,
    TD_CUBLASLT_EPILOGUE_BIAS = 4,
    TD_CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    TD_CUBLASLT_EPILOGUE_GELU = 32,
    TD_CUBLASLT_EPILOGUE_GELU_BIAS = 36
};

struct td_cublaslt_algo {
    uint64_t data[8];
};
struct td_cublaslt_found {
    struct td_cublaslt_algo algo;
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

struct td_cublaslt_api {
#define CALL(type, name, parameters) type(*name) parameters;
#include "kernels/cuda/base/cublaslt_api.def"
};

#ifdef __cplusplus
}
#endif
#endif
