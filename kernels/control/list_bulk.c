/* kernels/control/list_bulk.c - TensorLists as whole tensors: stack, gather, scatter, concatenate, split.
 *
 *   TensorListFromTensor  [n,..e] -> list of n [..e]       TensorListStack   list of n [..e] -> [n,..e]
 *   TensorListSplit       [sum l,..e] -> list of [l_i,..e] TensorListConcat  the other way round, and the l_i
 *
 * Lists made from a tensor share its bytes. Elements never set read as zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/control/list_args.h"
#include "kernels/control/list_batchable.h"
#include "kernels/control/list_grad.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ tensor -> list */

/* The source has rows, and they fit element_shape (input 1). */
static enum td_code check_rows(struct td_call *c, int shape_in, struct td_shape *shape, struct td_err *err)
{
    const struct td_shape *s = &c->in[0]->shape;
    struct td_shape row = {.rank = s->rank - 1};
    TD_FAIL_IF(s->rank < 1, err, INVALID_ARGUMENT, "%s: Tensor must be at least a vector, but saw shape: []",
               TD_NODE_STR(c->node));
    TD_TRY(td_list_args_shape(c, shape_in, shape, err));
    memcpy(row.dim, s->dim + 1, (size_t)row.rank * sizeof *row.dim);
    TD_FAIL_IF(!td_shape_compatible(shape, &row), err, INVALID_ARGUMENT,
               "%s: Specified a list with shape %s from a tensor with shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(shape), TD_SHAPE_STR(&row));
    return TD_OK;
}

static enum td_code from_tensor_run(struct td_call *c, struct td_err *err)
{
    struct td_shape shape;
    struct td_tensor src;
    struct td_tensor_list *l;
    int depth;
    TD_TRY(check_rows(c, 1, &shape, err));
    TD_TRY(td_tensor_list_nest(c->in[0], &depth, err));
    TD_TRY(td_keep(c, 0, &src, err));
    enum td_code rc = td_tensor_list_new(src.dtype, &shape, src.shape.dim[0], &l, err);
    if (!rc) {
        l->nest.depth = depth;
        for (int64_t i = 0; i < l->n; i++) {
            td_list_args_row(&l->items[i], &src, i);
        }
        rc = td_list_args_out(c, 0, l, err);
    }
    td_tensor_clear(&src);
    return rc;
}

/* Rows of input `from` become the elements named by input `indices`; l is long enough unless that grows it.
 */
static enum td_code scatter(struct td_call *c, struct td_tensor_list *l, int from, int indices,
                            struct td_err *err)
{
    const struct td_tensor *at = c->in[indices];
    struct td_tensor src, row;
    TD_TRY(td_keep(c, from, &src, err));
    enum td_code rc = TD_OK;
    for (int64_t k = 0; k < td_tensor_count(at) && !rc; k++) {
        int64_t i = td_tensor_int(at, k);
        rc = i >= l->n ? td_tensor_list_resize(l, i + 1, err) : TD_OK;
        if (!rc) {
            td_list_args_row(&row, &src, k);
            rc = td_tensor_list_set(l, i, &row, err);
            td_tensor_clear(&row);
        }
    }
    td_tensor_clear(&src);
    return rc;
}

static enum td_code check_indices(const struct td_call *c, const struct td_tensor *data,
                                  const struct td_tensor *at, int64_t size, struct td_err *err)
{
    TD_FAIL_IF(at->shape.rank != 1 || data->shape.rank < 1 || at->shape.dim[0] != data->shape.dim[0], err,
               INVALID_ARGUMENT,
               "%s: Specified %s indices for a tensor of shape %s, want a vector with one index for each row",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&at->shape), TD_SHAPE_STR(&data->shape));
    for (int64_t k = 0; k < td_tensor_count(at); k++) {
        int64_t i = td_tensor_int(at, k);
        TD_FAIL_IF(i < 0, err, INVALID_ARGUMENT,
                   "%s: Indices in TensorListScatter must all be non-negative. indices[%lld] is %lld",
                   TD_NODE_STR(c->node), (long long)k, (long long)i);
        TD_FAIL_IF(size >= 0 && i >= size, err, INVALID_ARGUMENT,
                   "%s: TensorListScatter: Trying to scatter at index %lld in list with size %lld",
                   TD_NODE_STR(c->node), (long long)i, (long long)size);
    }
    return TD_OK;
}

