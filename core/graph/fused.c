/* core/graph/fused.c - shapes of a fused node: those of its parts, one after the other.
 *
 * Each part's own shape function is asked, with the shapes of the node's inputs and of the parts before it
 * put in the places of the part's inputs; values are known of the node's inputs alone. Parts and inputs are
 * few (TD_FUSED_PARTS, TD_FUSED_INPUTS), so all of it lies on the stack.
 *
 * Does not: fuse (core/compile/pass_fuse.c) or run (kernels/fused/fused_kernel.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/fused.h"

enum td_code td_fused_shapes(const struct td_node *n, const struct td_shape *in,
                             const struct td_tensor *const *value, struct td_shape *shapes,
                             struct td_err *err)
{
    const struct td_fused *f = n->fused;
    for (int k = 0; k < f->n_parts; k++) {
        const struct td_part *p = &f->parts[k];
        struct td_shape part_in[TD_FUSED_INPUTS], out[6];
        const struct td_tensor *part_value[TD_FUSED_INPUTS];
        for (int i = 0; i < p->node->n_in; i++) {
            bool inner = p->from[i] >= n->n_in;
            part_in[i] = inner ? shapes[p->from[i] - n->n_in] : in[p->from[i]];
            part_value[i] = inner ? NULL : value[p->from[i]];
        }
        for (int i = 0; i < p->node->n_out; i++) {
            out[i] = td_shape_unknown();
        }
        struct td_infer c = {p->node, p->node->n_in, p->node->n_out, part_in, part_value, out};
        TD_TRY(p->node->op->infer(&c, err));
        shapes[k] = out[0];
    }
    return TD_OK;
}

enum td_code td_fused_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape shapes[TD_FUSED_PARTS];
    TD_FAIL_IF(c->node->fused == NULL, err, INVALID_ARGUMENT, "%s: only the compiler makes nodes of this op",
               TD_NODE_STR(c->node));
    TD_TRY(td_fused_shapes(c->node, c->in, c->value, shapes, err));
    c->out[0] = shapes[c->node->fused->n_parts - 1];
    return TD_OK;
}
