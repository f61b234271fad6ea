/* server/jobs/jobs.h - fine-tuning: the files and jobs of a server, as its wires see them.
 *
 *   state_dir/state.db      files, jobs, events, checkpoints (SQLite, WAL)            store.h
 *   state_dir/files/ID      what was uploaded
 *   state_dir/jobs/ID/      progress, result.csv, TensorBoard files of a job
 *
 * A job runs in a child process of the same binary (child.h), one at a time by default, in order
 * of creation. The child writes its events and progress to the database itself; this process starts it, says
 * pause or cancel by a signal, and is told its end by its exit. A child that a signal ended is started again
 * from its last progress. All states survive the death of either process.
 *
 * Answers are JSON documents of OpenAI's shape (suites/finetune/FORMAT.md, "On the wire"), new references.
 * Threads: any; calls wait for the database, not for jobs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_JOBS_H
#define TD_SERVER_JOBS_JOBS_H

#include <jansson.h>

#include "server/models/registry.h"
#include "server/train/fault.h"

struct td_jobs;

struct td_jobs_opts {
    const char *state_dir;            /* copied */
    struct td_registry *registry;     /* borrowed: models by name, their base paths, and who loads results */
    struct td_servable_opts servable; /* how a job's version is loaded; borrowed */
    const char *program;              /* this binary, started for a job; copied */
    int most_running, most_waiting;   /* jobs; more waiting: refused */
    int cores;                        /* --job_cores: threads of a job */
    int gpus;                         /* that a job may ask for; 0: as 1 */
    int64_t memory;                   /* --job_memory: bytes of a job's process; 0: no limit */
    int64_t file_bytes, quota_bytes;  /* of one uploaded file, of all files of one token; 0: no limit */
    const char *const *flags; /* of this server, that a job's process needs too; borrowed, ends with NULL */
};
/* Succeeds also where the state directory cannot be used (another server's, a damaged database, ..): then
 * every call answers UNAVAILABLE with the reason, and tries again once a second. */
TD_MUST enum td_code td_jobs_open(const struct td_jobs_opts *o, struct td_jobs **out, struct td_err *err);
/* Starts no job any more and tells those that run to save and end; does not wait for them. */
void td_jobs_drain(struct td_jobs *j); /* accepts NULL */
/* Ends the children (they go on from their last progress at the next start) and closes the database. */
void td_jobs_close(struct td_jobs *j); /* accepts NULL */

/* ---- files. owner: who the token names: quotas go by it, and others do not see the files. "" without
 * tokens: sees all. */
struct td_file_upload;
TD_MUST enum td_code td_file_upload_open(struct td_jobs *j, const char *owner, struct td_file_upload **out,
                                         struct td_fault *f);
/* Bytes as they come; past the limits: RESOURCE_EXHAUSTED, code file_too_large (413), which names the limit
 * and its flag. */
TD_MUST enum td_code td_file_upload_write(struct td_file_upload *u, const void *bytes, size_t n,
                                          struct td_fault *f);
/* Frees u, also on failure. */
TD_MUST enum td_code td_file_upload_finish(struct td_file_upload *u, const char *filename,
                                           const char *purpose, json_t **file, struct td_fault *f);
void td_file_upload_abandon(struct td_file_upload *u);
struct td_page {
    int64_t limit;               /* 0: the list's standard */
    const char *after, *purpose; /* NULL: none */
    bool ascending;
};
TD_MUST enum td_code td_files_list(struct td_jobs *j, const char *owner, const struct td_page *p,
                                   json_t **out, struct td_fault *f);
/* code not_found */
TD_MUST enum td_code td_files_get(struct td_jobs *j, const char *owner, const char *id, json_t **out,
                                  struct td_fault *f);
TD_MUST enum td_code td_files_delete(struct td_jobs *j, const char *owner, const char *id, json_t **out,
                                     struct td_fault *f);
/* An open descriptor of its bytes, and how many; the caller's. */
TD_MUST enum td_code td_files_content(struct td_jobs *j, const char *owner, const char *id, int *fd,
                                      int64_t *bytes, struct td_fault *f);

/* ---- jobs */
/* body: as sent. Refused with param and code, or queued. Too many wait: RESOURCE_EXHAUSTED, code
 * queue_full. */
TD_MUST enum td_code td_jobs_create(struct td_jobs *j, json_t *body, const char *owner, json_t **job,
                                    struct td_fault *f);
TD_MUST enum td_code td_jobs_list(struct td_jobs *j, const struct td_page *p, json_t **out,
                                  struct td_fault *f);
TD_MUST enum td_code td_jobs_get(struct td_jobs *j, const char *id, json_t **out, struct td_fault *f);
enum td_job_verb { TD_JOB_CANCEL, TD_JOB_PAUSE, TD_JOB_RESUME, TD_JOB_PUBLISH };
/* code not_found, invalid_job_state */
TD_MUST enum td_code td_jobs_tell(struct td_jobs *j, const char *id, enum td_job_verb verb, json_t **job,
                                  struct td_fault *f);
/* The model that a job is for, for access by token; copied to name[128]. */
TD_MUST enum td_code td_jobs_model(struct td_jobs *j, const char *id, char name[128], struct td_fault *f);
TD_MUST enum td_code td_jobs_events(struct td_jobs *j, const char *id, const struct td_page *p, json_t **list,
                                    struct td_fault *f);
TD_MUST enum td_code td_jobs_checkpoints(struct td_jobs *j, const char *id, const struct td_page *p,
                                         json_t **list, struct td_fault *f);

/* ---- following a job: events oldest first, as they come. A follower is polled; it holds no thread. */
struct td_follower;
/* after: the id of the last event that is known; NULL: from the first. */
TD_MUST enum td_code td_follow_open(struct td_jobs *j, const char *id, const char *after,
                                    struct td_follower **out, struct td_fault *f);
/* The next events, an array of at most `most`; an empty one: none now. *ended: the job has ended and all of
 * its events were given. */
TD_MUST enum td_code td_follow_next(struct td_follower *w, int most, json_t **events, bool *ended,
                                    struct td_fault *f);
/* wake(ctx) is called (from another thread, at most ten times a second) when there may be more; it calls
 * nothing of a follower's. */
void td_follow_wake(struct td_follower *w, void (*wake)(void *ctx), void *ctx);
void td_follow_close(struct td_follower *w); /* wake is not called any more when it returns; accepts NULL */

/* For /metrics: jobs by status, steps, rows and seconds of training so far. */
struct td_jobs_stats {
    int64_t by_status[7]; /* validating_files, queued, running, paused, succeeded, failed, cancelled */
    int64_t steps, rows;
    double seconds;
    int64_t files, file_bytes;
};
void td_jobs_stats(struct td_jobs *j, struct td_jobs_stats *s);

#endif