static enum td_code scatter_new(struct td_call *c, int64_t n, struct td_err *err)
{
    struct td_shape shape;
    struct td_tensor_list *l;
    TD_FAIL_IF(n < -1, err, INVALID_ARGUMENT, "%s: TensorListScatter expects num_elements >= -1, found: %lld",
               TD_NODE_STR(c->node), (long long)n);
    TD_TRY(check_indices(c, c->in[0], c->in[1], n, err));
    TD_TRY(check_rows(c, 2, &shape, err));
    TD_TRY(td_tensor_list_new(c->in[0]->dtype, &shape, n < 0 ? 0 : n, &l, err));
    enum td_code rc = scatter(c, l, 0, 1, err);
    if (rc) {
        td_obj_unref(&l->nest.obj);
        return rc;
    }
    return td_list_args_out(c, 0, l, err);
}

static enum td_code scatter_run(struct td_call *c, struct td_err *err)
{
    return scatter_new(c, -1, err);
}

static enum td_code scatter_v2_run(struct td_call *c, struct td_err *err)
{
    int64_t n;
    TD_TRY(td_list_args_int(c, 3, &n, err));
    return scatter_new(c, n, err);
}

static enum td_code scatter_into_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor handle;
    struct td_tensor_list *l;
    const struct td_shape *s = &c->in[1]->shape;
    struct td_shape row = {.rank = s->rank - 1};
    TD_TRY(check_indices(c, c->in[1], c->in[2], -1, err));
    memcpy(row.dim, s->dim + 1, (size_t)row.rank * sizeof *row.dim);
    TD_TRY(td_list_args_take(c, 0, c->in[1]->dtype, &handle, &l, err));
    enum td_code rc;
    if (td_shape_compatible(&l->shape, &row)) {
        rc = scatter(c, l, 1, 2, err);
    } else {
        rc = td_fail(err, TD_INVALID_ARGUMENT,
                     "%s: Specified a list with shape %s from a tensor with shape %s", TD_NODE_STR(c->node),
                     TD_SHAPE_STR(&l->shape), TD_SHAPE_STR(&row));
    }
    if (rc) {
        td_tensor_clear(&handle);
        return rc;
    }
    td_out_move(c, 0, &handle);
    return TD_OK;
}

/* ------------------------------------------------------------------ list -> tensor */

/* out[0] = [n, element_shape...] where input `i` spells the element shape. */
static enum td_code rows_infer(struct td_infer *c, int i, int64_t n, struct td_err *err)
{
    struct td_shape element, first = td_shape_vector(n);
    TD_TRY(td_infer_shape_value(c, i, true, &element, err));
    return td_shape_concat(&first, &element, &c->out[0], err);
}

static enum td_code stack_infer(struct td_infer *c, struct td_err *err)
{
    return rows_infer(
        c, 1, td_attr_int(c->node, "num_elements") < 0 ? -1 : td_attr_int(c->node, "num_elements"), err);
}

static enum td_code stack_rows(struct td_call *c, const struct td_tensor_list *l,
                               const struct td_tensor *indices, const struct td_shape *element,
                               struct td_err *err)
{
    int64_t n = indices ? td_tensor_count(indices) : l->n, count = td_shape_count(element);
    struct td_shape first = td_shape_vector(n), shape;
    struct td_tensor *out;
    TD_TRY(td_shape_concat(&first, element, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &out, err));
    for (int64_t i = 0; i < n && !td_work_spent(count); i++) {
        td_list_args_put(out, i * count, &l->items[indices ? td_tensor_int(indices, i) : i], count);
    }
    return TD_OK;
}

