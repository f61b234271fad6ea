/* kernels/state/candidate_unigram.c - candidate samplers whose distribution is given, or learned.
 *
 *   FixedUnigramCandidateSampler    weights ^ distortion, of the attribute unigrams or the last fields of the
 *                                   lines of vocab_file, behind num_reserved_ids of weight 0; of several
 *                                   shards, this one's
 *   LearnedUnigramCandidateSampler  one more than how often a class was among true_classes before
 *   ThreadUnsafeUnigramCandidateSampler   the same
 *
 * Fixed weights are drawn from by a table of aliases, made once (Vose): a class and, with what probability of
 * its share is left, another. Learned ones lie in a tree of sums. Both are made, rounded and used up as in
 * TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/graph/graph.h"
#include "kernels/data/files.h"
#include "kernels/state/candidate.h"
#include "kernels/ops.h"
#include "kernels/text/parse_number.h"

/* ------------------------------------------------------------------ fixed */

struct alias {
    float part, weight; /* of its share that is its own; of all */
    int32_t other;
};
struct fixed {
    float total;
    struct alias of[];
};

static int64_t fixed_draw(const struct td_candidates *s, struct td_philox_words *w)
{
    const struct fixed *f = s->kept;
    const float r = td_philox_float(td_philox_word(w));
    const int64_t at = td_philox_word(w) % (uint32_t)s->range;
    return r < f->of[at].part ? at : f->of[at].other;
}

static float fixed_probability(const struct td_candidates *s, int64_t v)
{
    const struct fixed *f = s->kept;
    return f->of[v].weight / f->total;
}

/* Shares of 1 on the average: what one has less, another gives. high, low: stacks; left: the shares. */
static void pair(struct fixed *f, int64_t n, double *left, int32_t *high, int32_t *low)
{
    int64_t n_high = 0, n_low = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)f->of[i].weight;
    }
    for (int32_t i = 0; i < n; i++) {
        left[i] = (double)(f->of[i].weight * (float)n) / sum;
        if (left[i] < 1) {
            low[n_low++] = i;
        } else {
            high[n_high++] = i;
        }
    }
    while (n_high > 0 && n_low > 0) {
        const int32_t l = low[--n_low], h = high[--n_high];
        f->of[l].other = h;
        left[h] -= 1 - left[l];
        if (left[h] < 1) {
            low[n_low++] = h;
        } else {
            high[n_high++] = h;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        f->of[i].part = (float)left[i];
    }
    for (; n_high + n_low > 0;) {
        const int32_t i = n_high > 0 ? high[--n_high] : low[--n_low];
        f->of[i].part = 1;
        f->of[i].other = i;
    }
}

/* The weights as they are read: word `id` is the next. */
struct reading {
    struct td_call *c;
    struct fixed *f;
    int64_t range, n, id;
};

static enum td_code put_weight(struct reading *r, float w, struct td_err *err)
{
    const struct td_node *node = r->c->node;
    if (r->id++ % td_attr_int(node, "num_shards") != td_attr_int(node, "shard")) {
        return TD_OK;
    }
    TD_FAIL_IF(r->n >= r->range, err, INVALID_ARGUMENT,
               "%s: range is %lld must be equal to weights size, which is larger", TD_NODE_STR(node),
               (long long)r->range);
    r->f->of[r->n++].weight = w;
    r->f->total += w;
    return TD_OK;
}

static float distorted(const struct reading *r, float w)
{
    return powf(w, (float)td_attr_float(r->c->node, "distortion"));
}

