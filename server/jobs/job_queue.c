/* server/jobs/job_queue.c - the runner: the one thread that starts the jobs' processes and takes their ends.
 *
 * It sleeps in poll on the children's pipes and on an eventfd that others write to after they have changed a
 * row. Each time it wakes it does what the rows ask for, in this order:
 *
 *   words and ends of children -> results to publish -> children to stop -> jobs to start -> leftovers
 *
 * Nothing is kept here that the rows do not say, except who is running now (`live` in the rows, reset when
 * the server starts), and whose end had no room in the database. So a server that is started again goes on
 * where the last one was killed, with the same code.
 *
 * A child that a signal ended, not ours, is started again from its progress, each time after a longer pause;
 * MOST_FALLS times in a row without a further step, and the job has failed.
 *
 * Does not: know what training is. SIGKILL of a child is no loss: what it has written was in transactions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/jobs/child.h"
#include "server/jobs/jobs_impl.h"

enum {
    MOST_FALLS = 5,
    FOLLOW_MS = 100,
    TRY_AGAIN_MS = 1000,
    LOADING_MS = 50, /* how often a new version is asked whether it serves */
    SAVE_MS = 6000,  /* that children have to save when the server ends */
    LINE = 64,
    MOST_FLAGS = 64
};
#define NS_A_MS 1000000

struct running {
    struct td_child *child;
    int64_t job, attempt, step, begun_ns; /* step: that it had come to when it began */
    char id[TD_JOBS_ID];
    bool told, killed;
};

/* A process has ended, and its row does not say so yet: what waits for that waits with it. */
struct unwritten {
    int64_t job;
    double seconds;
};

struct td_runner {
    struct td_jobs *jobs;
    pthread_t thread;
    int wake; /* eventfd */
    atomic_bool drains, stops;
    struct running at[TD_JOBS_MOST_RUNNING];
    int n;
    struct unwritten ends[TD_JOBS_MOST_RUNNING]; /* nothing is started while there are any */
    int n_ends;
    int64_t again_ns;  /* something went wrong, or must not begin at once: look again then; 0: no */
    int64_t paused_ns; /* no job is started before */
    int64_t version, told;
};

static void again_in(struct td_runner *r, int ms)
{
    const int64_t at = td_clock_ns() + (int64_t)ms * NS_A_MS;
    r->again_ns = r->again_ns == 0 || at < r->again_ns ? at : r->again_ns;
}

/* Trouble of the database, as of a full disk: said, and tried again. */
static void trouble(struct td_runner *r, const char *what, const struct td_err *err)
{
    td_log(TD_LOG_ERROR, NULL, "%s: %s", what, err->msg);
    again_in(r, TRY_AGAIN_MS);
}

/* One statement that the runner needs done. */
static void set(struct td_runner *r, const char *sql, struct td_sql_args args)
{
    struct td_err err = {0};
    if (td_store_do(r->jobs->store, sql, args, NULL, &err)) {
        trouble(r, "jobs", &err);
    }
}

static enum td_code write_failure(struct td_store *s, int64_t job, const struct td_fault *why,
                                  struct td_err *err)
{
    TD_TRY(td_store_begin(s, true, err));
    return td_store_end(s, td_job_fail(s, job, why, err), err);
}

static void fail_job(struct td_runner *r, int64_t job, const struct td_fault *why)
{
    struct td_store *s = r->jobs->store;
    struct td_err err = {0};
    enum td_code rc = write_failure(s, job, why, &err);
    if (rc == TD_RESOURCE_EXHAUSTED && td_jobs_spend_reserve(r->jobs->opts.state_dir)) {
        err = (struct td_err){0};
        rc = write_failure(s, job, why, &err);
    }
    if (rc) {
        trouble(r, "jobs", &err);
        r->paused_ns = td_clock_ns() + (int64_t)TRY_AGAIN_MS * NS_A_MS; /* it is still due */
    }
    atomic_fetch_add(&r->jobs->told, 1);
}

/* ------------------------------------------------------------------ ends */

struct ended {
    int64_t status, trained, pausing, step, falls;
};

