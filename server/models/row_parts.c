/* server/models/row_parts.c - whether to cut a call, how, and what that took.
 *
 *   the first runs    whole, timed: what takes less than a few milliseconds is never cut
 *   then              the proof, once, by the thread that comes to need it; others run whole meanwhile
 *   the next runs     in parts, timed
 *   from then on      whichever took less at its best; the other is tried again now and then
 *
 * Parts are views of the inputs' rows; their outputs are copied into the call's. A part has as many rows as
 * make it worth a run of its own. The first error of any part is the call's.
 *
 * Does not: join calls (server/sched), cut a call that is looked on, prints, or must round alike each time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/row_parts.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/thread_pool.h"
#include "core/batchable/batchable.h"
#include "server/models/batch.h"

enum {
    LEAST_NS = 3000000,
    PART_NS = 1000000,
    MOST_PARTS = 64,
    MOST_TENSORS = 32,
    FIRST_RUNS = 3,  /* timed, of each way, before one is chosen */
    TRY_AGAIN = 256, /* runs until the other way is tried once more, if it was not far behind */
};

enum td_code td_row_parts_new(struct td_row_parts **out, struct td_err *err)
{
    struct td_row_parts *p = td_calloc(1, sizeof *p);
    if (p == NULL || pthread_mutex_init(&p->mu, NULL) != 0) {
        td_free(p);
        return td_no_memory(err, sizeof *p, "what is learnt of calls");
    }
    atomic_init(&p->cut, 0);
    p->least_ns = LEAST_NS;
    p->part_ns = PART_NS;
    *out = p;
    return TD_OK;
}

void td_row_parts_free(struct td_row_parts *p)
{
    if (p != NULL) {
        pthread_mutex_destroy(&p->mu);
        td_free(p);
    }
}

/* ------------------------------------------------------------------ whether */

/* The leading dimension of all inputs; 0: there is none. */
static int64_t rows_of(const struct td_row_parts_call *c)
{
    const int64_t rows = c->n_in > 0 && c->in[0].shape.rank > 0 ? c->in[0].shape.dim[0] : 0;
    for (int i = 1; i < c->n_in; i++) {
        if (c->in[i].shape.rank < 1 || c->in[i].shape.dim[0] != rows) {
            return 0;
        }
    }
    return rows;
}

static uint64_t shapes_of(const struct td_row_parts_call *c)
{
    uint64_t h = td_hash_start;
    for (int i = 0; i < c->n_in; i++) {
        const struct td_shape *s = &c->in[i].shape;
        h = td_hash_more(h, s->dim, (size_t)s->rank * sizeof s->dim[0]);
        h = td_hash_more(h, &c->in[i].dtype, sizeof c->in[i].dtype);
    }
    h = td_hash_mix(h);
    return h == 0 ? 1 : h;
}

static bool may_cut(const struct td_row_parts_call *c, int64_t rows)
{
    const struct td_run_opts *o = c->opts;
    const bool watched = o != NULL && (o->eager || o->observe != NULL || o->print != NULL);
    const bool steady = o != NULL && o->pool != NULL && o->pool->steady;
    return rows > 1 && c->n_in <= MOST_TENSORS && c->n_out <= MOST_TENSORS && c->n_out > 0 && !watched &&
           !steady;
}

/* The case of these shapes, or a free one, or the one that ran least, which is forgotten. Holds mu. */
static struct td_row_parts_case *case_of(struct td_row_parts *p, uint64_t shapes)
{
    struct td_row_parts_case *least = &p->of[0];
    for (int i = 0; i < TD_ROW_PARTS_SHAPES; i++) {
        if (p->of[i].shapes == shapes) {
            return &p->of[i];
        }
        least = p->of[i].runs < least->runs ? &p->of[i] : least;
    }
    *least = (struct td_row_parts_case){.shapes = shapes};
    return least;
}

