/* kernels/state/candidate.c - candidate samplers: classes drawn for sampled losses, and how often each was
 * to be expected.
 *
 *   true_classes [batch, num_true] -> sampled [num_sampled], true_expected [batch, num_true],
 *                                     sampled_expected [num_sampled]
 *
 * unique draws again until num_sampled different classes are found; the number of tries then gives the
 * expected counts. Each node keeps its generator and moves it on by 2048 words a sample, as TensorFlow does.
 * The samplers that learn or are given their distribution: candidate_unigram.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/state/candidate.h"

#include <float.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "kernels/ops.h"

#define WORDS_A_SAMPLE 2048

/* ------------------------------------------------------------------ distributions over [0, range) */

static int64_t uniform_draw(const struct td_candidates *s, struct td_philox_words *w)
{
    uint32_t lo = td_philox_word(w), hi = td_philox_word(w);
    return (int64_t)((lo | (uint64_t)hi << 32) % (uint64_t)s->range);
}

static float uniform_probability(const struct td_candidates *s, int64_t v)
{
    (void)v;
    return (float)(1.0 / (double)s->range);
}

static int64_t log_uniform_draw(const struct td_candidates *s, struct td_philox_words *w)
{
    uint32_t x0 = td_philox_word(w), x1 = td_philox_word(w);
    int64_t v = (int64_t)exp(td_philox_double(x0, x1) * log1p((double)s->range)) - 1;
    return v % s->range;
}

static float log_uniform_probability(const struct td_candidates *s, int64_t v)
{
    return (float)(log(((double)v + 2.0) / ((double)v + 1.0)) / log1p((double)s->range));
}

/* How often a class of probability p is expected among n samples that took `tries` draws. */
static float expected(float p, int64_t n, int64_t tries)
{
    if (tries == n) {
        return p * (float)n;
    }
    return (float)-expm1((double)tries * log1p((double)-p));
}

/* ------------------------------------------------------------------ drawing */

static bool seen(const int64_t *v, int64_t n, int64_t x)
{
    for (int64_t i = 0; i < n; i++) {
        if (v[i] == x) {
            return true;
        }
    }
    return false;
}

/* Open-addressed set of the classes drawn so far, for large samples. */
static bool set_add(int64_t *slots, uint64_t mask, int64_t x)
{
    uint64_t i = (uint64_t)x * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (slots[i] >= 0) {
        if (slots[i] == x) {
            return false;
        }
        i = (i + 1) & mask;
    }
    slots[i] = x;
    return true;
}

static enum td_code draw_unique(struct td_call *c, const struct td_candidates *s, struct td_philox_words *w,
                                int64_t *out, int64_t n, int64_t *tries, struct td_err *err)
{
    uint64_t size = 64;
    void *mem;
    while (size < (uint64_t)n * 2) {
        size *= 2;
    }
    TD_TRY(td_scratch(c, size * sizeof(int64_t), &mem, err));
    memset(mem, 0xff, size * sizeof(int64_t));
    *tries = 0;
    for (int64_t k = 0; k < n;) {
        TD_FAIL_IF(*tries >= INT32_MAX, err, INTERNAL, "%s: %lld draws gave %lld of %lld different classes",
                   TD_NODE_STR(c->node), (long long)*tries, (long long)k, (long long)n);
        if ((*tries & 0xffff) == 0xffff && td_stopped(c)) {
            return td_stop_error(c, err);
        }
        int64_t v = s->draw(s, w);
        ++*tries;
        if (set_add(mem, size - 1, v)) {
            out[k++] = v;
        }
    }
    return TD_OK;
}

static enum td_code check_true(const struct td_call *c, int64_t range, struct td_err *err)
{
    const struct td_tensor *t = c->in[0];
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        int64_t v = TD_DATA(t, int64_t)[i];
        TD_FAIL_IF(v < 0 || v >= range, err, INVALID_ARGUMENT,
                   "%s: `true_candidate` out of range [0, %lld), received %lld", TD_NODE_STR(c->node),
                   (long long)range, (long long)v);
    }
    return TD_OK;
}

/* What the node keeps: the generator, and behind it what the sampler does. */
struct state {
    uint64_t ready;
    struct td_philox g;
};

