/* core/compile/pass_precision.c - products are marked with the precision that the model asks for.
 *
 *   y = MatMul (x, ReadVariableOp (dense/kernel))
 *
 *   becomes, where the model's file says int8 and that x was seen between -1 and 3,
 *
 *   y = MatMul (x, ..) {_precision: "int8", _input_min: -1, _input_max: 3}
 *
 * A product (TD_OP_PRODUCT) of two floats is marked when its second operand is a weight: a variable as it is
 * read, or a constant, also seen under another shape. What the mark means, kernels say (kernels/dense/low.h);
 * one that cannot do it computes in float. To find the ranges, products are marked with their weights' names
 * alone (core/run/precision.h, LOOK).
 *
 * Does not: mark products whose second operand was computed (attention, a loop's weights that are arguments
 * of its body), change a type.
 *
 * Invariant (td_pass_check): no node, edge or type changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/compile/passes.h"
#include "core/run/precision.h"
#include "core/run/variable.h"

enum { MAX_NAME = 1024 };

static const char *variable_name(struct td_value handle)
{
    const struct td_tensor *t = td_known_value(handle);
    const struct td_obj *o =
        t != NULL && td_dtype_is_object(t->dtype) && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
    return o != NULL && o->type == &td_variable_type ? ((const struct td_variable *)o)->name : NULL;
}

/* The name of the weights that v is; false: it is none. */
static bool weights_name(struct td_value v, char *name, size_t room)
{
    const struct td_node *n = v.node;
    while (n->op != NULL && (n->op->flags & (TD_OP_IDENTITY | TD_OP_VIEW)) && n->n_in > 0 && v.port == 0 &&
           !n->out_ref[0]) {
        v = n->in[0];
        n = v.node;
    }
    const char *found = NULL, *scope = "";
    if (n->op == NULL) {
        return false;
    } else if (variable_name(v) != NULL) { /* a reference */
        found = variable_name(v);
    } else if (td_known_value(v) != NULL) {
        found = n->name;
        scope = n->function;
    } else if ((n->op->flags & TD_OP_READS) && v.port < n->n_in) {
        found = variable_name(n->in[v.port]);
    }
    const bool inside = scope != NULL && scope[0] != 0;
    const int len =
        found == NULL ? -1 : snprintf(name, room, "%s%s%s", inside ? scope : "", inside ? "/" : "", found);
    return len > 0 && (size_t)len < room;
}

static bool is_product(const struct td_node *n)
{
    return (td_node_flags(n) & TD_OP_PRODUCT) && n->n_in == 2 && n->n_out == 1 &&
           n->out_type[0] == TD_FLOAT && td_dtype_of(n->in[0]) == TD_FLOAT &&
           td_dtype_of(n->in[1]) == TD_FLOAT;
}

static void mark_int8(struct td_emitter *e, struct td_node *n, const struct td_precision_range *r)
{
    const struct td_attr what = TD_ATTR_OF_TEXT("_precision", "int8");
    const struct td_attr min = TD_ATTR_OF_FLOAT("_input_min", r->min);
    const struct td_attr max = TD_ATTR_OF_FLOAT("_input_max", r->max);
    td_emit_attr(e, n, &what);
    td_emit_attr(e, n, &min);
    td_emit_attr(e, n, &max);
}

static void mark(struct td_emitter *e, const struct td_precision *p, struct td_node *n)
{
    char name[MAX_NAME];
    if (!is_product(n) || !weights_name(n->in[1], name, sizeof name)) {
        return;
    }
    const struct td_precision_range *r = td_precision_find(p, name);
    if (p->kind == TD_PRECISION_INT8 && r != NULL) {
        mark_int8(e, n, r);
    } else if (p->kind == TD_PRECISION_BFLOAT16) {
        const struct td_attr what = TD_ATTR_OF_TEXT("_precision", "bfloat16");
        td_emit_attr(e, n, &what);
    } else if (p->kind == TD_PRECISION_LOOK) {
        const struct td_attr weights = TD_ATTR_OF_TEXT("_weights", name);
        td_emit_attr(e, n, &weights);
    }
}

enum td_code td_pass_precision(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_precision *p = m == NULL ? NULL : td_model_opts_of(m)->precision;
    if (p == NULL) {
        return TD_OK;
    }
    struct td_emitter e = td_ir_emitter(ir, NULL, td_model_opts_of(m)->ops, err);
    for (int i = 0; i < ir->n_nodes; i++) {
        mark(&e, p, ir->nodes[i]);
    }
    return td_emit_close(&e);
}
