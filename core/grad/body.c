/* core/grad/body.c - opening functions and freezing parts of IRs.
 *
 * Both are td_ir_build: a function's body is copied into an IR cut at its arguments; the part of an IR is
 * copied into another cut at any values, whose nodes then are the body of a function. What both parts need is
 * in both, so that nothing is shared and each has its own order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/body.h"

#include <stdio.h>
#include <string.h>

#include "core/compile/loops.h"
#include "core/grad/custom.h"
#include "core/grad/loop_functions.h"

/* ------------------------------------------------------------------ opening */

static enum td_code no_memory(struct td_err *err, int n)
{
    return td_no_memory(err, (size_t)n, "the gradient of a function");
}

static enum td_code check_function(const struct td_function *f, const char *name, struct td_err *err)
{
    TD_FAIL_IF(f == NULL, err, NOT_FOUND, "function '%s' is not in the model's library", name);
    TD_FAIL_IF(f->is_template, err, INVALID_ARGUMENT,
               "function '%s' is called without values for all of its %d attributes", name, f->def.n_attrs);
    return TD_OK;
}

static enum td_code open_graph(struct td_grad_context *ctx, struct td_arena *arena,
                               const struct td_graph *graph, const struct td_callable_opts *part,
                               struct td_ir *ir, struct td_err *err)
{
    TD_TRY(td_ir_build(ir, arena, graph, ctx->lib, part, TD_IR_INLINE, err));
    TD_TRY(td_ir_check_types(ir, err));
    TD_TRY(td_loops_lift(ir, ctx->model, err));
    TD_TRY(td_loop_functions(ctx, ir, err));
    return td_ir_sort(ir, err);
}

enum td_code td_grad_open_part(struct td_model *base, const struct td_callable_opts *part,
                               struct td_arena *arena, struct td_grad_context *ctx, struct td_ir *ir,
                               struct td_err *err)
{
    const struct td_op_table *ops = td_model_opts_of(base)->ops;
    const struct td_op_def *seed = td_op_of_role(ops, TD_ROLE_GRADIENT_SEED);
    struct td_library *lib = td_arena_alloc(arena, 1, sizeof *lib);
    if (lib == NULL) {
        return no_memory(err, 1);
    }
    TD_TRY(td_library_extend(td_model_library(base), arena, lib, err));
    TD_TRY(td_grad_customize(lib, ops, arena, err));
    TD_FAIL_IF(seed == NULL, err, UNIMPLEMENTED, "this build's ops have no gradients");
    *ctx = (struct td_grad_context){.model = base, .lib = lib, .formulas = seed->op->formulas};
    return open_graph(ctx, arena, td_model_graph(base), part, ir, err);
}

enum td_code td_grad_open(struct td_grad_context *ctx, struct td_arena *arena, const char *name,
                          struct td_ir *ir, struct td_err *err)
{
    const struct td_function *f = td_library_find(ctx->lib, name);
    TD_TRY(check_function(f, name, err));
    struct td_value *feeds = td_arena_alloc(arena, (size_t)f->n_args + 1, sizeof *feeds);
    if (feeds == NULL) {
        return no_memory(err, f->n_args);
    }
    const struct td_callable_opts opts = td_callable_opts_of(f, feeds);
    return open_graph(ctx, arena, &f->body, &opts, ir, err);
}

struct td_value td_grad_feed(struct td_emitter *e, const char *name, enum td_dtype dtype)
{
    const struct td_node at = {.name = name, .function = ""};
    const struct td_node *was = e->at;
    e->at = &at;
    struct td_node *n = td_emit_bare(e, &td_op_feed, td_op_feed.name, 0, 1);
    e->at = was;
    if (n == NULL) {
        return td_no_value;
    }
    n->out_type[0] = dtype;
    return (struct td_value){n, 0};
}

enum td_code td_grad_order(struct td_ir *ir, const struct td_value *keep, int n_keep, struct td_err *err)
{
    struct td_value *own = ir->fetches;
    const int n = ir->n_fetches;
    struct td_value *all = td_arena_alloc(ir->arena, (size_t)(n + n_keep) + 1, sizeof *all);
    if (all == NULL) {
        return no_memory(err, n + n_keep);
    }
    memcpy(all, own, (size_t)n * sizeof *all);
    memcpy(all + n, keep, (size_t)n_keep * sizeof *all);
    ir->fetches = all;
    ir->n_fetches = n + n_keep;
    const enum td_code rc = td_ir_sort(ir, err);
    ir->fetches = own;
    ir->n_fetches = n;
    return rc;
}

/* ------------------------------------------------------------------ freezing */

/* "gradients/NAME/5", NAME that of the function it is a part of, be it one of ours itself. */
static enum td_code name_it(struct td_grad_context *ctx, struct td_arena *arena, const char *of,
                            const char **name, struct td_err *err)
{
    const size_t bytes = strlen(of) + 32;
    char *text = td_arena_alloc(arena, bytes, 1);
    const char *given = strncmp(of, "gradients/", 10) == 0 ? of + 10 : of;
    if (text == NULL) {
        return no_memory(err, (int)bytes);
    }
    int length = (int)strlen(given);
    while (given != of && length > 0 && given[length - 1] != '/') {
        length--;
    }
    length = given == of ? length : length - 1;
    do {
        snprintf(text, bytes, "gradients/%.*s/%d", length, given, ctx->functions++);
    } while (td_library_find(ctx->lib, text) != NULL);
    *name = text;
    return TD_OK;
}

enum td_code td_grad_freeze(struct td_grad_context *ctx, struct td_ir *ir, const struct td_grad_part *part,
                            const char **name, struct td_err *err)
{
    struct td_arena *arena = ir->arena;
    struct td_function *f = td_arena_alloc(arena, 1, sizeof *f);
    struct td_ir own;
    if (f == NULL) {
        return no_memory(err, part->n_args);
    }
    TD_TRY(name_it(ctx, arena, part->of, name, err));
    const struct td_graph graph = {
        .arena = arena, .nodes = ir->nodes, .n_nodes = ir->n_nodes, .function = ""};
    const struct td_callable_opts opts = {.name = *name,
                                          .feeds = part->args,
                                          .n_feeds = part->n_args,
                                          .fetches = part->rets,
                                          .n_fetches = part->n_rets,
                                          .targets = part->roots,
                                          .n_targets = part->n_roots};
    TD_TRY(td_ir_build(&own, arena, &graph, ctx->lib, &opts, 0, err));
    TD_TRY(td_ir_sort(&own, err));
    td_graph_init(&f->body, arena, *name);
    f->body.nodes = own.nodes;
    f->body.n_nodes = f->body.cap_nodes = own.n_nodes;
    f->name = f->def.name = *name;
    f->args = own.feeds;
    f->n_args = own.n_feeds;
    f->rets = own.fetches;
    f->n_rets = own.n_fetches;
    f->control_rets = own.roots;
    f->n_control_rets = own.n_roots;
    f->resolved = true;
    return td_library_insert(ctx->lib, f, err);
}
