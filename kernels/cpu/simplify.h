/* kernels/cpu/simplify.h - what the ops' simplify rules (td_simplify_fn, core/graph/op.h) are made of.
 *
 * Floats keep their last bit: x + 0 stays, since -0 + 0 is 0; x / 3 is not x * (1/3); complex numbers are
 * left alone, since (a + bi) * 1 adds a zero. A constant operand may not widen the result: it is a scalar, or
 * x's rank and shape are known to cover it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_SIMPLIFY_H
#define TD_KERNELS_CPU_SIMPLIFY_H

#include "core/graph/emit.h"

enum td_side { TD_LEFT = 1, TD_RIGHT = 2, TD_EITHER = 3 };

/* f(x, c): x, when the operand on one of the sides is a constant that is `value` (a zero: of its sign, in
 * floats) in each element, and does not widen x. */
struct td_value td_without(const struct td_emitter *e, const struct td_node *n, enum td_side sides,
                           double value);
/* Whether v is such a constant beside x. */
bool td_is_all(const struct td_emitter *e, struct td_value v, double value, struct td_value x);

td_simplify_fn td_simplify_undone;   /* f(f(x)) is x */
td_simplify_fn td_simplify_repeated; /* f(f(x)) is f(x) */
td_simplify_fn td_simplify_sum;      /* x + 0, of integers; x + (-0), of floats */
td_simplify_fn td_simplify_or;       /* x | 0, on either side */
td_simplify_fn td_simplify_quotient; /* x / 1 */
td_simplify_fn td_simplify_less;     /* x - 0, x << 0 */

#endif
