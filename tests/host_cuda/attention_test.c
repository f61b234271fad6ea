/* tests/host_cuda/attention_test.c - attention as kernels/cuda/nn/attention.cu and attention_mma.cu make
 * it, against the formula in double, of each type and by TF32: sizes that are less than a block, one and
 * several, layouts that are stepped through, stages before and behind the softmax, rows that are masked,
 * and no keys at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/dtype.h"
#include "kernels/cuda/nn/attention.h"
#include "tests/test.h"

enum { GUARD = 16 };

static uint64_t drawn = 5;

static double draw(void)
{
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(drawn >> 40) / (double)(1 << 23) - 1;
}

static struct td_cuda_stream *stream;

/* Numbers are those that the kind has; off: how far its results may be. */
static const struct kind {
    enum td_cuda_type type;
    bool tf32;
    float off;
} kinds[] = {{TD_CUDA_FLOAT, false, 1e-5F},
             {TD_CUDA_FLOAT, true, 2e-3F},
             {TD_CUDA_HALF, false, 2e-3F},
             {TD_CUDA_BFLOAT16, false, 1.2e-2F}},
  *kind;
enum { KINDS = sizeof kinds / sizeof *kinds };

static size_t size_of(void)
{
    return kind->type == TD_CUDA_FLOAT ? 4 : 2;
}

static float as_kept(float x)
{
    return kind->type == TD_CUDA_BFLOAT16             ? td_bf16_to_float(td_float_to_bf16(x))
           : kind->type == TD_CUDA_HALF || kind->tf32 ? td_half_to_float(td_float_to_half(x)) /* 10 bits */
                                                      : x;
}

/* What a case has made, to be freed when it was checked. */
enum { MOST_MADE = 64 };
static void *made_here[MOST_MADE], *made_there[MOST_MADE];
static int n_here, n_there;

static void *kept(void *p)
{
    CHECK(p != NULL && n_here < MOST_MADE);
    made_here[n_here++] = p;
    return p;
}

static void free_all(void)
{
    while (n_here > 0) {
        free(made_here[--n_here]);
    }
    while (n_there > 0) {
        CHECK_INT(td_cuda_free(0, stream, made_there[--n_there]), 0);
    }
    CHECK_INT(td_cuda_stream_wait(0, stream), 0);
}

static void *send(const void *host, size_t bytes)
{
    void *there;
    CHECK_INT(td_cuda_allocate(0, stream, bytes + 1, &there), 0);
    CHECK_INT(td_cuda_copy(0, stream, TD_CUDA_TO_DEVICE, there, host, bytes), 0);
    CHECK_INT(td_cuda_stream_wait(0, stream), 0);
    CHECK(n_there < MOST_MADE);
    made_there[n_there++] = there;
    return there;
}

static float *floats(int64_t n)
{
    float *x = kept(malloc((size_t)(n + 1) * sizeof *x));
    for (int64_t i = 0; i < n; i++) {
        x[i] = as_kept((float)draw());
    }
    return x;
}

/* Element i of what lies there in the kind's type. */
static void put(void *at, int64_t i, float x)
{
    if (kind->type == TD_CUDA_FLOAT) {
        ((float *)at)[i] = x;
    } else if (kind->type == TD_CUDA_HALF) {
        ((td_half *)at)[i] = td_float_to_half(x);
    } else {
        ((td_bf16 *)at)[i] = td_float_to_bf16(x);
    }
}
static float get(const void *at, int64_t i)
{
    return kind->type == TD_CUDA_FLOAT  ? ((const float *)at)[i]
           : kind->type == TD_CUDA_HALF ? td_half_to_float(((const td_half *)at)[i])
                                        : td_bf16_to_float(((const td_bf16 *)at)[i]);
}

static void *send_floats(const float *x, int64_t n)
{
    char *typed = kept(malloc((size_t)(n + 1) * size_of()));
    for (int64_t i = 0; i < n; i++) {
        put(typed, i, x[i]);
    }
    return send(typed, (size_t)n * size_of());
}

