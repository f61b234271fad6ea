/* core/compile/pass_dead_switch.c - dead_branch for TF1's control flow: a Switch whose predicate is constant.
 *
 *   s = Switch(x, true)
 *   a = f(s:1)   b = g(s:0)   Merge(a, b)      becomes      f(x)
 *
 * One walk marks what is certainly dead: the other output of such a Switch and all that reads it or waits for
 * it, but for a Merge with an input that is not. A Merge with one input left is that input. Nothing is done
 * when something dead is fetched or a root (the run says so), or when a Merge keeps several inputs beside
 * dead ones.
 *
 * Invariant (dead_check): of the values that remain, each is dead in a run exactly when it was before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/compile/passes.h"
#include "core/compile/remap.h"

struct marks {
    struct td_ir *ir;
    struct td_emitter e;
    struct td_remap remap;
    bool *dead;     /* by node id: it never runs */
    int *dead_port; /* by node id: 1 + the output of a Switch that is never alive; 0 none */
};

/* A Switch with a constant scalar predicate that waits for nothing. */
static int certain_port(const struct td_node *n)
{
    const struct td_tensor *p =
        n->op != NULL && (n->op->flags & TD_OP_SWITCH) && n->n_in == 2 && n->n_out == 2 && n->n_control == 0
            ? td_node_const(n->in[1].node)
            : NULL;
    bool ok = p != NULL && p->dtype == TD_BOOL && p->shape.rank == 0 && !n->out_ref[0] &&
              n->in[1].node->n_control == 0 && !n->in[0].node->out_ref[n->in[0].port];
    return ok ? (TD_DATA(p, bool)[0] ? 1 : 0) : -1;
}

static bool value_is_dead(const struct marks *x, struct td_value v)
{
    return x->dead[v.node->id] || x->dead_port[v.node->id] == v.port + 1;
}

static bool is_merge(const struct td_node *n)
{
    return n->op != NULL && (n->op->flags & TD_OP_DEAD_OK) != 0;
}

static int count_dead_inputs(const struct marks *x, const struct td_node *n)
{
    int dead = 0;
    for (int i = 0; i < n->n_in; i++) {
        dead += value_is_dead(x, n->in[i]);
    }
    return dead;
}

static bool waits_for_dead(const struct marks *x, const struct td_node *n)
{
    for (int i = 0; i < n->n_control; i++) {
        if (x->dead[n->control[i]->id]) {
            return true;
        }
    }
    return false;
}

/* Marks n by what it reads, all of which is marked. False when the whole pass must not happen. */
static bool mark(struct marks *x, const struct td_node *n)
{
    int dead = count_dead_inputs(x, n), port = certain_port(n);
    bool merge = is_merge(n);
    x->dead[n->id] = waits_for_dead(x, n) || (merge ? n->n_in > 0 && dead == n->n_in : dead > 0);
    if (x->dead[n->id]) {
        return true;
    }
    if (port >= 0) {
        x->dead_port[n->id] = 2 - port;
    }
    return !merge || dead == 0 || dead + 1 == n->n_in;
}

static bool mark_all(struct marks *x, bool *any)
{
    for (int k = 0; k < x->ir->n_nodes; k++) {
        if (!mark(x, x->ir->nodes[k])) {
            return false;
        }
        *any |= x->dead_port[k] != 0;
    }
    for (int i = 0; i < x->ir->n_fetches; i++) {
        if (value_is_dead(x, x->ir->fetches[i])) {
            return false;
        }
    }
    for (int i = 0; i < x->ir->n_roots; i++) {
        if (x->dead[x->ir->roots[i]->id]) {
            return false;
        }
    }
    return true;
}

/* A Merge may be read through only where its one input is certainly alive: the index, a constant now, has no
 * other way to be dead, and control edges from the Merge go to what made the input. */
static enum td_code replace_merge(struct marks *x, struct td_node *n)
{
    int left = 0;
    while (value_is_dead(x, n->in[left])) {
        left++;
    }
    struct td_value *to = td_arena_alloc(x->ir->arena, 2, sizeof *to);
    if (to == NULL) {
        return td_no_memory(x->e.err, sizeof *to, "compiler pass");
    }
    to[0] = n->in[left];
    x->e.at = n;
    to[1] = td_emit_int(&x->e, TD_INT32, left); /* output 1 of a Merge says which input it took */
    TD_TRY(x->e.rc);
    x->remap.to[n->id] = to;
    return TD_OK;
}

/* What stays reads and waits for nothing that never runs. */
TD_CHECK_FN enum td_code dead_check(const struct marks *x, struct td_err *err)
{
    for (int k = 0; k < x->remap.n; k++) {
        const struct td_node *n = x->ir->nodes[k];
        if (x->dead[k] || x->remap.to[k] != NULL) {
            continue;
        }
        for (int i = 0; i < n->n_in; i++) {
            const struct td_node *from = n->in[i].node;
            TD_WANT(from->id >= x->remap.n || !value_is_dead(x, n->in[i]), err,
                    "%s reads '%s', which is dead", TD_NODE_STR(n), from->name);
        }
        for (int i = 0; i < n->n_control; i++) {
            TD_WANT(n->control[i]->id >= x->remap.n || !x->dead[n->control[i]->id], err,
                    "%s waits for '%s', which is dead", TD_NODE_STR(n), n->control[i]->name);
        }
    }
    return TD_OK;
}

static enum td_code replace_all(struct marks *x)
{
    int n_nodes = x->ir->n_nodes;
    for (int k = 0; k < n_nodes; k++) {
        struct td_node *n = x->ir->nodes[k];
        if (x->dead[k]) {
            continue;
        }
        if (x->dead_port[k] != 0) {
            struct td_value *to = td_arena_alloc(x->ir->arena, 2, sizeof *to);
            if (to == NULL) {
                return td_no_memory(x->e.err, sizeof *to, "compiler pass");
            }
            to[0] = to[1] = n->in[0]; /* nothing that remains reads the dead one */
            x->remap.to[k] = to;
        } else if (is_merge(n) && count_dead_inputs(x, n) > 0) {
            TD_TRY(replace_merge(x, n));
        }
    }
    td_remap_apply(x->ir, &x->remap);
    TD_HOLDS(dead_check, x);
    return TD_OK;
}

/* Whether a Switch that is decided at run time is in the graph. */
static bool any_open_switch(const struct marks *x)
{
    for (int k = 0; k < x->ir->n_nodes; k++) {
        const struct td_node *n = x->ir->nodes[k];
        if ((td_node_flags(n) & TD_OP_SWITCH) && n->op != NULL && x->dead_port[k] == 0 && !x->dead[k]) {
            return true;
        }
    }
    return false;
}

enum td_code td_pass_dead_switch(struct td_ir *ir, struct td_model *m, struct td_err *err)
{
    (void)m;
    size_t n = (size_t)ir->n_nodes + 1;
    bool any = false;
    struct marks x = {.ir = ir,
                      .e = td_ir_emitter(ir, NULL, NULL, err),
                      .dead = td_calloc(n, sizeof *x.dead),
                      .dead_port = td_calloc(n, sizeof *x.dead_port)};
    enum td_code rc =
        x.dead && x.dead_port ? td_remap_init(ir, &x.remap, err) : td_no_memory(err, n, "compiler pass");
    if (rc == TD_OK && mark_all(&x, &any) && any && !any_open_switch(&x)) {
        rc = replace_all(&x);
    }
    const enum td_code emitted = td_emit_close(&x.e);
    td_free(x.dead);
    td_free(x.dead_port);
    return rc ? rc : emitted;
}
