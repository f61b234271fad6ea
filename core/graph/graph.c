/* core/graph/graph.c - arrays of nodes and functions in an arena, a table of names, and typed getters.
 *
 * Nodes are kept in the order in which they were added, and their id is their place. Arrays double; what was
 * outgrown stays in the arena. td_graph_find probes an open-addressed table that resolving has made
 * (core/graph/resolve.c); functions are found by bisection once the library is sorted.
 *
 * A getter answers 0, "" or nothing for an attribute that is not there or of another kind: after resolving
 * that only means an optional one. Does not: link edges or check anything against the ops
 * (core/graph/resolve.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/graph.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

void td_graph_init(struct td_graph *g, struct td_arena *arena, const char *function)
{
    *g = (struct td_graph){.arena = arena, .function = function};
}

/* Room for one more pointer in an arena-backed array. */
static bool grow(struct td_arena *a, void *array, int n, int *cap)
{
    if (n < *cap) {
        return true;
    }
    int bigger = *cap == 0 ? 16 : *cap * 2;
    void **fresh = td_arena_alloc(a, (size_t)bigger, sizeof(void *));
    if (fresh == NULL) {
        return false;
    }
    if (n > 0) {
        memcpy(fresh, *(void **)array, (size_t)n * sizeof(void *));
    }
    *(void **)array = fresh;
    *cap = bigger;
    return true;
}

enum td_code td_graph_add(struct td_graph *g, const char *name, const char *op_name, const char *device,
                          struct td_node **out, struct td_err *err)
{
    struct td_node *n = td_arena_alloc(g->arena, 1, sizeof *n);
    if (n == NULL || !grow(g->arena, &g->nodes, g->n_nodes, &g->cap_nodes)) {
        return td_no_memory(err, sizeof *n, "graph node");
    }
    n->name = name;
    n->op_name = op_name;
    n->device = device;
    n->function = g->function;
    n->id = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    *out = n;
    return TD_OK;
}

enum td_code td_library_add(struct td_library *lib, const char *name, struct td_function **out,
                            struct td_err *err)
{
    struct td_function *f = td_arena_alloc(lib->arena, 1, sizeof *f);
    if (f == NULL || !grow(lib->arena, &lib->functions, lib->n_functions, &lib->cap_functions)) {
        return td_no_memory(err, sizeof *f, "function");
    }
    f->name = name;
    td_graph_init(&f->body, lib->arena, f->name);
    f->def.name = f->name;
    lib->functions[lib->n_functions++] = f;
    *out = f;
    return TD_OK;
}

enum td_code td_library_add_gradient(struct td_library *lib, const char *type, const char *function,
                                     struct td_err *err)
{
    if (lib->n_gradients == lib->cap_gradients) {
        const int bigger = lib->cap_gradients == 0 ? 16 : 2 * lib->cap_gradients;
        struct td_custom_gradient *fresh = td_arena_alloc(lib->arena, (size_t)bigger, sizeof *fresh);
        if (fresh == NULL) {
            return td_no_memory(err, (size_t)bigger * sizeof *fresh, "custom gradients");
        }
        if (lib->n_gradients > 0) {
            memcpy(fresh, lib->gradients, (size_t)lib->n_gradients * sizeof *fresh);
        }
        lib->gradients = fresh;
        lib->cap_gradients = bigger;
    }
    lib->gradients[lib->n_gradients++] = (struct td_custom_gradient){.type = type, .function = function};
    return TD_OK;
}

/* The attributes of n, argument `index` of a function. */
static enum td_code set_arg(struct td_arena *a, const struct td_arg_def *arg, int index, struct td_node *n,
                            struct td_err *err)
{
    struct {
        struct td_attr attrs[2];
        int64_t index;
        struct td_bytes placeholder;
        enum td_dtype type;
    } * x;
    x = td_arena_alloc(a, 1, sizeof *x);
    if (x == NULL) {
        return td_no_memory(err, sizeof *x, "function argument");
    }
    x->index = index;
    x->type = arg->type;
    x->attrs[0] = (struct td_attr){.name = "T", .kind = TD_ATTR_TYPE, .n = 1, .type = &x->type};
    if (arg->type_attr != NULL) {
        x->placeholder = (struct td_bytes){arg->type_attr, strlen(arg->type_attr)};
        x->attrs[0] =
            (struct td_attr){.name = "T", .kind = TD_ATTR_PLACEHOLDER, .n = 1, .str = &x->placeholder};
    }
    x->attrs[1] = (struct td_attr){.name = "index", .kind = TD_ATTR_INT, .n = 1, .i = &x->index};
    n->attrs = x->attrs;
    n->n_attrs = 2;
    return TD_OK;
}

