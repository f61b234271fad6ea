/* proto/model/call_module.c - reads the attributes of XlaCallModule, and what main takes besides the node's
 * inputs.
 *
 *     main(platform index, dimensions.., inputs..)
 *
 * The platform's index, an int32, is there where the node names several platforms (since version 3): that
 * of CPU. The dimensions are sizes of inputs, which the attribute dim_args_spec names as "INPUT.AXIS" (up
 * to version 4).
 *
 * A module for other platforms only is taken, too: what it computes is the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/call_module.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/emit.h"
#include "proto/hlo_graph/hlo_translate.h"
#include "proto/stablehlo/hlo_read.h"

#define PREFIX "StableHLO_" /* of the functions' names */
enum { FIRST_PLATFORMS = 3, OLDEST = 2 };

struct call {
    struct td_graph *g;
    struct td_library *lib;
    const struct td_op_table *ops;
    struct td_node *n;
    int number; /* of the node among all such, for names */
    struct td_err *err;
};

/* ------------------------------------------------------------------ the function */

static bool is_checked(const struct td_node *n)
{
    int count;
    const struct td_bytes *off = td_attr_strs(n, "disabled_checks", &count);
    for (int i = 0; i < count; i++) {
        if (strcmp(off[i].p, "shape_assertions") == 0) {
            return false;
        }
    }
    return true;
}

/* Names of the functions that the module may call, from attribute function_list. */
static enum td_code host_functions(const struct call *c, struct td_arena *a, struct td_hlo_opts *opts)
{
    const int n = td_attr_len(c->n, "function_list");
    struct td_bytes *names = td_arena_alloc(a, (size_t)n + 1, sizeof *names);
    if (names == NULL) {
        return td_no_memory(c->err, (size_t)n, "a StableHLO module");
    }
    for (int i = 0; i < n; i++) {
        const struct td_func_ref *f = td_attr_func(c->n, "function_list", i);
        names[i] = (struct td_bytes){f->name, strlen(f->name)};
    }
    opts->host_functions = names;
    opts->n_host_functions = n;
    return TD_OK;
}

static enum td_code translate_in(const struct call *c, struct td_arena *a, struct td_function **main)
{
    struct td_hlo_module m;
    char prefix[32];
    struct td_hlo_opts opts = {.prefix = prefix, .ops = c->ops, .unchecked = !is_checked(c->n)};
    snprintf(prefix, sizeof prefix, PREFIX "%d", c->number);
    TD_FAIL_IF(td_attr_find(c->n->attrs, c->n->n_attrs, "module") == NULL, c->err, INVALID_ARGUMENT,
               "it has no attribute 'module'");
    TD_FAIL_IF(td_attr_int(c->n, "version") < OLDEST, c->err, UNIMPLEMENTED, "version %lld of its attributes",
               (long long)td_attr_int(c->n, "version"));
    TD_TRY(host_functions(c, a, &opts));
    TD_TRY(td_hlo_read(a, td_attr_bytes(c->n, "module"), &m, c->err));
    return td_hlo_translate(&m, &opts, c->lib, main, c->err);
}

static enum td_code translate(const struct call *c, struct td_function **main)
{
    const size_t bytes = td_attr_bytes(c->n, "module").len;
    struct td_arena *a =
        td_arena_new(((size_t)64 << 20) + 64 * (bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30));
    if (a == NULL) {
        return td_no_memory(c->err, bytes, "a StableHLO module");
    }
    const enum td_code rc = translate_in(c, a, main);
    td_arena_free(a);
    return rc;
}

/* ------------------------------------------------------------------ the node */

static struct td_value platform_index(const struct call *c, struct td_emitter *e)
{
    int n, at = 0;
    const struct td_bytes *names = td_attr_strs(c->n, "platforms", &n);
    for (int i = n - 1; i >= 0; i--) {
        at = strcmp(names[i].p, "CPU") == 0 ? i : at;
    }
    return td_emit_int(e, TD_INT32, at);
}

