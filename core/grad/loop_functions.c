/* core/grad/loop_functions.c - condition and body of a lifted loop, which are callables fed some of its
 * values in an order of their own, become functions of all of its values.
 *
 *   cond(values) -> bool            body(values) -> variables, constants
 *
 * Inner loops come first: they are nodes of the body, whose copy here is searched before it is frozen.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/loop_functions.h"

#include "core/compile/loop.h"
#include "core/function/callable_impl.h"
#include "core/grad/body.h"

/* What a loop's values are, to either function. */
static enum td_code add_values(struct td_grad_context *ctx, struct td_ir *ir, const struct td_node *loop,
                               struct td_value *values, struct td_err *err)
{
    struct td_emitter e = td_grad_emitter(ctx, ir, NULL, err);
    for (int i = 0; i < loop->n_in; i++) {
        values[i] = td_grad_feed(&e, "value", td_dtype_of(loop->in[i]));
    }
    return td_emit_close(&e);
}

/* Reads values in place of the feeds that show them. */
static void rewire(struct td_ir *ir, const struct td_value *values, const int *from)
{
    for (int f = 0; f < ir->n_feeds; f++) {
        const struct td_node *old = ir->feeds[f];
        const struct td_value now = values[from == NULL ? f : from[f]];
        for (int k = 0; k < ir->n_nodes; k++) {
            for (int i = 0; i < ir->nodes[k]->n_in; i++) {
                struct td_value *v = &ir->nodes[k]->in[i];
                *v = v->node == old ? now : *v;
            }
        }
        for (int i = 0; i < ir->n_fetches; i++) {
            ir->fetches[i] = ir->fetches[i].node == old ? now : ir->fetches[i];
        }
    }
}

/* The callable as a function of all of the loop's values, which returns its results and those from `pass`
 * on. */
static enum td_code as_function(struct td_grad_context *ctx, struct td_arena *arena,
                                const struct td_node *loop, bool cond, const char **name, struct td_err *err)
{
    const struct td_loop_parts p = td_loop_parts(loop->loop);
    struct td_callable_opts opts;
    struct td_ir ir;
    const struct td_graph *graph = td_callable_graph(cond ? p.cond : p.body, &opts);
    struct td_value *values = td_arena_alloc(arena, (size_t)loop->n_in + 1, sizeof *values);
    struct td_value *rets = td_arena_alloc(arena, (size_t)loop->n_in + 1, sizeof *rets);
    if (values == NULL || rets == NULL) {
        return td_no_memory(err, (size_t)loop->n_in, "the gradient of a loop");
    }
    TD_TRY(td_ir_build(&ir, arena, graph, ctx->lib, &opts, TD_IR_INLINE, err));
    TD_TRY(td_ir_check_types(&ir, err));
    TD_TRY(add_values(ctx, &ir, loop, values, err));
    rewire(&ir, values, cond ? p.cond_from : p.body_from);
    TD_TRY(td_loop_functions(ctx, &ir, err));
    for (int i = 0; i < loop->n_in; i++) {
        rets[i] = i < ir.n_fetches ? ir.fetches[i] : values[i];
    }
    const struct td_grad_part part = {.of = loop->name,
                                      .args = values,
                                      .n_args = loop->n_in,
                                      .rets = rets,
                                      .n_rets = cond ? 1 : loop->n_in,
                                      .roots = ir.roots,
                                      .n_roots = ir.n_roots};
    return td_grad_freeze(ctx, &ir, &part, name, err);
}

static enum td_code convert(struct td_grad_context *ctx, struct td_ir *ir, struct td_node *n,
                            struct td_err *err)
{
    const struct td_op_def *def = td_op_of_role(td_model_opts_of(ctx->model)->ops, TD_ROLE_WHILE);
    const char *cond, *body;
    TD_FAIL_IF(def == NULL, err, UNIMPLEMENTED, "this build's ops have no While");
    TD_TRY(as_function(ctx, ir->arena, n, true, &cond, err));
    TD_TRY(as_function(ctx, ir->arena, n, false, &body, err));
    struct td_func_ref *f = td_arena_alloc(ir->arena, 2, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, 2 * sizeof *f, "the gradient of a loop");
    }
    f[0].name = cond;
    f[1].name = body;
    struct td_emitter e = td_grad_emitter(ctx, ir, NULL, err);
    const struct td_value *in = n->in;
    n->loop = NULL;
    td_emit_again(&e, n, def, in, n->n_in,
                  TD_ATTRS({.name = def->op->branch.loop_cond, .kind = TD_ATTR_FUNC, .n = 1, .func = &f[0]},
                           {.name = def->op->branch.loop_body, .kind = TD_ATTR_FUNC, .n = 1, .func = &f[1]}));
    return td_emit_close(&e);
}

static bool by_reference(const struct td_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i].node->out_ref != NULL && n->in[i].node->out_ref[n->in[i].port]) {
            return true;
        }
    }
    return false;
}

enum td_code td_loop_functions(struct td_grad_context *ctx, struct td_ir *ir, struct td_err *err)
{
    for (int k = 0; k < ir->n_nodes; k++) {
        struct td_node *n = ir->nodes[k];
        if (n->op == &td_loop_op && n->loop != NULL && !by_reference(n)) {
            TD_TRY(convert(ctx, ir, n, err));
        }
    }
    return TD_OK;
}
