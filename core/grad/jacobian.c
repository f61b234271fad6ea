/* core/grad/jacobian.c - one backward pass, cut off where it meets the forward part.
 *
 * What follows from the seed goes into the function; what it reads besides are its further arguments,
 * computed once. That takes in whatever the gradients added that is the same for all rows. Where no node of
 * the pass has effects the function takes many rows (core/grad/vectorize.h), else one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/jacobian.h"

#include <string.h>

#include "core/grad/body.h"
#include "core/grad/vectorize.h"

struct cut {
    struct td_grad_context *ctx;
    struct td_ir *ir;
    const struct td_grad_jacobian_opts *o;
    struct td_value seed;
    struct td_value *found; /* by source */
    bool *seeded;           /* by node id: follows from the seed */
    struct td_value *args, *rets;
    int *source; /* by result: of which source */
    int n_args, n_rets;
    bool many;    /* the function takes many rows */
    int n_before; /* many: nodes from here on are its */
    struct td_err *err;
};

static enum td_code no_memory(const struct cut *c, int n)
{
    return td_no_memory(c->err, (size_t)n, "a jacobian's program");
}

static void *room(const struct cut *c, int n, size_t size)
{
    return td_arena_alloc(c->ir->arena, (size_t)n + 1, size);
}

/* ------------------------------------------------------------------ the backward pass */

static enum td_code add_backward(struct cut *c)
{
    const struct td_grad_sources *s = c->o->sources;
    struct td_emitter e = td_grad_emitter(c->ctx, c->ir, NULL, c->err);
    c->seed = td_grad_feed(&e, "row", td_dtype_of(c->o->target));
    TD_TRY(td_emit_close(&e));
    c->found = room(c, s->n_sources, sizeof *c->found);
    if (c->found == NULL) {
        return no_memory(c, s->n_sources);
    }
    const struct td_grad_query q = {.targets = &c->o->target, .seeds = &c->seed, .n_targets = 1};
    return td_grad_by_sources(c->ctx, c->ir, s, &q, c->found, c->err);
}

/* In order, with all that is still to be read. */
static enum td_code order(struct cut *c)
{
    const struct td_grad_sources *s = c->o->sources;
    const int most = c->o->n_keep + s->n + s->n_sources + 2;
    struct td_value *keep = room(c, most, sizeof *keep);
    int n = 0;
    if (keep == NULL) {
        return no_memory(c, most);
    }
    for (int i = 0; i < c->o->n_keep; i++) {
        keep[n++] = c->o->keep[i];
    }
    for (int i = 0; i < s->n; i++) {
        keep[n++] = s->at[i];
    }
    for (int i = 0; i < s->n_sources; i++) {
        keep[n] = c->found[i];
        n += keep[n].node != NULL;
    }
    keep[n++] = c->o->target;
    keep[n++] = c->seed;
    return td_grad_order(c->ir, keep, n, c->err);
}

/* ------------------------------------------------------------------ the function */

/* What is needed without this pass. */
static void mark_forward(const struct cut *c, bool *forward)
{
    forward[c->o->target.node->id] = true;
    for (int i = 0; i < c->o->n_keep; i++) {
        forward[c->o->keep[i].node->id] = true;
    }
    for (int i = 0; i < c->ir->n_fetches; i++) {
        forward[c->ir->fetches[i].node->id] = true;
    }
    for (int i = 0; i < c->ir->n_roots; i++) {
        forward[c->ir->roots[i]->id] = true;
    }
    for (int k = c->ir->n_nodes - 1; k >= 0; k--) {
        const struct td_node *n = c->ir->nodes[k];
        for (int i = 0; forward[k] && i < n->n_in + n->n_control; i++) {
            forward[i < n->n_in ? n->in[i].node->id : n->control[i - n->n_in]->id] = true;
        }
    }
}

/* What follows from the seed; and what this pass does with effects (arrays of gradients), for every row. */
static enum td_code mark_seeded(struct cut *c)
{
    const size_t nodes = (size_t)c->ir->n_nodes;
    bool *forward = room(c, c->ir->n_nodes, sizeof *forward);
    c->seeded = room(c, c->ir->n_nodes, sizeof *c->seeded);
    if (c->seeded == NULL || forward == NULL) {
        return no_memory(c, c->ir->n_nodes);
    }
    memset(c->seeded, 0, nodes);
    memset(forward, 0, nodes);
    mark_forward(c, forward);
    c->seeded[c->seed.node->id] = true;
    for (int k = 0; k < c->ir->n_nodes; k++) {
        const struct td_node *n = c->ir->nodes[k];
        const uint32_t flags = td_node_flags(n), quiet = TD_OP_READS | TD_OP_HANDLE;
        c->seeded[k] |= !forward[k] && n->op != &td_op_feed && (flags & TD_OP_STATEFUL) && !(flags & quiet);
        for (int i = 0; i < n->n_in; i++) {
            c->seeded[k] |= c->seeded[n->in[i].node->id];
        }
    }
    return TD_OK;
}

static enum td_code list_rets(struct cut *c)
{
    const int n = c->o->sources->n_sources;
    c->rets = room(c, n, sizeof *c->rets);
    c->source = room(c, n, sizeof *c->source);
    if (c->rets == NULL || c->source == NULL) {
        return no_memory(c, n);
    }
    for (int i = 0; i < n; i++) {
        if (c->found[i].node != NULL && (c->o->only < 0 || c->o->only == i)) {
            c->source[c->n_rets] = i;
            c->rets[c->n_rets++] = c->found[i];
        }
    }
    return TD_OK;
}

/* Whether v is made in the function: it follows from the seed, or was added for many rows. */
static bool is_inside(const struct cut *c, struct td_value v)
{
    return c->many ? v.node->id >= c->n_before : c->seeded[v.node->id];
}

