/* kernels/cuda/nn/conv.h - launchers of conv.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_CONV_H
#define TD_KERNELS_CUDA_NN_CONV_H

#include "kernels/cuda/base/conv_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

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
