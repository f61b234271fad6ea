/* kernels/control/list_element.c - TensorLists one element at a time: making, pushing, popping, reading,
 * writing, resizing.
 *
 *   list   scalar VARIANT -> struct td_tensor_list (tensor_list.h)
 *
 * Writers take their list over and change it in place when it is theirs alone. An element that was never set
 * reads as zeros once its shape is known from the list, the op, or another element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "kernels/control/list_args.h"
#include "kernels/control/list_batchable.h"
#include "kernels/control/list_grad.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ making */

static enum td_code reserve_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    TD_FAIL_IF(c->in[0].rank > 1, err, INVALID_ARGUMENT,
               "%s: element_shape must be at most rank 1 but has the shape of %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code make(struct td_call *c, int64_t n, int64_t max_n, struct td_err *err)
{
    struct td_shape shape;
    struct td_tensor_list *l;
    TD_TRY(td_list_args_shape(c, 0, &shape, err));
    TD_TRY(td_tensor_list_new(td_attr_type(c->node, "element_dtype"), &shape, n, &l, err));
    l->max_n = max_n;
    return td_list_args_out(c, 0, l, err);
}

static enum td_code reserve_run(struct td_call *c, struct td_err *err)
{
    int64_t n;
    TD_TRY(td_list_args_int(c, 1, &n, err));
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT,
               "%s: The num_elements to reserve must be a non negative number, but got %lld",
               TD_NODE_STR(c->node), (long long)n);
    return make(c, n, -1, err);
}

static enum td_code empty_run(struct td_call *c, struct td_err *err)
{
    int64_t max_n;
    TD_TRY(td_list_args_int(c, 1, &max_n, err));
    return make(c, 0, max_n, err);
}

/* ------------------------------------------------------------------ length and shape */

static enum td_code length_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor_list *l;
    struct td_tensor *out;
    TD_TRY(td_list_args_in(c, 0, TD_DTYPE_NONE, &l, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_DATA(out, int32_t)[0] = (int32_t)l->n;
    return TD_OK;
}

static enum td_code element_shape_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor_list *l;
    struct td_tensor *out;
    TD_TRY(td_list_args_in(c, 0, TD_DTYPE_NONE, &l, err));
    bool unknown = l->shape.rank < 0;
    struct td_shape s = unknown ? td_shape_scalar() : td_shape_vector(l->shape.rank);
    TD_TRY(td_out(c, 0, &s, &out, err));
    for (int64_t i = 0; i < td_tensor_count(out); i++) {
        int64_t dim = unknown ? -1 : l->shape.dim[i];
        if (out->dtype == TD_INT32) {
            TD_DATA(out, int32_t)[i] = (int32_t)dim;
        } else {
            TD_DATA(out, int64_t)[i] = dim;
        }
    }
    return TD_OK;
}

static enum td_code resize_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code resize_run(struct td_call *c, struct td_err *err)
{
    int64_t n;
    struct td_tensor handle;
    struct td_tensor_list *l;
    TD_TRY(td_list_args_int(c, 1, &n, err));
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT, "%s: TensorListSlice expects size to be non-negative. Got: %lld",
               TD_NODE_STR(c->node), (long long)n);
    TD_TRY(td_list_args_take(c, 0, TD_DTYPE_NONE, &handle, &l, err));
    enum td_code rc = td_tensor_list_resize(l, n, err);
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_out_move(c, 0, &handle);
    return TD_OK;
}

/* ------------------------------------------------------------------ writing */

static enum td_code check_item(const struct td_call *c, const struct td_tensor_list *l,
                               const struct td_shape *item, const char *what, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&l->shape, item), err, INVALID_ARGUMENT,
               "%s: Tried to %s. Op element shape: %s list shape: %s", TD_NODE_STR(c->node), what,
               TD_SHAPE_STR(item), TD_SHAPE_STR(&l->shape));
    return TD_OK;
}

/* Appends *item (taken over). */
static enum td_code push(const struct td_call *c, struct td_tensor_list *l, struct td_tensor *item,
                         struct td_err *err)
{
    TD_TRY(check_item(c, l, &item->shape, "append a tensor with incompatible shape to a list", err));
    TD_FAIL_IF(l->max_n >= 0 && l->n >= l->max_n, err, INVALID_ARGUMENT,
               "%s: Tried to push item into a full list list size: %lld max_num_elements: %lld",
               TD_NODE_STR(c->node), (long long)l->n, (long long)l->max_n);
    TD_TRY(td_tensor_list_resize(l, l->n + 1, err));
    return td_tensor_list_set(l, l->n - 1, item, err);
}

typedef enum td_code edit_fn(const struct td_call *c, struct td_tensor_list *l, struct td_tensor *item,
                             struct td_err *err);