static enum td_code stack_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor_list *l;
    struct td_shape given, element;
    int64_t want = td_attr_int(c->node, "num_elements");
    TD_TRY(td_list_args_in(c, 0, c->node->out_type[0], &l, err));
    TD_FAIL_IF(want != -1 && l->n != want, err, INVALID_ARGUMENT,
               "%s: Operation expected a list with %lld elements but got a list with %lld elements.",
               TD_NODE_STR(c->node), (long long)want, (long long)l->n);
    TD_TRY(td_list_args_shape(c, 1, &given, err));
    TD_TRY(td_list_args_element(c, l, &given, NULL, "stack", &element, err));
    return stack_rows(c, l, NULL, &element, err);
}

static enum td_code gather_infer(struct td_infer *c, struct td_err *err)
{
    return rows_infer(c, 2, td_shape_count(&c->in[1]), err);
}

static enum td_code gather_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor_list *l;
    struct td_shape given, element;
    const struct td_tensor *at = c->in[1];
    TD_TRY(td_list_args_in(c, 0, c->node->out_type[0], &l, err));
    for (int64_t k = 0; k < td_tensor_count(at); k++) {
        int64_t i = td_tensor_int(at, k);
        TD_FAIL_IF(i < 0 || i >= l->n, err, INVALID_ARGUMENT,
                   "%s: Trying to gather element %lld in a list with %lld elements.", TD_NODE_STR(c->node),
                   (long long)i, (long long)l->n);
    }
    TD_TRY(td_list_args_shape(c, 2, &given, err));
    TD_TRY(td_list_args_element(c, l, &given, at, "gather", &element, err));
    return stack_rows(c, l, at, &element, err);
}

/* ------------------------------------------------------------------ concatenating */

