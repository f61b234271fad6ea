/* kernels/data/dataset_cache.c - CacheDataset: what an iterator of it has read to the end, later ones are
 * given again.
 *
 * That shows where the input is not the same each time: random numbers and shuffles are drawn once. Elements
 * are kept in memory, with the dataset; a cache in a file is not made, there the input is passed through. An
 * iterator that is dropped before its end stores nothing. The cache resources of CacheDatasetV2 tell
 * TensorFlow how long to keep the elements; here a dataset keeps its own, so they are empty objects.
 *
 * Threads: mu guards a cache until it is complete; then it does not change.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "core/base/mem.h"
#include "kernels/data/dataset.h"
#include "kernels/ops.h"

struct cache {
    struct td_obj obj;
    pthread_mutex_t mu;
    bool complete;
    struct td_tensor *element; /* n of `width` tensors */
    int64_t n;
    int width;
};

static void cache_destroy(struct td_obj *o)
{
    struct cache *k = (struct cache *)o;
    td_dataset_clear(k->element, k->n * k->width);
    td_free(k->element);
    pthread_mutex_destroy(&k->mu);
    td_free(k);
}

static const struct td_obj_type cache_type = {.name = "DatasetCache", .destroy = cache_destroy};

static enum td_code cache_new(int width, struct td_obj **out, struct td_err *err)
{
    struct cache *k = td_calloc(1, sizeof *k);
    if (!k) {
        return td_no_memory(err, sizeof *k, "dataset cache");
    }
    td_obj_init(&k->obj, &cache_type);
    pthread_mutex_init(&k->mu, NULL);
    k->width = width;
    *out = &k->obj;
    return TD_OK;
}

bool td_dataset_cache_ready(const struct td_dataset *ds)
{
    struct cache *k = (struct cache *)ds->cache;
    pthread_mutex_lock(&k->mu);
    bool ready = k->complete;
    pthread_mutex_unlock(&k->mu);
    return ready;
}

/* The iterator's buffer becomes the cache, unless another one was first. */
static void complete(struct cache *k, struct td_dataset_iter *it)
{
    pthread_mutex_lock(&k->mu);
    if (!k->complete) {
        k->element = it->buffer;
        k->n = it->n_buffered;
        k->complete = true;
        it->buffer = NULL;
        it->n_buffered = 0;
    }
    pthread_mutex_unlock(&k->mu);
}

static void give(const struct td_tensor *element, struct td_tensor *out, int width)
{
    for (int i = 0; i < width; i++) {
        td_tensor_ref(&out[i], &element[i]);
    }
}

static enum td_code next_cached(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                bool *end, struct td_err *err)
{
    struct cache *k = (struct cache *)it->ds->cache;
    if (it->reads_cache) {
        *end = it->at == k->n;
        if (!*end) {
            give(k->element + it->at++ * k->width, out, k->width);
        }
        return TD_OK;
    }
    int64_t before = it->n_buffered;
    TD_FAIL_IF(before == TD_LIST_LIMIT, err, RESOURCE_EXHAUSTED, "%s: a cache of more than %lld elements",
               TD_NODE_STR(c->node), (long long)TD_LIST_LIMIT);
    TD_TRY(td_dataset_buffer_fill(c, it, before + 1, &it->at, err)); /* at: capacity of the buffer */
    *end = it->n_buffered == before;
    if (*end) {
        complete(k, it);
    } else {
        give(it->buffer + before * k->width, out, k->width);
    }
    return TD_OK;
}

static enum td_code finish_cache(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    ds->cardinality = ds->from[0]->cardinality;
    return td_dataset_same_width(n, ds, err);
}

static enum td_code cache_run(struct td_call *c, struct td_err *err)
{
    static const struct td_dataset_kind k = {.n_from = 1, .next = next_cached, .finish = finish_cache};
    const struct td_tensor *file = c->in[1];
    struct td_dataset *ds;
    size_t len = 0;
    TD_FAIL_IF(td_tensor_count(file) != 1, err, INVALID_ARGUMENT,
               "%s: filename must be a scalar, but has shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&file->shape));
    (void)td_tensor_str(file, 0, &len);
    if (len > 0) {
        TD_TRY(td_dataset_in(c, 0, &ds, err));
        td_obj_ref(&ds->nest.obj);
        return td_tensor_list_out_nest(c, &ds->nest, err);
    }
    TD_TRY(td_dataset_build(c, &k, &ds, err));
    enum td_code rc = cache_new(ds->n_out, &ds->cache, err);
    if (rc) {
        td_obj_unref(&ds->nest.obj);
        return rc;
    }
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* The handles of caches: empty objects. */
static void handle_destroy(struct td_obj *o)
{
    td_free(o);
}

static const struct td_obj_type handle_type = {.name = "MemoryCache", .destroy = handle_destroy};

static enum td_code handle_run(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *out;
        TD_TRY(td_out(c, i, NULL, &out, err));
        struct td_obj *o = td_calloc(1, sizeof *o);
        if (!o) {
            return td_no_memory(err, sizeof *o, "dataset helper");
        }
        td_obj_init(o, &handle_type);
        td_tensor_set_obj(out, 0, o);
    }
    return TD_OK;
}

static enum td_code delete_run(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define T_S "{output_types:list(type); output_shapes:list(shape); metadata:string=''}"
#define ROW(opname, signature, more, fn)                                                                     \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_NO_FOLD | (more),                     \
        .infer = td_dataset_scalars, .kernels = TD_KERNEL("dataset.cpu", fn)                                 \
    }

const struct td_op td_ops_dataset_cache[] = {
    ROW("CacheDataset", "(input_dataset:variant, filename:string) -> (handle:variant) " T_S, 0, cache_run),
    ROW("CacheDatasetV2", "(input_dataset:variant, filename:string, cache:resource) -> (handle:variant) " T_S,
        TD_OP_STATEFUL, cache_run),
    ROW("DummySeedGenerator", "() -> (handle:resource) {}", TD_OP_STATEFUL, handle_run),
    ROW("DummyMemoryCache", "() -> (handle:resource) {}", TD_OP_STATEFUL, handle_run),
    ROW("DummyIterationCounter", "() -> (handle:resource) {}", TD_OP_STATEFUL, handle_run),
    ROW("AnonymousMemoryCache", "() -> (handle:resource, deleter:variant) {}", TD_OP_STATEFUL, handle_run),
    ROW("DeleteMemoryCache", "(handle:resource, deleter:variant) -> () {}", TD_OP_STATEFUL, delete_run),
    {.name = NULL},
};
