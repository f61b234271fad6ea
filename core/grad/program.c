/* core/grad/program.c - build, lift, differentiate, and a model around the result.
 *
 *   part of base's graph --td_ir_build--> IR --td_grad_backward--> IR with gradients --> td_graph
 *
 * The IR's nodes become the graph's: the same nodes, ids in order. Everything lies in one arena, which the
 * derived model takes. No pass runs here: the callable compiles the graph as it does any other, so that what
 * runs eagerly is what was built.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/program.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/loops.h"
#include "core/grad/backward.h"
#include "core/grad/loop_functions.h"

enum { PROGRAM_ARENA_BYTES = 512 << 20 };

struct td_program {
    atomic_int refs;
    struct td_model *model;
    struct td_callable *callable;
    int *fetch; /* by source */
    int n_further_feeds;
    size_t graph_bytes; /* of the nodes' arena */
};

struct maker {
    const struct td_program_opts *o;
    struct td_arena *arena;
    struct td_graph *graph;
    struct td_library *lib;
    struct td_ir ir;
    struct td_grad_context ctx;
    struct td_value *feeds, *further; /* all feeds; those behind the part's */
    int n_feeds, n_further;
    struct td_value *seed, *vector; /* of further: by target (no node: ones), by source */
    struct td_value *fetches;
    int n_fetches;
    int *fetch;
    struct td_err *err;
};

static enum td_code no_memory(struct maker *k, int n)
{
    return td_no_memory(k->err, (size_t)n, "a gradient's program");
}

static void *room(struct maker *k, int n, size_t size)
{
    return td_arena_alloc(k->arena, (size_t)n + 1, size);
}

/* ------------------------------------------------------------------ feeds */

static enum td_code add_feed(struct maker *k, const char *name, enum td_dtype dtype, struct td_value *out)
{
    struct td_emitter e = td_grad_emitter(&k->ctx, &k->ir, NULL, k->err);
    const struct td_node at = {.name = name, .function = ""};
    e.at = &at;
    struct td_node *n = td_emit_bare(&e, &td_op_feed, td_op_feed.name, 0, 1);
    TD_TRY(td_emit_close(&e));
    n->out_type[0] = dtype;
    *out = k->further[k->n_further++] = (struct td_value){n, 0};
    return TD_OK;
}

