/* server/http/rest_finetune.h - what the handlers of files and fine-tuning jobs share: faults, pages of
 * lists, and which jobs a token may see.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_REST_FINETUNE_H
#define TD_SERVER_HTTP_REST_FINETUNE_H

#include "server/http/rest.h"
#include "server/jobs/job_access.h"

/* The status of an error of these routes: x->error_code decides before the code does. */
int td_rest_finetune_status(const struct td_exchange *x, enum td_code code);
/* Makes f the exchange's error; returns its code, TD_OK when rc is. */
TD_MUST enum td_code td_rest_fault(struct td_exchange *x, enum td_code rc, const struct td_fault *f,
                                   struct td_err *err);
/* UNAVAILABLE when this server has no jobs. */
TD_MUST enum td_code td_rest_has_jobs(const struct td_rest *rest, struct td_err *err);
/* limit, after, order and purpose of the query. */
TD_MUST enum td_code td_rest_page(struct td_exchange *x, struct td_page *p, struct td_err *err);
/* What judges models for x's token; *who is what it points to. */
struct td_rest_asker {
    struct td_rest *rest;
    const struct td_exchange *x;
};
struct td_job_judge td_rest_judge(struct td_rest *rest, const struct td_exchange *x,
                                  struct td_rest_asker *who);
/* The {id} of the target, decoded; and, of a job, whether the token is for its model. */
TD_MUST enum td_code td_rest_id(struct td_rest *rest, struct td_exchange *x, const char **id,
                                struct td_err *err);
TD_MUST enum td_code td_rest_job_id(struct td_rest *rest, struct td_exchange *x, const char **id,
                                    struct td_err *err);
/* Takes doc: the answer. */
TD_MUST enum td_code td_rest_put_doc(struct td_exchange *x, json_t *doc, struct td_err *err);

/* rest_files.c: gives x the reader of an upload, which keeps what is wrong for its handler. */
void td_rest_upload_begin(struct td_rest *rest, struct td_exchange *x);

#endif