static enum td_code take_ended(void *ctx, const struct td_sql_row *row, struct td_err *err)
{
    (void)err;
    *(struct ended *)ctx = (struct ended){td_sql_int(row, 0), td_sql_int(row, 1), td_sql_int(row, 2),
                                          td_sql_int(row, 3), td_sql_int(row, 4)};
    return TD_OK;
}

/* It has saved and ended: paused, unless that was taken back meanwhile or the server ends. */
static void paused(struct td_runner *r, const struct running *c, const struct ended *row)
{
    struct td_store *s = r->jobs->store;
    struct td_err err = {0};
    char key[40];
    if (!row->pausing) {
        return; /* live is 0 now, so it is due again */
    }
    (void)snprintf(key, sizeof key, "paused:%" PRId64, c->attempt);
    enum td_code rc = td_store_begin(s, true, &err);
    if (rc == TD_OK) {
        rc = td_store_do(s, "UPDATE jobs SET status = 3, pausing = 0 WHERE seq = ? AND pausing = 1",
                         TD_SQL(TD_SQL_INT(c->job)), NULL, &err);
        rc = rc ? rc
                : td_job_message(s, c->job, key, "info", &err, "The job is paused at step %" PRId64,
                                 row->step);
        rc = td_store_end(s, rc, &err);
    }
    if (rc) {
        trouble(r, "jobs", &err);
    }
}

static void fell(struct td_runner *r, const struct running *c, const struct ended *row,
                 const struct td_child_end *end)
{
    struct td_err err = {0};
    struct td_fault why = {0};
    char key[40];
    const int64_t falls = row->step > c->step ? 1 : row->falls + 1;
    if (falls >= MOST_FALLS) {
        (void)TD_FAULT(&why, "server_error", NULL,
                       "the process of the job was ended by signal %d (%s) %" PRId64
                       " times, and came no further than step %" PRId64 "%s%s",
                       end->signal, strsignal(end->signal), falls, row->step,
                       end->last_words[0] != '\0' ? "; it last said: " : "", end->last_words);
        fail_job(r, c->job, &why);
        return;
    }
    (void)snprintf(key, sizeof key, "fell:%" PRId64, c->attempt);
    set(r, "UPDATE jobs SET falls = ? WHERE seq = ?", TD_SQL(TD_SQL_INT(falls), TD_SQL_INT(c->job)));
    if (td_job_message(r->jobs->store, c->job, key, "warn", &err,
                       "The process of the job was ended by signal %d (%s); it is started again", end->signal,
                       strsignal(end->signal))) {
        trouble(r, "jobs", &err);
    }
    const int wait_ms = falls == 1 ? 0 : 50 << falls;
    r->paused_ns = td_clock_ns() + (int64_t)wait_ms * NS_A_MS;
    again_in(r, wait_ms);
}

/* It ended by itself, without having written how: the disk is full (its last words are why it failed), or it
 * could not even begin. */
static void broke(struct td_runner *r, const struct running *c, const struct td_child_end *end)
{
    struct td_fault why = {0};
    if (end->status == TD_CHILD_UNTOLD) {
        (void)TD_FAULT(&why, "server_error", NULL, "%s", end->last_words);
    } else {
        (void)TD_FAULT(&why, "server_error", NULL, "the process of the job ended with status %d: %s",
                       end->status, end->last_words[0] != '\0' ? end->last_words : "it said nothing");
    }
    fail_job(r, c->job, &why);
}

/* False: the database is in trouble. */
static bool write_end(struct td_runner *r, const struct unwritten *e)
{
    struct td_err err = {0};
    if (td_store_do(r->jobs->store, "UPDATE jobs SET live = 0, seconds = seconds + ? WHERE seq = ?",
                    TD_SQL(TD_SQL_REAL(e->seconds), TD_SQL_INT(e->job)), NULL, &err)) {
        trouble(r, "jobs", &err);
        return false;
    }
    return true;
}

/* At once, or when there is room. */
static void end_row(struct td_runner *r, int64_t job, double seconds)
{
    const struct unwritten e = {job, seconds};
    if (!write_end(r, &e)) {
        r->ends[r->n_ends++] = e;
    }
}

/* What had no room before. */
static void write_ends(struct td_runner *r)
{
    while (r->n_ends > 0 && write_end(r, &r->ends[r->n_ends - 1])) {
        r->n_ends--;
    }
}

