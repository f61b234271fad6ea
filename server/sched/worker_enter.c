/* server/sched/worker_enter.c - the entrance: a job runs here at once, or enters the queue in chunks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/sched/batch.h"
#include "server/base/clock.h"
#include "server/sched/workers_impl.h"
#include "server/base/metrics.h"

#define SHORT_NS 60000   /* what a borrowed thread may compute itself: little more than a wake-up costs */
#define SPLIT_NS 4000000 /* a job this long is worth running in chunks while workers idle */
#define CHUNK_NS 2000000 /* but no chunk shorter than this */
#define MAX_CHUNKS 4096

/* What is known of a job before it runs. */
struct nature {
    int64_t leading; /* rows of its inputs; 0: none, or it may not be batched */
    uint64_t like;   /* of jobs that may share a batch */
    uint64_t shapes; /* the same but where shapes that differ are padded */
    enum td_proof proof;
    int64_t n_chunks;
};

/* What a call waits on when nobody is told. */
struct waiter {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool ended;
    struct td_err err;
};

struct waiting_job {
    struct td_job job; /* first */
    struct waiter *waiter;
};

static void wake(struct td_job *j, struct td_err *err)
{
    struct waiter *w = ((struct waiting_job *)j)->waiter;
    pthread_mutex_lock(&w->mu);
    w->err = *err;
    w->ended = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mu);
}

/* How many chunks a job of so many rows runs in. Caller holds mu. */
static int64_t count_chunks(const struct td_workers *l, const struct td_worker_queue *f, int64_t rows)
{
    const int64_t most = f->queue.rule.max_rows;
    if (f->ruled) {
        return f->params.split_large && rows > most ? (rows + most - 1) / most : 1;
    }
    const int64_t ns = td_cost_of(&f->queue.cost, rows), idle = l->sched.workers - l->sched.running;
    int64_t n = ns >= SPLIT_NS && idle > 1 ? ns / CHUNK_NS : 1;
    n = n < idle ? n : idle;
    n = n < rows ? n : rows;
    return n > 1 ? n : 1;
}

static enum td_code make_chunks(struct td_worker_queue *f, struct td_job *j, int64_t rows, int64_t n,
                                struct td_err *err)
{
    const size_t n_out = (size_t)f->sig->n_out;
    TD_FAIL_IF(n > MAX_CHUNKS, err, INVALID_ARGUMENT,
               "a request of %lld rows would run in more than %d batches", (long long)rows, MAX_CHUNKS);
    j->chunks = td_arena_alloc(j->arena, (size_t)n, sizeof *j->chunks);
    struct td_tensor *made = n > 1 ? td_arena_alloc(j->arena, (size_t)n * n_out, sizeof *made) : j->made;
    if (j->chunks == NULL || made == NULL) {
        return td_no_memory(err, (size_t)n * (sizeof *j->chunks + n_out * sizeof *made),
                            "a request's pieces");
    }
    j->n_chunks = (int)n;
    const int64_t each = f->ruled ? f->queue.rule.max_rows : (rows + n - 1) / n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = n > 1 ? i * each : 0, to = n > 1 && from + each < rows ? from + each : rows;
        j->chunks[i] = (struct td_chunk){.job = j, .from = from, .to = to, .made = made + (size_t)i * n_out};
    }
    return TD_OK;
}

/* Where it waits: priorities past the last level wait together. */
static int level_of(const struct td_worker_queue *f, const struct td_job *j)
{
    if (f->n_priorities == 0) {
        return (int)j->level;
    }
    const bool known = j->priority > 0 && (uint64_t)j->priority <= f->n_priorities;
    const uint64_t p = known ? (uint64_t)j->priority : f->default_priority;
    return p < TD_LEVELS ? (int)p - 1 : TD_LEVELS - 1;
}

static void fill_tasks(struct td_worker_queue *f, struct td_job *j, const struct nature *n)
{
    const int level = level_of(f, j);
    const struct td_patience *patience = &f->patience[level];
    const int64_t over_ns = patience->ns > 0 ? td_clock_ns() + patience->ns : 0, own_ns = j->run.deadline_ns;
    const bool ends = over_ns != 0 && !patience->late && (own_ns == 0 || over_ns < own_ns);
    for (int i = 0; i < j->n_chunks; i++) {
        struct td_chunk *p = &j->chunks[i];
        p->proof = n->proof;
        p->task = (struct td_sched_task){.queue = &f->queue,
                                         .level = level,
                                         .late_ns = patience->late ? over_ns : 0,
                                         .rows = p->to > p->from ? p->to - p->from : 1,
                                         .like = n->like,
                                         .alone = n->proof != TD_PROOF_ROWS,
                                         .deadline_ns = ends ? over_ns : own_ns,
                                         .stop = j->run.stop};
    }
}

/* Pieces that were refused after others had entered end with the refusal. Caller holds mu. */
static void enter_chunks(struct td_workers *l, struct td_job *j, struct td_sched_list *refused)
{
    const int64_t now_ns = td_clock_ns();
    const bool quiet = l->sched.n_tasks == 0;
    for (int i = 0; i < j->n_chunks; i++) {
        struct td_chunk *p = &j->chunks[i];
        struct td_err err = {0};
        if (td_sched_add(&l->sched, &p->task, now_ns, &err)) {
            td_metrics_refused(td_workers_metrics(j), err.code);
            td_chunk_fail(p, &err);
            p->task.next = refused->first;
            refused->first = &p->task;
        }
        td_workers_wake(l);
    }
    if (quiet) {
        pthread_cond_signal(&l->watch);
    }
}

