/* core/grad/extend.c - opening a part, adding to it, and making a model of it.
 *
 *   part of a graph --td_grad_open_part--> IR --nodes are added--> IR --td_ir_sort--> td_graph
 *
 * While it is open the IR's own feeds, fetches and roots stay those of the part; further feeds are listed
 * beside it, since the transformations count the IR's. Closing lists all feeds, the fetches of all callables
 * and all targets as roots, so that one sort keeps what any of them needs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/extend.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/grad/body.h"

enum { EXTEND_ARENA_BYTES = 512 << 20, FEW_FEEDS = 16 };

static enum td_code no_memory(struct td_err *err, int n)
{
    return td_no_memory(err, (size_t)n, "a derived model");
}

void *td_extend_room(struct td_extend *x, int n, size_t size)
{
    return td_arena_alloc(x->arena, (size_t)n + 1, size);
}

/* Room for one more feed. */
static enum td_code grow_feeds(struct td_extend *x, struct td_err *err)
{
    if (x->n_feeds < x->cap_feeds) {
        return TD_OK;
    }
    const int cap = x->cap_feeds == 0 ? FEW_FEEDS : 2 * x->cap_feeds;
    struct td_value *grown = td_extend_room(x, cap, sizeof *grown);
    if (grown == NULL) {
        return no_memory(err, cap);
    }
    if (x->n_feeds > 0) {
        memcpy(grown, x->feed, (size_t)x->n_feeds * sizeof *grown);
    }
    x->feed = grown;
    x->cap_feeds = cap;
    return TD_OK;
}

enum td_code td_extend_open(struct td_extend *x, struct td_model *base, const struct td_callable_opts *part,
                            struct td_err *err)
{
    *x = (struct td_extend){.base = base, .arena = td_arena_new(EXTEND_ARENA_BYTES)};
    if (x->arena == NULL) {
        return no_memory(err, 1);
    }
    enum td_code rc = grow_feeds(x, err);
    rc = rc ? rc : td_grad_open_part(base, part, x->arena, &x->ctx, &x->ir, err);
    if (rc) {
        td_extend_abandon(x);
    }
    return rc;
}

enum td_code td_extend_open_function(struct td_extend *x, struct td_model *base, const char *name,
                                     struct td_err *err)
{
    const struct td_callable_opts nothing = {.name = name};
    TD_TRY(td_extend_open(x, base, &nothing, err)); /* what transformations share */
    const enum td_code rc = td_grad_open(&x->ctx, x->arena, name, &x->ir, err);
    if (rc) {
        td_extend_abandon(x);
    }
    return rc;
}

void td_extend_abandon(struct td_extend *x)
{
    td_arena_free(x->arena);
    x->arena = NULL;
}

/* ------------------------------------------------------------------ adding to it */

static enum td_code add_named(void *graph, const struct td_node *at, const char *op_name,
                              struct td_node **out, struct td_err *err)
{
    return td_grad_add_under(graph, "", at, op_name, out, err);
}

struct td_emitter td_extend_emitter(struct td_extend *x, struct td_err *err)
{
    struct td_emitter e = td_ir_emitter(&x->ir, NULL, td_model_opts_of(x->base)->ops, err);
    e.add = add_named;
    return e;
}

enum td_code td_extend_feed(struct td_extend *x, const char *name, enum td_dtype dtype, struct td_value *out,
                            struct td_err *err)
{
    struct td_emitter e = td_extend_emitter(x, err);
    TD_TRY(grow_feeds(x, err));
    *out = td_grad_feed(&e, name, dtype);
    TD_TRY(td_emit_close(&e));
    x->feed[x->n_feeds++] = *out;
    return TD_OK;
}

enum td_code td_extend_wait(struct td_extend *x, struct td_node *n, struct td_node *before,
                            struct td_err *err)
{
    for (int i = 0; i < n->n_control; i++) {
        if (n->control[i] == before) {
            return TD_OK;
        }
    }
    struct td_node **control = td_extend_room(x, n->n_control, sizeof(void *));
    if (control == NULL) {
        return no_memory(err, n->n_control);
    }
    if (n->n_control > 0) {
        memcpy(control, n->control, (size_t)n->n_control * sizeof(void *));
    }
    control[n->n_control] = before;
    n->control = control;
    n->n_control++;
    x->ir.changes++;
    return TD_OK;
}

