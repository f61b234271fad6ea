/* kernels/data/dataset.c - the two objects: a dataset, which is counted and immutable, and an iterator, which
 * belongs to one place.
 *
 *   dataset  -> from[] datasets it draws on, arg[] kept tensors, function, next()
 *   iterator -> its dataset, from[] an iterator for each of those, state[], buffer, open[]
 *
 * A new iterator makes those of its inputs with it, so a chain of datasets is a tree of iterators; freeing
 * goes the same way, as deep as datasets nest, which making them has bounded. td_dataset_next stands around
 * every kind's next(): it remembers the end, looks at the stop word, and clears what a failure has left half
 * made. Functions are called through a copy of the pulling op's call whose node names the dataset's function.
 *
 * One iterator is used by one thread at a time; resources lock around it (kernels/data/iterator.c). Does not:
 * know any kind of dataset (dataset_ops.c, dataset_next.c and their like).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/dataset.h"

#include "core/base/mem.h"

void td_dataset_clear(struct td_tensor *t, int64_t n)
{
    for (int64_t i = 0; t && i < n; i++) {
        td_tensor_clear(&t[i]);
    }
}

static void dataset_destroy(struct td_obj *o)
{
    struct td_dataset *ds = (struct td_dataset *)o;
    for (int i = 0; ds->from && i < ds->n_from; i++) {
        if (ds->from[i]) {
            td_obj_unref(&ds->from[i]->nest.obj);
        }
    }
    td_free(ds->from);
    td_dataset_clear(ds->arg, ds->n_args);
    td_free(ds->arg);
    td_free(ds->function);
    td_free(ds->reduce);
    td_free(ds->window_size);
    if (ds->seeds) {
        td_obj_unref(ds->seeds);
    }
    if (ds->cache) {
        td_obj_unref(ds->cache);
    }
    td_free(ds);
}

const struct td_obj_type td_dataset_type = {.name = "Dataset", .destroy = dataset_destroy, .nests = true};

enum td_code td_dataset_new(td_dataset_next_fn *next, int n_out, int n_from, int n_args,
                            struct td_dataset **out, struct td_err *err)
{
    struct td_dataset *ds = td_calloc(1, sizeof *ds);
    if (!ds) {
        return td_no_memory(err, sizeof *ds, "dataset");
    }
    td_obj_init(&ds->nest.obj, &td_dataset_type);
    ds->nest.depth = 1;
    ds->next = next;
    ds->n_out = n_out;
    ds->cardinality = TD_DATASET_UNKNOWN;
    ds->n_from = n_from;
    ds->n_args = n_args;
    ds->from = td_calloc((size_t)n_from + 1, sizeof *ds->from);
    ds->arg = td_calloc((size_t)n_args + 1, sizeof *ds->arg);
    if (!ds->from || !ds->arg) {
        td_obj_unref(&ds->nest.obj);
        return td_no_memory(err, (size_t)n_args * sizeof *ds->arg, "dataset");
    }
    *out = ds;
    return TD_OK;
}

enum td_code td_dataset_in(const struct td_call *c, int i, struct td_dataset **out, struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    struct td_obj *o = t->dtype == TD_VARIANT && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
    TD_FAIL_IF(!o || o->type != &td_dataset_type, err, INVALID_ARGUMENT,
               "%s: input %d: Tensor must be a Dataset object, but is %s", TD_NODE_STR(c->node), i,
               o ? o->type->name : "something else");
    *out = (struct td_dataset *)o;
    return TD_OK;
}

enum td_code td_dataset_given(const struct td_tensor *t, const char *function, int n_out,
                              struct td_dataset **out, struct td_err *err)
{
    struct td_obj *o = t->dtype == TD_VARIANT && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
    struct td_dataset *ds = o && o->type == &td_dataset_type ? (struct td_dataset *)o : NULL;
    TD_FAIL_IF(!ds || ds->n_out != n_out, err, INVALID_ARGUMENT, "%s: must return a dataset of %d components",
               function, n_out);
    *out = ds;
    return TD_OK;
}

/* ------------------------------------------------------------------ iterators */

