/* core/grad/mixed.c - products of floats become Casts of others; functions that hold some are copied.
 *
 * The node itself becomes the Cast of the result, so that edges to it, control edges too, stay; the product
 * is a new node of the same name. Equal Casts of one value (a weight that forward and backward pass read)
 * become one when the graph is compiled.
 *
 * A function is opened, treated so and frozen under a new name, once, however many nodes run it; where it
 * holds no product its own name stays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/mixed.h"

#include <string.h>

#include "core/grad/body.h"
#include "core/run/model.h"

enum { MOST_NESTING = 16, MOST_FUNCTIONS = 4096 };

/* A function that was looked at, and what to run in its place: itself where it holds no product. */
struct mixed {
    const char *was, *now;
    struct mixed *next;
};

struct mixing {
    struct td_grad_context *ctx;
    struct td_arena *arena;
    enum td_dtype dtype;
    const struct td_op_def *cast;
    struct mixed *done;
    int depth, n_functions, n;
    struct td_err *err;
};

static enum td_code no_memory(const struct mixing *x)
{
    return td_no_memory(x->err, sizeof(struct mixed), "products in another type");
}

/* ------------------------------------------------------------------ one product */

static bool is_product(const struct td_node *n)
{
    const struct td_op_def *def = td_node_def(n);
    if (def == NULL || !(def->op->flags & TD_OP_PRODUCT) || n->n_out != 1 || n->out_type[0] != TD_FLOAT) {
        return false;
    }
    return td_attr_find(n->attrs, n->n_attrs, "_gradient_op_type") == NULL;
}

/* n's attributes that its op has, float in types replaced; NULL: no memory. */
static struct td_attr *attrs_of(const struct mixing *x, const struct td_node *n, int *count)
{
    struct td_attr *attrs = td_arena_alloc(x->arena, (size_t)n->n_attrs + 1, sizeof *attrs);
    enum td_dtype *type = td_arena_alloc(x->arena, 1, sizeof *type);
    if (attrs == NULL || type == NULL) {
        return NULL;
    }
    *type = x->dtype;
    *count = 0;
    for (int i = 0; i < n->n_attrs; i++) {
        bool known = false;
        for (int k = 0; k < n->def->n_attrs && !known; k++) {
            known = strcmp(n->def->attrs[k].name, n->attrs[i].name) == 0;
        }
        struct td_attr a = n->attrs[i];
        if (known && a.kind == TD_ATTR_TYPE && !a.is_list && a.type[0] == TD_FLOAT) {
            a.type = type;
        }
        if (known) {
            attrs[(*count)++] = a;
        }
    }
    return attrs;
}

static struct td_value cast(const struct mixing *x, struct td_emitter *e, struct td_value v)
{
    return td_dtype_of(v) != TD_FLOAT
               ? v
               : td_emit_def(e, x->cast, &v, 1,
                             TD_ATTRS(TD_ATTR_OF_TYPE(x->cast->out[0].type_attr, x->dtype)));
}

static enum td_code mix_product(struct mixing *x, struct td_emitter *e, struct td_node *n)
{
    const struct td_node at = *n;
    int n_attrs = 0;
    const struct td_attr *attrs = attrs_of(x, n, &n_attrs);
    struct td_value *in = td_arena_alloc(x->arena, (size_t)n->n_in + 1, sizeof *in);
    if (attrs == NULL || in == NULL) {
        return no_memory(x);
    }
    e->at = &at;
    for (int i = 0; i < n->n_in; i++) {
        in[i] = cast(x, e, n->in[i]);
    }
    const struct td_value product = td_emit_def(e, n->def, in, n->n_in, attrs, n_attrs);
    td_emit_again(e, n, x->cast, TD_IN(product),
                  TD_ATTRS(TD_ATTR_OF_TYPE(x->cast->out[0].type_attr, TD_FLOAT)));
    e->at = NULL;
    x->n++;
    return e->rc;
}

/* ------------------------------------------------------------------ functions */

static enum td_code mix_all(struct mixing *x, struct td_ir *ir);

