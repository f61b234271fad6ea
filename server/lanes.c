/* server/lanes.c - see lanes.h: who runs a job, and when.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/lanes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/rows.h"
#include "server/batch.h"
#include "server/clock.h"
#include "server/cores.h"
#include "server/lanes_impl.h"
#include "server/metrics.h"

#define SHORT_NS 60000   /* what a lent thread may compute itself: little more than a wake-up costs */
#define SPLIT_NS 4000000 /* a job this long is worth running in pieces while lanes idle */
#define PIECE_NS 2000000 /* but no piece shorter than this */
#define REAP_MS 10
#define MAX_WAITING 65536 /* jobs of one signature, when nothing else limits them */
#define MAX_PIECES 4096

/* ------------------------------------------------------------------ flows */

static void free_flow(void *slot)
{
    struct td_lane_flow *f = slot;
    struct td_lanes *l = f->lanes;
    pthread_mutex_lock(&l->mu);
    td_sched_leave(&l->sched, &f->flow);
    pthread_mutex_unlock(&l->mu);
    td_free(f);
}

static struct td_rule rule_of(const struct td_lane_flow *f, const struct td_lanes *l)
{
    const struct td_batching *p = &f->params;
    struct td_rule r = {.merges = f->batches, .max_tasks = MAX_WAITING};
    if (f->ruled) {
        r.max_rows = p->split_large ? p->max_execution_batch_size : p->max_batch_size;
        r.timeout_ns = p->batch_timeout_micros * 1000;
        r.max_batches = p->max_enqueued_batches;
        r.max_running = p->num_batch_threads < l->sched.lanes ? (int)p->num_batch_threads : 0;
    }
    return r;
}

/* A config.pbtxt rules the model it lies beside. */
static void follow_settings(struct td_lane_flow *f, const struct td_model_settings *m,
                            const struct td_lanes *l)
{
    f->batches = f->batches && m->dynamic_batching;
    f->ruled = m->dynamic_batching && m->max_batch_size > 0;
    f->params = (struct td_batching){.max_batch_size = m->max_batch_size > 0 ? m->max_batch_size : 1,
                                     .batch_timeout_micros = (int64_t)(m->max_queue_delay_us & INT32_MAX),
                                     .num_batch_threads = m->instances > 0 ? m->instances : l->sched.lanes};
    f->flow.rule = rule_of(f, l);
    f->flow.rule.max_running = m->instances > 0 && m->instances < l->sched.lanes ? m->instances : 0;
    for (int i = 0; i < m->n_preferred_batch_size; i++) {
        const int32_t size = m->preferred_batch_size[i];
        f->flow.rule.ready_rows = size > f->flow.rule.ready_rows ? size : f->flow.rule.ready_rows;
    }
    if (m->queue_policy.max_queue_size > 0) {
        f->flow.rule.max_tasks = m->queue_policy.max_queue_size;
    }
    f->max_wait_ns =
        m->queue_policy.delay ? 0 : (int64_t)(m->queue_policy.default_timeout_us & INT32_MAX) * 1000;
    f->high_by_default = m->priority_levels > 0 && m->default_priority_level == 1;
}

/* The rule of TF Serving's files that holds for a servable's signatures, if any. */
static enum td_code read_rule(const struct td_lanes *l, const struct td_servable *s, struct td_batching *out,
                              bool *ruled, struct td_err *err)
{
    *ruled = false;
    if (!l->opts.per_model) {
        *ruled = l->opts.params != NULL;
        *out = l->params;
        return TD_OK;
    }
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/batching_params.pbtxt", td_servable_dir(s)) >= sizeof path ||
        access(path, F_OK) != 0) {
        return TD_OK;
    }
    *ruled = true;
    return td_config_file_batching(path, out, err);
}

/* Caller holds mu. */
static enum td_code enter_flow(struct td_lanes *l, struct td_servable *s, struct td_lane_flow *f,
                               struct td_err *err)
{
    if (td_sched_join(&l->sched, &f->flow, td_servable_name(s), err)) {
        td_free(f);
        return err->code;
    }
    td_servable_set_slot(s, f->sig, f, free_flow);
    return TD_OK;
}

