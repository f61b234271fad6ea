/* kernels/array/array_move_grad.c - what was moved there is moved back: each op's gradient is its inverse.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_move_grad.h"

#include "kernels/formula/formula.h"

void td_reshape_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_reshape_like(g->e, td_grad_at(g, 0), td_grad_in(g, 0)));
}

/* ------------------------------------------------------------------ order of axes and of elements */

/* Of a constant permutation, a constant; its entries may count from the end. */
static struct td_value inverse(struct td_emitter *e, struct td_value perm)
{
    const struct td_tensor *known = td_known_value(perm);
    const int rank = known == NULL || known->shape.rank != 1 ? -1 : (int)known->shape.dim[0];
    int64_t back[TD_MAX_RANK];
    bool constant = rank >= 0 && rank <= TD_MAX_RANK;
    for (int i = 0; constant && i < rank; i++) {
        int axis;
        constant = td_shape_axis(rank, td_tensor_int(known, i), &axis);
        back[constant ? axis : 0] = i;
    }
    if (constant) {
        return td_emit_ints(e, TD_INT32, back, rank);
    }
    const struct td_value n = td_f_cast(e, td_f_size(e, perm), td_dtype_of(perm));
    return td_f_1(e, "InvertPermutation", td_f_2(e, "FloorMod", perm, n));
}

void td_transpose_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_transpose(g->e, td_grad_at(g, 0), inverse(g->e, td_grad_in(g, 1))));
}

void td_conjugate_transpose_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "ConjugateTranspose", td_grad_at(g, 0), inverse(g->e, td_grad_in(g, 1))));
}

/* The op itself on what arrived, with the other inputs and all attributes of the node. */
static struct td_value again(struct td_grad *g, const char *attrs)
{
    return td_f_as(g->e, g->node->op->name, TD_IN(td_grad_at(g, 0), td_grad_in(g, 1)), g->node, attrs);
}

void td_reverse_grad(struct td_grad *g)
{
    td_grad_give(g, 0, again(g, NULL));
}

void td_reverse_sequence_grad(struct td_grad *g)
{
    td_grad_give(g, 0, again(g, "seq_dim,batch_dim"));
}

void td_roll_grad(struct td_grad *g)
{
    const struct td_value back = td_f_neg(g->e, td_grad_in(g, 1));
    td_grad_give(g, 0, td_f_3(g->e, "Roll", td_grad_at(g, 0), back, td_grad_in(g, 2)));
}

/* ------------------------------------------------------------------ blocks */

static void give_blocks(struct td_grad *g, const char *op, int n_in, const char *attrs)
{
    const struct td_value in[] = {td_grad_at(g, 0), n_in > 1 ? td_grad_in(g, 1) : td_no_value,
                                  n_in > 2 ? td_grad_in(g, 2) : td_no_value};
    td_grad_give(g, 0, td_f_as(g->e, op, in, n_in, g->node, attrs));
}

void td_space_to_batch_grad(struct td_grad *g)
{
    give_blocks(g, "BatchToSpace", 2, "block_size");
}

void td_batch_to_space_grad(struct td_grad *g)
{
    give_blocks(g, "SpaceToBatch", 2, "block_size");
}

void td_space_to_batch_nd_grad(struct td_grad *g)
{
    give_blocks(g, "BatchToSpaceND", 3, NULL);
}

void td_batch_to_space_nd_grad(struct td_grad *g)
{
    give_blocks(g, "SpaceToBatchND", 3, NULL);
}

void td_space_to_depth_grad(struct td_grad *g)
{
    give_blocks(g, "DepthToSpace", 1, "block_size,data_format");
}

void td_depth_to_space_grad(struct td_grad *g)
{
    give_blocks(g, "SpaceToDepth", 1, "block_size,data_format");
}
