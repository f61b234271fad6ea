/* core/compile/pass_dependency.c - control edges that order nothing go, and with them the nodes that only
 * they kept.
 *
 *   a control edge from a node without effects        moves to the one node that this waited for, or goes
 *   one from a node whose output is read as well, or twice the same       goes
 *   a join of one edge (what is left of NoOp and of calls)                is passed
 *   a root without effects                            becomes the nodes with effects that it needs
 *
 * An effect is anything a run may leave behind or ask of the world: state, resources, references, functions,
 * ops unknown here. A node without one is then dropped when nothing reads it, and whatever it would have
 * refused goes unsaid, as when TensorFlow prunes it.
 *
 * Left alone: graphs with Switch, where a control edge tells which branch is taken.
 *
 * Invariant (td_pass_check): of two nodes with effects, one ordered before the other is still ordered before
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/passes.h"

struct pruner {
    struct td_ir *ir;
    bool *effect; /* by node id */
    int *met;     /* by node id: 1 + the node whose edges are being looked at */
    struct td_err *err;
};

static bool has_effect(const struct td_node *n)
{
    bool effect = n->op == NULL || n->loop != NULL ||
                  (td_node_flags(n) & (TD_OP_STATEFUL | TD_OP_CALL)) != 0 || (n->n_out == 0 && n->n_in > 0);
    for (int i = 0; !effect && i < n->n_in; i++) {
        struct td_value v = n->in[i];
        enum td_dtype t = v.node->out_type[v.port];
        effect = n->in_ref[i] || v.node->out_ref[v.port] || t == TD_RESOURCE || t == TD_VARIANT ||
                 t == TD_DTYPE_NONE;
    }
    for (int i = 0; !effect && i < n->n_out; i++) {
        effect = n->out_ref[i];
    }
    for (int i = 0; !effect && i < n->n_attrs; i++) {
        effect = n->attrs[i].kind == TD_ATTR_FUNC;
    }
    return effect;
}

/* The one node that n reads or waits for: n itself when there are several, NULL when there is none. */
static struct td_node *only_source(struct td_node *n)
{
    struct td_node *one = NULL;
    for (int i = 0; i < n->n_in + n->n_control; i++) {
        struct td_node *from = i < n->n_in ? n->in[i].node : n->control[i - n->n_in];
        if (one != NULL && from != one) {
            return n;
        }
        one = from;
    }
    return one;
}

/* What a control edge from n stands for. Nodes are sorted: each step goes back. */
static struct td_node *reduce(const struct pruner *x, struct td_node *n)
{
    while (n != NULL && !x->effect[n->id]) {
        struct td_node *from = only_source(n);
        if (from == n) {
            break;
        }
        n = from;
    }
    return n;
}

static void reduce_controls(struct pruner *x, struct td_node *n)
{
    int kept = 0;
    bool moved = false;
    for (int i = 0; i < n->n_in; i++) {
        x->met[n->in[i].node->id] = n->id + 1;
    }
    for (int i = 0; i < n->n_control; i++) {
        struct td_node *from = reduce(x, n->control[i]);
        if (from != NULL && from != n && x->met[from->id] != n->id + 1) {
            x->met[from->id] = n->id + 1;
            moved |= from != n->control[i];
            n->control[kept++] = from;
        }
    }
    x->ir->changes += moved || kept != n->n_control;
    n->n_control = kept;
}

/* Roots: every node with an effect that a root needs, found by a walk over the others. */
static enum td_code reduce_roots(struct pruner *x)
{
    struct td_ir *ir = x->ir;
    size_t n = (size_t)ir->n_nodes + 1;
    struct td_node **stack = td_calloc(n, sizeof *stack),
                   **roots = td_arena_alloc(ir->arena, n, sizeof *roots);
    bool *seen = td_calloc(n, sizeof *seen);
    int depth = 0, kept = 0;
    enum td_code rc = stack && roots && seen ? TD_OK : td_no_memory(x->err, n, "compiler pass");
    for (int i = 0; rc == TD_OK && i < ir->n_roots; i++) {
        struct td_node *root = ir->roots[i];
        if (!seen[root->id]) {
            seen[root->id] = true;
            stack[depth++] = root;
        }
        while (depth > 0) {
            struct td_node *at = stack[--depth];
            if (x->effect[at->id]) {
                roots[kept++] = at;
                continue;
            }
            for (int k = 0; k < at->n_in + at->n_control; k++) {
                struct td_node *from = k < at->n_in ? at->in[k].node : at->control[k - at->n_in];
                if (!seen[from->id]) {
                    seen[from->id] = true;
                    stack[depth++] = from;
                }
            }
        }
    }
    if (rc == TD_OK) {
        ir->changes +=
            kept != ir->n_roots ||
            (kept > 0 && memcmp(roots, ir->roots, (size_t)kept * sizeof *roots) != 0); /* no roots: NULL */
        ir->roots = roots;
        ir->n_roots = kept;
        ir->cap_roots = (int)n;
    }
    td_free(stack);
    td_free(seen);
    return rc;
}

enum td_code td_pass_dependency(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    (void)m;
    size_t n = (size_t)ir->n_nodes + 1;
    if (td_ir_has_switch(ir)) {
        return TD_OK;
    }
    struct pruner x = {
        .ir = ir, .effect = td_calloc(n, sizeof *x.effect), .met = td_calloc(n, sizeof *x.met), .err = err};
    enum td_code rc = x.effect && x.met ? TD_OK : td_no_memory(err, n, "compiler pass");
    for (int k = 0; rc == TD_OK && k < ir->n_nodes; k++) {
        x.effect[k] = has_effect(ir->nodes[k]);
    }
    for (int k = 0; rc == TD_OK && k < ir->n_nodes; k++) {
        reduce_controls(&x, ir->nodes[k]);
    }
    rc = rc ? rc : reduce_roots(&x);
    td_free(x.effect);
    td_free(x.met);
    return rc;
}