enum td_code td_extend_order(struct td_extend *x, const struct td_value *keep, int n_keep, struct td_err *err)
{
    struct td_value *all = td_extend_room(x, x->n_feeds + n_keep, sizeof *all);
    int n = 0;
    if (all == NULL) {
        return no_memory(err, n_keep);
    }
    for (int i = 0; i < x->n_feeds; i++) {
        all[n++] = x->feed[i];
    }
    for (int i = 0; i < n_keep; i++) {
        all[n] = keep[i];
        n += keep[i].node != NULL;
    }
    return td_grad_order(&x->ir, all, n, err);
}

enum td_code td_extend_gradients(struct td_extend *x, const struct td_extend_gradients *q,
                                 struct td_value *result, struct td_err *err)
{
    struct td_grad_sources sources;
    const int n_targets = q->targets.n_targets;
    struct td_value *keep = td_extend_room(x, n_targets + q->n_keep, sizeof *keep);
    if (keep == NULL) {
        return no_memory(err, q->n_keep);
    }
    for (int i = 0; i < n_targets + q->n_keep; i++) {
        keep[i] = i < n_targets ? q->targets.targets[i] : q->keep[i - n_targets];
    }
    TD_TRY(td_extend_order(x, keep, n_targets + q->n_keep, err));
    TD_TRY(td_grad_find_sources(&x->ctx, &x->ir, q->source, q->n_sources, &sources, err));
    return td_grad_by_sources(&x->ctx, &x->ir, &sources, &q->targets, result, err);
}

/* ------------------------------------------------------------------ closing */

/* All feeds, and what any callable wants, as the IR's own. */
static enum td_code list_ends(struct td_extend *x, const struct td_callable_opts *callable, int n,
                              struct td_err *err)
{
    struct td_ir *ir = &x->ir;
    int n_fetches = 0, n_roots = 0;
    for (int i = 0; i < n; i++) {
        n_fetches += callable[i].n_fetches;
        n_roots += callable[i].n_targets;
    }
    struct td_node **feeds = td_extend_room(x, ir->n_feeds + x->n_feeds, sizeof(void *));
    struct td_node **roots = td_extend_room(x, n_roots, sizeof(void *));
    struct td_value *fetches = td_extend_room(x, n_fetches, sizeof *fetches);
    if (feeds == NULL || roots == NULL || fetches == NULL) {
        return no_memory(err, n_fetches);
    }
    for (int i = 0; i < ir->n_feeds + x->n_feeds; i++) {
        feeds[i] = i < ir->n_feeds ? ir->feeds[i] : x->feed[i - ir->n_feeds].node;
    }
    ir->feeds = feeds;
    ir->n_feeds += x->n_feeds;
    ir->fetches = fetches;
    ir->roots = roots;
    ir->n_fetches = ir->n_roots = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < callable[i].n_fetches; k++) {
            fetches[ir->n_fetches++] = callable[i].fetches[k];
        }
        for (int k = 0; k < callable[i].n_targets; k++) {
            roots[ir->n_roots++] = callable[i].targets[k];
        }
    }
    ir->cap_roots = n_roots;
    return TD_OK;
}

static enum td_code make(struct td_extend *x, const struct td_callable_opts *callable, int n,
                         struct td_model **model, struct td_callable **f, struct td_err *err)
{
    struct td_graph *graph = td_extend_room(x, 1, sizeof *graph);
    if (graph == NULL) {
        return no_memory(err, 1);
    }
    TD_TRY(list_ends(x, callable, n, err));
    TD_TRY(td_ir_sort(&x->ir, err));
    td_graph_init(graph, x->arena, "");
    graph->nodes = x->ir.nodes;
    graph->n_nodes = graph->cap_nodes = x->ir.n_nodes;
    TD_TRY(td_model_derive(x->base, x->arena, graph, x->ctx.lib, model, err));
    x->arena = NULL; /* the model's */
    for (int i = 0; i < n; i++) {
        TD_TRY(td_callable_new(*model, &callable[i], &f[i], err));
    }
    return TD_OK;
}

enum td_code td_extend_close(struct td_extend *x, const struct td_callable_opts *callable, int n,
                             struct td_model **model, struct td_callable **f, struct td_err *err)
{
    *model = NULL;
    const enum td_code rc = make(x, callable, n, model, f, err);
    if (rc) {
        td_model_unref(*model);
        *model = NULL;
    }
    td_extend_abandon(x);
    return rc;
}
