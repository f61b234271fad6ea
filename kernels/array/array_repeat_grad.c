/* kernels/array/array_repeat_grad.c - an element's gradient is the sum over its copies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_repeat_grad.h"

#include "kernels/formula/formula.h"

void td_broadcast_to_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_sum_to(g->e, td_grad_at(g, 0), td_grad_in(g, 0)));
}

void td_fill_grad(struct td_grad *g)
{
    td_grad_give(g, 1, td_f_sum_to(g->e, td_grad_at(g, 0), td_grad_in(g, 1)));
}

/* x [d0, d1..] m times along each axis: what arrived, seen as [m0, d0, m1, d1..], summed over the m. */
static struct td_value sum_by_axis(struct td_emitter *e, struct td_value dy, struct td_value times,
                                   struct td_value shape)
{
    const struct td_value both =
        td_emit(e, "Pack", TD_IN(times, shape), TD_ATTRS(TD_ATTR_OF_INT("N", 2), TD_ATTR_OF_INT("axis", 1)));
    const struct td_value pairs = td_f_reshape(e, both, td_f_ints(e, -1));
    const struct td_value axes = td_f_3(e, "Range", td_f_int(e, 0), td_f_size(e, pairs), td_f_int(e, 2));
    return td_f_reshape(e, td_f_sum(e, td_f_reshape(e, dy, pairs), axes, false), shape);
}

/* Of too many axes for that: the elements' numbers are tiled likewise, and say what to add to which. */
static struct td_value sum_by_number(struct td_emitter *e, struct td_value dy, struct td_value times,
                                     struct td_value x)
{
    const struct td_value all = td_f_ints(e, -1), n = td_f_size(e, x);
    const struct td_value number = td_f_reshape_like(e, td_f_range(e, td_f_int(e, 0), n), x);
    const struct td_value of = td_f_reshape(e, td_f_2(e, "Tile", number, times), all);
    const struct td_value in[] = {td_f_reshape(e, dy, all), of, td_f_reshape(e, n, td_f_ints(e, 1)),
                                  td_f_int(e, 0)};
    return td_f_reshape_like(e, td_emit(e, "_GatherGrad", in, 4, TD_NO_ATTRS), x);
}

void td_tile_grad(struct td_grad *g)
{
    const struct td_value x = td_grad_in(g, 0), times = td_grad_in(g, 1), dy = td_grad_at(g, 0);
    const struct td_tensor *known = td_known_value(times);
    if (known != NULL && td_tensor_count(known) > TD_MAX_RANK / 2) {
        td_grad_give(g, 0, sum_by_number(g->e, dy, times, x));
    } else {
        td_grad_give(g, 0, sum_by_axis(g->e, dy, times, td_f_shape_as(g->e, x, td_dtype_of(times))));
    }
}
