/* proto/hlo_graph/hlo_softmax.c - finds a softmax that is spelt out, as JAX and torch_xla write it:
 *
 *     e = exponential(x - broadcast(maximum of x along the last axis))
 *     e / broadcast(sum of e along the last axis)
 *
 * It becomes one Softmax, which the engine knows: in the midst of two products it is attention
 * (core/compile/pass_attention.c). What else reads e or the sum finds them made as before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_softmax.h"

#include "proto/hlo_graph/hlo_body.h"

enum { MOST_STEPS = 6 };

static bool is(const struct td_hlo_op *op, const char *name, int n_in)
{
    return op != NULL && op->n_in == n_in && op->n_out == 1 && strcmp(op->name, name) == 0;
}

static bool is_broadcast(const struct td_hlo_op *op)
{
    return is(op, "broadcast_in_dim", 1) || is(op, "dynamic_broadcast_in_dim", 2);
}

/* Whether the axes are 0, 1, .. and so on: what is broadcast keeps its place, in front of the last axis. */
static bool keeps_place(const struct td_hlo_op *op)
{
    const struct td_hlo_attr *a = td_hlo_attr(op, "broadcast_dimensions");
    const int n = td_hlo_shape(op->in[0])->rank;
    if (a == NULL || a->kind != TD_HLO_DENSE || (a->splat && n != 1) || a->type.dtype != TD_INT64 ||
        a->raw.len < 8 * (size_t)n) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        int64_t axis;
        memcpy(&axis, a->raw.p + 8 * i, sizeof axis);
        if (axis != i) {
            return false;
        }
    }
    return true;
}

/* Whether the reshape only adds an axis of size 1 behind the last. */
static bool adds_last(const struct td_hlo_op *op)
{
    const struct td_shape *from = td_hlo_shape(op->in[0]), *to = td_hlo_shape(op->out[0]);
    if (to->rank != from->rank + 1 || to->dim[from->rank] != 1) {
        return false;
    }
    for (int i = 0; i < from->rank; i++) {
        if (from->dim[i] != to->dim[i]) {
            return false;
        }
    }
    return true;
}

/* maximum(-inf, x), which JAX guards an empty axis with: x; NULL: it is none. Any number in -inf's place
 * does: what is subtracted all along the axis changes nothing. */
static const struct td_hlo_value *guarded(const struct td_hlo_op *op)
{
    for (int i = 0; i < 2; i++) {
        const struct td_hlo_op *other = op->in[1 - i]->op;
        for (int k = 0; k < 2 && is_broadcast(other); k++) {
            other = other->in[0]->op;
        }
        const struct td_hlo_attr *a = is(other, "constant", 0) ? td_hlo_attr(other, "value") : NULL;
        if (a != NULL && (a->splat || td_shape_count(&a->type.shape) == 1)) {
            return op->in[i];
        }
    }
    return NULL;
}

/* The reduction along the last axis that v is the broadcast of; NULL. */
static const struct td_hlo_op *reduced(const struct td_hlo_value *v, bool guard)
{
    for (int i = 0; v != NULL && i < MOST_STEPS; i++) {
        const struct td_hlo_op *op = v->op;
        if (is(op, "reduce", 2)) {
            return op;
        }
        if ((is_broadcast(op) && keeps_place(op)) || (is(op, "reshape", 1) && adds_last(op)) ||
            (is(op, "dynamic_reshape", 2) && adds_last(op))) {
            v = op->in[0];
        } else if (guard && is(op, "maximum", 2)) {
            v = guarded(op);
        } else {
            return NULL;
        }
    }
    return NULL;
}

/* Whether op reduces x along its last axis alone, by this operation. */
static bool reduces(const struct td_hlo_op *op, const struct td_hlo_value *x, const char *by)
{
    const struct td_hlo_attr *a = op == NULL ? NULL : td_hlo_attr(op, "dimensions");
    int64_t axis;
    if (a == NULL || a->kind != TD_HLO_DENSE || td_shape_count(&a->type.shape) != 1 || a->raw.len != 8 ||
        a->type.dtype != TD_INT64) {
        return false;
    }
    memcpy(&axis, a->raw.p, sizeof axis);
    return op->in[0] == x && axis == td_hlo_shape(x)->rank - 1 && op->n_regions == 1 &&
           strcmp(td_hlo_body_op(&op->regions[0]), by) == 0;
}

/* Whether the reduction begins with a constant 0. */
static bool from_zero(const struct td_hlo_op *op)
{
    const struct td_hlo_op *made = op == NULL ? NULL : op->in[1]->op;
    const struct td_hlo_attr *a = is(made, "constant", 0) ? td_hlo_attr(made, "value") : NULL;
    bool zero = a != NULL && a->kind == TD_HLO_DENSE && a->raw.len > 0;
    for (size_t i = 0; zero && i < a->raw.len; i++) {
        zero = a->raw.p[i] == 0;
    }
    return zero;
}

const struct td_hlo_value *td_hlo_softmax_of(const struct td_hlo_op *divide)
{
    const struct td_hlo_op *e = divide->in[0]->op;
    if (!is(e, "exponential", 1) || !is(e->in[0]->op, "subtract", 2) ||
        !td_hlo_is_float(divide->in[0]->type.dtype) || td_hlo_shape(divide->in[0])->rank < 1) {
        return NULL;
    }
    const struct td_hlo_value *x = e->in[0]->op->in[0];
    const struct td_hlo_op *sum = reduced(divide->in[1], false);
    return reduces(sum, e->out[0], "add") && from_zero(sum) &&
                   reduces(reduced(e->in[0]->op->in[1], true), x, "maximum") &&
                   td_hlo_shape(x)->rank == td_hlo_shape(divide->in[0])->rank
               ? x
               : NULL;
}
