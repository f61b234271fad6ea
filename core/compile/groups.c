/* core/compile/groups.c - says what reads what, asks a rule about each node, and puts the node that the rule
 * makes in the place of the last of a group.
 *
 * What a group looks like is the business of the rule alone. Nodes that ask for the shape of something in
 * between are told of apart from other readers: a rule may have them ask others.
 *
 * Runs behind the rounds, when Transposes have gone where they go, and before fuse, which joins the
 * products before and behind with what follows them. Gradients are graphs of their own, made before any
 * pass: what they read has other readers here, and stays.
 *
 * Readers are counted once, before the first replacement. Afterwards a node that lost readers still counts
 * them, which only keeps it; those that it gained, inputs of the new nodes, are added.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/groups.h"

#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/compile/placer.h"
#include "core/compile/remap.h"

struct readers {
    struct td_readers base;
    struct td_ir *ir;
    const struct td_node **one; /* by node id: a reader */
    int *n;                     /* by node id: how many inputs it is */
    int n_nodes;                /* when the pass began: none of those added since is known */
};

static void note(struct readers *r, const struct td_node *n, const struct td_node *reader)
{
    r->one[n->id] = reader;
    r->n[n->id] += r->n[n->id] < TD_READERS_MANY;
}

static void pin(struct readers *r, const struct td_node *n)
{
    r->n[n->id] = TD_READERS_MANY;
}

static bool asks_for_shape(const struct td_node *n)
{
    return (td_node_flags(n) & TD_OP_SHAPE_ONLY) && n->n_in == 1 && n->n_control == 0;
}

static bool find_readers(struct readers *r)
{
    const struct td_ir *ir = r->ir;
    r->one = td_calloc((size_t)ir->n_nodes + 1, sizeof(void *));
    r->n = td_calloc((size_t)ir->n_nodes + 1, sizeof *r->n);
    if (r->one == NULL || r->n == NULL) {
        return false;
    }
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *to = ir->nodes[k];
        for (int i = 0; i < to->n_in && !asks_for_shape(to); i++) {
            note(r, to->in[i].node, to);
        }
        for (int i = 0; i < to->n_control; i++) {
            pin(r, to->control[i]);
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        pin(r, ir->fetches[i].node);
    }
    for (int i = 0; i < ir->n_roots; i++) {
        pin(r, ir->roots[i]);
    }
    return true;
}

static int count(const struct td_readers *base, const struct td_node *n)
{
    const struct readers *r = (const struct readers *)base;
    return n->id < r->n_nodes && n->n_out == 1 ? r->n[n->id] : TD_READERS_MANY;
}

static const struct td_node *only_reader(const struct td_readers *base, const struct td_node *n)
{
    const struct readers *r = (const struct readers *)base;
    return count(base, n) == 1 ? r->one[n->id] : NULL;
}

static struct td_node *asker(const struct td_readers *base, const struct td_node *n, int i)
{
    const struct readers *r = (const struct readers *)base;
    for (int k = 0; k < r->n_nodes; k++) {
        struct td_node *to = r->ir->nodes[k];
        if (asks_for_shape(to) && to->in[0].node == n && i-- == 0) {
            return to;
        }
    }
    return NULL;
}

/* What reads n's output reads v: at once, so that the next group sees it. */
static enum td_code replace(struct readers *r, struct td_node *n, struct td_value v, struct td_err *err)
{
    struct td_remap remap;
    for (int i = 0; i < v.node->n_in; i++) {
        if (v.node->in[i].node->id < r->n_nodes) {
            note(r, v.node->in[i].node, v.node);
        }
    }
    TD_TRY(td_remap_init(r->ir, &remap, err));
    TD_TRY(td_remap_set(r->ir, &remap, n, v, err));
    td_remap_apply(r->ir, &remap);
    return TD_OK;
}

static enum td_code replace_all(struct readers *r, const struct td_model_opts *o, const struct td_op_def *def,
                                struct td_emitter *e)
{
    for (int k = 0; k < r->n_nodes; k++) {
        struct td_node *n = r->ir->nodes[k];
        const struct td_node *last = NULL;
        if (n->op == NULL || n->n_out != 1 || n->fused != NULL || n->loop != NULL) {
            continue;
        }
        e->at = n;
        r->base.there = o->device != NULL && td_placer_on_device(o, n);
        const struct td_value v = def->op->group_rule(e, &r->base, n, &last);
        TD_TRY(e->rc);
        if (v.node != NULL) {
            TD_TRY(replace(r, r->ir->nodes[last->id], v, e->err));
        }
    }
    return TD_OK;
}

enum td_code td_groups_replace(struct td_ir *ir, struct td_model *m, enum td_op_role role, struct td_err *err)
{
    const struct td_model_opts *o = m == NULL ? NULL : td_model_opts_of(m);
    const struct td_op_def *def = o == NULL ? NULL : td_op_of_role(o->ops, role);
    if (def == NULL || (o->device != NULL && !td_select_runs_on(def, o->device))) {
        return TD_OK;
    }
    struct readers r = {
        .base = {.only = only_reader, .count = count, .asker = asker}, .ir = ir, .n_nodes = ir->n_nodes};
    const struct td_ir_shapes *shapes;
    TD_TRY(td_ir_shapes_now(ir, &shapes, err));
    struct td_emitter e = td_ir_emitter(ir, shapes, o->ops, err);
    enum td_code rc = find_readers(&r) ? replace_all(&r, o, def, &e)
                                       : td_no_memory(err, (size_t)ir->n_nodes, "compiler pass");
    const enum td_code emitted = td_emit_close(&e);
    td_free(r.one);
    td_free(r.n);
    return rc ? rc : emitted;
}
