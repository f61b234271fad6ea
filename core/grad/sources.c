/* core/grad/sources.c - finds sources, and puts their gradients together.
 *
 * A variable may be reached through several handles, each of which gets a gradient of its own; so may each
 * part of a partitioned variable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/sources.h"

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

static void add(struct td_grad_sources *s, int source, int part, struct td_value v)
{
    s->of[s->n] = source;
    s->part[s->n] = part;
    s->at[s->n++] = v;
}

static void add_variable(const struct td_grad_context *ctx, const struct td_ir *ir, int source, int part,
                         struct td_grad_sources *s)
{
    const char *name = s->source[source].variables[part];
    for (int i = 0; i < ir->n_nodes; i++) {
        const struct td_value v = {ir->nodes[i], 0};
        const char *found = v.node->n_out == 0 ? NULL : ctx->formulas->variable(v);
        if (found != NULL && strcmp(found, name) == 0) {
            add(s, source, part, v);
        }
    }
}

enum td_code td_grad_find_sources(const struct td_grad_context *ctx, const struct td_ir *ir,
                                  const struct td_grad_source *source, int n_sources,
                                  struct td_grad_sources *out, struct td_err *err)
{
    const int most = ir->n_nodes + n_sources;
    *out = (struct td_grad_sources){.source = source,
                                    .n_sources = n_sources,
                                    .at = room(ir, most, sizeof *out->at),
                                    .of = room(ir, most, sizeof *out->of),
                                    .part = room(ir, most, sizeof *out->part)};
    if (out->at == NULL || out->of == NULL || out->part == NULL) {
        return no_memory(err, most);
    }
    for (int i = 0; i < n_sources; i++) {
        for (int part = 0; source[i].feed < 0 && part < source[i].n_variables; part++) {
            add_variable(ctx, ir, i, part, out);
        }
        if (source[i].feed >= 0) {
            add(out, i, 0, (struct td_value){ir->feeds[source[i].feed], 0});
        }
    }
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
    for (int i = 0; i < f->s->n; i++) {
        if (f->s->of[i] == source && f->s->part[i] == part) {
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
    for (int i = 0; i < f->s->n; i++) {
        if (f->s->of[i] == source && f->s->part[i] == part) {
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
