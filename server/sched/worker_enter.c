/* server/sched/worker_enter.c - the entrance: a request runs here at once, or enters the queue in chunks.
 *
 * What is known of a request is worked out before the lock is taken: rows, likeness, whether it may share a
 * batch. Under the lock it is decided who runs it. This thread does, if a worker idles and the thread is
 * the caller's own, or serves others and the run is expected to be short (td_request.thread_ns): a hand-over
 * there and one back cost more than a brief run takes. Then the run counts as a batch of one, and the worker
 * as taken.
 *
 * A thread that serves others runs only what has no effects, and for a few milliseconds: whatever the
 * measured times were, the next input may make the same graph run for long. It is then stopped, and a
 * worker has it from the beginning, as it has all whose outputs are large. One that can have others serve in
 * its place (td_request.step_back) does so first where the run is not brief, and is bound by none of that.
 *
 * Otherwise the request waits, as one chunk, or as several where it is row-wise and long and workers idle,
 * or a rule says so. Room for all chunks is looked for before one enters; one that is refused all the same
 * fails the request, which ends with the others.
 *
 * The first request of shapes that nothing is known of waits even so, because its batch is what asks for
 * the proof.
 *
 * Does not: run what waits (server/sched/workers.c), prove anything (server/sched/worker_queue.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/models/batch.h"
#include "server/base/clock.h"
#include "server/sched/workers_impl.h"
#include "server/base/metrics.h"

#define SPLIT_NS 4000000 /* a request this long is worth running in chunks while workers idle */
#define CHUNK_NS 2000000 /* but no chunk shorter than this */
#define MAX_CHUNKS 4096
#define ALLOWANCE_NS 3000000 /* of a run on a shared thread: past it a worker has it from the beginning */
#define SHARED_BYTES ((size_t)256 << 10) /* outputs that a shared thread encodes; a worker has larger ones */

/* What is known of a request before it runs. */
struct nature {
    int64_t leading; /* rows of its inputs; 0: none, or it may not be batched */
    uint64_t like;   /* of requests that may share a batch */
    uint64_t shapes; /* the same but where shapes that differ are padded */
    struct td_proof_known known;
    int64_t n_chunks;
    int64_t cost_ns;  /* what it is expected to take; 0: nothing is known */
    bool may_be_here; /* as far as the thread is concerned: it may be stopped there, and begun again */
    bool steps_back;  /* the thread has others serve in its place first, and is the request's own then */
};

/* How many chunks a request of so many rows runs in. Caller holds mu. */
static int64_t count_chunks(const struct td_workers *w, const struct td_worker_queue *q, int64_t rows)
{
    const int64_t most = q->queue.rule.max_rows;
    if (q->ruled) {
        return q->params.split_large && rows > most ? (rows + most - 1) / most : 1;
    }
    const int64_t ns = td_cost_of(&q->queue.cost, rows), idle = td_sched_idle_for(&w->sched, &q->queue);
    int64_t n = ns >= SPLIT_NS && idle > 1 ? ns / CHUNK_NS : 1;
    n = n < idle ? n : idle;
    n = n < rows ? n : rows;
    return n > 1 ? n : 1;
}

/* Of each of n chunks but the last, which has the rest. */
static int64_t chunk_rows(const struct td_worker_queue *q, int64_t rows, int64_t n)
{
    return q->ruled ? q->queue.rule.max_rows : (rows + n - 1) / n;
}

/* Whether each of n chunks has that many rows at least. */
static bool chunks_hold(const struct td_worker_queue *q, int64_t rows, int64_t n, int64_t least)
{
    const int64_t each = chunk_rows(q, rows, n), last = rows - (n - 1) * each;
    return n <= 1 || (each >= least && last >= least);
}

