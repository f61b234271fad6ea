/* kernels/dense/recurrence_steps.c - parts of phases of steps, and who computes which.
 *
 *   phase 0                  phase 1
 *   | share 0 | share 1 |    | share 0 | share 1 |      a share: some parts of each phase, always the same
 *
 * A step is one phase, but GRU_BEFORE's are two: the second product reads all of r h. A part is the units of
 * one panel of each gate; where the units do not fall into whole panels, a phase is one part.
 *
 * Each thread has a share, so that what it reads of U stays in its own processor's caches from step to step.
 * It takes the parts of its share of a phase, and then, until all parts of the phase are done, looks whether
 * a share has nobody (its thread did not come, or went home), or nobody who gets on (it was put aside): of
 * that it takes parts as well. So nobody waits for a part that nobody has.
 *
 * Where there are several rows, and U is small, each thread has some of the rows instead, and waits for
 * nobody.
 *
 * Every other step goes through its parts from the last to the first: where U does not fit into a cache, what
 * a step has read last is still there when the next begins. In one order it would have been driven out by
 * then, all of it.
 *
 * Threads: counters are atomic; a part writes its own units of h, c and p, and reads what the phases before
 * have left, which are done.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/recurrence_steps.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/thread_pool.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/cpu/vecmath.h"

static struct td_parallel_cost
    costs[TD_PARALLEL_CLASSES]; /* by the binary logarithm of the multiplications */

static int phases(const struct td_recurrence_steps *s)
{
    return s->cell == TD_CELL_GRU_BEFORE ? 2 : 1;
}

/* ------------------------------------------------------------------ the cells: one row, units [from, to) */

struct row {
    const float *x, *p, *bx, *bh; /* of all gates */
    const float *h;               /* of the step before */
    int64_t units;
    const int64_t *place;
    int64_t from, to;
};

TD_CLONES static void lstm(const struct row *r, float *restrict c, float *restrict out)
{
    const int64_t i = r->place[0] * r->units, f = r->place[1] * r->units, g = r->place[2] * r->units,
                  o = r->place[3] * r->units, to = r->to;
    const float *x = r->x, *p = r->p, *bx = r->bx, *bh = r->bh;
    for (int64_t k = r->from; k < to; k++) {
        const float in = td_fast_sigmoid_f32(x[i + k] + p[i + k] + bx[i + k] + bh[i + k]);
        const float forget = td_fast_sigmoid_f32(x[f + k] + p[f + k] + bx[f + k] + bh[f + k]);
        const float fresh = td_fast_tanh_f32(x[g + k] + p[g + k] + bx[g + k] + bh[g + k]);
        const float open = td_fast_sigmoid_f32(x[o + k] + p[o + k] + bx[o + k] + bh[o + k]);
        const float cell = forget * c[k] + in * fresh;
        c[k] = cell;
        out[k] = open * td_fast_tanh_f32(cell);
    }
}

TD_CLONES static void gru(const struct row *r, float *restrict out)
{
    const int64_t z = r->place[0] * r->units, s = r->place[1] * r->units, n = r->place[2] * r->units,
                  to = r->to;
    const float *x = r->x, *p = r->p, *bx = r->bx, *bh = r->bh, *h = r->h;
    for (int64_t k = r->from; k < to; k++) {
        const float update = td_fast_sigmoid_f32((x[z + k] + bx[z + k]) + (p[z + k] + bh[z + k]));
        const float reset = td_fast_sigmoid_f32((x[s + k] + bx[s + k]) + (p[s + k] + bh[s + k]));
        const float fresh = td_fast_tanh_f32((x[n + k] + bx[n + k]) + reset * (p[n + k] + bh[n + k]));
        out[k] = update * h[k] + (1.0f - update) * fresh;
    }
}

TD_CLONES static void plain_tanh(const struct row *r, float *restrict out)
{
    const float *x = r->x, *p = r->p, *bx = r->bx, *bh = r->bh;
    const int64_t to = r->to;
    for (int64_t k = r->from; k < to; k++) {
        out[k] = td_fast_tanh_f32(x[k] + p[k] + bx[k] + bh[k]);
    }
}

/* ------------------------------------------------------------------ the cells with other squashes */

static float elu(float v)
{
    const float e = td_fast_exp_f32(v < 0.0f ? v : 0.0f) - 1.0f;
    return v < 0.0f ? e : v;
}

