/* kernels/array/array_gather_grad.c - where gathered slices came from, their gradients add up.
 *
 *   _GatherGrad  dy [B.., O.., J.., I..]  indices [B.., J..]  shape, axis  ->  [B.., O.., n, I..]
 *
 * A gather of rows (axis 0) gives them as they are, with their indices: what a table of a million rows gets
 * for a request of ten stays ten rows. _GatherGrad is for all other axes, and makes rows dense
 * (kernels/formula/grad_formulas.c).
 *
 * Gradients of GatherNd and of the scatter ops are each other. What a TensorScatterMax keeps among equals
 * shares its gradient with them, as TensorFlow has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_gather_grad.h"

#include "kernels/array/array_batchable.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/strided.h"
#include "kernels/formula/formula.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ _GatherGrad */

struct layout {
    int axis, batch, n_index; /* of the output; leading axes that indices have, too; J */
};

/* Ranks known. */
static enum td_code layout_of(const struct td_node *node, const struct td_shape *y,
                              const struct td_shape *indices, int64_t axis, struct layout *l,
                              struct td_err *err)
{
    int64_t batch = td_attr_int(node, "batch_dims");
    batch += batch < 0 ? indices->rank : 0;
    TD_FAIL_IF(!td_shape_axis(y->rank, axis, &l->axis) || batch < 0 || batch > indices->rank ||
                   batch > l->axis,
               err, INVALID_ARGUMENT, "%s: axis %lld, batch_dims %lld, shape %s, indices of shape %s",
               TD_NODE_STR(node), (long long)axis, (long long)batch, TD_SHAPE_STR(y), TD_SHAPE_STR(indices));
    l->batch = (int)batch;
    l->n_index = indices->rank - (int)batch;
    return TD_OK;
}

static enum td_code gather_grad_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *dy = &c->in[0], *indices = &c->in[1], *y = &c->out[0];
    struct layout l;
    int64_t axis;
    bool known;
    TD_TRY(td_infer_shape_value(c, 2, false, &c->out[0], err));
    TD_TRY(td_infer_int_value(c, 3, &known, &axis, err));
    if (!known || dy->rank < 0 || indices->rank < 0 || y->rank < 0) {
        return TD_OK;
    }
    TD_TRY(layout_of(c->node, y, indices, axis, &l, err));
    bool fits = dy->rank == y->rank - 1 + l.n_index;
    for (int i = 0; fits && i < dy->rank; i++) {
        const int j = i - l.axis;
        const int64_t want = j < 0           ? y->dim[i]
                             : j < l.n_index ? indices->dim[l.batch + j]
                                             : y->dim[i - l.n_index + 1];
        fits = want < 0 || dy->dim[i] < 0 || want == dy->dim[i];
    }
    for (int i = 0; fits && i < l.batch; i++) {
        fits = y->dim[i] < 0 || indices->dim[i] < 0 || y->dim[i] == indices->dim[i];
    }
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT,
               "%s: a gradient of shape %s was not gathered along axis %d by indices of shape %s from shape "
               "%s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(dy), l.axis, TD_SHAPE_STR(indices), TD_SHAPE_STR(y));
    return TD_OK;
}

/* Slices of one batch entry: rows of `inner` elements of src, the next n for each of `outer`, to those
 * rows of dst that entries [first, +n) of the indices name. */
struct walk {
    int64_t first, n, outer, inner, dim;
    const char *src;
    char *dst;
};

static enum td_code add_slices(struct td_call *c, const struct walk *w, struct td_err *err)
{
    const struct td_tensor *indices = c->in[1];
    const enum td_dtype dtype = c->in[0]->dtype;
    const int64_t size = w->inner * (int64_t)td_dtype_size(dtype);
    for (int64_t j = 0; j < w->n; j++) {
        const int64_t at = td_tensor_int(indices, w->first + j);
        TD_FAIL_IF(at < 0 || at >= w->dim, err, INVALID_ARGUMENT, "%s: index %lld is not in [0, %lld)",
                   TD_NODE_STR(c->node), (long long)at, (long long)w->dim);
        for (int64_t o = 0; o < w->outer; o++) {
            td_combine_run(TD_COMBINE_ADD, dtype, w->dst + (o * w->dim + at) * size,
                           w->src + (o * w->n + j) * size, w->inner, 1);
        }
    }
    return TD_OK;
}

