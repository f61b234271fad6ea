/* core/compile/pass_update.c - an update of variables becomes a read of each, what it computes, and an
 * assignment: for devices, where the variables stay, and what computes them is fused and recorded.
 *
 *   x, handle -> AssignSub             x, (handle -> read) -> Sub -> assign
 *
 * The op's row has the rule (td_op.update); this file orders what the rule has added: whatever of it has
 * effects comes behind what the node waited for, and who waited for the node waits for all of it.
 *
 * An update is one step to all others: while it runs nobody changes the variable. So only of models in which
 * no two runs are under way at once (struct td_model_opts, alone): those of training jobs.
 *
 * Invariant (td_pass_check): the node itself stays, as the last of its assignments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/passes.h"
#include "core/run/model.h"

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

enum td_code td_pass_update(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const struct td_model_opts *o = m == NULL ? NULL : td_model_opts_of(m);
    if (o == NULL || o->device == NULL || !o->alone) {
        return TD_OK;
    }
    struct td_emitter e = td_ir_emitter(ir, NULL, o->ops, err);
    enum td_code rc = TD_OK;
    for (int k = 0, n_nodes = ir->n_nodes; rc == TD_OK && k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        const struct td_op *op = n->op;
        const int first = ir->n_nodes;
        if (op != NULL && op->update != NULL) {
            e.at = n;
            op->update(&e, n);
            rc = e.rc ? e.rc : n->op != op ? put_in_order(ir, n, first, err) : TD_OK;
            ir->changes += n->op != op;
        }
    }
    const enum td_code closed = td_emit_close(&e);
    return rc ? rc : closed;
}
