/* tests/fuzz/op_graph.c - builds small graphs, from calls or from text, and runs their last node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_graph.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/sig.h"

bool op_graph_open(struct op_graph *g)
{
    memset(g, 0, sizeof *g);
    g->arena = td_arena_new((size_t)64 << 20);
    if (g->arena == NULL) {
        return false;
    }
    td_graph_init(&g->graph, g->arena, "");
    g->lib.arena = g->arena;
    return true;
}

void op_graph_close(struct op_graph *g)
{
    for (int i = 0; i < g->n_feeds; i++) {
        td_tensor_clear(&g->feed[i]);
    }
    td_arena_free(g->arena);
}

struct td_node *op_graph_node(struct op_graph *g, const char *name, const char *op)
{
    struct td_err err = {0};
    struct td_node *n;
    if (td_graph_add(&g->graph, name, op, "", &n, &err)) {
        return NULL;
    }
    n->inputs = td_arena_alloc(g->arena, OP_GRAPH_INPUTS, sizeof n->inputs[0]);
    n->attrs = td_arena_alloc(g->arena, OP_GRAPH_ATTRS, sizeof n->attrs[0]);
    return n->inputs != NULL && n->attrs != NULL ? n : NULL;
}

void op_graph_input(struct op_graph *g, struct td_node *n, const char *text)
{
    if (n->n_inputs < OP_GRAPH_INPUTS) {
        n->inputs[n->n_inputs++] = td_arena_strdup(g->arena, text);
    }
}

static size_t kind_size(enum td_attr_kind kind)
{
    static const size_t size[] = {[TD_ATTR_NONE] = 8,
                                  [TD_ATTR_STRING] = sizeof(struct td_bytes),
                                  [TD_ATTR_INT] = sizeof(int64_t),
                                  [TD_ATTR_FLOAT] = sizeof(float),
                                  [TD_ATTR_BOOL] = sizeof(bool),
                                  [TD_ATTR_TYPE] = sizeof(enum td_dtype),
                                  [TD_ATTR_SHAPE] = sizeof(struct td_shape),
                                  [TD_ATTR_TENSOR] = sizeof(struct td_tensor),
                                  [TD_ATTR_FUNC] = sizeof(struct td_func_ref),
                                  [TD_ATTR_PLACEHOLDER] = sizeof(struct td_bytes)};
    return size[kind];
}

struct td_attr *op_graph_attr(struct op_graph *g, struct td_node *n, const char *name, enum td_attr_kind kind,
                              bool is_list, int count)
{
    static struct td_attr spare; /* past the room: set, and not seen by the node */
    struct td_attr *a = n->n_attrs < OP_GRAPH_ATTRS ? &n->attrs[n->n_attrs++] : &spare;
    *a = (struct td_attr){
        .name = td_arena_strdup(g->arena, name), .kind = kind, .is_list = is_list, .n = count};
    a->i = td_arena_alloc(g->arena, (size_t)count + 1, kind_size(kind));
    return a;
}

static void clear_tensor(void *t)
{
    td_tensor_clear(t);
}

const char *op_graph_value(struct op_graph *g, struct td_tensor *t, bool constant)
{
    char name[32];
    snprintf(name, sizeof name, "value%d", g->n_values++);
    if (g->n_feeds == OP_GRAPH_FEEDS) {
        constant = true;
    }
    struct td_node *n = op_graph_node(g, name, constant ? "Const" : "Placeholder");
    if (n == NULL) {
        td_tensor_clear(t);
        return "";
    }
    op_graph_attr(g, n, "dtype", TD_ATTR_TYPE, false, 1)->type[0] = t->dtype;
    if (!constant) {
        g->feed[g->n_feeds] = *t;
        g->holder[g->n_feeds++] = n;
        return n->name;
    }
    struct td_attr *a = op_graph_attr(g, n, "value", TD_ATTR_TENSOR, false, 1);
    a->tensor[0] = *t;
    if (td_arena_defer(g->arena, clear_tensor, &a->tensor[0]) != 0) {
        td_tensor_clear(&a->tensor[0]);
    }
    return n->name;
}

/* ------------------------------------------------------------------ graphs as text */

struct text {
    struct op_graph *g;
    const char *p;
    bool constant;
    struct td_err *err;
};

