/* server/http/rest_jobs.c - fine-tuning jobs: created, listed, described, paused, resumed, cancelled and
 * published, and their checkpoints.
 *
 * A token with a pattern of models creates, sees and touches the jobs of those models
 * (server/jobs/job_access.h).
 *
 * Does not: judge a job (server/train/spec.h), run it (server/jobs), tell its events
 * (server/http/rest_events.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/rest_json.h"
#include "server/http/rest_finetune.h"

enum td_code td_rest_job_create(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    struct td_fault f = {0};
    json_t *body, *job = NULL;
    struct td_rest_asker who;
    const struct td_job_judge judge = td_rest_judge(rest, x, &who);
    TD_TRY(td_rest_has_jobs(rest, err));
    TD_TRY(td_rest_get_json(x->body, x->body_len, &body, err));
    td_rest_owner(rest, x, owner);
    enum td_code rc = td_job_access_body(rest->jobs, body, &judge, &f);
    rc = rc ? rc : td_jobs_create(rest->jobs, body, owner, &job, &f);
    json_decref(body);
    TD_TRY(td_rest_fault(x, rc, &f, err));
    return td_rest_put_doc(x, job, err);
}

enum td_code td_rest_job_list(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    struct td_rest_asker who;
    const struct td_job_judge judge = td_rest_judge(rest, x, &who);
    TD_TRY(td_rest_has_jobs(rest, err));
    TD_TRY(td_rest_page(x, &page, err));
    TD_TRY(td_rest_fault(x, td_job_access_list(rest->jobs, &page, &judge, &list, &f), &f, err));
    return td_rest_put_doc(x, list, err);
}

enum td_code td_rest_job_get(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const char *id;
    struct td_fault f = {0};
    json_t *job = NULL;
    TD_TRY(td_rest_job_id(rest, x, &id, err));
    TD_TRY(td_rest_fault(x, td_jobs_get(rest->jobs, id, &job, &f), &f, err));
    return td_rest_put_doc(x, job, err);
}

static enum td_code tell(struct td_rest *rest, struct td_exchange *x, enum td_job_verb verb,
                         struct td_err *err)
{
    const char *id;
    struct td_fault f = {0};
    json_t *job = NULL;
    TD_TRY(td_rest_job_id(rest, x, &id, err));
    TD_TRY(td_rest_fault(x, td_jobs_tell(rest->jobs, id, verb, &job, &f), &f, err));
    return td_rest_put_doc(x, job, err);
}

enum td_code td_rest_job_cancel(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return tell(rest, x, TD_JOB_CANCEL, err);
}

enum td_code td_rest_job_pause(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return tell(rest, x, TD_JOB_PAUSE, err);
}

enum td_code td_rest_job_resume(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return tell(rest, x, TD_JOB_RESUME, err);
}

enum td_code td_rest_job_publish(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return tell(rest, x, TD_JOB_PUBLISH, err);
}

enum td_code td_rest_job_checkpoints(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const char *id;
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    TD_TRY(td_rest_job_id(rest, x, &id, err));
    TD_TRY(td_rest_page(x, &page, err));
    TD_TRY(td_rest_fault(x, td_jobs_checkpoints(rest->jobs, id, &page, &list, &f), &f, err));
    return td_rest_put_doc(x, list, err);
}
