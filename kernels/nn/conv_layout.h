/* kernels/nn/conv_layout.h - the tensors of a convolution in the type and the layout that its loops have:
 * channels last, half and bfloat16 as floats. Scratch is the call's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_CONV_LAYOUT_H
#define TD_KERNELS_NN_CONV_LAYOUT_H

#include "core/graph/op.h"

/* Cells of an activation: channels, and all spatial positions of one image. */
struct td_conv_image {
    int64_t batch, cells, channels;
};

/* *out: t's elements in that type, channels last. */
TD_MUST enum td_code td_conv_bring(struct td_call *c, enum td_dtype type, const struct td_tensor *t,
                                   struct td_conv_image im, const void **out, struct td_err *err);
/* *out: where the loops write output t: its own bytes when type and layout allow it. */
TD_MUST enum td_code td_conv_room(struct td_call *c, enum td_dtype type, const struct td_tensor *t,
                                  void **out, struct td_err *err);
/* What was written there becomes t. */
TD_MUST enum td_code td_conv_deliver(struct td_call *c, enum td_dtype type, struct td_tensor *t,
                                     struct td_conv_image im, void *from, struct td_err *err);
/* *out: filter t in that type. */
TD_MUST enum td_code td_conv_filter_as(struct td_call *c, enum td_dtype type, const struct td_tensor *t,
                                       const void **out, struct td_err *err);

#endif
