/* kernels/control/tensor_array.c - one element after the other, under the array's lock.
 *
 * td_array_in returns with the lock held, so an op checks, reads and writes as one step, and unlocks at its
 * end. Elements are an array that doubles; each says whether it was written, read, or cleared after reading,
 * which is all that the rules of TensorFlow need. Writing takes the tensor over without copying; adding up
 * (arrays of gradients) first makes the element's bytes its own. Reading shares the bytes.
 *
 * An array may not be stored in another: such cycles would never be freed, since objects are counted. The
 * reference from an array to its gradient arrays goes one way only.
 *
 * Does not: find or make gradient arrays, stack or split elements (the ops do), keep anything from run to
 * run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/tensor_array.h"

#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/accumulate.h"
#include "kernels/ops.h"
#include "kernels/control/tensor_list.h"

void td_array_drop(struct td_array *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        td_tensor_clear(&a->items[i].value);
    }
    td_free(a->items);
    a->items = NULL;
    a->n = a->cap = 0;
}

static void array_destroy(struct td_obj *o)
{
    struct td_array *a = (struct td_array *)o;
    for (int i = 0; i < a->n_grads; i++) {
        td_obj_unref(&a->grads[i]->obj);
    }
    td_free(a->grads);
    td_array_drop(a);
    pthread_mutex_destroy(&a->mu);
    td_free(a->name);
    td_free(a);
}

const struct td_obj_type td_array_type = {.name = "TensorArray", .destroy = array_destroy};

int td_array_n_grads(struct td_obj *o)
{
    struct td_array *a = o != NULL && o->type == &td_array_type ? (struct td_array *)o : NULL;
    if (a == NULL) {
        return 0;
    }
    pthread_mutex_lock(&a->mu);
    const int n = a->n_grads;
    pthread_mutex_unlock(&a->mu);
    return n;
}

void td_array_forget_grads(struct td_obj *o, int from)
{
    struct td_array *a = o != NULL && o->type == &td_array_type ? (struct td_array *)o : NULL;
    if (a == NULL) {
        return;
    }
    pthread_mutex_lock(&a->mu);
    while (a->n_grads > from) {
        td_obj_unref(&a->grads[--a->n_grads]->obj);
    }
    pthread_mutex_unlock(&a->mu);
}

/* Caller holds a->mu, or is alone with a. */
static enum td_code td_array_grow(struct td_array *a, int64_t n, struct td_err *err)
{
    TD_FAIL_IF(n > TD_LIST_LIMIT, err, RESOURCE_EXHAUSTED,
               "a TensorArray of %lld elements, want at most %lld", (long long)n, (long long)TD_LIST_LIMIT);
    if (n > a->cap) {
        int64_t cap = n > 2 * a->cap ? n : 2 * a->cap;
        struct td_array_element *items = td_realloc(a->items, (size_t)cap, sizeof *items);
        if (!items) {
            return td_no_memory(err, (size_t)cap * sizeof *items, "elements of a TensorArray");
        }
        a->items = items;
        a->cap = cap;
    }
    for (; a->n < n; a->n++) {
        a->items[a->n] = (struct td_array_element){.shape = td_shape_unknown()};
    }
    return TD_OK;
}

enum td_code td_array_new(const char *name, enum td_dtype dtype, const struct td_shape *shape, int64_t n,
                          struct td_array **out, struct td_err *err)
{
    struct td_array *a = td_calloc(1, sizeof *a);
    if (!a) {
        return td_no_memory(err, sizeof *a, "TensorArray");
    }
    td_obj_init(&a->obj, &td_array_type);
    pthread_mutex_init(&a->mu, NULL);
    a->name = td_strdup(name);
    a->dtype = dtype;
    a->shape = *shape;
    enum td_code rc = a->name ? td_array_grow(a, n, err) : td_no_memory(err, strlen(name), "TensorArray");
    if (rc) {
        td_obj_unref(&a->obj);
        return rc;
    }
    *out = a;
    return TD_OK;
}

/* ------------------------------------------------------------------ arguments and results */

enum td_code td_array_in(const struct td_call *c, struct td_array **out, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &td_array_type, &o, err));
    struct td_array *a = (struct td_array *)o;
    pthread_mutex_lock(&a->mu);
    if (a->closed) {
        pthread_mutex_unlock(&a->mu);
        TD_FAIL(err, INVALID_ARGUMENT, "%s: TensorArray %s has already been closed.", TD_NODE_STR(c->node),
                a->name);
    }
    *out = a;
    return TD_OK;
}

enum td_code td_array_out_flow(struct td_call *c, int i, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, i, NULL, &out, err));
    TD_DATA(out, float)[0] = 0;
    return TD_OK;
}

enum td_code td_array_out(struct td_call *c, struct td_array *takes, struct td_err *err)
{
    TD_TRY(td_out_obj(c, 0, &takes->obj, err));
    return td_array_out_flow(c, 1, err);
}

/* ------------------------------------------------------------------ one element, the array locked */

enum td_code td_array_check_write(const struct td_array *a, enum td_dtype dtype, struct td_err *err)
{
    TD_FAIL_IF(dtype != a->dtype, err, INVALID_ARGUMENT,
               "TensorArray %s: TensorArray dtype is %s but Op is trying to write dtype %s.", a->name,
               td_dtype_name(a->dtype), td_dtype_name(dtype));
    return TD_OK;
}