TD_CLONES static void squash_other(const struct td_recurrence_steps *s, enum td_squash how, float *v,
                                   int64_t n)
{
    const float slope = s->slope, offset = s->offset;
    if (how == TD_SQUASH_RELU) {
        for (int64_t k = 0; k < n; k++) {
            v[k] = v[k] > 0.0f || v[k] != v[k] ? v[k] : 0.0f;
        }
    } else if (how == TD_SQUASH_SOFTSIGN) {
        for (int64_t k = 0; k < n; k++) {
            v[k] = v[k] / (1.0f + fabsf(v[k]));
        }
    } else if (how == TD_SQUASH_ELU) {
        for (int64_t k = 0; k < n; k++) {
            v[k] = elu(v[k]);
        }
    } else {
        for (int64_t k = 0; k < n; k++) {
            const float most = slope * v[k] + offset > 1.0f ? 1.0f : slope * v[k] + offset;
            v[k] = most < 0.0f ? 0.0f : most;
        }
    }
}

static void squash(const struct td_recurrence_steps *s, enum td_squash how, float *v, int64_t n)
{
    if (how == TD_SQUASH_SIGMOID) {
        td_vec_sigmoid_f32(v, v, n);
    } else if (how == TD_SQUASH_TANH) {
        td_vec_tanh_f32(v, v, n);
    } else {
        squash_other(s, how, v, n);
    }
}

/* p += x + bx + bh, for gate k. */
TD_CLONES static void add_up(const struct row *r, int64_t k, float *restrict p)
{
    const int64_t at = r->place[k] * r->units, to = at + r->to;
    const float *x = r->x, *bx = r->bx, *bh = r->bh;
    for (int64_t i = at + r->from; i < to; i++) {
        p[i] = (x[i] + bx[i]) + (p[i] + bh[i]);
    }
}

TD_CLONES static void any_lstm(const struct td_recurrence_steps *s, const struct row *r, float *restrict p,
                               float *restrict c, float *restrict out)
{
    const int64_t n = r->to - r->from;
    float *v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = p + r->place[k] * r->units + r->from;
        add_up(r, k, p);
        squash(s, k == 2 ? s->state : s->gate, v[k], n);
    }
    for (int64_t k = 0; k < n; k++) {
        c[r->from + k] = v[1][k] * c[r->from + k] + v[0][k] * v[2][k];
        out[r->from + k] = c[r->from + k];
    }
    squash(s, s->state, out + r->from, n);
    for (int64_t k = 0; k < n; k++) {
        out[r->from + k] *= v[3][k];
    }
}

/* out = z h + (1 - z) fresh */
TD_CLONES static void step_on(const struct row *r, const float *z, const float *fresh, float *restrict out)
{
    const int64_t n = r->to - r->from;
    const float *h = r->h + r->from;
    float *to = out + r->from;
    for (int64_t k = 0; k < n; k++) {
        to[k] = z[k] * h[k] + (1.0f - z[k]) * fresh[k];
    }
}

TD_CLONES static void any_gru(const struct td_recurrence_steps *s, const struct row *r, float *restrict p,
                              float *restrict out)
{
    const int64_t n = r->to - r->from, at = r->place[2] * r->units + r->from;
    float *z = p + r->place[0] * r->units + r->from, *reset = p + r->place[1] * r->units + r->from;
    add_up(r, 0, p);
    add_up(r, 1, p);
    squash(s, s->gate, z, n);
    squash(s, s->gate, reset, n);
    for (int64_t k = 0; k < n; k++) {
        p[at + k] = (r->x[at + k] + r->bx[at + k]) + reset[k] * (p[at + k] + r->bh[at + k]);
    }
    squash(s, s->state, p + at, n);
    step_on(r, z, p + at, out);
}

static void any_plain(const struct td_recurrence_steps *s, const struct row *r, float *restrict p,
                      float *restrict out)
{
    const size_t n = (size_t)(r->to - r->from);
    add_up(r, 0, p);
    memcpy(out + r->from, p + r->from, n * sizeof *out);
    squash(s, s->state, out + r->from, (int64_t)n);
}

/* z and r, into p, and r h. */
static void gru_before(const struct td_recurrence_steps *s, const struct row *r, float *restrict p,
                       float *restrict rh)
{
    const int64_t n = r->to - r->from;
    const float *reset = p + r->place[1] * r->units;
    for (int k = 0; k < 2; k++) {
        add_up(r, k, p);
        squash(s, s->gate, p + r->place[k] * r->units + r->from, n);
    }
    for (int64_t k = r->from; k < r->to; k++) {
        rh[k] = reset[k] * r->h[k];
    }
}

