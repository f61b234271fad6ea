/* kernels/array/array_gather.c - picking slices by index.
 *
 *   GatherV2    params [B.., O.., n, I..]  indices [B.., J..]  ->  [B.., O.., J.., I..]  (axis, batch_dims)
 *   Gather      axis 0, no batch dims;  ResourceGather the same of a variable, with batch dims
 *   GatherNd    params [D1..Dk, I..]  indices [J.., k]         ->  [J.., I..]
 *   OneHot      indices [O.., I..]                             ->  [O.., depth, I..]
 *
 * Indices are checked before anything is copied, so that a wrong one leaves no half-written answer behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/run/variable.h"
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_gather_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/array/nd_index.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

/* ------------------------------------------------------------------ shapes of Gather */

/* axis and batch_dims as asked for; checked against both shapes and made non-negative by gather_shape. */
struct gather {
    int64_t axis, batch_dims;
};

static enum td_code gather_check(const struct td_node *node, const struct td_shape *params,
                                 const struct td_shape *indices, struct gather *g, struct td_err *err)
{
    TD_FAIL_IF(params->rank == 0, err, INVALID_ARGUMENT, "%s: params must be at least 1 dimensional",
               TD_NODE_STR(node));
    int axis;
    TD_FAIL_IF(!td_shape_axis(params->rank, g->axis, &axis), err, INVALID_ARGUMENT,
               "%s: expected axis in the range [%d, %d), but got %lld", TD_NODE_STR(node), -params->rank,
               params->rank, (long long)g->axis);
    const int64_t batch = g->batch_dims < 0 ? g->batch_dims + indices->rank : g->batch_dims;
    TD_FAIL_IF(batch < 0 || batch > indices->rank, err, INVALID_ARGUMENT,
               "%s: Expected batch_dims in the range [%d, %d], but got %lld", TD_NODE_STR(node),
               -indices->rank, indices->rank, (long long)g->batch_dims);
    TD_FAIL_IF(batch >= params->rank, err, INVALID_ARGUMENT,
               "%s: batch_dims (%lld) must be less than rank(params) (%d)", TD_NODE_STR(node),
               (long long)batch, params->rank);
    TD_FAIL_IF(axis < batch, err, INVALID_ARGUMENT,
               "%s: batch_dims (%lld) must be less than or equal to axis (%d)", TD_NODE_STR(node),
               (long long)batch, axis);
    for (int i = 0; i < batch; i++) {
        const int64_t a = params->dim[i], b = indices->dim[i];
        TD_FAIL_IF(a >= 0 && b >= 0 && a != b, err, INVALID_ARGUMENT,
                   "%s: params.shape[%d]: %lld should be equal to indices.shape[%d]: %lld", TD_NODE_STR(node),
                   i, (long long)a, i, (long long)b);
    }
    *g = (struct gather){.axis = axis, .batch_dims = batch};
    return TD_OK;
}

/* Both ranks known. */
static enum td_code gather_shape(const struct td_node *node, const struct td_shape *params,
                                 const struct td_shape *indices, struct gather *g, struct td_shape *out,
                                 struct td_err *err)
{
    TD_TRY(gather_check(node, params, indices, g, err));
    const int batch = (int)g->batch_dims, axis = (int)g->axis;
    const int rank = params->rank - 1 + indices->rank - batch;
    TD_FAIL_IF(rank > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: result rank %d, the largest rank is %d",
               TD_NODE_STR(node), rank, TD_MAX_RANK);
    out->rank = 0;
    for (int i = 0; i < axis; i++) {
        const bool from_indices = i < batch && params->dim[i] < 0;
        out->dim[out->rank++] = from_indices ? indices->dim[i] : params->dim[i];
    }
    for (int i = batch; i < indices->rank; i++) {
        out->dim[out->rank++] = indices->dim[i];
    }
    for (int i = axis + 1; i < params->rank; i++) {
        out->dim[out->rank++] = params->dim[i];
    }
    return TD_OK;
}

static enum td_code gather_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    if (c->in[0].rank < 0 || c->in[1].rank < 0) {
        return TD_OK;
    }
    struct gather g = {0, 0};
    return gather_shape(c->node, &c->in[0], &c->in[1], &g, &c->out[0], err);
}

static enum td_code gather_v2_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    struct gather g = {.batch_dims = td_attr_int(c->node, "batch_dims")};
    bool known;
    TD_TRY(td_infer_int_value(c, 2, &known, &g.axis, err));
    if (!known || c->in[0].rank < 0 || c->in[1].rank < 0) {
        return TD_OK;
    }
    return gather_shape(c->node, &c->in[0], &c->in[1], &g, &c->out[0], err);
}

