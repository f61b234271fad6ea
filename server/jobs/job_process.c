/* server/jobs/job_process.c - one job, from its row in the database to its result in the stage.
 *
 *   state_dir/jobs/ID/lock     held while a process works there: a successor waits for who is still dying
 *
 * The model is loaded from the version directory that the row names, not from what the server serves by now:
 * it may have been unloaded meanwhile. A fault ends the job in the row, together with its last event; whoever
 * started this process reads it there, and publishes what is trained.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/jobs/job_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file_tree.h"
#include "server/jobs/child.h"
#include "server/jobs/job_sink.h"
#include "server/jobs/jobs_impl.h"
#include "server/models/watch.h"

enum { LOCK_TRIES = 1000, LOCK_WAIT_US = 10000, NAME_ROOM = 300 };

struct td_job_process {
    struct td_store *store;
    struct td_job_sink *sink;
    struct td_job_spec *spec;
    int lock;
    const char *state_dir, *id; /* borrowed */
    int64_t attempt;
    /* of the row */
    int64_t seq, version;
    char *request;
    char model[256], base_path[TD_FILE_PATH], source[TD_FILE_PATH], stage[TD_FILE_PATH];
    char serving[TD_FILE_PATH];
    char work[TD_FILE_PATH], training[TD_FILE_PATH], validation[TD_FILE_PATH];
    char training_name[NAME_ROOM], validation_name[NAME_ROOM]; /* "": none */
};

/* ------------------------------------------------------------------ the row */

static enum td_code take_row(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct td_job_process *p = ctx;
    p->seq = td_sql_int(r, 0);
    p->version = td_sql_int(r, 1);
    p->request = td_strdup(td_sql_text(r, 2));
    td_sql_copy(r, 3,
                TD_SQL_ROOMS(TD_SQL_ROOM(p->model), TD_SQL_ROOM(p->base_path), TD_SQL_ROOM(p->source),
                             TD_SQL_ROOM(p->stage), TD_SQL_ROOM(p->training_name),
                             TD_SQL_ROOM(p->validation_name)));
    TD_TRY(td_jobs_path(p->state_dir, "files", td_sql_text(r, 9), p->training, err));
    TD_TRY(td_jobs_path(p->state_dir, "files", td_sql_null(r, 10) ? "" : td_sql_text(r, 10), p->validation,
                        err));
    return p->request != NULL ? TD_OK : td_no_memory(err, 1, "a request");
}

static enum td_code read_row(struct td_job_process *p, struct td_err *err)
{
    TD_TRY(td_store_ask(
        p->store,
        "SELECT j.seq, version, request, model, base_path, source, stage, t.filename, v.filename,"
        " training_file, validation_file FROM jobs j"
        " LEFT JOIN files t ON t.id = j.training_file"
        " LEFT JOIN files v ON v.id = j.validation_file WHERE j.id = ?",
        TD_SQL(TD_SQL_TEXT(p->id)), take_row, p, err));
    TD_FAIL_IF(p->seq == 0, err, NOT_FOUND, "there is no job '%s'", p->id);
    return td_jobs_path(p->state_dir, "jobs", p->id, p->work, err);
}

static enum td_code take_lock(struct td_job_process *p, struct td_err *err)
{
    char path[TD_FILE_PATH + 16];
    TD_TRY(td_jobs_make_dir(p->work, err));
    (void)snprintf(path, sizeof path, "%s/lock", p->work);
    p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    TD_FAIL_IF(p->lock < 0, err, UNAVAILABLE, "Opening %s: %s", path, strerror(errno));
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(p->lock, LOCK_EX | LOCK_NB) == 0) {
            return TD_OK;
        }
        usleep(LOCK_WAIT_US);
    }
    TD_FAIL(err, UNAVAILABLE, "another process of this job still works in %s", p->work);
}

/* ------------------------------------------------------------------ what is trained */

static enum td_code read_spec(struct td_job_process *p, struct td_fault *f)
{
    json_t *body = json_loads(p->request, JSON_ALLOW_NUL, NULL);
    if (body == NULL) {
        return TD_FAULT(f, "server_error", NULL, "the request of job %s, as it was kept, is no JSON", p->id);
    }
    const enum td_code rc = td_job_spec_read(body, &p->spec, f);
    json_decref(body);
    return rc;
}

/* What a gate compares with: the highest version that there is by now. */
static enum td_code find_serving(struct td_job_process *p, struct td_err *err)
{
    struct td_version_dir *dirs = NULL;
    int n = 0;
    TD_TRY(td_watch_list(p->base_path, &dirs, &n, err));
    (void)snprintf(p->serving, sizeof p->serving, "%s", n > 0 ? dirs[0].path : p->source);
    td_watch_free(dirs, n);
    return TD_OK;
}