/* q: (r h) U2, to which x2 and b2 come. */
static void gru_behind(const struct td_recurrence_steps *s, const struct row *r, const float *x2,
                       float *restrict q, float *restrict out)
{
    for (int64_t k = r->from; k < r->to; k++) {
        q[k] += x2[k] + s->b2[k];
    }
    squash(s, s->state, q + r->from, r->to - r->from);
    step_on(r, r->p + r->place[0] * r->units + r->from, q + r->from, out);
}

/* ------------------------------------------------------------------ a part of a phase */

/* Units [from, to) of rows [row, end). */
struct area {
    int64_t from, to, row, end;
    int64_t next; /* the first unit of the part that is likely to be next; negative: nobody knows */
};

struct product {
    const float *a, *u;
    int64_t depth, gates;
    float *out;
};

/* Of a gate's at column `at`: the next gate's, or the first of the part that is likely to be next. */
static const float *panel_behind(const struct td_recurrence_steps *s, const struct product *p,
                                 const struct area *w, int64_t at)
{
    const int64_t next = at + s->units < p->gates * s->units ? at + s->units : w->next;
    return next >= 0 ? p->u + next * p->depth : NULL;
}

/* The area of each gate of a U. */
static void multiply(const struct td_recurrence_steps *s, const struct product *p, const struct area *w)
{
    const int64_t width = p->gates * s->units;
    const bool all = w->to - w->from == s->units; /* then the gates lie side by side */
    struct td_gemm g = {.m = w->end - w->row,
                        .n = all ? width : w->to - w->from,
                        .k = s->units,
                        .lda = s->units,
                        .ldc = width};
    g.a = p->a + w->row * s->units;
    g.ldb = p->depth > 0 ? p->depth : width;
    for (int64_t at = w->from; at < width; at += s->units) {
        g.b = p->u + at * (p->depth > 0 ? p->depth : 1); /* panels follow each other */
        g.c = p->out + w->row * width + at;
        if (p->depth > 0) {
            td_gemm_panels(&g, all ? NULL : panel_behind(s, p, w, at));
        } else {
            td_gemm_small(&g);
        }
        if (all) {
            return;
        }
    }
}

static void run_cell(const struct td_recurrence_steps *s, const struct row *r, int64_t i, float *out)
{
    const bool usual = s->gate <= TD_SQUASH_SIGMOID && s->state == TD_SQUASH_TANH;
    float *p = s->p + i * td_cell_gates(s->cell) * s->units;
    if (s->cell == TD_CELL_LSTM && usual) {
        lstm(r, s->c + i * s->units, out);
    } else if (s->cell == TD_CELL_LSTM) {
        any_lstm(s, r, p, s->c + i * s->units, out);
    } else if (s->cell == TD_CELL_GRU && usual) {
        gru(r, out);
    } else if (s->cell == TD_CELL_GRU) {
        any_gru(s, r, p, out);
    } else if (usual) {
        plain_tanh(r, out);
    } else {
        any_plain(s, r, p, out);
    }
}

static void run_part(const struct td_recurrence_steps *s, int64_t phase, struct area w)
{
    const int64_t step = phase / phases(s), size = s->rows * s->units, gates = td_cell_gates(s->cell);
    const bool second = phase % phases(s) > 0, splits = phases(s) > 1;
    const float *before = step == 0 ? s->h0 : s->h + (step - 1) % s->kept * size;
    float *out = s->h + step % s->kept * size;
    const struct product product = second ? (struct product){s->rh, s->u2, s->depth2, 1, s->q}
                                          : (struct product){before, s->u, s->depth, gates, s->p};
    multiply(s, &product, &w);
    for (int64_t i = w.row; i < w.end; i++) {
        float *to_h = out + i * s->units;
        if (s->mask != NULL && !s->mask[step][i]) {
            memcpy(to_h + w.from, before + i * s->units + w.from, (size_t)(w.to - w.from) * sizeof *to_h);
            continue;
        }
        float *p = s->p + i * gates * s->units;
        const struct row r = {.x = s->x[step] + i * s->x_width,
                              .p = p,
                              .bx = s->bx,
                              .bh = s->bh,
                              .h = before + i * s->units,
                              .units = s->units,
                              .place = s->place,
                              .from = w.from,
                              .to = w.to};
        if (second) {
            gru_behind(s, &r, s->x2[step] + i * s->x2_width, s->q + i * s->units, to_h);
        } else if (splits) {
            gru_before(s, &r, p, s->rh + i * s->units);
        } else {
            run_cell(s, &r, i, to_h);
        }
    }
}

