/* core/graph/fused.h - several nodes as one: what core/compile/pass_fuse.c makes and
 * kernels/fused/fused_kernel.c runs.
 *
 *   part 0           part 1            part 2
 *   Conv2D(x, w) ->  BiasAdd(., b) ->  Relu(.)          node's inputs: x, w, b
 *
 * A fused node has the name, path, function and output of its last part, so that whoever watches sees that
 * value under its own name; the parts are the nodes as they were, in topological order. Part 0 is the head
 * when has_head; its inputs are the fused node's first. Part 1 may then be a view of the head. All others are
 * element-wise.
 *
 * Invariant (td_ir_check): no value of a part but the last is read outside the fused node, fetched, or waited
 * for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_FUSED_H
#define TD_CORE_GRAPH_FUSED_H

#include "core/graph/graph.h"

enum { TD_FUSED_PARTS = 32, TD_FUSED_INPUTS = 64 };

struct td_part {
    const struct td_node *node;
    const struct td_stage *stage; /* NULL: the head, or a view of it */
    const int *from; /* by its input: an input of the fused node, or n_in + the number of an earlier part */
};

struct td_fused {
    struct td_part *parts;
    int n_parts;
    bool has_head, has_view; /* part 0 is a head; part 1 is a view of it */
};

/* How n may follow in a fused node; NULL: it may not. */
static inline const struct td_stage *td_fused_stage_of(const struct td_node *n)
{
    return n->op == NULL ? NULL : n->op->fuse.stage;
}
static inline bool td_fused_may_begin(const struct td_node *n)
{
    return n->op != NULL && n->op->fuse.head;
}

/* Shape function of fused nodes: those of the parts in turn, so that errors name the original node. */
td_infer_fn td_fused_infer;
/* shapes[k] = output shape of part k, when all inputs are known. */
TD_MUST enum td_code td_fused_shapes(const struct td_node *n, const struct td_shape *in,
                                     const struct td_tensor *const *value, struct td_shape *shapes,
                                     struct td_err *err);
#endif
