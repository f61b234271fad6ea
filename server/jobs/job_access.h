/* server/jobs/job_access.h - which jobs somebody may create, see and touch: those of the models that his
 * token is for.
 *
 * The wires know tokens; they bring a function that judges a model's name. What a job takes from another
 * job's result counts as well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_JOB_ACCESS_H
#define TD_SERVER_JOBS_JOB_ACCESS_H

#include "server/jobs/jobs.h"

struct td_job_judge {
    /* PERMISSION_DENIED, UNAUTHENTICATED; NULL: everybody may do everything. */
    enum td_code (*admit)(void *ctx, const char *model, struct td_err *err);
    void *ctx;
};

/* A job that is there. not_found when it is not. */
TD_MUST enum td_code td_job_access(struct td_jobs *j, const char *id, const struct td_job_judge *judge,
                                   struct td_fault *f);
/* One that is asked for: the body of a creation, which may be anything. */
TD_MUST enum td_code td_job_access_body(struct td_jobs *j, const json_t *body,
                                        const struct td_job_judge *judge, struct td_fault *f);
/* td_jobs_list without the others: first_id, last_id and has_more are of what is seen. */
TD_MUST enum td_code td_job_access_list(struct td_jobs *j, const struct td_page *page,
                                        const struct td_job_judge *judge, json_t **out, struct td_fault *f);

#endif