static enum td_code begin(struct td_job_process *p, bool first, struct td_fault *f)
{
    enum td_code rc = td_store_open(p->state_dir, false, &p->store, &f->err);
    rc = rc ? rc : read_row(p, &f->err);
    if (first) {
        rc = rc ? rc : td_job_sink_open(p->store, p->seq, p->attempt, &p->sink, &f->err);
        rc = rc ? rc : take_lock(p, &f->err);
        rc = rc ? rc : td_tree_remove(p->stage, &f->err); /* what a process before this one did not finish */
    }
    rc = rc ? rc : find_serving(p, &f->err);
    return td_fault_of(f, rc, "server_error", NULL);
}

enum td_code td_job_process_open(const char *state_dir, const char *id, int64_t attempt, bool first,
                                 struct td_job_process **out, struct td_fault *f)
{
    struct td_job_process *p = td_calloc(1, sizeof *p);
    *out = p;
    if (p == NULL) {
        return td_fault_of(f, td_no_memory(&f->err, sizeof *p, "a job"), "server_error", NULL);
    }
    *p = (struct td_job_process){.lock = -1, .state_dir = state_dir, .id = id, .attempt = attempt};
    TD_TRY(begin(p, first, f));
    return read_spec(p, f);
}

struct td_job_todo td_job_process_todo(const struct td_job_process *p)
{
    const bool validates = p->spec->validation_file != NULL;
    return (struct td_job_todo){
        .model = p->model,
        .version = p->version,
        .dir = p->source,
        .serving_dir = p->serving,
        .train = {.spec = p->spec,
                  .training_path = p->training,
                  .training_name = p->training_name,
                  .validation_path = validates ? p->validation : NULL,
                  .validation_name = validates ? p->validation_name : NULL,
                  .work_dir = p->work,
                  .stage_dir = p->stage,
                  .sink = p->sink != NULL ? td_job_sink_of(p->sink) : (struct td_train_sink){0}},
    };
}

/* ------------------------------------------------------------------ ends */

static enum td_code done(struct td_job_process *p, const struct td_train_outcome *out, struct td_fault *f)
{
    const bool publishes = p->spec->publish && out->gate_passed;
    const enum td_code rc = td_job_sink_done(p->sink, out->rows, out->step, publishes, &f->err);
    return td_fault_of(f, rc, "server_error", NULL);
}

static int tell_failure(struct td_job_process *p, const struct td_fault *f)
{
    struct td_err err = {0};
    td_log(TD_LOG_ERROR, NULL, "%s", f->err.msg);
    enum td_code rc = p != NULL && p->sink != NULL ? td_job_sink_fail(p->sink, f, &err) : TD_INTERNAL;
    if (rc == TD_RESOURCE_EXHAUSTED && td_jobs_spend_reserve(p->state_dir)) {
        err = (struct td_err){0};
        rc = td_job_sink_fail(p->sink, f, &err);
    }
    if (rc == TD_OK || rc == TD_CANCELLED) {
        return rc ? TD_CHILD_OUSTED : TD_CHILD_FAILED;
    }
    (void)dprintf(STDERR_FILENO, "%s\n", f->err.msg); /* the last words: the server writes them down */
    return TD_CHILD_UNTOLD;
}

void td_job_process_close(struct td_job_process *p)
{
    if (p == NULL) {
        return;
    }
    td_job_sink_close(p->sink);
    td_job_spec_free(p->spec);
    td_free(p->request);
    td_store_close(p->store);
    if (p->lock >= 0) {
        close(p->lock);
    }
    td_free(p);
}

int td_job_process_end(struct td_job_process *p, enum td_code rc, const struct td_train_outcome *out,
                       struct td_fault *f)
{
    const bool paused = rc == TD_OK && out->end == TD_TRAIN_PAUSED;
    rc = rc || paused ? rc : done(p, out, f);
    const int status = rc ? tell_failure(p, f) : paused ? TD_CHILD_PAUSED : TD_CHILD_DONE;
    td_job_process_close(p);
    return status;
}

enum td_code td_job_process_gpus(const char *state_dir, const char *id, int *gpus, struct td_fault *f)
{
    struct td_job_process *p = NULL;
    enum td_code rc = td_job_process_open(state_dir, id, 0, false, &p, f);
    *gpus = rc == TD_OK ? (int)p->spec->gpus : 1;
    td_job_process_close(p);
    return rc;
}
