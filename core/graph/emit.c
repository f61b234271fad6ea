/* core/graph/emit.c - the node builder: an op's attributes told from its inputs, then the same checks as for
 * a loaded node.
 *
 * Attributes given come first. Of those left, the type of an argument is the dtype of its first input, a list
 * of types is that of its inputs, and a number is how many there are; at most one argument may be of unknown
 * width, and gets the inputs that the others leave. What is still missing takes its default or is an error
 * (core/graph/define.c).
 *
 * Attributes are copied into the graph's arena with what they point to; tensors by reference, which the
 * arena's end gives back. add() puts the bare node into its graph: here into a loaded one, in core/compile
 * for the compiler's. Equal small constants of one device are found in a hash table (core/graph/constants.c)
 * until it is forgotten.
 *
 * Every step goes through fine() or room(), which do nothing after the first error.
 *
 * Does not: sort nodes, or infer shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/graph/define.h"
#include "core/base/check.h"
#include "core/base/mem.h"

const struct td_op td_op_literal = {.name = "_Literal", .flags = TD_OP_CONST};

/* ------------------------------------------------------------------ opening, closing, failing */

struct graph_target {
    struct td_graph *graph;
    const char *scope;
};

static enum td_code add_to_graph(void *target, const struct td_node *at, const char *op_name,
                                 struct td_node **out, struct td_err *err)
{
    const struct graph_target *to = target;
    const size_t bytes = strlen(to->scope) + strlen(op_name) + 16;
    char *name = td_arena_alloc(to->graph->arena, bytes, 1);
    if (name == NULL) {
        return td_no_memory(err, bytes, "graph node");
    }
    snprintf(name, bytes, "%s/%s_%d", to->scope, op_name, to->graph->n_nodes);
    return td_graph_add(to->graph, name, op_name, at == NULL || at->device == NULL ? "" : at->device, out,
                        err);
}

struct td_emitter td_graph_emitter(struct td_graph *g, const char *scope, const struct td_op_table *ops,
                                   struct td_err *err)
{
    struct td_emitter e = {.err = err, .ops = ops, .arena = g->arena, .add = add_to_graph};
    struct graph_target *to = td_arena_alloc(g->arena, 1, sizeof *to);
    if (to == NULL) {
        e.rc = td_no_memory(err, sizeof *to, "graph node");
        return e;
    }
    *to = (struct graph_target){g, scope};
    e.graph = to;
    return e;
}

void td_emit_forget(struct td_emitter *e)
{
    td_constants_free(&e->constants);
}

enum td_code td_emit_close(struct td_emitter *e)
{
    td_constants_free(&e->constants);
    return e->rc;
}

struct td_value td_emit_fail(struct td_emitter *e, enum td_code code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    e->rc = e->rc ? e->rc : td_fail(e->err, code, "%s", text);
    return td_no_value;
}

/* Notes rc; false when there is an error, this one or one before. */
static bool fine(struct td_emitter *e, enum td_code rc)
{
    e->rc = e->rc ? e->rc : rc;
    return e->rc == TD_OK;
}

static void *room(struct td_emitter *e, size_t n, size_t size)
{
    void *p = e->rc ? NULL : td_arena_alloc(e->arena, n, size);
    if (p == NULL) {
        (void)fine(e, td_no_memory(e->err, n * size, "a node"));
    }
    return p;
}

/* ------------------------------------------------------------------ attributes */

static size_t element_bytes(enum td_attr_kind kind)
{
    static const size_t bytes[] = {
        [TD_ATTR_STRING] = sizeof(struct td_bytes),
        [TD_ATTR_INT] = sizeof(int64_t),
        [TD_ATTR_FLOAT] = sizeof(float),
        [TD_ATTR_BOOL] = sizeof(bool),
        [TD_ATTR_TYPE] = sizeof(enum td_dtype),
        [TD_ATTR_SHAPE] = sizeof(struct td_shape),
        [TD_ATTR_TENSOR] = sizeof(struct td_tensor),
        [TD_ATTR_FUNC] = sizeof(struct td_func_ref),
        [TD_ATTR_PLACEHOLDER] = sizeof(struct td_bytes),
    };
    return bytes[kind];
}

/* Element i of a, copied by its bytes, gets what those point to: texts of its own, a reference to a tensor.
 * The attributes of a function stay the caller's, which are some node's. */
