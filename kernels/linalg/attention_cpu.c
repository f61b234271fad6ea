/* kernels/linalg/attention_cpu.c - attention on the CPU: in blocks, and row by row.
 *
 *            64 keys                    D                  a block of keys, packed in panels (gemm_panels.h)
 *   [ .... | .... | .... ]  H      [ value rows ]
 *   48 queries: a block of scores, stages, exponentials, and their product with the value rows is added up
 *
 * The scores of a block of queries and one of keys are all that is in memory. Where there are several
 * blocks of keys, each row keeps its largest score so far and the sum of its exponentials, and what was
 * added up is scaled when a larger score comes (Milakov and Gimelshein, "Online normalizer calculation for
 * softmax", 2018); the row is divided by its sum in the end. One or two queries multiply keys and values
 * as they lie.
 *
 * Rows do not depend on each other, nor on how they are dealt to threads: batches, and blocks of queries
 * within one, are. A row is computed by the same operations whichever rows are beside it.
 *
 * Half and bfloat16 become floats as a whole first, and the result is rounded once.
 *
 * NaN, infinities: as a softmax over the whole row has them. A row without a sum, all of it masked by -inf or
 * with a NaN in it, is NaN; where stages come behind the softmax, it is computed by itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/work.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/linalg/attention.h"
#include "kernels/linalg/attention_pack.h"

enum {
    KEYS = 256,   /* of a block: their panels, and those of the values, lie in the second cache */
    QUERIES = 48, /* a multiple of the rows of a tile */
    FEW = 2,      /* queries for which packing does not pay */
    ALIGN = 16,   /* floats: of a piece of scratch, and of a run */
    EXP_OPS = 12  /* a score's stages, exponential, maximum and sum in additions */
};
#define PRODUCT_NS 0.05 /* a multiplication */

struct attention {
    const struct td_call *c;
    struct td_attention_form f;
    struct td_attention_sizes s;
    const void *in[TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES]; /* as floats; masks as they are */
    struct td_tensor *y;
    float *out; /* where y is made: itself, or scratch */
    bool any_after;
};

/* Where the tensors of one batch entry begin. */
struct place {
    const float *q, *k, *v;
    float *out;
    const char *stage[TD_ATTENTION_STAGES];
};

/* ------------------------------------------------------------------ stages */

TD_CLONES static void with_number(enum td_attention_kind kind, float *x, float by, int64_t n)
{
    const float more = kind == TD_ATTENTION_SUB ? -by : by;
    switch (kind) {
    case TD_ATTENTION_ADD:
    case TD_ATTENTION_SUB:
        for (int64_t i = 0; i < n; i++) {
            x[i] += more;
        }
        return;
    case TD_ATTENTION_MUL:
        for (int64_t i = 0; i < n; i++) {
            x[i] *= by;
        }
        return;
    default:
        for (int64_t i = 0; i < n; i++) {
            x[i] /= by;
        }
    }
}

TD_CLONES static void with_row(enum td_attention_kind kind, float *x, const float *restrict by, int64_t n)
{
    switch (kind) {
    case TD_ATTENTION_ADD:
        for (int64_t i = 0; i < n; i++) {
            x[i] += by[i];
        }
        return;
    case TD_ATTENTION_SUB:
        for (int64_t i = 0; i < n; i++) {
            x[i] -= by[i];
        }
        return;
    case TD_ATTENTION_MUL:
        for (int64_t i = 0; i < n; i++) {
            x[i] *= by[i];
        }
        return;
    default:
        for (int64_t i = 0; i < n; i++) {
            x[i] /= by[i];
        }
    }
}

TD_CLONES static void choose(bool keep, float *x, const uint8_t *restrict mask, float number, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = (mask[i] != 0) == keep ? x[i] : number;
    }
}

/* One stage on n scores of a row, operand `at` and its step from one to the next; `room` for n floats. */
static void apply_one(const struct td_attention_stage *g, const char *at, int64_t step, float *x, int64_t n,
                      float *room)
{
    if (g->kind == TD_ATTENTION_KEEP || g->kind == TD_ATTENTION_DROP) {
        const uint8_t *mask = (const uint8_t *)at;
        for (int64_t i = 0; i < n && step != 1; i++) {
            ((uint8_t *)room)[i] = mask[i * step];
        }
        choose(g->kind == TD_ATTENTION_KEEP, x, step == 1 ? mask : (const uint8_t *)room, g->number, n);
        return;
    }
    const float *by = (const float *)at;
    if (g->operand < 0 || step == 0) {
        with_number(g->kind, x, g->operand < 0 ? g->number : by[0], n);
        return;
    }
    for (int64_t i = 0; i < n && step != 1; i++) {
        room[i] = by[i * step];
    }
    with_row(g->kind, x, step == 1 ? by : room, n);
}

