/* core/compile/groups.h - several nodes become the one node that can stand for them: what the passes
 * attention and norm do, each with the op of one role, whose rule knows such a group when it sees it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_GROUPS_H
#define TD_CORE_COMPILE_GROUPS_H

#include "core/compile/ir.h"
#include "core/graph/op.h"

/* Asks the group_rule of the op of that role about every node, in order, and puts the nodes that it makes
 * in the place of the last of their groups. Where the model has a device, groups stay as they are unless
 * the device runs the op. m may be NULL, as a pass's. */
TD_MUST enum td_code td_groups_replace(struct td_ir *ir, struct td_model *m, enum td_op_role role,
                                       struct td_err *err);

#endif