static enum td_code gather_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct layout l;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_shape *s = &y->shape, *is = &c->in[1]->shape;
    TD_TRY(layout_of(c->node, s, is, td_tensor_int(c->in[3], 0), &l, err));
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    if (td_tensor_count(y) == 0 || td_tensor_count(c->in[0]) == 0) {
        return TD_OK; /* as of the gather, indices of nothing may be anything */
    }
    struct walk w = {.n = td_shape_range(is, l.batch, is->rank),
                     .outer = td_shape_range(s, l.batch, l.axis),
                     .inner = td_shape_range(s, l.axis + 1, s->rank),
                     .dim = s->dim[l.axis],
                     .src = c->in[0]->data,
                     .dst = y->data};
    const int64_t size = w.outer * w.inner * (int64_t)td_dtype_size(y->dtype);
    for (int64_t b = 0; b < td_shape_range(s, 0, l.batch); b++) {
        TD_TRY(add_slices(c, &w, err));
        w.first += w.n;
        w.src += w.n * size;
        w.dst += w.dim * size;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

static void gather_grad_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "GatherV2", TD_IN(td_grad_at(g, 0), td_grad_in(g, 1), td_grad_in(g, 3)),
                         g->node, "batch_dims"));
}

const struct td_op td_ops_array_gather_grad[] = {
    {.name = "_GatherGrad",
     .sig = "(dy:T, indices:Tindices, shape:Tshape, axis:Taxis) -> (output:T) {batch_dims:int=0; T:type; "
            "Tindices:type; Tshape:type=int32; Taxis:type=int32}",
     .vectorize = td_many_gather_grad,
     .host_in = 12,
     .batchable = TD_BATCHABLE(td_batchable_gather_grad),
     .infer = gather_grad_infer,
     .kernels = TD_KERNEL("gather_grad.cpu", gather_grad_run, {"T", TD_SET_NUMBERS},
                          {"Tindices", TD_SET_INDEX | TD_BIT(TD_INT16)}, {"Tshape", TD_SET_INDEX},
                          {"Taxis", TD_SET_INDEX}),
     .grad = gather_grad_grad},
    {.name = NULL},
};

/* ------------------------------------------------------------------ Gather */

/* Rows of input 0, of that shape, as they arrived. */
static void give_rows(struct td_grad *g, struct td_value indices, struct td_value shape)
{
    struct td_emitter *e = g->e;
    const struct td_value n = td_f_reshape(e, td_f_size(e, indices), td_f_ints(e, 1));
    const struct td_value row = td_f_part(e, shape, 1, -1);
    const struct td_value values = td_f_reshape(e, td_grad_at(g, 0), td_f_concat(e, TD_IN(n, row), 0));
    td_grad_give_slices(g, 0,
                        (struct td_slices){.values = values,
                                           .indices = td_f_reshape(e, indices, td_f_ints(e, -1)),
                                           .shape = shape});
}

static void give_dense(struct td_grad *g, struct td_value shape, struct td_value axis)
{
    const struct td_value in[] = {td_grad_at(g, 0), td_grad_in(g, 1), shape, axis};
    td_grad_give(g, 0, td_f_as(g->e, "_GatherGrad", in, 4, g->node, "batch_dims"));
}

void td_gather_grad(struct td_grad *g)
{
    const struct td_value shape = td_f_shape(g->e, td_grad_in(g, 0));
    const struct td_value axis = g->node->n_in == 3 ? td_grad_in(g, 2) : td_f_int(g->e, 0);
    const struct td_tensor *known = td_known_value(axis);
    const bool rows = known != NULL && td_tensor_count(known) == 1 && td_tensor_int(known, 0) == 0 &&
                      td_attr_int(g->node, "batch_dims") == 0;
    if (rows) {
        give_rows(g, td_grad_in(g, 1), shape);
    } else {
        give_dense(g, shape, axis);
    }
}

void td_resource_gather_grad(struct td_grad *g)
{
    const struct td_value shape = td_f_1(g->e, "VariableShape", td_grad_in(g, 0));
    const int64_t batch = td_attr_int(g->node, "batch_dims");
    if (batch == 0) {
        give_rows(g, td_grad_in(g, 1), shape);
    } else {
        give_dense(g, shape, td_f_int(g->e, batch));
    }
}

