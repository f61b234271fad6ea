/* kernels/array/array_broadcast.c - repeating elements: to a shape, or a number of times along every axis.
 *
 *   BroadcastTo(x, shape)   Tile(x, multiples)
 *   BroadcastArgs(s0, s1)            the shape that two shapes (as vectors) broadcast to
 *   BroadcastGradientArgs(s0, s1)    the axes to sum a gradient over on its way back to each of the two
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_repeat_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

/* ------------------------------------------------------------------ BroadcastTo */

static enum td_code broadcast_to_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_shape_value(c, 1, false, &c->out[0], err));
    const struct td_shape *in = &c->in[0], *out = &c->out[0];
    if (in->rank < 0 || out->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(in->rank > out->rank, err, INVALID_ARGUMENT,
               "%s: Rank of input (%d) must be no greater than rank of output shape (%d).",
               TD_NODE_STR(c->node), in->rank, out->rank);
    for (int i = 0; i < in->rank; i++) {
        const int64_t have = in->dim[i], want = out->dim[out->rank - in->rank + i];
        TD_FAIL_IF(have >= 0 && want >= 0 && have != 1 && have != want, err, INVALID_ARGUMENT,
                   "%s: Incompatible shapes: %s vs. %s", TD_NODE_STR(c->node), TD_SHAPE_STR(in),
                   TD_SHAPE_STR(out));
    }
    return TD_OK;
}

static enum td_code broadcast_to_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
    td_strided_row_major(&x->shape, from);
    td_strided_row_major(&y->shape, to);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < y->shape.rank; i++) {
        const int k = i - (y->shape.rank - x->shape.rank);
        td_strided_push(&w, y->shape.dim[i], to[i], k < 0 || x->shape.dim[k] == 1 ? 0 : from[k]);
    }
    td_strided_copy(x->dtype, &w, y->data, x->data);
    return TD_OK;
}

/* ------------------------------------------------------------------ Tile */

static enum td_code tile_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 1, err));
    const int rank = c->in[0].rank;
    const int64_t n = c->in[1].rank == 1 ? c->in[1].dim[0] : -1;
    TD_FAIL_IF(n >= 0 && rank >= 0 && n != rank, err, INVALID_ARGUMENT,
               "%s: Expected multiples argument to be a vector of length %d but got length %lld",
               TD_NODE_STR(c->node), rank, (long long)n);
    if (rank < 0) {
        return TD_OK;
    }
    c->out[0] = td_shape_of_rank(rank);
    for (int i = 0; c->value[1] != NULL && i < rank; i++) {
        const int64_t times = td_tensor_int(c->value[1], i), dim = c->in[0].dim[i];
        TD_FAIL_IF(times < 0, err, INVALID_ARGUMENT, "%s: Expected multiples[%d] >= 0, but got %lld",
                   TD_NODE_STR(c->node), i, (long long)times);
        TD_FAIL_IF(dim >= 0 && !td_i64_mul(dim, times, &c->out[0].dim[i]), err, INVALID_ARGUMENT,
                   "%s: dimension %d of %lld elements times %lld does not fit int64", TD_NODE_STR(c->node), i,
                   (long long)dim, (long long)times);
    }
    return TD_OK;
}

static enum td_code tile_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(td_dtype_in(x->dtype, TD_SET_QUANTIZED) && !td_shape_equal(&x->shape, &y->shape), err,
               UNIMPLEMENTED,
               "%s: TileOp : The input data type is not supported, DataType : %s, Dimension : %d: it cannot "
               "be repeated",
               TD_NODE_STR(c->node), td_dtype_name(x->dtype), x->shape.rank);
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
    td_strided_row_major(&x->shape, from);
    td_strided_row_major(&y->shape, to);
    struct td_strided w = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        td_strided_push(&w, y->shape.dim[i] / x->shape.dim[i], to[i] * x->shape.dim[i], 0);
        td_strided_push(&w, x->shape.dim[i], to[i], from[i]);
    }
    td_strided_copy(x->dtype, &w, y->data, x->data);
    return TD_OK;
}

/* ------------------------------------------------------------------ shapes as vectors */

static enum td_code vectors_infer(struct td_infer *c, struct td_err *err)
{
    for (int i = 0; i < 2; i++) {
        TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank != 1, err, INVALID_ARGUMENT,
                   "%s: In[%d] must be a vector.%s", TD_NODE_STR(c->node), i, TD_SHAPE_STR(&c->in[i]));
    }
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = td_shape_vector(-1);
    }
    return TD_OK;
}

static enum td_code broadcast_args_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(vectors_infer(c, err));
    if (td_shape_known(&c->in[0]) && td_shape_known(&c->in[1])) {
        const int64_t a = c->in[0].dim[0], b = c->in[1].dim[0];
        c->out[0] = td_shape_vector(a > b ? a : b);
    }
    return TD_OK;
}

/* Entry `back` from the end of a shape vector: 1 before its beginning. */
static int64_t dim_from_end(const struct td_tensor *s, int64_t back)
{
    const int64_t n = td_tensor_count(s);
    return back < n ? td_tensor_int(s, n - 1 - back) : 1;
}

static void shape_text(const struct td_tensor *s, char *buf)
{
    struct td_shape t =
        td_shape_of_rank((int)(td_tensor_count(s) < TD_MAX_RANK ? td_tensor_count(s) : TD_MAX_RANK));
    for (int i = 0; i < t.rank; i++) {
        t.dim[i] = td_tensor_int(s, i);
    }
    td_shape_text(&t, buf);
}

static enum td_code incompatible(const struct td_call *c, struct td_err *err)
{
    char a[TD_SHAPE_TEXT], b[TD_SHAPE_TEXT];
    shape_text(c->in[0], a);
    shape_text(c->in[1], b);
    TD_FAIL(err, INVALID_ARGUMENT, "%s: Incompatible shapes: %s vs. %s", TD_NODE_STR(c->node), a, b);
}