static enum td_code bad(struct text *s, const char *want)
{
    return td_fail(s->err, TD_INVALID_ARGUMENT, "graph text: expected %s at \"%.60s\"", want, s->p);
}

static void skip(struct text *s)
{
    while (isspace((unsigned char)*s->p)) {
        s->p++;
    }
}

static bool accept(struct text *s, char c)
{
    skip(s);
    const bool found = *s->p == c;
    s->p += found;
    return found;
}

/* Copies what does not hold one of `ends`, without blanks at its end. */
static void until(struct text *s, const char *ends, char *buf, size_t bytes)
{
    skip(s);
    size_t n = strcspn(s->p, ends);
    const size_t taken = n;
    while (n > 0 && isspace((unsigned char)s->p[n - 1])) {
        n--;
    }
    n = n < bytes - 1 ? n : bytes - 1;
    memcpy(buf, s->p, n);
    buf[n] = '\0';
    s->p += taken;
}

static enum td_dtype dtype_named(const char *name)
{
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (td_dtype_valid(t) && strcmp(td_dtype_name((enum td_dtype)t), name) == 0) {
            return (enum td_dtype)t;
        }
    }
    return TD_DTYPE_NONE;
}

static enum td_code set_element(struct td_tensor *t, int64_t i, const char *word, struct td_err *err)
{
    if (t->dtype == TD_STRING) {
        return td_tensor_set_str(t, i, word, strlen(word), err);
    }
    const double d = strtod(word, NULL);
    const int64_t v = (int64_t)strtoull(word, NULL, 0);
    unsigned char *at = (unsigned char *)t->data + (size_t)i * td_dtype_size(t->dtype);
    const float f = (float)d;
    const td_half h = td_float_to_half(f);
    const td_bf16 b = td_float_to_bf16(f);
    switch (t->dtype) {
    case TD_COMPLEX64:
    case TD_FLOAT:
        memcpy(at, &f, sizeof f);
        break;
    case TD_COMPLEX128:
    case TD_DOUBLE:
        memcpy(at, &d, sizeof d);
        break;
    case TD_HALF:
        memcpy(at, &h, sizeof h);
        break;
    case TD_BFLOAT16:
        memcpy(at, &b, sizeof b);
        break;
    case TD_VARIANT:
    case TD_RESOURCE:
        break;
    default:
        memcpy(at, &v, td_dtype_size(t->dtype)); /* little-endian */
    }
    return TD_OK;
}

static enum td_code read_elements(struct text *s, struct td_tensor *t)
{
    char word[16][64];
    int n = 0;
    for (;;) {
        skip(s);
        if (*s->p == ',' || *s->p == ')' || n == 16) {
            break;
        }
        until(s, " ,)\n", word[n++], sizeof word[0]);
    }
    const int64_t count = td_tensor_count(t);
    if (n == 0) {
        memset(t->data, 0, td_tensor_bytes(t));
    }
    for (int64_t i = 0; i < count && n > 0; i++) {
        TD_TRY(set_element(t, i, word[i % n], s->err));
    }
    return TD_OK;
}

/* dtype[dims] values, or the name of an output. */
static enum td_code read_input(struct text *s, struct td_node *n)
{
    char name[64];
    until(s, "[,)", name, sizeof name);
    if (*s->p != '[') {
        op_graph_input(s->g, n, name);
        return TD_OK;
    }
    struct td_shape shape = td_shape_scalar();
    s->p++;
    while (!accept(s, ']')) {
        char *end;
        shape.dim[shape.rank] = strtoll(s->p, &end, 10);
        if (end == s->p || ++shape.rank == TD_MAX_RANK) {
            return bad(s, "dims");
        }
        s->p = end;
        accept(s, ',');
    }
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, dtype_named(name), &shape, s->err));
    if (read_elements(s, &t)) {
        td_tensor_clear(&t);
        return s->err->code;
    }
    op_graph_input(s->g, n, op_graph_value(s->g, &t, s->constant));
    return TD_OK;
}

