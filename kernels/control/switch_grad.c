/* kernels/control/switch_grad.c - gradients among dead values: a gradient is alive when its value is.
 *
 *   Merge(a, b) -> z, i       da, db = Switch(dz, i)
 *   Switch(x, p) -> f, t      dx = Merge(df, dt), the one that did not arrive being zeros like its output,
 *                             which are dead when that is
 *
 * So nodes that add up gradients of one value have inputs that are all alive or all dead. To another function
 * goes Merge(v, nothing), whose index says whether v was alive; there a Switch makes it dead again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/switch_grad.h"

#include <string.h>

#include "kernels/control/branch_grad.h"
#include "kernels/formula/formula.h"

static struct td_value make_switch(struct td_emitter *e, struct td_value v, struct td_value pred)
{
    return td_f_2(e, "Switch", v, pred);
}

static struct td_value make_merge(struct td_emitter *e, struct td_value a, struct td_value b)
{
    return td_emit(e, "Merge", TD_IN(a, b), TD_ATTRS(TD_ATTR_OF_INT("N", 2)));
}

static struct td_value is_index(struct td_emitter *e, struct td_value index, int i)
{
    return td_f_2(e, "Equal", index, td_f_int(e, i));
}

void td_merge_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0), index = td_grad_out(g, 1);
    for (int i = 0; i < g->node->n_in; i++) {
        if (td_grad_wants(g, i)) {
            td_grad_give(g, i, td_f_port(make_switch(g->e, dz, is_index(g->e, index, i)), 1));
        }
    }
}

void td_switch_grad(struct td_grad *g)
{
    struct td_value d[2];
    for (int o = 0; o < 2; o++) {
        d[o] = td_grad_arrived(g, o) ? td_grad_at(g, o) : td_no_value;
    }
    for (int o = 0; o < 2; o++) {
        if (d[o].node == NULL) {
            d[o] = td_control_zeros(g->e, td_grad_out(g, o), td_dtype_of(d[1 - o]));
        }
    }
    td_grad_give(g, 0, make_merge(g->e, d[0], d[1]));
}

/* ------------------------------------------------------------------ from function to function */

struct td_value td_handed_nothing(struct td_emitter *e, enum td_dtype dtype)
{
    struct td_shape shape = dtype == TD_VARIANT ? td_shape_scalar() : td_shape_vector(0);
    return td_emit(e, "FakeParam", TD_NO_INPUTS,
                   TD_ATTRS(TD_ATTR_OF_TYPE("dtype", dtype),
                            {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &shape}));
}

static int deeper(int depth, const int *of, const struct td_node *from)
{
    return of[from->id] > depth ? of[from->id] : depth;
}

/* By node id: how many Switches, less Merges, its outputs lie behind. */
static void find_depths(const struct td_ir *ir, int *of)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        const struct td_node *n = ir->nodes[k];
        const uint32_t flags = td_node_flags(n);
        int depth = 0;
        for (int i = 0; i < n->n_in; i++) {
            depth = deeper(depth, of, n->in[i].node);
        }
        for (int i = 0; i < n->n_control; i++) {
            depth = deeper(depth, of, n->control[i]);
        }
        depth += (flags & TD_OP_SWITCH) ? 1 : 0;
        of[k] = (flags & TD_OP_DEAD_OK) && depth > 0 ? depth - 1 : depth;
    }
}

void td_handed_out(struct td_emitter *e, struct td_ir *ir, const struct td_grad_kept *kept,
                   struct td_handed *h)
{
    const int n = kept->n_values;
    int *depth = td_arena_alloc(ir->arena, (size_t)ir->n_nodes + 1, sizeof *depth);
    *h = (struct td_handed){.kept = kept->values, .n_kept = n, .n = n};
    h->out = td_arena_alloc(ir->arena, 2 * (size_t)n + 1, sizeof *h->out);
    h->in = td_arena_alloc(ir->arena, 2 * (size_t)n + 1, sizeof *h->in);
    h->flag = td_arena_alloc(ir->arena, (size_t)n + 1, sizeof *h->flag);
    if (depth == NULL || h->out == NULL || h->in == NULL || h->flag == NULL) {
        td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "the gradient of a function: out of memory");
        return;
    }
    find_depths(ir, depth);
    for (int i = 0; i < n; i++) {
        const struct td_value v = kept->values[i];
        h->out[i] = h->in[i] = v;
        if (depth[v.node->id] > 0) {
            h->out[i] = make_merge(e, v, td_handed_nothing(e, td_dtype_of(v)));
            h->flag[i] = h->n++;
            h->out[h->flag[i]] = is_index(e, td_f_port(h->out[i], 1), 0);
        }
    }
}

static void read_instead(struct td_ir *ir, struct td_value from, struct td_value to, struct td_value *results,
                         int n_results)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        for (int i = 0; i < ir->nodes[k]->n_in; i++) {
            struct td_value *v = &ir->nodes[k]->in[i];
            *v = v->node == from.node && v->port == from.port ? to : *v;
        }
    }
    for (int i = 0; i < n_results; i++) {
        if (results[i].node == from.node && results[i].port == from.port) {
            results[i] = to;
        }
    }
}

void td_handed_in(struct td_emitter *e, struct td_ir *ir, struct td_handed *h, struct td_value *results,
                  int n_results)
{
    for (int i = 0; i < h->n_kept && e->rc == TD_OK; i++) {
        if (h->flag[i] == 0) {
            continue;
        }
        const struct td_value v = td_grad_feed(e, "kept", td_dtype_of(h->kept[i]));
        const struct td_value alive = td_grad_feed(e, "alive", TD_BOOL);
        const struct td_value again = td_f_port(make_switch(e, v, alive), 1);
        if (e->rc == TD_OK) {
            read_instead(ir, h->kept[i], again, results, n_results);
        }
        h->in[i] = v;
        h->in[h->flag[i]] = alive;
    }
}
