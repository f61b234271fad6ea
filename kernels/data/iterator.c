/* kernels/data/iterator.c - iterator resources over datasets.
 *
 * An anonymous iterator is made anew by every run; IteratorV2 and OneShotIterator belong to the model version
 * and keep their place between runs. Threads: mu guards the place; an element is made with it held, so that
 * calls get elements one after the other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <pthread.h>
#include <time.h>

#include "core/base/mem.h"
#include "kernels/data/dataset.h"
#include "kernels/control/optional.h"

struct iterator {
    struct td_obj obj;
    pthread_mutex_t mu;
    struct td_dataset_iter *place; /* NULL until MakeIterator */
};

static void iterator_destroy(struct td_obj *o)
{
    struct iterator *it = (struct iterator *)o;
    td_dataset_iter_free(it->place);
    pthread_mutex_destroy(&it->mu);
    td_free(it);
}

static const struct td_obj_type iterator_type = {.name = "Iterator", .destroy = iterator_destroy};

static enum td_code create(const void *arg, struct td_obj **out, struct td_err *err)
{
    (void)arg;
    struct iterator *it = td_calloc(1, sizeof *it);
    if (!it) {
        return td_no_memory(err, sizeof *it, "iterator");
    }
    td_obj_init(&it->obj, &iterator_type);
    pthread_mutex_init(&it->mu, NULL);
    *out = &it->obj;
    return TD_OK;
}

static enum td_code anonymous_run(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) { /* the second is what deletes it: any variant serves */
        struct td_obj *o = NULL;
        TD_TRY(create(NULL, &o, err));
        TD_TRY(td_out_obj(c, i, o, err));
    }
    return TD_OK;
}

static enum td_code named(struct td_call *c, struct td_obj **o, struct td_err *err)
{
    const char *name = td_attr_str(c->node, "shared_name");
    struct td_resource_key key = {&iterator_type, td_attr_str(c->node, "container"),
                                  name[0] ? name : c->node->name};
    return td_resource_get(c, &key, create, NULL, o, err);
}

static enum td_code named_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(named(c, &o, err));
    return td_out_obj(c, 0, td_obj_ref(o), err);
}

/* Starts `it` on ds, at its first element. */
static enum td_code start(struct iterator *it, struct td_dataset *ds, struct td_err *err)
{
    struct td_dataset_iter *place;
    TD_TRY(td_dataset_iter_new(ds, &place, err));
    pthread_mutex_lock(&it->mu);
    struct td_dataset_iter *old = it->place;
    it->place = place;
    pthread_mutex_unlock(&it->mu);
    td_dataset_iter_free(old);
    return TD_OK;
}

static enum td_code one_shot_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor made = {0};
    TD_TRY(named(c, &o, err));
    struct iterator *it = (struct iterator *)o;
    pthread_mutex_lock(&it->mu);
    bool started = it->place != NULL;
    pthread_mutex_unlock(&it->mu);
    if (!started) {
        struct td_function_values v = {.out = &made, .n_out = 1};
        TD_TRY(td_call_function(c, "dataset_factory", 0, &v, err));
        struct td_obj *d =
            made.dtype == TD_VARIANT && td_tensor_count(&made) == 1 ? td_tensor_obj(&made, 0) : NULL;
        enum td_code rc = d && d->type == &td_dataset_type
                              ? start(it, (struct td_dataset *)d, err)
                              : td_fail(err, TD_INVALID_ARGUMENT, "%s: dataset_factory returns no dataset",
                                        TD_NODE_STR(c->node));
        td_tensor_clear(&made);
        if (rc) {
            return rc;
        }
    }
    return td_out_obj(c, 0, td_obj_ref(o), err);
}

static enum td_code make_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    struct td_obj *o;
    TD_TRY(td_dataset_in(c, 0, &ds, err));
    TD_TRY(td_in_resource(c, 1, &iterator_type, &o, err));
    return start((struct iterator *)o, ds, err);
}

/* Waits by polling: a dataset's own function may ask for the element that is being made. */
static enum td_code lock(const struct td_call *c, struct iterator *it, struct td_err *err)
{
    const struct timespec pause = {0, 100000};
    while (pthread_mutex_trylock(&it->mu)) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        nanosleep(&pause, NULL);
    }
    return TD_OK;
}

