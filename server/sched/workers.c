/* server/sched/workers.c - the threads: those of the workers, which run batches, and the reaper's.
 *
 * A worker thread loops under the lock: join a run that asks for helpers (server/sched/worker_pool.c), else
 * take the next batch from the scheduler, else wait until something is ready by time or it is woken; one that
 * has helped looks for more before it waits (core/base/linger.h). The lock
 * is let go while tasks are ended and while a batch runs; it is taken again for the times, the counts and
 * giving the worker back. Requests end after that, so that a worker is free before its clients hear of it,
 * and proofs come last, when nobody waits for them.
 *
 * Whoever adds a task or frees a worker calls td_workers_wake, which signals one thread when a worker idles
 * and something waits; a thread that takes a batch passes that on.
 *
 * The reaper looks every REAP_MS while anything waits or a batch of several runs. It ends tasks that are too
 * late, and sets the stop word of a batch when all its members have gone. Every condition waits by
 * CLOCK_MONOTONIC.
 *
 * Locks: w->mu guards the scheduler, the queues, the list of runs and the counts; no request is ended and
 * nothing runs under it. Does not: take requests in (server/sched/worker_enter.c), run a batch
 * (server/sched/batch_run.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/buffer.h"
#include "server/sched/workers.h"

#include <time.h>

#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/base/cores.h"
#include "server/sched/workers_impl.h"
#include "server/base/metrics.h"

#define REAP_MS 10

/* ------------------------------------------------------------------ running */

void td_workers_wake(struct td_workers *w)
{
    if (td_sched_could_run(&w->sched) && td_linger_stir(&w->linger, w->n_offered + 1)) {
        pthread_cond_signal(&w->work);
    }
}

void td_workers_count_batch(struct td_workers *w, const struct td_batch *b)
{
    w->counts.batches++;
    w->counts.rows += (uint64_t)b->rows;
    w->counts.merged += b->n_tasks > 1;
}

/* Ends tasks that will not run. */
static void end_dropped(struct td_sched_list *dropped)
{
    struct td_sched_task *next;
    for (struct td_sched_task *t = dropped->first; t != NULL; t = next) {
        next = t->next;
        td_count_waiting(td_chunk_of(t), -1);
        struct td_err err = {0};
        const int stop = atomic_load(t->run->work.stop);
        if (stop != 0) {
            (void)td_fail(&err, (enum td_code)stop, "the request was stopped while it waited for a worker");
        } else {
            (void)td_fail(&err, TD_DEADLINE_EXCEEDED,
                          "Request timeout expired: it waited %lld ms for a worker",
                          (long long)((td_clock_ns() - t->since_ns) / 1000000));
        }
        td_metrics_refused(td_servable_metrics(td_chunk_of(t)->request->servable), err.code);
        td_chunk_fail(td_chunk_of(t), &err);
        td_chunk_end(td_chunk_of(t));
    }
    *dropped = (struct td_sched_list){NULL, NULL};
}

static void add_run(struct td_workers *w, struct td_batch_run *r)
{
    r->prev = NULL;
    r->next = w->runs;
    if (w->runs != NULL) {
        w->runs->prev = r;
    }
    w->runs = r;
    pthread_cond_signal(&w->watch);
}

static void remove_run(struct td_workers *w, struct td_batch_run *r)
{
    *(r->prev != NULL ? &r->prev->next : &w->runs) = r->next;
    if (r->next != NULL) {
        r->next->prev = r->prev;
    }
}

/* Caller holds mu: chunks of one request may end in several workers at once, and the last writes its
 * times. */
static void time_requests(const struct td_batch_run *run, int64_t from_ns)
{
    for (struct td_sched_task *t = run->batch.tasks; t != NULL; t = t->next) {
        struct td_times *times = &td_chunk_of(t)->request->times;
        *times = run->times;
        times->queue_ns = from_ns - t->since_ns;
    }
}

