/* kernels/formula/gradient_seed.c - the gradient that comes from outside, checked against its target; targets
 * that must be one number.
 *
 *   _GradientSeed   given [..] of T, target [the same shape] of T  ->  given
 *   _OneElement     target of one element                          ->  target
 *   _Later          value, anything  ->  value: made when the other is there (core/grad/recompute.h)
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
    TD_FAIL_IF(!same && td_attr_bool(c->node, "vector"), err, INVALID_ARGUMENT,
               "the vector for '%s' has shape %s, but its gradient has shape %s: they must be the same",
               td_attr_str(c->node, "of"), TD_SHAPE_STR(given), TD_SHAPE_STR(target));
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

static enum td_code one_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t n = td_shape_known(&c->in[0]) ? td_shape_count(&c->in[0]) : 1;
    TD_FAIL_IF(
        n != 1, err, INVALID_ARGUMENT,
        "a hessian is of one number, but the target '%s' has shape %s: sum it up, or ask for one element",
        td_attr_str(c->node, "of"), TD_SHAPE_STR(&c->in[0]));
    c->out[0] = c->in[0];
    return TD_OK;
}

static void later_grad(struct td_grad *g)
{
    td_grad_pass_on(g, 0, 0);
}

const struct td_op td_ops_gradient_seed[] = {
    {.name = "_GradientSeed",
     .sig = "(given:T, target:T) -> (gradient:T) {T:type; of:string; vector:bool=false}",
     .flags = TD_OP_VIEW,
     .role = TD_ROLE_GRADIENT_SEED,
     .formulas = &td_grad_formulas,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = infer,
     .kernels = TD_KERNEL("gradient_seed.cpu", run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = "_OneElement",
     .sig = "(target:T) -> (same:T) {T:type; of:string}",
     .flags = TD_OP_VIEW,
     .infer = one_infer,
     .kernels = TD_KERNEL("gradient_seed.cpu", run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = "_Later",
     .sig = "(value:T, when:Twhen) -> (same:T) {T:type; Twhen:type}",
     .flags = TD_OP_VIEW,
     .batchable = TD_BATCHABLE(td_batchable_same, .any_input = true),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("gradient_seed.cpu", run, {NULL, 0}),
     .grad = later_grad},
    {.name = NULL},
};
