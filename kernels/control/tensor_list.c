/* kernels/control/tensor_list.c - the TensorList object: an array of tensors that doubles; one that was never
 * set has no dtype.
 *
 * Copying a list takes a reference to each element. The depth of lists within lists (and Optionals) is
 * counted as elements are set and bounded by TD_NEST_LIMIT, because freeing recurses once a level. The number
 * of elements is bounded too.
 *
 * A list is not locked: it is changed only by an op that holds its one reference. Its ops are in
 * list_element.c and list_bulk.c, what they share in list_args.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/tensor_list.h"

#include "core/base/mem.h"

static void list_destroy(struct td_obj *o)
{
    struct td_tensor_list *l = (struct td_tensor_list *)o;
    for (int64_t i = 0; i < l->n; i++) {
        td_tensor_clear(&l->items[i]);
    }
    td_free(l->items);
    td_free(l);
}

static const struct td_obj_type list_type = {.name = "TensorList", .destroy = list_destroy, .nests = true};

enum td_code td_tensor_list_nest(const struct td_tensor *t, int *depth, struct td_err *err)
{
    int deepest = 0;
    int64_t n = t->dtype == TD_VARIANT ? td_tensor_count(t) : 0;
    for (int64_t i = 0; i < n; i++) {
        struct td_obj *o = td_tensor_obj(t, i);
        if (o != NULL && o->type->nests) {
            int d = ((struct td_nest *)o)->depth;
            deepest = d > deepest ? d : deepest;
        }
    }
    TD_FAIL_IF(deepest >= TD_NEST_LIMIT, err, RESOURCE_EXHAUSTED,
               "nesting a list or optional %d deep, want at most %d levels", deepest + 1, TD_NEST_LIMIT);
    *depth = deepest + 1;
    return TD_OK;
}

enum td_code td_tensor_list_out_nest(struct td_call *c, struct td_nest *takes, struct td_err *err)
{
    return td_out_obj(c, 0, &takes->obj, err);
}

static enum td_code reserve(struct td_tensor_list *l, int64_t cap, struct td_err *err)
{
    TD_FAIL_IF(cap > TD_LIST_LIMIT, err, RESOURCE_EXHAUSTED,
               "a TensorList of %lld elements, want at most %lld", (long long)cap, (long long)TD_LIST_LIMIT);
    if (cap <= l->cap) {
        return TD_OK;
    }
    struct td_tensor *items = td_realloc(l->items, (size_t)cap, sizeof *items);
    if (!items) {
        return td_no_memory(err, (size_t)cap * sizeof *items, "elements of a TensorList");
    }
    l->items = items;
    l->cap = cap;
    return TD_OK;
}

enum td_code td_tensor_list_resize(struct td_tensor_list *l, int64_t n, struct td_err *err)
{
    if (n > l->cap) {
        int64_t twice = l->cap * 2 > TD_LIST_LIMIT ? TD_LIST_LIMIT : l->cap * 2;
        TD_TRY(reserve(l, n > twice ? n : twice, err));
    }
    for (int64_t i = n; i < l->n; i++) {
        td_tensor_clear(&l->items[i]);
    }
    if (n > l->n) {
        memset(&l->items[l->n], 0, (size_t)(n - l->n) * sizeof *l->items);
    }
    l->n = n;
    return TD_OK;
}

enum td_code td_tensor_list_new(enum td_dtype dtype, const struct td_shape *shape, int64_t n,
                                struct td_tensor_list **out, struct td_err *err)
{
    struct td_tensor_list *l = td_calloc(1, sizeof *l);
    if (!l) {
        return td_no_memory(err, sizeof *l, "TensorList");
    }
    td_obj_init(&l->nest.obj, &list_type);
    l->nest.depth = 1;
    l->dtype = dtype;
    l->shape = *shape;
    l->max_n = -1;
    enum td_code rc = td_tensor_list_resize(l, n, err);
    if (rc) {
        td_obj_unref(&l->nest.obj);
        return rc;
    }
    *out = l;
    return TD_OK;
}

enum td_code td_tensor_list_copy(const struct td_tensor_list *l, struct td_tensor_list **out,
                                 struct td_err *err)
{
    struct td_tensor_list *copy;
    TD_TRY(td_tensor_list_new(l->dtype, &l->shape, l->n, &copy, err));
    copy->nest.depth = l->nest.depth;
    copy->max_n = l->max_n;
    for (int64_t i = 0; i < l->n; i++) {
        if (l->items[i].dtype != TD_DTYPE_NONE) {
            td_tensor_ref(&copy->items[i], &l->items[i]);
        }
    }
    *out = copy;
    return TD_OK;
}

enum td_code td_tensor_list_set(struct td_tensor_list *l, int64_t i, struct td_tensor *t, struct td_err *err)
{
    int depth;
    TD_TRY(td_tensor_list_nest(t, &depth, err));
    l->nest.depth = depth > l->nest.depth ? depth : l->nest.depth;
    td_tensor_clear(&l->items[i]);
    l->items[i] = *t;
    memset(t, 0, sizeof *t);
    return TD_OK;
}

struct td_tensor_list *td_tensor_list_at(const struct td_tensor *t, int64_t i)
{
    struct td_obj *o = td_tensor_obj(t, i);
    return o && o->type == &list_type ? (struct td_tensor_list *)o : NULL;
}
