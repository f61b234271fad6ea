/* server/jobs/job_sink.h - where a job's process tells its events and progress to: the database.
 *
 *   TD_TRY(td_job_sink_open(state_dir, seq, attempt, &s, err));
 *   opts.sink = td_job_sink_of(s);
 *   rc = td_train(&opts, ..);
 *   td_job_sink_done(s, ..) or td_job_sink_fail(s, ..);
 *   td_job_sink_close(s);
 *
 * Everything answers CANCELLED once the job has ended or a later process has it: then nothing of this one is
 * written any more.
 *
 * Threads: one, besides its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_JOB_SINK_H
#define TD_SERVER_JOBS_JOB_SINK_H

#include "server/jobs/store.h"
#include "server/train/trainer.h"

struct td_job_sink;

/* Returns new; borrows the store. */
TD_MUST enum td_code td_job_sink_open(struct td_store *store, int64_t job, int64_t attempt,
                                      struct td_job_sink **out, struct td_err *err);
/* Writes what is left; accepts NULL. */
void td_job_sink_close(struct td_job_sink *s);

struct td_train_sink td_job_sink_of(struct td_job_sink *s);

/* The result is complete and synced: the server may publish it if `publishes`. On disk when it returns. */
TD_MUST enum td_code td_job_sink_done(struct td_job_sink *s, int64_t rows, int64_t result_step,
                                      bool publishes, struct td_err *err);
/* The job has failed. On disk when it returns. */
TD_MUST enum td_code td_job_sink_fail(struct td_job_sink *s, const struct td_fault *why, struct td_err *err);

#endif
