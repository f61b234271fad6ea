/* core/function/placement.c - the nodes of a graph as it was saved, each matched with what the compiled plan
 * makes of it.
 *
 * The graph is copied and inlined as the compiler does before its first pass; the compiled plan, if there can
 * be one, tells which of these nodes are left: its nodes, those inside fused steps too, are sorted by name,
 * and each node of the copy is looked up there. A node that is not found was compiled away. Where the
 * callable has run, the kernel told is the one that its latest bound plan chose for those shapes; else it is
 * the first that may serve.
 *
 * Functions are walked breadth first from a list, so that no depth of calls in a file is a depth of ours.
 * Reasons are put together in a buffer on the stack, which the callback borrows.
 *
 * Does not: run anything, or choose a device (core/compile/placer.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/function/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/fused.h"
#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "core/compile/placer.h"
#include "core/run/device_run.h"
#include "core/run/select.h"
#include "core/run/stretch.h"

enum { PLACE_ARENA_BYTES = 512 << 20, WHY_BYTES = 512 };

struct places {
    struct td_model *model;
    void (*fn)(void *ctx, const struct td_placement *p);
    void *ctx;
    const struct td_function **seen; /* functions found so far */
    int n_seen, cap_seen;
};

/* A node that runs, and the step that it is or is a part of. */
struct running {
    const struct td_node *node;
    int step;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct running *)a)->node->name, ((const struct running *)b)->node->name);
}

static int parts_of(const struct td_step *s)
{
    return s->node->fused == NULL ? 1 : s->node->fused->n_parts;
}

/* What f's plan runs, in the order of the nodes' names; nothing when f cannot be compiled. */
static struct running *sorted_nodes(struct td_callable *f, int *n)
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
    struct running *nodes = td_calloc(all, sizeof *nodes);
    for (int i = 0; nodes != NULL && i < plan->n_steps; i++) {
        const struct td_step *s = &plan->steps[i];
        for (int k = 0; k < parts_of(s); k++) {
            nodes[(*n)++] =
                (struct running){s->node->fused == NULL ? s->node : s->node->fused->parts[k].node, i};
        }
    }
    if (nodes != NULL) {
        qsort(nodes, (size_t)*n, sizeof *nodes, by_name);
    }
    return nodes;
}

static const struct running *find_running(const struct running *nodes, int n, const struct td_node *node)
{
    const struct running wanted = {node, 0};
    const struct running *at = n > 0 ? bsearch(&wanted, nodes, (size_t)n, sizeof *nodes, by_name) : NULL;
    return at != NULL && at->node->op == node->op ? at : NULL;
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

/* The kernel of a node whose shapes nobody has asked for yet: the first that may serve. */
static void place_unbound(const struct td_model_opts *o, const struct td_node *n, struct td_placement *row,
                          char *why, size_t bytes, struct td_err *err)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    const struct td_target host = td_target_host(o);
    int n_rows;
    if (td_placer_device_rows(o, n, rows) > 0) {
        row->kernel = rows[0]->name;
        row->device = o->device->name;
    } else if (td_select_rows(n, &host, rows, &n_rows, why, bytes, err)) {
        row->why = err->msg;
    } else {
        row->kernel = rows[0]->name;
    }
}

/* The kernel that ran last, or will, for the shapes that b is bound to. */
static void place_bound(const struct td_model_opts *o, const struct td_bound_plan *b, int step,
                        struct td_placement *row, char *why, size_t bytes)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    const struct td_step *s = &b->plan->steps[step];
    const bool there = td_step_on_device(b->mode[step]);
    const struct td_target target = there ? td_target_device(o) : td_target_host(o);
    struct td_err ignored = {0};
    int n_rows;
    row->kernel = td_bound_plan_kernel_name(b, step);
    row->device = there ? o->device->name : "cpu";
    if (s->n_rows > 0 && td_select_rows(s->node, &target, rows, &n_rows, why, bytes, &ignored) != TD_OK) {
        why[0] = '\0';
    }
    td_select_notes_put(&b->passed_over, step, why, bytes);
    size_t used = strlen(why);
    if (there && td_device_sized_may(s) && used + 1 < bytes) {
        (void)snprintf(why + used, bytes - used, "%sruns there if a value that it reads lies there alone",
                       used > 0 ? "; " : "");
        used = strlen(why);
    }
    const struct td_stretch *recorded = td_stretch_of(b, step);
    if (recorded != NULL && used + 1 < bytes) {
        (void)snprintf(why + used, bytes - used, "%s%s from run %d on", used > 0 ? "; " : "",
                       recorded->loop && b->inner[step]->loop ? "goes round on the device"
                       : recorded->loop ? "its branch chosen on the device, whose loops go round there,"
                       : b->inner[step] != NULL
                           ? "recorded with its neighbours, its branch chosen on the device,"
                       : there ? "recorded with its neighbours"
                               : "done beside the launch of what is recorded",
                       o->device->graph_run);
    }
}

static void place_node(struct places *p, const struct td_node *n, const struct running *running,
                       const struct td_bound_plan *b, bool compiled)
{
    char why[WHY_BYTES] = "";
    struct td_err err = {0};
    const struct td_model_opts *o = td_model_opts_of(p->model);
    struct td_placement row = {.node = n,
                               .device = "cpu",
                               .why = why,
                               .fate = compiled && running == NULL ? TD_FATE_REMOVED : TD_FATE_STEP};
    td_placer_note(o, n, why, sizeof why);
    size_t used = strlen(why);
    if (n->op == &td_op_feed || (td_node_flags(n) & TD_OP_ARG)) {
        row.fate = TD_FATE_FED;
    } else if (td_node_const(n) != NULL) {
        row.fate = TD_FATE_CONSTANT;
    } else {
        const size_t note = used;
        if (used > 0 && used + 2 < sizeof why) {
            memcpy(why + used, "; ", 3);
            used += 2;
        }
        if (running != NULL && b != NULL) {
            place_bound(o, b, running->step, &row, why + used, sizeof why - used);
        } else {
            place_unbound(o, n, &row, why + used, sizeof why - used, &err);
        }
        why[why[used] == '\0' ? note : used + strlen(why + used)] = '\0';
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
    struct running *nodes = sorted_nodes(f, &n_running);
    struct td_bound_plan *latest = td_callable_latest(f);
    for (int i = 0; rc == TD_OK && i < ir.n_nodes; i++) {
        const struct td_node *n = ir.nodes[i];
        if (n->op != &td_op_join) {
            place_node(p, n, find_running(nodes, n_running, n), latest, nodes != NULL);
            rc = note_functions(p, n, err);
        }
    }
    td_bound_plan_unref(latest);
    td_free(nodes);
    td_arena_free(arena);
    return rc;
}

static enum td_code place_function(struct places *p, const struct td_function *s, struct td_err *err)
{
    struct td_callable *body;
    TD_TRY(td_model_function(p->model, s->name, s->n_args, s->n_rets, &body, err));
    return place_callable(p, body, err);
}

enum td_code td_placement_each(struct td_callable *f, void (*fn)(void *ctx, const struct td_placement *p),
                               void *ctx, struct td_err *err)
{
    struct places p = {.model = td_callable_model(f), .fn = fn, .ctx = ctx};
    enum td_code rc = place_callable(&p, f, err);
    for (int i = 0; rc == TD_OK && i < p.n_seen; i++) {
        rc = place_function(&p, p.seen[i], err);
    }
    td_free(p.seen);
    return rc;
}