/* Output 0 is the list of input 0 after `edit` has put input i into it. */
static enum td_code edit_run(struct td_call *c, int i, edit_fn *edit, struct td_err *err)
{
    struct td_tensor handle, item;
    struct td_tensor_list *l;
    TD_TRY(td_keep(c, i, &item, err));
    enum td_code rc = td_list_args_take(c, 0, item.dtype, &handle, &l, err);
    if (rc) {
        td_tensor_clear(&item);
        return rc;
    }
    rc = edit(c, l, &item, err);
    td_tensor_clear(&item);
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_out_move(c, 0, &handle);
    return TD_OK;
}

static enum td_code push_run(struct td_call *c, struct td_err *err)
{
    return edit_run(c, 1, push, err);
}

/* Row i of the batch goes to the end of list i. */
static enum td_code push_row(struct td_call *c, const struct td_tensor *batch, struct td_tensor *out,
                             int64_t i, struct td_err *err)
{
    struct td_tensor row;
    struct td_tensor_list *l = td_tensor_list_at(c->in[0], i);
    TD_FAIL_IF(!l || l->dtype != batch->dtype, err, INVALID_ARGUMENT,
               "%s: Input handle at index %lld is not a list of %s", TD_NODE_STR(c->node), (long long)i,
               td_dtype_name(batch->dtype));
    TD_TRY(td_tensor_list_copy(l, &l, err));
    td_list_args_row(&row, batch, i);
    enum td_code rc = push(c, l, &row, err);
    td_tensor_clear(&row);
    if (rc) {
        td_obj_unref(&l->nest.obj);
        return rc;
    }
    td_tensor_set_obj(out, i, &l->nest.obj);
    return TD_OK;
}

static enum td_code push_batch_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor batch, *out;
    const struct td_shape *lists = &c->in[0]->shape, *rows = &c->in[1]->shape;
    TD_FAIL_IF(lists->rank != 1 || rows->rank < 1 || rows->dim[0] != lists->dim[0], err, INVALID_ARGUMENT,
               "%s: Expected tensor with one row for each of the lists %s, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(lists), TD_SHAPE_STR(rows));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_keep(c, 1, &batch, err));
    enum td_code rc = TD_OK;
    for (int64_t i = 0; i < lists->dim[0] && !rc; i++) {
        rc = push_row(c, &batch, out, i, err);
    }
    td_tensor_clear(&batch);
    return rc;
}

static enum td_code set_in(const struct td_call *c, struct td_tensor_list *l, struct td_tensor *item,
                           struct td_err *err)
{
    int64_t i;
    TD_TRY(td_list_args_int(c, 1, &i, err));
    bool grow = td_attr_bool(c->node, "resize_if_index_out_of_bounds") && i >= l->n;
    TD_FAIL_IF(i < 0 || (i >= l->n && !grow), err, INVALID_ARGUMENT,
               "%s: Trying to modify element %lld in a list with %lld elements.", TD_NODE_STR(c->node),
               (long long)i, (long long)l->n);
    TD_TRY(check_item(c, l, &item->shape, "set a tensor with incompatible shape at a list index", err));
    if (grow) {
        TD_TRY(td_tensor_list_resize(l, i + 1, err));
    }
    return td_tensor_list_set(l, i, item, err);
}

static enum td_code set_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code set_run(struct td_call *c, struct td_err *err)
{
    return edit_run(c, 2, set_in, err);
}

/* ------------------------------------------------------------------ reading */

/* *t = element i; zeros of the shape of input `shape_in` when it was never set. An element that is there has
 * to fit that shape, which plans count on (TensorFlow does not look). */
