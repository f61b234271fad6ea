/* kernels/array/array_scatter.c - writing slices by index into a tensor.
 *
 *   ScatterNd                   zeros(shape), each slice named by indices [J.., k] += updates [J.., I..]
 *   ScatterNdNonAliasingAdd     the same into a copy, as are TensorScatter{Update,Add,Sub,Max,Min}
 *
 * Duplicates accumulate in order; for Update the last one stays. The tensor is taken over when this was
 * its last use, so that a loop which updates one row a step costs one row a step. Variables are
 * kernels/state/variable_scatter.c's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_batchable.h"
#include "kernels/array/array_gather_grad.h"
#include "kernels/cpu/array_types.h"
#include "kernels/array/nd_index.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

/* Index tuples need an axis of their own here; variables and ScatterNdNonAliasingAdd take a plain vector for
 * a column. */
static enum td_code check_tuples(const struct td_infer *c, int i, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank == 1, err, INVALID_ARGUMENT,
               "%s: indices of shape %s are one tuple: Inner dimensions of output shape must match inner "
               "dimensions of "
               "updates shape",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[i]));
    return TD_OK;
}

static enum td_code scatter_nd_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_tuples(c, 0, err));
    TD_TRY(td_infer_shape_value(c, 2, false, &c->out[0], err));
    return td_nd_scatter_check(c->node, &c->out[0], &c->in[0], &c->in[1], err);
}

static enum td_code scatter_nd_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    return td_nd_scatter(c->node, TD_COMBINE_ADD, y, c->in[0], c->in[1], err);
}

static enum td_code scatter_column_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_nd_scatter_check(c->node, &c->in[0], &c->in[1], &c->in[2], err));
    return td_infer_same(c, err);
}

static enum td_code tensor_scatter_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_tuples(c, 1, err));
    return scatter_column_infer(c, err);
}

static enum td_code tensor_scatter(struct td_call *c, enum td_combine_op op, struct td_err *err)
{
    struct td_tensor y;
    TD_TRY(td_take(c, 0, &y, err));
    const enum td_code rc = td_nd_scatter(c->node, op, &y, c->in[1], c->in[2], err);
    if (rc) {
        td_tensor_clear(&y);
        return rc;
    }
    td_out_move(c, 0, &y);
    return TD_OK;
}

#define SCATTER(name, op)                                                                                    \
    static enum td_code name(struct td_call *c, struct td_err *err)                                          \
    {                                                                                                        \
        return tensor_scatter(c, op, err);                                                                   \
    }
SCATTER(update_run, TD_COMBINE_UPDATE)
SCATTER(add_run, TD_COMBINE_ADD)
SCATTER(sub_run, TD_COMBINE_SUB)
SCATTER(max_run, TD_COMBINE_MAX)
SCATTER(min_run, TD_COMBINE_MIN)

#define INDICES                                                                                              \
    {                                                                                                        \
        "Tindices", TD_SET_INDEX                                                                             \
    }
#define TENSOR_SCATTER(op, first, rule, fn, set, gradient)                                                   \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(" first ":T, indices:Tindices, updates:T) -> (output:T) {T:type; Tindices:type; "           \
               "bad_indices_policy:string=''}",                                                              \
        .flags = TD_OP_KEEPS, .infer = rule,                                                                 \
        .kernels = TD_KERNEL("tensor_scatter.cpu", fn, {"T", set}, INDICES), .grad = gradient                \
    }

const struct td_op td_ops_array_scatter[] = {
    {.name = "ScatterNd",
     .sig = "(indices:Tindices, updates:T, shape:Tindices) -> (output:T) {T:type; Tindices:type; "
            "bad_indices_policy:string=''}",
     .vectorize = td_many_scatter_nd,
     .host_in = 4,
     .batchable = TD_BATCHABLE(td_batchable_scatter_nd),
     .infer = scatter_nd_infer,
     .kernels = TD_KERNEL("scatter_nd.cpu", scatter_nd_run, {"T", TD_SET_COPYABLE}, INDICES),
     .grad = td_scatter_nd_grad},
    TENSOR_SCATTER("ScatterNdNonAliasingAdd", "input", scatter_column_infer, add_run, TD_SET_NUM_BOOL,
                   td_tensor_scatter_add_grad),
    TENSOR_SCATTER("TensorScatterUpdate", "tensor", tensor_scatter_infer, update_run, TD_SET_COPYABLE,
                   td_tensor_scatter_update_grad),
    TENSOR_SCATTER("TensorScatterAdd", "tensor", tensor_scatter_infer, add_run, TD_SET_NUMBERS,
                   td_tensor_scatter_add_grad),
    TENSOR_SCATTER("TensorScatterSub", "tensor", tensor_scatter_infer, sub_run, TD_SET_NUMBERS,
                   td_tensor_scatter_sub_grad),
    TENSOR_SCATTER("TensorScatterMax", "tensor", tensor_scatter_infer, max_run, TD_SET_REALS,
                   td_tensor_scatter_most_grad),
    TENSOR_SCATTER("TensorScatterMin", "tensor", tensor_scatter_infer, min_run, TD_SET_REALS,
                   td_tensor_scatter_most_grad),
    {.name = NULL},
};
