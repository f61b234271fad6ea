/* kernels/control/list_sum.c - what gradients add to lists and take out of them; AddN of variants.
 *
 *   _TensorListAddItem    list, index, item               -> list, its element += item
 *   _TensorListAddItems   list, tensor [n,..e], indices [n] -> list, an element a row
 *   _TensorListTakeItem   list, index, element_shape      -> list without that element, the element
 *   _TensorListTakeItems  list, indices [n], element_shape -> list without them, [n,..e]
 *
 * An element never set stands for zeros: adding to it sets it, taking it leaves it so. The list that is
 * changed is taken from the run, and its elements' bytes are added to in place where nobody else holds them,
 * so that sums in a loop cost what is added. Of an index given twice only the last row is added, and taken
 * all rows show the element: what TensorFlow's gradients of Gather and Scatter do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/list_sum.h"

#include "core/base/mem.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/control/list_args.h"
#include "kernels/control/list_batchable.h"
#include "kernels/control/list_grad.h"
#include "kernels/control/optional.h"
#include "kernels/control/ragged_value.h"
#include "kernels/cpu/accumulate.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ sums */

static enum td_code add_objects(const struct td_node *n, struct td_tensor *sum, int64_t at,
                                struct td_obj *with, struct td_err *err);

/* *sum += x, where *sum is the caller's; its bytes may be shared. */
static enum td_code add(const struct td_node *n, struct td_tensor *sum, const struct td_tensor *x,
                        struct td_err *err)
{
    TD_FAIL_IF(sum->dtype != x->dtype || !td_shape_equal(&sum->shape, &x->shape), err, INVALID_ARGUMENT,
               "%s: list elements cannot be added: %s %s and %s %s", TD_NODE_STR(n),
               td_dtype_name(sum->dtype), TD_SHAPE_STR(&sum->shape), td_dtype_name(x->dtype),
               TD_SHAPE_STR(&x->shape));
    TD_TRY(td_tensor_own(sum, err));
    const int64_t count = td_tensor_count(x);
    for (int64_t k = 0; k < count && x->dtype == TD_VARIANT; k++) {
        TD_TRY(add_objects(n, sum, k, td_tensor_obj(x, k), err));
    }
    const bool added = x->dtype == TD_VARIANT || td_accumulate(x->dtype, false, sum->data, x->data, count);
    TD_FAIL_IF(!added, err, INVALID_ARGUMENT, "%s: list elements of dtype %s cannot be added", TD_NODE_STR(n),
               td_dtype_name(x->dtype));
    return TD_OK;
}

enum td_code td_list_sum_item(const struct td_node *n, struct td_tensor_list *l, int64_t i,
                              const struct td_tensor *x, struct td_err *err)
{
    if (x->dtype == TD_DTYPE_NONE) {
        return TD_OK;
    }
    if (l->items[i].dtype != TD_DTYPE_NONE) {
        return add(n, &l->items[i], x, err);
    }
    struct td_tensor t;
    td_tensor_ref(&t, x);
    const enum td_code rc = td_tensor_list_set(l, i, &t, err);
    td_tensor_clear(&t);
    return rc;
}

/* Element `at` of sum, a list, += x; changed where it stands when nobody else holds it. */
static enum td_code add_lists(const struct td_node *n, struct td_tensor *sum, int64_t at,
                              const struct td_tensor_list *x, struct td_err *err)
{
    struct td_tensor_list *l = td_tensor_list_at(sum, at);
    TD_FAIL_IF(l->n != x->n, err, INVALID_ARGUMENT,
               "%s: Trying to add two lists of tensors with different lengths. One is %lld and the other "
               "is %lld",
               TD_NODE_STR(n), (long long)l->n, (long long)x->n);
    if (!td_obj_unique(&l->nest.obj)) {
        TD_TRY(td_tensor_list_copy(l, &l, err));
        td_tensor_set_obj(sum, at, &l->nest.obj);
    }
    for (int64_t i = 0; i < x->n; i++) {
        TD_TRY(td_list_sum_item(n, l, i, &x->items[i], err));
    }
    return TD_OK;
}

