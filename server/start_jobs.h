/* server/start_jobs.h - the daemon's options as those of its jobs, and the flags that a job's process gets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_START_JOBS_H
#define TD_SERVER_START_JOBS_H

#include "server/base/options.h"
#include "server/jobs/jobs.h"

enum { TD_MAX_JOB_FLAGS = 16 };
/* Must outlive the jobs. */
struct td_job_flags {
    char *at[TD_MAX_JOB_FLAGS + 1]; /* "--kernels=fast"; ends with NULL */
};

/* Opens the jobs of a server (td_jobs_open); the registry has started. */
TD_MUST enum td_code td_start_jobs(const struct td_options *o, const char *state_dir, struct td_registry *r,
                                   struct td_job_flags *flags, struct td_jobs **out, struct td_err *err);
void td_job_flags_fini(struct td_job_flags *f);

#endif