/* Two batch axes, heads and rows: dim {S, T, heads, rows}. */
struct sizes {
    int64_t keys, queries, heads, rows, depth, width;
};

/* [rows, length, heads, width], as layers keep it, or [rows, heads, length, width]. */
static struct td_cuda_attention_steps steps(const struct sizes *z, int64_t length, int64_t width, bool split)
{
    struct td_cuda_attention_steps s = {
        {1, split ? width : z->heads * width, split ? length * width : width, z->heads * length * width}};
    return s;
}

/* A case: what the host has is `here`. */
struct both {
    struct td_cuda_attention here, there;
    float *want;
    int64_t n; /* elements of the result */
};

static void give(const void **here, const void **there, int64_t n)
{
    const float *x = floats(n);
    *here = x;
    *there = send_floats(x, n);
}

static void make(struct both *b, const struct sizes *z, bool split)
{
    const int64_t all = z->heads * z->rows;
    *b = (struct both){.n = all * z->queries * z->width};
    struct td_cuda_attention *a = &b->here;
    *a = (struct td_cuda_attention){.type = kind->type,
                                    .tf32 = kind->tf32,
                                    .rank = 4,
                                    .dim = {z->keys, z->queries, z->heads, z->rows},
                                    .depth = z->depth,
                                    .width = z->width,
                                    .batches = all,
                                    .copies = 1,
                                    .of_query = steps(z, z->queries, z->depth, split),
                                    .of_key = steps(z, z->keys, z->depth, !split),
                                    .of_value = steps(z, z->keys, z->width, split),
                                    .of_out = steps(z, z->queries, z->width, split)};
    b->there = *a;
    give(&a->query, &b->there.query, all * z->queries * z->depth);
    give(&a->key, &b->there.key, all * z->keys * z->depth);
    give(&a->value, &b->there.value, all * z->keys * z->width);
    b->want = floats(b->n + GUARD);
    a->out = b->want;
    b->there.out = send_floats(b->want, b->n + GUARD);
}

static void add_number(struct both *b, int stage, bool after, float number)
{
    const struct td_cuda_attention_stage s = {.kind = stage, .after = after, .number = number};
    b->here.stage[b->here.n_stages++] = b->there.stage[b->there.n_stages++] = s;
}

/* An operand [rows, 1, T or 1, S], of float, or of bool: false where a number drawn is below `least`. */
static void add_operand(struct both *b, int stage, bool after, bool by_query, double least, float number)
{
    const int64_t keys = b->here.dim[0], queries = by_query ? b->here.dim[1] : 1;
    const int64_t n = b->here.dim[3] * queries * keys;
    struct td_cuda_attention_stage s = {.kind = stage,
                                        .after = after,
                                        .number = number,
                                        .step = {{1, by_query ? keys : 0, 0, queries * keys}}};
    float *x = floats(n);
    unsigned char *chosen = kept(malloc((size_t)n + 1));
    for (int64_t i = 0; i < n; i++) {
        chosen[i] = (double)x[i] >= least;
    }
    const bool chooses = stage >= TD_CUDA_ATTENTION_KEEP;
    s.operand = chooses ? (const void *)chosen : (const void *)x;
    b->here.stage[b->here.n_stages++] = s;
    s.operand = chooses ? send(chosen, (size_t)n) : send_floats(x, n);
    b->there.stage[b->there.n_stages++] = s;
}

/* ------------------------------------------------------------------ the formula */

static int64_t at(const struct td_cuda_attention *a, const struct td_cuda_attention_steps *s, int64_t batch)
{
    return batch % a->dim[2] * s->at[2] + batch / a->dim[2] * s->at[3];
}

