/* server/jobs/jobs.c - the state directory of files and jobs: opened, held, closed.
 *
 *   state_dir/jobs.lock    locked by the server that uses the directory, until it ends
 *   state_dir/state.db     server/jobs/store.h
 *
 * A directory that cannot be used - no such place, another server's, a damaged database - is no reason not to
 * serve: td_jobs_open succeeds, every call answers UNAVAILABLE with the reason, and once a second the next
 * call tries again. So a server that starts while its predecessor still drains has its jobs soon after.
 *
 * Does not: say what jobs and files are (files.c, job_*.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/jobs/jobs_impl.h"

enum { ID_LETTERS = 24 };
#define TRY_AGAIN_NS 1000000000

enum td_code td_jobs_trouble(struct td_fault *f, enum td_code rc)
{
    return td_fault_of(f, rc, "server_error", NULL);
}

enum td_code td_jobs_make_id(const char *prefix, char id[TD_JOBS_ID], struct td_err *err)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char drawn[ID_LETTERS];
    char text[ID_LETTERS + 1] = "";
    TD_FAIL_IF(getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn, err, UNAVAILABLE,
               "drawing an id: %s", strerror(errno));
    for (int i = 0; i < ID_LETTERS; i++) {
        text[i] = LETTERS[drawn[i] % (sizeof LETTERS - 1)];
    }
    (void)snprintf(id, TD_JOBS_ID, "%.12s-%s", prefix, text);
    return TD_OK;
}

enum td_code td_jobs_path(const char *state_dir, const char *folder, const char *name, char out[TD_FILE_PATH],
                          struct td_err *err)
{
    const int n = snprintf(out, TD_FILE_PATH, "%s/%s/%s", state_dir, folder, name);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH - 64, err, FAILED_PRECONDITION,
               "the path of --state_dir is too long");
    return TD_OK;
}

enum td_code td_jobs_make_dir(const char *path, struct td_err *err)
{
    TD_FAIL_IF(mkdir(path, 0700) != 0 && errno != EEXIST, err, UNAVAILABLE, "Creating %s: %s", path,
               strerror(errno));
    return TD_OK;
}

/* ------------------------------------------------------------------ the directory */

static enum td_code hold(struct td_jobs *j, struct td_err *err)
{
    char path[TD_FILE_PATH];
    TD_TRY(td_jobs_path(j->opts.state_dir, ".", "jobs.lock", path, err));
    j->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    TD_FAIL_IF(j->lock < 0, err, UNAVAILABLE, "Opening %s: %s", path, strerror(errno));
    const bool held = flock(j->lock, LOCK_EX | LOCK_NB) == 0;
    TD_FAIL_IF(!held, err, UNAVAILABLE, "another server uses it");
    return TD_OK;
}

static enum td_code open_directory(struct td_jobs *j, struct td_store **store, struct td_err *err)
{
    char files[TD_FILE_PATH], jobs[TD_FILE_PATH];
    const char *dir = j->opts.state_dir;
    TD_FAIL_IF(dir == NULL || dir[0] == '\0', err, UNAVAILABLE, "there is none");
    TD_TRY(td_jobs_path(dir, "files", "", files, err));
    TD_TRY(td_jobs_path(dir, "jobs", "", jobs, err));
    TD_TRY(td_jobs_make_dir(dir, err));
    TD_TRY(hold(j, err));
    TD_TRY(td_store_open(dir, true, store, err));
    TD_TRY(td_jobs_make_dir(files, err));
    return td_jobs_make_dir(jobs, err);
}

static void let_go(struct td_jobs *j)
{
    if (j->lock >= 0) {
        close(j->lock);
        j->lock = -1;
    }
}

/* Caller holds opening. */
static enum td_code try_open(struct td_jobs *j, struct td_err *err)
{
    struct td_store *store = NULL;
    enum td_code rc = open_directory(j, &store, err);
    if (rc == TD_OK) {
        j->store = store;
        td_files_sweep(j);
        rc = td_runner_start(j, err);
    }
    if (rc) {
        j->store = NULL;
        td_store_close(store);
        let_go(j);
        return td_err_wrap(err, "fine-tuning: the state directory '%s' cannot be used",
                           j->opts.state_dir != NULL ? j->opts.state_dir : "");
    }
    return TD_OK;
}

