/* core/compile/pass_inline.c - the body of a called function stands in place of the call.
 *
 *   y = Call(x, f), f(a) = g(h(a))      becomes      y = g(h(x))
 *
 * Works while the graph is copied (core/compile/build.c), so that no call node is ever made: its outputs map
 * to the body's results. Control edges into the call become edges from one join node to the body's nodes with
 * effects; control edges out of it come from a second join behind the body's control results, which are
 * roots: they run whether or not an output is used. With the pass switched off a call stays a node, and the
 * function a callable with a plan of its own; a node whose op is the function's name is copied all the same,
 * since it has no kernel. dead_branch uses this file for a branch that is certain.
 *
 * Invariant (td_ir_check): what the body's nodes read, and what must have run before them and before the
 * call's readers, is what the call gave them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/build_impl.h"
#include "core/compile/inline.h"
#include "core/base/mem.h"

/* The function that n calls with all its inputs, when it is a call at all. */
const struct td_function *td_inline_callee(const struct td_builder *b, const struct td_node *n)
{
    if (n->op == NULL) {
        return td_library_find(b->lib, n->op_name);
    }
    if (!b->inline_calls || !(n->op->flags & TD_OP_CALL)) {
        return NULL;
    }
    const struct td_func_ref *f = td_attr_func(n, "f", 0);
    return f == NULL ? NULL : td_library_find(b->lib, f->name);
}

/* What the arguments of f are at the call n; checks what the file's edges cannot tell: the types across the
 * call. */
static enum td_code bind_args(struct td_builder *b, const struct td_instance *in, const struct td_node *n,
                              const struct td_function *f, struct td_value *args)
{
    for (int i = 0; i < n->n_in; i++) {
        args[i] = td_build_mapped(b, in, n->in[i]);
        TD_FAIL_IF(args[i].node == NULL, b->err, INVALID_ARGUMENT,
                   "the graph has a cycle through %s that is no loop of While or Enter and NextIteration",
                   TD_NODE_STR(n));
        enum td_dtype want = f->args[i]->out_type[0], have = args[i].node->out_type[args[i].port];
        TD_FAIL_IF(want != have && want != TD_DTYPE_NONE && have != TD_DTYPE_NONE, b->err, INVALID_ARGUMENT,
                   "%s: argument %d of function '%s' is %s, was passed %s", TD_NODE_STR(n), i, f->name,
                   td_dtype_name(want), td_dtype_name(have));
    }
    return TD_OK;
}

static enum td_code bind_results(struct td_builder *b, const struct td_instance *body,
                                 const struct td_node *n, const struct td_function *f, struct td_value *outs)
{
    for (int i = 0; i < f->n_rets; i++) {
        outs[i] = td_build_mapped(b, body, f->rets[i]);
        TD_FAIL_IF(outs[i].node == NULL, b->err, INVALID_ARGUMENT,
                   "%s: result %d of function '%s' lies on a cycle", TD_NODE_STR(n), i, f->name);
        enum td_dtype have = outs[i].node->out_type[outs[i].port];
        TD_FAIL_IF(i < n->n_out && have != n->out_type[i] && have != TD_DTYPE_NONE, b->err, INVALID_ARGUMENT,
                   "%s: result %d of function '%s' is %s, the call says %s", TD_NODE_STR(n), i, f->name,
                   td_dtype_name(have), td_dtype_name(n->out_type[i]));
    }
    return TD_OK;
}

/* The join node behind a call: what a control edge from the call means. */
static enum td_code add_after(struct td_builder *b, const struct td_instance *body, const char *name,
                              struct td_node **out)
{
    const struct td_function *f = body->function;
    struct td_node *after;
    TD_TRY(td_build_join(b, name, &after));
    after->control = td_arena_alloc(b->ir->arena, (size_t)f->n_control_rets + 2, sizeof after->control[0]);
    if (after->control == NULL) {
        return td_build_no_memory(b->err);
    }
    for (int i = 0; i < f->n_control_rets; i++) {
        struct td_node *last = body->images[f->control_rets[i]->id].after;
        if (last != NULL) {
            after->control[after->n_control++] = last;
        }
    }
    if (body->before != NULL) {
        after->control[after->n_control++] = body->before;
    }
    *out = after->n_control > 0 ? after : NULL;
    return *out == NULL ? TD_OK : td_ir_add_root(b->ir, *out, b->err);
}

static enum td_code check_call(const struct td_builder *b, const struct td_instance *in,
                               const struct td_node *n, const struct td_function *f)
{
    TD_FAIL_IF(in->depth >= TD_MAX_CALL_DEPTH, b->err, INVALID_ARGUMENT,
               "%s: calls nest deeper than %d levels (function '%s'): recursion is not supported",
               TD_NODE_STR(n), TD_MAX_CALL_DEPTH, f->name);
    TD_FAIL_IF(f->is_template, b->err, INVALID_ARGUMENT,
               "%s calls function '%s' without values for all of its %d attributes", TD_NODE_STR(n), f->name,
               f->def.n_attrs);
    TD_FAIL_IF(f->n_args != n->n_in || f->n_rets < n->n_out, b->err, INVALID_ARGUMENT,
               "%s calls function '%s' with %d inputs and %d outputs; it has %d and %d", TD_NODE_STR(n),
               f->name, n->n_in, n->n_out, f->n_args, f->n_rets);
    return TD_OK;
}

