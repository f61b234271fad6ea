/* tests/fuzz/op_graph.h - small graphs built in memory, for tests that put one op before the engine.
 *
 * Nodes are added one by one; values come as feeds (through a Placeholder) or as constants. The last node is
 * the one under test: its outputs are fetched, resources excepted. Graphs are also written as text, a line a
 * node:
 *
 *     name = Op {attr:kind=value; ...} (input, input, ...)       input: name, name:1, ^name, or  dtype[dims]
 * v v v
 *
 * Attributes are in the signature's own notation (core/graph/op.h), of functions  kind=string, '@name';
 *                                                                                 values
 * repeat until the tensor is full and know \\n and \\xNN. A function is
 *
 *     @name (arg:dtype, ...) -> (result:dtype, ...) = [ nodes ] (node:out:0, ...)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FUZZ_OP_GRAPH_H
#define TD_TESTS_FUZZ_OP_GRAPH_H

#include "core/function/callable.h"

enum { OP_GRAPH_FEEDS = 48, OP_GRAPH_INPUTS = 48, OP_GRAPH_ATTRS = 32, OP_GRAPH_FETCHES = 64 };

struct op_graph {
    struct td_arena *arena;
    struct td_graph graph;
    struct td_library lib;
    struct td_graph *into; /* where nodes are added: graph, or the body of a function */
    struct td_tensor feed[OP_GRAPH_FEEDS];
    struct td_node *holder[OP_GRAPH_FEEDS]; /* the Placeholder of each feed */
    int n_feeds;
    int n_values;        /* nodes made for values, for their names */
    int64_t memory;      /* bytes that a run may hold; 0: 64 MiB */
    int64_t deadline_ms; /* of a run; 0: 2 s */
    const char *passes_off;
    enum td_kernel_choice kernels;
    const struct td_device *device; /* NULL: the host */
    struct td_tensor *kept;         /* OP_GRAPH_FETCHES: takes what comes out; NULL: nobody wants it */
    int n_kept;
    bool eager;
};

/* Returns false without memory. */
bool op_graph_open(struct op_graph *g);
void op_graph_close(struct op_graph *g);

/* Adds a node without inputs and attributes, with room for OP_GRAPH_INPUTS and OP_GRAPH_ATTRS; NULL without
 * memory. */
struct td_node *op_graph_node(struct op_graph *g, const char *name, const char *op);
void op_graph_input(struct op_graph *g, struct td_node *n, const char *text);
/* A zeroed attribute with room for `count` values of kind. */
struct td_attr *op_graph_attr(struct op_graph *g, struct td_node *n, const char *name, enum td_attr_kind kind,
                              bool is_list, int count);
/* Takes *t over as a feed or a constant; the name of the node that holds it. */
const char *op_graph_value(struct op_graph *g, struct td_tensor *t, bool constant);
/* Has *t cleared with the arena. */
void op_graph_own(struct op_graph *g, struct td_tensor *t);
void op_graph_put_last(struct td_graph *graph, struct td_node *n);
/* Writes an element at `at`: i for integers and bools, d for the rest. Not for objects. */
void op_graph_put(enum td_dtype dtype, void *at, int64_t i, double d);

/* Adds the nodes that text describes, values as feeds or constants. INVALID_ARGUMENT names the place. */
enum td_code op_graph_read(struct op_graph *g, const char *text, bool constant, struct td_err *err);

/* Resolves, compiles and runs the last node added; consumes the graph (op_graph_close is still due). */
enum td_code op_graph_run(struct op_graph *g, const struct td_op_table *ops, struct td_err *err);

#endif