/* ------------------------------------------------------------------ the copy of Gather */

static enum td_code checked_indices(struct td_call *c, const struct td_tensor *indices, int64_t limit,
                                    const int64_t **out, struct td_err *err)
{
    const int64_t n = td_tensor_count(indices);
    void *mem;
    size_t bytes;
    TD_FAIL_IF(!td_size_mul((size_t)n, sizeof(int64_t), &bytes), err, INVALID_ARGUMENT,
               "%s: too many indices", TD_NODE_STR(c->node));
    TD_TRY(td_scratch(c, bytes + sizeof(int64_t), &mem, err));
    int64_t *at = mem;
    for (int64_t i = 0; i < n; i++) {
        at[i] = td_tensor_int(indices, i);
        if (at[i] < 0 || at[i] >= limit) {
            char where[TD_SHAPE_TEXT];
            TD_FAIL(err, INVALID_ARGUMENT, "%s: indices%s = %lld is not in [0, %lld)", TD_NODE_STR(c->node),
                    td_nd_index_position(&indices->shape, i, where), (long long)at[i], (long long)limit);
        }
    }
    *out = at;
    return TD_OK;
}

#define PICK(size, T)                                                                                        \
    case size:                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            ((T *)dst)[i] = ((const T *)src)[at[i]];                                                         \
        }                                                                                                    \
        break;

/* n slices of `inner` elements. */
static void pick(enum td_dtype dtype, void *dst, const void *src, const int64_t *at, int64_t n, int64_t inner)
{
    const int64_t size = (int64_t)td_dtype_size(dtype);
    if (inner == 1 && !td_dtype_is_object(dtype) && size <= 8) {
        switch (size) {
            PICK(1, uint8_t)
            PICK(2, uint16_t)
            PICK(4, uint32_t)
            PICK(8, uint64_t)
        default:
            break;
        }
        return;
    }
    for (int64_t i = 0; i < n && !td_work_spent(inner + 4); i++) {
        td_elems_copy(dtype, (char *)dst + i * inner * size, (const char *)src + at[i] * inner * size, inner);
    }
}

