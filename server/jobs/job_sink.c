/* server/jobs/job_sink.c - events wait in memory for up to FLUSH_MS, then go into the database at once.
 *
 * A transaction a step would cost more than small steps do. A thread of its own writes what waits, so that
 * the event of a step is seen although the next one takes long; whoever needs to know that all is written
 * (progress with sync, a change of state, the end) writes it itself.
 *
 * Each transaction begins with the fence: an update of the job's row that finds it only under this process's
 * attempt and before its end. So a process that is still dying when its successor writes already, or whose
 * job was cancelled, changes nothing.
 *
 * Events are put in in the order in which they were told: `writing` is held from the moment that they are
 * taken until they are committed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/jobs/job_sink.h"

#include <pthread.h>
#include <time.h>

#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"

enum { FLUSH_MS = 50, MOST_WAITING = 1024 };

struct waiting {
    struct td_job_event e; /* texts are its own */
};

struct td_job_sink {
    struct td_store *store;
    int64_t job, attempt;
    pthread_mutex_t writing; /* taken before mu */
    pthread_mutex_t mu;      /* guards all below */
    pthread_cond_t some;
    struct waiting *waiting;
    int n;
    int64_t at[4]; /* step, total_steps, epoch, rows */
    bool moved;    /* `at` is not written yet */
    bool stops;
    struct td_err failed; /* of the thread: told with the next call */
    pthread_t thread;
    bool has_thread;
};

/* ------------------------------------------------------------------ what waits */

static void fini_event(struct td_job_event *e)
{
    td_free((char *)e->is.key);
    td_free((char *)e->is.level);
    td_free((char *)e->is.type);
    td_free((char *)e->is.message);
    td_free((char *)e->data);
}

static void free_events(struct waiting *w, int n)
{
    for (int i = 0; i < n; i++) {
        fini_event(&w[i].e);
    }
    td_free(w);
}

static bool copy_event(const struct td_train_event *e, struct td_job_event *out)
{
    *out = (struct td_job_event){.is = {.key = td_strdup(e->key),
                                        .level = td_strdup(e->level),
                                        .type = td_strdup(e->type),
                                        .message = td_strdup(e->message)},
                                 .data = e->data != NULL ? td_jobs_text(e->data) : NULL,
                                 .at = (int64_t)time(NULL)};
    return out->is.key != NULL && out->is.level != NULL && out->is.type != NULL && out->is.message != NULL &&
           (e->data == NULL || out->data != NULL);
}

/* ------------------------------------------------------------------ writing */

static enum td_code fence(struct td_job_sink *s, const int64_t at[4], struct td_err *err)
{
    int64_t changed = 0;
    TD_TRY(td_store_do(
        s->store,
        "UPDATE jobs SET step = max(step, ?), total_steps = ?, epoch = max(epoch, ?), rows = max(rows, ?)"
        " WHERE seq = ? AND attempt = ? AND status < 4",
        TD_SQL(TD_SQL_INT(at[0]), TD_SQL_INT(at[1]), TD_SQL_INT(at[2]), TD_SQL_INT(at[3]), TD_SQL_INT(s->job),
               TD_SQL_INT(s->attempt)),
        &changed, err));
    TD_FAIL_IF(changed == 0, err, CANCELLED, "the job has ended, or another process has it now");
    return TD_OK;
}

/* Something to be written together with what waits. */
typedef enum td_code extra_fn(struct td_job_sink *s, const void *arg, struct td_err *err);

static enum td_code write_all(struct td_job_sink *s, const struct waiting *w, int n, const int64_t at[4],
                              struct td_err *err)
{
    TD_TRY(fence(s, at, err));
    for (int i = 0; i < n; i++) {
        TD_TRY(td_job_say(s->store, s->job, &w[i].e, err));
    }
    return TD_OK;
}