/* ------------------------------------------------------------------ all steps */

enum { MOST_SHARES = 16, PATIENCE_NS = 50000 };
/* Rows worth a thread of their own, and how much of U each thread may read whole: what its cache holds.
 * Of more rows than MOST_ROWS, reading U is not what a step takes. */
enum { LEAST_ROWS = 4, MOST_ROWS = 16, BYTES_OF_ALL = 512 << 10 };

/* U, of all gates. */
static size_t bytes_of_all(const struct td_recurrence_steps *s)
{
    return (size_t)(td_cell_gates(s->cell) + phases(s) - 1) * (size_t)s->units * (size_t)s->units *
           sizeof(float);
}

/* Tickets k of a share: part first + k % n of phase k / n. */
struct share {
    _Alignas(64) atomic_llong next;
    atomic_bool held; /* a thread is at it */
    int64_t first, n;
};

struct team {
    const struct td_recurrence_steps *s;
    const struct td_call *call;
    struct td_thread_pool *pool;
    int64_t parts, units, phases; /* parts of a phase; units of a part */
    bool by_rows;
    int n_shares; /* or groups of rows */
    struct share share[MOST_SHARES];
    _Alignas(64) atomic_llong done;
    atomic_bool stop, helped;
};

/* Parts go from the first to the last in even steps, and back in odd ones. */
static bool goes_back(const struct td_recurrence_steps *s, int64_t phase)
{
    return phase / phases(s) % 2 != 0;
}

/* The k-th of n. */
static int64_t part_of(const struct td_recurrence_steps *s, int64_t phase, int64_t k, int64_t n)
{
    return goes_back(s, phase) ? n - 1 - k : k;
}

