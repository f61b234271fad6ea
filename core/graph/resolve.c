/* core/graph/resolve.c - links a loaded graph and its functions: definitions, attributes, outputs, then
 * edges.
 *
 * Order: (1) functions are sorted and indexed, and polymorphic ones instantiated (core/graph/instantiate.c);
 * (2) every node gets its definition (a function of the library wins over a builtin op, an op only the file
 * describes comes last), defaults for absent attributes, and its output dtypes; (3) input texts become edges
 * and dtypes are compared along each; (4) nodes that stand for others become these (core/graph/expand.c). A
 * node without any definition stays: it is reported by whoever reaches it, and must not stop the rest of the
 * model.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/graph/define.h"
#include "core/graph/expand.h"
#include "core/base/hash.h"
#include "core/graph/instantiate.h"
#include "core/base/mem.h"

struct linker {
    struct td_library *lib;
    const struct td_op_table *ops;
    struct td_err *err;
    struct td_graph *g; /* the graph, or the body of a function: its turn */
    struct {
        const char *op_name; /* the very string: loaders keep one copy of each */
        const struct td_op_def *def;
    } seen[64]; /* definitions found lately, by the string's address */
};

/* ------------------------------------------------------------------ names */

static enum td_code index_names(struct td_graph *g, struct td_err *err)
{
    int slots = 16;
    while (slots < 2 * g->n_nodes) {
        slots *= 2;
    }
    g->by_name = td_arena_alloc(g->arena, (size_t)slots, sizeof g->by_name[0]);
    if (g->by_name == NULL) {
        return td_no_memory(err, (size_t)slots, "graph index");
    }
    g->n_slots = slots;
    for (int k = 0; k < g->n_nodes; k++) {
        struct td_node *n = g->nodes[k];
        size_t mask = (size_t)slots - 1, i = td_hash_bytes(n->name, strlen(n->name)) & mask;
        for (; g->by_name[i] != NULL; i = (i + 1) & mask) {
            TD_FAIL_IF(strcmp(g->by_name[i]->name, n->name) == 0, err, INVALID_ARGUMENT,
                       "Duplicate node name in graph: '%s'", n->name);
        }
        g->by_name[i] = n;
    }
    return TD_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct td_function *const *)a)->name, (*(struct td_function *const *)b)->name);
}

static enum td_code index_functions(struct td_library *lib, struct td_err *err)
{
    if (lib->n_functions > 1) {
        qsort(lib->functions, (size_t)lib->n_functions, sizeof lib->functions[0], by_name);
    }
    for (int i = 1; i < lib->n_functions; i++) {
        TD_FAIL_IF(strcmp(lib->functions[i - 1]->name, lib->functions[i]->name) == 0, err, INVALID_ARGUMENT,
                   "function '%s' is in the library twice", lib->functions[i]->name);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ definitions */

static const struct td_op_def *definition(const struct linker *l, const char *op_name)
{
    const struct td_function *f = td_library_find(l->lib, op_name);
    if (f != NULL) {
        return f->is_template ? NULL : &f->def; /* a template is called without values for its attributes */
    }
    const struct td_op_def *def = td_op_find(l->ops, op_name);
    for (int i = 0; def == NULL && i < l->lib->n_file_ops; i++) {
        def = strcmp(l->lib->file_ops[i].name, op_name) == 0 ? &l->lib->file_ops[i] : NULL;
    }
    return def;
}

static void find_definition(struct linker *l, struct td_node *n)
{
    const size_t slot = ((uintptr_t)n->op_name >> 4) % (sizeof l->seen / sizeof l->seen[0]);
    if (l->seen[slot].op_name != n->op_name) {
        l->seen[slot].op_name = n->op_name;
        l->seen[slot].def = definition(l, n->op_name);
    }
    n->def = l->seen[slot].def;
    n->op = n->def == NULL ? NULL : n->def->op;
    n->value = n->op == NULL ? NULL : td_attr_tensor(n, "value");
}

/* ------------------------------------------------------------------ ports */

/* A constant whose value is not of the type that its attribute names has none that the compiler may use: the
 * kernel says why when it is run. */
static void check_value(struct td_node *n)
{
    if (n->value != NULL && (n->n_out != 1 || n->out_type[0] != n->value->dtype)) {
        n->value = NULL;
    }
}

/* An op nobody describes: any output a consumer names exists, of unknown dtype. */
static enum td_code need_outputs(const struct linker *l, struct td_node *n, int port)
{
    TD_FAIL_IF(port >= TD_MAX_PORTS, l->err, INVALID_ARGUMENT, "%s: output %d is out of range",
               TD_NODE_STR(n), port);
    TD_TRY(td_define_output_room(l->g->arena, n, port + 1, l->err));
    n->n_out = port + 1;
    return TD_OK;
}

/* ------------------------------------------------------------------ edges */

static bool all_digits(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') {
            return false;
        }
    }
    return n > 0 && n < 7;
}

