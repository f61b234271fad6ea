/* kernels/array/array_fill.c - tensors made from little: one value, zeros, ones, progressions.
 *
 *   Fill(dims, value)   ZerosLike(x)   OnesLike(x)   Empty(shape)
 *   Range(start, limit, delta)   -> start + i * delta, i < ceil(|limit - start| / |delta|)
 *   LinSpace(start, stop, num)   -> num values, the last exactly stop
 *
 * ZerosLike of a TensorList, an Optional or a ragged tensor is one of zeros. Empty always gives zeros:
 * uninitialised memory of a server is nobody's business.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/mem.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_repeat_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/cpu/combine.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"
#include "kernels/control/optional.h"
#include "kernels/control/ragged_value.h"
#include "kernels/control/tensor_list.h"
#include "kernels/cpu/upcast.h"

/* ------------------------------------------------------------------ Fill, Empty */

static enum td_code fill_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank > 1, err, INVALID_ARGUMENT, "%s: dims must represent a vector, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    const bool scalar = c->in[1].rank == 0 || (c->in[1].rank == 1 && c->in[1].dim[0] == 1);
    TD_FAIL_IF(td_shape_known(&c->in[1]) && !scalar, err, INVALID_ARGUMENT,
               "%s: value must represent a scalar, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    if (c->in[0].rank != 0) {
        return td_infer_shape_value(c, 0, false, &c->out[0], err);
    }
    /* TensorFlow takes a scalar for a vector of one. */
    c->out[0] = td_shape_vector(-1);
    if (c->value[0] != NULL) {
        const int64_t n = td_tensor_int(c->value[0], 0);
        TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT, "%s: Dimension %lld must be >= 0", TD_NODE_STR(c->node),
                   (long long)n);
        c->out[0].dim[0] = n;
    }
    return TD_OK;
}

static enum td_code fill_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    if (n > 0) {
        td_strided_fill(y->dtype, y->data, c->in[1]->data, n);
    }
    return TD_OK;
}

static enum td_code shape_value_infer(struct td_infer *c, struct td_err *err)
{
    return td_infer_shape_value(c, 0, false, &c->out[0], err);
}

static enum td_code zeros_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    return TD_OK;
}

static enum td_code zero_variants(const struct td_node *node, const struct td_tensor *x, struct td_tensor *y,
                                  struct td_err *err);

/* New zeros in the shape of x; lists of lists go as deep as td_tensor_list_nest lets them nest. */
static enum td_code zeros_of(const struct td_node *node, const struct td_tensor *x, struct td_tensor *y,
                             struct td_err *err)
{
    TD_TRY(td_tensor_new(y, x->dtype, &x->shape, err));
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    const enum td_code rc = x->dtype == TD_VARIANT ? zero_variants(node, x, y, err) : TD_OK;
    if (rc) {
        td_tensor_clear(y);
    }
    return rc;
}

/* A list of zeros like that of l; elements never set stay so. */
static enum td_code zero_list(const struct td_node *node, const struct td_tensor_list *l,
                              struct td_tensor_list **out, struct td_err *err)
{
    struct td_tensor_list *zeros;
    TD_TRY(td_tensor_list_new(l->dtype, &l->shape, l->n, &zeros, err));
    zeros->max_n = l->max_n;
    for (int64_t i = 0; i < l->n; i++) {
        struct td_tensor t;
        if (l->items[i].dtype == TD_DTYPE_NONE) {
            continue;
        }
        enum td_code rc = zeros_of(node, &l->items[i], &t, err);
        if (rc == TD_OK) {
            rc = td_tensor_list_set(zeros, i, &t, err);
            td_tensor_clear(&t);
        }
        if (rc) {
            td_obj_unref(&zeros->nest.obj);
            return rc;
        }
    }
    *out = zeros;
    return TD_OK;
}

/* An Optional of zeros like those that o holds. */
static enum td_code zero_optional(const struct td_node *node, const struct td_obj *o, struct td_obj **out,
                                  struct td_err *err)
{
    int n = 0;
    const struct td_tensor *items = td_optional_items(o, &n);
    struct td_tensor *zeros = items == NULL ? NULL : td_calloc((size_t)n + 1, sizeof *zeros);
    if (items != NULL && zeros == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *zeros, "an Optional");
    }
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = zeros_of(node, &items[i], &zeros[i], err);
    }
    rc = rc ? rc : td_optional_make(zeros, n, out, err);
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&zeros[i]);
    }
    td_free(zeros);
    return rc;
}

static enum td_code zero_ragged(const struct td_node *node, const struct td_ragged *r, struct td_obj **out,
                                struct td_err *err)
{
    struct td_tensor values;
    struct td_ragged *zeros;
    TD_TRY(zeros_of(node, &r->values, &values, err));
    TD_TRY(td_ragged_with(r, &values, &zeros, err));
    *out = &zeros->obj;
    return TD_OK;
}

