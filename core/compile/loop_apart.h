/* core/compile/loop_apart.h - in the body of a loop, products of an element of a list side by side with
 * something else.
 *
 *   MatMul([x | h], W)    becomes    MatMul(x, W_x) + MatMul(h, W_h)
 *
 * so that the first can be made of all elements at once, before the loop (core/compile/pass_hoist.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_LOOP_APART_H
#define TD_CORE_COMPILE_LOOP_APART_H

#include "core/compile/ir.h"

/* of: by node of the body, the tensor of the graph around the loop that it is a slice of; no node: of none.
 * The body is sorted, before and after. around: shapes of that graph. */
TD_MUST enum td_code td_loop_take_apart(struct td_ir *body, const struct td_ir_shapes *around,
                                        const struct td_value *of, const struct td_op_table *ops,
                                        struct td_err *err);
/* A shape as an op that makes or reads a list wants it. */
struct td_value td_loop_element_shape(struct td_emitter *e, const struct td_shape *s);

#endif