static enum td_code make_ready(struct td_call *c, struct td_candidates *s, struct state *state,
                               struct td_err *err)
{
    uint64_t seeds[2] = {(uint64_t)td_attr_int(c->node, "seed"), (uint64_t)td_attr_int(c->node, "seed2")};
    s->kept = state + 1;
    if (state->ready) {
        return TD_OK;
    }
    if (seeds[0] == 0 && seeds[1] == 0) {
        TD_FAIL_IF(getrandom(seeds, sizeof seeds, 0) != sizeof seeds, err, INTERNAL,
                   "%s: the system gives no random seed", TD_NODE_STR(c->node));
    }
    if (s->begin != NULL) {
        TD_TRY(s->begin(c, s, err));
    }
    state->g = td_philox_make(seeds[0], 0, seeds[1]);
    state->ready = 1;
    return TD_OK;
}

struct drawn {
    int64_t *sampled;
    float *true_expected, *sampled_expected;
};

static enum td_code draw_all(struct td_call *c, const struct td_candidates *s, struct td_philox g,
                             const struct drawn *d, struct td_err *err)
{
    const int64_t n = td_attr_int(c->node, "num_sampled"), n_true = td_tensor_count(c->in[0]);
    const int64_t *truth = c->in[0]->data;
    struct td_philox_words w = {.g = &g};
    int64_t tries = n;
    if (td_attr_bool(c->node, "unique")) {
        TD_TRY(draw_unique(c, s, &w, d->sampled, n, &tries, err));
    } else {
        for (int64_t k = 0; k < n; k++) {
            d->sampled[k] = s->draw(s, &w);
        }
    }
    for (int64_t k = 0; k < n; k++) {
        d->sampled_expected[k] = expected(s->probability(s, d->sampled[k]), n, tries);
    }
    for (int64_t k = 0; k < n_true; k++) {
        d->true_expected[k] = expected(s->probability(s, truth[k]), n, tries);
    }
    return TD_OK;
}

/* The calls of a node whose distribution changes with them follow each other. */
enum td_code td_candidates_sample(struct td_call *c, struct td_candidates *s, struct td_err *err)
{
    struct td_tensor *sampled, *true_expected, *sampled_expected;
    void *mem, *lock;
    TD_TRY(check_true(c, s->range, err));
    TD_TRY(td_out(c, 0, NULL, &sampled, err));
    TD_TRY(td_out(c, 1, NULL, &true_expected, err));
    TD_TRY(td_out(c, 2, NULL, &sampled_expected, err));
    TD_TRY(td_node_state(c, sizeof(struct state) + s->kept_bytes, &mem, &lock, err));
    const struct drawn d = {sampled->data, true_expected->data, sampled_expected->data};
    const int64_t n = td_attr_int(c->node, "num_sampled");
    struct state *state = mem;
    td_state_lock(lock);
    enum td_code rc = make_ready(c, s, state, err);
    const struct td_philox g = state->g;
    if (rc == TD_OK) {
        td_philox_skip(&state->g, (uint64_t)n * (WORDS_A_SAMPLE / 4));
    }
    if (rc == TD_OK && s->learn != NULL) {
        rc = draw_all(c, s, g, &d, err);
        if (rc == TD_OK) {
            s->learn(s, c->in[0]->data, td_tensor_count(c->in[0]));
        }
    }
    td_state_unlock(lock);
    return rc == TD_OK && s->learn == NULL ? draw_all(c, s, g, &d, err) : rc;
}

static enum td_code log_uniform_run(struct td_call *c, struct td_err *err)
{
    struct td_candidates s = {.range = td_attr_int(c->node, "range_max"),
                              .draw = log_uniform_draw,
                              .probability = log_uniform_probability};
    return td_candidates_sample(c, &s, err);
}

static enum td_code uniform_run(struct td_call *c, struct td_err *err)
{
    struct td_candidates s = {
        .range = td_attr_int(c->node, "range_max"), .draw = uniform_draw, .probability = uniform_probability};
    return td_candidates_sample(c, &s, err);
}

