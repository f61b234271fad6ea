/* core/compile/ir.h - the compiler's working graph: one callable's nodes, cut at its feeds, calls inlined.
 *
 * Nodes are copies (struct td_node) in the IR's arena that share attributes with the loaded graph. Passes
 * replace values and drop nodes; a node's id is its place in ir->nodes. Feeds and constants are nodes of two
 * pseudo ops of the engine's own (td_op_feed here, td_op_literal in core/graph/emit.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_IR_H
#define TD_CORE_COMPILE_IR_H

#include "core/graph/emit.h"
#include "core/graph/graph.h"
#include "core/run/model.h"

extern const struct td_op td_op_feed; /* fed from outside: one output */
extern const struct td_op td_op_join; /* nothing in, nothing out: a point that control edges meet at */

struct td_ir_shapes {    /* core/compile/ir_shapes.h */
    struct td_shape *at; /* of all values: that of (n, port) is at[first[n->id] + port] */
    int *first;
    int n_nodes;
};

struct td_ir {
    struct td_arena *arena;
    struct td_node **nodes;
    int n_nodes, cap_nodes;
    struct td_node **feeds; /* n_feeds */
    int n_feeds;
    struct td_value *fetches;
    int n_fetches;
    struct td_node **roots; /* targets and side effects of inlined calls: always run */
    int n_roots, cap_roots;
    int changes;                /* made by passes so far */
    struct td_value **replaced; /* room that each pass's td_remap has in turn */
    int cap_replaced;
    struct td_ir_shapes shapes; /* of the graph with so many changes (td_ir_shapes_now); malloc'ed */
    int shapes_at;
};

enum {
    TD_IR_INLINE = 1,
    TD_IR_SHARE = 2
}; /* calls become their bodies; equal small constants are one node */
/* Copies what the callable needs out of the model's graph; how: TD_IR_ flags. Errors name node and
 * function. */
TD_MUST enum td_code td_ir_build(struct td_ir *ir, struct td_arena *arena, const struct td_graph *graph,
                                 const struct td_library *lib, const struct td_callable_opts *opts,
                                 unsigned how, struct td_err *err);
/* INVALID_ARGUMENT names a node whose input is not of the dtype its op takes. Gives feeds of unknown dtype
 * the one wanted. */
TD_MUST enum td_code td_ir_check_types(struct td_ir *ir, struct td_err *err);
/* A copy of like, or an empty node. What is no copy of a loaded node is made by an emitter. */
TD_MUST enum td_code td_ir_add(struct td_ir *ir, const struct td_node *like, const char *name,
                               struct td_node **out, struct td_err *err);
/* An empty node with the device, function and path of `at` (NULL: none); name lives as long as the IR. */
TD_MUST enum td_code td_ir_add_beside(struct td_ir *ir, const struct td_node *at, const char *name,
                                      struct td_node **out, struct td_err *err);
/* Adds nodes to ir; shapes (NULL: none are known) are those of its values when the pass began. All are
 * borrowed. */
struct td_emitter td_ir_emitter(struct td_ir *ir, const struct td_ir_shapes *shapes,
                                const struct td_op_table *ops, struct td_err *err);
TD_MUST enum td_code td_ir_add_root(struct td_ir *ir, struct td_node *n, struct td_err *err);
/* Reorders nodes so that every edge points forward and drops what no fetch or root needs. INVALID_ARGUMENT on
 * a cycle. */
TD_MUST enum td_code td_ir_sort(struct td_ir *ir, struct td_err *err);
/* The order for running: fetches that can be had early come early, so that what they alone read is freed. */
TD_MUST enum td_code td_ir_schedule(struct td_ir *ir, struct td_err *err);
/* Whether n reads or makes a variable itself, or reads an edge that carries one. */
static inline bool td_ir_any_reference(const struct td_node *n)
{
    bool any = false;
    for (int i = 0; !any && i < n->n_in; i++) {
        any = n->in_ref[i] || n->in[i].node->out_ref[n->in[i].port];
    }
    for (int i = 0; !any && i < n->n_out; i++) {
        any = n->out_ref[i];
    }
    return any;
}
/* Whether control flow of TF1 (Switch, Merge) is in the graph, so that values may be dead. */
bool td_ir_has_switch(const struct td_ir *ir);

#endif