/* ------------------------------------------------------------------ GatherNd */

/* dy added up at the tuples, in zeros of that shape. A single tuple becomes a list of one. */
static struct td_value scattered(struct td_grad *g, struct td_value dy, struct td_value shape)
{
    struct td_emitter *e = g->e;
    const struct td_value given = td_grad_in(g, 1);
    const struct td_shape *known = td_emit_shape(e, given);
    struct td_value indices = td_f_cast(e, given, td_dtype_of(shape));
    if (known == NULL || known->rank < 2) {
        indices = td_f_expand(e, indices, 0);
        dy = td_f_expand(e, dy, 0);
    }
    return td_f_as(e, "ScatterNd", TD_IN(indices, dy, shape), g->node, "bad_indices_policy");
}

void td_gather_nd_grad(struct td_grad *g)
{
    const struct td_value shape = td_f_shape_as(g->e, td_grad_in(g, 0), td_dtype_of(td_grad_in(g, 1)));
    td_grad_give(g, 0, scattered(g, td_grad_at(g, 0), shape));
}

void td_resource_gather_nd_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value handle = td_grad_in(g, 0), indices = td_grad_in(g, 1);
    const struct td_shape *known = td_emit_shape(e, indices);
    if (known != NULL && known->rank >= 1 && known->dim[known->rank - 1] == 1) {
        give_rows(g, indices, td_f_1(e, "VariableShape", handle));
        return;
    }
    const struct td_value shape = td_emit(e, "VariableShape", TD_IN(handle),
                                          TD_ATTRS(TD_ATTR_OF_TYPE("out_type", td_dtype_of(indices))));
    td_grad_give(g, 0, scattered(g, td_grad_at(g, 0), shape));
}

/* ------------------------------------------------------------------ scatter */

static struct td_value gathered(struct td_grad *g, struct td_value from, struct td_value indices)
{
    return td_f_as(g->e, "GatherNd", TD_IN(from, indices), g->node, "bad_indices_policy");
}

void td_scatter_nd_grad(struct td_grad *g)
{
    td_grad_give(g, 1, gathered(g, td_grad_at(g, 0), td_grad_in(g, 0)));
}

void td_tensor_scatter_update_grad(struct td_grad *g)
{
    const struct td_value dy = td_grad_at(g, 0), indices = td_grad_in(g, 1);
    if (td_grad_wants(g, 0)) {
        const struct td_value none = td_f_zeros_like(g->e, td_grad_in(g, 2));
        td_grad_give(
            g, 0,
            td_f_as(g->e, "TensorScatterUpdate", TD_IN(dy, indices, none), g->node, "bad_indices_policy"));
    }
    td_grad_give(g, 2, gathered(g, dy, indices));
}

void td_tensor_scatter_add_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_grad_at(g, 0));
    td_grad_give(g, 2, gathered(g, td_grad_at(g, 0), td_grad_in(g, 1)));
}

void td_tensor_scatter_sub_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_grad_at(g, 0));
    td_grad_give(g, 2, td_f_neg(g->e, gathered(g, td_grad_at(g, 0), td_grad_in(g, 1))));
}

/* 1 where x has what the output has. */
static struct td_value has(struct td_grad *g, struct td_value x, struct td_value out)
{
    return td_f_cast(g->e, td_f_2(g->e, "Equal", x, out), td_dtype_of(x));
}

void td_tensor_scatter_most_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0), indices = td_grad_in(g, 1), y = td_grad_in(g, 2);
    const struct td_value out = td_grad_out(g, 0), dy = td_grad_at(g, 0);
    const struct td_value x_has = has(g, x, out), y_has = has(g, y, gathered(g, out, indices));
    const struct td_value shape = td_f_shape_as(e, x, td_dtype_of(indices));
    const struct td_value share = td_f_div(e, dy, td_f_add(e, x_has, scattered(g, y_has, shape)));
    td_grad_give(g, 0, td_f_mul(e, share, x_has));
    td_grad_give(g, 2, td_f_mul(e, gathered(g, share, indices), y_has));
}
