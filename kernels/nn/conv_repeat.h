/* kernels/nn/conv_repeat.h - depthwise convolutions with a few results a channel, of floats, channels last.
 *
 *     x [.., C] -> each channel M times -> [.., C * M]   depthwise with w [kh,kw,C,M] -> y [.., C * M]
 *
 * oneDNN's depthwise kernels want one result a channel; what has several is a convolution in groups to it, of
 * one channel each, which takes up to nine times as long (64 channels, 2 results, 7x7: 129 -> 15 us for eight
 * images; 8 channels at 14x14, 32 images: 133 -> 43. Sapphire Rapids). From five results on, or with few
 * channels, its groups are as fast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_CONV_REPEAT_H
#define TD_KERNELS_NN_CONV_REPEAT_H

#include "kernels/nn/conv_spec.h"

/* For a row's prepare: a state of td_dnnl. Refuses others, and, unless rows are tried, those. */
TD_MUST enum td_code td_conv_repeat_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                          struct td_kernel_offer *o, struct td_err *err);
TD_MUST enum td_code td_conv_repeat_run(const void *state, struct td_call *c, const struct td_conv *g,
                                        const float *x, const struct td_tensor *weights, float *y,
                                        struct td_err *err);

#endif
