/* kernels/cuda/nn/layer_norm.h - launcher of layer_norm.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_LAYER_NORM_H
#define TD_KERNELS_CUDA_NN_LAYER_NORM_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x and y of types `from` and `to`, scale and offset [width] of type `vectors`, or NULL: each of float, half
 * or bfloat16. Of x [.., n, inner] rows have n numbers, `inner` apart; its last axis has `last`, and that of
 * y `width`, as many, or more than one of 1. y is x nowhere. */
struct td_cuda_layer_norm {
    enum td_cuda_type from, to, vectors;
    const void *x, *scale, *offset;
    void *y;
    int64_t rows, n, inner, last, width;
    float epsilon;
    bool centred; /* else by the root of the mean of squares alone */
};
int td_cuda_normalize_rows(const struct td_cuda_layer_norm *l, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
