/* server/jobs/job_list.c - jobs, events and checkpoints as clients see them.
 *
 * Every list goes by the rows' numbers, newest first; `after` is an id, looked up for its number. One row
 * more than asked for tells has_more. An event's id is made of its job's and its own number, so it needs no
 * column: ftevent-LETTERS000000000012, LETTERS from the job's id.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"

enum { JOBS_A_PAGE = 20, EVENTS_A_PAGE = 20, CHECKPOINTS_A_PAGE = 10, MOST_A_PAGE = 10000 };

static const char *const STATUS[TD_N_JOB_STATUSES] = {"validating_files", "queued", "running",  "paused",
                                                      "succeeded",        "failed", "cancelled"};

const char *td_job_status_name(int64_t status)
{
    return status >= 0 && status < TD_N_JOB_STATUSES ? STATUS[status] : "failed";
}

/* ------------------------------------------------------------------ pages */

enum td_code td_jobs_limit(const struct td_page *p, int64_t standard, int64_t *limit, struct td_fault *f)
{
    if (p->limit < 0 || p->limit > MOST_A_PAGE) {
        return TD_FAULT(f, "invalid_value", "limit", "limit is %" PRId64 ", want 1 to %d", p->limit,
                        MOST_A_PAGE);
    }
    *limit = p->limit == 0 ? standard : p->limit;
    return TD_OK;
}

json_t *td_jobs_page(json_t *takes_rows, int64_t limit)
{
    const bool more = (int64_t)json_array_size(takes_rows) > limit;
    if (more) {
        (void)json_array_remove(takes_rows, (size_t)limit);
    }
    const size_t n = json_array_size(takes_rows);
    const char *first = json_string_value(json_object_get(json_array_get(takes_rows, 0), "id"));
    const char *last = json_string_value(json_object_get(json_array_get(takes_rows, n - 1), "id"));
    return json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", takes_rows, "first_id", first,
                     "last_id", last, "has_more", more);
}

/* ------------------------------------------------------------------ jobs */

#define COLUMNS                                                                                              \
    "id, created_at, finished_at, status, request, hyperparameters, method, seed, model, training_file,"     \
    " validation_file, error_code, error_message, error_param, result_version, result_file, rows, step,"     \
    " total_steps, epoch, seq"
enum {
    ID,
    CREATED,
    FINISHED,
    STATUS_NUMBER,
    REQUEST,
    HYPERPARAMETERS,
    METHOD,
    SEED,
    MODEL,
    TRAINING,
    VALIDATION,
    ERROR_CODE,
    ERROR_MESSAGE,
    ERROR_PARAM,
    RESULT_VERSION,
    RESULT_FILE,
    ROWS,
    STEP,
    TOTAL_STEPS,
    EPOCH,
    SEQ
};

static json_t *int_or_null(const struct td_sql_row *r, int column)
{
    return td_sql_null(r, column) ? json_null() : json_integer(td_sql_int(r, column));
}

static json_t *text_or_null(const struct td_sql_row *r, int column)
{
    const char *s = td_sql_text(r, column);
    return s != NULL ? json_string(s) : json_null();
}

