/* kernels/cuda/nn/dilation.h - launchers of dilation.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_DILATION_H
#define TD_KERNELS_CUDA_NN_DILATION_H

#include "kernels/cuda/base/conv_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [batch, in.., channels]  filter [k.., channels]  y [batch, out.., channels]: y = max over taps of x +
 * filter, of floats; cells outside do not count. The first axis has size 1. */
struct td_cuda_dilation {
    int64_t batch, channels;
    struct td_cuda_axis axis[3];
    const void *x, *filter;
};
int td_cuda_dilate(enum td_cuda_type type, const struct td_cuda_dilation *s, void *y,
                   struct td_cuda_stream *stream);
/* keys[i] = which element of x, or of the filter, y's element i came from: the first that is as great. */
int td_cuda_dilation_keys(enum td_cuda_type type, const struct td_cuda_dilation *s, bool of_filter,
                          int32_t *keys, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
