/* kernels/dense/winograd.h - convolutions of 3x3 windows with fewer multiplications: Winograd's F(4x4, 3x3).
 *
 * 4x4 cells of the result and the 6x6 cells of the input below them are a tile. With fixed small matrices
 * B, G, A the tile is
 *
 *     Y = A^T [ sum over channels of (G w G^T) . (B^T x B) ] A          (. element by element)
 *
 * so 36 products [tiles,ic] * [ic,oc] take the place of 9 on 16 cells each: a quarter of the multiplications.
 * Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015); the points of interpolation are
 * 0, +-sqrt(1/2), +-sqrt(2) and infinity, whose matrices are better conditioned than those of 0, +-1, +-2.
 *
 * Numbers are rounded after sums of up to six; the error is some times that of a direct convolution (unit
 * test: 1e-5 of the largest value at most). A tile in which something is not finite is computed directly,
 * so that infinities and NaN come out where they belong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_WINOGRAD_H
#define TD_KERNELS_CPU_WINOGRAD_H

#include "kernels/dense/conv_loops.h"

/* For a row's prepare, of a convolution of floats, channels last: a state for weights [3,3,ic,oc], which are
 * input 1, and the posts that it takes; or a refusal, where it is no such convolution, or would not be
 * faster. */
TD_MUST enum td_code td_winograd_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                       struct td_kernel_offer *o, struct td_err *err);
/* x, y as the convolution has them; posts' operands are c->post_in. On idle threads too: where it is cut does
 * not matter to a bit of the result. */
TD_MUST enum td_code td_winograd_run(const void *state, struct td_call *c, const float *x,
                                     const struct td_tensor *weights, float *y, struct td_err *err);
void td_winograd_free(void *state);

#endif