static enum td_code make_chunks(struct td_worker_queue *q, struct td_request *r, int64_t rows, int64_t n,
                                struct td_err *err)
{
    const size_t n_out = (size_t)q->sig->n_out;
    TD_FAIL_IF(n > MAX_CHUNKS, err, INVALID_ARGUMENT,
               "a request of %lld rows would run in more than %d batches", (long long)rows, MAX_CHUNKS);
    r->chunks = n == 1 ? &r->whole : td_arena_alloc(r->arena, (size_t)n, sizeof *r->chunks);
    struct td_tensor *made = n > 1 ? td_arena_alloc(r->arena, (size_t)n * n_out, sizeof *made) : r->made;
    if (r->chunks == NULL || made == NULL) {
        return td_no_memory(err, (size_t)n * (sizeof *r->chunks + n_out * sizeof *made),
                            "a request's chunks");
    }
    r->n_chunks = (int)n;
    r->err.code = TD_OK;
    atomic_flag_clear(&r->failed);
    const int64_t each = chunk_rows(q, rows, n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = n > 1 ? i * each : 0, to = n > 1 && from + each < rows ? from + each : rows;
        r->chunks[i] =
            (struct td_chunk){.request = r, .from = from, .to = to, .made = made + (size_t)i * n_out};
    }
    return TD_OK;
}

/* Where it waits: priorities past the last level wait together. */
static int level_of(const struct td_worker_queue *q, const struct td_request *r)
{
    if (q->n_priorities == 0) {
        return r->priority == 1 ? TD_LEVEL_HIGH : TD_LEVEL_NORMAL;
    }
    const bool known = r->priority > 0 && (uint64_t)r->priority <= q->n_priorities;
    const uint64_t p = known ? (uint64_t)r->priority : q->default_priority;
    return p < TD_LEVELS ? (int)p - 1 : TD_LEVELS - 1;
}

static void fill_tasks(struct td_worker_queue *q, struct td_request *r, const struct nature *n)
{
    const int level = level_of(q, r);
    const struct td_patience *patience = &q->patience[level];
    const int64_t over_ns = patience->ns > 0 ? td_clock_ns() + patience->ns : 0;
    for (int i = 0; i < r->n_chunks; i++) {
        struct td_chunk *p = &r->chunks[i];
        p->proof = n->known.proof;
        p->task = (struct td_sched_task){.queue = &q->queue,
                                         .level = level,
                                         .late_ns = patience->late ? over_ns : 0,
                                         .rows = p->to > p->from ? p->to - p->from : 1,
                                         .like = n->like,
                                         .alone = n->known.proof != TD_PROOF_ROWS,
                                         .max_rows = n->known.max_rows,
                                         .start_by_ns = patience->late ? 0 : over_ns,
                                         .run = &r->run};
    }
}

/* Chunks that were refused after others had entered end with the refusal. Caller holds mu. */
static void enter_chunks(struct td_workers *w, struct td_request *r, struct td_sched_list *refused)
{
    const int64_t now_ns = td_clock_ns();
    const bool quiet = w->sched.n_tasks == 0;
    for (int i = 0; i < r->n_chunks; i++) {
        struct td_chunk *p = &r->chunks[i];
        struct td_err err = {0};
        td_count_waiting(p, 1);
        if (td_sched_add(&w->sched, &p->task, now_ns, &err)) {
            td_count_waiting(p, -1);
            td_metrics_refused(td_servable_metrics(r->servable), err.code);
            td_chunk_fail(p, &err);
            p->task.next = refused->first;
            refused->first = &p->task;
        }
        td_workers_wake(w);
    }
    if (quiet) {
        pthread_cond_signal(&w->watch);
    }
}

/* The request waits in the queue from here on, and may have ended when this returns. */
static void enter(struct td_workers *w, struct td_request *r)
{
    struct td_sched_list refused = {NULL, NULL};
    atomic_store(&r->left, r->n_chunks);
    pthread_mutex_lock(&w->mu);
    enter_chunks(w, r, &refused);
    pthread_mutex_unlock(&w->mu);
    td_chunk_end_list(refused.first);
}