static enum td_code read_attrs(struct text *s, struct td_node *n)
{
    char attrs[512], sig[560];
    struct td_op_def def = {0};
    until(s, "}", attrs, sizeof attrs);
    snprintf(sig, sizeof sig, "() -> () {%s}", attrs);
    TD_TRY(td_sig_parse(s->g->arena, "test", sig, &def, s->err));
    for (int i = 0; i < def.n_attrs && n->n_attrs < OP_GRAPH_ATTRS; i++) {
        n->attrs[n->n_attrs] = def.attrs[i].value;
        n->attrs[n->n_attrs++].name = def.attrs[i].name;
    }
    return accept(s, '}') ? TD_OK : bad(s, "'}'");
}

/* Values are added before the node that takes them, so that the node under test comes last: name and op are
 * read first, the node is put at the end afterwards. */
static void put_last(struct td_graph *graph, struct td_node *n)
{
    int at = 0;
    while (graph->nodes[at] != n) {
        at++;
    }
    memmove(&graph->nodes[at], &graph->nodes[at + 1],
            (size_t)(graph->n_nodes - 1 - at) * sizeof graph->nodes[0]);
    graph->nodes[graph->n_nodes - 1] = n;
    for (int i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i]->id = i;
    }
}

static enum td_code read_node(struct text *s)
{
    char name[64], op[64];
    until(s, "=", name, sizeof name);
    if (!accept(s, '=')) {
        return bad(s, "'='");
    }
    until(s, " {(\n", op, sizeof op);
    struct td_node *n = op_graph_node(s->g, name, op);
    if (n == NULL) {
        return bad(s, "memory for a node");
    }
    if (accept(s, '{')) {
        TD_TRY(read_attrs(s, n));
    }
    if (!accept(s, '(')) {
        return bad(s, "'('");
    }
    while (!accept(s, ')')) {
        TD_TRY(read_input(s, n));
        accept(s, ',');
    }
    put_last(&s->g->graph, n);
    skip(s);
    return TD_OK;
}

enum td_code op_graph_read(struct op_graph *g, const char *text, bool constant, struct td_err *err)
{
    struct text s = {.g = g, .p = text, .constant = constant, .err = err};
    skip(&s);
    while (*s.p != '\0') {
        TD_TRY(read_node(&s));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static enum td_code call(struct op_graph *g, struct td_model *m, struct td_node *n, struct td_err *err)
{
    enum { FETCHES = 64 };
    struct td_value fetches[FETCHES], feeds[OP_GRAPH_FEEDS];
    struct td_tensor out[FETCHES] = {{0}};
    struct td_callable_opts opts = {.name = "test",
                                    .feeds = feeds,
                                    .n_feeds = g->n_feeds,
                                    .fetches = fetches,
                                    .targets = &n,
                                    .n_targets = 1,
                                    .once = true};
    for (int i = 0; i < g->n_feeds; i++) {
        feeds[i] = (struct td_value){g->holder[i], 0};
    }
    for (int i = 0; i < n->n_out && opts.n_fetches < FETCHES; i++) {
        if (n->out_type[i] != TD_RESOURCE && !n->out_ref[i]) {
            fetches[opts.n_fetches++] = (struct td_value){n, i};
        }
    }
    struct td_callable *f;
    TD_TRY(td_callable_new(m, &opts, &f, err));
    struct td_run_opts run = {.deadline_ns = now_ns() + (g->deadline_ms ? g->deadline_ms : 2000) * 1000000,
                              .eager = g->eager};
    enum td_code rc = td_callable_run(f, g->feed, out, &run, err);
    for (int i = 0; i < opts.n_fetches; i++) {
        td_tensor_clear(&out[i]);
    }
    td_callable_drop(f);
    return rc;
}

enum td_code op_graph_run(struct op_graph *g, const struct td_op_table *ops, struct td_err *err)
{
    td_buffer_set_limit(td_buffer_live_bytes() + (uint64_t)(g->memory ? g->memory : (int64_t)64 << 20));
    TD_TRY(td_graph_resolve(&g->graph, &g->lib, ops, err));
    struct td_model_opts opts = {.ops = ops, .kernels = g->kernels, .passes_off = g->passes_off};
    struct td_model *m;
    TD_TRY(td_model_new(&opts, g->arena, &g->graph, &g->lib, &m, err));
    g->arena = NULL;
    enum td_code rc = call(g, m, g->graph.nodes[g->graph.n_nodes - 1], err);
    td_model_unref(m);
    return rc;
}