static enum td_code gather_slices(struct td_call *c, const struct td_tensor *params,
                                  const struct td_tensor *indices, const struct gather *g,
                                  struct td_tensor *y, struct td_err *err)
{
    const struct td_shape *p = &params->shape;
    const int axis = (int)g->axis, batch = (int)g->batch_dims;
    if (td_tensor_count(y) == 0) {
        return TD_OK; /* as in TensorFlow, indices of nothing may be anything */
    }
    const int64_t *at;
    TD_TRY(checked_indices(c, indices, p->dim[axis], &at, err));
    const int64_t batches = td_shape_range(p, 0, batch), outer = td_shape_range(p, batch, axis);
    const int64_t inner = td_shape_range(p, axis + 1, p->rank);
    const int64_t n = td_shape_range(&indices->shape, batch, indices->shape.rank);
    const int64_t size = (int64_t)td_dtype_size(params->dtype);
    char *dst = y->data;
    const char *src = params->data;
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t o = 0; o < outer; o++) {
            pick(params->dtype, dst, src, at + b * n, n, inner);
            dst += n * inner * size;
            src += p->dim[axis] * inner * size;
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

static enum td_code gather_with(struct td_call *c, struct gather g, struct td_err *err)
{
    struct td_shape shape;
    struct td_tensor *y;
    TD_TRY(gather_shape(c->node, &c->in[0]->shape, &c->in[1]->shape, &g, &shape, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return gather_slices(c, c->in[0], c->in[1], &g, y, err);
}

static enum td_code gather_run(struct td_call *c, struct td_err *err)
{
    return gather_with(c, (struct gather){0, 0}, err);
}

static enum td_code gather_v2_run(struct td_call *c, struct td_err *err)
{
    return gather_with(
        c,
        (struct gather){.axis = td_tensor_int(c->in[2], 0), .batch_dims = td_attr_int(c->node, "batch_dims")},
        err);
}

/* The variable behind input 0 as it is now; *params is the caller's. */
static enum td_code read_params(struct td_call *c, struct td_tensor *params, struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(td_in_made_variable(c, 0, &v, err));
    TD_TRY(td_variable_read(v, params, err));
    const enum td_dtype want = td_attr_type(c->node, "dtype");
    if (params->dtype != want) {
        const enum td_dtype have = params->dtype;
        td_tensor_clear(params);
        TD_FAIL(err, INVALID_ARGUMENT, "%s: the variable's dtype is %s, the node's %s", TD_NODE_STR(c->node),
                td_dtype_name(have), td_dtype_name(want));
    }
    return TD_OK;
}

/* Declared shape of the variable when its handle is known; else unknown. */
static struct td_shape variable_shape(const struct td_infer *c)
{
    const struct td_tensor *handle = c->value[0];
    bool known = handle != NULL && handle->dtype == TD_RESOURCE && td_tensor_count(handle) == 1;
    const struct td_obj *o = known ? td_tensor_obj(handle, 0) : NULL;
    return o != NULL && o->type == &td_variable_type ? ((const struct td_variable *)o)->shape
                                                     : td_shape_unknown();
}

static enum td_code resource_gather_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape params = variable_shape(c);
    struct gather g = {.batch_dims = td_attr_int(c->node, "batch_dims")};
    g.axis = g.batch_dims;
    if (g.batch_dims < 0 || params.rank <= g.axis || c->in[1].rank < 0) {
        return TD_OK; /* unknown, or refused when it runs */
    }
    return gather_shape(c->node, &params, &c->in[1], &g, &c->out[0], err);
}

static enum td_code resource_gather_params(struct td_call *c, const struct td_tensor *params,
                                           struct td_err *err)
{
    struct gather g = {.batch_dims = td_attr_int(c->node, "batch_dims")};
    struct td_shape shape;
    struct td_tensor *y;
    TD_FAIL_IF(g.batch_dims < 0, err, INVALID_ARGUMENT, "%s: batch_dims is negative (%lld)",
               TD_NODE_STR(c->node), (long long)g.batch_dims);
    g.axis = g.batch_dims;
    TD_FAIL_IF(params->shape.rank <= g.axis, err, INVALID_ARGUMENT,
               "%s: params must be at least %lld dimensional, got shape %s", TD_NODE_STR(c->node),
               (long long)g.axis + 1, TD_SHAPE_STR(&params->shape));
    TD_TRY(gather_shape(c->node, &params->shape, &c->in[1]->shape, &g, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    if (td_tensor_count(y) == 0) { /* as in TensorFlow, here they are judged all the same */
        const int64_t *ignored;
        return checked_indices(c, c->in[1], params->shape.dim[g.axis], &ignored, err);
    }
    return gather_slices(c, params, c->in[1], &g, y, err);
}

static enum td_code resource_gather_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor params;
    TD_TRY(read_params(c, &params, err));
    const enum td_code rc = resource_gather_params(c, &params, err);
    td_tensor_clear(&params);
    return rc;
}

/* ------------------------------------------------------------------ GatherNd */

static enum td_code gather_nd_shape(const struct td_node *node, const struct td_shape *params,
                                    const struct td_shape *indices, struct td_shape *out, struct td_err *err)
{
    TD_FAIL_IF(params->rank == 0, err, INVALID_ARGUMENT, "%s: params must be at least a vector",
               TD_NODE_STR(node));
    TD_FAIL_IF(indices->rank == 0, err, INVALID_ARGUMENT, "%s: indices must be at least a vector",
               TD_NODE_STR(node));
    *out = td_shape_unknown();
    if (params->rank < 0 || indices->rank < 0 || indices->dim[indices->rank - 1] < 0) {
        return TD_OK;
    }
    const int64_t depth = indices->dim[indices->rank - 1];
    TD_FAIL_IF(depth > params->rank, err, INVALID_ARGUMENT,
               "%s: index innermost dimension length must be <= params rank; saw: %lld vs. %d",
               TD_NODE_STR(node), (long long)depth, params->rank);
    const int rank = indices->rank - 1 + params->rank - (int)depth;
    TD_FAIL_IF(rank > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: result rank %d, the largest rank is %d",
               TD_NODE_STR(node), rank, TD_MAX_RANK);
    *out = td_shape_of_rank(rank);
    for (int i = 0; i < rank; i++) {
        const int k = i - (indices->rank - 1);
        out->dim[i] = k < 0 ? indices->dim[i] : params->dim[k + depth];
    }
    return TD_OK;
}

static enum td_code gather_nd_infer(struct td_infer *c, struct td_err *err)
{
    return gather_nd_shape(c->node, &c->in[0], &c->in[1], &c->out[0], err);
}

/* n elements; the sizes that are common in bytes (0: of objects) without a call. */
static inline void copy_slice(enum td_dtype dtype, char *to, const char *from, int64_t n, int64_t size)
{
    switch (size) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    case 32:
        memcpy(to, from, 32);
        break;
    default:
        td_elems_copy(dtype, to, from, n);
    }
}

static enum td_code gather_nd_slices(struct td_call *c, const struct td_tensor *params, bool ignore,
                                     struct td_tensor *y, struct td_err *err)
{
    const struct td_tensor *indices = c->in[1];
    const struct td_shape *is = &indices->shape, *ps = &params->shape;
    const int64_t depth = is->dim[is->rank - 1], rows = td_shape_range(is, 0, is->rank - 1);
    const int64_t inner = td_shape_range(ps, (int)depth, ps->rank);
    const int64_t size = inner * (int64_t)td_dtype_size(params->dtype);
    TD_FAIL_IF(rows > 0 && td_tensor_count(params) == 0, err, INVALID_ARGUMENT,
               "%s: Requested more than 0 entries, but params is empty.  Params shape: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(ps));
    const bool object = td_dtype_is_object(params->dtype);
    for (int64_t r = 0; r < rows && !td_work_spent(inner + 8); r++) {
        int64_t flat;
        const bool inside = td_nd_index_flat(indices, r, depth, ps, &flat);
        if (!inside && !ignore) {
            return td_nd_index_fail(c->node, indices, r, depth, "param shape", ps, err);
        }
        if (inner == 0) {
            continue;
        }
        if (inside) {
            copy_slice(params->dtype, (char *)y->data + r * size, (const char *)params->data + flat * size,
                       inner, object ? 0 : size);
        } else {
            td_strided_zero(params->dtype, (char *)y->data + r * size, inner);
        }
    }
    return TD_OK;
}

static enum td_code gather_nd_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    bool ignore;
    TD_TRY(td_nd_index_policy(c->node, &ignore, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return gather_nd_slices(c, c->in[0], ignore, y, err);
}

static enum td_code resource_gather_nd_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor params, *y;
    struct td_shape shape;
    TD_TRY(read_params(c, &params, err));
    enum td_code rc = gather_nd_shape(c->node, &params.shape, &c->in[1]->shape, &shape, err);
    if (rc == TD_OK) {
        rc = td_out(c, 0, &shape, &y, err);
    }
    if (rc == TD_OK) {
        rc = gather_nd_slices(c, &params, false, y, err);
    }
    td_tensor_clear(&params);
    return rc;
}

static enum td_code resource_gather_nd_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape params = variable_shape(c);
    if (params.rank < 1 || c->in[1].rank < 1) {
        return TD_OK;
    }
    return gather_nd_shape(c->node, &params, &c->in[1], &c->out[0], err);
}

/* ------------------------------------------------------------------ OneHot */

static enum td_code one_hot_axis(const struct td_node *node, int rank, int *axis, struct td_err *err)
{
    const int64_t asked = td_attr_int(node, "axis");
    TD_FAIL_IF(asked < -1 || asked > rank, err, INVALID_ARGUMENT,
               "%s: Expected axis to be -1 or between [0, %d).  But received: %lld", TD_NODE_STR(node),
               rank + 1, (long long)asked);
    *axis = asked == -1 ? rank : (int)asked;
    return TD_OK;
}

static enum td_code one_hot_infer(struct td_infer *c, struct td_err *err)
{
    static const char *const names[] = {"indices", "depth", "on_value", "off_value"};
    for (int i = 1; i < 4; i++) {
        TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be a scalar, but got: %s",
                   TD_NODE_STR(c->node), names[i], TD_SHAPE_STR(&c->in[i]));
    }
    const int rank = c->in[0].rank;
    int64_t depth = -1;
    if (c->value[1] != NULL) {
        depth = td_tensor_int(c->value[1], 0);
        TD_FAIL_IF(depth < 0, err, INVALID_ARGUMENT, "%s: depth must be non-negative, got: %lld",
                   TD_NODE_STR(c->node), (long long)depth);
    }
    if (rank < 0) {
        return TD_OK;
    }
    int axis;
    TD_TRY(one_hot_axis(c->node, rank, &axis, err));
    TD_FAIL_IF(rank + 1 > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: result rank %d, the largest rank is %d",
               TD_NODE_STR(c->node), rank + 1, TD_MAX_RANK);
    c->out[0] = td_shape_of_rank(rank + 1);
    for (int i = 0; i <= rank; i++) {
        c->out[0].dim[i] = i == axis ? depth : c->in[0].dim[i < axis ? i : i - 1];
    }
    return TD_OK;
}

static enum td_code one_hot_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *indices = c->in[0];
    struct td_tensor *y;
    int axis;
    TD_TRY(one_hot_axis(c->node, indices->shape.rank, &axis, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t count = td_tensor_count(y), depth = y->shape.dim[axis];
    if (count == 0) {
        return TD_OK;
    }
    td_strided_fill(y->dtype, y->data, c->in[3]->data, count);
    const int64_t inner = td_shape_range(&indices->shape, axis, indices->shape.rank),
                  n = td_tensor_count(indices);
    for (int64_t i = 0; i < n && !td_work_spent(4); i++) {
        const int64_t at = td_tensor_int(indices, i);
        if (at >= 0 && at < depth) {
            const int64_t e = (i / inner * depth + at) * inner + i % inner;
            td_elems_copy(y->dtype, (char *)y->data + e * (int64_t)td_dtype_size(y->dtype), c->in[2]->data,
                          1);
        }
    }
    return TD_OK;
}

#define GATHER_INDEX (TD_SET_INDEX | TD_BIT(TD_INT16))

const struct td_op td_ops_array_gather[] = {
    {.name = "Gather",
     .sig =
         "(params:Tparams, indices:Tindices) -> (output:Tparams) {validate_indices:bool=true; Tparams:type; "
         "Tindices:type}",
     .batchable = TD_BATCHABLE_MOVES(td_batchable_gather, 0, 1),
     .infer = gather_infer,
     .kernels = TD_KERNEL("gather.cpu", gather_run, {"Tparams", TD_SET_ALL}, {"Tindices", GATHER_INDEX}),
     .grad = td_gather_grad},
    {.name = "GatherV2",
     .sig = "(params:Tparams, indices:Tindices, axis:Taxis) -> (output:Tparams) {batch_dims:int=0; "
            "Tparams:type; "
            "Tindices:type; Taxis:type}",
     .vectorize = td_many_gather,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_gather, 0, 2),
     .host_in = 4,
     .infer = gather_v2_infer,
     .kernels = TD_KERNEL("gather.cpu", gather_v2_run, {"Tparams", TD_SET_ALL}, {"Tindices", GATHER_INDEX},
                          {"Taxis", TD_SET_INDEX}),
     .grad = td_gather_grad},
    {.name = "ResourceGather",
     .sig = "(resource:resource, indices:Tindices) -> (output:dtype) {batch_dims:int=0; "
            "validate_indices:bool=true; "
            "dtype:type; Tindices:type}",
     .flags = TD_OP_STATEFUL | TD_OP_READS,
     .batchable = TD_BATCHABLE(td_batchable_gather),
     .infer = resource_gather_infer,
     .kernels = TD_KERNEL("resource_gather.cpu", resource_gather_run,
                          {"dtype", TD_SET_ALL_TYPES | TD_SET_Q8_32}, {"Tindices", TD_SET_INDEX}),
     .grad = td_resource_gather_grad},
    {.name = "GatherNd",
     .sig = "(params:Tparams, indices:Tindices) -> (output:Tparams) {Tparams:type; Tindices:type; "
            "bad_indices_policy:string=''}",
     .batchable = TD_BATCHABLE_MOVES(td_batchable_gather_nd, 0, 1),
     .infer = gather_nd_infer,
     .kernels = TD_KERNEL("gather_nd.cpu", gather_nd_run, {"Tparams", TD_SET_ALL_TYPES | TD_SET_Q8_32},
                          {"Tindices", GATHER_INDEX}),
     .grad = td_gather_nd_grad},
    {.name = "ResourceGatherNd",
     .sig = "(resource:resource, indices:Tindices) -> (output:dtype) {dtype:type; Tindices:type}",
     .flags = TD_OP_STATEFUL | TD_OP_READS,
     .batchable = TD_BATCHABLE(td_batchable_gather_nd),
     .infer = resource_gather_nd_infer,
     .kernels = TD_KERNEL("resource_gather_nd.cpu", resource_gather_nd_run, {"dtype", TD_SET_ALL_TYPES},
                          {"Tindices", TD_SET_INDEX}),
     .grad = td_resource_gather_nd_grad},
    {.name = "OneHot",
     .sig = "(indices:TI, depth:int32, on_value:T, off_value:T) -> (output:T) {axis:int=-1; T:type; "
            "TI:type=int64}",
     .batchable = TD_BATCHABLE(td_batchable_one_hot),
     .host_in = 2,
     .infer = one_hot_infer,
     .kernels = TD_KERNEL("one_hot.cpu", one_hot_run, {"T", TD_SET_ALL_TYPES},
                          {"TI", TD_SET_INDEX | TD_BIT(TD_INT8) | TD_BIT(TD_UINT8)}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