/* Port of "out_arg:index" on node n. */
static enum td_code named_port(const struct linker *l, struct td_node *n, const char *arg, size_t len,
                               long index, const char *text, int *port)
{
    *port = (int)index;
    if (n->def == NULL) {
        return TD_OK;
    }
    int base = 0;
    for (int i = 0; i < n->def->n_out; i++) {
        const char *name = n->def->out[i].name;
        int width = td_define_width(n, &n->def->out[i], l->err);
        if (width < 0) {
            return l->err->code;
        }
        if (strlen(name) == len && memcmp(name, arg, len) == 0) {
            TD_FAIL_IF(index >= width, l->err, INVALID_ARGUMENT, "'%s': output '%s' of %s has length %d",
                       text, name, TD_NODE_STR(n), width);
            *port = base + (int)index;
            return TD_OK;
        }
        base += width;
    }
    return td_fail(l->err, TD_INVALID_ARGUMENT, "'%s': %s has no output of that name", text, TD_NODE_STR(n));
}

/* "node", "node:1", "node:arg:1", "node:arg" to a value. */
static enum td_code parse_value(const struct linker *l, const char *text, struct td_value *out)
{
    size_t len = strcspn(text, ":");
    struct td_node *n = td_graph_find(l->g, text, len);
    TD_FAIL_IF(n == NULL, l->err, INVALID_ARGUMENT, "input '%s': the %s%s has no node '%.*s'", text,
               l->g->function[0] ? "function " : "graph", l->g->function, (int)(len > 200 ? 200 : len), text);
    int port = 0;
    if (text[len] == ':') {
        const char *second = text + len + 1;
        size_t second_len = strcspn(second, ":");
        if (second[second_len] == 0 && all_digits(second, second_len)) {
            port = (int)strtol(second, NULL, 10); /* at most six digits */
        } else {
            const char *third = second[second_len] == ':' ? second + second_len + 1 : "0";
            TD_FAIL_IF(!all_digits(third, strlen(third)), l->err, INVALID_ARGUMENT,
                       "input '%s' is not of the form node, node:port or node:output:index", text);
            TD_TRY(named_port(l, n, second, second_len, strtol(third, NULL, 10), text, &port));
        }
    }
    if (n->def == NULL && port >= n->n_out) {
        TD_TRY(need_outputs(l, n, port));
    }
    TD_FAIL_IF(port >= n->n_out, l->err, INVALID_ARGUMENT, "input '%s': %s has %d outputs", text,
               TD_NODE_STR(n), n->n_out);
    *out = (struct td_value){n, port};
    return TD_OK;
}

/* Room for the inputs, and for the control inputs behind them. */
static enum td_code make_edges(const struct linker *l, struct td_node *n)
{
    int data = 0;
    while (data < n->n_inputs && n->inputs[data][0] != '^') {
        data++;
    }
    TD_TRY(td_define_input_room(l->g->arena, n, data, l->err));
    n->control = td_arena_alloc(l->g->arena, (size_t)(n->n_inputs - data), sizeof n->control[0]);
    return n->control == NULL ? td_no_memory(l->err, (size_t)n->n_inputs, "edges") : TD_OK;
}

