/* server/jobs/job_process.h - what a process of a server's job reads of its row, and how it tells its end.
 *
 *   rc = td_job_process_open(state_dir, id, attempt, true, &p, &f);
 *   if (rc == TD_OK) { todo = td_job_process_todo(p); rc = .. td_train .. }
 *   exit(td_job_process_end(p, rc, &outcome, &f));
 *
 * Threads: one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_JOB_PROCESS_H
#define TD_SERVER_JOBS_JOB_PROCESS_H

#include "server/train/trainer.h"

struct td_job_process;

/* Borrows the texts. *out is new also on failure (NULL: no memory), for td_job_process_end. first: of the
 * processes that the job is made of (server/train/ranks.h); the others only read what is to be done, and tell
 * nobody. */
TD_MUST enum td_code td_job_process_open(const char *state_dir, const char *id, int64_t attempt, bool first,
                                         struct td_job_process **out, struct td_fault *f);
/* How many GPUs the job wants, before it is opened and before any thread is made. */
TD_MUST enum td_code td_job_process_gpus(const char *state_dir, const char *id, int *gpus,
                                         struct td_fault *f);

/* All borrowed of p. */
struct td_job_todo {
    const char *model;
    int64_t version;
    const char *dir;            /* of the version that it starts from */
    const char *serving_dir;    /* of the one that a gate compares with */
    struct td_train_opts train; /* but servable, serving, pause and pool */
};
struct td_job_todo td_job_process_todo(const struct td_job_process *p);

/* Writes down how it ended: rc and f, or out. Takes p (NULL is fine). Returns what the process exits with
 * (server/jobs/child.h). */
int td_job_process_end(struct td_job_process *p, enum td_code rc, const struct td_train_outcome *out,
                       struct td_fault *f);

/* Of a process that is not the first: nothing is written down. Accepts NULL. */
void td_job_process_close(struct td_job_process *p);

#endif
