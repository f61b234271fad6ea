/* core/compile/ir_shapes.c - one array of shapes for all values of an IR, filled in one walk.
 *
 *   at[first[node id] + port]     the shape of a value; nodes that were added since are beyond first's end,
 *                                 outputs that a node has got since beyond its part
 *
 * A constant's shape is its tensor's. Any other node's shape function is called with the shapes of its inputs
 * and the constants among them; reference edges are shown as unknown, since what they lead to may be assigned
 * another shape. A function that refuses leaves its outputs unknown, and its error is dropped: the run says
 * why, with the values at hand.
 *
 * td_ir_shapes_now keeps the array with the IR and makes it anew when ir->changes or the number of nodes
 * tells that a pass has changed something. Does not: know feeds' shapes, infer inside called functions, hold
 * for a run (core/run/bound_plan.c infers again, for shapes that are known).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/ir_shapes.h"

#include "core/base/mem.h"

struct scratch {
    struct td_shape *in;
    const struct td_tensor **value;
};

static void infer_node(const struct td_node *n, struct td_ir_shapes *s, const struct scratch *x)
{
    struct td_shape *out = &s->at[s->first[n->id]];
    const struct td_tensor *constant = td_node_const(n);
    for (int i = 0; i < n->n_out; i++) {
        out[i] = constant != NULL ? constant->shape : td_shape_unknown();
    }
    if (constant != NULL || n->op == NULL || n->op->infer == NULL) {
        return;
    }
    for (int i = 0; i < n->n_in; i++) {
        const struct td_node *from = n->in[i].node;
        bool by_reference = from->out_ref[n->in[i].port];
        x->in[i] = by_reference ? td_shape_unknown() : *td_ir_shape(s, n->in[i]);
        x->value[i] = by_reference ? NULL : td_node_const(from);
    }
    struct td_infer c = {n, n->n_in, n->n_out, x->in, x->value, out};
    struct td_err ignored = {0};
    bool known = n->op->infer(&c, &ignored) == TD_OK;
    for (int i = 0; i < n->n_out; i++) {
        out[i] = known && !n->out_ref[i] ? out[i] : td_shape_unknown();
    }
}

enum td_code td_ir_shapes_init(const struct td_ir *ir, struct td_ir_shapes *s, struct td_err *err)
{
    size_t values = 1, most = 1;
    *s = (struct td_ir_shapes){.n_nodes = ir->n_nodes,
                               .first = td_calloc((size_t)ir->n_nodes + 1, sizeof *s->first)};
    for (int i = 0; s->first != NULL && i < ir->n_nodes; i++) {
        s->first[i] = (int)values - 1;
        values += (size_t)ir->nodes[i]->n_out;
        most = (size_t)ir->nodes[i]->n_in > most ? (size_t)ir->nodes[i]->n_in : most;
    }
    if (s->first != NULL) {
        s->first[ir->n_nodes] = (int)values - 1;
    }
    s->at = td_calloc(values, sizeof *s->at);
    struct scratch x = {.in = td_calloc(most, sizeof *x.in), .value = td_calloc(most, sizeof *x.value)};
    bool ok = s->first != NULL && s->at != NULL && x.in != NULL && x.value != NULL;
    for (int i = 0; ok && i < ir->n_nodes; i++) {
        infer_node(ir->nodes[i], s, &x);
    }
    td_free(x.in);
    td_free(x.value);
    if (!ok) {
        td_ir_shapes_fini(s);
        return td_no_memory(err, values, "compiler pass");
    }
    return TD_OK;
}

enum td_code td_ir_shapes_now(struct td_ir *ir, const struct td_ir_shapes **out, struct td_err *err)
{
    if (ir->shapes.at == NULL || ir->shapes_at != ir->changes || ir->shapes.n_nodes != ir->n_nodes) {
        td_ir_shapes_fini(&ir->shapes);
        TD_TRY(td_ir_shapes_init(ir, &ir->shapes, err));
        ir->shapes_at = ir->changes;
    }
    *out = &ir->shapes;
    return TD_OK;
}

void td_ir_shapes_fini(struct td_ir_shapes *s)
{
    td_free(s->at);
    td_free(s->first);
    *s = (struct td_ir_shapes){0};
}

const struct td_shape *td_ir_shape(const struct td_ir_shapes *s, struct td_value v)
{
    static const struct td_shape unknown = {.rank = -1};
    const int id = v.node->id;
    const bool was_there = id < s->n_nodes && v.port < s->first[id + 1] - s->first[id];
    return was_there ? &s->at[s->first[id] + v.port] : &unknown;
}
