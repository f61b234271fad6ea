/* kernels/cuda/base/conv_sizes.h - what a convolution or a pool is of, for our own kernels and for cuDNN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CONV_SIZES_H
#define TD_KERNELS_CUDA_BASE_CONV_SIZES_H

#include "kernels/cuda/base/posts.h"
#include "kernels/cuda/base/runtime.h"

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
    struct td_cuda_posts posts; /* of the forward one, not of double */
};

#endif