/* Every class once. */
static enum td_code all_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    int64_t n = td_attr_int(c->node, "num_sampled");
    TD_TRY(check_true(c, n, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    for (int64_t i = 0; i < n; i++) {
        TD_DATA(out, int64_t)[i] = i;
    }
    for (int k = 1; k < 3; k++) {
        TD_TRY(td_out(c, k, NULL, &out, err));
        for (int64_t i = 0; i < td_tensor_count(out); i++) {
            TD_DATA(out, float)[i] = 1;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ shapes and checks */

static enum td_code all_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *t = &c->in[0];
    int64_t num_true = td_attr_int(c->node, "num_true"), n = td_attr_int(c->node, "num_sampled");
    TD_FAIL_IF(n < 1 || num_true < 1, err, INVALID_ARGUMENT,
               "%s: num_sampled %lld and num_true %lld, want at least 1", TD_NODE_STR(c->node), (long long)n,
               (long long)num_true);
    TD_FAIL_IF(t->rank >= 0 && t->rank != 2, err, INVALID_ARGUMENT, "%s: true_classes must be a matrix",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(t->rank == 2 && t->dim[1] >= 0 && t->dim[1] != num_true, err, INVALID_ARGUMENT,
               "%s: true_classes must have num_true columns, expected: %lld was: %lld", TD_NODE_STR(c->node),
               (long long)t->dim[1], (long long)num_true);
    c->out[0] = c->out[2] = td_shape_vector(n);
    c->out[1] = td_shape_matrix(t->rank == 2 ? t->dim[0] : -1, num_true);
    return TD_OK;
}

enum td_code td_candidates_infer(struct td_infer *c, struct td_err *err)
{
    int64_t n = td_attr_int(c->node, "num_sampled"), range = td_attr_int(c->node, "range_max");
    TD_FAIL_IF(range < 1 || range > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: range_max is %lld, want 1 to 2^31-1", TD_NODE_STR(c->node), (long long)range);
    TD_FAIL_IF(td_attr_bool(c->node, "unique") && n > range, err, INVALID_ARGUMENT,
               "%s: Sampler's range is too small.", TD_NODE_STR(c->node));
    return all_infer(c, err);
}

/* ------------------------------------------------------------------ ComputeAccidentalHits */

/* Pairs (row of true_classes, place in sampled_candidates) of the same class. */
static enum td_code hits_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *t = c->in[0], *s = c->in[1];
    struct td_tensor *rows, *ids, *weights;
    int64_t columns = t->shape.dim[1], n = 0, n_true = td_tensor_count(t), n_sampled = td_tensor_count(s);
    const int64_t *truth = t->data, *drawn = s->data;
    for (int64_t i = 0; i < n_true; i++) {
        n += seen(drawn, n_sampled, truth[i]);
    }
    struct td_shape vector = td_shape_vector(n);
    TD_TRY(td_out(c, 0, &vector, &rows, err));
    TD_TRY(td_out(c, 1, &vector, &ids, err));
    TD_TRY(td_out(c, 2, &vector, &weights, err));
    for (int64_t i = 0, k = 0; i < n_true; i++) {
        for (int64_t j = n_sampled; j-- > 0;) {
            if (drawn[j] == truth[i]) { /* the last place that has it */
                TD_DATA(rows, int32_t)[k] = (int32_t)(i / columns);
                TD_DATA(ids, int64_t)[k] = j;
                TD_DATA(weights, float)[k++] = -FLT_MAX;
                break;
            }
        }
    }
    return TD_OK;
}

static enum td_code hits_infer(struct td_infer *c, struct td_err *err)
{
    int64_t num_true = td_attr_int(c->node, "num_true");
    const struct td_shape *t = &c->in[0];
    TD_FAIL_IF(t->rank >= 0 && (t->rank != 2 || (t->dim[1] >= 0 && t->dim[1] != num_true)), err,
               INVALID_ARGUMENT, "%s: true_candidates must be a batch_size * num_true matrix",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
               "%s: sampled_candidates must be a vector, which is typically an output from CandidateSampler",
               TD_NODE_STR(c->node));
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define RANGE_SIG                                                                                            \
    "(true_classes:int64) -> " TD_CANDIDATES_OUTS                                                            \
    " {num_true:int; num_sampled:int; unique:bool; range_max:int; seed:int=0; seed2:int=0}"
#define ROW(opname, signature, shapes, fn)                                                                   \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_STATEFUL, .infer = shapes,                          \
        .kernels = TD_KERNEL("candidate.cpu", fn)                                                            \
    }

const struct td_op td_ops_candidate[] = {
    ROW("LogUniformCandidateSampler", RANGE_SIG, td_candidates_infer, log_uniform_run),
    ROW("UniformCandidateSampler", RANGE_SIG, td_candidates_infer, uniform_run),
    ROW("AllCandidateSampler",
        "(true_classes:int64) -> " TD_CANDIDATES_OUTS
        " {num_true:int; num_sampled:int; unique:bool; seed:int=0; seed2:int=0}",
        all_infer, all_run),
    {.name = "ComputeAccidentalHits",
     .sig = "(true_classes:int64, sampled_candidates:int64) -> (indices:int32, ids:int64, weights:float) "
            "{num_true:int; seed:int=0; seed2:int=0}",
     .infer = hits_infer,
     .kernels = TD_KERNEL("candidate.cpu", hits_run)},
    {.name = NULL},
};
