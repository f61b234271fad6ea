/* kernels/dense/low.h - products in a lower precision than their tensors have.
 *
 *     y = x * w       x, y of float; what is multiplied is x and w rounded; sums are exact or of floats
 *
 *   bfloat16   both operands rounded to bfloat16, half to even
 *   int8       x to whole steps of one size, from the range that node attributes give: in 0 .. 255 where it
 *              is never negative, else in -127 .. 127. w to -127 .. 127 steps, of a size a column (output
 *              channel), that follows from the column's largest. Sums are whole numbers, times both steps.
 *              Values outside of the range become its ends, NaN becomes 0
 *
 * A node asks for it by attributes that core/compile/pass_precision.c gave it. A kernel row that refuses
 * leaves the node to the next, which computes in float: what is asked for is a leave, not a duty.
 *
 * The step of a sum, of x and w both:   y[c] = step_x * step_w[c] * sum_i qx[i] qw[i, c]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_LOW_H
#define TD_KERNELS_CPU_LOW_H

#include "core/graph/graph.h"

enum td_low_kind { TD_LOW_NONE, TD_LOW_BFLOAT16, TD_LOW_INT8 };
struct td_low {
    enum td_low_kind kind;
    float step;    /* of x, of INT8 */
    bool negative; /* x may be */
};

/* Of a node without the attributes, or with a range that is none or nothing but 0, kind NONE. */
struct td_low td_low_of(const struct td_node *n);
/* Why no product is computed so, or NULL. */
const char *td_low_refusal(const struct td_low *low);
/* Bytes of an element of x once it is rounded. */
size_t td_low_bytes(const struct td_low *low);
/* to[i] = x[i] rounded, for n elements: bfloat16, uint8_t or, where it may be negative, int8_t. Idle threads
 * help. */
void td_low_round(const struct td_call *c, const struct td_low *low, const float *x, int64_t n, void *to);
/* Steps that weights are rounded to, upwards from 0, on this processor: 127, or 63 where it adds two products
 * in 16 bits, which more would overflow. There oneDNN itself halves those that meet signed bytes. */
int td_low_levels(bool negative);
/* Whether this processor has instructions for products of matrices of signed bytes. */
bool td_low_signed(void);
#define TD_LOW_SIGNED_REFUSAL "products of signed bytes are slow on this processor"

#endif
