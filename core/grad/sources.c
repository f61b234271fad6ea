/* core/grad/sources.c - finds sources, and puts their gradients together.
 *
 * A variable may be reached through several handles, each of which gets a gradient of its own; so may each
 * part of a partitioned variable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/sources.h"

#include <stdlib.h>
#include <string.h>

static enum td_code no_memory(struct td_err *err, int n)
{
    return td_no_memory(err, (size_t)n, "a gradient's sources");
}

static void *room(const struct td_ir *ir, int n, size_t size)
{
    return td_arena_alloc(ir->arena, (size_t)n + 1, size);
}

/* ------------------------------------------------------------------ finding them */

static void add(struct td_grad_sources *s, int part, struct td_value v)
{
    s->part[s->n] = part;
    s->at[s->n++] = v;
}

struct variable { /* a value that is one, or its handle */
    const char *name;
    struct td_value v;
};

struct variables {
    const struct variable *all;
    int n;
};

static int by_name(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    const int names = strcmp(x->name, y->name);
    return names != 0 ? names : (x->v.node->id > y->v.node->id) - (x->v.node->id < y->v.node->id);
}

/* Those of the IR, by name and then as they stand; all is NULL: no memory. */
static struct variables list_variables(const struct td_grad_context *ctx, const struct td_ir *ir)
{
    struct variable *all = room(ir, ir->n_nodes, sizeof *all);
    int n = 0;
    for (int i = 0; all != NULL && i < ir->n_nodes; i++) {
        const struct td_value v = {ir->nodes[i], 0};
        const char *name = v.node->n_out == 0 ? NULL : ctx->formulas->variable(v);
        if (name != NULL) {
            all[n++] = (struct variable){name, v};
        }
    }
    if (n > 0) {
        qsort(all, (size_t)n, sizeof *all, by_name);
    }
    return (struct variables){all, n};
}

/* Those of one name. */
static struct variables find_variable(struct variables in, const char *name)
{
    const struct variable *all = in.all;
    int from = 0, to = in.n, behind;
    while (from < to) {
        const int middle = from + (to - from) / 2;
        if (strcmp(all[middle].name, name) < 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    for (behind = from; behind < in.n && strcmp(all[behind].name, name) == 0;) {
        behind++;
    }
    return (struct variables){all + from, behind - from};
}

/* How many values all sources have together. */
static int n_values(const struct td_grad_source *source, int n_sources, struct variables all)
{
    int n = 0;
    for (int i = 0; i < n_sources; i++) {
        n += source[i].feed >= 0;
        for (int part = 0; source[i].feed < 0 && part < source[i].n_variables; part++) {
            n += find_variable(all, source[i].variables[part]).n;
        }
    }
    return n;
}

enum td_code td_grad_find_sources(const struct td_grad_context *ctx, const struct td_ir *ir,
                                  const struct td_grad_source *source, int n_sources,
                                  struct td_grad_sources *out, struct td_err *err)
{
    const struct variables all = list_variables(ctx, ir);
    const int most = all.all == NULL ? 0 : n_values(source, n_sources, all);
    *out = (struct td_grad_sources){.source = source,
                                    .n_sources = n_sources,
                                    .at = room(ir, most, sizeof *out->at),
                                    .part = room(ir, most, sizeof *out->part),
                                    .first = room(ir, n_sources, sizeof *out->first)};
    if (all.all == NULL || out->at == NULL || out->part == NULL || out->first == NULL) {
        return no_memory(err, most);
    }
    for (int i = 0; i < n_sources; i++) {
        out->first[i] = out->n;
        for (int part = 0; source[i].feed < 0 && part < source[i].n_variables; part++) {
            const struct variables found = find_variable(all, source[i].variables[part]);
            for (int k = 0; k < found.n; k++) {
                add(out, part, found.all[k].v);
            }
        }
        if (source[i].feed >= 0) {
            add(out, 0, (struct td_value){ir->feeds[source[i].feed], 0});
        }
    }
    out->first[n_sources] = out->n;
    return TD_OK;
}

/* ------------------------------------------------------------------ their gradients */

/* What was found for the sources, while it is put together. */
struct found {
    const struct td_grad_context *ctx;
    const struct td_ir *ir;
    const struct td_grad_sources *s;
    struct td_emitter *e;
    const struct td_grad_value *at; /* by value of s */
    struct td_value *few;           /* room for as many */
};

/* The dense gradient of one variable of a source: the sum over its values. */
static struct td_value total(const struct found *f, int source, int part)
{
    int n = 0;
    for (int i = f->s->first[source]; i < f->s->first[source + 1]; i++) {
        if (f->s->part[i] == part) {
            f->e->at = f->s->at[i].node;
            const struct td_value v = td_grad_dense(f->ctx, f->e, &f->at[i]);
            if (v.node != NULL) {
                f->few[n++] = v;
            }
        }
    }
    return n == 0 ? td_no_value : n == 1 ? f->few[0] : f->ctx->formulas->add_n(f->e, f->few, n);
}

static struct td_value zeros_of(const struct found *f, int source, int part)
{
    for (int i = f->s->first[source]; i < f->s->first[source + 1]; i++) {
        if (f->s->part[i] == part) {
            f->e->at = f->s->at[i].node;
            return f->ctx->formulas->zeros_like(f->e, f->s->at[i]);
        }
    }
    return td_emit_fail(f->e, TD_UNIMPLEMENTED,
                        "the graph uses some parts of a partitioned variable, but not '%s': ask for the "
                        "parts by their own names",
                        f->s->source[source].variables[part]);
}

/* The gradients of the parts, one behind the other. */
static struct td_value joined(const struct found *f, int source)
{
    const struct td_grad_source *o = &f->s->source[source];
    struct td_value *part = room(f->ir, o->n_variables, sizeof *part);
    int n = 0;
    for (int i = 0; part != NULL && i < o->n_variables; i++) {
        part[i] = total(f, source, i);
        n += part[i].node != NULL;
    }
    if (part == NULL) {
        return td_emit_fail(f->e, TD_RESOURCE_EXHAUSTED, "no memory for a gradient's program");
    }
    for (int i = 0; n > 0 && i < o->n_variables; i++) {
        part[i] = part[i].node != NULL ? part[i] : zeros_of(f, source, i);
    }
    return n == 0 ? td_no_value : f->ctx->formulas->concat(f->e, part, o->n_variables, o->axis);
}

enum td_code td_grad_by_sources(struct td_grad_context *ctx, struct td_ir *ir,
                                const struct td_grad_sources *s, const struct td_grad_query *targets,
                                struct td_value *result, struct td_err *err)
{
    struct td_grad_query q = *targets;
    struct td_grad_value *at = room(ir, s->n, sizeof *at);
    struct td_value *few = room(ir, s->n, sizeof *few);
    if (at == NULL || few == NULL) {
        return no_memory(err, s->n);
    }
    q.sources = s->at;
    q.n_sources = s->n;
    ctx->order++;
    TD_TRY(td_grad_backward(ctx, ir, &q, at, err));
    struct td_emitter e = td_grad_emitter(ctx, ir, NULL, err);
    const struct found f = {ctx, ir, s, &e, at, few};
    for (int i = 0; i < s->n_sources; i++) {
        const bool cut = s->source[i].feed < 0 && s->source[i].n_variables > 1;
        result[i] = cut ? joined(&f, i) : total(&f, i, 0);
    }
    return td_emit_close(&e);
}