static enum td_code read_lines(struct reading *r, struct td_err *err)
{
    const struct td_bytes path = td_attr_bytes(r->c->node, "vocab_file");
    struct td_strbuf text = {0};
    enum td_code rc = td_files_read(r->c, path.p, path.len, &text, err);
    if (rc == TD_OK) {
        rc = td_strbuf_putc(&text, '\n', err);
    }
    for (size_t at = 0; rc == TD_OK && at < text.n;) {
        const char *line = text.p + at, *end = memchr(line, '\n', text.n - at);
        const size_t len = (size_t)(end - line);
        const char *field = line + len;
        float w = 0;
        at += len + 1;
        while (field > line && field[-1] != ',') {
            field--;
        }
        if (len == 0) {
            continue;
        }
        if (!td_parse_number(field, (size_t)(line + len - field), TD_FLOAT, &w)) {
            rc = td_fail(err, TD_INVALID_ARGUMENT, "%s: Wrong vocabulary format at line: %.*s",
                         TD_NODE_STR(r->c->node), (int)(len < 200 ? len : 200), line);
        } else {
            rc = put_weight(r, distorted(r, w), err);
        }
    }
    td_strbuf_fini(&text);
    return rc;
}

static enum td_code fixed_begin(struct td_call *c, const struct td_candidates *s, struct td_err *err)
{
    struct reading r = {.c = c, .f = s->kept, .range = s->range};
    int n_unigrams;
    const float *unigrams = td_attr_floats(c->node, "unigrams", &n_unigrams);
    const int64_t reserved = td_attr_int(c->node, "num_reserved_ids");
    void *left, *stacks;
    r.f->total = 0;
    for (int64_t i = 0; i < reserved; i++) {
        TD_TRY(put_weight(&r, 0, err));
    }
    r.id = r.n;
    for (int i = 0; i < n_unigrams; i++) {
        TD_TRY(put_weight(&r, distorted(&r, unigrams[i]), err));
    }
    if (n_unigrams == 0) {
        TD_TRY(read_lines(&r, err));
    }
    TD_FAIL_IF(r.n != r.range, err, INVALID_ARGUMENT, "%s: range is %lld must be equal to weights size %lld",
               TD_NODE_STR(c->node), (long long)r.range, (long long)r.n);
    TD_TRY(td_scratch(c, (size_t)r.n * sizeof(double), &left, err));
    TD_TRY(td_scratch(c, 2 * (size_t)r.n * sizeof(int32_t), &stacks, err));
    pair(r.f, r.n, left, stacks, (int32_t *)stacks + r.n);
    return TD_OK;
}

static enum td_code fixed_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    const bool file = td_attr_bytes(n, "vocab_file").len > 0, given = td_attr_len(n, "unigrams") > 0;
    const int64_t shards = td_attr_int(n, "num_shards"), shard = td_attr_int(n, "shard"),
                  reserved = td_attr_int(n, "num_reserved_ids");
    TD_FAIL_IF(!file && !given, err, INVALID_ARGUMENT, "%s: Must provide either vocab_file or unigrams.",
               TD_NODE_STR(n));
    TD_FAIL_IF(file && given, err, INVALID_ARGUMENT, "%s: Must only provide one of vocab_file and unigrams.",
               TD_NODE_STR(n));
    TD_FAIL_IF(shards < 1 || shard < 0 || reserved > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: shard %lld of %lld, %lld reserved ids", TD_NODE_STR(n), (long long)shard,
               (long long)shards, (long long)reserved);
    return td_candidates_infer(c, err);
}

static enum td_code fixed_run(struct td_call *c, struct td_err *err)
{
    const int64_t range = td_attr_int(c->node, "range_max");
    struct td_candidates s = {.range = range,
                              .draw = fixed_draw,
                              .probability = fixed_probability,
                              .kept_bytes = sizeof(struct fixed) + (size_t)range * sizeof(struct alias),
                              .begin = fixed_begin};
    return td_candidates_sample(c, &s, err);
}

/* ------------------------------------------------------------------ learned */

/* Node i of the tree is the sum of 2i and 2i + 1; the leaves, behind them, are the classes' weights. */
static int64_t leaves_of(int64_t range)
{
    int64_t n = 1;
    while (n < range) {
        n *= 2;
    }
    return n;
}