static enum td_code zero_object(const struct td_node *node, const struct td_tensor *x, int64_t i,
                                struct td_obj **out, struct td_err *err)
{
    const struct td_tensor_list *l = td_tensor_list_at(x, i);
    if (l != NULL) {
        struct td_tensor_list *zeros;
        TD_TRY(zero_list(node, l, &zeros, err));
        *out = &zeros->nest.obj;
        return TD_OK;
    }
    const struct td_ragged *r = td_ragged_of(td_tensor_obj(x, i));
    if (r != NULL) {
        return zero_ragged(node, r, out, err);
    }
    TD_FAIL_IF(!td_optional_is(td_tensor_obj(x, i)), err, UNIMPLEMENTED, "%s: no zeros of a %s in a variant",
               TD_NODE_STR(node), td_tensor_obj(x, i)->type->name);
    return zero_optional(node, td_tensor_obj(x, i), out, err);
}

static enum td_code zero_variants(const struct td_node *node, const struct td_tensor *x, struct td_tensor *y,
                                  struct td_err *err)
{
    const int64_t n = td_tensor_count(x);
    for (int64_t i = 0; i < n; i++) {
        struct td_obj *zeros = NULL;
        if (td_tensor_obj(x, i) != NULL) {
            TD_TRY(zero_object(node, x, i, &zeros, err));
            td_tensor_set_obj(y, i, zeros);
        }
    }
    return TD_OK;
}

static enum td_code zeros_like_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    return y->dtype == TD_VARIANT ? zero_variants(c->node, c->in[0], y, err) : TD_OK;
}

static enum td_code ones_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_combine_identity(TD_COMBINE_MUL, y->dtype, y->data, td_tensor_count(y));
    return TD_OK;
}

/* ------------------------------------------------------------------ Range */

/* |limit - start| / |delta| rounded up, in unsigned arithmetic. False when it does not fit int64. */
static bool integer_steps(int64_t start, int64_t limit, int64_t delta, int64_t *n)
{
    const uint64_t span =
        limit > start ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    const uint64_t step = delta > 0 ? (uint64_t)delta : (uint64_t)0 - (uint64_t)delta;
    const uint64_t steps = span / step + (span % step != 0);
    *n = (int64_t)steps;
    return steps <= INT64_MAX;
}

static enum td_code range_size(const struct td_infer *c, int64_t *n, struct td_err *err)
{
    const struct td_tensor *const *v = c->value;
    const enum td_dtype dtype = v[0]->dtype;
    const double start = td_upcast_at(v[0], 0), limit = td_upcast_at(v[1], 0), delta = td_upcast_at(v[2], 0);
    TD_FAIL_IF(delta == 0, err, INVALID_ARGUMENT, "%s: Requires delta != 0: %g", TD_NODE_STR(c->node), delta);
    TD_FAIL_IF(delta > 0 && start > limit, err, INVALID_ARGUMENT,
               "%s: Requires start <= limit when delta > 0: %g/%g", TD_NODE_STR(c->node), start, limit);
    TD_FAIL_IF(delta < 0 && start < limit, err, INVALID_ARGUMENT,
               "%s: Requires start >= limit when delta < 0: %g/%g", TD_NODE_STR(c->node), start, limit);
    bool fits;
    if (td_dtype_in(dtype, TD_SET_INTS)) {
        fits = integer_steps(td_tensor_int(v[0], 0), td_tensor_int(v[1], 0), td_tensor_int(v[2], 0), n);
    } else {
        const double steps = ceil(fabs(td_round_to(dtype, td_round_to(dtype, limit - start) / delta)));
        fits = steps < 9223372036854775808.0; /* also false for NaN */
        *n = fits ? (int64_t)steps : 0;
    }
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "%s: Requires ((limit - start) / delta) <= %lld",
               TD_NODE_STR(c->node), (long long)INT64_MAX);
    return TD_OK;
}

static enum td_code range_infer(struct td_infer *c, struct td_err *err)
{
    static const char *const names[] = {"start", "limit", "delta"};
    bool known = true;
    for (int i = 0; i < 3; i++) {
        const bool one = c->in[i].rank == 0 || (c->in[i].rank == 1 && c->in[i].dim[0] == 1);
        TD_FAIL_IF(td_shape_known(&c->in[i]) && !one, err, INVALID_ARGUMENT,
                   "%s: %s must be a scalar, not shape %s", TD_NODE_STR(c->node), names[i],
                   TD_SHAPE_STR(&c->in[i]));
        known = known && c->value[i] != NULL;
    }
    c->out[0] = td_shape_vector(-1);
    return known ? range_size(c, &c->out[0].dim[0], err) : TD_OK;
}

/* Computed per element, not accumulated, so that the last is as exact as the first. */
#define RANGE(dt, T, expr)                                                                                   \
    static void range_##dt(const struct td_call *c, T *y, int64_t n)                                         \
    {                                                                                                        \
        const T a = *TD_DATA(c->in[0], const T), d = *TD_DATA(c->in[2], const T);                            \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            y[i] = (expr);                                                                                   \
        }                                                                                                    \
    }