static enum td_code flush(struct td_job_sink *s, bool durable, extra_fn *extra, const void *arg,
                          struct td_err *err)
{
    int64_t at[4];
    pthread_mutex_lock(&s->writing);
    pthread_mutex_lock(&s->mu);
    struct waiting *w = s->waiting;
    const int n = s->n;
    for (int i = 0; i < 4; i++) {
        at[i] = s->at[i];
    }
    s->waiting = NULL;
    s->n = 0;
    s->moved = false;
    pthread_mutex_unlock(&s->mu);
    enum td_code rc = td_store_begin(s->store, durable, err);
    if (rc == TD_OK) {
        rc = write_all(s, w, n, at, err);
        rc = rc || extra == NULL ? rc : extra(s, arg, err);
        rc = td_store_end(s->store, rc, err);
    }
    pthread_mutex_unlock(&s->writing);
    free_events(w, n);
    return rc;
}

static void wait_ms(struct td_job_sink *s, int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    while (!s->stops && pthread_cond_timedwait(&s->some, &s->mu, &t) == 0) {
    }
}

static void *flusher_main(void *arg)
{
    struct td_job_sink *s = arg;
    pthread_mutex_lock(&s->mu);
    while (!s->stops) {
        if (s->n == 0 && !s->moved) {
            pthread_cond_wait(&s->some, &s->mu);
            continue;
        }
        wait_ms(s, FLUSH_MS);
        if (s->n > 0 || s->moved) {
            struct td_err err = {0};
            pthread_mutex_unlock(&s->mu);
            const enum td_code rc = flush(s, false, NULL, NULL, &err);
            pthread_mutex_lock(&s->mu);
            if (rc && s->failed.code == TD_OK) {
                s->failed = err;
            }
        }
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}

/* ------------------------------------------------------------------ the sink */

static enum td_code set_state(struct td_job_sink *s, const void *arg, struct td_err *err)
{
    (void)arg;
    return td_store_do(s->store, "UPDATE jobs SET status = 2 WHERE seq = ?", TD_SQL(TD_SQL_INT(s->job)), NULL,
                       err);
}

static enum td_code tell_state(void *ctx, enum td_train_state state, struct td_err *err)
{
    return state == TD_TRAIN_RUNNING ? flush(ctx, false, set_state, NULL, err) : TD_OK;
}

/* Caller holds mu. */
static enum td_code add_event(struct td_job_sink *s, const struct td_train_event *e, struct td_err *err)
{
    TD_FAIL_IF(s->failed.code != TD_OK, err, CANCELLED, "%s", s->failed.msg);
    if (s->waiting == NULL) {
        s->waiting = td_calloc(MOST_WAITING, sizeof *s->waiting);
    }
    if (s->waiting == NULL) {
        return td_no_memory(err, MOST_WAITING * sizeof *s->waiting, "events");
    }
    if (!copy_event(e, &s->waiting[s->n].e)) {
        fini_event(&s->waiting[s->n].e);
        return td_no_memory(err, sizeof *e, "an event");
    }
    s->n++;
    pthread_cond_signal(&s->some);
    return TD_OK;
}

static enum td_code tell_event(void *ctx, const struct td_train_event *e, struct td_err *err)
{
    struct td_job_sink *s = ctx;
    pthread_mutex_lock(&s->mu);
    const enum td_code rc = add_event(s, e, err);
    const bool full = s->n == MOST_WAITING;
    pthread_mutex_unlock(&s->mu);
    return rc == TD_OK && full ? flush(s, false, NULL, NULL, err) : rc;
}

static enum td_code tell_progress(void *ctx, const int64_t at[4], bool sync, struct td_err *err)
{
    struct td_job_sink *s = ctx;
    pthread_mutex_lock(&s->mu);
    for (int i = 0; i < 4; i++) {
        s->at[i] = at[i];
    }
    s->moved = true;
    pthread_cond_signal(&s->some);
    pthread_mutex_unlock(&s->mu);
    return sync ? flush(s, true, NULL, NULL, err) : TD_OK;
}

struct point {
    int64_t step;
    char *metrics;
};

static enum td_code put_checkpoint(struct td_job_sink *s, const void *arg, struct td_err *err)
{
    const struct point *p = arg;
    return td_store_do(s->store,
                       "INSERT OR IGNORE INTO checkpoints(job, step, created_at, metrics) VALUES(?, ?, ?, ?)",
                       TD_SQL(TD_SQL_INT(s->job), TD_SQL_INT(p->step), TD_SQL_INT((int64_t)time(NULL)),
                              TD_SQL_TEXT(p->metrics)),
                       NULL, err);
}

static enum td_code tell_checkpoint(void *ctx, int64_t step, json_t *metrics, struct td_err *err)
{
    const struct point p = {step, td_jobs_text(metrics)};
    if (p.metrics == NULL) {
        return td_no_memory(err, sizeof p, "a checkpoint's metrics");
    }
    const enum td_code rc = flush(ctx, false, put_checkpoint, &p, err);
    td_free(p.metrics);
    return rc;
}

struct td_train_sink td_job_sink_of(struct td_job_sink *s)
{
    return (struct td_train_sink){.ctx = s,
                                  .state = tell_state,
                                  .event = tell_event,
                                  .progress = tell_progress,
                                  .checkpoint = tell_checkpoint};
}

/* ------------------------------------------------------------------ ends */

struct done {
    int64_t rows, result_step;
    bool publishes;
};

static enum td_code put_done(struct td_job_sink *s, const void *arg, struct td_err *err)
{
    const struct done *d = arg;
    return td_store_do(
        s->store, "UPDATE jobs SET trained = 1, rows = ?, result_step = ?, publishes = ? WHERE seq = ?",
        TD_SQL(TD_SQL_INT(d->rows), TD_SQL_INT(d->result_step), TD_SQL_INT(d->publishes), TD_SQL_INT(s->job)),
        NULL, err);
}

enum td_code td_job_sink_done(struct td_job_sink *s, int64_t rows, int64_t result_step, bool publishes,
                              struct td_err *err)
{
    const struct done d = {rows, result_step, publishes};
    return flush(s, true, put_done, &d, err);
}

static enum td_code put_failure(struct td_job_sink *s, const void *arg, struct td_err *err)
{
    return td_job_fail(s->store, s->job, arg, err);
}

enum td_code td_job_sink_fail(struct td_job_sink *s, const struct td_fault *why, struct td_err *err)
{
    return flush(s, true, put_failure, why, err);
}

/* ------------------------------------------------------------------ life */

static enum td_code take_at(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct td_job_sink *s = ctx;
    (void)err;
    for (int i = 0; i < 4; i++) {
        s->at[i] = td_sql_int(r, i);
    }
    return TD_OK;
}

enum td_code td_job_sink_open(struct td_store *store, int64_t job, int64_t attempt, struct td_job_sink **out,
                              struct td_err *err)
{
    struct td_job_sink *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a sink");
    }
    s->store = store;
    s->job = job;
    s->attempt = attempt;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->writing, NULL);
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->some, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum td_code rc = td_store_ask(store, "SELECT step, total_steps, epoch, rows FROM jobs WHERE seq = ?",
                                   TD_SQL(TD_SQL_INT(job)), take_at, s, err);
    if (rc == TD_OK) {
        s->has_thread = pthread_create(&s->thread, NULL, flusher_main, s) == 0;
        rc = s->has_thread ? TD_OK
                           : td_fail(err, TD_RESOURCE_EXHAUSTED, "starting to write events: no thread");
    }
    if (rc) {
        td_job_sink_close(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

void td_job_sink_close(struct td_job_sink *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->mu);
    s->stops = true;
    pthread_cond_signal(&s->some);
    pthread_mutex_unlock(&s->mu);
    if (s->has_thread) {
        pthread_join(s->thread, NULL);
    }
    struct td_err unsaid = {0}; /* an end that mattered was written by done or fail */
    if (s->n > 0 && flush(s, false, NULL, NULL, &unsaid)) {
        free_events(s->waiting, s->n);
    }
    td_free(s->waiting);
    pthread_cond_destroy(&s->some);
    pthread_mutex_destroy(&s->mu);
    pthread_mutex_destroy(&s->writing);
    td_free(s);
}
