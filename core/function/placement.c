/* core/function/placement.c - see placement.h.
 *
 * The graph is copied and inlined as the compiler does before its first pass; the compiled plan, if there can
 * be one, tells which of these nodes are left. Functions are walked breadth first from a list, so that no
 * depth of calls in a file is a depth of ours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/function/placement.h"

#include <stdlib.h>
#include <string.h>

#include "core/graph/fused.h"
#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "core/compile/placer.h"
#include "core/run/select.h"

enum { PLACE_ARENA_BYTES = 512 << 20, WHY_BYTES = 512 };

struct places {
    struct td_model *model;
    void (*fn)(void *ctx, const struct td_placement *p);
    void *ctx;
    const struct td_function **seen; /* functions found so far */
    int n_seen, cap_seen;
};

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct td_node *const *)a)->name, (*(const struct td_node *const *)b)->name);
}

/* A node that runs: by itself, or as a part of a fused one. */
static const struct td_node *running(const struct td_step *s, int part)
{
    return s->node->fused == NULL ? s->node : s->node->fused->parts[part].node;
}

static int parts_of(const struct td_step *s)
{
    return s->node->fused == NULL ? 1 : s->node->fused->n_parts;
}

/* The nodes that f's plan runs, in the order of their names; none when f cannot be compiled. */
static const struct td_node **sorted_nodes(struct td_callable *f, int *n)
{
    const struct td_plan *plan;
    struct td_err ignored = {0};
    size_t all = 1;
    *n = 0;
    if (td_callable_plan(f, &plan, &ignored)) {
        return NULL;
    }
    for (int i = 0; i < plan->n_steps; i++) {
        all += (size_t)parts_of(&plan->steps[i]);
    }
    const struct td_node **nodes = td_calloc(all, sizeof *nodes);
    for (int i = 0; nodes != NULL && i < plan->n_steps; i++) {
        for (int k = 0; k < parts_of(&plan->steps[i]); k++) {
            nodes[(*n)++] = running(&plan->steps[i], k);
        }
    }
    if (nodes != NULL) {
        qsort(nodes, (size_t)*n, sizeof *nodes, by_name);
    }
    return nodes;
}

static bool runs(const struct td_node **nodes, int n, const struct td_node *node)
{
    const struct td_node **at = n > 0 ? bsearch(&node, nodes, (size_t)n, sizeof *nodes, by_name) : NULL;
    return at != NULL && (*at)->op == node->op;
}

static enum td_code note_functions(struct places *p, const struct td_node *n, struct td_err *err)
{
    for (int a = 0; a < n->n_attrs; a++) {
        for (int i = 0; n->attrs[a].kind == TD_ATTR_FUNC && i < n->attrs[a].n; i++) {
            const struct td_func_ref *ref = td_attr_func(n, n->attrs[a].name, i);
            const struct td_function *f =
                ref == NULL ? NULL : td_library_find(td_model_library(p->model), ref->name);
            bool known = f == NULL || f->is_template;
            for (int k = 0; !known && k < p->n_seen; k++) {
                known = p->seen[k] == f;
            }
            if (known) {
                continue;
            }
            if (p->n_seen == p->cap_seen) {
                int cap = p->cap_seen * 2 + 16;
                const struct td_function **more = td_realloc(p->seen, (size_t)cap, sizeof *more);
                if (more == NULL) {
                    return td_no_memory(err, (size_t)cap, "a list of functions");
                }
                p->seen = more;
                p->cap_seen = cap;
            }
            p->seen[p->n_seen++] = f;
        }
    }
    return TD_OK;
}

static void place_node(struct places *p, const struct td_node *n, bool running_now, bool compiled)
{
    char why[WHY_BYTES] = "";
    struct td_err err = {0};
    const struct td_model_opts *o = td_model_opts_of(p->model);
    struct td_placement row = {.node = n,
                               .device = "cpu",
                               .why = why,
                               .fate = compiled && !running_now ? TD_FATE_REMOVED : TD_FATE_STEP};
    td_placer_note(o, n, why, sizeof why);
    size_t used = strlen(why);
    if (n->op == &td_op_feed || (td_node_flags(n) & TD_OP_ARG)) {
        row.fate = TD_FATE_FED;
    } else if (td_node_const(n) != NULL) {
        row.fate = TD_FATE_CONSTANT;
    } else if ((row.kernel = td_placer_device_kernel(o, n)) != NULL) {
        row.device = o->device->name;
    } else {
        if (used > 0 && used + 2 < sizeof why) {
            memcpy(why + used, "; ", 3);
            used += 2;
        }
        if (td_select_kernel(n, TD_CPU, o->kernels, &row.kernel, why + used, sizeof why - used, &err)) {
            row.kernel = NULL;
            row.why = err.msg;
        }
    }
    p->fn(p->ctx, &row);
}

static enum td_code place_callable(struct places *p, struct td_callable *f, struct td_err *err)
{
    struct td_arena *arena = td_arena_new(PLACE_ARENA_BYTES);
    if (arena == NULL) {
        return td_no_memory(err, 1, "placing a graph");
    }
    struct td_callable_opts opts;
    const struct td_graph *graph = td_callable_graph(f, &opts);
    struct td_ir ir;
    enum td_code rc = td_ir_build(&ir, arena, graph, td_model_library(p->model), &opts, TD_IR_INLINE, err);
    int n_running;
    const struct td_node **nodes = sorted_nodes(f, &n_running);
    for (int i = 0; rc == TD_OK && i < ir.n_nodes; i++) {
        const struct td_node *n = ir.nodes[i];
        if (n->op != &td_op_join) {
            place_node(p, n, runs(nodes, n_running, n), nodes != NULL);
            rc = note_functions(p, n, err);
        }
    }
    td_free(nodes);
    td_arena_free(arena);
    return rc;
}

enum td_code td_placement_each(struct td_callable *f, void (*fn)(void *ctx, const struct td_placement *p),
                               void *ctx, struct td_err *err)
{
    struct places p = {.model = td_callable_model(f), .fn = fn, .ctx = ctx};
    enum td_code rc = place_callable(&p, f, err);
    for (int i = 0; rc == TD_OK && i < p.n_seen; i++) {
        struct td_callable *body;
        rc = td_model_function(p.model, p.seen[i]->name, p.seen[i]->n_args, p.seen[i]->n_rets, &body, err);
        rc = rc ? rc : place_callable(&p, body, err);
    }
    td_free(p.seen);
    return rc;
}
