/* kernels/nn/conv_panels.h - convolutions as one product with weights in panels
 * (kernels/dense/gemm_panels.h):
 *
 *     patches [cells, taps * ic]  x  w [taps * ic, oc]  =  y [cells, oc]
 *
 * Where a convolution has more weights than a second cache holds, and few cells, it waits for the weights:
 * panels fetch them ahead. Of a 1x1 convolution in single steps x is the patches; others are gathered first.
 * (ResNet50's last stage, one image, Sapphire Rapids: 512 to 2048 channels 91 -> 165 GFLOP/s.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_CONV_PANELS_H
#define TD_KERNELS_NN_CONV_PANELS_H

#include "kernels/dense/conv_loops.h"

/* For a row's prepare, of a convolution of floats, channels last: a state for weights [taps.., ic, oc], which
 * are input 1, and the posts that it takes; or a refusal. The state is td_gemm_panels_free's to free. */
TD_MUST enum td_code td_conv_panels_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                          struct td_kernel_offer *o, struct td_err *err);
/* x, y as the convolution has them; posts' operands are c->post_in. On idle threads too. */
TD_MUST enum td_code td_conv_panels_run(const void *state, struct td_call *c, const struct td_conv *g,
                                        const float *x, const struct td_tensor *weights, float *y,
                                        struct td_err *err);

#endif
