/* kernels/control/list_args.c - what the TensorList ops read and write: handles, shapes, single elements.
 *
 * A handle is a scalar variant that holds the list object. An op that changes a list takes the handle from
 * the run; when nobody else holds the list it is changed in place, else copied first, which copies references
 * and no elements. The shape of elements is merged from the op's own, the list's, and those of the elements
 * at hand; elements that were never set read as zeros of that shape.
 *
 * Does not: hold or free lists (kernels/control/tensor_list.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/list_args.h"

#include "core/graph/graph.h"

static enum td_code check_dtype(const struct td_call *c, const struct td_tensor_list *l, enum td_dtype dtype,
                                struct td_err *err)
{
    TD_FAIL_IF(dtype != TD_DTYPE_NONE && l->dtype != dtype, err, INVALID_ARGUMENT,
               "%s: Invalid data types; op elements %s but list elements %s", TD_NODE_STR(c->node),
               td_dtype_name(dtype), td_dtype_name(l->dtype));
    return TD_OK;
}

enum td_code td_list_args_in(const struct td_call *c, int i, enum td_dtype dtype, struct td_tensor_list **out,
                             struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    TD_FAIL_IF(td_tensor_count(t) != 1, err, INVALID_ARGUMENT, "%s: Input handle is not a scalar. Saw: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&t->shape));
    struct td_tensor_list *l = td_tensor_list_at(t, 0);
    TD_FAIL_IF(!l, err, INVALID_ARGUMENT, "%s: Input handle is not a list. Saw: '%s'", TD_NODE_STR(c->node),
               td_tensor_obj(t, 0) ? td_tensor_obj(t, 0)->type->name : "unset variant");
    *out = l;
    return check_dtype(c, l, dtype, err);
}

enum td_code td_list_args_take(struct td_call *c, int i, enum td_dtype dtype, struct td_tensor *handle,
                               struct td_tensor_list **out, struct td_err *err)
{
    struct td_tensor_list *l;
    TD_TRY(td_list_args_in(c, i, dtype, &l, err));
    TD_TRY(td_take(c, i, handle, err));
    l = td_tensor_list_at(handle, 0);
    if (!td_obj_unique(&l->nest.obj)) {
        enum td_code rc = td_tensor_list_copy(l, &l, err);
        if (rc) {
            td_tensor_clear(handle);
            return rc;
        }
        td_tensor_set_obj(handle, 0, &l->nest.obj);
    }
    *out = l;
    return TD_OK;
}

enum td_code td_list_args_out(struct td_call *c, int i, struct td_tensor_list *takes, struct td_err *err)
{
    struct td_tensor t;
    struct td_shape scalar = td_shape_scalar();
    enum td_code rc = td_tensor_new(&t, TD_VARIANT, &scalar, err);
    if (rc) {
        td_obj_unref(&takes->nest.obj);
        return rc;
    }
    td_tensor_set_obj(&t, 0, &takes->nest.obj);
    td_out_move(c, i, &t);
    return TD_OK;
}

enum td_code td_list_args_shape(const struct td_call *c, int i, struct td_shape *out, struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    int64_t dims[TD_MAX_RANK];
    if (t->shape.rank == 0) {
        TD_FAIL_IF(td_tensor_int(t, 0) != -1, err, INVALID_ARGUMENT,
                   "%s: The only valid scalar shape tensor is the fully unknown shape specified as -1.",
                   TD_NODE_STR(c->node));
        *out = td_shape_unknown();
        return TD_OK;
    }
    TD_FAIL_IF(t->shape.rank != 1, err, INVALID_ARGUMENT,
               "%s: element_shape must be at most rank 1 but has the shape of %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&t->shape));
    int64_t n = td_tensor_count(t);
    TD_FAIL_IF(n > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: element_shape has %lld dimensions, want at most %d", TD_NODE_STR(c->node), (long long)n,
               TD_MAX_RANK);
    for (int64_t k = 0; k < n; k++) {
        dims[k] = td_tensor_int(t, k);
    }
    return td_shape_make(out, dims, (int)n, err);
}

enum td_code td_list_args_int(const struct td_call *c, int i, int64_t *out, struct td_err *err)
{
    TD_FAIL_IF(td_tensor_count(c->in[i]) != 1, err, INVALID_ARGUMENT,
               "%s: input %d must be a scalar, but has the shape of %s", TD_NODE_STR(c->node), i,
               TD_SHAPE_STR(&c->in[i]->shape));
    *out = td_tensor_int(c->in[i], 0);
    return TD_OK;
}

static enum td_code merge(const struct td_call *c, const struct td_shape *item, const char *verb,
                          struct td_shape *out, struct td_err *err)
{
    TD_FAIL_IF(
        !td_shape_compatible(out, item), err, INVALID_ARGUMENT,
        "%s: Tried to %s elements of a list with incompatible shapes: element shape %s, list or op shape %s",
        TD_NODE_STR(c->node), verb, TD_SHAPE_STR(item), TD_SHAPE_STR(out));
    return td_shape_merge(out, item, out, err);
}

enum td_code td_list_args_element(const struct td_call *c, const struct td_tensor_list *l,
                                  const struct td_shape *given, const struct td_tensor *indices,
                                  const char *verb, struct td_shape *out, struct td_err *err)
{
    int64_t n = indices ? td_tensor_count(indices) : l->n;
    *out = *given;
    TD_TRY(merge(c, &l->shape, verb, out, err));
    for (int64_t i = 0; i < n; i++) {
        const struct td_tensor *item = &l->items[indices ? td_tensor_int(indices, i) : i];
        if (item->dtype != TD_DTYPE_NONE && !td_shape_equal(out, &item->shape)) {
            TD_TRY(merge(c, &item->shape, verb, out, err));
        }
    }
    TD_FAIL_IF(!td_shape_known(out) && n == 0, err, INVALID_ARGUMENT,
               "%s: Tried to %s elements of an empty list with non-fully-defined element_shape: %s",
               TD_NODE_STR(c->node), verb, TD_SHAPE_STR(out));
    TD_FAIL_IF(!td_shape_known(out), err, INVALID_ARGUMENT,
               "%s: Tried to %s list which only contains uninitialized tensors and has a non-fully-defined "
               "element_shape: %s",
               TD_NODE_STR(c->node), verb, TD_SHAPE_STR(out));
    return TD_OK;
}

void td_list_args_put(struct td_tensor *out, int64_t at, const struct td_tensor *item, int64_t count)
{
    size_t size = td_dtype_size(out->dtype);
    if (count == 0) {
        return;
    }
    void *dst = (char *)out->data + (size_t)at * size;
    if (item->dtype != TD_DTYPE_NONE) {
        td_elems_copy(out->dtype, dst, item->data, count);
    } else if (!td_dtype_is_object(out->dtype)) {
        memset(dst, 0, (size_t)count * size);
    }
}

void td_list_args_row(struct td_tensor *dst, const struct td_tensor *src, int64_t i)
{
    td_tensor_rows(dst, src, i, i + 1);
    dst->shape.rank--;
    memmove(dst->shape.dim, dst->shape.dim + 1, (size_t)dst->shape.rank * sizeof *dst->shape.dim);
}