void td_dataset_iter_free(struct td_dataset_iter *it)
{
    if (!it) {
        return;
    }
    for (int i = 0; it->from && i < it->ds->n_from; i++) {
        td_dataset_iter_free(it->from[i]);
    }
    for (int i = 0; i < it->n_open; i++) {
        td_dataset_iter_free(it->open[i]);
    }
    td_dataset_clear(it->state, it->ds->n_state);
    if (it->buffer) {
        td_dataset_clear(it->buffer + it->front * it->ds->n_out, it->n_buffered * it->ds->n_out);
    }
    if (it->own) {
        it->own_free(it->own, it->ds->n_out);
    }
    td_free(it->from);
    td_free(it->open);
    td_free(it->state);
    td_free(it->buffer);
    td_obj_unref(&it->ds->nest.obj);
    td_free(it);
}

enum td_code td_dataset_iter_new(struct td_dataset *ds, struct td_dataset_iter **out, struct td_err *err)
{
    struct td_dataset_iter *it = td_calloc(1, sizeof *it);
    if (!it) {
        return td_no_memory(err, sizeof *it, "dataset iterator");
    }
    it->ds = ds;
    td_obj_ref(&ds->nest.obj);
    if (ds->seeds) {
        td_dataset_shuffle_seed(it);
    }
    it->reads_cache = ds->cache != NULL && td_dataset_cache_ready(ds);
    it->from = td_calloc((size_t)ds->n_from + 1, sizeof *it->from);
    it->state = td_calloc((size_t)ds->n_state + 1, sizeof *it->state);
    enum td_code rc = it->from && it->state ? TD_OK : td_no_memory(err, sizeof *it, "dataset iterator");
    for (int i = 0; i < ds->n_state && !rc; i++) {
        td_tensor_ref(&it->state[i], &ds->arg[i]);
    }
    for (int i = 0; i < ds->n_from && !rc; i++) {
        rc = td_dataset_iter_new(ds->from[i], &it->from[i], err);
    }
    if (rc) {
        td_dataset_iter_free(it);
        return rc;
    }
    *out = it;
    return TD_OK;
}

enum td_code td_dataset_next(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out, bool *end,
                             struct td_err *err)
{
    *end = it->over;
    if (it->over) {
        return TD_OK;
    }
    if (td_stopped(c)) {
        return td_stop_error(c, err);
    }
    enum td_code rc = it->ds->next(c, it, out, end, err);
    it->over = *end;
    if (rc || *end) {
        td_dataset_clear(out, it->ds->n_out);
    }
    return rc;
}

/* td_call_function takes the name from an attribute of the call's node: a stand-in node carries ours. */
enum td_code td_dataset_call(struct td_call *c, const char *function, const struct td_tensor *const parts[3],
                             const int n_part[3], struct td_tensor *out, int n_out, struct td_err *err)
{
    struct td_func_ref ref = {.name = function};
    struct td_attr attr = {.name = "f", .kind = TD_ATTR_FUNC, .n = 1, .func = &ref};
    struct td_node node = *c->node;
    struct td_call call = *c;
    int n = n_part[0] + n_part[1] + n_part[2], k = 0;
    const struct td_tensor **in = td_calloc((size_t)n + 1, sizeof *in);
    if (!in) {
        return td_no_memory(err, (size_t)n * sizeof *in, "arguments of a dataset function");
    }
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < n_part[p]; i++) {
            in[k++] = &parts[p][i];
        }
    }
    node.attrs = &attr;
    node.n_attrs = 1;
    call.node = &node;
    struct td_function_values v = {.in = in, .n_in = n, .out = out, .n_out = n_out};
    enum td_code rc = td_call_function(&call, "f", 0, &v, err);
    td_free(in);
    return rc;
}
