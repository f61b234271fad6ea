/* core/grad/vectorize.c - goes through the seeded nodes in order and asks each op's rule.
 *
 * Nodes whose rule says no are frozen into a function of their own, which is called a row and its results
 * stacked: correct for anything without effects, loops and branches included.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/vectorize.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir_shapes.h"
#include "core/grad/body.h"

struct pass {
    struct td_grad_context *ctx;
    struct td_ir *ir;
    const struct td_vectorize_opts *o;
    struct td_emitter e;
    struct td_value k;
    int n;                /* nodes, before any is added; by their ids: */
    struct td_value **at; /* outputs of seeded ones, as they are now */
    bool **many;
    struct td_err *err;
};

static enum td_code no_memory(const struct pass *p, int n)
{
    return td_no_memory(p->err, (size_t)n, "a jacobian's program");
}

static void *room(const struct pass *p, int n, size_t size)
{
    return td_arena_alloc(p->ir->arena, (size_t)n + 1, size);
}

/* Calls a function that may touch what others do: an array, a variable. */
static bool has_effects(const struct td_node *n)
{
    const uint32_t flags = td_node_flags(n);
    bool calls = n->op == NULL, handle = false;
    for (int i = 0; i < n->n_attrs; i++) {
        calls |= n->attrs[i].kind == TD_ATTR_FUNC;
    }
    for (int i = 0; i < n->n_in; i++) {
        handle |= td_dtype_of(n->in[i]) == TD_RESOURCE;
    }
    return calls ? handle : (flags & TD_OP_STATEFUL) && !(flags & TD_OP_READS);
}

/* ------------------------------------------------------------------ a function called a row */

static enum td_code freeze_node(struct pass *p, const struct td_node *n, const char **name)
{
    struct td_value *args = room(p, n->n_in, sizeof *args), *in = room(p, n->n_in, sizeof *in);
    struct td_value *rets = room(p, n->n_out, sizeof *rets);
    struct td_node *copy;
    if (args == NULL || in == NULL || rets == NULL) {
        return no_memory(p, n->n_in);
    }
    for (int i = 0; i < n->n_in; i++) {
        args[i] = in[i] = td_grad_feed(&p->e, "row", td_dtype_of(n->in[i]));
    }
    TD_TRY(p->e.rc);
    TD_TRY(td_ir_add(p->ir, n, n->name, &copy, p->err));
    copy->in = in;
    for (int i = 0; i < n->n_out; i++) {
        rets[i] = (struct td_value){copy, i};
    }
    const struct td_grad_part part = {
        .of = n->op_name, .args = args, .n_args = n->n_in, .rets = rets, .n_rets = n->n_out};
    return td_grad_freeze(p->ctx, p->ir, &part, name, p->err);
}

static enum td_code call_a_row(struct pass *p, struct td_vectorize *v)
{
    const struct td_node *n = v->node;
    const char *name;
    TD_TRY(freeze_node(p, n, &name));
    const struct td_grad_map map = {.k = p->k,
                                    .in = v->in,
                                    .many = v->many,
                                    .n_in = n->n_in,
                                    .dtype = n->out_type,
                                    .n_out = n->n_out,
                                    .function = name};
    const struct td_value made = p->ctx->formulas->map_rows(&p->e, &map);
    for (int i = 0; i < n->n_out; i++) {
        v->out[i] = (struct td_value){made.node, i};
        v->out_many[i] = true;
    }
    return p->e.rc;
}

/* ------------------------------------------------------------------ nodes */

static bool all_put(const struct td_vectorize *v)
{
    for (int i = 0; i < v->node->n_out; i++) {
        if (v->out[i].node == NULL) {
            return false;
        }
    }
    return true;
}

static enum td_code do_node(struct pass *p, const struct td_node *n)
{
    struct td_value *in = room(p, n->n_in, sizeof *in), *out = room(p, n->n_out, sizeof *out);
    bool *many = room(p, n->n_in, sizeof *many), *out_many = room(p, n->n_out, sizeof *out_many);
    if (in == NULL || out == NULL || many == NULL || out_many == NULL) {
        return no_memory(p, n->n_in);
    }
    bool any = false;
    for (int i = 0; i < n->n_in; i++) {
        const int from = n->in[i].node->id;
        const bool ours = from < p->n && p->o->seeded[from];
        in[i] = ours ? p->at[from][n->in[i].port] : n->in[i];
        many[i] = ours && p->many[from][n->in[i].port];
        any |= many[i];
    }
    memset(out, 0, (size_t)n->n_out * sizeof *out);
    memset(out_many, any, (size_t)n->n_out);
    p->at[n->id] = out;
    p->many[n->id] = out_many;
    p->e.at = n;
    struct td_vectorize v = {
        .e = &p->e, .node = n, .in = in, .many = many, .k = p->k, .out = out, .out_many = out_many};
    const bool rule = p->ctx->formulas->vectorize(&v, any) && all_put(&v);
    TD_TRY(p->e.rc);
    return rule ? TD_OK : call_a_row(p, &v);
}

static enum td_code do_nodes(struct pass *p, struct td_value *rets, int n_rets)
{
    const int seed = p->o->seed.node->id;
    struct td_value first[1] = {p->o->rows};
    bool first_many[1] = {true};
    p->at[seed] = first;
    p->many[seed] = first_many;
    p->k = p->ctx->formulas->n_rows(&p->e, p->o->rows);
    for (int k = 0; k < p->n; k++) {
        if (p->o->seeded[k] && k != seed) {
            TD_TRY(do_node(p, p->ir->nodes[k]));
        }
    }
    for (int i = 0; i < n_rets; i++) {
        const int id = rets[i].node->id;
        const bool ours = p->o->seeded[id];
        const bool many = ours && p->many[id][rets[i].port];
        rets[i] = ours ? p->at[id][rets[i].port] : rets[i];
        rets[i] = many ? rets[i] : p->ctx->formulas->spread(&p->e, rets[i], p->k);
    }
    return p->e.rc;
}

enum td_code td_grad_vectorize(struct td_grad_context *ctx, struct td_ir *ir,
                               const struct td_vectorize_opts *o, struct td_value *rets, int n_rets,
                               bool *done, struct td_err *err)
{
    struct td_ir_shapes shapes;
    struct pass p = {.ctx = ctx, .ir = ir, .o = o, .n = ir->n_nodes, .err = err};
    *done = false;
    for (int k = 0; k < p.n; k++) {
        if (o->seeded[k] && ir->nodes[k] != o->seed.node && has_effects(ir->nodes[k])) {
            return TD_OK;
        }
    }
    TD_TRY(td_ir_shapes_init(ir, &shapes, err));
    p.e = td_grad_emitter(ctx, ir, &shapes, err);
    p.at = td_calloc((size_t)p.n + 1, sizeof *p.at);
    p.many = td_calloc((size_t)p.n + 1, sizeof *p.many);
    enum td_code rc = p.at == NULL || p.many == NULL ? no_memory(&p, p.n) : do_nodes(&p, rets, n_rets);
    const enum td_code emitted = td_emit_close(&p.e);
    td_ir_shapes_fini(&shapes);
    td_free(p.at);
    td_free(p.many);
    *done = rc == TD_OK && emitted == TD_OK;
    return rc ? rc : emitted;
}