/* A worker for the request at once, if one idles and this thread may be used. Caller holds mu. */
static bool take_worker(struct td_workers *w, struct td_worker_queue *q, const struct td_request *r,
                        int64_t rows, int64_t cost_ns, struct td_batch *b)
{
    const int64_t now_ns = td_clock_ns();
    if ((r->thread_ns > 0 && (cost_ns == 0 || cost_ns > r->thread_ns)) ||
        (q->ruled && q->params.n_allowed > 0) || !td_sched_try(&w->sched, &q->queue, rows, now_ns, b)) {
        return false;
    }
    w->started_ns = now_ns;
    return true;
}

static bool is_large(const struct td_request *r)
{
    size_t bytes = 0;
    for (int i = 0; i < r->sig->n_out; i++) {
        bytes += td_tensor_bytes(&r->made[i]);
    }
    return bytes > SHARED_BYTES;
}

/* A run on a thread that serves others was short whenever it was measured, which says nothing of this one:
 * its time is limited there. One that is stopped, finds a device short of memory, or has made much to encode,
 * is forgotten: *again. */
static enum td_code compute_here(struct td_worker_queue *q, struct td_request *r, const struct nature *n,
                                 bool *again, struct td_err *err)
{
    struct td_run_opts opts = r->run;
    const int64_t until_ns = td_clock_ns() + ALLOWANCE_NS;
    const bool limited = r->thread_ns > 0 && !n->steps_back &&
                         (opts.work.deadline_ns == 0 || opts.work.deadline_ns > until_ns);
    opts.work.deadline_ns = limited ? until_ns : opts.work.deadline_ns;
    const enum td_code rc = td_batch_run_compute(q, r, r->bound, &opts, limited, r->made, err);
    const bool is_short = rc == TD_RESOURCE_EXHAUSTED && q->of_device;
    *again = limited && (rc == TD_DEADLINE_EXCEEDED || is_short || (rc == TD_OK && is_large(r)));
    for (int i = 0; *again && rc == TD_OK && i < r->sig->n_out; i++) {
        td_tensor_clear(&r->made[i]);
    }
    return rc;
}

static enum td_code run_here(struct td_workers *w, struct td_request *r, const struct nature *n,
                             const struct td_batch *b, bool *again, struct td_err *err)
{
    if (n->steps_back) {
        r->step_back();
    }
    struct td_worker_queue *q = td_worker_queue_of(b->queue);
    const int64_t from_ns = td_clock_ns();
    const enum td_code rc = compute_here(q, r, n, again, err);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    r->times = (struct td_times){.infer_ns = ran_ns};
    if (*again) {
        *err = (struct td_err){0};
        if (rc == TD_OK) {
            atomic_store_explicit(&q->large_rows, b->rows, memory_order_relaxed);
        }
    } else if (rc == TD_OK) {
        td_stats_batch(td_servable_stats(r->servable), b->rows, &r->times);
        td_metrics_graph_run(ran_ns / 1000);
    }
    pthread_mutex_lock(&w->mu);
    if (!*again) {
        td_workers_count_batch(w, b);
    }
    td_sched_done(&w->sched, b, ran_ns, rc == TD_OK || (*again && rc == TD_DEADLINE_EXCEEDED));
    td_workers_wake(w);
    pthread_mutex_unlock(&w->mu);
    return rc;
}

/* Of what is not served yet: on this thread, for as long as it takes, without a worker. */
static void run_apart(struct td_workers *w, struct td_request *r, struct td_err *err)
{
    struct td_proof_question question = {0};
    struct td_worker_queue *q = NULL;
    const int64_t from_ns = td_clock_ns();
    enum td_code rc = td_worker_queue_find(w, r, &q, err);
    if (rc == TD_OK && q != NULL && q->batches && td_batch_rows(r->bound, r->sig->n_in) > 0) {
        td_worker_queue_ask(&question, q, r->servable, r->bound);
    }
    rc = rc ? rc : td_servable_compute(r->servable, r->sig, r->bound, &r->run, r->made, err);
    r->times = (struct td_times){.infer_ns = td_clock_ns() - from_ns};
    err->code = rc;
    td_request_end(r, err);
    td_worker_queue_prove(&question);
}