/* The times of a batch, to the statistics and the metrics. */
static void tell(const struct td_batch_run *run, int64_t from_ns, bool ok)
{
    const struct td_batch *b = &run->batch;
    struct td_metrics_model *m = td_servable_metrics(td_chunk_of(b->tasks)->request->servable);
    for (struct td_sched_task *t = b->tasks; t != NULL; t = t->next) {
        td_metrics_batched(m, t->rows, (from_ns - t->since_ns) / 1000);
    }
    if (ok) {
        td_stats_batch(td_servable_stats(td_chunk_of(b->tasks)->request->servable), b->rows, &run->times);
        td_metrics_batch(m, b->rows, run->padding);
        td_metrics_graph_run(run->times.infer_ns / 1000);
    }
}

/* Caller holds mu, and again when it returns; the batch's worker is free then. */
static void run_batch(struct td_workers *w, struct td_batch_run *run)
{
    struct td_worker_queue *q = td_worker_queue_of(run->batch.queue);
    const struct td_chunk *first = td_chunk_of(run->batch.tasks);
    for (struct td_sched_task *t = run->batch.tasks; t != NULL; t = t->next) {
        td_count_waiting(td_chunk_of(t), -1);
    }
    if (run->batch.n_tasks > 1) {
        add_run(w, run);
    }
    td_workers_wake(w);
    pthread_mutex_unlock(&w->mu);
    const int64_t from_ns = td_clock_ns();
    if (first->proof == TD_PROOF_NONE) {
        td_worker_queue_ask(&run->question, q, first->request->servable, first->request->bound);
    }
    const bool ok = td_batch_run_batch(q, run);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    tell(run, from_ns, ok);
    pthread_mutex_lock(&w->mu);
    time_requests(run, from_ns);
    if (run->batch.n_tasks > 1) {
        remove_run(w, run);
    }
    td_workers_count_batch(w, &run->batch);
    td_sched_done(&w->sched, &run->batch, ran_ns, ok);
    td_workers_wake(w);
    pthread_mutex_unlock(&w->mu);
    td_chunk_end_list(run->batch.tasks);
    td_worker_queue_prove(&run->question);
    pthread_mutex_lock(&w->mu);
}

static void wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t at_ns)
{
    if (at_ns == INT64_MAX) {
        td_buffer_idle_wait(cond, mu);
        return;
    }
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    (void)pthread_cond_timedwait(cond, mu, &at);
}