static enum td_code read_item(struct td_call *c, const struct td_tensor_list *l, int64_t i, int shape_in,
                              struct td_tensor *t, struct td_err *err)
{
    struct td_shape given, shape;
    const struct td_tensor *item = &l->items[i];
    TD_TRY(td_list_args_shape(c, shape_in, &given, err));
    if (item->dtype != TD_DTYPE_NONE) {
        TD_FAIL_IF(!td_shape_compatible(&given, &item->shape), err, INVALID_ARGUMENT,
                   "%s: Tried to read an element with incompatible shape. Op element shape: %s element: %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&given), TD_SHAPE_STR(&item->shape));
        td_tensor_ref(t, item);
        return TD_OK;
    }
    bool known = td_shape_compatible(&given, &l->shape) && !td_shape_merge(&given, &l->shape, &shape, NULL) &&
                 td_shape_known(&shape);
    known = known || !td_list_args_element(c, l, &given, NULL, "read", &shape, NULL);
    TD_FAIL_IF(!known, err, INVALID_ARGUMENT,
               "%s: Trying to read an uninitialized tensor but element_shape is not fully defined: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&given));
    TD_TRY(td_tensor_new(t, l->dtype, &shape, err));
    td_list_args_put(t, 0, item, td_tensor_count(t));
    return TD_OK;
}

static enum td_code get_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    return td_infer_shape_value(c, 2, true, &c->out[0], err);
}

static enum td_code get_run(struct td_call *c, struct td_err *err)
{
    int64_t i;
    struct td_tensor t;
    struct td_tensor_list *l;
    TD_TRY(td_list_args_in(c, 0, c->node->out_type[0], &l, err));
    TD_TRY(td_list_args_int(c, 1, &i, err));
    TD_FAIL_IF(i < 0 || i >= l->n, err, INVALID_ARGUMENT,
               "%s: Trying to access element %lld in a list with %lld elements.", TD_NODE_STR(c->node),
               (long long)i, (long long)l->n);
    TD_TRY(read_item(c, l, i, 2, &t, err));
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code pop_infer(struct td_infer *c, struct td_err *err)
{
    c->out[0] = td_shape_scalar();
    return td_infer_shape_value(c, 1, true, &c->out[1], err);
}

static enum td_code pop_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor handle, t;
    struct td_tensor_list *l;
    TD_TRY(td_list_args_in(c, 0, c->node->out_type[1], &l, err));
    TD_FAIL_IF(l->n == 0, err, INVALID_ARGUMENT, "%s: Trying to pop from an empty list.",
               TD_NODE_STR(c->node));
    TD_TRY(read_item(c, l, l->n - 1, 1, &t, err));
    enum td_code rc = td_list_args_take(c, 0, TD_DTYPE_NONE, &handle, &l, err);
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    rc = td_tensor_list_resize(l, l->n - 1, err);
    TD_CHECK(rc == TD_OK); /* shrinking allocates nothing */
    td_out_move(c, 0, &handle);
    td_out_move(c, 1, &t);
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define LIST_SET (TD_SET_ALL & ~TD_BIT(TD_RESOURCE))

const struct td_op td_ops_list_element[] = {
    {.name = "TensorListReserve",
     .sig = "(element_shape:shape_type, num_elements:int32) -> (handle:variant) {element_dtype:type; "
            "shape_type:type}",
     .flags = TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_new, .any_input = true),
     .host_in = 3,
     .infer = reserve_infer,
     .kernels = TD_KERNEL("list.cpu", reserve_run),
     .grad = td_not_differentiable},
    {.name = "EmptyTensorList",
     .sig = "(element_shape:shape_type, max_num_elements:int32) -> (handle:variant) {element_dtype:type; "
            "shape_type:type}",
     .flags = TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_empty, .any_input = true),
     .host_in = 3,
     .infer = reserve_infer,
     .kernels = TD_KERNEL("list.cpu", empty_run),
     .grad = td_not_differentiable},
    {.name = "TensorListLength",
     .sig = "(input_handle:variant) -> (length:int32) {}",
     .batchable = TD_BATCHABLE(td_batchable_list_length, .any_input = true),
     .host_out = 1,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", length_run),
     .grad = td_not_differentiable},
    {.name = "TensorListElementShape",
     .sig = "(input_handle:variant) -> (element_shape:shape_type) {shape_type:type}",
     .host_out = 1,
     .kernels = TD_KERNEL("list.cpu", element_shape_run, {"shape_type", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "TensorListResize",
     .sig = "(input_handle:variant, size:int32) -> (output_handle:variant) {}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 3,
     .infer = resize_infer,
     .kernels = TD_KERNEL("list.cpu", resize_run),
     .grad = td_list_resize_grad},
    {.name = "TensorListPushBack",
     .sig = "(input_handle:variant, tensor:element_dtype) -> (output_handle:variant) {element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_push, .any_input = true),
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", push_run),
     .grad = td_list_push_grad},
    {.name = "TensorListPushBackBatch",
     .sig = "(input_handles:variant, tensor:element_dtype) -> (output_handles:variant) {element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("list.cpu", push_batch_run, {"element_dtype", LIST_SET}),
     .grad = td_not_differentiable},
    {.name = "TensorListPopBack",
     .sig = "(input_handle:variant, element_shape:int32) -> (output_handle:variant, tensor:element_dtype) "
            "{element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_pop, .any_input = true),
     .host_in = 2,
     .infer = pop_infer,
     .kernels = TD_KERNEL("list.cpu", pop_run, {"element_dtype", LIST_SET}),
     .grad = td_list_pop_grad},
    {.name = "TensorListGetItem",
     .sig = "(input_handle:variant, index:int32, element_shape:Tshape) -> (item:element_dtype) "
            "{element_dtype:type; "
            "Tshape:type=int32}",
     .role = TD_ROLE_LIST_ITEM,
     .batchable = TD_BATCHABLE(td_batchable_list_get, .any_input = true),
     .host_in = 6,
     .infer = get_infer,
     .kernels = TD_KERNEL("list.cpu", get_run, {"element_dtype", LIST_SET}),
     .grad = td_list_get_grad},
    {.name = "TensorListSetItem",
     .sig = "(input_handle:variant, index:int32, item:element_dtype) -> (output_handle:variant) "
            "{element_dtype:type; "
            "resize_if_index_out_of_bounds:bool=false}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_set, .any_input = true),
     .host_in = 2,
     .infer = set_infer,
     .kernels = TD_KERNEL("list.cpu", set_run),
     .grad = td_list_set_grad},
    {.name = NULL},
};
