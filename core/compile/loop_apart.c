/* core/compile/loop_apart.c - by the rule of the product's op (td_op.apart), which must know how wide the
 * element is: the graph around the loop says it where the body does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/loop_apart.h"

#include "core/compile/ir_shapes.h"

static const struct td_node *origin(struct td_value v)
{
    while ((td_node_flags(v.node) & TD_OP_IDENTITY) && v.node->n_control == 0 && v.port < v.node->n_in) {
        v = v.node->in[v.port];
    }
    return v.node;
}

struct td_value td_loop_element_shape(struct td_emitter *e, const struct td_shape *s)
{
    int64_t dims[TD_MAX_RANK];
    for (int i = 0; i < s->rank; i++) {
        dims[i] = s->dim[i];
    }
    return s->rank < 0 ? td_emit_int(e, TD_INT32, -1) : td_emit_ints(e, TD_INT32, dims, s->rank);
}

/* Whether one of the values that n puts together is an element. */
static bool joins_element(const struct td_node *n, const struct td_value *of, int n_nodes)
{
    bool any = false;
    for (int i = 0; !any && i < n->n_in; i++) {
        const struct td_node *from = origin(n->in[i]);
        any = from->id < n_nodes && of[from->id].node != NULL;
    }
    return any;
}

static bool may_be_apart(const struct td_node *n, const struct td_value *of, int n_nodes)
{
    return n->op != NULL && n->op->apart != NULL && n->n_out == 1 && n->n_control == 0 &&
           !td_ir_any_reference(n) && joins_element(origin(n->in[0]), of, n_nodes);
}

/* Elements of which the body does not say all of the shape have that of the tensor's slices. */
static void tell_shapes(const struct td_ir *body, const struct td_ir_shapes *around,
                        const struct td_value *of, struct td_ir_shapes *shapes)
{
    for (int k = 0; k < body->n_nodes; k++) {
        const bool hands_on = (td_node_flags(body->nodes[k]) & TD_OP_IDENTITY) && body->nodes[k]->n_in == 1;
        const int from = hands_on ? origin(body->nodes[k]->in[0])->id : k;
        struct td_shape *to = &shapes->at[shapes->first[k]];
        const struct td_shape *s = of[from].node == NULL ? NULL : td_ir_shape(around, of[from]);
        if (s == NULL || s->rank < 1 || (to->rank >= 0 && to->rank != s->rank - 1)) {
            continue;
        }
        *to = to->rank < 0 ? td_shape_of_rank(s->rank - 1) : *to;
        for (int i = 0; i < to->rank; i++) {
            to->dim[i] = to->dim[i] < 0 ? s->dim[i + 1] : to->dim[i];
        }
    }
}

static void replace(struct td_ir *ir, const struct td_node *n, struct td_value by)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        for (int i = 0; i < ir->nodes[k]->n_in; i++) {
            ir->nodes[k]->in[i] = ir->nodes[k]->in[i].node == n ? by : ir->nodes[k]->in[i];
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        ir->fetches[i] = ir->fetches[i].node == n ? by : ir->fetches[i];
    }
}

/* The nodes [0, n_nodes) are those that `of` knows. */
static enum td_code take_all(struct td_ir *body, const struct td_value *of, int n_nodes, struct td_emitter *e)
{
    for (int k = 0; e->rc == TD_OK && k < n_nodes; k++) {
        struct td_node *n = body->nodes[k];
        if (may_be_apart(n, of, n_nodes)) {
            e->at = n;
            const struct td_value sum = n->op->apart(e, n);
            if (e->rc == TD_OK && sum.node != NULL) {
                replace(body, n, sum);
            }
        }
    }
    return e->rc;
}

static bool any_apart(const struct td_ir *body, const struct td_value *of)
{
    bool any = false;
    for (int k = 0; !any && k < body->n_nodes; k++) {
        any = may_be_apart(body->nodes[k], of, body->n_nodes);
    }
    return any;
}

enum td_code td_loop_take_apart(struct td_ir *body, const struct td_ir_shapes *around,
                                const struct td_value *of, const struct td_op_table *ops, struct td_err *err)
{
    if (!any_apart(body, of)) {
        return TD_OK;
    }
    struct td_ir_shapes shapes;
    TD_TRY(td_ir_shapes_init(body, &shapes, err));
    struct td_emitter e = td_ir_emitter(body, &shapes, ops, err);
    tell_shapes(body, around, of, &shapes);
    const enum td_code rc = take_all(body, of, body->n_nodes, &e);
    const enum td_code closed = td_emit_close(&e);
    td_ir_shapes_fini(&shapes);
    TD_TRY(rc ? rc : closed);
    return td_ir_sort(body, err);
}