enum td_code td_lanes_admit(struct td_lanes *l, struct td_servable *s, struct td_err *err)
{
    const struct td_saved_model *m = td_servable_model(s);
    struct td_batching params = {0};
    bool ruled;
    TD_TRY(read_rule(l, s, &params, &ruled, err));
    for (int i = 0; i < m->n_signatures; i++) {
        struct td_lane_flow *f = td_calloc(1, sizeof *f);
        if (f == NULL) {
            return td_no_memory(err, sizeof *f, "a signature's queue");
        }
        f->lanes = l;
        f->sig = &m->signatures[i];
        f->params = params;
        f->ruled = ruled;
        f->batches =
            l->opts.batching && (ruled || !l->opts.per_model) && td_servable_callable(s, f->sig) != NULL;
        f->flow.rule = rule_of(f, l);
        if (td_servable_settings(s)->given) {
            follow_settings(f, td_servable_settings(s), l);
        }
        pthread_mutex_lock(&l->mu);
        const enum td_code rc = enter_flow(l, s, f, err);
        pthread_mutex_unlock(&l->mu);
        TD_TRY(rc);
    }
    return TD_OK;
}

/* The queue of a signature made for fewer outputs follows the rule of the whole one. Caller holds mu. */
static enum td_code add_narrow(struct td_lanes *l, const struct td_job *j, const struct td_lane_flow *whole,
                               struct td_err *err)
{
    struct td_lane_flow *f = td_calloc(1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "a signature's queue");
    }
    *f = (struct td_lane_flow){.lanes = l,
                               .sig = j->sig,
                               .batches = whole->batches,
                               .params = whole->params,
                               .ruled = whole->ruled,
                               .max_wait_ns = whole->max_wait_ns,
                               .high_by_default = whole->high_by_default};
    f->flow.rule = whole->flow.rule;
    return enter_flow(l, j->servable, f, err);
}

/* The job's queue; NULL: its servable was never admitted. */
static enum td_code find_flow(struct td_lanes *l, const struct td_job *j, struct td_lane_flow **out,
                              struct td_err *err)
{
    enum td_code rc = TD_OK;
    *out = td_servable_slot(j->servable, j->sig);
    if (*out != NULL) {
        return TD_OK;
    }
    const struct td_lane_flow *whole =
        td_servable_slot(j->servable, td_servable_signature(j->servable, j->sig->key));
    pthread_mutex_lock(&l->mu);
    if (whole != NULL && td_servable_slot(j->servable, j->sig) == NULL) {
        rc = add_narrow(l, j, whole, err);
    }
    *out = td_servable_slot(j->servable, j->sig);
    pthread_mutex_unlock(&l->mu);
    return rc;
}

/* ------------------------------------------------------------------ what is row-wise */

/* Caller holds mu. */
static enum td_proof proof_of(const struct td_lane_flow *f, uint64_t like)
{
    const unsigned n = f->n_known < TD_SHAPES_KNOWN ? f->n_known : TD_SHAPES_KNOWN;
    for (unsigned i = 0; i < n; i++) {
        if (f->known[i].like == like) {
            return f->known[i].proof;
        }
    }
    return TD_PROOF_NONE;
}

static void remember(struct td_lane_flow *f, uint64_t like, enum td_proof proof)
{
    pthread_mutex_lock(&f->lanes->mu);
    if (proof_of(f, like) == TD_PROOF_NONE) {
        const unsigned at = f->n_known++ % TD_SHAPES_KNOWN;
        f->known[at].like = like;
        f->known[at].proof = proof;
    }
    pthread_mutex_unlock(&f->lanes->mu);
}

/* What a proof needs of a job that is over by then. */
struct question {
    struct td_servable *servable; /* counted; NULL: nothing to prove */
    struct td_lane_flow *flow;
    struct td_shape *shapes;
    uint64_t like;
};