/* The scores of query t with n keys from `from` on. */
struct span {
    int64_t t, from, n;
    float *x;
};

/* The stages before or after the softmax; `room` for n floats. */
static void apply(const struct attention *a, const struct place *p, bool after, struct span at, float *room)
{
    for (int i = 0; i < a->f.n_stages; i++) {
        const struct td_attention_stage *g = &a->f.stage[i];
        if (g->after != after) {
            continue;
        }
        const int64_t *step = a->s.stage_step[i];
        const size_t size = g->kind == TD_ATTENTION_KEEP || g->kind == TD_ATTENTION_DROP ? 1 : sizeof(float);
        const char *by =
            g->operand < 0 ? NULL : p->stage[i] + (size_t)(at.t * step[1] + at.from * step[0]) * size;
        apply_one(g, by, g->operand < 0 ? 0 : step[0], at.x, at.n, room);
    }
}

/* ------------------------------------------------------------------ row by row */

TD_CLONES static void scale(float *y, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] *= by;
    }
}

/* Row t; x and room hold S floats. */
static void plain_row(const struct attention *a, const struct place *p, int64_t t, float *x, float *room)
{
    const struct td_attention_sizes *s = &a->s;
    const int64_t *q = s->step[TD_ATTENTION_QUERY], *k = s->step[TD_ATTENTION_KEY],
                  *v = s->step[TD_ATTENTION_VALUE], *out = s->step[TD_ATTENTION_OUTPUT], keys = s->dim[0];
    for (int64_t i = 0; i < keys; i++) {
        x[i] = 0;
        for (int64_t h = 0; h < s->depth; h++) {
            x[i] += p->q[t * q[1] + h * q[0]] * p->k[i * k[1] + h * k[0]];
        }
    }
    apply(a, p, false, (struct span){t, 0, keys, x}, room);
    const float sum = td_vec_exp_sum_f32(x, td_vec_max_f32(x, keys), x, keys);
    scale(x, (float)s->copies / sum, keys);
    apply(a, p, true, (struct span){t, 0, keys, x}, room);
    for (int64_t d = 0; d < s->width; d++) {
        float total = 0;
        for (int64_t i = 0; i < keys; i++) {
            total += x[i] * p->v[i * v[1] + d * v[0]];
        }
        p->out[t * out[1] + d * out[0]] = total;
    }
}

/* ------------------------------------------------------------------ where things are */

static struct place place_of(const struct attention *a, int64_t b)
{
    const struct td_attention_sizes *s = &a->s;
    struct place p;
    p.q = (const float *)a->in[0] + td_attention_batch_at(s, s->step[TD_ATTENTION_QUERY], b);
    p.k = (const float *)a->in[1] + td_attention_batch_at(s, s->step[TD_ATTENTION_KEY], b);
    p.v = (const float *)a->in[2] + td_attention_batch_at(s, s->step[TD_ATTENTION_VALUE], b);
    p.out = a->out + td_attention_batch_at(s, s->step[TD_ATTENTION_OUTPUT], b);
    for (int i = 0; i < a->f.n_stages; i++) {
        const int operand = a->f.stage[i].operand;
        const size_t size = operand >= 0 && a->c->in[operand]->dtype == TD_BOOL ? 1 : sizeof(float);
        p.stage[i] = operand < 0 ? NULL
                                 : (const char *)a->in[operand] +
                                       size * (size_t)td_attention_batch_at(s, s->stage_step[i], b);
    }
    return p;
}

static enum td_code as_floats(struct td_call *c, const struct td_tensor *t, const void **x,
                              struct td_err *err)
{
    const float *floats = NULL;
    *x = t->data;
    if (t->dtype != TD_BOOL) {
        TD_TRY(td_upcast(c, t, &floats, err));
        *x = floats;
    }
    return TD_OK;
}

/* Reads the node, makes the output. */
static enum td_code open(struct td_call *c, struct attention *a, struct td_err *err)
{
    struct td_shape in[TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES];
    *a = (struct attention){.c = c};
    TD_FAIL_IF(!td_attention_read(c->node, &a->f) || c->n_in > TD_ATTENTION_TENSORS + TD_ATTENTION_STAGES,
               err, INVALID_ARGUMENT, "%s: it is no node that the compiler made", TD_NODE_STR(c->node));
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i]->shape;
    }
    TD_TRY(td_attention_sizes_of(c->node, &a->f, in, &a->s, err));
    TD_TRY(td_out(c, 0, NULL, &a->y, err));
    TD_TRY(td_upcast_room(c, a->y, &a->out, err));
    for (int i = 0; i < c->n_in; i++) {
        TD_TRY(as_floats(c, c->in[i], &a->in[i], err));
    }
    for (int i = 0; i < a->f.n_stages; i++) {
        a->any_after = a->any_after || a->f.stage[i].after;
    }
    return TD_OK;
}

