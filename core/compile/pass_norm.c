/* core/compile/pass_norm.c - rows that are normalised become one node's: of mean 0 and variance 1 each, or
 * of root mean square 1, then scaled and shifted.
 *
 *   x -> Mean, SquaredDifference, Mean, AddV2, Rsqrt, Mul (gamma), Mul, Sub (beta), AddV2 -> Cast   one step
 *
 * How frameworks spell it is the business of the rule in the row of role NORM, which is asked about every
 * node (kernels/nn/layer_norm_match.c, core/compile/groups.h). A row is read once, where the nodes read it
 * three times; and Casts of half and bfloat16 rows, before and behind, are the node's own.
 *
 * Invariant (td_pass_check): a value of the group that is fetched, a root, the source of a control edge or
 * read from outside is its last one; what that is, is equal up to rounding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/groups.h"
#include "core/compile/passes.h"

enum td_code td_pass_norm(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    return td_groups_replace(ir, m, TD_ROLE_NORM, err);
}