static void *worker_main(void *arg)
{
    struct td_workers *w = arg;
    struct td_linger_me me = {0};
    pthread_mutex_lock(&w->mu);
    while (!w->stop) {
        if (td_worker_pool_run(w, &me)) {
            continue;
        }
        struct td_batch_run run = {.stop = 0};
        struct td_sched_list dropped = {NULL, NULL};
        const bool found = td_sched_next(&w->sched, td_clock_ns(), &run.batch, &dropped);
        if (dropped.first != NULL) {
            pthread_mutex_unlock(&w->mu);
            end_dropped(&dropped);
            pthread_mutex_lock(&w->mu);
        }
        if (found) {
            w->started_ns = td_clock_ns();
            run_batch(w, &run);
        } else if (!w->stop) {
            const int64_t at_ns = td_sched_ready_at(&w->sched);
            if (!td_linger_look(&w->linger, &me, &w->mu, at_ns)) {
                wait_until(&w->work, &w->mu, at_ns);
            }
        }
    }
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

/* ------------------------------------------------------------------ the reaper */

/* What all members of a running batch agree on: the code to stop it with, or 0. Caller holds mu. */
static int all_stopped(const struct td_batch_run *r, int64_t now_ns)
{
    int code = 0;
    for (const struct td_sched_task *t = r->batch.tasks; t != NULL; t = t->next) {
        if (td_sched_wanted(t, now_ns)) {
            return 0;
        }
        const int stop = atomic_load(t->run->work.stop);
        code = stop != 0 ? stop : TD_DEADLINE_EXCEEDED;
    }
    return code;
}

static void *reaper_main(void *arg)
{
    struct td_workers *w = arg;
    pthread_mutex_lock(&w->mu);
    while (!w->stop) {
        if (w->sched.n_tasks == 0 && w->runs == NULL) {
            pthread_cond_wait(&w->watch, &w->mu);
            continue;
        }
        wait_until(&w->watch, &w->mu, td_clock_ns() + REAP_MS * 1000000);
        struct td_sched_list dropped = {NULL, NULL};
        const int64_t now_ns = td_clock_ns();
        td_sched_reap(&w->sched, now_ns, &dropped);
        td_workers_wake(w); /* what was behind those may be ready */
        for (struct td_batch_run *r = w->runs; r != NULL; r = r->next) {
            const int code = all_stopped(r, now_ns);
            if (code != 0) {
                atomic_store(&r->stop, code);
            }
        }
        pthread_mutex_unlock(&w->mu);
        end_dropped(&dropped);
        pthread_mutex_lock(&w->mu);
    }
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

/* ------------------------------------------------------------------ start and stop */

static enum td_code start_threads(struct td_workers *w, struct td_err *err)
{
    const int n = w->sched.workers + w->sched.device_runs;
    w->threads = td_calloc((size_t)n, sizeof *w->threads);
    if (w->threads == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *w->threads, "the workers' threads");
    }
    for (; w->n_threads < n; w->n_threads++) {
        TD_FAIL_IF(pthread_create(&w->threads[w->n_threads], NULL, worker_main, w) != 0, err,
                   RESOURCE_EXHAUSTED,
                   "starting worker %d of %d (--lanes, --gpu_streams): no thread could be made",
                   w->n_threads + 1, n);
    }
    w->has_reaper = pthread_create(&w->reaper, NULL, reaper_main, w) == 0;
    TD_FAIL_IF(!w->has_reaper, err, RESOURCE_EXHAUSTED,
               "starting the workers' reaper: no thread could be made");
    return TD_OK;
}

enum td_code td_workers_start(const struct td_workers_opts *opts, struct td_workers **out, struct td_err *err)
{
    struct td_workers *w = td_calloc(1, sizeof *w);
    if (w == NULL) {
        return td_no_memory(err, sizeof *w, "the workers");
    }
    w->opts = *opts;
    int workers = opts->workers > 0 ? opts->workers : td_cores_usable("");
    if (opts->params != NULL) {
        w->params = *opts->params;
        td_metrics_pool_name(w->params.thread_pool_name);
        workers = opts->workers == 0 && opts->params->num_batch_threads > workers
                      ? (int)opts->params->num_batch_threads
                      : workers;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->mu, NULL);
    pthread_cond_init(&w->work, &monotonic);
    pthread_cond_init(&w->watch, &monotonic);
    pthread_condattr_destroy(&monotonic);
    td_device_room_init(&w->room);
    td_sched_init(&w->sched, workers, opts->devices, opts->device_runs);
    w->loads = (struct td_worker_queue){.queue.share = &w->loads_share, .workers = w, .pool = td_worker_pool};
    w->loads.pool.most = w->sched.workers;
    if (start_threads(w, err)) {
        td_workers_stop(w);
        return err->code;
    }
    *out = w;
    return TD_OK;
}

void td_workers_stop(struct td_workers *w)
{
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->mu);
    w->stop = true;
    pthread_cond_broadcast(&w->work);
    pthread_cond_broadcast(&w->watch);
    pthread_mutex_unlock(&w->mu);
    for (int i = 0; i < w->n_threads; i++) {
        pthread_join(w->threads[i], NULL);
    }
    if (w->has_reaper) {
        pthread_join(w->reaper, NULL);
    }
    td_sched_fini(&w->sched);
    td_device_room_fini(&w->room);
    pthread_cond_destroy(&w->watch);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->mu);
    td_free(w->threads);
    td_free(w);
}

struct td_thread_pool *td_workers_pool(struct td_workers *w)
{
    return &w->loads.pool;
}

bool td_workers_answer(struct td_workers *w)
{
    pthread_mutex_lock(&w->mu);
    const struct td_sched *s = &w->sched;
    const bool busy = s->running >= s->workers || (s->device_runs > 0 && s->device_running >= s->device_runs);
    const bool stuck = w->opts.answer_ns > 0 && busy && td_clock_ns() - w->started_ns > w->opts.answer_ns;
    pthread_mutex_unlock(&w->mu);
    return !stuck;
}

void td_workers_count(struct td_workers *w, struct td_workers_counts *out)
{
    pthread_mutex_lock(&w->mu);
    *out = w->counts;
    out->workers = w->sched.workers + w->sched.device_runs;
    out->running = w->sched.running + w->sched.device_running;
    out->waiting = w->sched.n_tasks;
    pthread_mutex_unlock(&w->mu);
}