static enum td_code add_feeds(struct maker *k)
{
    const struct td_program_opts *o = k->o;
    k->further = room(k, o->n_targets + o->n_sources, sizeof *k->further);
    k->seed = room(k, o->n_targets, sizeof *k->seed);
    k->vector = room(k, o->n_sources, sizeof *k->vector);
    if (k->further == NULL || k->seed == NULL || k->vector == NULL) {
        return no_memory(k, o->n_targets);
    }
    for (int i = 0; o->seeded != NULL && i < o->n_targets; i++) {
        const enum td_dtype dtype = td_dtype_of(k->ir.fetches[o->target[i]]);
        TD_TRY(o->seeded[i] ? add_feed(k, "output_gradients", dtype, &k->seed[i]) : TD_OK);
    }
    for (int i = 0; o->kind == TD_HVP && i < o->n_sources; i++) {
        TD_TRY(add_feed(k, "vector", o->source[i].dtype, &k->vector[i]));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ sources */

/* The values that are a source: its feed, or every handle that leads to its variables. */
struct sources {
    struct td_value *at;
    int *of, *part; /* by value: number of the source, and of its variable */
    int n;
};

static void list_variable(struct maker *k, int source, int part, struct sources *s)
{
    const char *name = k->o->source[source].variables[part];
    for (int i = 0; i < k->ir.n_nodes; i++) {
        struct td_node *n = k->ir.nodes[i];
        const struct td_value v = {n, 0};
        const char *found = n->n_out == 0 ? NULL : k->ctx.formulas->variable(v);
        if (found != NULL && strcmp(found, name) == 0) {
            s->of[s->n] = source;
            s->part[s->n] = part;
            s->at[s->n++] = v;
        }
    }
}

static enum td_code list_sources(struct maker *k, struct sources *s)
{
    const int most = k->ir.n_nodes + k->o->n_sources;
    s->at = room(k, most, sizeof *s->at);
    s->of = room(k, most, sizeof *s->of);
    s->part = room(k, most, sizeof *s->part);
    if (s->at == NULL || s->of == NULL || s->part == NULL) {
        return no_memory(k, most);
    }
    for (int i = 0; i < k->o->n_sources; i++) {
        const struct td_grad_source *source = &k->o->source[i];
        for (int part = 0; source->feed < 0 && part < source->n_variables; part++) {
            list_variable(k, i, part, s);
        }
        if (source->feed >= 0) {
            s->of[s->n] = i;
            s->part[s->n] = 0;
            s->at[s->n++] = (struct td_value){k->ir.feeds[source->feed], 0};
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the gradients */

static enum td_code list_seeds(struct maker *k, const struct td_value *targets, struct td_value *seeds)
{
    struct td_emitter e = td_grad_emitter(&k->ctx, &k->ir, NULL, k->err);
    for (int i = 0; i < k->o->n_targets; i++) {
        e.at = targets[i].node;
        seeds[i] = k->seed[i].node == NULL
                       ? td_no_value
                       : k->ctx.formulas->seed(&e, k->seed[i], targets[i], k->o->target_name[i]);
    }
    return td_emit_close(&e);
}

/* What was found for the sources, while it is put together. */
struct found {
    const struct sources *s;
    const struct td_grad_value *at; /* by value of s */
    struct td_value *few;           /* room for as many */
};

/* The dense gradient of one variable of a source: the sum over its values. */
static struct td_value total(struct maker *k, struct td_emitter *e, const struct found *f, int source,
                             int part)
{
    int n = 0;
    for (int i = 0; i < f->s->n; i++) {
        if (f->s->of[i] == source && f->s->part[i] == part) {
            e->at = f->s->at[i].node;
            const struct td_value v = td_grad_dense(&k->ctx, e, &f->at[i]);
            if (v.node != NULL) {
                f->few[n++] = v;
            }
        }
    }
    return n == 0 ? td_no_value : n == 1 ? f->few[0] : k->ctx.formulas->add_n(e, f->few, n);
}

static struct td_value zeros_of(struct maker *k, struct td_emitter *e, const struct found *f, int source,
                                int part)
{
    for (int i = 0; i < f->s->n; i++) {
        if (f->s->of[i] == source && f->s->part[i] == part) {
            e->at = f->s->at[i].node;
            return k->ctx.formulas->zeros_like(e, f->s->at[i]);
        }
    }
    return td_emit_fail(e, TD_UNIMPLEMENTED,
                        "the graph uses some parts of a partitioned variable, but not '%s': ask for the "
                        "parts by their own names",
                        k->o->source[source].variables[part]);
}

/* The gradients of the parts, one behind the other. */
static struct td_value joined(struct maker *k, struct td_emitter *e, const struct found *f, int source)
{
    const struct td_grad_source *o = &k->o->source[source];
    struct td_value *part = room(k, o->n_variables, sizeof *part);
    int n = 0;
    for (int i = 0; part != NULL && i < o->n_variables; i++) {
        part[i] = total(k, e, f, source, i);
        n += part[i].node != NULL;
    }
    if (part == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a gradient's program");
    }
    for (int i = 0; n > 0 && i < o->n_variables; i++) {
        part[i] = part[i].node != NULL ? part[i] : zeros_of(k, e, f, source, i);
    }
    return n == 0 ? td_no_value : k->ctx.formulas->concat(e, part, o->n_variables, o->axis);
}

static enum td_code list_results(struct maker *k, const struct sources *s, const struct td_grad_value *found)
{
    const struct found f = {s, found, room(k, s->n, sizeof(struct td_value))};
    if (f.few == NULL) {
        return no_memory(k, s->n);
    }
    struct td_emitter e = td_grad_emitter(&k->ctx, &k->ir, NULL, k->err);
    for (int i = 0; i < k->o->n_sources; i++) {
        const bool cut = k->o->source[i].feed < 0 && k->o->source[i].n_variables > 1;
        const struct td_value v = cut ? joined(k, &e, &f, i) : total(k, &e, &f, i, 0);
        k->fetch[i] = v.node == NULL ? -1 : k->n_fetches;
        if (v.node != NULL) {
            k->fetches[k->n_fetches++] = v;
        }
    }
    return td_emit_close(&e);
}

static enum td_code differentiate(struct maker *k)
{
    const struct td_program_opts *o = k->o;
    struct sources s = {0};
    struct td_value *targets = room(k, o->n_targets, sizeof *targets);
    struct td_value *seeds = room(k, o->n_targets, sizeof *seeds);
    if (targets == NULL || seeds == NULL) {
        return no_memory(k, o->n_targets);
    }
    for (int i = 0; i < o->n_targets; i++) {
        targets[i] = k->ir.fetches[o->target[i]];
    }
    TD_TRY(list_sources(k, &s));
    TD_TRY(list_seeds(k, targets, seeds));
    struct td_grad_value *found = room(k, s.n, sizeof *found);
    if (found == NULL) {
        return no_memory(k, s.n);
    }
    const struct td_grad_query q = {
        .targets = targets, .seeds = seeds, .n_targets = o->n_targets, .sources = s.at, .n_sources = s.n};
    TD_TRY(td_grad_backward(&k->ctx, &k->ir, &q, found, k->err));
    return list_results(k, &s, found);
}

/* ------------------------------------------------------------------ from part to model */

static enum td_code start(struct maker *k, struct td_model *base)
{
    const struct td_program_opts *o = k->o;
    TD_FAIL_IF(o->kind != TD_GRADIENT, k->err, UNIMPLEMENTED,
               "kinds other than 'gradient' are not built yet");
    k->graph = room(k, 1, sizeof *k->graph);
    k->lib = room(k, 1, sizeof *k->lib);
    k->fetches = room(k, o->part.n_fetches + o->n_sources, sizeof *k->fetches);
    k->fetch = td_calloc((size_t)o->n_sources + 1, sizeof *k->fetch);
    if (k->graph == NULL || k->lib == NULL || k->fetches == NULL || k->fetch == NULL) {
        return no_memory(k, o->n_sources);
    }
    td_graph_init(k->graph, k->arena, "");
    TD_TRY(td_library_extend(td_model_library(base), k->arena, k->lib, k->err));
    const struct td_op_def *seed = td_op_of_role(td_model_opts_of(base)->ops, TD_ROLE_GRADIENT_SEED);
    TD_FAIL_IF(seed == NULL, k->err, UNIMPLEMENTED, "this build's ops have no gradients");
    k->ctx = (struct td_grad_context){
        .model = base, .lib = k->lib, .formulas = seed->op->formulas, .recompute = o->recompute};
    TD_TRY(td_ir_build(&k->ir, k->arena, td_model_graph(base), k->lib, &o->part, TD_IR_INLINE, k->err));
    TD_TRY(td_ir_check_types(&k->ir, k->err));
    TD_TRY(td_loops_lift(&k->ir, base, k->err));
    TD_TRY(td_loop_functions(&k->ctx, &k->ir, k->err));
    TD_TRY(td_ir_sort(&k->ir, k->err));
    return add_feeds(k); /* behind all others, and read by nothing yet */
}

/* All fetches are known: the IR becomes the graph. */
static enum td_code finish(struct maker *k)
{
    for (int i = 0; i < k->o->part.n_fetches; i++) {
        k->fetches[i] = k->ir.fetches[i];
    }
    k->ir.fetches = k->fetches;
    k->ir.n_fetches = k->n_fetches;
    k->n_feeds = k->ir.n_feeds + k->n_further;
    k->feeds = room(k, k->n_feeds, sizeof *k->feeds);
    struct td_node **all = room(k, k->n_feeds, sizeof(void *));
    if (k->feeds == NULL || all == NULL) {
        return no_memory(k, k->n_feeds);
    }
    for (int i = 0; i < k->n_feeds; i++) {
        all[i] = i < k->ir.n_feeds ? k->ir.feeds[i] : k->further[i - k->ir.n_feeds].node;
        k->feeds[i] = (struct td_value){all[i], 0};
    }
    k->ir.feeds = all;
    k->ir.n_feeds = k->n_feeds;
    TD_TRY(td_ir_sort(&k->ir, k->err));
    k->graph->nodes = k->ir.nodes;
    k->graph->n_nodes = k->graph->cap_nodes = k->ir.n_nodes;
    return TD_OK;
}

static enum td_code make_callable(struct maker *k, struct td_program *p)
{
    const struct td_callable_opts opts = {.name = k->o->name,
                                          .feeds = k->feeds,
                                          .n_feeds = k->n_feeds,
                                          .fetches = k->fetches,
                                          .n_fetches = k->n_fetches,
                                          .targets = k->ir.roots,
                                          .n_targets = k->ir.n_roots};
    return td_callable_new(p->model, &opts, &p->callable, k->err);
}

static enum td_code build(struct maker *k, struct td_model *base, struct td_program *p)
{
    TD_TRY(start(k, base));
    k->n_fetches = k->o->part.n_fetches;
    TD_TRY(differentiate(k));
    TD_TRY(finish(k));
    p->graph_bytes = td_arena_bytes(k->arena);
    TD_TRY(td_model_derive(base, k->arena, k->graph, k->lib, &p->model, k->err));
    k->arena = NULL; /* the model's */
    return make_callable(k, p);
}

enum td_code td_program_new(struct td_model *base, const struct td_program_opts *opts,
                            struct td_program **out, struct td_err *err)
{
    struct maker k = {.o = opts, .err = err, .arena = td_arena_new(PROGRAM_ARENA_BYTES)};
    struct td_program *p = td_calloc(1, sizeof *p);
    if (k.arena == NULL || p == NULL) {
        td_arena_free(k.arena);
        td_free(p);
        return td_no_memory(err, sizeof *p, "a gradient's program");
    }
    atomic_init(&p->refs, 1);
    const enum td_code rc = build(&k, base, p);
    p->fetch = k.fetch;
    p->n_further_feeds = k.n_further;
    if (rc) {
        td_arena_free(k.arena);
        td_program_unref(p);
        return rc;
    }
    *out = p;
    return TD_OK;
}

struct td_program *td_program_ref(struct td_program *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void td_program_unref(struct td_program *p)
{
    if (p == NULL || atomic_fetch_sub(&p->refs, 1) != 1) {
        return;
    }
    td_model_unref(p->model);
    td_free(p->fetch);
    td_free(p);
}

struct td_callable *td_program_callable(const struct td_program *p)
{
    return p->callable;
}

int td_program_fetch(const struct td_program *p, int source)
{
    return p->fetch[source];
}

size_t td_program_bytes(const struct td_program *p)
{
    return p->graph_bytes + td_callable_bytes(p->callable);
}

int td_program_further_feeds(const struct td_program *p)
{
    return p->n_further_feeds;
}
