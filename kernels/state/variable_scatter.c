/* kernels/state/variable_scatter.c - editing parts of variables in place.
 *
 *   ResourceScatterX    var[indices[i], ...] = var[...] op updates[i, ...]   (or op one scalar)
 *   ResourceScatterNdX  the same with index tuples;   ScatterX, ScatterNdX: by reference, answering with it
 *   ResourceStridedSliceAssign, StridedSliceAssign      var[a:b:c, ...] = value
 *
 * The variable stays locked for the edit and is copied first when a snapshot is out. Shapes and indices
 * are looked at before anything is written, so that a refused edit leaves it as it was.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/variable.h"
#include "kernels/cpu/array_types.h"
#include "kernels/cpu/combine.h"
#include "kernels/array/nd_index.h"
#include "kernels/ops.h"
#include "kernels/array/slice_copy.h"

/* What is done to the locked, writable value. */
typedef enum td_code edit_fn(struct td_call *c, enum td_combine_op op, struct td_tensor *value,
                             struct td_err *err);

/* Runs `edit` on the variable behind input 0; `update` is the input that must have its dtype. */
static enum td_code edit_variable(struct td_call *c, enum td_combine_op op, int update, edit_fn *edit,
                                  struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(td_in_made_variable(c, 0, &v, err));
    TD_TRY(td_variable_edit(v, err));
    const enum td_dtype have = v->value.dtype, want = c->in[update]->dtype;
    enum td_code rc;
    if (have != want) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "%s: the variable's dtype is %s, the update's %s",
                     TD_NODE_STR(c->node), td_dtype_name(have), td_dtype_name(want));
    } else {
        rc = edit(c, op, &v->value, err);
    }
    td_variable_done(v);
    return rc;
}

/* The reference passes on as output 0. */
static enum td_code pass_reference(struct td_call *c, struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(td_keep(c, 0, &t, err));
    td_out_move(c, 0, &t);
    return TD_OK;
}

/* ------------------------------------------------------------------ rows by index */

/* updates is one scalar, or starts with indices' shape and goes on with the variable's rows. */
static enum td_code check_updates(const struct td_call *c, const struct td_shape *var, struct td_err *err)
{
    const struct td_shape *indices = &c->in[1]->shape, *updates = &c->in[2]->shape;
    TD_FAIL_IF(var->rank == 0, err, INVALID_ARGUMENT, "%s: params must be at least 1-D, got shape []",
               TD_NODE_STR(c->node));
    if (updates->rank == 0) {
        return TD_OK;
    }
    struct td_shape rows = *var, want;
    rows.rank--;
    memmove(rows.dim, var->dim + 1, (size_t)rows.rank * sizeof *rows.dim);
    TD_TRY(td_shape_concat(indices, &rows, &want, err));
    TD_FAIL_IF(!td_shape_equal(&want, updates), err, INVALID_ARGUMENT,
               "%s: The shape of indices (%s) must be a prefix of the shape of updates (%s), and the rest "
               "that of the "
               "variable's rows: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(indices), TD_SHAPE_STR(updates), TD_SHAPE_STR(var));
    return TD_OK;
}

static enum td_code check_indices(const struct td_call *c, int64_t limit, struct td_err *err)
{
    const struct td_tensor *indices = c->in[1];
    const int64_t n = td_tensor_count(indices);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = td_tensor_int(indices, i);
        char where[TD_SHAPE_TEXT];
        TD_FAIL_IF(at < 0 || at >= limit, err, INVALID_ARGUMENT, "%s: indices%s = %lld is not in [0, %lld)",
                   TD_NODE_STR(c->node), td_nd_index_position(&indices->shape, i, where), (long long)at,
                   (long long)limit);
    }
    return TD_OK;
}