static void take_end(struct td_runner *r, struct running *c)
{
    struct td_err err = {0};
    struct ended row = {0};
    const struct td_child_end end = td_child_end(c->child);
    c->child = NULL;
    end_row(r, c->job, (double)(td_clock_ns() - c->begun_ns) / 1e9);
    if (td_store_ask(r->jobs->store, "SELECT status, trained, pausing, step, falls FROM jobs WHERE seq = ?",
                     TD_SQL(TD_SQL_INT(c->job)), take_ended, &row, &err)) {
        trouble(r, "jobs", &err);
        return;
    }
    if (td_job_ended(row.status) || row.trained || c->killed) {
        return; /* the next steps of the round see to it */
    }
    if (end.status == TD_CHILD_PAUSED) {
        paused(r, c, &row);
    } else if (end.signal != 0) {
        fell(r, c, &row, &end);
    } else {
        broke(r, c, &end);
    }
}

static void take_ends(struct td_runner *r)
{
    int kept = 0;
    for (int i = 0; i < r->n; i++) {
        if (td_child_read(r->at[i].child)) {
            take_end(r, &r->at[i]);
            atomic_fetch_add(&r->jobs->told, 1);
        } else {
            r->at[kept++] = r->at[i];
        }
    }
    r->n = kept;
}

/* ------------------------------------------------------------------ results */

/* Publishes what is trained, one by one. */
static void publish_all(struct td_runner *r)
{
    struct td_jobs *j = r->jobs;
    for (int64_t last = 0;;) {
        struct td_err err = {0};
        struct td_published how = {.out_there = false};
        int64_t job = -1;
        if (td_store_ask_int(j->store,
                             "SELECT seq FROM jobs WHERE trained = 1 AND status < 4 AND live = 0 AND seq > ?"
                             " ORDER BY seq LIMIT 1",
                             TD_SQL(TD_SQL_INT(last)), -1, &job, &err)) {
            trouble(r, "jobs", &err);
            return;
        }
        if (job < 0) {
            return;
        }
        last = job;
        pthread_mutex_lock(&j->publishing);
        const enum td_code rc = td_publish_trained(j, job, &how, &err);
        pthread_mutex_unlock(&j->publishing);
        atomic_fetch_add(&j->told, 1);
        if (how.loading) {
            again_in(r, LOADING_MS);
        }
        if (rc && how.out_there) {
            trouble(r, "publishing a job's result", &err);
        } else if (rc) {
            struct td_fault why = {.err = err, .code = "server_error"};
            fail_job(r, job, &why);
        }
    }
}

/* ------------------------------------------------------------------ stopping */

static void obey(struct td_runner *r)
{
    for (int i = 0; i < r->n; i++) {
        struct running *c = &r->at[i];
        struct ended row = {0};
        struct td_err err = {0};
        if (td_store_ask(r->jobs->store,
                         "SELECT status, trained, pausing, step, falls FROM jobs WHERE seq = ?",
                         TD_SQL(TD_SQL_INT(c->job)), take_ended, &row, &err)) {
            trouble(r, "jobs", &err);
        } else if (row.status == TD_JOB_CANCELLED && !c->killed) {
            c->killed = true;
            td_child_signal(c->child, SIGKILL);
        } else if ((row.pausing || atomic_load(&r->drains)) && !c->told) {
            c->told = true;
            td_child_signal(c->child, SIGTERM);
        }
    }
}

/* ------------------------------------------------------------------ starting */

struct due {
    int64_t job, attempt, step;
    char id[TD_JOBS_ID];
};

static enum td_code take_due(void *ctx, const struct td_sql_row *row, struct td_err *err)
{
    struct due *d = ctx;
    (void)err;
    d->job = td_sql_int(row, 0);
    d->attempt = td_sql_int(row, 1) + 1;
    d->step = td_sql_int(row, 2);
    (void)snprintf(d->id, sizeof d->id, "%s", td_sql_text(row, 3));
    return TD_OK;
}