/* The shape of elements without their first dimension, from element_shape, the list and its set elements. */
static enum td_code concat_rest(const struct td_call *c, const struct td_tensor_list *l,
                                const struct td_shape *given, struct td_shape *rest, struct td_err *err)
{
    struct td_shape all = *given;
    for (int64_t i = -1; i < l->n; i++) {
        struct td_shape s = i < 0 ? l->shape : l->items[i].shape;
        if (i >= 0 && l->items[i].dtype == TD_DTYPE_NONE) {
            continue;
        }
        TD_FAIL_IF(s.rank == 0, err, INVALID_ARGUMENT,
                   "%s: Concat requires elements to be at least vectors, found scalars instead.",
                   TD_NODE_STR(c->node));
        if (s.rank > 0 && i >= 0 && given->rank > 0 && given->dim[0] >= 0) {
            TD_FAIL_IF(s.dim[0] != given->dim[0], err, INVALID_ARGUMENT,
                       "%s: First dimension of element %lld is %lld, element_shape says %s",
                       TD_NODE_STR(c->node), (long long)i, (long long)s.dim[0], TD_SHAPE_STR(given));
        }
        if (s.rank > 0) {
            s.dim[0] = -1;
        }
        TD_FAIL_IF(!td_shape_compatible(&all, &s), err, INVALID_ARGUMENT,
                   "%s: Tried to concat elements of unequal shapes: %s and %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(&s), TD_SHAPE_STR(&all));
        TD_TRY(td_shape_merge(&all, &s, &all, err));
    }
    TD_FAIL_IF(all.rank == 0, err, INVALID_ARGUMENT,
               "%s: Concat requires elements to be at least vectors, found scalars instead.",
               TD_NODE_STR(c->node));
    if (all.rank > 0) {
        *rest = (struct td_shape){.rank = all.rank - 1};
        memcpy(rest->dim, all.dim + 1, (size_t)rest->rank * sizeof *rest->dim);
    }
    TD_FAIL_IF(all.rank < 0 || !td_shape_known(rest), err, INVALID_ARGUMENT,
               "%s: All except the first dimension must be fully defined when concating a tensor list. "
               "element_shape: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&all));
    return TD_OK;
}

/* Rows that element i takes: its own, or where unset what element_shape or leading_dims (input 2) says. */
static enum td_code concat_length(const struct td_call *c, const struct td_tensor_list *l, int64_t i,
                                  const struct td_shape *given, int64_t *out, struct td_err *err)
{
    int64_t n_leading = c->n_in > 2 ? td_tensor_count(c->in[2]) : 0;
    if (l->items[i].dtype != TD_DTYPE_NONE) {
        *out = l->items[i].shape.dim[0];
    } else if (given->rank > 0 && given->dim[0] >= 0) {
        *out = given->dim[0];
    } else {
        TD_FAIL_IF(
            i >= n_leading, err, INVALID_ARGUMENT,
            "%s: List contains uninitialized element at index %lld but leading_dims has only %lld elements.",
            TD_NODE_STR(c->node), (long long)i, (long long)n_leading);
        *out = td_tensor_int(c->in[2], i);
        TD_FAIL_IF(*out < 0, err, INVALID_ARGUMENT, "%s: leading_dims[%lld] is %lld, want at least 0",
                   TD_NODE_STR(c->node), (long long)i, (long long)*out);
    }
    return TD_OK;
}

static enum td_code concat(struct td_call *c, const struct td_shape *given, struct td_err *err)
{
    struct td_tensor_list *l;
    struct td_shape rest, all, vector;
    struct td_tensor *out, *lengths;
    int64_t total = 0, at = 0;
    TD_TRY(td_list_args_in(c, 0, c->node->out_type[0], &l, err));
    TD_TRY(concat_rest(c, l, given, &rest, err));
    vector = td_shape_vector(l->n);
    TD_TRY(td_out(c, 1, &vector, &lengths, err));
    for (int64_t i = 0; i < l->n; i++) {
        int64_t *n = &TD_DATA(lengths, int64_t)[i];
        TD_TRY(concat_length(c, l, i, given, n, err));
        TD_FAIL_IF(!td_i64_add(total, *n, &total), err, INVALID_ARGUMENT, "%s: the sum of lengths overflows",
                   TD_NODE_STR(c->node));
    }
    vector = td_shape_vector(total);
    TD_TRY(td_shape_concat(&vector, &rest, &all, err));
    TD_TRY(td_out(c, 0, &all, &out, err));
    for (int64_t i = 0; i < l->n; i++) {
        int64_t count = TD_DATA(lengths, int64_t)[i] * td_shape_count(&rest);
        td_list_args_put(out, at, &l->items[i], count);
        at += count;
    }
    return TD_OK;
}

static enum td_code concat_run(struct td_call *c, struct td_err *err)
{
    return concat(c, td_attr_shape(c->node, "element_shape"), err);
}

static enum td_code concat_v2_run(struct td_call *c, struct td_err *err)
{
    struct td_shape given;
    TD_TRY(td_list_args_shape(c, 1, &given, err));
    return concat(c, &given, err);
}

/* Lists joined element by element of the two variants. */
static enum td_code concat_pair(struct td_call *c, struct td_tensor *out, int64_t k, struct td_err *err)
{
    enum td_dtype dtype = td_attr_type(c->node, "element_dtype");
    struct td_tensor_list *a = td_tensor_list_at(c->in[0], k), *b = td_tensor_list_at(c->in[1], k), *l;
    TD_FAIL_IF(!a || !b || a->dtype != dtype || b->dtype != dtype, err, INVALID_ARGUMENT,
               "%s: inputs at index %lld are not two lists of %s", TD_NODE_STR(c->node), (long long)k,
               td_dtype_name(dtype));
    TD_FAIL_IF(!td_shape_equal(&a->shape, &b->shape), err, INVALID_ARGUMENT,
               "%s: input_a and input_b TensorList element shapes are not identical at index %lld: %s, %s",
               TD_NODE_STR(c->node), (long long)k, TD_SHAPE_STR(&a->shape), TD_SHAPE_STR(&b->shape));
    TD_TRY(td_tensor_list_copy(a, &l, err));
    td_tensor_set_obj(out, k, &l->nest.obj);
    TD_TRY(td_tensor_list_resize(l, a->n + b->n, err));
    l->nest.depth = a->nest.depth > b->nest.depth ? a->nest.depth : b->nest.depth;
    for (int64_t i = 0; i < b->n; i++) {
        if (b->items[i].dtype != TD_DTYPE_NONE) {
            td_tensor_ref(&l->items[a->n + i], &b->items[i]);
        }
    }
    return TD_OK;
}

static enum td_code concat_lists_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    for (int64_t k = 0; k < td_tensor_count(out); k++) {
        TD_TRY(concat_pair(c, out, k, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ splitting */

/* Elements fit element_shape behind its first dimension, which says nothing here. */
static enum td_code check_split(const struct td_call *c, const struct td_shape *element, struct td_err *err)
{
    const struct td_tensor *x = c->in[0], *lengths = c->in[2];
    struct td_shape part = x->shape;
    int64_t total = 0;
    TD_FAIL_IF(x->shape.rank < 1, err, INVALID_ARGUMENT,
               "%s: Tensor must be at least a vector, but saw shape: []", TD_NODE_STR(c->node));
    TD_FAIL_IF(lengths->shape.rank != 1, err, INVALID_ARGUMENT,
               "%s: Expected lengths to be a vector, received shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&lengths->shape));
    part.dim[0] = element->rank > 0 ? element->dim[0] : -1;
    TD_FAIL_IF(!td_shape_compatible(element, &part), err, INVALID_ARGUMENT,
               "%s: rows of a tensor of shape %s do not fit element_shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&x->shape), TD_SHAPE_STR(element));
    for (int64_t i = 0; i < td_tensor_count(lengths); i++) {
        int64_t rows = td_tensor_int(lengths, i);
        TD_FAIL_IF(rows < 0, err, INVALID_ARGUMENT, "%s: Invalid value in lengths: %lld",
                   TD_NODE_STR(c->node), (long long)rows);
        bool fits = td_i64_add(total, rows, &total);
        TD_FAIL_IF(!fits || total > x->shape.dim[0], err, INVALID_ARGUMENT,
                   "%s: Tried to slice %lld rows of a tensor of shape %s", TD_NODE_STR(c->node),
                   (long long)total, TD_SHAPE_STR(&x->shape));
    }
    TD_FAIL_IF(total != x->shape.dim[0], err, INVALID_ARGUMENT,
               "%s: Unused values in tensor. Length of tensor: %lld Values used: %lld", TD_NODE_STR(c->node),
               (long long)x->shape.dim[0], (long long)total);
    return TD_OK;
}

static enum td_code split_run(struct td_call *c, struct td_err *err)
{
    struct td_shape element;
    struct td_tensor src;
    struct td_tensor_list *l;
    int64_t at = 0;
    int depth;
    TD_TRY(td_list_args_shape(c, 1, &element, err));
    TD_TRY(check_split(c, &element, err));
    TD_TRY(td_tensor_list_nest(c->in[0], &depth, err));
    TD_TRY(td_keep(c, 0, &src, err));
    enum td_code rc = td_tensor_list_new(src.dtype, &element, td_tensor_count(c->in[2]), &l, err);
    if (!rc) {
        l->nest.depth = depth;
        for (int64_t i = 0; i < l->n; i++) {
            int64_t n = td_tensor_int(c->in[2], i);
            td_tensor_rows(&l->items[i], &src, at, at + n);
            at += n;
        }
        rc = td_list_args_out(c, 0, l, err);
    }
    td_tensor_clear(&src);
    return rc;
}

/* ------------------------------------------------------------------ the table */

#define LIST_TYPES                                                                                           \
    {                                                                                                        \
        "element_dtype", TD_SET_ALL & ~TD_BIT(TD_RESOURCE)                                                   \
    }

const struct td_op td_ops_list_bulk[] = {
    {.name = "TensorListFromTensor",
     .sig =
         "(tensor:element_dtype, element_shape:shape_type) -> (output_handle:variant) {element_dtype:type; "
         "shape_type:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .role = TD_ROLE_LIST_SLICES,
     .batchable = TD_BATCHABLE(td_batchable_list_from, .any_input = true),
     .host_in = 2,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", from_tensor_run, LIST_TYPES),
     .grad = td_list_from_tensor_grad},
    {.name = "TensorListStack",
     .sig = "(input_handle:variant, element_shape:int32) -> (tensor:element_dtype) {element_dtype:type; "
            "num_elements:int=-1}",
     .role = TD_ROLE_LIST_STACK,
     .batchable = TD_BATCHABLE(td_batchable_list_stack, .any_input = true),
     .host_in = 2,
     .infer = stack_infer,
     .kernels = TD_KERNEL("list.cpu", stack_run, LIST_TYPES),
     .grad = td_list_stack_grad},
    {.name = "TensorListGather",
     .sig = "(input_handle:variant, indices:int32, element_shape:int32) -> (values:element_dtype) "
            "{element_dtype:type}",
     .batchable = TD_BATCHABLE(td_batchable_list_gather, .any_input = true),
     .host_in = 6,
     .infer = gather_infer,
     .kernels = TD_KERNEL("list.cpu", gather_run, LIST_TYPES),
     .grad = td_list_gather_grad},
    {.name = "TensorListScatter",
     .sig = "(tensor:element_dtype, indices:int32, element_shape:shape_type) -> (output_handle:variant) "
            "{element_dtype:type; shape_type:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 6,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", scatter_run, LIST_TYPES),
     .grad = td_list_scatter_grad},
    {.name = "TensorListScatterV2",
     .sig = "(tensor:element_dtype, indices:int32, element_shape:shape_type, num_elements:int32) -> "
            "(output_handle:variant) {element_dtype:type; shape_type:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 14,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", scatter_v2_run, LIST_TYPES),
     .grad = td_list_scatter_grad},
    {.name = "TensorListScatterIntoExistingList",
     .sig = "(input_handle:variant, tensor:element_dtype, indices:int32) -> (output_handle:variant) "
            "{element_dtype:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 4,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", scatter_into_run, LIST_TYPES),
     .grad = td_list_scatter_into_grad},
    {.name = "TensorListConcat",
     .sig = "(input_handle:variant) -> (tensor:element_dtype, lengths:int64) {element_dtype:type; "
            "element_shape:shape=?}",
     .kernels = TD_KERNEL("list.cpu", concat_run, LIST_TYPES),
     .grad = td_list_concat_grad},
    {.name = "TensorListConcatV2",
     .sig = "(input_handle:variant, element_shape:shape_type, leading_dims:int64) -> (tensor:element_dtype, "
            "lengths:int64) {element_dtype:type; shape_type:type}",
     .host_in = 6,
     .kernels = TD_KERNEL("list.cpu", concat_v2_run, LIST_TYPES),
     .grad = td_list_concat_grad},
    {.name = "TensorListConcatLists",
     .sig = "(input_a:variant, input_b:variant) -> (output:variant) {element_dtype:type}",
     .flags = TD_OP_NO_FOLD,
     .infer = td_infer_merge_all,
     .kernels = TD_KERNEL("list.cpu", concat_lists_run),
     .grad = td_not_differentiable},
    {.name = "TensorListSplit",
     .sig = "(tensor:element_dtype, element_shape:shape_type, lengths:int64) -> (output_handle:variant) "
            "{element_dtype:type; shape_type:type}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 6,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("list.cpu", split_run, LIST_TYPES),
     .grad = td_list_split_grad},
    {.name = NULL},
};
