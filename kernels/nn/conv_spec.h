/* kernels/nn/conv_spec.h - from a convolution node's attributes and shapes to struct td_conv.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_CONV_SPEC_H
#define TD_KERNELS_NN_CONV_SPEC_H

#include "kernels/dense/conv_loops.h"

/* Checks the attributes and fills in *g from the shapes of the (forward) input and filter, which may be
 * unknown or partly known: what cannot be told is -1. INVALID_ARGUMENT or UNIMPLEMENTED in TensorFlow's
 * words. */
TD_MUST enum td_code td_conv_spec(const struct td_node *n, const struct td_shape *input,
                                  const struct td_shape *filter, struct td_conv *g, struct td_err *err);
/* Shape of the forward output, in the node's data format. */
struct td_shape td_conv_out_shape(const struct td_node *n, const struct td_conv *g,
                                  const struct td_shape *input);

/* The node's data format, for an op with `spatial` axes. */
struct td_data_layout td_conv_layout(const struct td_node *n);
/* Spatial axes of the node's op: 2 or 3; for Conv, as many as its strides say. */
int td_conv_axes(const struct td_node *n);

/* True when some tensor of the convolution has no elements. */
bool td_conv_empty(const struct td_conv *g);

/* A convolution of two axes that pads in place of the Pad before it. (conv_pad.c) */
td_simplify_fn td_conv_simplify;

/* Convolutions of two axes that make fewer pixels. (conv_stride.c) */
extern const struct td_stride_rule td_conv_stride;

/* Shape functions: of (x, w) -> y; (sizes, w, dy) -> x; (x, sizes, dy) -> w. (conv_infer.c) */
td_infer_fn td_conv_forward_infer, td_conv_input_grad_infer, td_conv_filter_grad_infer;

#endif