enum td_code td_function_add_args(struct td_arena *a, struct td_function *f, const char *op_name,
                                  struct td_err *err)
{
    f->n_args = f->def.n_in;
    f->args = td_arena_alloc(a, (size_t)f->n_args + 1, sizeof f->args[0]);
    if (f->args == NULL) {
        return td_no_memory(err, (size_t)f->n_args * sizeof f->args[0], "function arguments");
    }
    for (int i = 0; i < f->n_args; i++) {
        TD_TRY(td_graph_add(&f->body, f->def.in[i].name, op_name, "", &f->args[i], err));
        TD_TRY(set_arg(a, &f->def.in[i], i, f->args[i], err));
    }
    return TD_OK;
}

static int compare_function(const void *key, const void *row)
{
    return strcmp(key, (*(struct td_function *const *)row)->name);
}

struct td_function *td_library_find(const struct td_library *lib, const char *name)
{
    if (lib == NULL || lib->n_functions == 0) {
        return NULL;
    }
    struct td_function **f =
        bsearch(name, lib->functions, (size_t)lib->n_functions, sizeof lib->functions[0], compare_function);
    return f == NULL ? NULL : *f;
}

enum td_code td_library_extend(const struct td_library *lib, struct td_arena *a, struct td_library *out,
                               struct td_err *err)
{
    *out = (struct td_library){.arena = a};
    if (lib != NULL) {
        out->gradients = lib->gradients;
        out->n_gradients = out->cap_gradients = lib->n_gradients;
    }
    for (int i = 0; lib != NULL && i < lib->n_functions; i++) {
        TD_TRY(td_library_insert(out, lib->functions[i], err));
    }
    return TD_OK;
}

enum td_code td_library_insert(struct td_library *lib, struct td_function *f, struct td_err *err)
{
    if (!grow(lib->arena, &lib->functions, lib->n_functions, &lib->cap_functions)) {
        return td_no_memory(err, sizeof *f, "function");
    }
    int at = lib->n_functions++;
    for (; at > 0 && strcmp(lib->functions[at - 1]->name, f->name) > 0; at--) {
        lib->functions[at] = lib->functions[at - 1];
    }
    lib->functions[at] = f;
    return TD_OK;
}

struct td_node *td_graph_find(const struct td_graph *g, const char *name, size_t len)
{
    if (g->n_slots == 0) {
        return NULL;
    }
    size_t mask = (size_t)g->n_slots - 1;
    for (size_t i = td_hash_bytes(name, len) & mask; g->by_name[i] != NULL; i = (i + 1) & mask) {
        if (strncmp(g->by_name[i]->name, name, len) == 0 && g->by_name[i]->name[len] == 0) {
            return g->by_name[i];
        }
    }
    return NULL;
}

enum td_code td_graph_value(const struct td_graph *g, const char *text, struct td_value *out,
                            struct td_err *err)
{
    const char *colon = strrchr(text, ':');
    long port = 0;
    size_t len = strlen(text);
    if (colon != NULL) {
        char *end;
        port = strtol(colon + 1, &end, 10);
        TD_FAIL_IF(*end != 0 || end == colon + 1 || port < 0, err, INVALID_ARGUMENT,
                   "tensor name '%s' is not of the form node:port", text);
        len = (size_t)(colon - text);
    }
    struct td_node *n = td_graph_find(g, text, len);
    TD_FAIL_IF(n == NULL, err, NOT_FOUND, "tensor '%s': the graph has no node of that name", text);
    TD_FAIL_IF(port >= n->n_out && n->def == NULL, err, UNIMPLEMENTED,
               "Op type not registered '%s': tensor '%s' is of an op that this build does not have",
               n->op_name, text);
    TD_FAIL_IF(port >= n->n_out, err, INVALID_ARGUMENT, "tensor '%s': %s has %d outputs", text,
               TD_NODE_STR(n), n->n_out);
    *out = (struct td_value){n, (int)port};
    return TD_OK;
}

