/* kernels/nn/conv_grad.h - gradients of the ops in conv.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_CONV_GRAD_H
#define TD_KERNELS_NN_CONV_GRAD_H

#include "core/grad/grad.h"

void td_conv_grad(struct td_grad *g);           /* (input, filter): Conv2D, Conv3D, DepthwiseConv2dNative */
void td_conv_to_input_grad(struct td_grad *g);  /* (input_sizes, filter, out_backprop) */
void td_conv_to_filter_grad(struct td_grad *g); /* (input, filter_sizes, out_backprop) */

#endif