static struct nature nature_of(const struct td_worker_queue *q, const struct td_request *r)
{
    struct nature n = {.known.proof = TD_PROOF_NOT_ROWS, .n_chunks = 1, .may_be_here = true};
    n.leading = q->batches ? td_batch_rows(r->bound, r->sig->n_in) : 0;
    if (r->thread_ns > 0) {
        const int64_t large_rows = atomic_load_explicit(&q->large_rows, memory_order_relaxed);
        n.may_be_here = (large_rows == 0 || (n.leading > 0 && n.leading < large_rows)) &&
                        td_callable_repeats(td_servable_callable(r->servable, r->sig));
    }
    if (n.leading > 0) {
        const bool pad = q->ruled && q->params.pad_variable_length_inputs;
        n.shapes = td_batch_likeness(r->bound, r->sig->n_in, false);
        n.like = pad ? td_batch_likeness(r->bound, r->sig->n_in, true) : n.shapes;
    }
    return n;
}

/* Decides who runs the request: true, with a worker taken, for this thread. Caller holds mu. */
static bool runs_here(struct td_workers *w, struct td_worker_queue *q, struct td_request *r, struct nature *n,
                      struct td_batch *b, struct td_err *err)
{
    const int64_t rows = n->leading > 0 ? n->leading : 1;
    n->cost_ns = td_cost_of(&q->queue.cost, rows);
    n->steps_back = r->step_back != NULL && (n->cost_ns > r->brief_ns || !n->may_be_here);
    if (n->leading > 0) {
        n->known = td_worker_queue_proof(q, n->shapes, rows);
    }
    if (q->ruled && n->known.proof != TD_PROOF_NOT_ROWS && rows > q->params.max_batch_size) {
        (void)td_fail(err, TD_INVALID_ARGUMENT, "Task size %lld is larger than maximum input batch size %lld",
                      (long long)rows, (long long)q->params.max_batch_size);
        return false;
    }
    if (n->known.proof == TD_PROOF_ROWS) {
        n->n_chunks = count_chunks(w, q, rows);
        n->n_chunks = chunks_hold(q, rows, n->n_chunks, n->known.min_rows) ? n->n_chunks : 1;
    }
    if (n->n_chunks > 1 && td_sched_room(&q->queue, level_of(q, r), n->n_chunks, rows, err)) {
        td_metrics_refused(td_servable_metrics(r->servable),
                           err->code); /* whole, before any chunk of it has entered */
        return false;
    }
    return n->n_chunks == 1 && (n->may_be_here || n->steps_back) && n->known.proof != TD_PROOF_NONE &&
           take_worker(w, q, r, rows, n->cost_ns, b);
}

/* Runs the request here, if it may, or makes it ready to wait: *waits. */
static enum td_code run_or_wait(struct td_workers *w, struct td_request *r, bool *waits, struct td_err *err)
{
    struct td_worker_queue *q;
    struct td_batch b;
    *waits = false;
    TD_TRY(td_worker_queue_find(w, r, &q, err));
    if (q == NULL) {
        return td_servable_compute(r->servable, r->sig, r->bound, &r->run, r->made, err);
    }
    struct nature n = nature_of(q, r);
    r->run.pool = &q->pool;
    pthread_mutex_lock(&w->mu);
    const bool here = runs_here(w, q, r, &n, &b, err);
    pthread_mutex_unlock(&w->mu);
    if (here) {
        bool again = false;
        const enum td_code rc = run_here(w, r, &n, &b, &again, err);
        if (!again) {
            return rc;
        }
    }
    TD_TRY(err->code);
    TD_TRY(make_chunks(q, r, n.leading, n.n_chunks, err));
    fill_tasks(q, r, &n);
    *waits = true;
    return TD_OK;
}

void td_workers_run(struct td_workers *w, struct td_request *r, struct td_err *err)
{
    bool waits;
    if (r->apart) {
        run_apart(w, r, err);
        return;
    }
    err->code = run_or_wait(w, r, &waits, err);
    if (!waits) {
        td_request_end(r, err);
        return;
    }
    if (r->queued != NULL) {
        r->queued(r);
    }
    enter(w, r);
}