/* The next part of a share's in this phase; -1: all are taken. */
static int64_t take(const struct team *t, struct share *a, int64_t phase)
{
    long long k = atomic_load_explicit(&a->next, memory_order_relaxed);
    while (k < (phase + 1) * a->n) {
        if (atomic_compare_exchange_weak_explicit(&a->next, &k, k + 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return a->first + part_of(t->s, phase, k % a->n, a->n);
        }
    }
    return -1;
}

/* The next part of a share that nobody is at, or, impatiently, of any. */
static int64_t take_others(struct team *t, int64_t phase, bool impatient)
{
    for (int i = 0; i < t->n_shares; i++) {
        if (impatient || !atomic_load_explicit(&t->share[i].held, memory_order_relaxed)) {
            const int64_t part = take(t, &t->share[i], phase);
            if (part >= 0) {
                return part;
            }
        }
    }
    return -1;
}

/* A part of some rows, and its neighbour, which its thread is likely to have next. */
static struct area part_area(const struct team *t, int64_t phase, int64_t part, int64_t row, int64_t end)
{
    const int64_t next = goes_back(t->s, phase) ? part - 1 : part + 1;
    return (struct area){.from = part * t->units,
                         .to = (part + 1) * t->units,
                         .row = row,
                         .end = end,
                         .next = next < t->parts ? next * t->units : -1};
}

static void run_one(struct team *t, int64_t phase, int64_t part, int who)
{
    run_part(t->s, phase, part_area(t, phase, part, 0, t->s->rows));
    atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
    if (who > 0) {
        atomic_store_explicit(&t->helped, true, memory_order_relaxed);
    } else if (td_stopped(t->call)) {
        atomic_store_explicit(&t->stop, true, memory_order_relaxed);
    }
}

/* Until all parts of the phase are done, helps where help lacks. False: the run is stopped. */
static bool finish(struct team *t, int64_t phase, int who)
{
    const int64_t all = (phase + 1) * t->parts;
    int64_t from_ns = 0;
    while (atomic_load_explicit(&t->done, memory_order_acquire) < all) {
        if (atomic_load_explicit(&t->stop, memory_order_relaxed)) {
            return false;
        }
        from_ns = from_ns == 0 ? td_now_ns() : from_ns;
        const int64_t part = take_others(t, phase, td_now_ns() - from_ns > PATIENCE_NS);
        if (part >= 0) {
            run_one(t, phase, part, who);
        } else {
            (void)td_linger_between(from_ns);
        }
    }
    return true;
}

/* A thread's work: from the phase at hand to the last, or, a helper's, until it is wanted elsewhere. */
static void work(struct team *t, struct share *own, int who)
{
    int64_t phase = atomic_load_explicit(&t->done, memory_order_acquire) / t->parts;
    for (; phase < t->phases && !atomic_load_explicit(&t->stop, memory_order_relaxed); phase++) {
        for (int64_t part = take(t, own, phase); part >= 0; part = take(t, own, phase)) {
            run_one(t, phase, part, who);
        }
        if ((who > 0 && t->pool->wanted(t->pool)) || !finish(t, phase, who)) {
            return;
        }
    }
}

static void take_part(void *arg, int i, int who)
{
    struct team *t = arg;
    (void)i;
    for (int k = 0; k < t->n_shares; k++) {
        struct share *own = &t->share[(who + k) % t->n_shares];
        if (!atomic_exchange_explicit(&own->held, true, memory_order_relaxed)) {
            work(t, own, who);
            atomic_store_explicit(&own->held, false, memory_order_relaxed);
            return;
        }
    }
}

/* Rows do not need each other: all steps of some of them, with no wait in between. In one part where all
 * of U is in a cache. */
static void run_rows(const struct team *t, int64_t row, int64_t end)
{
    const struct td_recurrence_steps *s = t->s;
    const bool reads = s->depth > 0 && end - row <= MOST_ROWS && bytes_of_all(s) > BYTES_OF_ALL;
    for (int64_t phase = 0; phase < t->phases && !td_stopped(t->call); phase++) {
        if (!reads) {
            run_part(s, phase, (struct area){0, s->units, row, end, -1});
        }
        for (int64_t k = 0; reads && k < t->parts; k++) {
            run_part(s, phase, part_area(t, phase, part_of(s, phase, k, t->parts), row, end));
        }
    }
}

static void take_rows(void *arg, int i, int who)
{
    struct team *t = arg;
    run_rows(t, t->s->rows * i / t->n_shares, t->s->rows * (i + 1) / t->n_shares);
    if (who > 0) {
        atomic_store_explicit(&t->helped, true, memory_order_relaxed);
    }
}

static void run_shares(struct team *t, int most)
{
    t->n_shares = (int)(t->parts < most ? t->parts : most);
    for (int i = 0; i < t->n_shares; i++) {
        t->share[i].first = t->parts * i / t->n_shares;
        t->share[i].n = t->parts * (i + 1) / t->n_shares - t->share[i].first;
    }
    td_parallel_for(t->pool, t->n_shares, take_part, t);
}

static void run_together(struct team *t)
{
    const int most = t->pool->most < MOST_SHARES ? t->pool->most : MOST_SHARES;
    const int64_t groups = t->s->rows / LEAST_ROWS;
    if (t->by_rows) {
        t->n_shares = (int)(groups < most ? groups : most);
        td_parallel_for(t->pool, t->n_shares, take_rows, t);
    } else {
        run_shares(t, most);
    }
}

/* How a phase falls into parts; false: it does not. */
static bool divide(struct team *t)
{
    const struct td_recurrence_steps *s = t->s;
    t->by_rows = s->rows >= 2 * LEAST_ROWS && bytes_of_all(s) <= BYTES_OF_ALL;
    if (s->units % TD_PANEL == 0 && s->units > TD_PANEL) {
        t->units = TD_PANEL;
        t->parts = s->units / TD_PANEL;
    }
    return t->pool != NULL && s->steps > 0 && (t->by_rows || t->parts > 1);
}

void td_recurrence_run(struct td_call *c, const struct td_recurrence_steps *s)
{
    struct team t = {.s = s,
                     .call = c,
                     .pool = td_helpers(c),
                     .parts = 1,
                     .units = s->units,
                     .phases = s->steps * phases(s)};
    if (!divide(&t)) {
        run_rows(&t, 0, s->rows);
        return;
    }
    const double products = (double)s->steps * (double)s->rows * (double)s->units * (double)s->units *
                            (double)(td_cell_gates(s->cell) + phases(s) - 1);
    struct td_parallel_cost *cost = &costs[td_parallel_class(products)];
    const enum td_parallel_way way =
        t.pool->steady ? td_parallel_by_work(products)
                       : td_parallel_choose(cost, t.pool, td_timing_known(&cost->alone_ns) / 2);
    const int64_t from_ns = way == TD_PARALLEL_ALONE ? 0 : td_now_ns();
    if (way == TD_PARALLEL_TOGETHER) {
        run_together(&t);
    } else {
        run_rows(&t, 0, s->rows);
    }
    const bool helped = atomic_load(&t.helped);
    if (helped || way == TD_PARALLEL_ALONE_TIMED) {
        td_timing_learn(helped ? &cost->together_ns : &cost->alone_ns, td_now_ns() - from_ns);
    }
}