enum td_code td_jobs_ready(struct td_jobs *j, struct td_fault *f)
{
    struct td_err err = {0};
    pthread_mutex_lock(&j->opening);
    if (j->store == NULL && td_clock_ns() >= j->next_try_ns) {
        const bool again = j->next_try_ns != 0;
        const enum td_code rc = try_open(j, &err);
        if (rc && (!again || err.code != j->closed.code)) {
            td_log(TD_LOG_WARNING, NULL, "%s; serving goes on without jobs", err.msg);
        } else if (rc == TD_OK && again) {
            td_log(TD_LOG_INFO, NULL, "fine-tuning: the state directory %s is in use now", j->opts.state_dir);
        }
        j->closed = err;
        j->next_try_ns = td_clock_ns() + TRY_AGAIN_NS;
    }
    const bool open = j->store != NULL;
    err = j->closed;
    pthread_mutex_unlock(&j->opening);
    if (open) {
        return TD_OK;
    }
    const enum td_code rc = td_fail(&f->err, TD_UNAVAILABLE, "%s", err.msg);
    return td_jobs_trouble(f, rc);
}

/* ------------------------------------------------------------------ counting */

static enum td_code take_status(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct td_jobs_stats *s = ctx;
    const int64_t status = td_sql_int(r, 0);
    (void)err;
    if (status >= 0 && status < TD_N_JOB_STATUSES) {
        s->by_status[status] = td_sql_int(r, 1);
    }
    s->steps += td_sql_int(r, 2);
    s->rows += td_sql_int(r, 3);
    s->seconds += td_sql_real(r, 4);
    return TD_OK;
}

static enum td_code take_files(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct td_jobs_stats *s = ctx;
    (void)err;
    s->files = td_sql_int(r, 0);
    s->file_bytes = td_sql_int(r, 1);
    return TD_OK;
}

void td_jobs_stats(struct td_jobs *j, struct td_jobs_stats *s)
{
    struct td_fault f = {0};
    struct td_err err = {0};
    *s = (struct td_jobs_stats){0};
    if (td_jobs_ready(j, &f) ||
        td_store_ask(j->store,
                     "SELECT status, count(*), sum(step), sum(rows), sum(seconds) FROM jobs GROUP BY status",
                     TD_SQL_NONE, take_status, s, &err) ||
        td_store_ask(j->store, "SELECT count(*), coalesce(sum(bytes), 0) FROM files", TD_SQL_NONE, take_files,
                     s, &err)) {
        *s = (struct td_jobs_stats){0}; /* whoever asks for jobs is told why */
    }
}

/* ------------------------------------------------------------------ life */

enum td_code td_jobs_open(const struct td_jobs_opts *o, struct td_jobs **out, struct td_err *err)
{
    struct td_jobs *j = td_calloc(1, sizeof *j);
    if (j == NULL) {
        return td_no_memory(err, sizeof *j, "the jobs");
    }
    j->opts = *o;
    j->lock = -1;
    j->opts.state_dir = o->state_dir != NULL ? td_strdup(o->state_dir) : NULL;
    j->opts.program = td_strdup(o->program != NULL ? o->program : "/proc/self/exe");
    pthread_mutex_init(&j->opening, NULL);
    pthread_mutex_init(&j->following, NULL);
    pthread_mutex_init(&j->publishing, NULL);
    if ((o->state_dir != NULL && j->opts.state_dir == NULL) || j->opts.program == NULL) {
        td_jobs_close(j);
        return td_no_memory(err, sizeof *j, "the jobs");
    }
    struct td_fault why = {0};
    if (td_jobs_ready(j, &why)) {
        j->closed = why.err; /* has been logged, and every call will say so */
    }
    *out = j;
    return TD_OK;
}

void td_jobs_close(struct td_jobs *j)
{
    if (j == NULL) {
        return;
    }
    if (j->runner != NULL) {
        td_runner_stop(j);
    }
    td_store_close(j->store);
    let_go(j);
    pthread_mutex_destroy(&j->opening);
    pthread_mutex_destroy(&j->following);
    pthread_mutex_destroy(&j->publishing);
    td_free((char *)j->opts.state_dir);
    td_free((char *)j->opts.program);
    td_free(j);
}
