/* proto/graph_pb.c - see graph_pb.h. Nodes and functions; attribute values are in proto/attr_pb.c, op
 * definitions in proto/opdef_pb.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/graph_pb.h"

#include <string.h>

#include "core/mem.h"
#include "proto/attr_pb.h"
#include "proto/opdef_pb.h"
#include "proto/tensorflow.pb-c.h"

enum { MAX_INPUTS = 1 << 16, MAX_ARGS = 1 << 16 };

typedef Tensorflow__NodeDef node_def;
typedef Tensorflow__FunctionDef function_def;

/* ---- nodes */

static enum td_code copy_inputs(const node_def *p, struct td_arena *a, struct td_node *n, struct td_err *err)
{
    TD_FAIL_IF(p->n_input > MAX_INPUTS, err, INVALID_ARGUMENT,
               "node '%s': %zu inputs, at most %d are allowed", p->name, p->n_input, MAX_INPUTS);
    n->inputs = td_arena_alloc(a, p->n_input + 1, sizeof n->inputs[0]);
    if (n->inputs == NULL) {
        return td_no_memory(err, p->n_input, "node inputs");
    }
    for (size_t i = 0; i < p->n_input; i++) {
        n->inputs[i] = td_arena_strdup(a, p->input[i]);
        if (n->inputs[i] == NULL) {
            return td_no_memory(err, strlen(p->input[i]), "node inputs");
        }
    }
    n->n_inputs = (int)p->n_input;
    return TD_OK;
}

/* Elements that a shape spells, negative for a negative dimension, for the error text. */
static long long spelled_elements(const Tensorflow__TensorShapeProto *s)
{
    long long n = 1;
    for (size_t i = 0; s != NULL && i < s->n_dim; i++) {
        if (s->dim[i]->size < 0) {
            return -1;
        }
        n = __builtin_mul_overflow(n, (long long)s->dim[i]->size, &n) ? -1 : n;
    }
    return n;
}

/* What a loader must know of a Const before it trusts it. */
static enum td_code check_const(const node_def *p, struct td_err *err)
{
    const Tensorflow__AttrValue *value = NULL, *dtype = NULL;
    for (size_t i = 0; i < p->n_attr; i++) {
        value = strcmp(p->attr[i]->key, "value") == 0 ? p->attr[i]->value : value;
        dtype = strcmp(p->attr[i]->key, "dtype") == 0 ? p->attr[i]->value : dtype;
    }
    TD_FAIL_IF(value == NULL || value->value_case != TENSORFLOW__ATTR_VALUE__VALUE_TENSOR ||
                   value->tensor == NULL,
               err, FAILED_PRECONDITION,
               "Saved model contains node \"%s\" which is a constant tensor but no value has been provided",
               p->name);
    long long n = spelled_elements(value->tensor->tensor_shape);
    TD_FAIL_IF(
        n < 0, err, FAILED_PRECONDITION,
        "Saved model contains node \"%s\" (op \"%s\") which initializes from a tensor with %lld elements",
        p->name, p->op, n);
    bool same = dtype != NULL && dtype->value_case == TENSORFLOW__ATTR_VALUE__VALUE_TYPE &&
                dtype->type == value->tensor->dtype;
    bool later = dtype != NULL && dtype->value_case == TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER;
    TD_FAIL_IF(!same && !later, err, INVALID_ARGUMENT, "node '%s' (Const): attribute dtype is not its value's %s",
               p->name, td_dtype_tf_name((enum td_dtype)value->tensor->dtype));
    return TD_OK;
}

static enum td_code add_node(const node_def *p, struct td_attr_reader *r, struct td_graph *g,
                             struct td_err *err)
{
    struct td_node *n;
    TD_FAIL_IF(p->name[0] == 0 || p->op[0] == 0, err, INVALID_ARGUMENT, "node '%s' of op '%s' in '%s': no %s",
               p->name, p->op, g->function, p->name[0] ? "op" : "name");
    if (strcmp(p->op, "Const") == 0) {
        TD_TRY(check_const(p, err));
    }
    TD_TRY(td_graph_add(g, p->name, p->op, p->device, &n, err));
    TD_TRY(copy_inputs(p, g->arena, n, err));
    if (td_attrs_from_proto(r, p->attr, p->n_attr, &n->attrs, &n->n_attrs, err)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(n));
    }
    return TD_OK;
}

static enum td_code add_nodes(node_def *const *nodes, size_t n, struct td_attr_reader *r, struct td_graph *g,
                              struct td_err *err)
{
    for (size_t i = 0; i < n; i++) {
        TD_TRY(add_node(nodes[i], r, g, err));
    }
    return TD_OK;
}