static int64_t rounded_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

enum td_code td_attention_run_plain(struct td_call *c, struct td_err *err)
{
    struct attention a;
    void *room;
    TD_TRY(open(c, &a, err));
    const int64_t keys = rounded_up(a.s.dim[0], ALIGN);
    TD_TRY(td_scratch(c, (size_t)(2 * keys + ALIGN) * sizeof(float), &room, err));
    for (int64_t b = 0; b < a.s.batches; b++) {
        const struct place p = place_of(&a, b);
        for (int64_t t = 0; t < a.s.dim[1]; t++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            plain_row(&a, &p, t, room, (float *)room + keys);
        }
    }
    td_downcast(a.y, a.out);
    return TD_OK;
}

/* ------------------------------------------------------------------ in blocks */

/* What a thread works with: pieces of scratch. */
struct bench {
    float *keys, *values; /* a block of each, packed */
    float *query;         /* a block, where its rows are no runs of floats */
    float *scores, *part; /* of a block: scores and exponentials; what they come to */
    float *top, *sum;     /* of each row of the batch entry: the largest score so far, and the sum */
    float *shrink;        /* of a block's rows: what was added up so far is to be scaled by this */
    float *row, *room;    /* a whole row */
};

struct job {
    const struct attention *a;
    int64_t blocks;       /* of queries, of a batch entry */
    int64_t columns;      /* of a row of scores: keys of a block in whole panels */
    bool few, as_it_lies; /* few queries; a query's entries are a run */
    bool slim; /* values of one or two vectors, which are multiplied as they lie: panels are wider */
    float *scratch;
    size_t bench_floats;
};

struct scratch {
    float *base; /* NULL: only counted */
    size_t used;
};

static float *take(struct scratch *r, int64_t n)
{
    float *mine = r->base == NULL ? NULL : r->base + r->used;
    r->used += (size_t)rounded_up(n, ALIGN);
    return mine;
}

/* The pieces, from `base` on; returns how many floats they take. */
static size_t lay_out(const struct job *j, float *base, struct bench *w)
{
    const struct td_attention_sizes *s = &j->a->s;
    struct scratch r = {base, 0};
    w->keys = take(&r, j->few ? 0 : j->columns * s->depth);
    w->values = take(&r, j->few || j->slim ? 0 : j->columns * rounded_up(s->width, TD_PANEL));
    w->query = take(&r, j->as_it_lies ? 0 : QUERIES * s->depth);
    w->scores = take(&r, QUERIES * j->columns);
    w->part = take(&r, QUERIES * s->width);
    w->top = take(&r, s->dim[1]);
    w->sum = take(&r, s->dim[1]);
    w->shrink = take(&r, QUERIES);
    w->row = take(&r, j->a->any_after ? s->dim[0] : 0);
    w->room = take(&r, j->a->any_after ? s->dim[0] : j->columns);
    return r.used;
}

/* e^x for x <= 0: below the smallest normal number it is 0. */
TD_INLINE float exp_of_less(float x)
{
    const float least = -87.33654F, xc = x < least ? least : x;
    int32_t n;
    const float r = td_exp_reduce(xc, &n);
    float q = 1.98459572e-4F; /* the polynomial of td_fast_exp_f32 */
    q = q * r + 1.39416529e-3F;
    q = q * r + 8.33339164e-3F;
    q = q * r + 4.16663487e-2F;
    q = q * r + 1.66666664e-1F;
    q = q * r + 0.5F;
    const float y = (1.0F + (r + r * r * q)) * td_pow2_f32(n);
    return x < least ? 0.0F : y;
}

/* The next two go through whole runs of ALIGN floats. */
TD_CLONES static float largest(const float *x, int64_t n)
{
    float top[ALIGN];
    int32_t nan[ALIGN] = {0}; /* looked for beside the maximum, so that both are vector code */
    for (int k = 0; k < ALIGN; k++) {
        top[k] = -INFINITY;
    }
    for (int64_t i = 0; i < n; i += ALIGN) {
        for (int k = 0; k < ALIGN; k++) {
            top[k] = x[i + k] > top[k] ? x[i + k] : top[k];
            nan[k] |= x[i + k] != x[i + k];
        }
    }
    for (int some = ALIGN / 2; some > 0; some /= 2) {
        for (int k = 0; k < some; k++) {
            top[k] = top[k + some] > top[k] ? top[k + some] : top[k];
            nan[k] |= nan[k + some];
        }
    }
    return nan[0] ? NAN : top[0];
}