static void ask(struct question *q, struct td_lane_flow *f, const struct td_piece *p)
{
    *q = (struct question){.flow = f, .like = p->like};
    q->shapes = p->proof == TD_PROOF_NONE ? td_calloc((size_t)f->sig->n_in + 1, sizeof *q->shapes) : NULL;
    if (q->shapes == NULL) {
        return;
    }
    for (int i = 0; i < f->sig->n_in; i++) {
        q->shapes[i] = p->job->in[i].shape;
    }
    q->servable = td_servable_ref(p->job->servable);
}

/* Done once a shape, when the first job of it has run and been answered. */
static void prove(struct question *q)
{
    struct td_rows rows = {0};
    struct td_err err = {0};
    if (q->servable == NULL) {
        return; /* and the flow may be gone */
    }
    const struct td_signature *sig = q->flow->sig;
    const bool known =
        td_callable_rows(td_servable_callable(q->servable, sig), q->shapes, sig->n_in, &rows, &err) == TD_OK;
    if (!known || !rows.rowwise) {
        td_log(TD_LOG_INFO, NULL,
               "model '%s' signature '%s' is not row-wise, so its requests are not batched: %s",
               td_servable_name(q->servable), sig->key, known ? rows.why : err.msg);
    }
    remember(q->flow, q->like, known && rows.rowwise ? TD_PROOF_ROWS : TD_PROOF_NOT_ROWS);
    td_free(q->shapes);
    td_servable_unref(q->servable);
}

/* ------------------------------------------------------------------ running */

/* Caller holds mu: a lane thread for what is ready. */
static void call_lane(struct td_lanes *l)
{
    if (l->sched.n_tasks > 0 && l->sched.running < l->sched.lanes) {
        pthread_cond_signal(&l->work);
    }
}

/* Caller holds mu. */
static void count_batch(struct td_lanes *l, const struct td_batch *b)
{
    l->counts.batches++;
    l->counts.rows += (uint64_t)b->rows;
    l->counts.merged += b->n_tasks > 1;
}

static struct td_metrics_model *metrics_of(const struct td_job *j)
{
    return td_metrics_model(td_servable_name(j->servable));
}

/* Ends tasks that will not run. */
static void end_dropped(struct td_sched_list *dropped)
{
    struct td_sched_task *next;
    for (struct td_sched_task *t = dropped->first; t != NULL; t = next) {
        next = t->next;
        struct td_err err = {0};
        const int stop = t->stop != NULL ? atomic_load(t->stop) : 0;
        if (stop != 0) {
            (void)td_fail(&err, (enum td_code)stop, "the request was stopped while it waited for a lane");
        } else {
            (void)td_fail(&err, TD_DEADLINE_EXCEEDED, "Request timeout expired: it waited %lld ms for a lane",
                          (long long)((td_clock_ns() - t->since_ns) / 1000000));
        }
        td_metrics_refused(metrics_of(td_piece_of(t)->job), err.code);
        td_piece_fail(td_piece_of(t), &err);
        td_piece_end(td_piece_of(t));
    }
    *dropped = (struct td_sched_list){NULL, NULL};
}

static void add_run(struct td_lanes *l, struct td_lane_run *r)
{
    r->prev = NULL;
    r->next = l->runs;
    if (l->runs != NULL) {
        l->runs->prev = r;
    }
    l->runs = r;
    pthread_cond_signal(&l->watch);
}

static void remove_run(struct td_lanes *l, struct td_lane_run *r)
{
    *(r->prev != NULL ? &r->prev->next : &l->runs) = r->next;
    if (r->next != NULL) {
        r->next->prev = r->prev;
    }
}

static void end_pieces(struct td_sched_task *first)
{
    struct td_sched_task *next;
    for (struct td_sched_task *t = first; t != NULL; t = next) {
        next = t->next;
        td_piece_end(td_piece_of(t));
    }
}