static double staged(const struct td_cuda_attention *a, bool after, int64_t batch, int64_t t, int64_t s,
                     double x)
{
    for (int i = 0; i < a->n_stages; i++) {
        const struct td_cuda_attention_stage *g = &a->stage[i];
        const int64_t from = at(a, &g->step, batch) + t * g->step.at[1] + s * g->step.at[0];
        if (g->after != after) {
            continue;
        }
        if (g->kind >= TD_CUDA_ATTENTION_KEEP) {
            const bool set = ((const unsigned char *)g->operand)[from] != 0;
            x = set == (g->kind == TD_CUDA_ATTENTION_KEEP) ? x : (double)g->number;
            continue;
        }
        const double by = g->operand == NULL ? (double)g->number : (double)((const float *)g->operand)[from];
        x = g->kind == TD_CUDA_ATTENTION_ADD   ? x + by
            : g->kind == TD_CUDA_ATTENTION_SUB ? x - by
            : g->kind == TD_CUDA_ATTENTION_MUL ? x * by
                                               : x / by;
    }
    return x;
}

static void attend_row(const struct td_cuda_attention *a, int64_t batch, int64_t t)
{
    const float *q = (const float *)a->query + at(a, &a->of_query, batch),
                *k = (const float *)a->key + at(a, &a->of_key, batch),
                *v = (const float *)a->value + at(a, &a->of_value, batch);
    double score[512], most = -INFINITY, sum = 0;
    CHECK(a->dim[0] <= 512);
    for (int64_t s = 0; s < a->dim[0]; s++) {
        score[s] = 0;
        for (int64_t d = 0; d < a->depth; d++) {
            score[s] += (double)q[t * a->of_query.at[1] + d] * (double)k[s * a->of_key.at[1] + d];
        }
        score[s] = staged(a, false, batch, t, s, score[s]);
        most = score[s] > most ? score[s] : most;
    }
    for (int64_t s = 0; s < a->dim[0]; s++) {
        score[s] = exp(score[s] - most);
        sum += score[s];
    }
    for (int64_t d = 0; d < a->width; d++) {
        double y = 0;
        for (int64_t s = 0; s < a->dim[0]; s++) {
            y += staged(a, true, batch, t, s, score[s] / sum) * (double)v[s * a->of_value.at[1] + d];
        }
        ((float *)a->out)[at(a, &a->of_out, batch) + t * a->of_out.at[1] + d] =
            (float)(y * (double)a->copies);
    }
}

static void check(struct both *b)
{
    const size_t bytes = (size_t)(b->n + GUARD) * size_of();
    void *got = kept(malloc(bytes));
    for (int64_t i = 0; i < b->here.batches * b->here.dim[1]; i++) {
        attend_row(&b->here, i / b->here.dim[1], i % b->here.dim[1]);
    }
    CHECK_INT(td_cuda_attend(&b->there, stream), 0);
    CHECK_INT(td_cuda_copy(0, stream, TD_CUDA_TO_HOST, got, b->there.out, bytes), 0);
    CHECK_INT(td_cuda_stream_wait(0, stream), 0);
    for (int64_t i = 0; i < b->n; i++) {
        const float y = get(got, i), d = y - b->want[i];
        CHECK(isnan(b->want[i]) ? isnan(y) : fabsf(d) <= kind->off * (1 + fabsf(b->want[i])));
    }
    for (int64_t i = b->n; i < b->n + GUARD; i++) {
        CHECK(get(got, i) == b->want[i]);
    }
}

/* ------------------------------------------------------------------ cases */

/* Depths and widths of every kernel, and beyond those of Tensor cores. */
static const struct sizes many[] = {{1, 1, 1, 1, 1, 1},      {5, 3, 2, 2, 4, 3},      {33, 8, 1, 2, 32, 16},
                                    {32, 9, 2, 1, 33, 32},   {70, 33, 1, 1, 65, 129}, {64, 32, 2, 1, 64, 128},
                                    {130, 70, 2, 1, 64, 64}, {66, 17, 2, 1, 200, 72}, {9, 5, 1, 1, 264, 8}};