/* A component that no gradient stands at (a condition that a loop kept) has no sum either: it stays. */
static enum td_code add_components(const struct td_node *n, struct td_tensor *sum, const struct td_tensor *x,
                                   const struct td_tensor *y, int count, struct td_err *err)
{
    for (int i = 0; i < count; i++) {
        td_tensor_ref(&sum[i], &x[i]);
        if (x[i].dtype != y[i].dtype || td_dtype_in(x[i].dtype, TD_SET_NUMBERS | TD_BIT(TD_VARIANT))) {
            TD_TRY(add(n, &sum[i], &y[i], err));
        }
    }
    return TD_OK;
}

/* Element `at` of sum, an Optional, becomes one of sums; one without value counts as zeros. */
static enum td_code add_optionals(const struct td_node *n, struct td_tensor *sum, int64_t at,
                                  struct td_obj *with, struct td_err *err)
{
    int n_x = 0, n_y = 0;
    const struct td_tensor *x = td_optional_items(td_tensor_obj(sum, at), &n_x);
    const struct td_tensor *y = td_optional_items(with, &n_y);
    if (x == NULL && y != NULL) {
        td_tensor_set_obj(sum, at, td_obj_ref(with));
    }
    if (x == NULL || y == NULL) {
        return TD_OK;
    }
    TD_FAIL_IF(n_x != n_y, err, INVALID_ARGUMENT,
               "%s: Optionals of %d and %d components cannot be added, want as many", TD_NODE_STR(n), n_x,
               n_y);
    struct td_tensor *all = td_calloc((size_t)n_x + 1, sizeof *all);
    if (all == NULL) {
        return td_no_memory(err, (size_t)n_x * sizeof *all, "an Optional");
    }
    struct td_obj *made = NULL;
    enum td_code rc = add_components(n, all, x, y, n_x, err);
    rc = rc ? rc : td_optional_make(all, n_x, &made, err);
    for (int i = 0; i < n_x; i++) {
        td_tensor_clear(&all[i]);
    }
    td_free(all);
    if (rc == TD_OK) {
        td_tensor_set_obj(sum, at, made);
    }
    return rc;
}

/* Element `at` of sum, a ragged tensor, becomes the sum of both: their splits are the same. */
static enum td_code add_ragged(const struct td_node *n, struct td_tensor *sum, int64_t at,
                               const struct td_ragged *x, struct td_err *err)
{
    const struct td_ragged *have = td_ragged_of(td_tensor_obj(sum, at));
    struct td_ragged *made = NULL;
    struct td_tensor values;
    td_tensor_ref(&values, &have->values);
    const enum td_code rc = add(n, &values, &x->values, err);
    if (rc) {
        td_tensor_clear(&values);
        return rc;
    }
    TD_TRY(td_ragged_with(have, &values, &made, err));
    td_tensor_set_obj(sum, at, &made->obj);
    return TD_OK;
}

/* An element of a variant that holds nothing counts as zeros. */
static enum td_code add_objects(const struct td_node *n, struct td_tensor *sum, int64_t at,
                                struct td_obj *with, struct td_err *err)
{
    const struct td_obj *have = td_tensor_obj(sum, at);
    if (with == NULL) {
        return TD_OK;
    }
    if (have == NULL) {
        td_tensor_set_obj(sum, at, td_obj_ref(with));
        return TD_OK;
    }
    const bool same = have->type == with->type;
    if (same && td_tensor_list_at(sum, at) != NULL) {
        return add_lists(n, sum, at, (const struct td_tensor_list *)with, err);
    }
    if (same && td_ragged_of(with) != NULL) {
        return add_ragged(n, sum, at, td_ragged_of(with), err);
    }
    TD_FAIL_IF(!same || !td_optional_is(with), err, INVALID_ARGUMENT,
               "%s: a %s and a %s cannot be added; two lists, Optionals or ragged tensors can",
               TD_NODE_STR(n), have->type->name, with->type->name);
    return add_optionals(n, sum, at, with, err);
}

/* The input to add the others to: one whose objects nobody else holds, if any. */
static int begin_with(const struct td_call *c)
{
    for (int i = 0; i < c->n_in; i++) {
        const struct td_obj *o = td_tensor_count(c->in[i]) == 1 ? td_tensor_obj(c->in[i], 0) : NULL;
        if (o != NULL && td_obj_unique(o)) {
            return i;
        }
    }
    return 0;
}