/* *element = n new tensors, or NULL at the end; freed with td_dataset_clear and td_free. */
static enum td_code next(struct td_call *c, struct td_tensor **element, int *n, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &iterator_type, &o, err));
    struct iterator *it = (struct iterator *)o;
    bool end = false;
    enum td_code rc = TD_OK;
    *element = NULL;
    TD_TRY(lock(c, it, err));
    if (!it->place) {
        rc = td_fail(err, TD_FAILED_PRECONDITION,
                     "%s: GetNext() failed because the iterator has not been initialized. Ensure that you "
                     "have run the "
                     "initializer operation for this iterator before getting the next element.",
                     TD_NODE_STR(c->node));
    } else {
        *n = it->place->ds->n_out;
        *element = td_calloc((size_t)*n + 1, sizeof **element);
        rc = *element ? td_dataset_next(c, it->place, *element, &end, err)
                      : td_no_memory(err, (size_t)*n * sizeof **element, "dataset element");
    }
    pthread_mutex_unlock(&it->mu);
    if (rc || end) {
        td_free(*element);
        *element = NULL;
    }
    return rc;
}

static enum td_code check_types(const struct td_call *c, const struct td_tensor *element, int n,
                                struct td_err *err)
{
    int want;
    const enum td_dtype *types = td_attr_types(c->node, "output_types", &want);
    bool same = n == want;
    for (int k = 0; same && k < n; k++) {
        same = element[k].dtype == types[k];
    }
    TD_FAIL_IF(!same, err, INVALID_ARGUMENT, "%s: the element's %d components are not of the %d output_types",
               TD_NODE_STR(c->node), n, want);
    return TD_OK;
}

static enum td_code get_next_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *element;
    int n = 0;
    TD_TRY(next(c, &element, &n, err));
    TD_FAIL_IF(!element, err, OUT_OF_RANGE, "%s: End of sequence", TD_NODE_STR(c->node));
    enum td_code rc = check_types(c, element, n, err);
    for (int k = 0; k < n && !rc; k++) {
        td_out_move(c, k, &element[k]);
    }
    td_dataset_clear(element, n);
    td_free(element);
    return rc;
}

/* element NULL: an optional of nothing. */
static enum td_code make_optional(const struct td_call *c, struct td_tensor *element, int n,
                                  struct td_obj **o, struct td_err *err)
{
    TD_TRY(element ? check_types(c, element, n, err) : TD_OK);
    return td_optional_make(element, n, o, err);
}

static enum td_code get_optional_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *element;
    struct td_obj *o;
    int n = 0;
    TD_TRY(next(c, &element, &n, err));
    enum td_code rc = make_optional(c, element, n, &o, err);
    td_dataset_clear(element, n);
    td_free(element);
    if (rc) {
        return rc;
    }
    return td_out_obj(c, 0, o, err);
}

static enum td_code nothing_run(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

static enum td_code scalars_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = td_shape_scalar();
    }
    return TD_OK;
}

#define T_S "output_types:list(type); output_shapes:list(shape)"
#define ROW(opname, signature, more, shapes, fn)                                                             \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_STATEFUL | (more), .infer = shapes,                 \
        .kernels = TD_KERNEL("iterator.cpu", fn)                                                             \
    }

const struct td_op td_ops_iterator[] = {
    ROW("AnonymousIterator", "() -> (handle:resource) {" T_S "}", 0, scalars_infer, anonymous_run),
    ROW("AnonymousIteratorV2", "() -> (handle:resource, deleter:variant) {" T_S "}", 0, scalars_infer,
        anonymous_run),
    ROW("AnonymousIteratorV3", "() -> (handle:resource) {" T_S "}", 0, scalars_infer, anonymous_run),
    ROW("IteratorV2", "() -> (handle:resource) {shared_name:string; container:string; " T_S "}", TD_OP_HANDLE,
        scalars_infer, named_run),
    ROW("OneShotIterator",
        "() -> (handle:resource) {dataset_factory:func; " T_S "; container:string=''; shared_name:string=''}",
        0, scalars_infer, one_shot_run),
    ROW("MakeIterator", "(dataset:variant, iterator:resource) -> () {}", 0, NULL, make_run),
    ROW("DeleteIterator", "(handle:resource, deleter:variant) -> () {}", 0, NULL, nothing_run),
    ROW("IteratorGetNext", "(iterator:resource) -> (components:output_types) {" T_S "}", 0, NULL,
        get_next_run),
    ROW("IteratorGetNextSync", "(iterator:resource) -> (components:output_types) {" T_S "}", 0, NULL,
        get_next_run),
    ROW("IteratorGetNextAsOptional", "(iterator:resource) -> (optional:variant) {" T_S "}", 0, scalars_infer,
        get_optional_run),
    {.name = NULL},
};
