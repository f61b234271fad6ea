/* core/grad/program.c - a part of a model extended (core/grad/extend.h) by the gradients of its fetches.
 *
 * A vector product with the Hessian is two backward passes, the second seeded with the vectors; a jacobian is
 * core/grad/jacobian.h's, and a Hessian the jacobian of a gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/program.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/grad/extend.h"
#include "core/grad/jacobian.h"
#include "core/grad/recompute.h"

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
    struct td_extend x;
    struct td_value *seed, *vector; /* further feeds: by target (no node: ones), by source */
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
    return td_extend_room(&k->x, n, size);
}

/* ------------------------------------------------------------------ feeds */

static enum td_code add_feeds(struct maker *k)
{
    const struct td_program_opts *o = k->o;
    k->seed = room(k, o->n_targets, sizeof *k->seed);
    k->vector = room(k, o->n_sources, sizeof *k->vector);
    if (k->seed == NULL || k->vector == NULL) {
        return no_memory(k, o->n_targets);
    }
    for (int i = 0; o->seeded != NULL && i < o->n_targets; i++) {
        const enum td_dtype dtype = td_dtype_of(k->x.ir.fetches[o->target[i]]);
        TD_TRY(o->seeded[i] ? td_extend_feed(&k->x, "output_gradients", dtype, &k->seed[i], k->err) : TD_OK);
    }
    for (int i = 0; o->kind == TD_HVP && i < o->n_sources; i++) {
        TD_TRY(td_extend_feed(&k->x, "vector", o->source[i].dtype, &k->vector[i], k->err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the gradients */

static enum td_code list_seeds(struct maker *k, const struct td_value *targets, struct td_value *seeds)
{
    const struct td_grad_formulas *f = k->x.ctx.formulas;
    struct td_emitter e = td_grad_emitter(&k->x.ctx, &k->x.ir, NULL, k->err);
    for (int i = 0; i < k->o->n_targets; i++) {
        e.at = targets[i].node;
        seeds[i] = k->o->kind == TD_HESSIAN  ? f->one(&e, targets[i], k->o->target_name[i])
                   : k->seed[i].node == NULL ? td_no_value
                                             : f->seed(&e, k->seed[i], targets[i], k->o->target_name[i]);
    }
    return td_emit_close(&e);
}

/* ------------------------------------------------------------------ kinds */

/* IR, targets and sources of the program, and what is made of them: a value a source. */
struct kind {
    struct td_grad_sources sources;
    struct td_grad_query targets;
    struct td_value *result;
};

/* Brings the IR in order once more, to be differentiated again. */
static enum td_code order(struct maker *k, const struct kind *kind)
{
    const struct td_grad_sources *s = &kind->sources;
    const int most = s->n + s->n_sources + k->o->n_targets;
    struct td_value *keep = room(k, most, sizeof *keep);
    int n = 0;
    if (keep == NULL) {
        return no_memory(k, most);
    }
    for (int i = 0; i < s->n; i++) {
        keep[n++] = s->at[i];
    }
    for (int i = 0; i < s->n_sources; i++) {
        keep[n++] = kind->result[i];
    }
    for (int i = 0; i < k->o->n_targets; i++) {
        keep[n++] = kind->targets.targets[i];
    }
    return td_extend_order(&k->x, keep, n, k->err);
}

static enum td_code gradient(struct maker *k, struct kind *kind)
{
    return td_grad_by_sources(&k->x.ctx, &k->x.ir, &kind->sources, &kind->targets, kind->result, k->err);
}

static enum td_code gradient_alone(struct maker *k, struct kind *kind)
{
    TD_TRY(gradient(k, kind));
    if (!k->o->recompute) {
        return TD_OK;
    }
    const struct td_grad_recompute_opts o = {.targets = kind->targets.targets,
                                             .n_targets = kind->targets.n_targets,
                                             .results = kind->result,
                                             .n_results = kind->sources.n_sources};
    return td_grad_recompute(&k->x.ctx, &k->x.ir, &o, k->err);
}

static const char *source_name(const struct maker *k, int i)
{
    const struct td_grad_source *s = &k->o->source[i];
    return s->feed < 0 ? s->variables[0] : k->x.ir.feeds[s->feed]->name;
}

/* The gradient by source i once more, seeded with vector i: the sum over i of <gradient i, vector i>
 * differentiated. */
static enum td_code hvp(struct maker *k, struct kind *kind)
{
    const int n = kind->sources.n_sources;
    struct td_value *targets = room(k, n, sizeof *targets), *seeds = room(k, n, sizeof *seeds);
    struct td_grad_query again = {.targets = targets, .seeds = seeds};
    if (targets == NULL || seeds == NULL) {
        return no_memory(k, n);
    }
    TD_TRY(gradient(k, kind));
    TD_TRY(order(k, kind));
    struct td_emitter e = td_grad_emitter(&k->x.ctx, &k->x.ir, NULL, k->err);
    for (int i = 0; i < n; i++) {
        const struct td_value v = kind->result[i];
        if (v.node != NULL) {
            e.at = v.node;
            targets[again.n_targets] = v;
            seeds[again.n_targets++] = k->x.ctx.formulas->vector(&e, k->vector[i], v, source_name(k, i));
        }
    }
    TD_TRY(td_emit_close(&e));
    return td_grad_by_sources(&k->x.ctx, &k->x.ir, &kind->sources, &again, kind->result, k->err);
}

static struct td_grad_jacobian_opts rows_of(struct maker *k, const struct kind *kind, struct td_value target,
                                            const char *what)
{
    return (struct td_grad_jacobian_opts){.target = target,
                                          .what = what,
                                          .of = k->o->target_name[0],
                                          .sources = &kind->sources,
                                          .only = -1,
                                          .limit_bytes = k->o->limit_bytes > 0 ? k->o->limit_bytes
                                                                               : TD_PROGRAM_LIMIT_BYTES,
                                          .keep = k->x.feed,
                                          .n_keep = k->x.n_feeds};
}

static enum td_code jacobian(struct maker *k, struct kind *kind)
{
    const struct td_grad_jacobian_opts o = rows_of(k, kind, kind->targets.targets[0], "jacobian");
    return td_grad_jacobian(&k->x.ctx, &k->x.ir, &o, kind->result, k->err);
}

/* A jacobian of each gradient by its own source. */
static enum td_code hessian(struct maker *k, struct kind *kind)
{
    const int n = kind->sources.n_sources;
    struct td_value *all = room(k, n, sizeof *all); /* second derivatives, then gradients that wait */
    struct td_value *keep = room(k, n + k->x.n_feeds, sizeof *keep);
    if (all == NULL || keep == NULL) {
        return no_memory(k, n);
    }
    TD_TRY(gradient(k, kind));
    memcpy(all, kind->result, (size_t)n * sizeof *all);
    memcpy(keep, k->x.feed, (size_t)k->x.n_feeds * sizeof *keep);
    for (int i = 0; i < n; i++) {
        if (all[i].node == NULL) {
            continue;
        }
        struct td_grad_jacobian_opts o = rows_of(k, kind, all[i], "hessian");
        o.only = i;
        o.keep = keep;
        for (int j = 0; j < n; j++) {
            keep[o.n_keep] = all[j];
            o.n_keep += all[j].node != NULL;
        }
        TD_TRY(order(k, &(struct kind){.sources = kind->sources, .targets = kind->targets, .result = all}));
        TD_TRY(td_grad_jacobian(&k->x.ctx, &k->x.ir, &o, all, k->err));
    }
    memcpy(kind->result, all, (size_t)n * sizeof *all);
    return TD_OK;
}

static enum td_code list_results(struct maker *k, const struct kind *kind)
{
    for (int i = 0; i < k->o->n_sources; i++) {
        k->fetch[i] = kind->result[i].node == NULL ? -1 : k->n_fetches;
        if (kind->result[i].node != NULL) {
            k->fetches[k->n_fetches++] = kind->result[i];
        }
    }
    return TD_OK;
}

static enum td_code differentiate(struct maker *k)
{
    static enum td_code (*const kinds[])(struct maker *, struct kind *) = {
        [TD_GRADIENT] = gradient_alone, [TD_JACOBIAN] = jacobian, [TD_HESSIAN] = hessian, [TD_HVP] = hvp};
    const struct td_program_opts *o = k->o;
    struct td_value *targets = room(k, o->n_targets, sizeof *targets);
    struct td_value *seeds = room(k, o->n_targets, sizeof *seeds);
    struct kind kind = {.targets = {.targets = targets, .seeds = seeds, .n_targets = o->n_targets},
                        .result = room(k, o->n_sources, sizeof *kind.result)};
    if (targets == NULL || seeds == NULL || kind.result == NULL) {
        return no_memory(k, o->n_targets);
    }
    for (int i = 0; i < o->n_targets; i++) {
        targets[i] = k->x.ir.fetches[o->target[i]];
    }
    TD_TRY(td_grad_find_sources(&k->x.ctx, &k->x.ir, o->source, o->n_sources, &kind.sources, k->err));
    TD_TRY(list_seeds(k, targets, seeds));
    TD_TRY(kinds[o->kind](k, &kind));
    return list_results(k, &kind);
}

/* ------------------------------------------------------------------ from part to model */

static enum td_code start(struct maker *k, struct td_model *base)
{
    const struct td_program_opts *o = k->o;
    TD_FAIL_IF((o->kind == TD_JACOBIAN || o->kind == TD_HESSIAN) && o->n_targets != 1, k->err,
               INVALID_ARGUMENT, "a %s is of one target, got %d",
               o->kind == TD_JACOBIAN ? "jacobian" : "hessian", o->n_targets);
    TD_TRY(td_extend_open(&k->x, base, &o->part, k->err));
    k->fetches = room(k, o->part.n_fetches + o->n_sources, sizeof *k->fetches);
    k->fetch = td_calloc((size_t)o->n_sources + 1, sizeof *k->fetch);
    if (k->fetches == NULL || k->fetch == NULL) {
        return no_memory(k, o->n_sources);
    }
    for (int i = 0; i < o->part.n_fetches; i++) {
        k->fetches[k->n_fetches++] = k->x.ir.fetches[i];
    }
    k->x.ctx.recompute = o->recompute;
    return add_feeds(k); /* behind all others, and read by nothing yet */
}

/* All fetches are known: the IR becomes a model with one callable. */
static enum td_code finish(struct maker *k, struct td_program *p)
{
    const struct td_ir *ir = &k->x.ir;
    const int n_feeds = ir->n_feeds + k->x.n_feeds;
    struct td_value *feeds = room(k, n_feeds, sizeof *feeds);
    if (feeds == NULL) {
        return no_memory(k, n_feeds);
    }
    for (int i = 0; i < n_feeds; i++) {
        feeds[i] = i < ir->n_feeds ? (struct td_value){ir->feeds[i], 0} : k->x.feed[i - ir->n_feeds];
    }
    const struct td_callable_opts opts = {.name = k->o->name,
                                          .feeds = feeds,
                                          .n_feeds = n_feeds,
                                          .fetches = k->fetches,
                                          .n_fetches = k->n_fetches,
                                          .targets = ir->roots,
                                          .n_targets = ir->n_roots};
    p->n_further_feeds = k->x.n_feeds;
    p->graph_bytes = td_arena_bytes(k->x.arena);
    return td_extend_close(&k->x, &opts, 1, &p->model, &p->callable, k->err);
}

static enum td_code build(struct maker *k, struct td_model *base, struct td_program *p)
{
    TD_TRY(start(k, base));
    TD_TRY(differentiate(k));
    return finish(k, p);
}

enum td_code td_program_new(struct td_model *base, const struct td_program_opts *opts,
                            struct td_program **out, struct td_err *err)
{
    struct maker k = {.o = opts, .err = err};
    struct td_program *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "a gradient's program");
    }
    atomic_init(&p->refs, 1);
    const enum td_code rc = build(&k, base, p);
    p->fetch = k.fetch;
    td_extend_abandon(&k.x);
    if (rc) {
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
    return p->graph_bytes + td_model_plan_bytes(p->model);
}

int td_program_further_feeds(const struct td_program *p)
{
    return p->n_further_feeds;
}
