/* kernels/cuda/base/border.h - launchers of border.cu: pictures, channels last, get a border of zeros, or
 * lose one. They return CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_BORDER_H
#define TD_KERNELS_CUDA_BASE_BORDER_H

#include <stddef.h>

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [batch, h, w, channels], and where it begins in the larger one, [batch, tall, wide, channels]. */
struct td_cuda_border {
    int64_t batch, h, w, channels;
    int64_t top, left, tall, wide;
};
/* Elements of 2, 4 or 8 bytes; both begin at multiples of 16 bytes. The larger one is y; then x. */
int td_cuda_border_add(size_t bytes, const struct td_cuda_border *s, const void *x, void *y,
                       struct td_cuda_stream *stream);
int td_cuda_border_cut(size_t bytes, const struct td_cuda_border *s, const void *x, void *y,
                       struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
