/* kernels/math/math_reduce_grad.c - gradients of y = reduce(x, axes): dy, with 1 at the axes that went, is
 * broadcast over x.
 *
 *   _ReducedShape(shape, axes)    shape, 1 at each axis: what a reduction with keep_dims makes of it
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_reduce_grad.h"

#include "core/batchable/batchable_rule.h"
#include "kernels/formula/formula.h"
#include "kernels/math/reduce_axes.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ gradients */

/* v, of the result's shape, with an axis of 1 in the place of each that went. */
static struct td_value kept_dims(struct td_grad *g, struct td_value v)
{
    if (td_attr_bool(g->node, "keep_dims")) {
        return v;
    }
    const struct td_value shape = td_f_shape(g->e, td_grad_in(g, 0));
    return td_f_reshape(g->e, v, td_f_2(g->e, "_ReducedShape", shape, td_grad_in(g, 1)));
}

static void give_spread(struct td_grad *g, struct td_value v)
{
    td_grad_give(g, 0, td_f_broadcast_like(g->e, v, td_grad_in(g, 0)));
}

void td_sum_grad(struct td_grad *g)
{
    give_spread(g, kept_dims(g, td_grad_at(g, 0)));
}

/* The axes as a vector, none of them negative. */
static struct td_value plain_axes(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value axes = td_f_reshape(e, td_grad_in(g, 1), td_f_ints(e, -1));
    const struct td_value rank = td_f_cast(e, td_f_rank(e, td_grad_in(g, 0)), td_dtype_of(axes));
    return td_f_2(e, "FloorMod", td_f_add(e, axes, rank), rank);
}

static struct td_value all_of(struct td_emitter *e, const char *op, struct td_value vector)
{
    return td_f_2(e, op, vector, td_f_ints(e, 0));
}

/* Of as many elements each mean is. */
void td_mean_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = kept_dims(g, td_grad_at(g, 0));
    const struct td_value dims = td_f_gather(e, td_f_shape(e, td_grad_in(g, 0)), plain_axes(g), 0);
    const struct td_value count = td_f_cast(e, all_of(e, "Prod", dims), td_dtype_of(dy));
    give_spread(g, td_f_div(e, dy, count));
}

/* Elements that are the extreme share dy equally. */
void td_extreme_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0);
    const struct td_value is = td_f_2(e, "Equal", kept_dims(g, td_grad_out(g, 0)), x);
    const struct td_value chosen = td_f_cast(e, is, td_dtype_of(x));
    const struct td_value count = td_f_sum(e, chosen, td_grad_in(g, 1), true);
    td_grad_give(g, 0, td_f_mul(e, chosen, td_f_div(e, kept_dims(g, td_grad_at(g, 0)), count)));
}

void td_norm_grad(struct td_grad *g)
{
    const struct td_value y = kept_dims(g, td_grad_out(g, 0)), dy = kept_dims(g, td_grad_at(g, 0));
    td_grad_give(g, 0, td_f_div(g->e, td_grad_in(g, 0), td_f_div(g->e, y, dy)));
}

/* Product of all elements but the one, along axis 0: of those before it and those behind it. */
static struct td_value product_of_others(struct td_emitter *e, struct td_value x, struct td_value axis)
{
    const struct td_value before =
        td_emit(e, "Cumprod", TD_IN(x, axis), TD_ATTRS(TD_ATTR_OF_BOOL("exclusive", true)));
    const struct td_value behind =
        td_emit(e, "Cumprod", TD_IN(x, axis),
                TD_ATTRS(TD_ATTR_OF_BOOL("exclusive", true), TD_ATTR_OF_BOOL("reverse", true)));
    return td_f_mul(e, td_f_conj(e, before), td_f_conj(e, behind));
}

/* The axes that go are brought to the front, and joined to one. */
static struct td_value product_of_others_along(struct td_grad *g, struct td_value x)
{
    struct td_emitter *e = g->e;
    const struct td_value axes = td_f_cast(e, plain_axes(g), TD_INT32);
    const struct td_value all = td_f_range(e, td_f_int(e, 0), td_f_rank(e, x));
    const struct td_value order = td_f_concat(e, TD_IN(axes, td_f_2(e, "ListDiff", all, axes)), 0);
    const struct td_value front = td_f_transpose(e, x, order);
    const struct td_value count = all_of(e, "Prod", td_f_gather(e, td_f_shape(e, x), axes, 0));
    const struct td_value rest =
        all_of(e, "Prod", td_f_gather(e, td_f_shape(e, x), td_f_2(e, "ListDiff", all, axes), 0));
    const struct td_value sizes = td_emit(e, "Pack", TD_IN(count, rest), TD_ATTRS(TD_ATTR_OF_INT("N", 2)));
    const struct td_value others = product_of_others(e, td_f_reshape(e, front, sizes), td_f_int(e, 0));
    return td_f_transpose(e, td_f_reshape_like(e, others, front), td_f_1(e, "InvertPermutation", order));
}

void td_prod_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0), axes = td_grad_in(g, 1);
    const struct td_tensor *known = td_known_value(axes);
    const bool one = known != NULL && td_tensor_count(known) == 1;
    const struct td_value others =
        one ? product_of_others(e, x, td_f_reshape(e, axes, td_emit_ints(e, TD_INT32, NULL, 0)))
            : product_of_others_along(g, x);
    td_grad_give(g, 0, td_f_mul(e, kept_dims(g, td_grad_at(g, 0)), others));
}

void td_sum_to_grad(struct td_grad *g)
{
    give_spread(g, td_grad_at(g, 0));
}

/* ------------------------------------------------------------------ _ReducedShape */

static enum td_code reduced_shape_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    uint32_t axes;
    TD_TRY(td_reduce_axes(c->node, (int)td_tensor_count(x), c->in[1], &axes, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int i = 0; i < (int)td_tensor_count(x); i++) {
        TD_DATA(y, int32_t)[i] = axes >> i & 1 ? 1 : TD_DATA(x, const int32_t)[i];
    }
    return TD_OK;
}

static bool reduced_sizes(struct td_batchable_step *s)
{
    struct td_affine size[TD_MAX_RANK];
    const struct td_shape *x = &s->in_shape[0][0], *axes = &s->in_shape[0][1];
    const int64_t rank = x->rank == 1 ? x->dim[0] : -1,
                  n_axes = td_shape_known(axes) ? td_shape_count(axes) : -1;
    if (rank < 0 || rank > TD_MAX_RANK || n_axes < 0) {
        return false;
    }
    for (int64_t i = 0; i < rank; i++) {
        size[i].opaque = !td_batchable_size(s, 0, i, &size[i]);
    }
    for (int64_t k = 0; k < n_axes; k++) {
        int64_t v;
        int axis;
        if (!td_batchable_int(s, 1, k, &v) || !td_shape_axis((int)rank, v, &axis)) {
            return false;
        }
        size[axis] = td_affine_const(1);
    }
    return td_batchable_put_sizes(s, 0, size, rank);
}

static bool no_rows(struct td_batchable_step *s)
{
    return td_batchable_no(s, "it makes a shape");
}

const struct td_op td_ops_math_reduce_grad[] = {
    {.name = "_ReducedShape",
     .sig = "(shape:int32, axes:Tidx) -> (reduced:int32) {Tidx:type=int32}",
     .batchable = TD_BATCHABLE(no_rows, .sizes = reduced_sizes),
     .host_in = 3,
     .host_out = 1,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("math_reduce.cpu", reduced_shape_run, {"Tidx", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