#define UP_H td_half_to_float
#define UP_B td_bf16_to_float
RANGE(int32, int32_t, (int32_t)((uint32_t)a + (uint32_t)i * (uint32_t)d))
RANGE(int64, int64_t, (int64_t)((uint64_t)a + (uint64_t)i * (uint64_t)d))
RANGE(float, float, a + (float)i * d)
RANGE(double, double, a + (double)i * d)
RANGE(half, td_half,
      td_float_to_half(UP_H(a) + UP_H(td_float_to_half(UP_H(td_float_to_half((float)i)) * UP_H(d)))))
RANGE(bf16, td_bf16,
      td_float_to_bf16(UP_B(a) + UP_B(td_float_to_bf16(UP_B(td_float_to_bf16((float)i)) * UP_B(d)))))

static enum td_code range_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    switch (y->dtype) {
    case TD_INT32:
        range_int32(c, y->data, n);
        break;
    case TD_INT64:
        range_int64(c, y->data, n);
        break;
    case TD_FLOAT:
        range_float(c, y->data, n);
        break;
    case TD_DOUBLE:
        range_double(c, y->data, n);
        break;
    case TD_HALF:
        range_half(c, y->data, n);
        break;
    default:
        range_bf16(c, y->data, n);
        break;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ LinSpace */

static enum td_code linspace_infer(struct td_infer *c, struct td_err *err)
{
    static const char *const names[] = {"start", "stop", "num"};
    for (int i = 0; i < 3; i++) {
        TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be a scalar, not shape %s",
                   TD_NODE_STR(c->node), names[i], TD_SHAPE_STR(&c->in[i]));
    }
    c->out[0] = td_shape_vector(-1);
    if (c->value[2] != NULL) {
        const int64_t n = td_tensor_int(c->value[2], 0);
        TD_FAIL_IF(n <= 0, err, INVALID_ARGUMENT, "%s: Requires num > 0: %lld", TD_NODE_STR(c->node),
                   (long long)n);
        c->out[0].dim[0] = n;
    }
    return TD_OK;
}

#define LINSPACE(dt, T)                                                                                      \
    static void linspace_##dt(const struct td_call *c, T *y, int64_t n)                                      \
    {                                                                                                        \
        const T start = *TD_DATA(c->in[0], const T), stop = *TD_DATA(c->in[1], const T);                     \
        const T step = n > 1 ? (stop - start) / (T)(n - 1) : 0;                                              \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            y[i] = i == 0 ? start : i == n - 1 ? stop : start + step * (T)i;                                 \
        }                                                                                                    \
    }
LINSPACE(float, float)
LINSPACE(double, double)

static enum td_code linspace_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (y->dtype == TD_FLOAT) {
        linspace_float(c, y->data, td_tensor_count(y));
    } else {
        linspace_double(c, y->data, td_tensor_count(y));
    }
    return TD_OK;
}

const struct td_op td_ops_array_fill[] = {
    {.name = "Fill",
     .sig = "(dims:index_type, value:T) -> (output:T) {T:type; index_type:type=int32}",
     .flags = TD_OP_TOTAL,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_fill, 1, 0),
     .host_in = 1,
     .infer = fill_infer,
     .kernels = TD_KERNEL("fill.cpu", fill_run, {"index_type", TD_SET_INDEX}),
     .grad = td_fill_grad},
    {.name = "Empty",
     .sig = "(shape:int32) -> (output:dtype) {dtype:type; init:bool=false}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = shape_value_infer,
     .kernels = TD_KERNEL("empty.cpu", zeros_run, {"dtype", TD_SET_COPYABLE})},
    {.name = "ZerosLike",
     .sig = "(x:T) -> (y:T) {T:type}",
     .flags = TD_OP_TOTAL,
     .permute = &td_permute_like,
     .batchable = TD_BATCHABLE(td_batchable_like, .any_input = true),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("zeros_like.cpu", zeros_like_run, {"T", TD_SET_COPYABLE | TD_BIT(TD_VARIANT)}),
     .grad = td_not_differentiable},
    {.name = "OnesLike",
     .sig = "(x:T) -> (y:T) {T:type}",
     .flags = TD_OP_TOTAL,
     .permute = &td_permute_like,
     .batchable = TD_BATCHABLE(td_batchable_like, .any_input = true),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("ones_like.cpu", ones_run, {"T", TD_SET_NUM_BOOL}),
     .grad = td_not_differentiable},
    {.name = "Range",
     .sig = "(start:Tidx, limit:Tidx, delta:Tidx) -> (output:Tidx) {Tidx:type=int32}",
     .host_in = 7,
     .infer = range_infer,
     .kernels = TD_KERNEL("range.cpu", range_run, {"Tidx", TD_SET_FLOATS | TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "LinSpace",
     .sig = "(start:T, stop:T, num:Tidx) -> (output:T) {T:type; Tidx:type=int32}",
     .host_in = 7,
     .infer = linspace_infer,
     .kernels = TD_KERNEL("linspace.cpu", linspace_run, {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)},
                          {"Tidx", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
