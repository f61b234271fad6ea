/* kernels/formula/gradient_seed.c - the gradient that comes from outside, checked against its target.
 *
 *   given [..] of T, target [the same shape] of T  ->  given
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *given = &c->in[0], *target = &c->in[1];
    bool same = given->rank < 0 || target->rank < 0 || given->rank == target->rank;
    for (int i = 0; same && given->rank > 0 && target->rank > 0 && i < given->rank; i++) {
        same = given->dim[i] < 0 || target->dim[i] < 0 || given->dim[i] == target->dim[i];
    }
    TD_FAIL_IF(!same, err, INVALID_ARGUMENT,
               "output_gradients for '%s' have shape %s, but the output has shape %s: they must be the same",
               td_attr_str(c->node, "of"), TD_SHAPE_STR(given), TD_SHAPE_STR(target));
    c->out[0] = *given;
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    return td_out_view(c, 0, 0, NULL, err);
}

const struct td_op td_ops_gradient_seed[] = {
    {.name = "_GradientSeed",
     .sig = "(given:T, target:T) -> (gradient:T) {T:type; of:string}",
     .flags = TD_OP_VIEW,
     .role = TD_ROLE_GRADIENT_SEED,
     .formulas = &td_grad_formulas,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = infer,
     .kernels = TD_KERNEL("gradient_seed.cpu", run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = NULL},
};