/* x[i] = exp(x[i] - shift), none of them above 0. Returns their sum. */
TD_CLONES static float exponentials(float *x, float shift, int64_t n)
{
    float part[ALIGN] = {0};
    for (int64_t i = 0; i < n; i += ALIGN) {
        for (int k = 0; k < ALIGN; k++) {
            const float y = exp_of_less(x[i + k] - shift);
            x[i + k] = y;
            part[k] += y;
        }
    }
    for (int some = ALIGN / 2; some > 0; some /= 2) {
        for (int k = 0; k < some; k++) {
            part[k] += part[k + some];
        }
    }
    return part[0];
}

/* Scores of a row to exponentials, and what goes with them; the row has room for whole runs, where -inf is
 * nothing to the maximum and 0 to the sum. */
static void soften(const struct attention *a, const struct place *p, const struct bench *w, struct span at,
                   float *shrink)
{
    apply(a, p, false, at, w->room);
    const int64_t n = rounded_up(at.n, ALIGN);
    for (int64_t i = at.n; i < n; i++) {
        at.x[i] = -INFINITY;
    }
    float top = largest(at.x, n);
    if (at.from > 0) {
        top = w->top[at.t] > top || isnan(w->top[at.t]) ? w->top[at.t] : top;
    }
    const float shift = top == -INFINITY ? 0 : top, sum = exponentials(at.x, shift, n);
    *shrink = at.from == 0 ? 0 : td_fast_exp_f32(w->top[at.t] - shift);
    w->sum[at.t] = at.from == 0 ? sum : w->sum[at.t] * *shrink + sum;
    w->top[at.t] = top;
    apply(a, p, true, at, w->room);
}

TD_CLONES static void add_scaled(float *y, float by, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = y[i] * by + x[i];
    }
}

/* The rows of a block of queries. */
static const float *queries(const struct job *j, const struct place *p, const struct bench *w, int64_t t,
                            int64_t rows, int64_t *ld)
{
    const struct td_attention_sizes *s = &j->a->s;
    const int64_t *step = s->step[TD_ATTENTION_QUERY];
    const float *q = p->q + t * step[1];
    *ld = j->as_it_lies ? step[1] : s->depth;
    for (int64_t i = 0; i < rows && !j->as_it_lies; i++) {
        for (int64_t h = 0; h < s->depth; h++) {
            w->query[i * s->depth + h] = q[i * step[1] + h * step[0]];
        }
    }
    return j->as_it_lies ? q : w->query;
}

/* c = a b, b packed or as it lies. */
static void multiply(const struct td_gemm *g, bool packed)
{
    if (!packed) {
        td_gemm_small(g);
    } else {
        td_gemm_panels(g, NULL);
    }
}

/* Queries [t, t + rows) with n keys from `from` on. */
static void block(const struct job *j, const struct place *p, const struct bench *w, int64_t t, int64_t rows,
                  int64_t from, int64_t n)
{
    const struct td_attention_sizes *s = &j->a->s;
    const int64_t *k = s->step[TD_ATTENTION_KEY], *v = s->step[TD_ATTENTION_VALUE],
                  ld = s->step[TD_ATTENTION_OUTPUT][1];
    struct td_gemm g = {.m = rows, .n = n, .k = s->depth, .c = w->scores, .ldc = j->columns};
    g.a = queries(j, p, w, t, rows, &g.lda);
    g.b = j->few ? p->k + from * k[1] : w->keys;
    g.ldb = j->few ? k[1] : s->depth;
    g.tb = j->few ? TD_TRANSPOSED : TD_PLAIN;
    multiply(&g, !j->few);
    for (int64_t i = 0; i < rows; i++) {
        soften(j->a, p, w, (struct span){t + i, from, n, w->scores + i * j->columns}, &w->shrink[i]);
    }
    float *out = p->out + t * ld;
    struct td_gemm h = {.m = rows, .n = s->width, .k = n, .a = w->scores, .lda = j->columns};
    const bool packed = !j->few && !j->slim;
    h.b = packed ? w->values : p->v + from * v[1];
    h.ldb = packed ? n : v[1];
    h.c = from == 0 ? out : w->part;
    h.ldc = from == 0 ? ld : s->width;
    multiply(&h, packed);
    for (int64_t i = 0; i < rows && from > 0; i++) {
        add_scaled(out + i * ld, w->shrink[i], w->part + i * s->width, s->width);
    }
}