static enum td_code spawn(struct td_runner *r, const struct due *d, struct td_child **child,
                          struct td_err *err)
{
    const struct td_jobs_opts *o = &r->jobs->opts;
    const char *args[MOST_FLAGS + 10] = {"train"};
    char job[LINE], attempt[LINE], parent[LINE], cores[LINE], memory[LINE], state[TD_FILE_PATH + 16],
        folder[TD_FILE_PATH], log[TD_FILE_PATH + 16];
    int n = 1;
    (void)snprintf(job, sizeof job, "--job=%s", d->id);
    (void)snprintf(attempt, sizeof attempt, "--attempt=%" PRId64, d->attempt);
    (void)snprintf(parent, sizeof parent, "--parent=%ld", (long)getpid());
    (void)snprintf(cores, sizeof cores, "--job_cores=%d", o->cores);
    (void)snprintf(memory, sizeof memory, "--job_memory=%" PRId64, o->memory);
    (void)snprintf(state, sizeof state, "--state_dir=%s", o->state_dir);
    const char *const own[] = {job, attempt, parent, cores, memory, state};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        args[n++] = own[i];
    }
    for (int i = 0; o->flags != NULL && o->flags[i] != NULL && i < MOST_FLAGS; i++) {
        args[n++] = o->flags[i];
    }
    TD_TRY(td_jobs_path(o->state_dir, "jobs", d->id, folder, err));
    TD_TRY(td_jobs_make_dir(folder, err));
    (void)snprintf(log, sizeof log, "%s/log", folder);
    const struct td_child_opts opts = {.program = o->program, .args = args, .job = d->id, .log_path = log};
    return td_child_start(&opts, child, err);
}

static enum td_code begin_attempt(struct td_store *s, const struct due *d, struct td_err *err)
{
    TD_TRY(td_store_begin(s, true, err));
    return td_store_end(s,
                        td_store_do(s, "UPDATE jobs SET attempt = ?, live = 1 WHERE seq = ?",
                                    TD_SQL(TD_SQL_INT(d->attempt), TD_SQL_INT(d->job)), NULL, err),
                        err);
}

/* The oldest job that waits; false: none does, or it cannot begin. */
static bool start_one(struct td_runner *r)
{
    struct td_store *s = r->jobs->store;
    struct td_err err = {0};
    struct due d = {0};
    enum td_code rc = td_store_ask(s,
                                   "SELECT seq, attempt, step, id FROM jobs WHERE status < 3 AND live = 0"
                                   " AND trained = 0 AND pausing = 0 ORDER BY seq LIMIT 1",
                                   TD_SQL_NONE, take_due, &d, &err);
    rc = rc || d.job == 0 ? rc : begin_attempt(s, &d, &err);
    if (rc) {
        trouble(r, "jobs", &err);
        return false;
    }
    if (d.job == 0) {
        return false;
    }
    struct td_child *child = NULL;
    if (spawn(r, &d, &child, &err)) {
        trouble(r, "jobs", &err);
        end_row(r, d.job, 0);
        return false;
    }
    struct running *c = &r->at[r->n++];
    *c = (struct running){
        .child = child, .job = d.job, .attempt = d.attempt, .step = d.step, .begun_ns = td_clock_ns()};
    memcpy(c->id, d.id, sizeof c->id);
    return true;
}

static void start_due(struct td_runner *r)
{
    const int most =
        r->jobs->opts.most_running < TD_JOBS_MOST_RUNNING ? r->jobs->opts.most_running : TD_JOBS_MOST_RUNNING;
    if (atomic_load(&r->drains) || td_clock_ns() < r->paused_ns) {
        return;
    }
    while (r->n < most && r->n_ends == 0 && start_one(r)) {
    }
    set(r, "UPDATE jobs SET status = 1 WHERE status = 0 AND live = 0", TD_SQL_NONE);
}

/* ------------------------------------------------------------------ the thread */

/* Tells followers when something was committed; returns whether there are any. */
static bool tell_followers(struct td_runner *r)
{
    struct td_err err = {0};
    int64_t version = r->version;
    const int64_t told = atomic_load(&r->jobs->told);
    if (!td_follow_wake_all(r->jobs, false)) {
        r->version = -1; /* whoever comes next is woken once */
        return false;
    }
    if (td_store_version(r->jobs->store, &version, &err)) {
        trouble(r, "jobs", &err);
    }
    if (version != r->version || told != r->told) {
        r->version = version;
        r->told = told;
        (void)td_follow_wake_all(r->jobs, true);
    }
    return true;
}