static enum td_code link_node(const struct linker *l, struct td_node *n)
{
    TD_TRY(make_edges(l, n));
    for (int i = 0; i < n->n_inputs; i++) {
        const char *text = n->inputs[i];
        if (text[0] != '^') {
            TD_FAIL_IF(n->n_control > 0, l->err, INVALID_ARGUMENT,
                       "%s: input '%s' comes after a control input", TD_NODE_STR(n), text);
            if (parse_value(l, text, &n->in[n->n_in++])) {
                return td_err_wrap(l->err, "%s", TD_NODE_STR(n));
            }
            continue;
        }
        struct td_node *from = td_graph_find(l->g, text + 1, strcspn(text + 1, ":"));
        TD_FAIL_IF(from == NULL, l->err, INVALID_ARGUMENT, "%s: control input '%s' names no node",
                   TD_NODE_STR(n), text);
        n->control[n->n_control++] = from;
    }
    return n->def == NULL ? TD_OK : td_define_inputs(n, l->err);
}

/* ------------------------------------------------------------------ graphs and functions */

static enum td_code define_nodes(struct linker *l)
{
    TD_TRY(index_names(l->g, l->err));
    for (int i = 0; i < l->g->n_nodes; i++) {
        struct td_node *n = l->g->nodes[i];
        TD_FAIL_IF(l->g->function[0] != 0 && strcmp(n->op_name, l->g->function) == 0, l->err,
                   INVALID_ARGUMENT, "function '%s' calls itself at node '%s': recursion is not supported",
                   l->g->function, n->name);
        find_definition(l, n);
        if (n->def != NULL) {
            TD_TRY(td_define_attrs(l->g->arena, n, l->err));
            TD_TRY(td_define_outputs(l->g->arena, n, l->err));
            check_value(n);
        } else {
            TD_TRY(need_outputs(l, n, 0)); /* a signature may fetch it */
        }
    }
    return TD_OK;
}

static enum td_code link_nodes(const struct linker *l)
{
    for (int i = 0; i < l->g->n_nodes; i++) {
        TD_TRY(link_node(l, l->g->nodes[i]));
    }
    return TD_OK;
}

static enum td_code link_returns(const struct linker *l, struct td_function *f)
{
    f->rets = td_arena_alloc(l->g->arena, (size_t)f->n_rets + 1, sizeof f->rets[0]);
    f->control_rets = td_arena_alloc(l->g->arena, (size_t)f->n_control_rets + 1, sizeof f->control_rets[0]);
    if (f->rets == NULL || f->control_rets == NULL) {
        return td_no_memory(l->err, (size_t)f->n_rets, "function results");
    }
    for (int i = 0; i < f->n_rets; i++) {
        if (parse_value(l, f->ret_texts[i], &f->rets[i])) {
            return td_err_wrap(l->err, "result %d of function '%s'", i, f->name);
        }
    }
    for (int i = 0; i < f->n_control_rets; i++) {
        f->control_rets[i] = td_graph_find(&f->body, f->control_texts[i], strlen(f->control_texts[i]));
        TD_FAIL_IF(f->control_rets[i] == NULL, l->err, INVALID_ARGUMENT,
                   "control result '%s' of function '%s' names no node", f->control_texts[i], f->name);
    }
    f->resolved = true;
    return TD_OK;
}

enum td_code td_graph_resolve(struct td_graph *g, struct td_library *lib, const struct td_op_table *ops,
                              struct td_err *err)
{
    bool more;
    TD_TRY(index_functions(lib, err));
    TD_TRY(td_functions_instantiate(g, lib, ops, &more, err));
    TD_TRY(more ? index_functions(lib, err) : TD_OK);
    struct linker l = {.lib = lib, .ops = ops, .err = err, .g = g};
    TD_TRY(define_nodes(&l));
    for (int i = 0; i < lib->n_functions; i++) {
        l.g = &lib->functions[i]->body;
        TD_TRY(lib->functions[i]->is_template ? TD_OK : define_nodes(&l));
    }
    l.g = g;
    TD_TRY(link_nodes(&l));
    for (int i = 0; i < lib->n_functions; i++) {
        l.g = &lib->functions[i]->body;
        TD_TRY(lib->functions[i]->is_template ? TD_OK : link_nodes(&l));
        TD_TRY(lib->functions[i]->is_template ? TD_OK : link_returns(&l, lib->functions[i]));
    }
    TD_TRY(td_graph_expand(g, ops, err));
    for (int i = 0; i < lib->n_functions; i++) {
        TD_TRY(lib->functions[i]->is_template ? TD_OK : td_graph_expand(&lib->functions[i]->body, ops, err));
    }
    return TD_OK;
}