/* Rows a part: the least that take part_ns, in no more than MOST_PARTS. */
static int64_t part_rows(const struct td_row_parts *p, int64_t rows, int64_t whole_ns)
{
    const int64_t row_ns = whole_ns / rows + 1, by_time = (p->part_ns + row_ns - 1) / row_ns;
    const int64_t by_number = (rows + MOST_PARTS - 1) / MOST_PARTS;
    return by_time > by_number ? by_time : by_number;
}

/* Which way a case that may be cut runs this time. Holds mu. */
static bool in_parts(const struct td_row_parts_case *k)
{
    if (k->parts_runs < FIRST_RUNS) {
        return true;
    }
    const bool parts = k->parts_ns < k->whole_ns;
    const int64_t best = parts ? k->parts_ns : k->whole_ns, other = parts ? k->whole_ns : k->parts_ns;
    const bool try_other = k->runs % TRY_AGAIN == 0 && other < best + best / 4;
    return parts != try_other;
}

struct way {
    bool ask;     /* for the proof, then whole */
    int64_t rows; /* of a part; 0: whole */
};

static struct way choose(struct td_row_parts *p, uint64_t shapes, int64_t rows)
{
    struct way w = {0};
    pthread_mutex_lock(&p->mu);
    struct td_row_parts_case *k = case_of(p, shapes);
    k->runs++;
    const bool known = k->whole_runs >= FIRST_RUNS && k->whole_ns >= p->least_ns;
    const int64_t part = known ? part_rows(p, rows, k->whole_ns) : rows;
    if (part >= rows) { /* whole */
    } else if (k->proof == TD_ROWS_UNKNOWN) {
        k->proof = TD_ROWS_ASKED;
        w.ask = true;
    } else if (k->proof == TD_ROWS_APART) {
        w.rows = in_parts(k) ? part : 0;
    }
    pthread_mutex_unlock(&p->mu);
    return w;
}

static void learn(struct td_row_parts *p, uint64_t shapes, bool parts, int64_t ns)
{
    pthread_mutex_lock(&p->mu);
    struct td_row_parts_case *k = case_of(p, shapes);
    int64_t *least = parts ? &k->parts_ns : &k->whole_ns;
    *least = *least == 0 || ns < *least ? ns : *least;
    k->whole_runs += !parts;
    k->parts_runs += parts;
    pthread_mutex_unlock(&p->mu);
}

/* Whether parts of any number of rows up to `rows` give the rows of the whole. */
static bool prove(const struct td_row_parts_call *c, int64_t rows)
{
    struct td_shape shape[MOST_TENSORS];
    struct td_batchable b = {0};
    struct td_err why = {0};
    for (int i = 0; i < c->n_in; i++) {
        shape[i] = c->in[i].shape;
    }
    return td_batchable_prove(c->f, shape, c->n_in, &b, &why) == TD_OK && b.rowwise && b.min_rows <= 1 &&
           b.max_rows >= rows;
}

static void ask(struct td_row_parts *p, const struct td_row_parts_call *c, uint64_t shapes, int64_t rows)
{
    const bool apart = prove(c, rows);
    pthread_mutex_lock(&p->mu);
    case_of(p, shapes)->proof = apart ? TD_ROWS_APART : TD_ROWS_TOGETHER;
    pthread_mutex_unlock(&p->mu);
}

/* ------------------------------------------------------------------ in parts */

struct parts {
    const struct td_row_parts_call *call;
    struct td_run_opts opts; /* of each part: on one thread */
    int64_t rows, each;
    struct td_tensor *out; /* n_out a part */
    pthread_mutex_t mu;    /* guards err */
    struct td_err *err;
    atomic_int failed; /* the code */
};

/* Rows [from, to) of t, borrowed as t is: it may own no buffer (server/embed.c). */
static struct td_tensor rows_within(const struct td_tensor *t, int64_t from, int64_t to)
{
    struct td_tensor part = *t;
    const int64_t row = td_tensor_count(t) / t->shape.dim[0];
    part.shape.dim[0] = to - from;
    part.data = (char *)t->data + (size_t)(from * row) * td_dtype_size(t->dtype);
    return part;
}

