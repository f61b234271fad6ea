/* core/graph/resolve.c - links a loaded graph and its functions: definitions, attributes, outputs, then
 * edges.
 *
 * Order: (1) functions are sorted and indexed, and polymorphic ones instantiated (core/graph/instantiate.c);
 * (2) every node gets its definition (a function of the library wins over a builtin op, an op only the file
 * describes comes last), defaults for absent attributes, and its output dtypes; (3) input texts become edges
 * and dtypes are compared along each. A node without any definition stays: it is reported by whoever reaches
 * it, and must not stop the rest of the model.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/graph/graph.h"
#include "core/base/hash.h"
#include "core/graph/instantiate.h"
#include "core/base/mem.h"

enum { MAX_PORTS = 1 << 16 };

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

/* ------------------------------------------------------------------ definitions and attributes */

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

static enum td_code check_attr(const struct linker *l, const struct td_node *n, const struct td_attr_def *d,
                               const struct td_attr *a)
{
    static const char *const names[] = {"none", "string", "int",    "float", "bool",
                                        "type", "shape",  "tensor", "func",  "placeholder"};
    if (a->kind == TD_ATTR_PLACEHOLDER) {
        return TD_OK;
    }
    bool empty_list = a->is_list && a->n == 0;
    TD_FAIL_IF(a->is_list != d->is_list || (a->kind != d->kind && !empty_list), l->err, INVALID_ARGUMENT,
               "%s: AttrValue had value with type '%s%s' when '%s%s' expected for attr '%s'", TD_NODE_STR(n),
               a->is_list ? "list of " : "", names[a->kind], d->is_list ? "list of " : "", names[d->kind],
               a->name);
    bool fits = d->n_allowed == 0 || a->kind != TD_ATTR_STRING;
    for (int i = 0; !fits && !a->is_list && i < d->n_allowed; i++) {
        fits = d->allowed[i].len == a->str[0].len && memcmp(d->allowed[i].p, a->str[0].p, a->str[0].len) == 0;
    }
    TD_FAIL_IF(!fits && !a->is_list, l->err, INVALID_ARGUMENT,
               "%s: Value for attr '%s' of \"%.60s\" is not in the list of allowed values", TD_NODE_STR(n),
               a->name, a->str[0].p);
    return TD_OK;
}

/* Checks the attributes that are there; *missing counts those that the file left out and that have a
 * default. */
static enum td_code check_attrs(const struct linker *l, const struct td_node *n, int *missing)
{
    *missing = 0;
    for (int i = 0; i < n->def->n_attrs; i++) {
        const struct td_attr_def *d = &n->def->attrs[i];
        const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, d->name);
        if (a != NULL) {
            TD_TRY(check_attr(l, n, d, a));
        } else if (d->has_default) {
            ++*missing;
        } else {
            TD_FAIL_IF(n->op != NULL && d->kind != TD_ATTR_FUNC && d->kind != TD_ATTR_SHAPE, l->err,
                       INVALID_ARGUMENT, "NodeDef missing attr '%s' from Op<name=%s>: %s", d->name,
                       n->op_name, TD_NODE_STR(n));
        }
    }
    return TD_OK;
}

/* Appends the defaults of attributes that the file left out. */
static enum td_code complete_attrs(const struct linker *l, struct td_node *n)
{
    int missing, given = n->n_attrs;
    TD_TRY(check_attrs(l, n, &missing));
    if (missing == 0) {
        return TD_OK;
    }
    struct td_attr *all = td_arena_alloc(l->g->arena, (size_t)given + (size_t)missing, sizeof *all);
    if (all == NULL) {
        return td_no_memory(l->err, sizeof *all, "attributes");
    }
    if (given > 0) {
        memcpy(all, n->attrs, (size_t)given * sizeof *all);
    }
    for (int i = 0; i < n->def->n_attrs; i++) {
        const struct td_attr_def *d = &n->def->attrs[i];
        if (d->has_default && td_attr_find(all, given, d->name) == NULL) {
            all[n->n_attrs++] = d->value;
        }
    }
    n->attrs = all;
    return TD_OK;
}

/* ------------------------------------------------------------------ ports */

/* How many tensors one argument stands for; -1 with an error set when an attribute has a nonsensical
 * length. */
static int arg_length(const struct linker *l, const struct td_node *n, const struct td_arg_def *a)
{
    int64_t len = 1;
    if (a->number_attr != NULL) {
        len = td_attr_int(n, a->number_attr);
    } else if (a->list_attr != NULL) {
        len = td_attr_len(n, a->list_attr);
    }
    if (len < 0 || len > MAX_PORTS) {
        td_fail(l->err, TD_INVALID_ARGUMENT, "%s: argument '%s' has length %lld, must be in [0, %d]",
                TD_NODE_STR(n), a->name, (long long)len, MAX_PORTS);
        return -1;
    }
    return (int)len;
}