static void finish(const struct job *j, const struct place *p, const struct bench *w, int64_t t)
{
    const struct attention *a = j->a;
    if (a->any_after && !(w->sum[t] > 0)) {
        plain_row(a, p, t, w->row, w->room);
    } else {
        scale(p->out + t * a->s.step[TD_ATTENTION_OUTPUT][1], (float)a->s.copies / w->sum[t], a->s.width);
    }
}

/* Queries [t, end) of a batch entry. */
static void run_queries(const struct job *j, const struct bench *w, int64_t b, int64_t t, int64_t end)
{
    const struct td_attention_sizes *s = &j->a->s;
    const int64_t *k = s->step[TD_ATTENTION_KEY], *v = s->step[TD_ATTENTION_VALUE];
    const struct place p = place_of(j->a, b);
    for (int64_t from = 0; from < s->dim[0]; from += KEYS) {
        const int64_t n = s->dim[0] - from < KEYS ? s->dim[0] - from : KEYS;
        if (!j->few) {
            td_attention_pack_keys(p.k + from * k[1], k, n, s->depth, w->keys);
        }
        if (!j->few && !j->slim) {
            td_attention_pack_values(p.v + from * v[1], v, n, s->width, w->values);
        }
        for (int64_t i = t; i < end; i += QUERIES) {
            const int64_t rows = end - i < QUERIES ? end - i : QUERIES;
            if (td_work_spent(rows * n * (1 + (s->depth + s->width) / ALIGN))) {
                return;
            }
            block(j, &p, w, i, rows, from, n);
        }
    }
    for (int64_t i = t; i < end; i++) {
        finish(j, &p, w, i);
    }
}

static void run_range(void *arg, int64_t from, int64_t to, int who)
{
    const struct job *j = arg;
    struct bench w;
    (void)lay_out(j, j->scratch + (size_t)who * j->bench_floats, &w);
    while (from < to) {
        const int64_t b = from / j->blocks, first = from % j->blocks, queries = j->a->s.dim[1];
        const int64_t some = to - from < j->blocks - first ? to - from : j->blocks - first;
        const int64_t end = (first + some) * QUERIES;
        run_queries(j, &w, b, first * QUERIES, end < queries ? end : queries);
        from += some;
    }
}

static bool is_run(const struct td_attention_sizes *s, int tensor, int64_t length)
{
    return s->step[tensor][0] == 1 || length <= 1;
}

static enum td_code run_blocks(struct td_call *c, const struct attention *a, struct td_err *err)
{
    const struct td_attention_sizes *s = &a->s;
    const int64_t queries = s->dim[1], keys = s->dim[0];
    struct job j = {.a = a, .blocks = (queries + QUERIES - 1) / QUERIES};
    j.as_it_lies = is_run(s, TD_ATTENTION_QUERY, s->depth);
    j.few = queries <= FEW && j.as_it_lies && is_run(s, TD_ATTENTION_KEY, s->depth) &&
            is_run(s, TD_ATTENTION_VALUE, s->width);
    j.slim = td_gemm_is_slim(s->width) && is_run(s, TD_ATTENTION_VALUE, s->width);
    j.columns = rounded_up(keys < KEYS ? keys : KEYS, TD_PANEL);
    struct bench none;
    j.bench_floats = lay_out(&j, NULL, &none);
    const double rows = queries < QUERIES ? (double)queries : QUERIES;
    const double score_ns = (double)(s->depth + s->width) * PRODUCT_NS + EXP_OPS * TD_SPREAD_OP_NS;
    const int64_t units = s->batches * j.blocks;
    const int ranges = td_spread_ranges(c, units, 1, rows * (double)keys * score_ns);
    const int threads = ranges < TD_POOL_MOST + 1 ? ranges : TD_POOL_MOST + 1;
    void *scratch;
    TD_TRY(td_scratch(c, (size_t)threads * j.bench_floats * sizeof(float), &scratch, err));
    j.scratch = scratch;
    td_spread_over(c, ranges, units, 1, run_range, &j);
    return td_stopped(c) ? td_stop_error(c, err) : TD_OK;
}

enum td_code td_attention_run(struct td_call *c, struct td_err *err)
{
    struct attention a;
    TD_TRY(open(c, &a, err));
    if (a.s.batches > 0 && a.s.dim[0] == 0) {
        memset(a.y->data, 0, td_tensor_bytes(a.y));
    }
    if (a.s.batches == 0 || a.s.dim[0] == 0) {
        return TD_OK;
    }
    TD_TRY(run_blocks(c, &a, err));
    td_downcast(a.y, a.out);
    return TD_OK;
}
