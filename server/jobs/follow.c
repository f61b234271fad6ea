/* server/jobs/follow.c - followers of jobs: each remembers the number of the last event it gave.
 *
 * The runner looks ten times a second, while there are followers, whether anything was committed (SQLite's
 * data_version tells of other processes, `told` of this one) and wakes them all: there are few, and who finds
 * nothing goes back to sleep.
 *
 * That a job has ended is read before its events are: nothing is written to it afterwards but that its result
 * was published, so an ended job that gives fewer events than asked for has given all.
 *
 * Threads: a follower is its owner's; j->following guards the list and what is called from it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"

struct td_follower {
    struct td_jobs *jobs;
    int64_t job, seq;
    char id[TD_JOBS_ID];
    void (*wake)(void *ctx);
    void *ctx;
    struct td_follower *next;
};

enum td_code td_follow_open(struct td_jobs *j, const char *id, const char *after, struct td_follower **out,
                            struct td_fault *f)
{
    int64_t job, seq = 0;
    TD_TRY(td_jobs_seq(j, id, &job, f));
    if (after != NULL) {
        TD_TRY(td_jobs_event_seq(id, after, &seq, f));
    }
    struct td_follower *w = td_calloc(1, sizeof *w);
    if (w == NULL) {
        return td_jobs_trouble(f, td_no_memory(&f->err, sizeof *w, "a follower"));
    }
    *w = (struct td_follower){.jobs = j, .job = job, .seq = seq};
    memcpy(w->id, id, strnlen(id, sizeof w->id - 1));
    pthread_mutex_lock(&j->following);
    w->next = j->followers;
    j->followers = w;
    pthread_mutex_unlock(&j->following);
    td_runner_wake(j);
    *out = w;
    return TD_OK;
}

enum td_code td_follow_next(struct td_follower *w, int most, json_t **events, bool *ended, struct td_fault *f)
{
    int64_t status = 0;
    const enum td_code rc = td_store_ask_int(w->jobs->store, "SELECT status FROM jobs WHERE seq = ?",
                                             TD_SQL(TD_SQL_INT(w->job)), 0, &status, &f->err);
    if (rc) {
        return td_jobs_trouble(f, rc);
    }
    json_t *list = json_array();
    if (td_jobs_events_after(w->jobs, w->job, w->seq, most, list, f)) {
        json_decref(list);
        return f->err.code;
    }
    const size_t n = json_array_size(list);
    if (n > 0) {
        const char *last = json_string_value(json_object_get(json_array_get(list, n - 1), "id"));
        TD_CHECK(last != NULL && td_jobs_event_seq(w->id, last, &w->seq, f) == TD_OK);
    }
    *ended = td_job_ended(status) && n < (size_t)most;
    *events = list;
    return TD_OK;
}

void td_follow_wake(struct td_follower *w, void (*wake)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&w->jobs->following);
    w->wake = wake;
    w->ctx = ctx;
    pthread_mutex_unlock(&w->jobs->following);
}

void td_follow_close(struct td_follower *w)
{
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->jobs->following);
    struct td_follower **at = &w->jobs->followers;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    pthread_mutex_unlock(&w->jobs->following);
    td_free(w);
}

bool td_follow_wake_all(struct td_jobs *j, bool news)
{
    pthread_mutex_lock(&j->following);
    const bool some = j->followers != NULL;
    for (struct td_follower *w = news ? j->followers : NULL; w != NULL; w = w->next) {
        if (w->wake != NULL) {
            w->wake(w->ctx);
        }
    }
    pthread_mutex_unlock(&j->following);
    return some;
}