static enum td_dtype arg_type(const struct td_node *n, const struct td_arg_def *a, int i)
{
    if (a->list_attr != NULL) {
        int count;
        const enum td_dtype *list = td_attr_types(n, a->list_attr, &count);
        return i < count ? list[i] : TD_DTYPE_NONE;
    }
    return a->type_attr != NULL ? td_attr_type(n, a->type_attr) : a->type;
}

static enum td_code count_ports(const struct linker *l, const struct td_node *n,
                                const struct td_arg_def *args, int n_args, int *total)
{
    *total = 0;
    for (int i = 0; i < n_args; i++) {
        int len = arg_length(l, n, &args[i]);
        if (len < 0) {
            return l->err->code;
        }
        *total += len;
        TD_FAIL_IF(*total > MAX_PORTS, l->err, INVALID_ARGUMENT, "%s has more than %d tensors",
                   TD_NODE_STR(n), MAX_PORTS);
    }
    return TD_OK;
}

/* Room for that many outputs, in one block. */
static enum td_code make_outputs(const struct linker *l, struct td_node *n, int total)
{
    const size_t room = (size_t)total + 1;
    n->out_type = td_arena_alloc(l->g->arena, room, sizeof n->out_type[0] + sizeof n->out_ref[0]);
    if (n->out_type == NULL) {
        return td_no_memory(l->err, room, "node outputs");
    }
    n->out_ref = (bool *)(n->out_type + room);
    return TD_OK;
}

static enum td_code set_outputs(const struct linker *l, struct td_node *n)
{
    int total;
    TD_TRY(count_ports(l, n, n->def->out, n->def->n_out, &total));
    TD_TRY(make_outputs(l, n, total));
    for (int i = 0; i < n->def->n_out; i++) {
        int len = arg_length(l, n, &n->def->out[i]);
        for (int k = 0; k < len; k++) {
            n->out_ref[n->n_out] = n->def->out[i].is_ref;
            n->out_type[n->n_out++] = arg_type(n, &n->def->out[i], k);
        }
    }
    return TD_OK;
}

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
    TD_FAIL_IF(port >= MAX_PORTS, l->err, INVALID_ARGUMENT, "%s: output %d is out of range", TD_NODE_STR(n),
               port);
    TD_TRY(make_outputs(l, n, port + 1));
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
        int width = arg_length(l, n, &n->def->out[i]);
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

static enum td_code check_edge(const struct linker *l, const struct td_node *n, int i, enum td_dtype want,
                               bool want_ref)
{
    const struct td_value *v = &n->in[i];
    enum td_dtype have = v->node->out_type[v->port];
    bool wrong_type = want != TD_DTYPE_NONE && have != TD_DTYPE_NONE && want != have;
    TD_FAIL_IF(wrong_type || (want_ref && !v->node->out_ref[v->port]), l->err, INVALID_ARGUMENT,
               "Input %d of node %s was passed %s from %s:%d incompatible with expected %s%s. (op %s%s%s)", i,
               n->name, td_dtype_name(have), v->node->name, v->port, td_dtype_name(want),
               want_ref ? "_ref" : "", n->op_name, n->function[0] ? ", function " : "", n->function);
    return TD_OK;
}

static enum td_code check_inputs(const struct linker *l, struct td_node *n)
{
    int want, i = 0;
    TD_TRY(count_ports(l, n, n->def->in, n->def->n_in, &want));
    TD_FAIL_IF(want != n->n_in, l->err, INVALID_ARGUMENT, "%s has %d inputs, its definition wants %d",
               TD_NODE_STR(n), n->n_in, want);
    n->in_type = (enum td_dtype *)(n->in + n->n_in);
    for (int a = 0; a < n->def->n_in; a++) {
        int len = arg_length(l, n, &n->def->in[a]);
        for (int k = 0; k < len; k++, i++) {
            n->in_ref[i] = n->def->in[a].is_ref;
            n->in_type[i] = arg_type(n, &n->def->in[a], k);
            TD_TRY(check_edge(l, n, i, n->in_type[i], n->in_ref[i]));
        }
    }
    return TD_OK;
}

/* Room for the inputs, in one block: values, dtypes, references; the control inputs in another. */
static enum td_code make_edges(const struct linker *l, struct td_node *n)
{
    size_t data = 0, all = (size_t)n->n_inputs;
    while (data < all && n->inputs[data][0] != '^') {
        data++;
    }
    n->in =
        td_arena_alloc(l->g->arena, data + 1, sizeof n->in[0] + sizeof n->in_type[0] + sizeof n->in_ref[0]);
    n->control = td_arena_alloc(l->g->arena, all - data, sizeof n->control[0]);
    if (n->in == NULL || n->control == NULL) {
        return td_no_memory(l->err, all, "edges");
    }
    n->in_ref = (bool *)((enum td_dtype *)(n->in + data) + data);
    return TD_OK;
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
    return n->def == NULL ? TD_OK : check_inputs(l, n);
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
            TD_TRY(complete_attrs(l, n));
            TD_TRY(set_outputs(l, n));
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
    TD_TRY(td_functions_instantiate(g, lib, &more, err));
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
    return TD_OK;
}