struct td_node_str td_node_str(const struct td_node *n)
{
    struct td_node_str t;
    if (n->function != NULL && n->function[0] != 0) {
        snprintf(t.s, sizeof t.s, "node '%.120s' (%.40s) in function '%.64s'", n->name, n->op_name,
                 n->function);
    } else {
        snprintf(t.s, sizeof t.s, "node '%.160s' (%.40s)", n->name, n->op_name);
    }
    return t;
}

/* ------------------------------------------------------------------ attributes */

static const struct td_attr *find(const struct td_node *n, const char *name, enum td_attr_kind kind)
{
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, name);
    return a != NULL && a->kind == kind && a->n > 0 ? a : NULL;
}

int64_t td_attr_int(const struct td_node *n, const char *name)
{
    const struct td_attr *a = find(n, name, TD_ATTR_INT);
    return a == NULL ? 0 : a->i[0];
}

double td_attr_float(const struct td_node *n, const char *name)
{
    const struct td_attr *a = find(n, name, TD_ATTR_FLOAT);
    return a == NULL ? 0 : (double)a->f[0];
}

bool td_attr_bool(const struct td_node *n, const char *name)
{
    const struct td_attr *a = find(n, name, TD_ATTR_BOOL);
    return a != NULL && a->b[0];
}

enum td_dtype td_attr_type(const struct td_node *n, const char *name)
{
    const struct td_attr *a = find(n, name, TD_ATTR_TYPE);
    return a == NULL ? TD_DTYPE_NONE : a->type[0];
}

struct td_bytes td_attr_bytes(const struct td_node *n, const char *name)
{
    const struct td_attr *a = find(n, name, TD_ATTR_STRING);
    return a == NULL ? (struct td_bytes){"", 0} : a->str[0];
}

const char *td_attr_str(const struct td_node *n, const char *name)
{
    return td_attr_bytes(n, name).p;
}

const struct td_shape *td_attr_shape(const struct td_node *n, const char *name)
{
    static const struct td_shape unknown = {.rank = -1};
    const struct td_attr *a = find(n, name, TD_ATTR_SHAPE);
    return a == NULL ? &unknown : &a->shape[0];
}

const struct td_tensor *td_attr_tensor(const struct td_node *n, const char *name)
{
    const struct td_attr *a = find(n, name, TD_ATTR_TENSOR);
    return a == NULL ? NULL : &a->tensor[0];
}

const struct td_func_ref *td_attr_func(const struct td_node *n, const char *name, int i)
{
    const struct td_attr *a = find(n, name, TD_ATTR_FUNC);
    return a == NULL || i >= a->n ? NULL : &a->func[i];
}

int td_attr_len(const struct td_node *n, const char *name)
{
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, name);
    return a == NULL ? 0 : a->n;
}

#define LIST_GETTER(fn, ctype, KIND, member)                                                                 \
    const ctype *fn(const struct td_node *n, const char *name, int *count)                                   \
    {                                                                                                        \
        const struct td_attr *a = find(n, name, KIND);                                                       \
        *count = a == NULL ? 0 : a->n;                                                                       \
        return a == NULL ? NULL : a->member;                                                                 \
    }
LIST_GETTER(td_attr_ints, int64_t, TD_ATTR_INT, i)
LIST_GETTER(td_attr_floats, float, TD_ATTR_FLOAT, f)
LIST_GETTER(td_attr_bools, bool, TD_ATTR_BOOL, b)
LIST_GETTER(td_attr_types, enum td_dtype, TD_ATTR_TYPE, type)
LIST_GETTER(td_attr_strs, struct td_bytes, TD_ATTR_STRING, str)
LIST_GETTER(td_attr_shapes, struct td_shape, TD_ATTR_SHAPE, shape)
