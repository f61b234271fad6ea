/* core/compile/pass_update.c - an update of variables becomes a read of each, what it computes, and an
 * assignment: for devices, where the variables stay, and what computes them is fused and recorded.
 *
 *   x, handle -> AssignSub             x, (handle -> read) -> Sub -> assign
 *
 * The op's row has the rule (td_op.update); this file orders what the rule has added: whatever of it has
 * effects comes behind what the node waited for, and who waited for the node waits for all of it.
 *
 * An update is one step to all others: while it runs nobody changes the variable. So only of models in which
 * no two runs are under way at once (struct td_model_opts, alone): those of training jobs. And in a run, all
 * that changes the variable stands in one order, the nodes': two updates that nothing orders count both, and
 * one that waits for another by what it is given alone reads what that has made. In graphs with Switch, where
 * a control edge tells which branch is taken, an update of what others change, too, stays as it is.
 *
 * Invariant (td_pass_check): the node itself stays, as the last of its assignments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/passes.h"
#include "core/run/model.h"

/* A node that changes a variable, or may. */
struct change {
    struct td_node *n;
    const struct td_obj *variable;
};

struct updates {
    struct td_ir *ir;
    struct change *change; /* n_changes, as the nodes stand */
    int n_changes, cap_changes;
    bool has_switch;
};

static bool has_effects(const struct td_node *n)
{
    return n->op != NULL && (n->op->flags & TD_OP_STATEFUL) != 0;
}

/* n waits for these, too. */
static enum td_code wait_for(struct td_ir *ir, struct td_node *n, struct td_node *const *more, int count,
                             struct td_err *err)
{
    struct td_node **all =
        td_arena_alloc(ir->arena, (size_t)n->n_control + (size_t)count + 1, sizeof(void *));
    if (all == NULL) {
        return td_no_memory(err, (size_t)n->n_control + (size_t)count, "compiler pass");
    }
    for (int i = 0; i < n->n_control; i++) {
        all[i] = n->control[i];
    }
    for (int i = 0; i < count; i++) {
        all[n->n_control + i] = more[i];
    }
    n->control = all;
    n->n_control += count;
    return TD_OK;
}

/* The nodes from `first` on are those that n's rule has added. */
static enum td_code put_in_order(struct td_ir *ir, struct td_node *n, int first, struct td_err *err)
{
    struct td_node *const *before = n->control;
    const int n_before = n->n_control;
    for (int k = first; k < ir->n_nodes; k++) {
        struct td_node *made = ir->nodes[k];
        made->device = ""; /* the node's is its variables', whose op has no kernel elsewhere */
        if (has_effects(made)) {
            TD_TRY(wait_for(ir, made, before, n_before, err));
        }
        if (has_effects(made) && made->n_out == 0) {
            TD_TRY(wait_for(ir, n, &made, 1, err));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ who changes what */

static const struct td_obj *variable_of(struct td_value v)
{
    const struct td_tensor *t = v.node->out_type[v.port] == TD_RESOURCE ? td_known_value(v) : NULL;
    return t != NULL && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
}

static enum td_code add_changes(struct updates *u, struct td_node *n, struct td_err *err)
{
    for (int i = 0; i < n->n_in && (td_node_flags(n) & TD_OP_READS) == 0; i++) {
        const struct td_obj *variable = variable_of(n->in[i]);
        if (variable == NULL) {
            continue;
        }
        if (u->n_changes == u->cap_changes) {
            const int more = 2 * u->cap_changes + 16;
            struct change *all = td_realloc(u->change, (size_t)more, sizeof *all);
            if (all == NULL) {
                return td_no_memory(err, (size_t)more, "compiler pass");
            }
            u->change = all;
            u->cap_changes = more;
        }
        u->change[u->n_changes++] = (struct change){n, variable};
    }
    return TD_OK;
}

static enum td_code find_changes(struct updates *u, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int k = 0; rc == TD_OK && k < u->ir->n_nodes; k++) {
        rc = add_changes(u, u->ir->nodes[k], err);
    }
    return rc;
}

/* Whether c is of another node than n, and of a variable of n's. */
static bool is_beside(const struct change *c, const struct td_node *n)
{
    bool yes = false;
    for (int i = 0; c->n->id != n->id && i < n->n_in && !yes; i++) {
        yes = variable_of(n->in[i]) == c->variable;
    }
    return yes;
}

static bool is_lone(const struct updates *u, const struct td_node *n)
{
    bool lone = true;
    for (int i = 0; i < u->n_changes && lone; i++) {
        lone = !is_beside(&u->change[i], n);
    }
    return lone;
}

/* n, which was an update, comes behind what changes the same variables before it, and before the rest. */
static enum td_code put_among(const struct updates *u, struct td_node *n, const struct td_node *was,
                              struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int i = 0; i < u->n_changes && rc == TD_OK; i++) {
        struct td_node *other = u->change[i].n;
        if (is_beside(&u->change[i], was)) {
            rc = other->id < n->id ? wait_for(u->ir, n, &other, 1, err) : wait_for(u->ir, other, &n, 1, err);
        }
    }
    return rc;
}

/* ------------------------------------------------------------------ the pass */

static enum td_code update(struct updates *u, struct td_emitter *e, struct td_node *n)
{
    const struct td_op *op = n->op;
    const int first = u->ir->n_nodes;
    if (op == NULL || op->update == NULL || (u->has_switch && !is_lone(u, n))) {
        return TD_OK;
    }
    const struct td_node was = *n;
    e->at = n;
    op->update(e, n);
    if (e->rc || n->op == op) {
        return e->rc;
    }
    u->ir->changes++;
    TD_TRY(put_among(u, n, &was, e->err));
    return put_in_order(u->ir, n, first, e->err);
}

enum td_code td_pass_update(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_model_opts *o = m == NULL ? NULL : td_model_opts_of(m);
    if (o == NULL || o->device == NULL || !o->alone) {
        return TD_OK;
    }
    struct updates u = {.ir = ir, .has_switch = td_ir_has_switch(ir)};
    struct td_emitter e = td_ir_emitter(ir, NULL, o->ops, err);
    enum td_code rc = find_changes(&u, err);
    for (int k = 0, n_nodes = ir->n_nodes; rc == TD_OK && k < n_nodes; k++) {
        rc = update(&u, &e, ir->nodes[k]);
    }
    td_free(u.change);
    const enum td_code closed = td_emit_close(&e);
    return rc ? rc : closed;
}
