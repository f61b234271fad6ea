/* server/http/rest_finetune.c - what the handlers of files and fine-tuning jobs share.
 *
 * A fault of server/train or server/jobs is a sentence with a code and a field; the sentence becomes the
 * handler's error, the other two are kept in the exchange, and server/http/rest.c writes them as OpenAI does.
 * Clients of that API try again on 408, 409, 429 and 5xx, so only what may pass by itself gets these.
 *
 * Does not: answer (server/http/rest_files.c, server/http/rest_jobs.c, server/http/rest_events.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/rest_finetune.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/base/rest_json.h"

#define MOST_ROWS 10000 /* of a list's page */

int td_rest_finetune_status(const struct td_exchange *x, enum td_code code)
{
    static const struct {
        const char *code;
        int status;
    } known[] = {{"not_found", 404}, {"server_error", 500}, {"file_too_large", 413}, {"quota_exceeded", 429}};
    for (size_t i = 0; i < sizeof known / sizeof known[0] && x->error_code != NULL; i++) {
        if (strcmp(known[i].code, x->error_code) == 0) {
            return known[i].status;
        }
    }
    return code == TD_ABORTED || code == TD_ALREADY_EXISTS ? 400 : td_code_http(code);
}

static const char *keep(struct td_exchange *x, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *kept = n > 1 ? td_arena_alloc(x->r.arena, n, 1) : NULL;
    return kept != NULL ? memcpy(kept, text, n) : NULL;
}

enum td_code td_rest_fault(struct td_exchange *x, enum td_code rc, const struct td_fault *f,
                           struct td_err *err)
{
    if (rc == TD_OK) {
        return TD_OK;
    }
    x->error_code = keep(x, f->code);
    x->error_param = keep(x, f->param);
    return td_fail(err, rc, "%s", f->err.msg);
}

enum td_code td_rest_has_jobs(const struct td_rest *rest, struct td_err *err)
{
    TD_FAIL_IF(rest->jobs == NULL, err, UNAVAILABLE,
               "this server does no fine-tuning: it has no state directory (--state_dir)");
    return TD_OK;
}

static enum td_code refuse(struct td_exchange *x, const char *param, const char *value, const char *want,
                           struct td_err *err)
{
    struct td_fault f = {0};
    return td_rest_fault(
        x, TD_FAULT(&f, "invalid_value", param, "%s is '%.80s', want %s", param, value, want), &f, err);
}

enum td_code td_rest_page(struct td_exchange *x, struct td_page *p, struct td_err *err)
{
    const char *limit, *order;
    char *end = NULL;
    *p = (struct td_page){0};
    TD_TRY(td_rest_query(x, "limit", &limit, err));
    TD_TRY(td_rest_query(x, "order", &order, err));
    TD_TRY(td_rest_query(x, "after", &p->after, err));
    TD_TRY(td_rest_query(x, "purpose", &p->purpose, err));
    if (limit != NULL) {
        p->limit = *limit >= '0' && *limit <= '9' ? strtoll(limit, &end, 10) : 0;
        if (end == NULL || *end != '\0' || p->limit < 1 || p->limit > MOST_ROWS) {
            return refuse(x, "limit", limit, "a number from 1 to 10000", err);
        }
    }
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        return refuse(x, "order", order, "asc or desc", err);
    }
    p->ascending = order != NULL && strcmp(order, "asc") == 0;
    return TD_OK;
}

enum td_code td_rest_id(struct td_rest *rest, struct td_exchange *x, const char **id, struct td_err *err)
{
    TD_TRY(td_rest_has_jobs(rest, err));
    *id = td_rest_decoded(x, x->match.id);
    return *id != NULL ? TD_OK : td_no_memory(err, x->match.id.n, "an id");
}

static enum td_code admit(void *who, const char *model, struct td_err *err)
{
    const struct td_rest_asker *a = who;
    return td_rest_admit(a->rest, a->x, TD_SCOPE_TRAIN, model, err);
}

struct td_job_judge td_rest_judge(struct td_rest *rest, const struct td_exchange *x,
                                  struct td_rest_asker *who)
{
    *who = (struct td_rest_asker){rest, x};
    return (struct td_job_judge){rest->access != NULL ? admit : NULL, who};
}

enum td_code td_rest_job_id(struct td_rest *rest, struct td_exchange *x, const char **id, struct td_err *err)
{
    struct td_fault f = {0};
    struct td_rest_asker who;
    const struct td_job_judge judge = td_rest_judge(rest, x, &who);
    TD_TRY(td_rest_id(rest, x, id, err));
    return td_rest_fault(x, td_job_access(rest->jobs, *id, &judge, &f), &f, err);
}

enum td_code td_rest_put_doc(struct td_exchange *x, json_t *doc, struct td_err *err)
{
    const enum td_code rc = td_rest_put_exact(&x->out, doc, err);
    json_decref(doc);
    return rc ? rc : td_sink_put(&x->out, "\n", 1, err);
}