/* Caller holds mu: pieces of one job may end in several lanes at once, and the last writes its times. */
static void time_jobs(const struct td_lane_run *run, int64_t from_ns)
{
    for (struct td_sched_task *t = run->batch.tasks; t != NULL; t = t->next) {
        struct td_times *times = &td_piece_of(t)->job->times;
        *times = run->times;
        times->queue_ns = from_ns - t->since_ns;
    }
}

/* The times of a batch, to the statistics and the metrics. */
static void tell(const struct td_lane_run *run, int64_t from_ns, bool ok)
{
    const struct td_batch *b = &run->batch;
    struct td_metrics_model *m = metrics_of(td_piece_of(b->tasks)->job);
    for (struct td_sched_task *t = b->tasks; t != NULL; t = t->next) {
        td_metrics_batched(m, t->rows, (from_ns - t->since_ns) / 1000);
    }
    if (ok) {
        td_stats_batch(td_servable_stats(td_piece_of(b->tasks)->job->servable), b->rows, &run->times);
        td_metrics_batch(m, b->rows, run->padding);
        td_metrics_graph_run(run->times.infer_ns / 1000);
    }
}

/* Caller holds mu, and again when it returns; the batch's lane is free then. */
static void run_batch(struct td_lanes *l, struct td_lane_run *run)
{
    struct td_lane_flow *f = td_lane_flow_of(run->batch.flow);
    struct question q;
    if (run->batch.n_tasks > 1) {
        add_run(l, run);
    }
    call_lane(l);
    pthread_mutex_unlock(&l->mu);
    const int64_t from_ns = td_clock_ns();
    ask(&q, f, td_piece_of(run->batch.tasks));
    const bool ok = td_lane_batch(f, run);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    tell(run, from_ns, ok);
    pthread_mutex_lock(&l->mu);
    time_jobs(run, from_ns);
    if (run->batch.n_tasks > 1) {
        remove_run(l, run);
    }
    count_batch(l, &run->batch);
    td_sched_done(&l->sched, &run->batch, ran_ns, ok);
    call_lane(l);
    pthread_mutex_unlock(&l->mu);
    end_pieces(run->batch.tasks);
    prove(&q);
    pthread_mutex_lock(&l->mu);
}

static void wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t at_ns)
{
    if (at_ns == INT64_MAX) {
        pthread_cond_wait(cond, mu);
        return;
    }
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    (void)pthread_cond_timedwait(cond, mu, &at);
}