/* "1.0": the size of input 1 along axis 0. */
static struct td_value dimension(const struct call *c, struct td_emitter *e, const char *spec,
                                 enum td_dtype dtype)
{
    char *end;
    const long input = strtol(spec, &end, 10);
    const long axis = *end == '.' ? strtol(end + 1, &end, 10) : -1;
    if (*end != 0 || input < 0 || input >= c->n->n_in || axis < 0 || axis >= TD_MAX_RANK) {
        return td_emit_fail(e, TD_INVALID_ARGUMENT, "%s: dim_args_spec '%s' names no input and axis",
                            TD_NODE_STR(c->n), spec);
    }
    const int64_t from = axis, to = axis + 1, step = 1;
    const struct td_value shape = td_emit(e, "Shape", TD_IN(c->n->in[input]), TD_NO_ATTRS);
    const struct td_value size =
        td_emit(e, "StridedSlice",
                TD_IN(shape, td_emit_ints(e, TD_INT32, &from, 1), td_emit_ints(e, TD_INT32, &to, 1),
                      td_emit_ints(e, TD_INT32, &step, 1)),
                TD_ATTRS(TD_ATTR_OF_INT("shrink_axis_mask", 1)));
    return dtype == TD_INT32 ? size
                             : td_emit(e, "Cast", TD_IN(size), TD_ATTRS(TD_ATTR_OF_TYPE("DstT", dtype)));
}

/* What main is called with; room for as many as it takes. */
static void add_inputs(const struct call *c, struct td_emitter *e, const struct td_function *main,
                       struct td_value *in)
{
    int n_platforms, n_dims, at = 0;
    (void)td_attr_strs(c->n, "platforms", &n_platforms);
    const struct td_bytes *dims = td_attr_strs(c->n, "dim_args_spec", &n_dims);
    const bool indexed = n_platforms > 1 && td_attr_int(c->n, "version") >= FIRST_PLATFORMS;
    if (main->n_args != indexed + n_dims + c->n->n_in) {
        td_emit_fail(e, TD_INVALID_ARGUMENT, "%s: its module takes %d arguments, got %d inputs and %d more",
                     TD_NODE_STR(c->n), main->n_args, c->n->n_in, indexed + n_dims);
        return;
    }
    if (indexed) {
        in[at++] = platform_index(c, e);
    }
    for (int i = 0; i < n_dims; i++, at++) {
        in[at] = dimension(c, e, dims[i].p, main->def.in[at].type);
    }
    for (int i = 0; i < c->n->n_in; i++) {
        in[at++] = c->n->in[i];
    }
}

static enum td_code check_types(const struct call *c, const struct td_function *main,
                                const struct td_value *in)
{
    for (int i = 0; i < main->n_args; i++) {
        TD_FAIL_IF(td_dtype_of(in[i]) != main->def.in[i].type, c->err, INVALID_ARGUMENT,
                   "argument %d of its module is %s, got %s", i, td_dtype_name(main->def.in[i].type),
                   td_dtype_name(td_dtype_of(in[i])));
    }
    TD_FAIL_IF(c->n->n_out > main->n_rets, c->err, INVALID_ARGUMENT,
               "its module has %d results, output %d of the node is read", main->n_rets, c->n->n_out - 1);
    return TD_OK;
}

/* The node calls main. */
static enum td_code call_function(const struct call *c, struct td_function *main)
{
    struct td_value *in = td_arena_alloc(c->lib->arena, (size_t)main->n_args + 1, sizeof *in);
    enum td_dtype *out = td_arena_alloc(c->lib->arena, (size_t)main->n_rets + 1, sizeof *out);
    const struct td_op_def *def = td_op_find(c->ops, "PartitionedCall");
    if (in == NULL || out == NULL) {
        return td_no_memory(c->err, (size_t)main->n_args * sizeof *in, "a StableHLO module");
    }
    for (int i = 0; i < main->n_rets; i++) {
        out[i] = td_dtype_of(main->rets[i]);
    }
    struct td_emitter e = td_graph_emitter(c->g, c->n->name, c->ops, c->err);
    e.at = c->n;
    add_inputs(c, &e, main, in);
    if (e.rc == TD_OK) {
        e.rc = check_types(c, main, in);
    }
    c->n->n_out = 0; /* their dtypes were not known */
    td_emit_again(
        &e, c->n, def, in, main->n_args,
        TD_ATTRS(
            {.name = "Tout", .kind = TD_ATTR_TYPE, .is_list = true, .n = main->n_rets, .type = out},
            {.name = "f", .kind = TD_ATTR_FUNC, .n = 1, .func = &(struct td_func_ref){.name = main->name}}));
    return td_emit_close(&e);
}

