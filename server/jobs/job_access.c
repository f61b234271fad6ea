/* server/jobs/job_access.c - jobs by the models that a token is for.
 *
 * A list is put together of as many pages of the store's as it takes to find one job more than was asked for:
 * that one tells that there are more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/jobs/job_access.h"

#include <string.h>

#define STANDARD_ROWS 20
#define MODEL_CHARS 128

static enum td_code judge_name(const struct td_job_judge *judge, const char *model, struct td_fault *f)
{
    return judge->admit(judge->ctx, model, &f->err);
}

enum td_code td_job_access(struct td_jobs *j, const char *id, const struct td_job_judge *judge,
                           struct td_fault *f)
{
    char model[MODEL_CHARS];
    if (judge->admit == NULL) {
        return TD_OK;
    }
    TD_TRY(td_jobs_model(j, id, model, f));
    return judge_name(judge, model, f);
}

/* Of "NAME/versions/V" the name. */
static void name_of(const json_t *model, char name[MODEL_CHARS])
{
    const char *text = json_string_value(model);
    const size_t n = text != NULL ? strcspn(text, "/") : 0, kept = n < MODEL_CHARS ? n : MODEL_CHARS - 1;
    memcpy(name, text != NULL ? text : "", kept);
    name[kept] = '\0';
}

enum td_code td_job_access_body(struct td_jobs *j, const json_t *body, const struct td_job_judge *judge,
                                struct td_fault *f)
{
    char name[MODEL_CHARS];
    struct td_fault none = {0};
    const char *base = json_string_value(json_object_get(json_object_get(body, "tensord"), "base"));
    if (judge->admit == NULL) {
        return TD_OK;
    }
    name_of(json_object_get(body, "model"), name);
    if (name[0] != '\0') {
        TD_TRY(judge_name(judge, name, f));
    }
    if (base != NULL && td_jobs_model(j, base, name, &none) == TD_OK) {
        TD_TRY(judge_name(judge, name, f));
    }
    return TD_OK;
}

/* Appends the jobs of a page that may be seen, up to most in all. */
static void add_seen(const struct td_job_judge *judge, const json_t *page, size_t most, json_t *data)
{
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(page, "data"), i, job)
    {
        char name[MODEL_CHARS];
        struct td_fault denied = {0};
        name_of(json_object_get(job, "model"), name);
        if (json_array_size(data) < most && judge_name(judge, name, &denied) == TD_OK) {
            (void)json_array_append(data, job);
        }
    }
}

static json_t *id_at(const json_t *data, size_t i)
{
    json_t *id = json_object_get(json_array_get(data, i), "id");
    return id != NULL ? json_incref(id) : json_null();
}

/* Takes data, which has one job more than limit when there are more. */
static json_t *make_list(json_t *data, size_t limit)
{
    const bool more = json_array_size(data) > limit;
    if (more) {
        (void)json_array_remove(data, limit);
    }
    json_t *first = id_at(data, 0), *last = id_at(data, json_array_size(data) - 1);
    return json_pack("{s:s, s:o, s:o, s:o, s:b}", "object", "list", "data", data, "first_id", first,
                     "last_id", last, "has_more", more);
}

enum td_code td_job_access_list(struct td_jobs *j, const struct td_page *page,
                                const struct td_job_judge *judge, json_t **out, struct td_fault *f)
{
    if (judge->admit == NULL) {
        return td_jobs_list(j, page, out, f);
    }
    const size_t limit = page->limit > 0 ? (size_t)page->limit : STANDARD_ROWS;
    struct td_page from = *page;
    json_t *data = json_array(), *rows = NULL;
    enum td_code rc = TD_OK;
    for (bool more = true; more && rc == TD_OK && json_array_size(data) <= limit;) {
        json_t *next = NULL;
        rc = td_jobs_list(j, &from, &next, f);
        json_decref(rows); /* from.after was of these */
        rows = next;
        add_seen(judge, rows, limit + 1, data);
        more = json_is_true(json_object_get(rows, "has_more"));
        from.after = json_string_value(json_object_get(rows, "last_id"));
    }
    json_decref(rows);
    if (rc) {
        json_decref(data);
        return rc;
    }
    *out = make_list(data, limit);
    return TD_OK;
}
