/* kernels/control/custom_grad.c - values shown unchanged whose gradient is a function of the file
 * (tf.custom_gradient; core/grad/custom.h).
 *
 *   input..  ->  output..     kept.. is what the gradient function reads beside the gradients
 *
 * The function takes a gradient for each output, zeros where none arrived, and what is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/backward.h"
#include "core/grad/custom.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = c->in[i];
    }
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor t;
        TD_TRY(td_keep(c, i, &t, err));
        td_out_move(c, i, &t);
    }
    return TD_OK;
}

static void call(struct td_grad *g, const struct td_custom_gradient *c, const struct td_function *f,
                 struct td_value *in, enum td_dtype *types)
{
    const struct td_node *n = g->node;
    for (int i = 0; i < n->n_out; i++) {
        in[i] = td_grad_arrived(g, i) ? td_grad_at(g, i) : td_f_zeros_like(g->e, td_grad_out(g, i));
    }
    for (int i = n->n_out; i < n->n_in; i++) {
        in[i] = n->in[i];
    }
    for (int i = 0; i < f->n_rets; i++) {
        types[i] = td_dtype_of(f->rets[i]);
    }
    struct td_func_ref ref = {.name = f->name};
    const struct td_value dx = td_emit(
        g->e, "PartitionedCall", in, n->n_in,
        TD_ATTRS({.name = "Tout", .kind = TD_ATTR_TYPE, .is_list = true, .n = f->n_rets, .type = types},
                 {.name = "f", .kind = TD_ATTR_FUNC, .n = 1, .func = &ref}));
    for (int i = 0; i < c->n_results; i++) {
        td_grad_give(g, c->input[i], td_f_port(dx, i));
    }
}

static void custom_grad(struct td_grad *g)
{
    struct td_grad_context *ctx = td_grad_context_of(g);
    struct td_arena *arena = td_grad_ir_of(g)->arena;
    const struct td_node *n = g->node;
    const struct td_custom_gradient *c = td_custom_gradient_find(ctx->lib, td_attr_str(n, "of"));
    const struct td_function *f = c == NULL ? NULL : td_library_find(ctx->lib, c->function);
    bool fits = f != NULL && !f->is_template && f->n_args == n->n_in && f->n_rets == c->n_results;
    for (int i = 0; fits && i < c->n_results; i++) {
        fits = c->input[i] < n->n_out;
    }
    if (!fits) {
        td_emit_fail(g->e, TD_INVALID_ARGUMENT,
                     "the gradient function '%s' of %s does not take a gradient for each output and what it "
                     "captured, or does not return one for each input",
                     c == NULL ? td_attr_str(n, "of") : c->function, TD_NODE_STR(n));
        return;
    }
    struct td_value *in = td_arena_alloc(arena, (size_t)n->n_in + 1, sizeof *in);
    enum td_dtype *types = td_arena_alloc(arena, (size_t)f->n_rets + 1, sizeof *types);
    if (in == NULL || types == NULL) {
        td_emit_fail(g->e, TD_RESOURCE_EXHAUSTED, "%s: no memory for its gradient", TD_NODE_STR(n));
        return;
    }
    call(g, c, f, in, types);
}

const struct td_op td_ops_custom_grad[] = {
    {.name = "_CustomGradient",
     .sig = "(input:T, kept:K) -> (output:T) {T:list(type); K:list(type); of:string}",
     .flags = TD_OP_IDENTITY | TD_OP_KEEPS | TD_OP_NO_FOLD,
     .role = TD_ROLE_CUSTOM_GRADIENT,
     .infer = infer,
     .kernels = TD_KERNEL("custom_gradient", run, {NULL, 0}),
     .grad = custom_grad},
    {.name = NULL},
};