enum td_code td_array_check_read(const struct td_array *a, enum td_dtype dtype, struct td_err *err)
{
    TD_FAIL_IF(dtype != a->dtype, err, INVALID_ARGUMENT,
               "TensorArray %s: TensorArray dtype is %s but Op requested dtype %s.", a->name,
               td_dtype_name(a->dtype), td_dtype_name(dtype));
    return TD_OK;
}

static enum td_code aggregate(struct td_array *a, int64_t i, const struct td_tensor *t, struct td_err *err)
{
    struct td_array_element *e = &a->items[i];
    TD_FAIL_IF(
        !td_shape_equal(&e->value.shape, &t->shape), err, INVALID_ARGUMENT,
        "TensorArray %s: Could not aggregate to TensorArray index %lld because the existing shape is %s but "
        "the new input shape is %s.",
        a->name, (long long)i, TD_SHAPE_STR(&e->value.shape), TD_SHAPE_STR(&t->shape));
    TD_TRY(td_tensor_own(&e->value, err));
    TD_FAIL_IF(!td_accumulate(a->dtype, false, e->value.data, t->data, td_tensor_count(t)), err,
               INVALID_ARGUMENT, "TensorArray %s: cannot add up elements of dtype %s", a->name,
               td_dtype_name(a->dtype));
    return TD_OK;
}

/* Arrays inside arrays would make cycles that counting never frees. */
static enum td_code td_array_check_plain(const struct td_array *a, const struct td_tensor *t,
                                         struct td_err *err)
{
    int64_t n = t->dtype == TD_RESOURCE ? td_tensor_count(t) : 0;
    for (int64_t i = 0; i < n; i++) {
        struct td_obj *o = td_tensor_obj(t, i);
        TD_FAIL_IF(o && o->type == &td_array_type, err, INVALID_ARGUMENT,
                   "TensorArray %s: the value to write is a TensorArray, want anything else", a->name);
    }
    return TD_OK;
}

enum td_code td_array_write(struct td_array *a, int64_t i, struct td_tensor *t, struct td_err *err)
{
    TD_FAIL_IF(i < 0 || (i >= a->n && !a->dynamic), err, INVALID_ARGUMENT,
               "TensorArray %s: Tried to write to index %lld but array is not resizeable and size is: %lld",
               a->name, (long long)i, (long long)a->n);
    TD_TRY(td_array_check_write(a, t->dtype, err));
    TD_TRY(td_array_check_plain(a, t, err));
    TD_FAIL_IF(
        !td_shape_compatible(&a->shape, &t->shape), err, INVALID_ARGUMENT,
        "TensorArray %s: Could not write to TensorArray index %lld because the value shape is %s which is "
        "incompatible with the TensorArray's inferred element shape: %s (consider setting "
        "infer_shape=False).",
        a->name, (long long)i, TD_SHAPE_STR(&t->shape), TD_SHAPE_STR(&a->shape));
    if (i >= a->n) {
        TD_TRY(td_array_grow(a, i + 1, err));
    }
    struct td_array_element *e = &a->items[i];
    TD_FAIL_IF(e->read, err, INVALID_ARGUMENT,
               "TensorArray %s: Could not write to TensorArray index %lld because it has already been read.",
               a->name, (long long)i);
    TD_FAIL_IF(
        e->written && !a->aggregate, err, INVALID_ARGUMENT,
        "TensorArray %s: Could not write to TensorArray index %lld because it has already been written to.",
        a->name, (long long)i);
    if (a->identical) {
        TD_TRY(td_shape_merge(&a->shape, &t->shape, &a->shape, err));
    }
    if (e->written) {
        return aggregate(a, i, t, err);
    }
    e->value = *t;
    e->shape = t->shape;
    e->written = true;
    memset(t, 0, sizeof *t);
    return TD_OK;
}

/* *t = zeros, of what shape is known for element i. There are no zero strings or objects. */
static enum td_code read_zeros(const struct td_array *a, int64_t i, struct td_tensor *t, struct td_err *err)
{
    const struct td_shape *shape = a->items[i].shape.rank >= 0 ? &a->items[i].shape : &a->shape;
    TD_FAIL_IF(
        !td_shape_known(shape) || td_dtype_is_object(a->dtype), err, INVALID_ARGUMENT,
        "TensorArray %s: Could not read from TensorArray index %lld.  Furthermore, the element shape is not "
        "fully defined: %s.  It is possible you are working with a resizeable TensorArray and stop_gradients "
        "is not allowing the gradients to be written.",
        a->name, (long long)i, TD_SHAPE_STR(shape));
    TD_TRY(td_tensor_new(t, a->dtype, shape, err));
    if (td_tensor_bytes(t) > 0) {
        memset(t->data, 0, td_tensor_bytes(t));
    }
    return TD_OK;
}

enum td_code td_array_read(struct td_array *a, int64_t i, struct td_tensor *t, struct td_err *err)
{
    TD_FAIL_IF(i < 0 || i >= a->n, err, INVALID_ARGUMENT,
               "TensorArray %s: Tried to read from index %lld but array size is: %lld", a->name, (long long)i,
               (long long)a->n);
    struct td_array_element *e = &a->items[i];
    TD_FAIL_IF(e->cleared, err, INVALID_ARGUMENT,
               "TensorArray %s: Could not read index %lld twice because it was cleared after a previous read "
               "(perhaps "
               "try setting clear_after_read = false?).",
               a->name, (long long)i);
    if (e->written) {
        td_tensor_ref(t, &e->value);
    } else {
        TD_TRY(read_zeros(a, i, t, err));
    }
    e->read = true;
    if (a->clear_after_read) {
        td_tensor_clear(&e->value);
        e->cleared = true;
    }
    return TD_OK;
}
