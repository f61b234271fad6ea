/* server/jobs/jobs_impl.h - what the files of server/jobs share.
 *
 * The database is the state: who wants something of a job writes it there and wakes the runner
 * (job_queue.c), the one thread that starts and ends processes. The process of a job writes there, too.
 *
 *   status   validating_files -> queued -> running -> succeeded | failed
 *                                    \_ paused _/                            any of these four -> cancelled
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_JOBS_IMPL_H
#define TD_SERVER_JOBS_JOBS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "proto/bytes/file.h"
#include "server/jobs/jobs.h"
#include "server/jobs/store.h"
#include "server/train/trainer.h"

/* The numbers are the database's, and the places in td_jobs_stats. */
enum td_job_status {
    TD_JOB_VALIDATING,
    TD_JOB_QUEUED,
    TD_JOB_RUNNING,
    TD_JOB_PAUSED,
    TD_JOB_SUCCEEDED,
    TD_JOB_FAILED,
    TD_JOB_CANCELLED,
    TD_N_JOB_STATUSES
};
const char *td_job_status_name(int64_t status);
static inline bool td_job_ended(int64_t status)
{
    return status >= TD_JOB_SUCCEEDED;
}

enum { TD_JOBS_ID = 40, TD_JOBS_MOST_RUNNING = 64 };

struct td_runner;

struct td_jobs {
    struct td_jobs_opts opts; /* texts are its own */
    pthread_mutex_t opening;  /* guards the next three */
    struct td_store *store;   /* NULL: the directory cannot be used; once there it stays */
    struct td_err closed;     /* why */
    int64_t next_try_ns;
    int lock; /* descriptor of state_dir/jobs.lock, held: one server a directory; -1 */
    struct td_runner *runner;
    pthread_mutex_t following; /* guards followers */
    struct td_follower *followers;
    atomic_int_fast64_t told;   /* grows when this process writes events */
    pthread_mutex_t publishing; /* held while a result is published, or a job cancelled */
};

/* ---- jobs.c */
/* The store, or a fault that says why there is none (UNAVAILABLE). Tries again once a second. */
TD_MUST enum td_code td_jobs_ready(struct td_jobs *j, struct td_fault *f);
/* Of a call that gave rc: the server's own trouble, unless f says more already. Returns rc. */
enum td_code td_jobs_trouble(struct td_fault *f, enum td_code rc);
/* PREFIX-, 24 letters and digits drawn by the system. */
TD_MUST enum td_code td_jobs_make_id(const char *prefix, char id[TD_JOBS_ID], struct td_err *err);
/* state_dir/FOLDER/NAME */
TD_MUST enum td_code td_jobs_path(const char *state_dir, const char *folder, const char *name,
                                  char out[TD_FILE_PATH], struct td_err *err);
TD_MUST enum td_code td_jobs_make_dir(const char *path, struct td_err *err);

/* ---- job_list.c */
/* {"object":"list", ..}: takes rows, of one more than p->limit where there are more; each has an "id". */
json_t *td_jobs_page(json_t *takes_rows, int64_t limit);
/* p->limit or its standard; invalid_value. */
TD_MUST enum td_code td_jobs_limit(const struct td_page *p, int64_t standard, int64_t *limit,
                                   struct td_fault *f);

/* The number of the job with that id; not_found. */
TD_MUST enum td_code td_jobs_seq(struct td_jobs *j, const char *id, int64_t *seq, struct td_fault *f);
/* The number of the event with that id; invalid_value where it is not this job's. */
TD_MUST enum td_code td_jobs_event_seq(const char *job_id, const char *id, int64_t *seq, struct td_fault *f);
/* Appends the job's events behind number seq to an array, oldest first, at most so many. */
TD_MUST enum td_code td_jobs_events_after(struct td_jobs *j, int64_t job, int64_t seq, int most,
                                          json_t *events, struct td_fault *f);

/* ---- files.c */
/* What a job needs of an uploaded file: file_not_found, invalid_value of `param`. name: of the file, for its
 * format. */
TD_MUST enum td_code td_files_check(struct td_jobs *j, const char *owner, const char *id, const char *param,
                                    struct td_fault *f);
/* Removes what no row of the database names: uploads that a crash cut off. */
void td_files_sweep(struct td_jobs *j);
/* Makes a copy of path (a link where that can be) the file `id` of purpose fine-tune-results; a row of it is
 * put in by the transaction that lasts. Nothing happens twice. */
TD_MUST enum td_code td_files_add_result(struct td_jobs *j, const char *id, const char *path,
                                         const char *owner, const char *filename, struct td_err *err);

/* ---- job_write.c */
/* Returns new: a value as JSON text; NULL without memory, and of NULL. */
char *td_jobs_text(const json_t *v);
/* A file of some pages that nobody needs, kept so that the end of a job can be written down where the disk is
 * full: made when it is not there and there is room; given up, true when there was one. */
void td_jobs_keep_reserve(const char *state_dir);
bool td_jobs_spend_reserve(const char *state_dir);
/* What both the server and a job's process write; each inside a transaction. */
struct td_job_event {
    struct td_train_event is; /* data is not looked at */
    const char *data;         /* JSON text; NULL */
    int64_t at;               /* seconds since the epoch; 0: now */
};
/* Puts an event in, unless the job has one of that key. */
TD_MUST enum td_code td_job_say(struct td_store *s, int64_t job, const struct td_job_event *e,
                                struct td_err *err);
/* A message of this process. */
TD_MUST enum td_code td_job_message(struct td_store *s, int64_t job, const char *key, const char *level,
                                    struct td_err *err, const char *fmt, ...) TD_PRINTF(6, 7);
/* Ends a job that has not ended as failed: the fault, an event of level error, the time. */
TD_MUST enum td_code td_job_fail(struct td_store *s, int64_t job, const struct td_fault *why,
                                 struct td_err *err);

/* ---- job_leftovers.c */
/* Removes what jobs that have ended leave on disk. */
TD_MUST enum td_code td_jobs_clean(struct td_jobs *j, struct td_err *err);

/* ---- publish.c. Callers hold j->publishing. */
struct td_published {
    bool out_there; /* also on failure: the version has its name, and only the row is behind: try again */
    bool loading;   /* not served yet, so the job has not succeeded: try again */
};
/* A job that is trained succeeds: its result is published where it may be, else kept aside. */
TD_MUST enum td_code td_publish_trained(struct td_jobs *j, int64_t job, struct td_published *how,
                                        struct td_err *err);
/* Publishes what was kept aside. */
TD_MUST enum td_code td_publish_kept(struct td_jobs *j, int64_t job, struct td_err *err);

/* ---- follow.c */
/* Wakes all followers; true: there are some. */
bool td_follow_wake_all(struct td_jobs *j, bool news);

/* ---- job_queue.c */
TD_MUST enum td_code td_runner_start(struct td_jobs *j, struct td_err *err);
void td_runner_stop(struct td_jobs *j); /* ends the children, too */
void td_runner_wake(struct td_jobs *j);

#endif