static json_t *parsed(const struct td_sql_row *r, int column)
{
    const char *s = td_sql_text(r, column);
    json_t *v = s != NULL ? json_loads(s, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    return v != NULL ? v : json_null();
}

/* A field of the request as it was sent; null where it was not. */
static json_t *sent(const json_t *request, const char *field)
{
    json_t *v = json_object_get(request, field);
    return v != NULL ? json_incref(v) : json_null();
}

static json_t *result_of(const struct td_sql_row *r)
{
    return td_sql_null(r, RESULT_VERSION) || td_sql_int(r, STATUS_NUMBER) != TD_JOB_SUCCEEDED
               ? json_null()
               : json_sprintf("%s/versions/%" PRId64, td_sql_text(r, MODEL), td_sql_int(r, RESULT_VERSION));
}

static json_t *result_files_of(const struct td_sql_row *r)
{
    json_t *list = json_array();
    if (td_sql_int(r, STATUS_NUMBER) == TD_JOB_SUCCEEDED && !td_sql_null(r, RESULT_FILE)) {
        (void)json_array_append_new(list, text_or_null(r, RESULT_FILE));
    }
    return list;
}

static json_t *error_of(const struct td_sql_row *r)
{
    return td_sql_null(r, ERROR_CODE) || td_sql_int(r, STATUS_NUMBER) != TD_JOB_FAILED
               ? json_null()
               : json_pack("{s:s, s:o, s:o}", "code", td_sql_text(r, ERROR_CODE), "message",
                           text_or_null(r, ERROR_MESSAGE), "param", text_or_null(r, ERROR_PARAM));
}

static json_t *job_json(const struct td_sql_row *r)
{
    const int64_t status = td_sql_int(r, STATUS_NUMBER);
    json_t *request = parsed(r, REQUEST);
    json_t *o = json_pack("{s:s, s:s, s:I, s:o, s:n, s:s, s:o, s:o, s:s, s:s, s:o}", "id", td_sql_text(r, ID),
                          "object", "fine_tuning.job", "created_at", (json_int_t)td_sql_int(r, CREATED),
                          "finished_at", int_or_null(r, FINISHED), "estimated_finish", "organization_id",
                          "tensord", "model", sent(request, "model"), "fine_tuned_model", result_of(r),
                          "status", td_job_status_name(status), "training_file", td_sql_text(r, TRAINING),
                          "validation_file", text_or_null(r, VALIDATION));
    json_t *more = json_pack("{s:I, s:o, s:o, s:o, s:o, s:[], s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I}}", "seed",
                             (json_int_t)td_sql_int(r, SEED), "suffix", sent(request, "suffix"), "error",
                             error_of(r), "result_files", result_files_of(r), "trained_tokens",
                             status == TD_JOB_SUCCEEDED ? json_integer(td_sql_int(r, ROWS)) : json_null(),
                             "integrations", "metadata", sent(request, "metadata"), "hyperparameters",
                             parsed(r, HYPERPARAMETERS), "method", parsed(r, METHOD), "tensord",
                             sent(request, "tensord"), "progress", "step", (json_int_t)td_sql_int(r, STEP),
                             "total_steps", (json_int_t)td_sql_int(r, TOTAL_STEPS), "epoch",
                             (json_int_t)td_sql_int(r, EPOCH));
    if (o != NULL && more != NULL) {
        (void)json_object_update(o, more);
    }
    json_decref(more);
    json_decref(request);
    return o;
}

static enum td_code append_job(void *list, const struct td_sql_row *r, struct td_err *err)
{
    return json_array_append_new(list, job_json(r)) == 0
               ? TD_OK
               : td_no_memory(err, sizeof(json_t), "a list of jobs");
}

static enum td_code no_job(const char *id, const char *param, struct td_fault *f)
{
    const enum td_code rc =
        td_fail(&f->err, TD_NOT_FOUND, "Could not find fine tune: there is no job '%.80s'", id);
    return td_fault_of(f, rc, "not_found", param);
}

enum td_code td_jobs_seq(struct td_jobs *j, const char *id, int64_t *seq, struct td_fault *f)
{
    TD_TRY(td_jobs_ready(j, f));
    const enum td_code rc = td_store_ask_int(j->store, "SELECT seq FROM jobs WHERE id = ?",
                                             TD_SQL(TD_SQL_TEXT(id)), -1, seq, &f->err);
    return rc ? td_jobs_trouble(f, rc) : *seq < 0 ? no_job(id, "id", f) : TD_OK;
}

enum td_code td_jobs_get(struct td_jobs *j, const char *id, json_t **out, struct td_fault *f)
{
    TD_TRY(td_jobs_ready(j, f));
    json_t *list = json_array();
    const enum td_code rc = td_store_ask(j->store, "SELECT " COLUMNS " FROM jobs WHERE id = ?",
                                         TD_SQL(TD_SQL_TEXT(id)), append_job, list, &f->err);
    *out = rc ? NULL : json_incref(json_array_get(list, 0));
    json_decref(list);
    return rc ? td_jobs_trouble(f, rc) : *out != NULL ? TD_OK : no_job(id, "id", f);
}

/* A page of rows; the statement has three parameters: whose (0: anybody's), before which, how many. */
struct paging {
    const char *sql;
    int64_t job, after, limit;
    td_sql_row_fn *append;
};

static enum td_code make_page(struct td_jobs *j, const struct paging *p, json_t **out, struct td_fault *f)
{
    json_t *rows = json_array();
    const struct td_sql_args args =
        TD_SQL(TD_SQL_INT(p->job), TD_SQL_INT(p->after), TD_SQL_INT(p->limit + 1));
    const enum td_code rc = td_store_ask(j->store, p->sql, args, p->append, rows, &f->err);
    if (rc) {
        json_decref(rows);
        return td_jobs_trouble(f, rc);
    }
    *out = td_jobs_page(rows, p->limit);
    return TD_OK;
}

enum td_code td_jobs_list(struct td_jobs *j, const struct td_page *p, json_t **out, struct td_fault *f)
{
    struct paging page = {.sql = "SELECT " COLUMNS
                                 " FROM jobs WHERE seq >= ? AND seq < ? ORDER BY seq DESC LIMIT ?",
                          .after = INT64_MAX,
                          .append = append_job};
    TD_TRY(td_jobs_ready(j, f));
    TD_TRY(td_jobs_limit(p, JOBS_A_PAGE, &page.limit, f));
    if (p->after != NULL && td_jobs_seq(j, p->after, &page.after, f)) {
        return f->err.code != TD_NOT_FOUND ? f->err.code
                                           : TD_FAULT((*f = (struct td_fault){0}, f), "invalid_value",
                                                      "after", "after: there is no job '%.80s'", p->after);
    }
    return make_page(j, &page, out, f);
}

static enum td_code take_model(void *name, const struct td_sql_row *r, struct td_err *err)
{
    (void)err;
    (void)snprintf(name, 128, "%s", td_sql_text(r, 0));
    return TD_OK;
}

enum td_code td_jobs_model(struct td_jobs *j, const char *id, char name[128], struct td_fault *f)
{
    TD_TRY(td_jobs_ready(j, f));
    name[0] = '\0';
    const enum td_code rc = td_store_ask(j->store, "SELECT model FROM jobs WHERE id = ?",
                                         TD_SQL(TD_SQL_TEXT(id)), take_model, name, &f->err);
    return rc ? td_jobs_trouble(f, rc) : name[0] == '\0' ? no_job(id, "id", f) : TD_OK;
}

/* ------------------------------------------------------------------ events */

#define EVENT_COLUMNS "e.seq, e.created_at, e.level, e.type, e.message, e.data, j.id"

enum { OWN_LETTERS = 12 }; /* of the job's id that go into its events' */

static const char *letters_of(const char *job_id)
{
    const char *dash = strchr(job_id, '-');
    return dash != NULL ? dash + 1 : job_id;
}

static enum td_code append_event(void *list, const struct td_sql_row *r, struct td_err *err)
{
    json_t *id =
        json_sprintf("ftevent-%.*s%012" PRId64, OWN_LETTERS, letters_of(td_sql_text(r, 6)), td_sql_int(r, 0));
    json_t *o = json_pack("{s:o, s:s, s:I, s:s, s:s, s:s, s:o}", "id", id, "object", "fine_tuning.job.event",
                          "created_at", (json_int_t)td_sql_int(r, 1), "level", td_sql_text(r, 2), "type",
                          td_sql_text(r, 3), "message", td_sql_text(r, 4), "data", parsed(r, 5));
    return json_array_append_new(list, o) == 0 ? TD_OK
                                               : td_no_memory(err, sizeof(json_t), "a list of events");
}

enum td_code td_jobs_event_seq(const char *job_id, const char *id, int64_t *seq, struct td_fault *f)
{
    char want[TD_JOBS_ID];
    const int n = snprintf(want, sizeof want, "ftevent-%.*s", OWN_LETTERS, letters_of(job_id));
    char *end = NULL;
    if (strncmp(id, want, (size_t)n) == 0 && id[n] >= '0' && id[n] <= '9') {
        *seq = strtoll(id + n, &end, 10);
    }
    return end != NULL && *end == '\0'
               ? TD_OK
               : TD_FAULT(f, "invalid_value", "after", "after: job %s has no event '%.80s'", job_id, id);
}

enum td_code td_jobs_events(struct td_jobs *j, const char *id, const struct td_page *p, json_t **list,
                            struct td_fault *f)
{
    struct paging page = {.sql = "SELECT " EVENT_COLUMNS " FROM events e JOIN jobs j ON j.seq = e.job"
                                 " WHERE e.job = ? AND e.seq < ? ORDER BY e.seq DESC LIMIT ?",
                          .after = INT64_MAX,
                          .append = append_event};
    TD_TRY(td_jobs_seq(j, id, &page.job, f));
    TD_TRY(td_jobs_limit(p, EVENTS_A_PAGE, &page.limit, f));
    if (p->after != NULL) {
        TD_TRY(td_jobs_event_seq(id, p->after, &page.after, f));
    }
    return make_page(j, &page, list, f);
}

enum td_code td_jobs_events_after(struct td_jobs *j, int64_t job, int64_t seq, int most, json_t *events,
                                  struct td_fault *f)
{
    const enum td_code rc = td_store_ask(j->store,
                                         "SELECT " EVENT_COLUMNS " FROM events e JOIN jobs j ON j.seq = e.job"
                                         " WHERE e.job = ? AND e.seq > ? ORDER BY e.seq LIMIT ?",
                                         TD_SQL(TD_SQL_INT(job), TD_SQL_INT(seq), TD_SQL_INT(most)),
                                         append_event, events, &f->err);
    return td_jobs_trouble(f, rc);
}

/* ------------------------------------------------------------------ checkpoints */

/* seq, created_at, step, metrics, job id, model, result_version, result_step, status */
static enum td_code append_checkpoint(void *list, const struct td_sql_row *r, struct td_err *err)
{
    const char *job = td_sql_text(r, 4);
    const bool result = td_sql_int(r, 8) == TD_JOB_SUCCEEDED && !td_sql_null(r, 6) && !td_sql_null(r, 7) &&
                        td_sql_int(r, 7) == td_sql_int(r, 2);
    json_t *o = json_pack(
        "{s:o, s:s, s:I, s:s, s:o, s:I, s:o}", "id",
        json_sprintf("ftckpt-%.*s%012" PRId64, OWN_LETTERS, letters_of(job), td_sql_int(r, 0)), "object",
        "fine_tuning.job.checkpoint", "created_at", (json_int_t)td_sql_int(r, 1), "fine_tuning_job_id", job,
        "fine_tuned_model_checkpoint",
        result ? json_sprintf("%s/versions/%" PRId64, td_sql_text(r, 5), td_sql_int(r, 6))
               : json_sprintf("%s:step-%" PRId64, job, td_sql_int(r, 2)), /* a text, but no model's name */
        "step_number", (json_int_t)td_sql_int(r, 2), "metrics", parsed(r, 3));
    return json_array_append_new(list, o) == 0 ? TD_OK
                                               : td_no_memory(err, sizeof(json_t), "a list of checkpoints");
}

enum td_code td_jobs_checkpoints(struct td_jobs *j, const char *id, const struct td_page *p, json_t **list,
                                 struct td_fault *f)
{
    struct paging page = {.sql = "SELECT c.seq, c.created_at, c.step, c.metrics, j.id, j.model,"
                                 " j.result_version, j.result_step, j.status"
                                 " FROM checkpoints c JOIN jobs j ON j.seq = c.job"
                                 " WHERE c.job = ? AND c.seq < ? ORDER BY c.seq DESC LIMIT ?",
                          .after = INT64_MAX,
                          .append = append_checkpoint};
    TD_TRY(td_jobs_seq(j, id, &page.job, f));
    TD_TRY(td_jobs_limit(p, CHECKPOINTS_A_PAGE, &page.limit, f));
    if (p->after != NULL) {
        const char *number = strlen(p->after) > 12 ? p->after + strlen(p->after) - 12 : "";
        char *end = NULL;
        page.after = strtoll(number, &end, 10);
        if (number[0] == '\0' || *end != '\0') {
            return TD_FAULT(f, "invalid_value", "after", "after: job %s has no checkpoint '%.80s'", id,
                            p->after);
        }
    }
    return make_page(j, &page, list, f);
}
