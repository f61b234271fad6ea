/* core/compile/array_lists.h - arrays that loops of TF1 graphs fill and read become lists, which are values.
 *
 *   TensorArray --handle--> Enter --> Read(handle, i, order)       order: handed from op to op
 *
 *   becomes
 *
 *   list --> Enter --> Item(list, i)                               where the order went, the list goes
 *
 * Passes that look into loops (core/compile/pass_hoist.c) then see what is read and written in each round.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_ARRAY_LISTS_H
#define TD_CORE_COMPILE_ARRAY_LISTS_H

#include "core/compile/ir.h"

/* Before loops are lifted. Arrays of which an op's row (td_op.array) does not know all uses stay. */
TD_MUST enum td_code td_array_lists(struct td_ir *ir, struct td_model *m, struct td_err *err);

#endif