static void *lane_main(void *arg)
{
    struct td_lanes *l = arg;
    pthread_mutex_lock(&l->mu);
    while (!l->stop) {
        struct td_lane_run run = {.stop = 0};
        struct td_sched_list dropped = {NULL, NULL};
        const bool found = td_sched_next(&l->sched, td_clock_ns(), &run.batch, &dropped);
        if (dropped.first != NULL) {
            pthread_mutex_unlock(&l->mu);
            end_dropped(&dropped);
            pthread_mutex_lock(&l->mu);
        }
        if (found) {
            run_batch(l, &run);
        } else if (!l->stop) {
            const bool idle = l->sched.running < l->sched.lanes;
            wait_until(&l->work, &l->mu, idle ? td_sched_ready_at(&l->sched) : INT64_MAX);
        }
    }
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

/* ------------------------------------------------------------------ the reaper */

/* What all members of a running batch agree on: the code to stop it with, or 0. Caller holds mu. */
static int all_stopped(const struct td_lane_run *r, int64_t now_ns)
{
    int code = 0;
    for (const struct td_sched_task *t = r->batch.tasks; t != NULL; t = t->next) {
        if (td_sched_alive(t, now_ns)) {
            return 0;
        }
        const int stop = t->stop != NULL ? atomic_load(t->stop) : 0;
        code = stop != 0 ? stop : TD_DEADLINE_EXCEEDED;
    }
    return code;
}

static void *reaper_main(void *arg)
{
    struct td_lanes *l = arg;
    pthread_mutex_lock(&l->mu);
    while (!l->stop) {
        if (l->sched.n_tasks == 0 && l->runs == NULL) {
            pthread_cond_wait(&l->watch, &l->mu);
            continue;
        }
        wait_until(&l->watch, &l->mu, td_clock_ns() + REAP_MS * 1000000);
        struct td_sched_list dropped = {NULL, NULL};
        const int64_t now_ns = td_clock_ns();
        td_sched_reap(&l->sched, now_ns, &dropped);
        for (struct td_lane_run *r = l->runs; r != NULL; r = r->next) {
            const int code = all_stopped(r, now_ns);
            if (code != 0) {
                atomic_store(&r->stop, code);
            }
        }
        pthread_mutex_unlock(&l->mu);
        end_dropped(&dropped);
        pthread_mutex_lock(&l->mu);
    }
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

/* ------------------------------------------------------------------ entering */

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

/* How many pieces a job of so many rows runs in. Caller holds mu. */
static int64_t count_pieces(const struct td_lanes *l, const struct td_lane_flow *f, int64_t rows)
{
    const int64_t most = f->flow.rule.max_rows;
    if (f->ruled) {
        return f->params.split_large && rows > most ? (rows + most - 1) / most : 1;
    }
    const int64_t ns = td_cost_of(&f->flow.cost, rows), idle = l->sched.lanes - l->sched.running;
    int64_t n = ns >= SPLIT_NS && idle > 1 ? ns / PIECE_NS : 1;
    n = n < idle ? n : idle;
    n = n < rows ? n : rows;
    return n > 1 ? n : 1;
}

static enum td_code make_pieces(struct td_lane_flow *f, struct td_job *j, int64_t rows, int64_t n,
                                struct td_err *err)
{
    const size_t n_out = (size_t)f->sig->n_out;
    TD_FAIL_IF(n > MAX_PIECES, err, INVALID_ARGUMENT,
               "a request of %lld rows would run in more than %d batches", (long long)rows, MAX_PIECES);
    j->pieces = td_arena_alloc(j->arena, (size_t)n, sizeof *j->pieces);
    struct td_tensor *made = n > 1 ? td_arena_alloc(j->arena, (size_t)n * n_out, sizeof *made) : j->made;
    if (j->pieces == NULL || made == NULL) {
        return td_no_memory(err, (size_t)n * (sizeof *j->pieces + n_out * sizeof *made),
                            "a request's pieces");
    }
    j->n_pieces = (int)n;
    const int64_t each = f->ruled ? f->flow.rule.max_rows : (rows + n - 1) / n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = n > 1 ? i * each : 0, to = n > 1 && from + each < rows ? from + each : rows;
        j->pieces[i] = (struct td_piece){.job = j, .from = from, .to = to, .made = made + (size_t)i * n_out};
    }
    return TD_OK;
}

/* The job's deadline, or when the queue's patience ends. */
static int64_t start_by(const struct td_lane_flow *f, const struct td_job *j)
{
    const int64_t at = f->max_wait_ns > 0 ? td_clock_ns() + f->max_wait_ns : 0;
    return at == 0 || (j->run.deadline_ns != 0 && j->run.deadline_ns < at) ? j->run.deadline_ns : at;
}

static void fill_tasks(struct td_lane_flow *f, struct td_job *j, uint64_t like, enum td_proof proof)
{
    const int64_t deadline_ns = start_by(f, j);
    for (int i = 0; i < j->n_pieces; i++) {
        struct td_piece *p = &j->pieces[i];
        p->like = like;
        p->proof = proof;
        p->task =
            (struct td_sched_task){.flow = &f->flow,
                                   .level = f->high_by_default && j->by_default ? TD_LEVEL_HIGH : j->level,
                                   .rows = p->to > p->from ? p->to - p->from : 1,
                                   .like = proof == TD_PROOF_ROWS ? like : (uint64_t)(uintptr_t)p,
                                   .deadline_ns = deadline_ns,
                                   .stop = j->run.stop};
    }
}

/* Pieces that were refused after others had entered end with the refusal. Caller holds mu. */
static void enter_pieces(struct td_lanes *l, struct td_job *j, struct td_sched_list *refused)
{
    const int64_t now_ns = td_clock_ns();
    const bool quiet = l->sched.n_tasks == 0;
    for (int i = 0; i < j->n_pieces; i++) {
        struct td_piece *p = &j->pieces[i];
        struct td_err err = {0};
        if (td_sched_add(&l->sched, &p->task, now_ns, &err)) {
            td_metrics_refused(metrics_of(j), err.code);
            td_piece_fail(p, &err);
            p->task.next = refused->first;
            refused->first = &p->task;
        }
        call_lane(l);
    }
    if (quiet) {
        pthread_cond_signal(&l->watch);
    }
}

/* The job waits in the queue from here on, and may have ended when this returns. */
static void enter(struct td_lanes *l, struct td_job *j)
{
    struct td_sched_list refused = {NULL, NULL};
    atomic_store(&j->left, j->n_pieces);
    pthread_mutex_lock(&l->mu);
    enter_pieces(l, j, &refused);
    pthread_mutex_unlock(&l->mu);
    end_pieces(refused.first);
}

/* For callers that want to be kept: the same job, with an end that wakes this thread. */
static enum td_code enter_and_wait(struct td_lanes *l, struct td_job *j, struct td_err *err)
{
    struct waiter w = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct waiting_job mine = {.job = *j, .waiter = &w};
    mine.job.done = wake;
    for (int i = 0; i < j->n_pieces; i++) {
        mine.job.pieces[i].job = &mine.job;
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

/* A lane for the job at once, if one idles and this thread may be used. Caller holds mu. */
static bool take_lane(struct td_lanes *l, struct td_lane_flow *f, const struct td_job *j, int64_t rows,
                      struct td_batch *b)
{
    const int64_t ns = td_cost_of(&f->flow.cost, rows);
    if ((j->lent && (ns == 0 || ns > SHORT_NS)) || (f->ruled && f->params.n_allowed > 0)) {
        return false;
    }
    return td_sched_try(&l->sched, &f->flow, rows, td_clock_ns(), b);
}

static enum td_code run_here(struct td_lanes *l, struct td_job *j, const struct td_batch *b,
                             struct td_err *err)
{
    const int64_t from_ns = td_clock_ns();
    const enum td_code rc = td_lane_alone(j, err);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    j->times = (struct td_times){.infer_ns = ran_ns};
    if (rc == TD_OK) {
        td_stats_batch(td_servable_stats(j->servable), b->rows, &j->times);
        td_metrics_graph_run(ran_ns / 1000);
    }
    pthread_mutex_lock(&l->mu);
    count_batch(l, b);
    td_sched_done(&l->sched, b, ran_ns, rc == TD_OK);
    call_lane(l);
    pthread_mutex_unlock(&l->mu);
    return rc;
}

/* What is known of a job before it runs. */
struct nature {
    int64_t leading; /* rows of its inputs; 0: none, or it may not be batched */
    uint64_t like;
    enum td_proof proof;
    int64_t n_pieces;
};

static struct nature nature_of(const struct td_lane_flow *f, const struct td_job *j)
{
    struct nature n = {.proof = TD_PROOF_NOT_ROWS, .n_pieces = 1};
    n.leading = f->batches ? td_batch_rows(j->in, j->sig->n_in) : 0;
    if (n.leading > 0) {
        n.like = td_batch_likeness(j->in, j->sig->n_in, f->ruled && f->params.pad_variable_length_inputs);
    }
    return n;
}

/* Decides who runs the job. Caller holds mu. */
static enum td_code place(struct td_lanes *l, struct td_lane_flow *f, struct td_job *j, struct nature *n,
                          bool *here, struct td_batch *b, struct td_err *err)
{
    const int64_t rows = n->leading > 0 ? n->leading : 1;
    if (n->leading > 0) {
        n->proof = proof_of(f, n->like);
    }
    TD_FAIL_IF(f->ruled && n->proof != TD_PROOF_NOT_ROWS && rows > f->params.max_batch_size, err,
               INVALID_ARGUMENT, "Task size %lld is larger than maximum input batch size %lld",
               (long long)rows, (long long)f->params.max_batch_size);
    if (n->proof == TD_PROOF_ROWS) {
        n->n_pieces = count_pieces(l, f, rows);
    }
    *here = n->n_pieces == 1 && n->proof != TD_PROOF_NONE && take_lane(l, f, j, rows, b);
    return TD_OK;
}

enum td_code td_lanes_run(struct td_lanes *l, struct td_job *j, bool *later, struct td_err *err)
{
    struct td_lane_flow *f;
    TD_TRY(td_servable_closed(j->servable, j->sig, err));
    TD_TRY(find_flow(l, j, &f, err));
    if (f == NULL) {
        *later = false;
        return td_lane_alone(j, err);
    }
    struct nature n = nature_of(f, j);
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
    TD_TRY(make_pieces(f, j, n.leading, n.n_pieces, err));
    fill_tasks(f, j, n.like, n.proof);
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

/* ------------------------------------------------------------------ start and stop */

static enum td_code start_threads(struct td_lanes *l, struct td_err *err)
{
    l->threads = td_calloc((size_t)l->sched.lanes, sizeof *l->threads);
    if (l->threads == NULL) {
        return td_no_memory(err, (size_t)l->sched.lanes * sizeof *l->threads, "lanes");
    }
    for (; l->n_threads < l->sched.lanes; l->n_threads++) {
        TD_FAIL_IF(pthread_create(&l->threads[l->n_threads], NULL, lane_main, l) != 0, err,
                   RESOURCE_EXHAUSTED, "starting lane %d of %d: no thread could be made", l->n_threads + 1,
                   l->sched.lanes);
    }
    l->has_reaper = pthread_create(&l->reaper, NULL, reaper_main, l) == 0;
    TD_FAIL_IF(!l->has_reaper, err, RESOURCE_EXHAUSTED,
               "starting the lanes' reaper: no thread could be made");
    return TD_OK;
}

enum td_code td_lanes_start(const struct td_lanes_opts *opts, struct td_lanes **out, struct td_err *err)
{
    struct td_lanes *l = td_calloc(1, sizeof *l);
    if (l == NULL) {
        return td_no_memory(err, sizeof *l, "lanes");
    }
    l->opts = *opts;
    int lanes = opts->lanes > 0 ? opts->lanes : td_cores_usable("");
    if (opts->params != NULL) {
        l->params = *opts->params;
        lanes = opts->lanes == 0 && opts->params->num_batch_threads > lanes
                    ? (int)opts->params->num_batch_threads
                    : lanes;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->mu, NULL);
    pthread_cond_init(&l->work, &monotonic);
    pthread_cond_init(&l->watch, &monotonic);
    pthread_condattr_destroy(&monotonic);
    td_sched_init(&l->sched, lanes);
    if (start_threads(l, err)) {
        td_lanes_stop(l);
        return err->code;
    }
    *out = l;
    return TD_OK;
}

void td_lanes_stop(struct td_lanes *l)
{
    if (l == NULL) {
        return;
    }
    pthread_mutex_lock(&l->mu);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->watch);
    pthread_mutex_unlock(&l->mu);
    for (int i = 0; i < l->n_threads; i++) {
        pthread_join(l->threads[i], NULL);
    }
    if (l->has_reaper) {
        pthread_join(l->reaper, NULL);
    }
    td_sched_fini(&l->sched);
    pthread_cond_destroy(&l->watch);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->mu);
    td_free(l->threads);
    td_free(l);
}

void td_lanes_count(struct td_lanes *l, struct td_lanes_counts *out)
{
    pthread_mutex_lock(&l->mu);
    *out = l->counts;
    out->lanes = l->sched.lanes;
    out->running = l->sched.running;
    out->waiting = l->sched.n_tasks;
    pthread_mutex_unlock(&l->mu);
}
