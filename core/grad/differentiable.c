/* core/grad/differentiable.c - reads it off the op's row: its grad, its grad_missing, else its signature.
 *
 * A gradient goes from an output to an input, and both must be able to hold one. A type attribute can when
 * some kernel takes it with such a dtype; a list of types can. An op without inputs makes its value from
 * nothing, and one without outputs ends there. A row that says nothing claims that TensorFlow registers none
 * either: tests/gradient_registry.py holds the claims against TensorFlow's registry.
 *
 * Does not: look at nodes, whose attributes may say more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/differentiable.h"

#include <string.h>

#include "core/grad/grad.h"

static uint32_t dtypes_of(const struct td_op *op, const char *attr)
{
    uint32_t set = 0;
    for (const struct td_kernel *k = op->kernels; k != NULL && k->run != NULL; k++) {
        uint32_t own = UINT32_MAX;
        for (int i = 0; i < TD_TYPE_RULES && k->types[i].attr != NULL; i++) {
            own = strcmp(k->types[i].attr, attr) == 0 ? k->types[i].set : own;
        }
        set |= own;
    }
    return set;
}

static bool any_trainable(const struct td_op *op, const struct td_arg_def *args, int n)
{
    for (int i = 0; i < n; i++) {
        const struct td_arg_def *a = &args[i];
        if (a->type_attr == NULL && a->list_attr == NULL
                ? td_dtype_in(a->type, TD_SET_TRAINABLE)
                : a->list_attr != NULL || (dtypes_of(op, a->type_attr) & TD_SET_TRAINABLE) != 0) {
            return true;
        }
    }
    return false;
}

enum td_differentiable td_op_differentiable(const struct td_op_def *def, const char **why)
{
    const struct td_op *op = def->op;
    *why = NULL;
    if (op->grad == td_not_differentiable) {
        *why = "as TensorFlow says";
        return TD_DIFFERENTIABLE_NOT;
    }
    if (op->grad != NULL || op->expand != NULL) { /* as what it stands for */
        return TD_DIFFERENTIABLE;
    }
    if (op->flags & TD_OP_REFUSED) {
        *why = "refused";
        return TD_DIFFERENTIABLE_NOT;
    }
    if (def->n_in == 0 || def->n_out == 0) {
        *why = def->n_in == 0 ? "no inputs" : "no outputs";
        return TD_DIFFERENTIABLE_NOT;
    }
    const bool out = any_trainable(op, def->out, def->n_out);
    if (!out || !any_trainable(op, def->in, def->n_in)) {
        *why = out ? "inputs of no floating-point dtype" : "outputs of no floating-point dtype";
        return TD_DIFFERENTIABLE_NOT;
    }
    *why = op->grad_missing != NULL ? op->grad_missing : "TensorFlow registers none";
    return TD_DIFFERENTIABLE_MISSING;
}

const char *td_differentiable_name(enum td_differentiable d)
{
    return d == TD_DIFFERENTIABLE ? "yes" : d == TD_DIFFERENTIABLE_NOT ? "not" : "missing";
}
