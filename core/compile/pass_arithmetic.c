/* core/compile/pass_arithmetic.c - arithmetic that changes nothing, or that has a cheaper form: what the
 * rules in the ops' rows (td_simplify_fn) say may be read in a node's place. x * 1 is x, a Transpose of a
 * Transpose is one Transpose.
 *
 * The rules stand beside their ops in kernels/; this file asks them, and has the one rule that holds for
 * whatever is a view:
 *
 *   Reshape, Squeeze, ExpandDims .. back to the shape a value had          that value
 *
 * Nodes with control inputs or on reference edges stay, and so do checks that a rewritten node would have
 * made: shapes must be known where a node could have refused them.
 *
 * Invariant (td_remap_check): the value read in place of a node's output is equal to it, bit for bit but for
 * x ^ 2 (a rounding) and sums that leave out products with zero (a rounding; 0 * inf).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/ir_shapes.h"
#include "core/run/model.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

enum { MAX_VIEWS = 4 };

/* A chain of views that ends in the shape it came from. All shapes are known, so none of its nodes could
 * refuse. */
static struct td_value before_views(const struct td_emitter *e, const struct td_node *n)
{
    const struct td_shape *want = td_emit_shape(e, (struct td_value){(struct td_node *)n, 0});
    struct td_value found = td_no_value;
    for (int steps = 0;
         steps < MAX_VIEWS && (td_node_flags(n) & TD_OP_VIEW) && n->n_in > 0 && td_shape_known(want);
         steps++) {
        const struct td_value from = n->in[0];
        const struct td_shape *have = td_emit_shape(e, from);
        if (n->op == NULL || (td_node_flags(n) & TD_OP_STATEFUL) || n->n_control > 0 ||
            from.node->out_ref[from.port] || !td_shape_known(have) ||
            from.node->out_type[from.port] != n->out_type[0]) {
            break;
        }
        found = td_shape_equal(have, want) ? from : found;
        n = from.node;
        if (from.port != 0) {
            break;
        }
    }
    return found;
}

static bool may_change(const struct td_node *n, bool dead_values)
{
    bool ok = n->op != NULL && n->n_out == 1 && n->n_in > 0 && n->n_control == 0 && !n->out_ref[0] &&
              n->fused == NULL;
    for (int i = 0; ok && i < n->n_in; i++) {
        const struct td_node *from = n->in[i].node;
        bool branch =
            dead_values && (td_node_flags(from) & TD_OP_SWITCH); /* control edges tell its outputs apart */
        ok = !from->out_ref[n->in[i].port] && !n->in_ref[i] && !branch;
    }
    return ok;
}

static struct td_value simpler(struct td_emitter *e, const struct td_node *n)
{
    struct td_value to = td_no_value;
    if (n->op->simplify != NULL && e->ops != NULL) {
        e->at = n;
        to = n->op->simplify(e, n);
    }
    return to.node != NULL || e->rc ? to : before_views(e, n);
}

enum td_code td_pass_arithmetic(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    const bool dead_values = td_ir_has_switch(ir);
    const struct td_ir_shapes *shapes;
    struct td_remap remap;
    TD_TRY(td_remap_init(ir, &remap, err));
    TD_TRY(td_ir_shapes_now(ir, &shapes, err));
    struct td_emitter e = td_ir_emitter(ir, shapes, m == NULL ? NULL : td_model_opts_of(m)->ops, err);
    enum td_code rc = TD_OK;
    const int n_nodes = ir->n_nodes;
    for (int k = 0; rc == TD_OK && k < n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = td_remap_follow(&remap, n->in[i]);
        }
        const struct td_value to = may_change(n, dead_values) ? simpler(&e, n) : td_no_value;
        rc = e.rc || to.node == NULL ? e.rc : td_remap_set(ir, &remap, n, to, err);
    }
    const enum td_code emitted = td_emit_close(&e);
    rc = rc ? rc : emitted;
    if (rc == TD_OK) {
        td_remap_apply(ir, &remap);
    }
    return rc;
}