static enum td_code scatter_rows(struct td_call *c, enum td_combine_op op, struct td_tensor *value,
                                 struct td_err *err)
{
    const struct td_tensor *indices = c->in[1], *updates = c->in[2];
    const int64_t n = td_tensor_count(indices);
    TD_TRY(check_updates(c, &value->shape, err));
    TD_TRY(check_indices(c, value->shape.dim[0], err));
    TD_FAIL_IF(op == TD_COMBINE_DIV &&
                   td_combine_has_zero(updates->dtype, updates->data, td_tensor_count(updates)),
               err, INVALID_ARGUMENT, "%s: updates must not contain 0", TD_NODE_STR(c->node));
    const int64_t inner = td_shape_range(&value->shape, 1, value->shape.rank);
    const int64_t size = inner * (int64_t)td_dtype_size(value->dtype);
    const bool scalar = updates->shape.rank == 0;
    for (int64_t i = 0; inner > 0 && i < n; i++) {
        td_combine_run(op, value->dtype, (char *)value->data + td_tensor_int(indices, i) * size,
                       (const char *)updates->data + (scalar ? 0 : i * size), inner, scalar ? 0 : 1);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ slices by index tuple */

static enum td_code scatter_tuples(struct td_call *c, enum td_combine_op op, struct td_tensor *value,
                                   struct td_err *err)
{
    TD_TRY(td_nd_scatter_check(c->node, &value->shape, &c->in[1]->shape, &c->in[2]->shape, err));
    return td_nd_scatter(c->node, op, value, c->in[1], c->in[2], err);
}

/* ------------------------------------------------------------------ strided slices */

static enum td_code assign_slice(struct td_call *c, enum td_combine_op op, struct td_tensor *value,
                                 struct td_err *err)
{
    (void)op;
    const struct td_shape *const vectors[3] = {&c->in[1]->shape, &c->in[2]->shape, &c->in[3]->shape};
    int64_t n;
    struct td_slice_spec s;
    TD_TRY(td_slice_spec_lengths(c->node, vectors, &n, err));
    const struct td_slice_bounds b = {n, c->in[1], c->in[2], c->in[3]};
    TD_TRY(td_slice_spec_make(c->node, &value->shape, &b, &s, err));
    TD_TRY(td_slice_spec_assignable(c->node, &s, &c->in[4]->shape, err));
    td_slice_spec_put(&s, c->in[4], value);
    return TD_OK;
}

static enum td_code slice_run(struct td_call *c, struct td_err *err)
{
    return edit_variable(c, TD_COMBINE_UPDATE, 4, assign_slice, err);
}

static enum td_code slice_ref_run(struct td_call *c, struct td_err *err)
{
    TD_TRY(slice_run(c, err));
    return pass_reference(c, err);
}

/* ------------------------------------------------------------------ one pair of kernels an operation */

#define SCATTER(name, op, edit)                                                                              \
    static enum td_code name##_run(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return edit_variable(c, op, 2, edit, err);                                                           \
    }                                                                                                        \
    static enum td_code name##_ref_run(struct td_call *c, struct td_err *err)                                \
    {                                                                                                        \
        TD_TRY(name##_run(c, err));                                                                          \
        return pass_reference(c, err);                                                                       \
    }
SCATTER(update, TD_COMBINE_UPDATE, scatter_rows)
SCATTER(add, TD_COMBINE_ADD, scatter_rows)
SCATTER(sub, TD_COMBINE_SUB, scatter_rows)
SCATTER(mul, TD_COMBINE_MUL, scatter_rows)
SCATTER(div, TD_COMBINE_DIV, scatter_rows)
SCATTER(min, TD_COMBINE_MIN, scatter_rows)
SCATTER(max, TD_COMBINE_MAX, scatter_rows)
SCATTER(nd_update, TD_COMBINE_UPDATE, scatter_tuples)
SCATTER(nd_add, TD_COMBINE_ADD, scatter_tuples)
SCATTER(nd_sub, TD_COMBINE_SUB, scatter_tuples)
SCATTER(nd_min, TD_COMBINE_MIN, scatter_tuples)
SCATTER(nd_max, TD_COMBINE_MAX, scatter_tuples)

#define INDICES                                                                                              \
    {                                                                                                        \
        "Tindices", TD_SET_INDEX                                                                             \
    }
#define RESOURCE_ROW(op, fn, set)                                                                            \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(resource:resource, indices:Tindices, updates:dtype) -> () {dtype:type; Tindices:type}",     \
        .flags = TD_OP_STATEFUL, .kernels = TD_KERNEL("resource_scatter.cpu", fn, {"dtype", set}, INDICES)   \
    }
#define RESOURCE_ND_ROW(op, fn, set)                                                                         \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(ref:resource, indices:Tindices, updates:T) -> () {T:type; Tindices:type; "                  \
               "use_locking:bool=true; "                                                                     \
               "bad_indices_policy:string=''}",                                                              \
        .flags = TD_OP_STATEFUL, .kernels = TD_KERNEL("resource_scatter_nd.cpu", fn, {"T", set}, INDICES)    \
    }
#define REF_ROW(op, fn, set, locking, gradient)                                                              \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(ref:Ref(T), indices:Tindices, updates:T) -> (output_ref:Ref(T)) {T:type; Tindices:type; "   \
               "use_locking:bool=" locking "}",                                                              \
        .flags = TD_OP_NO_FOLD | TD_OP_KEEPS, .kernels = TD_KERNEL("scatter.cpu", fn, {"T", set}, INDICES),  \
        .grad = gradient                                                                                     \
    }