/* The node stays unknown; its op's name says why. */
static enum td_code leave(const struct call *c)
{
    const size_t bytes = strlen(c->err->msg) + 32;
    char *name = td_arena_alloc(c->lib->arena, bytes, 1);
    if (name == NULL) {
        return td_no_memory(c->err, bytes, "a StableHLO module");
    }
    snprintf(name, bytes, "XlaCallModule (%s)", c->err->msg);
    c->n->op_name = name;
    *c->err = (struct td_err){0};
    return TD_OK;
}

static enum td_code convert(const struct call *c)
{
    struct td_function *main = NULL;
    enum td_code rc = translate(c, &main);
    if (rc == TD_UNIMPLEMENTED) {
        return leave(c);
    }
    rc = rc ? rc : call_function(c, main);
    return rc ? td_err_wrap(c->err, "%s", TD_NODE_STR(c->n)) : TD_OK;
}

/* jax2tf forbids the gradients of what it was not asked to differentiate, for TensorFlow cannot; the engine
 * can. */
static bool is_lifted(const struct td_node *n)
{
    static const char reason[] = "The jax2tf-converted function does not support gradients";
    const struct td_node *from = td_is_op(n, "PreventGradient") && n->n_in == 1 ? n->in[0].node : NULL;
    const struct td_func_ref *f =
        from != NULL && td_is_op(from, "PartitionedCall") ? td_attr_func(from, "f", 0) : NULL;
    return f != NULL && strncmp(f->name, PREFIX, sizeof PREFIX - 1) == 0 &&
           strncmp(td_attr_str(n, "message"), reason, sizeof reason - 1) == 0;
}

static enum td_code lift(const struct call *c)
{
    const struct td_value in = c->n->in[0];
    struct td_emitter e = td_graph_emitter(c->g, c->n->name, c->ops, c->err);
    td_emit_again(&e, c->n, td_op_find(c->ops, "Identity"), &in, 1, TD_NO_ATTRS);
    return td_emit_close(&e);
}

static enum td_code convert_all(struct call *c)
{
    const int n = c->g->n_nodes;
    for (int i = 0; i < n; i++) {
        c->n = c->g->nodes[i];
        if (td_is_op(c->n, "XlaCallModule")) {
            c->number++;
            TD_TRY(convert(c));
        }
    }
    for (int i = 0; c->number > 0 && i < n; i++) {
        c->n = c->g->nodes[i];
        TD_TRY(is_lifted(c->n) ? lift(c) : TD_OK);
    }
    return TD_OK;
}

enum td_code td_call_modules(struct td_graph *g, struct td_library *lib, const struct td_op_table *ops,
                             struct td_err *err)
{
    struct call c = {.g = g, .lib = lib, .ops = ops, .err = err};
    const int n = lib->n_functions;
    struct td_function **all = td_arena_alloc(lib->arena, (size_t)n + 1, sizeof *all);
    if (all == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *all, "functions");
    }
    for (int i = 0; i < n; i++) { /* those that come to stand among them have none */
        all[i] = lib->functions[i];
    }
    TD_TRY(convert_all(&c));
    for (int i = 0; i < n; i++) {
        c.g = &all[i]->body;
        TD_TRY(all[i]->is_template ? TD_OK : convert_all(&c));
    }
    return TD_OK;
}
