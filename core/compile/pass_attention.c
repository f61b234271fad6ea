/* core/compile/pass_attention.c - attention becomes one node: scores = q k', scaled and masked, their
 * softmax, and the sum of v that it weighs.
 *
 *   q, k -> BatchMatMul -> Mul -> AddV2 (mask) -> Softmax -> BatchMatMul (v) -> Transpose     one step
 *
 * Nodes that ask for the shape of something in between do not keep it: the rule has them ask others.
 *
 * What such a group of nodes looks like is the business of the rule in the row of role ATTENTION
 * (kernels/linalg/attention_match.c), which is asked about every node (core/compile/groups.h). The scores
 * are as large as all else together: the one node never has them in memory as a whole.
 *
 * Invariant (td_pass_check): a value of the group that is fetched, a root, the source of a control edge or
 * read from outside is its last one; what that is, is equal up to rounding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/groups.h"
#include "core/compile/passes.h"

enum td_code td_pass_attention(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    return td_groups_replace(ir, m, TD_ROLE_ATTENTION, err);
}