enum td_code td_inline_call(struct td_builder *b, struct td_instance *in, const struct td_node *n,
                            const struct td_function *f)
{
    TD_TRY(check_call(b, in, n, f));
    struct td_value *args = td_arena_alloc(b->ir->arena, (size_t)n->n_in + 1, sizeof *args);
    struct td_value *outs = td_arena_alloc(b->ir->arena, (size_t)f->n_rets + 1, sizeof *outs);
    const char *name = td_build_path(b, in, n->name);
    char *path = name == NULL ? NULL : td_arena_alloc(b->ir->arena, strlen(name) + 2, 1);
    if (args == NULL || outs == NULL || path == NULL) {
        return td_build_no_memory(b->err);
    }
    memcpy(path, name, strlen(name));
    path[strlen(name)] = '/';
    TD_TRY(bind_args(b, in, n, f, args));
    struct td_instance body = {.graph = &f->body,
                               .function = f,
                               .args = args,
                               .path = path,
                               .device = n->device == NULL || n->device[0] == 0 ? in->device : n->device,
                               .before = in->before,
                               .depth = in->depth + 1};
    if (n->n_control > 0) {
        TD_TRY(td_build_join(b, name, &body.before));
        TD_TRY(td_build_controls(b, in, n, body.before, true));
        if (body.before->n_control == 0) {
            body.before = NULL;
        }
    }
    TD_TRY(td_build_instantiate(b, &body, f->rets, f->n_rets, f->control_rets, f->n_control_rets));
    struct td_node *after = NULL;
    enum td_code rc = bind_results(b, &body, n, f, outs);
    rc = rc ? rc : add_after(b, &body, name, &after);
    td_free(body.images);
    in->images[n->id] = (struct td_image){.outs = outs, .after = after};
    return rc;
}

/* ------------------------------------------------------------------ a branch that is certain */

/* The control inputs of n, as of a call. */
static enum td_code join_before(struct td_builder *b, const struct td_node *n, struct td_node **out)
{
    *out = NULL;
    if (n->n_control == 0) {
        return TD_OK;
    }
    TD_TRY(td_build_join(b, n->name, out));
    (*out)->control = td_arena_alloc(b->ir->arena, (size_t)n->n_control, sizeof(*out)->control[0]);
    if ((*out)->control == NULL) {
        return td_build_no_memory(b->err);
    }
    memcpy((*out)->control, n->control, (size_t)n->n_control * sizeof n->control[0]);
    (*out)->n_control = n->n_control;
    return TD_OK;
}

enum td_code td_inline_node(struct td_ir *ir, const struct td_library *lib, const struct td_inlined *call,
                            struct td_value *outs, struct td_node **after, struct td_err *err)
{
    const struct td_node *n = call->n;
    const struct td_function *f = call->f;
    const int first_in = call->first_in;
    struct td_builder b = {.ir = ir, .lib = lib, .inline_calls = true, .err = err};
    TD_FAIL_IF(f->is_template, err, INVALID_ARGUMENT, "function '%s' has attributes without values", f->name);
    TD_FAIL_IF(f->n_args != n->n_in - first_in || f->n_rets != n->n_out, err, INVALID_ARGUMENT,
               "%s calls function '%s' with %d inputs and %d outputs; it has %d and %d", TD_NODE_STR(n),
               f->name, n->n_in - first_in, n->n_out, f->n_args, f->n_rets);
    char *path = td_arena_alloc(ir->arena, strlen(n->name) + 2, 1);
    if (path == NULL) {
        return td_build_no_memory(err);
    }
    memcpy(path, n->name, strlen(n->name));
    path[strlen(n->name)] = '/';
    for (int i = 0; i < f->n_args; i++) {
        struct td_value v = n->in[first_in + i];
        TD_FAIL_IF(v.node->out_type[v.port] != f->args[i]->out_type[0] || v.node->out_ref[v.port], err,
                   INVALID_ARGUMENT, "%s: argument %d of function '%s' is of another type", TD_NODE_STR(n), i,
                   f->name);
    }
    struct td_instance body = {.graph = &f->body,
                               .function = f,
                               .args = n->in + first_in,
                               .path = path,
                               .device = n->device == NULL ? "" : n->device,
                               .depth = 1};
    TD_TRY(join_before(&b, n, &body.before));
    TD_TRY(td_build_instantiate(&b, &body, f->rets, f->n_rets, f->control_rets, f->n_control_rets));
    enum td_code rc = bind_results(&b, &body, n, f, outs);
    rc = rc ? rc : add_after(&b, &body, n->name, after);
    td_free(body.images);
    return rc;
}