static int time_to_wait(const struct td_runner *r, bool followers)
{
    int64_t ms = followers ? FOLLOW_MS : -1;
    if (r->again_ns != 0) {
        const int64_t left = (r->again_ns - td_clock_ns()) / NS_A_MS + 1;
        const int64_t wait = left > 0 ? left : 0;
        ms = ms < 0 || wait < ms ? wait : ms;
    }
    return (int)ms;
}

static void await(struct td_runner *r, int ms)
{
    struct pollfd at[TD_JOBS_MOST_RUNNING + 1] = {{.fd = r->wake, .events = POLLIN}};
    for (int i = 0; i < r->n; i++) {
        at[i + 1] = (struct pollfd){.fd = td_child_fd(r->at[i].child), .events = POLLIN};
    }
    if (poll(at, (nfds_t)r->n + 1, ms) > 0 && (at[0].revents & POLLIN) != 0) {
        eventfd_t n;
        (void)eventfd_read(r->wake, &n);
    }
}

/* All children have been told to save; those that take too long lose what they did since they last did. */
static void end_children(struct td_runner *r)
{
    const int64_t until = td_clock_ns() + (int64_t)SAVE_MS * NS_A_MS;
    obey(r);
    while (r->n > 0 && td_clock_ns() < until) {
        await(r, FOLLOW_MS);
        take_ends(r);
    }
    for (int i = 0; i < r->n; i++) {
        td_log(TD_LOG_WARNING, NULL, "job %s did not save in %d s: it goes on from its progress before",
               r->at[i].id, SAVE_MS / 1000);
        r->at[i].killed = true;
        td_child_signal(r->at[i].child, SIGKILL);
        take_end(r, &r->at[i]);
    }
    r->n = 0;
}

static void clean(struct td_runner *r)
{
    struct td_err err = {0};
    if (td_jobs_clean(r->jobs, &err)) {
        trouble(r, "jobs", &err);
    }
}

static void *runner_main(void *arg)
{
    struct td_runner *r = arg;
    pthread_setname_np(pthread_self(), "jobs");
    set(r, "UPDATE jobs SET live = 0 WHERE live = 1", TD_SQL_NONE);
    while (!atomic_load(&r->stops)) {
        r->again_ns = 0;
        write_ends(r);
        take_ends(r);
        publish_all(r);
        obey(r);
        start_due(r);
        clean(r);
        td_jobs_keep_reserve(r->jobs->opts.state_dir);
        if (td_clock_ns() < r->paused_ns) {
            again_in(r, (int)((r->paused_ns - td_clock_ns()) / NS_A_MS) + 1);
        }
        await(r, time_to_wait(r, tell_followers(r)));
    }
    end_children(r);
    return NULL;
}

enum td_code td_runner_start(struct td_jobs *j, struct td_err *err)
{
    struct td_runner *r = td_calloc(1, sizeof *r);
    if (r == NULL) {
        return td_no_memory(err, sizeof *r, "the runner of jobs");
    }
    r->jobs = j;
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->wake < 0 || pthread_create(&r->thread, NULL, runner_main, r) != 0) {
        if (r->wake >= 0) {
            close(r->wake);
        }
        td_free(r);
        TD_FAIL(err, RESOURCE_EXHAUSTED, "starting the runner of jobs: no thread could be made");
    }
    j->runner = r;
    return TD_OK;
}

void td_runner_wake(struct td_jobs *j)
{
    (void)eventfd_write(j->runner->wake, 1);
}

void td_jobs_drain(struct td_jobs *j)
{
    if (j == NULL) {
        return;
    }
    pthread_mutex_lock(&j->opening);
    if (j->runner != NULL) {
        atomic_store(&j->runner->drains, true);
        td_runner_wake(j);
    }
    pthread_mutex_unlock(&j->opening);
}

void td_runner_stop(struct td_jobs *j)
{
    struct td_runner *r = j->runner;
    atomic_store(&r->drains, true);
    atomic_store(&r->stops, true);
    td_runner_wake(j);
    pthread_join(r->thread, NULL);
    close(r->wake);
    td_free(r);
    j->runner = NULL;
}