static void keep_element(struct td_emitter *e, struct td_attr *a, int i)
{
    if (a->kind == TD_ATTR_STRING || a->kind == TD_ATTR_PLACEHOLDER) {
        a->str[i].p = td_arena_strndup(e->arena, a->str[i].p, a->str[i].len);
        (void)fine(e, a->str[i].p == NULL ? td_no_memory(e->err, a->str[i].len, "a node") : TD_OK);
    } else if (a->kind == TD_ATTR_TENSOR) {
        td_tensor_ref(&a->tensor[i], &a->tensor[i]);
        (void)fine(e, td_tensor_keep(e->arena, &a->tensor[i], e->err));
    }
}

static void copy_attr(struct td_emitter *e, struct td_attr *to, const struct td_attr *from)
{
    const size_t bytes = element_bytes(from->kind);
    *to = *from;
    void *elements = room(e, (size_t)from->n + 1, bytes > 0 ? bytes : 1);
    if (elements == NULL) {
        return;
    }
    if (from->n > 0) {
        memcpy(elements, from->str, (size_t)from->n * bytes);
    }
    to->str = elements; /* of the union: whichever kind it is */
    for (int i = 0; i < to->n; i++) {
        keep_element(e, to, i);
    }
}

/* The attribute, appended to n's, which have room; NULL when it is there. */
static struct td_attr *new_attr(struct td_node *n, const char *name, enum td_attr_kind kind)
{
    if (td_attr_find(n->attrs, n->n_attrs, name) != NULL) {
        return NULL;
    }
    struct td_attr *a = &n->attrs[n->n_attrs++];
    *a = (struct td_attr){.name = name, .kind = kind, .n = 1};
    return a;
}

static void tell_type(struct td_emitter *e, struct td_node *n, const char *name, enum td_dtype dtype)
{
    struct td_attr *a = name == NULL ? NULL : new_attr(n, name, TD_ATTR_TYPE);
    if (a != NULL && (a->type = room(e, 1, sizeof *a->type)) != NULL) {
        a->type[0] = dtype;
    }
}

static void tell_types(struct td_emitter *e, struct td_node *n, const char *name, const struct td_value *in,
                       int count)
{
    struct td_attr *a = name == NULL ? NULL : new_attr(n, name, TD_ATTR_TYPE);
    if (a == NULL || (a->type = room(e, (size_t)count + 1, sizeof *a->type)) == NULL) {
        return;
    }
    a->is_list = true;
    a->n = count;
    for (int i = 0; i < count; i++) {
        a->type[i] = td_dtype_of(in[i]);
    }
}

static void tell_number(struct td_emitter *e, struct td_node *n, const char *name, int count)
{
    struct td_attr *a = name == NULL ? NULL : new_attr(n, name, TD_ATTR_INT);
    if (a != NULL && (a->i = room(e, 1, sizeof *a->i)) != NULL) {
        a->i[0] = count;
    }
}

/* Whether the attribute that says how many tensors the argument stands for is to be told from the inputs. */
static bool is_open(const struct td_node *n, const struct td_arg_def *arg)
{
    const char *by = arg->number_attr != NULL ? arg->number_attr : arg->list_attr;
    return by != NULL && td_attr_find(n->attrs, n->n_attrs, by) == NULL;
}

/* How many of the n_in inputs the one argument whose width no attribute says stands for. */
static int open_width(struct td_emitter *e, const struct td_node *n, int n_in)
{
    int open = 0, rest = n_in;
    for (int i = 0; i < n->def->n_in; i++) {
        const bool mine = is_open(n, &n->def->in[i]);
        open += mine;
        rest -= mine ? 0 : td_define_width(n, &n->def->in[i], e->err);
    }
    if (open > 1 || rest < 0 || (open == 0 && rest > 0)) {
        td_emit_fail(e, TD_INTERNAL, "%s: %d inputs do not tell its arguments apart", TD_NODE_STR(n), n_in);
        return 0;
    }
    return rest;
}

/* Attributes of the signature's inputs that n does not have yet. */
static void tell_attrs(struct td_emitter *e, struct td_node *n, const struct td_value *in, int n_in)
{
    const int open = open_width(e, n, n_in);
    for (int i = 0, at = 0; e->rc == TD_OK && i < n->def->n_in; i++) {
        const struct td_arg_def *arg = &n->def->in[i];
        const int width = is_open(n, arg) ? open : td_define_width(n, arg, e->err);
        tell_number(e, n, arg->number_attr, width);
        tell_types(e, n, arg->list_attr, &in[at], width);
        if (width > 0) {
            tell_type(e, n, arg->type_attr, td_dtype_of(in[at]));
        }
        at += width;
    }
}

