/* core/compile/remap.c - a table of replacements by node, followed like a chain, applied in one sweep.
 *
 *   to[node id] -> {what is read in place of each output} -> ... until a node that stays
 *
 * A pass marks nodes while it walks, and asks td_remap_follow for what an input stands for by then; so a
 * replacement may itself be replaced later, and no edge is touched before the end. The sweep then redirects
 * inputs, control edges and fetches of all nodes, and counts the changes; without marks it does nothing.
 * Replacements must not lead in a circle, or the chain would not end. The table is the IR's and is used by
 * one pass at a time.
 *
 * Does not: remove nodes (td_ir_sort leaves out what nobody needs), add any, or keep order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/remap.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"

enum td_code td_remap_init(struct td_ir *ir, struct td_remap *r, struct td_err *err)
{
    if (ir->cap_replaced < ir->n_nodes) {
        ir->replaced = td_arena_alloc(ir->arena, (size_t)ir->n_nodes, sizeof *ir->replaced);
        ir->cap_replaced = ir->replaced == NULL ? 0 : ir->n_nodes;
    } else if (ir->n_nodes > 0) {
        memset(ir->replaced, 0, (size_t)ir->n_nodes * sizeof *ir->replaced);
    }
    r->n = ir->n_nodes;
    r->to = ir->replaced;
    return r->to == NULL && r->n > 0 ? td_no_memory(err, (size_t)r->n, "compiler pass") : TD_OK;
}

struct td_value td_remap_follow(const struct td_remap *r, struct td_value v)
{
    while (v.node->id < r->n && r->to[v.node->id] != NULL) {
        v = r->to[v.node->id][v.port];
    }
    return v;
}

enum td_code td_remap_set(struct td_ir *ir, struct td_remap *r, struct td_node *n, struct td_value v,
                          struct td_err *err)
{
    struct td_value *to = td_arena_alloc(ir->arena, 1, sizeof *to);
    if (to == NULL) {
        return td_no_memory(err, sizeof *to, "compiler pass");
    }
    *to = v;
    r->to[n->id] = to;
    return TD_OK;
}

static bool is_empty(const struct td_remap *r)
{
    bool empty = true;
    for (int i = 0; empty && i < r->n; i++) {
        empty = r->to[i] == NULL;
    }
    return empty;
}

enum td_code td_remap_check(const struct td_ir *ir, const struct td_remap *r, struct td_err *err)
{
    for (int k = 0; k < r->n; k++) {
        const struct td_node *n = ir->nodes[k];
        for (int i = 0; r->to[k] != NULL && i < n->n_out; i++) {
            const struct td_value v = r->to[k][i];
            if (v.node == NULL) { /* of a fused norm the statistics, which nobody reads */
                continue;
            }
            TD_WANT(v.port >= 0 && v.port < v.node->n_out, err, "%s: in its place is output %d of '%s'",
                    TD_NODE_STR(n), v.port, v.node->name);
            TD_WANT(v.node->out_type[v.port] == n->out_type[i] || n->out_type[i] == TD_DTYPE_NONE ||
                        v.node->op == NULL, /* unknown: refused when its kernel is chosen */
                    err, "%s: output %d is %s, and what is read instead %s", TD_NODE_STR(n), i,
                    td_dtype_name(n->out_type[i]), td_dtype_name(v.node->out_type[v.port]));
        }
    }
    return TD_OK;
}

void td_remap_apply(struct td_ir *ir, const struct td_remap *r)
{
    if (is_empty(r)) {
        return;
    }
    TD_HOLDS(td_remap_check, ir, r);
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        ir->changes += k < r->n && r->to[k] != NULL;
        for (int i = 0; i < n->n_in; i++) {
            n->in[i] = td_remap_follow(r, n->in[i]);
        }
        for (int i = 0; i < n->n_control; i++) {
            int id = n->control[i]->id;
            if (id < r->n && r->to[id] != NULL && n->control[i]->n_out > 0) {
                n->control[i] = td_remap_follow(r, (struct td_value){n->control[i], 0}).node;
            }
        }
    }
    for (int i = 0; i < ir->n_fetches; i++) {
        ir->fetches[i] = td_remap_follow(r, ir->fetches[i]);
    }
}

enum td_code td_remap_release(struct td_ir *ir, struct td_node *n, bool dead_values, bool *ok,
                              struct td_err *err)
{
    *ok = n->n_control == 0 || !dead_values;
    for (int i = 0; *ok && i < n->n_control; i++) {
        TD_TRY(td_ir_add_root(ir, n->control[i], err));
    }
    if (*ok) {
        n->n_control = 0;
    }
    return TD_OK;
}