enum td_code td_list_sum_run(struct td_call *c, struct td_err *err)
{
    const int first = begin_with(c);
    struct td_tensor sum;
    TD_TRY(td_take(c, first, &sum, err));
    enum td_code rc = TD_OK;
    for (int i = 0; i < c->n_in && rc == TD_OK; i++) {
        rc = i == first ? TD_OK : add(c->node, &sum, c->in[i], err);
    }
    if (rc) {
        td_tensor_clear(&sum);
        return rc;
    }
    td_out_move(c, 0, &sum);
    return TD_OK;
}

/* ------------------------------------------------------------------ adding */

static enum td_code check_index(const struct td_call *c, const struct td_tensor_list *l, int64_t i,
                                struct td_err *err)
{
    TD_FAIL_IF(i < 0 || i >= l->n, err, INVALID_ARGUMENT,
               "%s: Trying to modify element %lld in a list with %lld elements.", TD_NODE_STR(c->node),
               (long long)i, (long long)l->n);
    return TD_OK;
}

static enum td_code add_item_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor handle, item;
    struct td_tensor_list *l;
    int64_t i;
    TD_TRY(td_list_args_int(c, 1, &i, err));
    TD_TRY(td_list_args_take(c, 0, c->in[2]->dtype, &handle, &l, err));
    enum td_code rc = td_keep(c, 2, &item, err);
    if (rc == TD_OK) {
        rc = check_index(c, l, i, err);
        rc = rc ? rc : td_list_sum_item(c->node, l, i, &item, err);
        td_tensor_clear(&item);
    }
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_out_move(c, 0, &handle);
    return TD_OK;
}

static enum td_code add_rows(struct td_call *c, struct td_tensor_list *l, const struct td_tensor *rows,
                             struct td_err *err)
{
    const struct td_tensor *at = c->in[2];
    void *mem;
    TD_TRY(td_scratch(c, (size_t)l->n + 1, &mem, err));
    bool *done = memset(mem, 0, (size_t)l->n + 1); /* by element */
    for (int64_t k = td_tensor_count(at) - 1; k >= 0; k--) {
        const int64_t i = td_tensor_int(at, k);
        TD_TRY(check_index(c, l, i, err));
        if (done[i]) {
            continue;
        }
        struct td_tensor row;
        td_list_args_row(&row, rows, k);
        const enum td_code rc = td_list_sum_item(c->node, l, i, &row, err);
        td_tensor_clear(&row);
        TD_TRY(rc);
        done[i] = true;
    }
    return TD_OK;
}

static enum td_code add_items_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *rows = &c->in[1]->shape, *at = &c->in[2]->shape;
    struct td_tensor handle, tensor;
    struct td_tensor_list *l;
    TD_FAIL_IF(at->rank != 1 || rows->rank < 1 || rows->dim[0] != at->dim[0], err, INVALID_ARGUMENT,
               "%s: indices of shape %s for a tensor of shape %s, want a vector with one index for each row",
               TD_NODE_STR(c->node), TD_SHAPE_STR(at), TD_SHAPE_STR(rows));
    TD_TRY(td_list_args_take(c, 0, c->in[1]->dtype, &handle, &l, err));
    enum td_code rc = td_keep(c, 1, &tensor, err);
    if (rc == TD_OK) {
        rc = add_rows(c, l, &tensor, err);
        td_tensor_clear(&tensor);
    }
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_out_move(c, 0, &handle);
    return TD_OK;
}

/* ------------------------------------------------------------------ taking out */

/* *item = element i, zeros of `shape` where it is not set. */
static enum td_code read_item(const struct td_call *c, const struct td_tensor_list *l, int64_t i,
                              const struct td_shape *shape, struct td_tensor *item, struct td_err *err)
{
    TD_TRY(check_index(c, l, i, err));
    if (l->items[i].dtype != TD_DTYPE_NONE) {
        td_tensor_ref(item, &l->items[i]);
        return TD_OK;
    }
    TD_FAIL_IF(!td_shape_known(shape), err, INVALID_ARGUMENT,
               "%s: Trying to read an uninitialized tensor but element_shape is not fully defined: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(shape));
    TD_TRY(td_tensor_new(item, l->dtype, shape, err));
    td_list_args_put(item, 0, &l->items[i], td_tensor_count(item));
    return TD_OK;
}

static enum td_code take_item_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor handle, item;
    struct td_tensor_list *l;
    struct td_shape shape;
    int64_t i;
    TD_TRY(td_list_args_int(c, 1, &i, err));
    TD_TRY(td_list_args_shape(c, 2, &shape, err));
    TD_TRY(td_list_args_take(c, 0, c->node->out_type[1], &handle, &l, err));
    const enum td_code rc = read_item(c, l, i, &shape, &item, err);
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_tensor_clear(&l->items[i]);
    td_out_move(c, 0, &handle);
    td_out_move(c, 1, &item);
    return TD_OK;
}