static void add_arg(struct cut *c, struct td_value v)
{
    for (int i = 0; i < c->n_args; i++) {
        if (c->args[i].node == v.node && c->args[i].port == v.port) {
            return;
        }
    }
    c->args[c->n_args++] = v;
}

struct climb {
    bool *visited; /* by node id */
    struct td_node **stack;
    int depth;
};

/* Constants are neither inside nor arguments: the function has its own. */
static void need(struct cut *c, struct climb *x, struct td_value v)
{
    if (x->visited[v.node->id]) {
        return;
    }
    if (is_inside(c, v)) {
        x->visited[v.node->id] = true;
        x->stack[x->depth++] = v.node;
    } else if (td_known_value(v) == NULL) {
        add_arg(c, v);
    }
}

/* Its arguments: the seed, and what is read inside and made outside. */
static enum td_code list_args(struct cut *c)
{
    const int n = c->ir->n_nodes;
    int edges = 1 + c->n_rets;
    for (int k = 0; k < n; k++) {
        edges += c->ir->nodes[k]->n_in;
    }
    c->args = room(c, edges, sizeof *c->args);
    struct climb x = {.visited = room(c, n, sizeof *x.visited), .stack = room(c, n, sizeof(void *))};
    if (c->args == NULL || x.visited == NULL || x.stack == NULL) {
        return no_memory(c, edges);
    }
    memset(x.visited, 0, (size_t)n);
    x.visited[c->seed.node->id] = true;
    add_arg(c, c->seed);
    for (int i = 0; i < c->n_rets; i++) {
        need(c, &x, c->rets[i]);
        while (x.depth > 0) {
            const struct td_node *at = x.stack[--x.depth];
            for (int k = 0; k < at->n_in; k++) {
                need(c, &x, at->in[k]);
            }
        }
    }
    return TD_OK;
}

/* The same pass for many rows, where that can be had. */
static enum td_code make_many(struct cut *c)
{
    struct td_emitter e = td_grad_emitter(c->ctx, c->ir, NULL, c->err);
    c->n_before = c->ir->n_nodes;
    const struct td_value rows = td_grad_feed(&e, "rows", td_dtype_of(c->o->target));
    TD_TRY(td_emit_close(&e));
    bool *seeded = room(c, c->ir->n_nodes, sizeof *seeded);
    if (seeded == NULL) {
        return no_memory(c, c->ir->n_nodes);
    }
    memcpy(seeded, c->seeded, (size_t)c->n_before);
    seeded[c->n_before] = false;
    const struct td_vectorize_opts o = {.seed = c->seed, .rows = rows, .seeded = seeded};
    TD_TRY(td_grad_vectorize(c->ctx, c->ir, &o, c->rets, c->n_rets, &c->many, c->err));
    c->seed = c->many ? rows : c->seed;
    return TD_OK;
}

/* ------------------------------------------------------------------ the node that calls it */

/* The value whose shape is source i's; no node: it is not known before the result is. */
static struct td_value shaped_like(const struct cut *c, int i)
{
    const struct td_grad_sources *s = c->o->sources;
    const bool parts = s->source[i].feed < 0 && s->source[i].n_variables > 1;
    return parts || s->first[i] == s->first[i + 1] ? td_no_value : s->at[s->first[i]];
}

static enum td_code add_node(struct cut *c, const char *function, struct td_value *result)
{
    struct td_value *like = room(c, c->n_rets, sizeof *like);
    enum td_dtype *dtype = room(c, c->n_rets, sizeof *dtype);
    if (like == NULL || dtype == NULL) {
        return no_memory(c, c->n_rets);
    }
    for (int i = 0; i < c->n_rets; i++) {
        like[i] = shaped_like(c, c->source[i]);
        dtype[i] = td_dtype_of(c->rets[i]);
    }
    const struct td_grad_rows rows = {.target = c->o->target,
                                      .what = c->o->what,
                                      .of = c->o->of,
                                      .function = function,
                                      .like = like,
                                      .dtype = dtype,
                                      .n = c->n_rets,
                                      .args = c->args + 1,
                                      .n_args = c->n_args - 1,
                                      .limit_bytes = c->o->limit_bytes,
                                      .many = c->many};
    struct td_emitter e = td_grad_emitter(c->ctx, c->ir, NULL, c->err);
    e.at = c->o->target.node;
    const struct td_value made = c->ctx->formulas->rows(&e, &rows);
    for (int i = 0; i < c->n_rets; i++) {
        result[c->source[i]] = (struct td_value){made.node, i};
    }
    return td_emit_close(&e);
}

enum td_code td_grad_jacobian(struct td_grad_context *ctx, struct td_ir *ir,
                              const struct td_grad_jacobian_opts *o, struct td_value *result,
                              struct td_err *err)
{
    struct cut c = {.ctx = ctx, .ir = ir, .o = o, .err = err};
    for (int i = 0; i < o->sources->n_sources; i++) {
        if (o->only < 0 || o->only == i) {
            result[i] = td_no_value;
        }
    }
    TD_TRY(add_backward(&c));
    TD_TRY(order(&c));
    TD_TRY(mark_seeded(&c));
    TD_TRY(list_rets(&c));
    if (c.n_rets == 0) {
        return TD_OK;
    }
    TD_TRY(make_many(&c));
    TD_TRY(list_args(&c));
    const struct td_grad_part part = {
        .of = o->of, .args = c.args, .n_args = c.n_args, .rets = c.rets, .n_rets = c.n_rets};
    const char *name;
    TD_TRY(td_grad_freeze(ctx, ir, &part, &name, err));
    return add_node(&c, name, result);
}