static void run_part(void *arg, int i, int who)
{
    (void)who;
    struct parts *s = arg;
    const struct td_row_parts_call *c = s->call;
    struct td_tensor in[MOST_TENSORS];
    struct td_err err = {0};
    if (atomic_load(&s->failed) != TD_OK) {
        return;
    }
    const int64_t from = i * s->each, to = from + s->each < s->rows ? from + s->each : s->rows;
    for (int k = 0; k < c->n_in; k++) {
        in[k] = rows_within(&c->in[k], from, to);
    }
    const enum td_code rc = td_callable_run(c->f, in, s->out + (size_t)i * (size_t)c->n_out, &s->opts, &err);
    if (rc != TD_OK) {
        pthread_mutex_lock(&s->mu);
        if (atomic_load(&s->failed) == TD_OK) {
            *s->err = err;
            atomic_store(&s->failed, (int)rc);
        }
        pthread_mutex_unlock(&s->mu);
    }
}

/* Output k of all parts, one behind the other. */
static enum td_code join(const struct parts *s, int n, int k, struct td_tensor *out, struct td_err *err)
{
    const struct td_tensor *part[MOST_PARTS];
    for (int i = 0; i < n; i++) {
        const int64_t from = i * s->each, rows = from + s->each < s->rows ? s->each : s->rows - from;
        part[i] = &s->out[(size_t)i * (size_t)s->call->n_out + (size_t)k];
        TD_FAIL_IF(part[i]->shape.rank < 1 || part[i]->shape.dim[0] != rows ||
                       part[i]->dtype != part[0]->dtype,
                   err, INTERNAL, "output %d of part %d does not have its rows", k, i);
    }
    return td_batch_join(part, n, 0, false, NULL, out, err);
}

static enum td_code join_all(const struct parts *s, int n, struct td_tensor *out, struct td_err *err)
{
    for (int k = 0; k < s->call->n_out; k++) {
        const enum td_code rc = join(s, n, k, &out[k], err);
        if (rc) {
            while (k-- > 0) {
                td_tensor_clear(&out[k]);
            }
            return rc;
        }
    }
    return TD_OK;
}

static enum td_code run_parts(const struct td_row_parts_call *c, int64_t rows, int64_t each,
                              struct td_tensor *out, struct td_err *err)
{
    const int n = (int)((rows + each - 1) / each);
    struct parts s = {.call = c, .rows = rows, .each = each, .err = err, .mu = PTHREAD_MUTEX_INITIALIZER};
    s.out = td_calloc((size_t)n * (size_t)c->n_out, sizeof *s.out);
    if (s.out == NULL) {
        return td_no_memory(err, (size_t)n, "parts of a call");
    }
    s.opts = td_run_opts_given(c->opts); /* of this thread's work: helpers have another */
    s.opts.pool = NULL;
    atomic_init(&s.failed, TD_OK);
    td_parallel_for(c->opts != NULL ? c->opts->pool : NULL, n, run_part, &s);
    enum td_code rc = (enum td_code)atomic_load(&s.failed);
    rc = rc ? rc : join_all(&s, n, out, err);
    for (int i = 0; i < n * c->n_out; i++) {
        td_tensor_clear(&s.out[i]);
    }
    td_free(s.out);
    return rc;
}

enum td_code td_row_parts_run(struct td_row_parts *p, const struct td_row_parts_call *c,
                              struct td_tensor *out, struct td_err *err)
{
    const int64_t rows = rows_of(c);
    if (!may_cut(c, rows)) {
        return td_callable_run(c->f, c->in, out, c->opts, err);
    }
    const uint64_t shapes = shapes_of(c);
    const struct way way = choose(p, shapes, rows);
    if (way.ask) {
        ask(p, c, shapes, rows);
    }
    const int64_t from = td_now_ns();
    if (way.rows > 0) {
        atomic_fetch_add(&p->cut, 1);
        TD_TRY(run_parts(c, rows, way.rows, out, err));
    } else {
        TD_TRY(td_callable_run(c->f, c->in, out, c->opts, err));
    }
    learn(p, shapes, way.rows > 0, td_now_ns() - from);
    return TD_OK;
}