/* ---- functions */

static enum td_code add_args(struct td_function *f, struct td_arena *a, struct td_err *err)
{
    f->n_args = f->def.n_in;
    f->args = td_arena_alloc(a, (size_t)f->n_args + 1, sizeof f->args[0]);
    if (f->args == NULL) {
        return td_no_memory(err, (size_t)f->n_args, "function arguments");
    }
    for (int i = 0; i < f->n_args; i++) {
        TD_TRY(td_graph_add(&f->body, f->def.in[i].name, "_Arg", "", &f->args[i], err));
        TD_TRY(td_function_set_arg(a, &f->def.in[i], i, f->args[i], err));
    }
    return TD_OK;
}

static enum td_code add_results(const function_def *p, struct td_function *f, struct td_arena *a,
                                struct td_err *err)
{
    f->n_rets = f->def.n_out;
    f->ret_texts = td_arena_alloc(a, (size_t)f->n_rets + 1, sizeof f->ret_texts[0]);
    if (f->ret_texts == NULL) {
        return td_no_memory(err, (size_t)f->n_rets, "function results");
    }
    for (int i = 0; i < f->n_rets; i++) {
        const char *text = NULL;
        for (size_t k = 0; text == NULL && k < p->n_ret; k++) {
            text = strcmp(p->ret[k]->key, f->def.out[i].name) == 0 ? p->ret[k]->value : NULL;
        }
        TD_FAIL_IF(text == NULL, err, INVALID_ARGUMENT,
                   "function '%s': no value is given for its result '%s'", f->name, f->def.out[i].name);
        f->ret_texts[i] = td_arena_strdup(a, text);
        if (f->ret_texts[i] == NULL) {
            return td_no_memory(err, strlen(text), "function results");
        }
    }
    return TD_OK;
}

static enum td_code add_control_results(const function_def *p, struct td_function *f, struct td_arena *a,
                                        struct td_err *err)
{
    f->control_texts = td_arena_alloc(a, p->n_control_ret + 1, sizeof f->control_texts[0]);
    if (f->control_texts == NULL) {
        return td_no_memory(err, p->n_control_ret, "function results");
    }
    for (size_t i = 0; i < p->n_control_ret; i++) {
        f->control_texts[i] = td_arena_strdup(a, p->control_ret[i]->value);
        if (f->control_texts[i] == NULL) {
            return td_no_memory(err, strlen(p->control_ret[i]->value), "function results");
        }
    }
    f->n_control_rets = (int)p->n_control_ret;
    return TD_OK;
}

static enum td_code add_function(const function_def *p, struct td_attr_reader *r, struct td_library *lib,
                                 struct td_err *err)
{
    const Tensorflow__OpDef *d = p->signature;
    struct td_function *f;
    TD_FAIL_IF(d == NULL || d->name[0] == 0, err, INVALID_ARGUMENT, "a function of the library has no name");
    TD_FAIL_IF(d->n_input_arg > MAX_ARGS || d->n_output_arg > MAX_ARGS || p->n_control_ret > MAX_ARGS, err,
               INVALID_ARGUMENT, "function '%s': more than %d arguments or results", d->name, MAX_ARGS);
    TD_FAIL_IF(p->n_ret > d->n_output_arg, err, INVALID_ARGUMENT, "function '%s': %zu values for %zu results",
               d->name, p->n_ret, d->n_output_arg);
    TD_TRY(td_library_add(lib, d->name, &f, err));
    TD_TRY(td_opdef_from_proto(d, lib->arena, &f->def, err));
    f->def.name = f->name;
    f->is_template = d->n_attr > 0;
    TD_TRY(f->is_template ? TD_OK : add_args(f, lib->arena, err));
    if (add_nodes(p->node_def, p->n_node_def, r, &f->body, err)) {
        return td_err_wrap(err, "function '%s'", f->name);
    }
    TD_TRY(add_results(p, f, lib->arena, err));
    return add_control_results(p, f, lib->arena, err);
}

enum td_code td_graph_from_proto(const struct Tensorflow__GraphDef *def, uint64_t tensor_bytes,
                                 struct td_graph *g, struct td_library *lib, struct td_err *err)
{
    struct td_attr_reader r = {.arena = g->arena, .tensor_bytes = tensor_bytes};
    if (def == NULL) {
        return TD_OK;
    }
    TD_TRY(add_nodes(def->node, def->n_node, &r, g, err));
    for (size_t i = 0; def->library != NULL && i < def->library->n_function; i++) {
        TD_TRY(add_function(def->library->function[i], &r, lib, err));
    }
    return TD_OK;
}
