/* server/jobs/job_tell.c - cancel, pause, resume, publish: rules of states, written where the runner and the
 * job's process will see them.
 *
 *             no process            with one                          ended
 *   cancel    cancelled             cancelled; the process is killed  400
 *   pause     paused                `pausing`: it saves and ends      400
 *   resume    queued, if paused     takes `pausing` back              400
 *   publish   400                   400                               succeeded and kept aside: published
 *
 * A job whose process has done its work and that is being published can be paused no more; a cancel waits for
 * the publication to end, and then comes too late.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "server/jobs/jobs_impl.h"

struct state {
    int64_t seq, status, live, trained;
    bool published;
};

static enum td_code take_state(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    (void)err;
    *(struct state *)ctx = (struct state){.seq = td_sql_int(r, 0),
                                          .status = td_sql_int(r, 1),
                                          .live = td_sql_int(r, 2),
                                          .trained = td_sql_int(r, 3),
                                          .published = !td_sql_null(r, 4)};
    return TD_OK;
}

static enum td_code cancel(struct td_store *s, const struct state *at, struct td_err *err)
{
    TD_TRY(td_store_do(s, "UPDATE jobs SET status = 6, pausing = 0, finished_at = ? WHERE seq = ?",
                       TD_SQL(TD_SQL_INT((int64_t)time(NULL)), TD_SQL_INT(at->seq)), NULL, err));
    return td_job_message(s, at->seq, "end", "info", err, "The job was cancelled");
}

static enum td_code pause_it(struct td_store *s, const struct state *at, struct td_err *err)
{
    if (at->status == TD_JOB_PAUSED || at->trained) {
        return TD_OK;
    }
    return td_store_do(s,
                       at->live ? "UPDATE jobs SET pausing = 1 WHERE seq = ?"
                                : "UPDATE jobs SET status = 3 WHERE seq = ?",
                       TD_SQL(TD_SQL_INT(at->seq)), NULL, err);
}

static enum td_code resume(struct td_store *s, const struct state *at, struct td_err *err)
{
    return td_store_do(s,
                       at->status == TD_JOB_PAUSED ? "UPDATE jobs SET status = 1, pausing = 0 WHERE seq = ?"
                                                   : "UPDATE jobs SET pausing = 0 WHERE seq = ?",
                       TD_SQL(TD_SQL_INT(at->seq)), NULL, err);
}

static const char *const VERB[] = {[TD_JOB_CANCEL] = "cancelled",
                                   [TD_JOB_PAUSE] = "paused",
                                   [TD_JOB_RESUME] = "resumed",
                                   [TD_JOB_PUBLISH] = "published"};

static enum td_code change(struct td_store *s, const char *id, enum td_job_verb verb, struct state *at,
                           struct td_fault *f)
{
    TD_TRY(td_store_ask(s, "SELECT seq, status, live, trained, result_version FROM jobs WHERE id = ?",
                        TD_SQL(TD_SQL_TEXT(id)), take_state, at, &f->err));
    const bool fits = verb == TD_JOB_PUBLISH ? at->status == TD_JOB_SUCCEEDED : !td_job_ended(at->status);
    if (!fits) {
        const enum td_code rc = td_fail(&f->err, TD_FAILED_PRECONDITION, "job %s is %s: it cannot be %s", id,
                                        td_job_status_name(at->status), VERB[verb]);
        return td_fault_of(f, rc, "invalid_job_state", NULL);
    }
    return verb == TD_JOB_CANCEL   ? cancel(s, at, &f->err)
           : verb == TD_JOB_PAUSE  ? pause_it(s, at, &f->err)
           : verb == TD_JOB_RESUME ? resume(s, at, &f->err)
                                   : TD_OK;
}

static enum td_code tell(struct td_jobs *j, const char *id, enum td_job_verb verb, struct td_fault *f)
{
    struct state at = {0};
    TD_TRY(td_store_begin(j->store, true, &f->err));
    TD_TRY(td_store_end(j->store, change(j->store, id, verb, &at, f), &f->err));
    return verb == TD_JOB_PUBLISH && !at.published ? td_publish_kept(j, at.seq, &f->err) : TD_OK;
}

enum td_code td_jobs_tell(struct td_jobs *j, const char *id, enum td_job_verb verb, json_t **job,
                          struct td_fault *f)
{
    int64_t seq;
    const bool alone = verb == TD_JOB_CANCEL || verb == TD_JOB_PUBLISH;
    TD_TRY(td_jobs_seq(j, id, &seq, f));
    if (alone) {
        pthread_mutex_lock(&j->publishing);
    }
    const enum td_code rc = tell(j, id, verb, f);
    if (alone) {
        pthread_mutex_unlock(&j->publishing);
    }
    atomic_fetch_add(&j->told, 1);
    td_runner_wake(j);
    return rc ? td_jobs_trouble(f, rc) : td_jobs_get(j, id, job, f);
}