static enum td_code take_rows(const struct td_call *c, struct td_tensor_list *l, const struct td_shape *shape,
                              struct td_tensor *out, struct td_err *err)
{
    const struct td_tensor *at = c->in[1];
    const int64_t n = td_tensor_count(at), count = td_shape_count(shape);
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = td_tensor_int(at, k);
        TD_TRY(check_index(c, l, i, err));
        const struct td_tensor *item = &l->items[i];
        TD_FAIL_IF(item->dtype != TD_DTYPE_NONE && !td_shape_equal(&item->shape, shape), err,
                   INVALID_ARGUMENT, "%s: element %lld has shape %s, want %s", TD_NODE_STR(c->node),
                   (long long)i, TD_SHAPE_STR(&item->shape), TD_SHAPE_STR(shape));
        td_list_args_put(out, k * count, item, count);
    }
    for (int64_t k = 0; k < n; k++) {
        td_tensor_clear(&l->items[td_tensor_int(at, k)]);
    }
    return TD_OK;
}

static enum td_code take_items_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor handle, *out;
    struct td_tensor_list *l;
    struct td_shape element, first = td_shape_vector(td_tensor_count(c->in[1])), all;
    TD_TRY(td_list_args_shape(c, 2, &element, err));
    TD_FAIL_IF(!td_shape_known(&element), err, INVALID_ARGUMENT, "%s: element_shape is not fully defined: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&element));
    TD_TRY(td_shape_concat(&first, &element, &all, err));
    TD_TRY(td_out(c, 1, &all, &out, err));
    TD_TRY(td_list_args_take(c, 0, c->node->out_type[1], &handle, &l, err));
    const enum td_code rc = take_rows(c, l, &element, out, err);
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_out_move(c, 0, &handle);
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

static enum td_code item_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    c->out[0] = td_shape_scalar();
    return c->n_out == 1 ? TD_OK : td_infer_shape_value(c, 2, true, &c->out[1], err);
}

static enum td_code take_items_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape first = td_shape_vector(td_shape_count(&c->in[1])), element;
    c->out[0] = td_shape_scalar();
    TD_TRY(td_infer_shape_value(c, 2, true, &element, err));
    return td_shape_concat(&first, &element, &c->out[1], err);
}

const struct td_op td_ops_list_sum[] = {
    {.name = "_TensorListAddItem",
     .sig = "(input_handle:variant, index:int32, item:element_dtype) -> (output_handle:variant) "
            "{element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_set, .any_input = true),
     .host_in = 2,
     .infer = item_infer,
     .kernels = TD_KERNEL("list_sum.cpu", add_item_run),
     .grad = td_list_add_item_grad},
    {.name = "_TensorListAddItems",
     .sig = "(input_handle:variant, tensor:element_dtype, indices:int32) -> (output_handle:variant) "
            "{element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 4,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list_sum.cpu", add_items_run),
     .grad = td_list_add_items_grad},
    {.name = "_TensorListTakeItem",
     .sig = "(input_handle:variant, index:int32, element_shape:int32) -> (output_handle:variant, "
            "item:element_dtype) {element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_list_take, .any_input = true),
     .host_in = 6,
     .infer = item_infer,
     .kernels = TD_KERNEL("list_sum.cpu", take_item_run),
     .grad = td_list_take_item_grad},
    {.name = "_TensorListTakeItems",
     .sig = "(input_handle:variant, indices:int32, element_shape:int32) -> (output_handle:variant, "
            "items:element_dtype) {element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 6,
     .infer = take_items_infer,
     .kernels = TD_KERNEL("list_sum.cpu", take_items_run),
     .grad = td_list_take_items_grad},
    {.name = NULL},
};
