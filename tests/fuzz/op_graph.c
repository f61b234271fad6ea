/* tests/fuzz/op_graph.c - builds small graphs and runs their last node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_graph.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

bool op_graph_open(struct op_graph *g)
{
    memset(g, 0, sizeof *g);
    g->arena = td_arena_new((size_t)64 << 20);
    if (g->arena == NULL) {
        return false;
    }
    td_graph_init(&g->graph, g->arena, "");
    g->lib.arena = g->arena;
    g->into = &g->graph;
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
    name = td_arena_strdup(g->arena, name);
    op = td_arena_strdup(g->arena, op);
    if (name == NULL || op == NULL || td_graph_add(g->into, name, op, "", &n, &err)) {
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

void op_graph_own(struct op_graph *g, struct td_tensor *t)
{
    struct td_err err = {0};
    if (td_tensor_keep(g->arena, t, &err)) {
        return; /* it is empty then */
    }
}

void op_graph_put_last(struct td_graph *graph, struct td_node *n)
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

void op_graph_put(enum td_dtype dtype, void *at, int64_t i, double d)
{
    const float f = (float)d;
    const td_half h = td_float_to_half(f);
    const td_bf16 b = td_float_to_bf16(f);
    const td_c64 c = {f, -f};
    const td_c128 z = {d, -d};
    switch (dtype) {
    case TD_FLOAT:
        memcpy(at, &f, sizeof f);
        break;
    case TD_DOUBLE:
        memcpy(at, &d, sizeof d);
        break;
    case TD_HALF:
        memcpy(at, &h, sizeof h);
        break;
    case TD_BFLOAT16:
        memcpy(at, &b, sizeof b);
        break;
    case TD_COMPLEX64:
        memcpy(at, &c, sizeof c);
        break;
    case TD_COMPLEX128:
        memcpy(at, &z, sizeof z);
        break;
    case TD_BOOL:
        *(td_bool *)at = (td_bool)(i & 1);
        break;
    default:
        memcpy(at, &i, td_dtype_size(dtype)); /* little-endian */
    }
}

const char *op_graph_value(struct op_graph *g, struct td_tensor *t, bool constant)
{
    char name[32];
    snprintf(name, sizeof name, "value%d", g->n_values++);
    if (g->n_feeds == OP_GRAPH_FEEDS || g->into != &g->graph) {
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
    op_graph_own(g, &a->tensor[0]);
    return n->name;
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static enum td_code call(struct op_graph *g, struct td_model *m, struct td_node *n, struct td_err *err)
{
    struct td_value fetches[OP_GRAPH_FETCHES], feeds[OP_GRAPH_FEEDS];
    struct td_tensor out[OP_GRAPH_FETCHES] = {{0}};
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
    for (int i = 0; i < n->n_out && opts.n_fetches < OP_GRAPH_FETCHES; i++) {
        if (n->out_type[i] != TD_RESOURCE && !n->out_ref[i]) {
            fetches[opts.n_fetches++] = (struct td_value){n, i};
        }
    }
    struct td_callable *f;
    TD_TRY(td_callable_new(m, &opts, &f, err));
    struct td_run_opts run = {
        .work.deadline_ns = now_ns() + (g->deadline_ms ? g->deadline_ms : 2000) * 1000000, .eager = g->eager};
    enum td_code rc = td_callable_run(f, g->feed, out, &run, err);
    if (g->kept != NULL && rc == TD_OK) {
        memcpy(g->kept, out, sizeof out);
        memset(out, 0, sizeof out);
        g->n_kept = opts.n_fetches;
    }
    for (int i = 0; i < opts.n_fetches; i++) {
        td_tensor_clear(&out[i]);
    }
    td_callable_drop(f);
    return rc;
}

enum td_code op_graph_run(struct op_graph *g, const struct td_op_table *ops, struct td_err *err)
{
    struct td_node *last = g->graph.nodes[g->graph.n_nodes - 1]; /* resolving may add some */
    td_budget_limit(td_budget_held() + (uint64_t)(g->memory ? g->memory : (int64_t)64 << 20), "the limit");
    TD_TRY(td_graph_resolve(&g->graph, &g->lib, ops, err));
    struct td_model_opts opts = {
        .ops = ops, .kernels = g->kernels, .passes_off = g->passes_off, .device = g->device};
    struct td_model *m;
    TD_TRY(td_model_new(&opts, g->arena, &g->graph, &g->lib, &m, err));
    g->arena = NULL;
    enum td_code rc = call(g, m, last, err);
    td_model_unref(m);
    return rc;
}