/* The body as a function of its own. */
static enum td_code freeze(struct mixing *x, struct td_ir *ir, const char *of, const char **name)
{
    struct td_value *args = td_arena_alloc(x->arena, (size_t)ir->n_feeds + 1, sizeof *args);
    if (args == NULL) {
        return no_memory(x);
    }
    for (int i = 0; i < ir->n_feeds; i++) {
        args[i] = (struct td_value){ir->feeds[i], 0};
    }
    const struct td_grad_part part = {.of = of,
                                      .args = args,
                                      .n_args = ir->n_feeds,
                                      .rets = ir->fetches,
                                      .n_rets = ir->n_fetches,
                                      .roots = ir->roots,
                                      .n_roots = ir->n_roots};
    return td_grad_freeze(x->ctx, ir, &part, name, x->err);
}

/* *name: what to run in place of the function that it names. */
static enum td_code mix_function(struct mixing *x, const char **name)
{
    const struct td_function *f = td_library_find(x->ctx->lib, *name);
    for (const struct mixed *d = x->done; d != NULL; d = d->next) {
        if (strcmp(d->was, *name) == 0) {
            *name = d->now;
            return TD_OK;
        }
    }
    if (f == NULL || f->is_template || x->depth == MOST_NESTING || x->n_functions++ == MOST_FUNCTIONS) {
        return TD_OK;
    }
    struct mixed *d = td_arena_alloc(x->arena, 1, sizeof *d);
    struct td_ir ir;
    if (d == NULL) {
        return no_memory(x);
    }
    *d = (struct mixed){.was = *name, .now = *name, .next = x->done};
    x->done = d; /* before it is looked into: one that runs itself stays */
    TD_TRY(td_grad_open(x->ctx, x->arena, *name, &ir, x->err));
    const int before = x->n;
    x->depth++;
    TD_TRY(mix_all(x, &ir));
    x->depth--;
    TD_TRY(x->n == before ? TD_OK : freeze(x, &ir, d->was, &d->now));
    *name = d->now;
    return TD_OK;
}

static enum td_code mix_functions(struct mixing *x, struct td_emitter *e, struct td_node *n)
{
    const bool runs = td_node_def(n) != NULL && td_node_runs_functions(n);
    for (int i = 0; runs && i < n->n_attrs; i++) {
        struct td_attr a = n->attrs[i];
        if (a.kind != TD_ATTR_FUNC || a.n == 0) {
            continue;
        }
        struct td_func_ref *own = td_arena_alloc(x->arena, (size_t)a.n, sizeof *own);
        if (own == NULL) {
            return no_memory(x);
        }
        memcpy(own, a.func, (size_t)a.n * sizeof *own);
        for (int k = 0; k < a.n; k++) {
            TD_TRY(mix_function(x, &own[k].name));
        }
        a.func = own;
        td_emit_attr(e, n, &a);
    }
    return e->rc;
}

static enum td_code mix_all(struct mixing *x, struct td_ir *ir)
{
    const int n = ir->n_nodes;
    struct td_emitter e = td_ir_emitter(ir, NULL, td_model_opts_of(x->ctx->model)->ops, x->err);
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        struct td_node *node = ir->nodes[i];
        rc = is_product(node) ? mix_product(x, &e, node) : mix_functions(x, &e, node);
    }
    const enum td_code closed = td_emit_close(&e);
    return rc ? rc : closed;
}

enum td_code td_mixed_products(struct td_grad_context *ctx, struct td_ir *ir, enum td_dtype dtype, int *n,
                               struct td_err *err)
{
    struct mixing x = {.ctx = ctx,
                       .arena = ir->arena,
                       .dtype = dtype,
                       .cast = td_op_of_role(td_model_opts_of(ctx->model)->ops, TD_ROLE_CAST),
                       .err = err};
    TD_FAIL_IF(x.cast == NULL, err, UNIMPLEMENTED, "this build's ops have no Cast");
    TD_TRY(mix_all(&x, ir));
    *n = x.n;
    return TD_OK;
}
