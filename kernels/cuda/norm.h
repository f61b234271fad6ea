/* kernels/cuda/norm.h - launcher of norm.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NORM_H
#define TD_KERNELS_CUDA_NORM_H

#include "kernels/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y [outer, channels, inner]; the others [channels], floats whatever the type:
 * y = (x - mean) * scale / sqrt(variance + epsilon) + offset. */
struct td_cuda_norm {
    int64_t outer, channels, inner;
    float epsilon;
    const void *scale, *offset, *mean, *variance;
};
int td_cuda_norm_given(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x, void *y,
                       struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