/* The job waits in the queue from here on, and may have ended when this returns. */
static void enter(struct td_workers *l, struct td_job *j)
{
    struct td_sched_list refused = {NULL, NULL};
    atomic_store(&j->left, j->n_chunks);
    pthread_mutex_lock(&l->mu);
    enter_chunks(l, j, &refused);
    pthread_mutex_unlock(&l->mu);
    td_chunk_end_list(refused.first);
}

/* For callers that want to be kept: the same job, with an end that wakes this thread. */
static enum td_code enter_and_wait(struct td_workers *l, struct td_job *j, struct td_err *err)
{
    struct waiter w = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct waiting_job mine = {.job = *j, .waiter = &w};
    mine.job.done = wake;
    for (int i = 0; i < j->n_chunks; i++) {
        mine.job.chunks[i].job = &mine.job;
    }
    enter(l, &mine.job);
    pthread_mutex_lock(&w.mu);
    while (!w.ended) {
        pthread_cond_wait(&w.cond, &w.mu);
    }
    pthread_mutex_unlock(&w.mu);
    j->times = mine.job.times;
    *err = w.err;
    return err->code;
}

/* A worker for the job at once, if one idles and this thread may be used. Caller holds mu. */
static bool take_worker(struct td_workers *l, struct td_worker_queue *f, const struct td_job *j, int64_t rows,
                        struct td_batch *b)
{
    const int64_t ns = td_cost_of(&f->queue.cost, rows);
    if ((j->borrowed && (ns == 0 || ns > SHORT_NS)) || (f->ruled && f->params.n_allowed > 0)) {
        return false;
    }
    return td_sched_try(&l->sched, &f->queue, rows, td_clock_ns(), b);
}

static enum td_code run_here(struct td_workers *l, struct td_job *j, const struct td_batch *b,
                             struct td_err *err)
{
    const int64_t from_ns = td_clock_ns();
    const enum td_code rc = td_worker_alone(j, err);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    j->times = (struct td_times){.infer_ns = ran_ns};
    if (rc == TD_OK) {
        td_stats_batch(td_servable_stats(j->servable), b->rows, &j->times);
        td_metrics_graph_run(ran_ns / 1000);
    }
    pthread_mutex_lock(&l->mu);
    td_workers_count_batch(l, b);
    td_sched_done(&l->sched, b, ran_ns, rc == TD_OK);
    td_workers_wake(l);
    pthread_mutex_unlock(&l->mu);
    return rc;
}

static struct nature nature_of(const struct td_worker_queue *f, const struct td_job *j)
{
    struct nature n = {.proof = TD_PROOF_NOT_ROWS, .n_chunks = 1};
    n.leading = f->batches ? td_batch_rows(j->in, j->sig->n_in) : 0;
    if (n.leading > 0) {
        const bool pad = f->ruled && f->params.pad_variable_length_inputs;
        n.shapes = td_batch_likeness(j->in, j->sig->n_in, false);
        n.like = pad ? td_batch_likeness(j->in, j->sig->n_in, true) : n.shapes;
    }
    return n;
}

/* Decides who runs the job. Caller holds mu. */
static enum td_code place(struct td_workers *l, struct td_worker_queue *f, struct td_job *j, struct nature *n,
                          bool *here, struct td_batch *b, struct td_err *err)
{
    const int64_t rows = n->leading > 0 ? n->leading : 1;
    if (n->leading > 0) {
        n->proof = td_worker_queue_proof(f, n->shapes);
    }
    TD_FAIL_IF(f->ruled && n->proof != TD_PROOF_NOT_ROWS && rows > f->params.max_batch_size, err,
               INVALID_ARGUMENT, "Task size %lld is larger than maximum input batch size %lld",
               (long long)rows, (long long)f->params.max_batch_size);
    if (n->proof == TD_PROOF_ROWS) {
        n->n_chunks = count_chunks(l, f, rows);
    }
    if (n->n_chunks > 1 && td_sched_room(&f->queue, level_of(f, j), n->n_chunks, rows, err)) {
        td_metrics_refused(td_workers_metrics(j), err->code); /* whole, before any chunk of it has entered */
        return err->code;
    }
    *here = n->n_chunks == 1 && n->proof != TD_PROOF_NONE && take_worker(l, f, j, rows, b);
    return TD_OK;
}

enum td_code td_workers_run(struct td_workers *l, struct td_job *j, bool *later, struct td_err *err)
{
    struct td_worker_queue *f;
    TD_TRY(td_servable_closed(j->servable, j->sig, err));
    TD_TRY(td_worker_queue_find(l, j, &f, err));
    if (f == NULL) {
        *later = false;
        return td_worker_alone(j, err);
    }
    struct nature n = nature_of(f, j);
    j->run.pool = &f->pool;
    struct td_batch b;
    bool here = false;
    *later = false;
    j->err.code = TD_OK;
    atomic_flag_clear(&j->failed);
    pthread_mutex_lock(&l->mu);
    const enum td_code rc = place(l, f, j, &n, &here, &b, err);
    pthread_mutex_unlock(&l->mu);
    if (rc != TD_OK || here) {
        return rc ? rc : run_here(l, j, &b, err);
    }
    TD_TRY(make_chunks(f, j, n.leading, n.n_chunks, err));
    fill_tasks(f, j, &n);
    if (j->done == NULL) {
        return enter_and_wait(l, j, err);
    }
    if (j->queued != NULL) {
        j->queued(j);
    }
    *later = true;
    enter(l, j);
    return TD_OK;
}