#define REF_ND_ROW(op, fn, set, locking, gradient)                                                           \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(ref:Ref(T), indices:Tindices, updates:T) -> (output_ref:Ref(T)) {T:type; Tindices:type; "   \
               "use_locking:bool=" locking "; bad_indices_policy:string=''}",                                \
        .flags = TD_OP_NO_FOLD | TD_OP_KEEPS,                                                                \
        .kernels = TD_KERNEL("scatter_nd.cpu", fn, {"T", set}, INDICES), .grad = gradient                    \
    }
#define SLICE_MASKS                                                                                          \
    "begin_mask:int=0; end_mask:int=0; ellipsis_mask:int=0; new_axis_mask:int=0; shrink_axis_mask:int=0"
#define SLICE_TYPES                                                                                          \
    {"T", TD_SET_ALL_TYPES | TD_SET_Q8_32},                                                                  \
    {                                                                                                        \
        "Index", TD_SET_INDEX | TD_BIT(TD_INT16)                                                             \
    }

const struct td_op td_ops_variable_scatter[] = {
    RESOURCE_ROW("ResourceScatterUpdate", update_run, TD_SET_COPYABLE | TD_BIT(TD_VARIANT)),
    RESOURCE_ROW("ResourceScatterAdd", add_run, TD_SET_NUMBERS),
    RESOURCE_ROW("ResourceScatterSub", sub_run, TD_SET_NUMBERS),
    RESOURCE_ROW("ResourceScatterMul", mul_run, TD_SET_NUMBERS),
    RESOURCE_ROW("ResourceScatterDiv", div_run, TD_SET_NUMBERS),
    RESOURCE_ROW("ResourceScatterMin", min_run, TD_SET_REALS),
    RESOURCE_ROW("ResourceScatterMax", max_run, TD_SET_REALS),
    RESOURCE_ND_ROW("ResourceScatterNdUpdate", nd_update_run, TD_SET_COPYABLE),
    RESOURCE_ND_ROW("ResourceScatterNdAdd", nd_add_run, TD_SET_NUM_BOOL),
    RESOURCE_ND_ROW("ResourceScatterNdSub", nd_sub_run, TD_SET_NUM_BOOL),
    RESOURCE_ND_ROW("ResourceScatterNdMin", nd_min_run, TD_SET_REALS),
    RESOURCE_ND_ROW("ResourceScatterNdMax", nd_max_run, TD_SET_REALS),
    {.name = "ResourceStridedSliceAssign",
     .sig = "(ref:resource, begin:Index, end:Index, strides:Index, value:T) -> () {T:type; "
            "Index:type; " SLICE_MASKS "}",
     .flags = TD_OP_STATEFUL,
     .host_in = 14,
     .kernels = TD_KERNEL("resource_strided_slice_assign.cpu", slice_run, SLICE_TYPES)},
    REF_ROW("ScatterUpdate", update_ref_run, TD_SET_ALL_TYPES, "true", NULL),
    REF_ROW("ScatterAdd", add_ref_run, TD_SET_NUMBERS, "false", td_not_differentiable),
    REF_ROW("ScatterSub", sub_ref_run, TD_SET_NUMBERS, "false", td_not_differentiable),
    REF_ROW("ScatterMul", mul_ref_run, TD_SET_NUMBERS, "false", td_not_differentiable),
    REF_ROW("ScatterDiv", div_ref_run, TD_SET_NUMBERS, "false", td_not_differentiable),
    REF_ROW("ScatterMin", min_ref_run, TD_SET_REALS, "false", NULL),
    REF_ROW("ScatterMax", max_ref_run, TD_SET_REALS, "false", NULL),
    REF_ND_ROW("ScatterNdUpdate", nd_update_ref_run, TD_SET_COPYABLE, "true", td_not_differentiable),
    REF_ND_ROW("ScatterNdAdd", nd_add_ref_run, TD_SET_NUM_BOOL, "false", td_not_differentiable),
    REF_ND_ROW("ScatterNdSub", nd_sub_ref_run, TD_SET_NUM_BOOL, "false", td_not_differentiable),
    REF_ND_ROW("ScatterNdMin", nd_min_ref_run, TD_SET_REALS, "false", NULL),
    REF_ND_ROW("ScatterNdMax", nd_max_ref_run, TD_SET_REALS, "false", NULL),
    {.name = "StridedSliceAssign",
     .sig = "(ref:Ref(T), begin:Index, end:Index, strides:Index, value:T) -> (output_ref:Ref(T)) {T:type; "
            "Index:type; " SLICE_MASKS "}",
     .flags = TD_OP_NO_FOLD | TD_OP_KEEPS,
     .host_in = 14,
     .kernels = TD_KERNEL("strided_slice_assign.cpu", slice_ref_run, SLICE_TYPES)},
    {.name = NULL},
};