/* Any of n numbers alike. */
static uint32_t any_of(struct td_philox_words *w, uint32_t n)
{
    if ((n & (n - 1)) == 0) {
        return td_philox_word(w) & (n - 1);
    }
    const uint32_t too_low = UINT32_MAX % n + 1;
    uint32_t v;
    do {
        v = td_philox_word(w);
    } while (v < too_low);
    return v % n;
}

static int64_t learned_draw(const struct td_candidates *s, struct td_philox_words *w)
{
    const int32_t *tree = s->kept;
    const int64_t leaves = leaves_of(s->range);
    int32_t at = (int32_t)any_of(w, (uint32_t)tree[1]);
    int64_t i = 1;
    while (i < leaves) {
        i *= 2;
        if (at >= tree[i]) {
            at -= tree[i++];
        }
    }
    return i - leaves;
}

static float learned_probability(const struct td_candidates *s, int64_t v)
{
    const int32_t *tree = s->kept;
    return (float)tree[leaves_of(s->range) + v] / (float)tree[1];
}

static enum td_code learned_begin(struct td_call *c, const struct td_candidates *s, struct td_err *err)
{
    int32_t *tree = s->kept;
    const int64_t leaves = leaves_of(s->range);
    (void)c, (void)err;
    for (int64_t i = 0; i < s->range; i++) {
        tree[leaves + i] = 1;
    }
    for (int64_t i = leaves - 1; i > 0; i--) {
        tree[i] = tree[2 * i] + tree[2 * i + 1];
    }
    return TD_OK;
}

/* As long as the sum of all can be told. */
static void learned_learn(const struct td_candidates *s, const int64_t *classes, int64_t n)
{
    int32_t *tree = s->kept;
    for (int64_t k = 0; k < n && tree[1] < INT32_MAX; k++) {
        for (int64_t i = leaves_of(s->range) + classes[k]; i > 0; i /= 2) {
            tree[i]++;
        }
    }
}

static enum td_code learned_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t range = td_attr_int(c->node, "range_max");
    TD_FAIL_IF(range >= INT32_MAX, err, INVALID_ARGUMENT,
               "%s: range_max must be less than %d for unigram samplers, got %lld", TD_NODE_STR(c->node),
               INT32_MAX, (long long)range);
    return td_candidates_infer(c, err);
}

static enum td_code learned_run(struct td_call *c, struct td_err *err)
{
    const int64_t range = td_attr_int(c->node, "range_max");
    struct td_candidates s = {.range = range,
                              .draw = learned_draw,
                              .probability = learned_probability,
                              .kept_bytes = 2 * (size_t)leaves_of(range) * sizeof(int32_t),
                              .begin = learned_begin,
                              .learn = learned_learn};
    return td_candidates_sample(c, &s, err);
}

/* ------------------------------------------------------------------ the table */

#define ROW(opname, more, shapes, fn)                                                                        \
    {                                                                                                        \
        .name = opname,                                                                                      \
        .sig =                                                                                               \
            "(true_classes:int64) -> " TD_CANDIDATES_OUTS                                                    \
            " {num_true:int; num_sampled:int; unique:bool; range_max:int; " more "seed:int=0; seed2:int=0}", \
        .flags = TD_OP_STATEFUL, .infer = shapes, .kernels = TD_KERNEL("candidate_unigram.cpu", fn)          \
    }

const struct td_op td_ops_candidate_unigram[] = {
    ROW("FixedUnigramCandidateSampler",
        "vocab_file:string=''; distortion:float=1; num_reserved_ids:int=0; num_shards:int=1; shard:int=0; "
        "unigrams:list(float)=[]; ",
        fixed_infer, fixed_run),
    ROW("LearnedUnigramCandidateSampler", "", learned_infer, learned_run),
    ROW("ThreadUnsafeUnigramCandidateSampler", "", learned_infer, learned_run),
    {.name = NULL},
};
