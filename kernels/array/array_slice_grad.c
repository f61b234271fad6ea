/* kernels/array/array_slice_grad.c - zeros around what was cut out, and the middle of what was padded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_slice_grad.h"

#include "kernels/formula/formula.h"

static const char masks[] = "begin_mask,end_mask,ellipsis_mask,new_axis_mask,shrink_axis_mask";

/* ------------------------------------------------------------------ Slice, StridedSlice */

/* What is missing of x's shape goes behind; a size of -1 is told by the output. */
void td_slice_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value begin = td_grad_in(g, 1);
    const enum td_dtype index = td_dtype_of(begin);
    const struct td_value more =
        td_f_sub(e, td_f_shape_as(e, td_grad_in(g, 0), index), td_f_shape_as(e, td_grad_out(g, 0), index));
    const struct td_value paddings = td_emit(e, "Pack", TD_IN(begin, td_f_sub(e, more, begin)),
                                             TD_ATTRS(TD_ATTR_OF_INT("N", 2), TD_ATTR_OF_INT("axis", 1)));
    td_grad_give(g, 0, td_f_2(e, "Pad", td_grad_at(g, 0), paddings));
}

/* begin, end and strides, inputs 1 to 3, in a dtype that shapes have. */
static enum td_dtype bounds(struct td_grad *g, struct td_value *begin)
{
    const enum td_dtype index = td_dtype_of(td_grad_in(g, 1)) == TD_INT64 ? TD_INT64 : TD_INT32;
    for (int i = 0; i < 3; i++) {
        begin[i] = td_f_cast(g->e, td_grad_in(g, i + 1), index);
    }
    return index;
}

void td_strided_slice_grad(struct td_grad *g)
{
    struct td_value in[5];
    in[0] = td_f_shape_as(g->e, td_grad_in(g, 0), bounds(g, in + 1));
    in[4] = td_grad_at(g, 0);
    td_grad_give(g, 0, td_f_as(g->e, "StridedSliceGrad", in, 5, g->node, masks));
}

static struct td_value same_slice(struct td_grad *g, struct td_value of)
{
    return td_f_as(g->e, "StridedSlice", TD_IN(of, td_grad_in(g, 1), td_grad_in(g, 2), td_grad_in(g, 3)),
                   g->node, masks);
}

void td_strided_slice_grad_grad(struct td_grad *g)
{
    td_grad_give(g, 4, same_slice(g, td_grad_at(g, 0)));
}

void td_strided_slice_update_grad(struct td_grad *g)
{
    const struct td_value dy = td_grad_at(g, 0), part = same_slice(g, dy), value = td_grad_in(g, 4);
    if (td_grad_wants(g, 0)) {
        const struct td_value in[] = {dy, td_grad_in(g, 1), td_grad_in(g, 2), td_grad_in(g, 3),
                                      td_f_zeros_like(g->e, part)};
        td_grad_give(g, 0, td_f_as(g->e, "TensorStridedSliceUpdate", in, 5, g->node, masks));
    }
    td_grad_give(g, 4, td_f_sum_to(g->e, part, value));
}

/* ------------------------------------------------------------------ Pad, MirrorPad */

/* None by the value that is put around, as TensorFlow has it. */
void td_pad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0), paddings = td_grad_in(g, 1);
    const struct td_value before = td_emit(
        e, "StridedSlice", TD_IN(paddings, td_f_ints(e, 0, 0), td_f_ints(e, 0, 1), td_f_ints(e, 1, 1)),
        TD_ATTRS(TD_ATTR_OF_INT("begin_mask", 1), TD_ATTR_OF_INT("end_mask", 1),
                 TD_ATTR_OF_INT("shrink_axis_mask", 2)));
    td_grad_give(g, 0, td_f_slice(e, td_grad_at(g, 0), before, td_f_shape_as(e, x, td_dtype_of(paddings))));
}

void td_mirror_pad_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "MirrorPadGrad", TD_IN(td_grad_at(g, 0), td_grad_in(g, 1)), g->node, "mode"));
}

void td_mirror_pad_grad_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "MirrorPad", TD_IN(td_grad_at(g, 0), td_grad_in(g, 1)), g->node, "mode"));
}