static enum td_code broadcast_args_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    for (int64_t k = 0; k < n; k++) {
        const int64_t a = dim_from_end(c->in[0], k), b = dim_from_end(c->in[1], k);
        if (a != b && a != 1 && b != 1) {
            return incompatible(c, err);
        }
        td_tensor_set_int(y, n - 1 - k, a == 1 ? b : a);
    }
    return TD_OK;
}

static bool no_rows(struct td_batchable_step *s)
{
    return td_batchable_no(s, "shapes are no rows");
}

/* Size k from the end of a shape; false: it is not followed. */
static bool size_from_end(const struct td_batchable_step *s, int i, int64_t k, struct td_affine *out)
{
    const int64_t n = s->in_shape[0][i].rank == 1 ? s->in_shape[0][i].dim[0] : -1;
    *out = td_affine_const(1);
    return k >= n ? n >= 0 : td_batchable_size(s, i, n - 1 - k, out);
}

static bool broadcast_sizes(struct td_batchable_step *s)
{
    struct td_affine z[TD_MAX_RANK];
    const struct td_shape *y = td_batchable_out_shape(s, 0, 0);
    const int64_t n = y->rank == 1 ? y->dim[0] : -1;
    for (int64_t k = 0; k < n && n <= TD_MAX_RANK; k++) {
        struct td_affine a, b;
        const bool known = size_from_end(s, 0, k, &a) && size_from_end(s, 1, k, &b);
        const bool told = known && (td_affine_equal(a, b) || td_affine_is(a, 1, 0) || td_affine_is(b, 1, 0));
        z[n - 1 - k] = told ? td_affine_is(a, 1, 0) ? b : a : (struct td_affine){.opaque = true};
    }
    return n >= 0 && n <= TD_MAX_RANK && td_batchable_put_sizes(s, 0, z, n);
}

static bool same_vector(const struct td_tensor *a, const struct td_tensor *b)
{
    const int64_t n = td_tensor_count(a);
    bool same = n == td_tensor_count(b);
    for (int64_t i = 0; same && i < n; i++) {
        same = td_tensor_int(a, i) == td_tensor_int(b, i);
    }
    return same;
}

/* Axis k from the end is summed for side `which` when that side has 1 there and the shapes differ
 * somewhere: an axis that is 1 on both sides is then listed for both, as TensorFlow does. */
static enum td_code gradient_axes(struct td_call *c, int which, int64_t rank, struct td_err *err)
{
    const struct td_tensor *mine = c->in[which], *other = c->in[1 - which];
    const bool same = same_vector(mine, other);
    int64_t n = 0;
    for (int64_t k = 0; !same && k < rank; k++) {
        n += dim_from_end(mine, k) == 1;
    }
    const struct td_shape shape = td_shape_vector(n);
    struct td_tensor *y;
    TD_TRY(td_out(c, which, &shape, &y, err));
    for (int64_t k = 0; !same && k < rank; k++) {
        if (dim_from_end(mine, k) == 1) {
            td_tensor_set_int(y, --n, rank - 1 - k);
        }
    }
    return TD_OK;
}

static enum td_code gradient_args_run(struct td_call *c, struct td_err *err)
{
    const int64_t a = td_tensor_count(c->in[0]), b = td_tensor_count(c->in[1]), rank = a > b ? a : b;
    for (int64_t k = 0; k < rank; k++) {
        const int64_t x = dim_from_end(c->in[0], k), y = dim_from_end(c->in[1], k);
        if (x != y && x != 1 && y != 1) {
            return incompatible(c, err);
        }
    }
    TD_TRY(gradient_axes(c, 0, rank, err));
    return gradient_axes(c, 1, rank, err);
}

const struct td_op td_ops_array_broadcast[] = {
    {.name = "BroadcastTo",
     .sig = "(input:T, shape:Tidx) -> (output:T) {T:type; Tidx:type=int32}",
     .flags = TD_OP_TOTAL,
     .vectorize = td_many_broadcast_to,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_broadcast_to, 0, 1),
     .host_in = 2,
     .infer = broadcast_to_infer,
     .kernels =
         TD_KERNEL("broadcast_to.cpu", broadcast_to_run, {"T", TD_SET_ALL_TYPES}, {"Tidx", TD_SET_INDEX}),
     .grad = td_broadcast_to_grad},
    {.name = "Tile",
     .sig = "(input:T, multiples:Tmultiples) -> (output:T) {T:type; Tmultiples:type=int32}",
     .flags = TD_OP_TOTAL,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_tile, 0, 1),
     .host_in = 2,
     .infer = tile_infer,
     .kernels = TD_KERNEL("tile.cpu", tile_run, {"T", TD_SET_ALL_TYPES | TD_SET_QUANTIZED},
                          {"Tmultiples", TD_SET_INDEX}),
     .grad = td_tile_grad},
    {.name = "BroadcastArgs",
     .sig = "(s0:T, s1:T) -> (r0:T) {T:type=int32}",
     .batchable = TD_BATCHABLE(no_rows, .sizes = broadcast_sizes),
     .host_in = 3,
     .host_out = 1,
     .infer = broadcast_args_infer,
     .kernels = TD_KERNEL("broadcast_args.cpu", broadcast_args_run, {"T", TD_SET_INDEX})},
    {.name = "BroadcastGradientArgs",
     .sig = "(s0:T, s1:T) -> (r0:T, r1:T) {T:type=int32}",
     .host_in = 3,
     .host_out = 3,
     .infer = vectors_infer,
     .kernels = TD_KERNEL("broadcast_gradient_args.cpu", gradient_args_run, {"T", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