enum { MANY = sizeof many / sizeof *many };

/* make() and what follows for each kind. */
static void with_kinds(void (*one)(const struct sizes *z), const struct sizes *z)
{
    CHECK_INT(td_cuda_stream_new(0, &stream), 0);
    for (kind = kinds; kind < kinds + KINDS; kind++) {
        one(z);
        free_all();
    }
}

static void in_both_layouts(const struct sizes *z)
{
    for (int split = 0; split < 2; split++) {
        struct both b;
        make(&b, z, split != 0);
        add_number(&b, TD_CUDA_ATTENTION_MUL, false, 3);
        check(&b);
    }
}

TEST(every_size_and_layout)
{
    for (int k = 0; k < MANY; k++) {
        with_kinds(in_both_layouts, &many[k]);
    }
}

static void with_stages(const struct sizes *z)
{
    struct both b;
    make(&b, z, true);
    b.here.copies = b.there.copies = 2;
    add_number(&b, TD_CUDA_ATTENTION_DIV, false, 0.5F);
    add_operand(&b, TD_CUDA_ATTENTION_ADD, false, true, 0, 0);
    add_operand(&b, TD_CUDA_ATTENTION_KEEP, false, false, -0.5, -1e9F);
    add_operand(&b, TD_CUDA_ATTENTION_SUB, false, false, 0, 0);
    add_operand(&b, TD_CUDA_ATTENTION_MUL, true, true, 0, 0);
    add_operand(&b, TD_CUDA_ATTENTION_DROP, true, true, 0.5, 0);
    check(&b);
}

TEST(stages)
{
    for (int k = 0; k < MANY; k++) {
        with_kinds(with_stages, &many[k]);
    }
}

/* Whole blocks of keys, and whole rows, are -inf; a larger score comes in the last block. */
static void masked(const struct sizes *z)
{
    struct both b;
    make(&b, z, false);
    unsigned char mask[1000];
    for (int i = 0; i < 1000; i++) {
        const int t = i / 100, s = i % 100;
        mask[i] = t == 4 ? 0 : t == 5 ? s >= 64 : t == 6 ? s == 99 : t == 7 ? s < 3 : 1;
    }
    struct td_cuda_attention_stage s = {
        .kind = TD_CUDA_ATTENTION_KEEP, .number = -INFINITY, .operand = mask, .step = {{1, 100, 0, 0}}};
    b.here.stage[b.here.n_stages++] = s;
    s.operand = send(mask, sizeof mask);
    b.there.stage[b.there.n_stages++] = s;
    check(&b);
    CHECK(isnan(b.want[4 * 5]) && !isnan(b.want[5 * 5]));
}

TEST(rows_that_are_masked)
{
    with_kinds(masked, &(const struct sizes){100, 10, 1, 1, 8, 5});
}

/* Rows that are -inf as a whole are nothing, and left out again behind the softmax: where all keys are, 0. */
static void masked_again(const struct sizes *z)
{
    struct both b;
    make(&b, z, false);
    add_operand(&b, TD_CUDA_ATTENTION_KEEP, false, true, 2, -INFINITY);
    add_operand(&b, TD_CUDA_ATTENTION_KEEP, true, true, 2, 0);
    check(&b);
    for (int64_t i = 0; i < b.n; i++) {
        CHECK(b.want[i] == 0);
    }
}

TEST(what_is_masked_again_is_nothing)
{
    with_kinds(masked_again, &(const struct sizes){70, 10, 1, 1, 8, 5});
}

static void without_keys(const struct sizes *z)
{
    struct both b;
    make(&b, z, true);
    check(&b);
}

TEST(no_keys)
{
    with_kinds(without_keys, &(const struct sizes){0, 3, 1, 2, 4, 5});
}

TEST_MAIN(RUN(every_size_and_layout) RUN(stages) RUN(rows_that_are_masked)
              RUN(what_is_masked_again_is_nothing) RUN(no_keys))
