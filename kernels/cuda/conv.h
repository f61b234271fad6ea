/* kernels/cuda/conv.h - launchers of conv.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_CONV_H
#define TD_KERNELS_CUDA_CONV_H

#include <stdbool.h>

#include "kernels/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Window o of an axis covers o * stride - before + t * dilation for t in [0, k). */
struct td_cuda_axis {
    int64_t in, k, stride, dilation, out, before;
};
/* Where a tensor's cells lie, in elements. */
struct td_cuda_cells {
    int64_t batch, axis[3], channel;
};
/* x [batch, in.., ic]  w [k.., ic/groups, oc]  y [batch, out.., oc], in the order that the cells say but for
 * w, which is row-major. Fewer than three axes: the leading ones have size 1. */
struct td_cuda_conv {
    int64_t batch, ic, oc, groups;
    struct td_cuda_axis axis[3];
    struct td_cuda_cells x, y;
};
/* The result, and the gradients of x and w from dy. half and bfloat16 are summed in float. */
int td_cuda_conv_forward(enum td_cuda_type type, const struct td_cuda_conv *s, const void *x, const void *w,
                         void *y, struct td_cuda_stream *stream);
int td_cuda_conv_input(enum td_cuda_type type, const struct td_cuda_conv *s, const void *w, const void *dy,
                       void *dx, struct td_cuda_stream *stream);
int td_cuda_conv_filter(enum td_cuda_type type, const struct td_cuda_conv *s, const void *x, const void *dy,
                        void *dw, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
