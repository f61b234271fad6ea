/* core/compile/ir_shapes.h - what can be told of the shapes of an IR's values before any input is seen.
 *
 * One walk in topological order calls each op's shape function with the shapes and constants known so far.
 * Feeds have unknown shapes: a plan serves them all. Variables have their declared shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_IR_SHAPES_H
#define TD_CORE_COMPILE_IR_SHAPES_H

#include "core/compile/ir.h"

/* The IR must be sorted. *s is freed by td_ir_shapes_fini. */
TD_MUST enum td_code td_ir_shapes_init(const struct td_ir *ir, struct td_ir_shapes *s, struct td_err *err);
void td_ir_shapes_fini(struct td_ir_shapes *s);
/* The same for passes that only read them: kept with the graph until it changes. Borrowed.
 * td_ir_shapes_fini(&ir->shapes) in the end. */
TD_MUST enum td_code td_ir_shapes_now(struct td_ir *ir, const struct td_ir_shapes **out, struct td_err *err);
/* Borrowed until fini. Nodes and outputs added since are unknown. */
const struct td_shape *td_ir_shape(const struct td_ir_shapes *s, struct td_value v);

#endif
