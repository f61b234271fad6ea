/* kernels/data/dataset_shuffle.c - shuffled datasets and the generators of their seeds.
 *
 * A shuffling gets two seeds from its generator when an iterator of it is made: the op's own two each time,
 * or, if it is to shuffle anew in each pass, the next two words of the random numbers that these seed. So the
 * order is TensorFlow's. A generator is the dataset's own, or one that AnonymousSeedGenerator made and
 * several share.
 *
 * The buffer slides: the element at its front leaves into the place of the one that was chosen, new ones come
 * behind. Threads: mu of a generator guards its random numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "kernels/data/dataset.h"
#include "kernels/ops.h"

struct seeds {
    struct td_obj obj;
    pthread_mutex_t mu;
    uint64_t seed[2];
    bool anew;
    struct td_philox generator;
    struct td_philox_words words; /* of generator */
};

static void seeds_destroy(struct td_obj *o)
{
    struct seeds *s = (struct seeds *)o;
    pthread_mutex_destroy(&s->mu);
    td_free(s);
}

static const struct td_obj_type seeds_type = {.name = "SeedGenerator", .destroy = seeds_destroy};

/* Returns new. Two zeros: seeds of the system's choice. */
static enum td_code seeds_new(int64_t seed, int64_t seed2, bool anew, struct td_obj **out, struct td_err *err)
{
    struct seeds *s = td_calloc(1, sizeof *s);
    if (!s) {
        return td_no_memory(err, sizeof *s, "seed generator");
    }
    s->seed[0] = (uint64_t)seed;
    s->seed[1] = (uint64_t)seed2;
    if (seed == 0 && seed2 == 0 && getrandom(s->seed, sizeof s->seed, 0) != sizeof s->seed) {
        td_free(s);
        return td_fail(err, TD_INTERNAL, "the system gives no random seed");
    }
    td_obj_init(&s->obj, &seeds_type);
    pthread_mutex_init(&s->mu, NULL);
    s->anew = anew;
    s->generator = td_philox_make(s->seed[0], 0, s->seed[1]);
    s->words = (struct td_philox_words){.g = &s->generator};
    *out = &s->obj;
    return TD_OK;
}

void td_dataset_shuffle_seed(struct td_dataset_iter *it)
{
    struct seeds *s = (struct seeds *)it->ds->seeds;
    uint64_t seed[2] = {s->seed[0], s->seed[1]};
    if (s->anew) {
        pthread_mutex_lock(&s->mu);
        seed[0] = td_philox_word(&s->words);
        seed[1] = td_philox_word(&s->words);
        pthread_mutex_unlock(&s->mu);
    }
    it->generator = td_philox_make(seed[0], 0, seed[1]);
    it->words = (struct td_philox_words){.g = &it->generator};
}

/* A random one of the buffered elements leaves, the first takes its place. */
static enum td_code next_shuffle(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                 bool *end, struct td_err *err)
{
    int width = it->ds->n_out;
    TD_TRY(td_dataset_buffer_fill(c, it, it->ds->number[0], &it->at, err)); /* at: capacity of the buffer */
    *end = it->n_buffered == 0;
    if (*end) {
        return TD_OK;
    }
    struct td_tensor *first = it->buffer + it->front * width;
    int64_t i = (int64_t)(td_philox_word(&it->words) % (uint64_t)it->n_buffered);
    td_dataset_move(out, first + i * width, width);
    if (i > 0) {
        td_dataset_move(first + i * width, first, width);
    }
    it->front++;
    it->n_buffered--;
    return TD_OK;
}

static enum td_code finish_shuffle(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    TD_FAIL_IF(ds->number[0] == 0 || ds->number[0] < -1, err, INVALID_ARGUMENT,
               "%s: buffer_size must be greater than zero or UNKNOWN_CARDINALITY", TD_NODE_STR(n));
    ds->number[0] = ds->number[0] < 0 ? INT64_MAX : ds->number[0];
    ds->cardinality = ds->from[0]->cardinality;
    return td_dataset_same_width(n, ds, err);
}

/* The generator that is the op's last input, or NULL: it has none, or a stand-in. */
static struct td_obj *given_seeds(const struct td_call *c)
{
    const struct td_tensor *t = c->in[c->n_in - 1];
    struct td_obj *o = t->dtype == TD_RESOURCE && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
    return o && o->type == &seeds_type ? o : NULL;
}

static enum td_code shuffle_run(struct td_call *c, struct td_err *err)
{
    static const struct td_dataset_kind k = {1, false, next_shuffle, finish_shuffle};
    struct td_dataset *ds;
    TD_TRY(td_dataset_build(c, &k, &ds, err));
    struct td_obj *given = given_seeds(c);
    enum td_code rc = TD_OK;
    if (given) {
        ds->seeds = td_obj_ref(given);
    } else if (c->n_in == 3) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "%s: seed_generator is none", TD_NODE_STR(c->node));
    } else {
        bool anew = td_attr_bool(c->node, "reshuffle_each_iteration");
        rc = seeds_new(ds->number[1], ds->number[2], anew, &ds->seeds, err);
    }
    if (rc) {
        td_obj_unref(&ds->nest.obj);
        return rc;
    }
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* The second output is what deletes it: any variant serves. */
static enum td_code generator_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    for (int i = 0; i < 3; i++) {
        TD_FAIL_IF(td_tensor_count(c->in[i]) != 1, err, INVALID_ARGUMENT,
                   "%s: input %d must be a scalar, but has shape %s", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(&c->in[i]->shape));
    }
    TD_TRY(seeds_new(td_tensor_int(c->in[0], 0), td_tensor_int(c->in[1], 0), TD_DATA(c->in[2], td_bool)[0],
                     &o, err));
    enum td_code rc = TD_OK;
    for (int i = 0; i < c->n_out && !rc; i++) {
        struct td_tensor *out;
        rc = td_out(c, i, NULL, &out, err);
        if (!rc) {
            td_tensor_set_obj(out, 0, td_obj_ref(o));
        }
    }
    td_obj_unref(o);
    return rc;
}

static enum td_code nothing_run(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

#define T_S "output_types:list(type); output_shapes:list(shape); metadata:string=''"
#define ROW(opname, signature, more, fn)                                                                     \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_NO_FOLD | (more),                     \
        .infer = td_dataset_scalars, .kernels = TD_KERNEL("dataset.cpu", fn)                                 \
    }

const struct td_op td_ops_dataset_shuffle[] = {
    ROW("ShuffleDataset",
        "(input_dataset:variant, buffer_size:int64, seed:int64, seed2:int64) -> (handle:variant) "
        "{reshuffle_each_iteration:bool=true; " T_S "}",
        0, shuffle_run),
    ROW("ShuffleDatasetV2",
        "(input_dataset:variant, buffer_size:int64, seed_generator:resource) -> (handle:variant) {" T_S "}",
        TD_OP_STATEFUL, shuffle_run),
    ROW("ShuffleDatasetV3",
        "(input_dataset:variant, buffer_size:int64, seed:int64, seed2:int64, seed_generator:resource) -> "
        "(handle:variant) {reshuffle_each_iteration:bool=true; " T_S "}",
        TD_OP_STATEFUL, shuffle_run),
    ROW("AnonymousSeedGenerator",
        "(seed:int64, seed2:int64, reshuffle:bool) -> (handle:resource, deleter:variant) {}", TD_OP_STATEFUL,
        generator_run),
    ROW("DeleteSeedGenerator", "(handle:resource, deleter:variant) -> () {}", TD_OP_STATEFUL, nothing_run),
    {.name = NULL},
};
