/* core/compile/pass_identity.c - values pass through Identity and its like.
 *
 *   x -> Identity -> f(x)      becomes      x -> f(x)
 *
 * Left alone: nodes on reference edges (they take a snapshot of a variable), the Identity of a Switch's
 * output (it stands for the branch: control edges from it carry that output's deadness), and one that has
 * control inputs and a node with effects anywhere behind it, which must not run before them.
 *
 * Invariant (td_remap_check, td_pass_check): every remaining input reads the same bytes as before, and no
 * earlier than before where that can be told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

/* By node: whether something with an effect comes behind it, through any number of edges. */
static bool *before_effects(struct td_ir *ir)
{
    bool *before = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *before);
    for (int k = ir->n_nodes - 1; before != NULL && k >= 0; k--) {
        const struct td_node *n = ir->nodes[k];
        const bool effect = before[k] || (td_node_flags(n) & TD_OP_STATEFUL) != 0;
        for (int i = 0; effect && i < n->n_in; i++) {
            before[n->in[i].node->id] = true;
        }
        for (int i = 0; effect && i < n->n_control; i++) {
            before[n->control[i]->id] = true;
        }
    }
    return before;
}

static bool any_ref(const struct td_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i].node->out_ref[n->in[i].port] || n->in_ref[i]) {
            return true;
        }
    }
    return false;
}

/* An Identity of a Switch's output stands for the branch: control edges from it carry that output's deadness.
 */
static bool is_pivot(const struct td_node *n)
{
    return n->n_in > 0 && (td_node_flags(n->in[0].node) & TD_OP_SWITCH) != 0 && n->in[0].node->op != NULL;
}

enum td_code td_pass_identity(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    (void)m;
    struct td_remap r;
    TD_TRY(td_remap_init(ir, &r, err));
    bool dead_values = td_ir_has_switch(ir), *ordered = before_effects(ir);
    if (ordered == NULL) {
        return td_no_memory(err, (size_t)ir->n_nodes, "compiler pass");
    }
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        if (!(td_node_flags(n) & TD_OP_IDENTITY) || n->n_in < n->n_out || n->n_out == 0 || any_ref(n) ||
            is_pivot(n) || (n->n_control > 0 && ordered[k])) {
            continue;
        }
        bool ok;
        TD_TRY(td_remap_release(ir, n, dead_values, &ok, err));
        r.to[n->id] = ok ? n->in : NULL;
    }
    td_remap_apply(ir, &r);
    return TD_OK;
}
