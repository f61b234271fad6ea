/* kernels/cuda/nn/softmax.h - launcher of softmax.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_SOFTMAX_H
#define TD_KERNELS_CUDA_NN_SOFTMAX_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y [rows,n] floats; y may be x. */
int td_cuda_softmax(enum td_cuda_type type, bool logarithm, const void *x, void *y, int64_t rows, int64_t n,
                    struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