void td_emit_attr(struct td_emitter *e, struct td_node *n, const struct td_attr *value)
{
    struct td_attr *own = room(e, (size_t)n->n_attrs + 1, sizeof *own);
    if (own == NULL) {
        return;
    }
    int at = 0;
    if (n->n_attrs > 0) {
        memcpy(own, n->attrs, (size_t)n->n_attrs * sizeof *own);
    }
    while (at < n->n_attrs && strcmp(own[at].name, value->name) != 0) {
        at++;
    }
    copy_attr(e, &own[at], value);
    n->n_attrs += at == n->n_attrs;
    n->attrs = own;
}

TD_CHECK_FN enum td_code emit_check(const struct td_node *n, struct td_err *err)
{
    for (int i = 0; i < n->n_in; i++) {
        const struct td_value v = n->in[i];
        TD_WANT(v.port >= 0 && v.port < v.node->n_out, err, "%s reads output %d of '%s', which has %d",
                TD_NODE_STR(n), v.port, v.node->name, v.node->n_out);
    }
    for (int i = 0; i < n->n_out; i++) {
        TD_WANT(n->out_type[i] != TD_DTYPE_NONE, err, "output %d of %s has no type", i, TD_NODE_STR(n));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ nodes */

/* Everything of n that follows from its op, its inputs and the attributes given. */
static void define(struct td_emitter *e, struct td_node *n, const struct td_op_def *def,
                   const struct td_value *in, int n_in, const struct td_attr *attrs, int n_attrs)
{
    n->def = def;
    n->op = def->op;
    n->op_name = def->name;
    n->n_in = n->n_out = n->n_attrs = 0;
    n->attrs = room(e, (size_t)n_attrs + (size_t)def->n_attrs + 1, sizeof *n->attrs);
    for (int i = 0; e->rc == TD_OK && i < n_attrs; i++) {
        copy_attr(e, &n->attrs[n->n_attrs++], &attrs[i]);
    }
    if (e->rc == TD_OK) {
        tell_attrs(e, n, in, n_in);
    }
    if (e->rc || !fine(e, td_define_attrs(e->arena, n, e->err)) ||
        !fine(e, td_define_outputs(e->arena, n, e->err)) ||
        !fine(e, td_define_input_room(e->arena, n, n_in, e->err))) {
        return;
    }
    for (int i = 0; i < n_in; i++) {
        n->in[n->n_in++] = in[i];
    }
    n->value = n->op->flags & TD_OP_CONST ? td_attr_tensor(n, "value") : NULL;
    if (fine(e, td_define_inputs(n, e->err))) {
        TD_HOLDS(emit_check, n);
    }
}

static bool takes(struct td_emitter *e, const struct td_op_def *def, const struct td_value *in, int n_in)
{
    if (e->rc == TD_OK && (def == NULL || def->op == NULL)) {
        td_emit_fail(e, TD_INTERNAL, "a node of an op that the table does not have was asked for");
    }
    for (int i = 0; e->rc == TD_OK && i < n_in; i++) {
        if (in[i].node == NULL) {
            td_emit_fail(e, TD_INTERNAL, "input %d of a node of op '%s' is no value", i, def->name);
        }
    }
    return e->rc == TD_OK;
}

struct td_value td_emit_def(struct td_emitter *e, const struct td_op_def *def, const struct td_value *in,
                            int n_in, const struct td_attr *attrs, int n_attrs)
{
    struct td_node *n;
    if (!takes(e, def, in, n_in) || !fine(e, e->add(e->graph, e->at, def->name, &n, e->err))) {
        return td_no_value;
    }
    define(e, n, def, in, n_in, attrs, n_attrs);
    return e->rc ? td_no_value : (struct td_value){n, 0};
}

struct td_value td_emit(struct td_emitter *e, const char *name, const struct td_value *in, int n_in,
                        const struct td_attr *attrs, int n_attrs)
{
    const struct td_op_def *def = e->rc ? NULL : td_op_find(e->ops, name);
    if (e->rc == TD_OK && def == NULL) {
        return td_emit_fail(e, TD_INTERNAL, "the table has no op '%s'", name);
    }
    return td_emit_def(e, def, in, n_in, attrs, n_attrs);
}

void td_emit_again(struct td_emitter *e, struct td_node *n, const struct td_op_def *def,
                   const struct td_value *in, int n_in, const struct td_attr *attrs, int n_attrs)
{
    const int had = n->n_out;
    const enum td_dtype *types = n->out_type;
    if (!takes(e, def, in, n_in)) {
        return;
    }
    define(e, n, def, in, n_in, attrs, n_attrs);
    for (int i = 0; e->rc == TD_OK && i < had; i++) {
        if (i >= n->n_out || n->out_type[i] != types[i]) {
            td_emit_fail(e, TD_INTERNAL, "%s: output %d was %s and is read", TD_NODE_STR(n), i,
                         td_dtype_name(types[i]));
        }
    }
}

struct td_node *td_emit_bare(struct td_emitter *e, const struct td_op *op, const char *op_name, int n_in,
                             int n_out)
{
    struct td_node *n;
    if (e->rc || !fine(e, e->add(e->graph, e->at, op_name, &n, e->err))) {
        return NULL;
    }
    n->op = op;
    n->op_name = op_name;
    if (!fine(e, td_define_input_room(e->arena, n, n_in, e->err)) ||
        !fine(e, td_define_output_room(e->arena, n, n_out, e->err))) {
        return NULL;
    }
    n->n_in = n_in;
    n->n_out = n_out;
    return n;
}

/* ------------------------------------------------------------------ constants */

struct td_value td_emit_literal(struct td_emitter *e, const struct td_tensor *t)
{
    struct td_node *n = td_emit_bare(e, &td_op_literal, td_op_literal.name, 0, 1);
    struct td_attr *a = n == NULL ? NULL : room(e, 1, sizeof *a);
    if (a == NULL) {
        return td_no_value;
    }
    copy_attr(
        e, a,
        &(struct td_attr){.name = "value", .kind = TD_ATTR_TENSOR, .n = 1, .tensor = (struct td_tensor *)t});
    n->attrs = a;
    n->n_attrs = 1;
    n->value = a->tensor;
    n->out_type[0] = t->dtype;
    return e->rc ? td_no_value : (struct td_value){n, 0};
}

struct td_value td_emit_const(struct td_emitter *e, const struct td_tensor *t)
{
    const char *device = e->at == NULL || e->at->device == NULL ? "" : e->at->device;
    struct td_node **slot = e->rc ? NULL : td_constants_slot(&e->constants, &td_op_literal, t, device);
    if (slot != NULL && *slot != NULL) {
        return (struct td_value){*slot, 0};
    }
    const struct td_value made = td_emit_literal(e, t);
    if (slot != NULL) {
        *slot = made.node;
    }
    return made;
}

static struct td_value emit_integers(struct td_emitter *e, enum td_dtype dtype, const struct td_shape *shape,
                                     const int64_t *v)
{
    struct td_tensor t;
    if (e->rc || !fine(e, td_tensor_new(&t, dtype, shape, e->err))) {
        return td_no_value;
    }
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        td_tensor_set_int(&t, i, v[i]);
    }
    const struct td_value made = td_emit_const(e, &t);
    td_tensor_clear(&t);
    return made;
}

struct td_value td_emit_ints(struct td_emitter *e, enum td_dtype dtype, const int64_t *v, int count)
{
    const struct td_shape shape = td_shape_vector(count);
    return emit_integers(e, dtype, &shape, v);
}

struct td_value td_emit_int(struct td_emitter *e, enum td_dtype dtype, int64_t v)
{
    const struct td_shape shape = td_shape_scalar();
    return emit_integers(e, dtype, &shape, &v);
}

struct td_value td_emit_number(struct td_emitter *e, enum td_dtype dtype, double v)
{
    const struct td_shape shape = td_shape_scalar();
    struct td_tensor t;
    if (td_dtype_in(dtype, TD_SET_INTS)) {
        return td_emit_int(e, dtype, (int64_t)v);
    }
    if (e->rc || !fine(e, td_tensor_new(&t, dtype, &shape, e->err))) {
        return td_no_value;
    }
    switch (dtype) {
    case TD_FLOAT:
        TD_DATA(&t, float)[0] = (float)v;
        break;
    case TD_DOUBLE:
        TD_DATA(&t, double)[0] = v;
        break;
    case TD_HALF:
        TD_DATA(&t, td_half)[0] = td_float_to_half((float)v);
        break;
    case TD_BFLOAT16:
        TD_DATA(&t, td_bf16)[0] = td_float_to_bf16((float)v);
        break;
    default:
        td_emit_fail(e, TD_INTERNAL, "no number can be made of dtype %s", td_dtype_name(dtype));
    }
    const struct td_value made = td_emit_const(e, &t);
    td_tensor_clear(&t);
    return made;
}

/* ------------------------------------------------------------------ what is known of values */

const struct td_shape *td_emit_shape(const struct td_emitter *e, struct td_value v)
{
    static const struct td_shape unknown = {.rank = -1};
    return e->shape_of == NULL || v.node == NULL ? &unknown : e->shape_of(e->shapes, v);
}

const struct td_node *td_only_maker(struct td_value v)
{
    const struct td_node *from = v.node;
    return from->n_out == 1 && !from->out_ref[0] && from->n_control == 0 ? from : NULL;
}
