/* server/http/rest_settings.c - trace and log settings over HTTP.
 *
 * A body is read whole, its members are checked and listed, and the list is handed on in one call, so that
 * settings change together or not at all. The answer to a change is what holds then. Texts of the body are
 * borrowed until that call is over.
 *
 * Does not: keep settings (server/base/trace.c, server/base/log_settings.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/request/infer_request.h"
#include "server/base/log_settings.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"
#include "server/base/trace.h"

/* ------------------------------------------------------------------ trace */

static enum td_code add_setting(void *doc, const char *key, const char *const *values, int n,
                                struct td_err *err)
{
    const bool list = strcmp(key, "trace_level") == 0;
    json_t *v = list ? json_array() : td_rest_json_text(values[0]);
    (void)err;
    for (int i = 0; list && i < n; i++) {
        (void)json_array_append_new(v, json_string(values[i]));
    }
    (void)json_object_set_new(doc, key, v);
    return TD_OK;
}

/* A value is a text, a list of texts, or null. */
static enum td_code read_change(const char *key, const json_t *v, struct td_arena *a,
                                struct td_trace_change *out, struct td_err *err)
{
    const size_t n = json_is_array(v) ? json_array_size(v) : json_is_null(v) ? 0 : 1;
    const char **texts = td_arena_alloc(a, n + 1, sizeof *texts);
    if (texts == NULL) {
        return td_no_memory(err, n * sizeof *texts, "trace settings");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        TD_FAIL_IF(!json_is_string(one), err, INVALID_ARGUMENT,
                   "trace setting '%.100s' must be a JSON string, a list of them, or null", key);
        texts[i] = json_string_value(one);
    }
    *out = (struct td_trace_change){key, texts, (int)n};
    return TD_OK;
}

static enum td_code change(const struct td_exchange *x, json_t *doc, struct td_err *err)
{
    const char *key;
    json_t *v;
    int n = 0;
    struct td_trace_change *list = td_arena_alloc(x->r.arena, json_object_size(doc) + 1, sizeof *list);
    if (list == NULL) {
        return td_no_memory(err, json_object_size(doc) * sizeof *list, "trace settings");
    }
    json_object_foreach(doc, key, v)
    {
        TD_TRY(read_change(key, v, x->r.arena, &list[n++], err));
    }
    return td_trace_set(x->r.model, list, n, err);
}

/* A model that is named must be known. */
static enum td_code check_model(struct td_rest *rest, const struct td_exchange *x, struct td_err *err)
{
    struct td_version_status *rows = NULL;
    struct td_err unknown = {0};
    int n = 0;
    if (*x->r.model == '\0' ||
        td_registry_status(rest->registry, x->r.model, 0, &rows, &n, &unknown) == TD_OK) {
        td_free(rows);
        return TD_OK;
    }
    TD_FAIL(err, NOT_FOUND, "Request for unknown model: '%s' is not found", x->r.model);
}

enum td_code td_rest_trace(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    TD_TRY(check_model(rest, x, err));
    json_t *doc = json_object();
    const enum td_code rc = td_trace_each(x->r.model, add_setting, doc, err);
    if (rc) {
        json_decref(doc);
        return rc;
    }
    return td_rest_put_json(&x->out, doc, err);
}

enum td_code td_rest_set_trace(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    json_t *doc = NULL;
    TD_TRY(check_model(rest, x, err));
    TD_TRY(td_rest_get_json(x->body, x->body_len, &doc, err));
    const enum td_code rc = change(x, doc, err);
    json_decref(doc);
    return rc ? rc : td_rest_trace(rest, x, err);
}

/* ------------------------------------------------------------------ log */

enum td_code td_rest_logging(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_log_setting list[TD_LOG_N_SETTINGS];
    (void)rest;
    td_log_settings_get(list);
    json_t *doc = json_object();
    for (int i = 0; i < TD_LOG_N_SETTINGS; i++) {
        json_t *v = list[i].text != NULL ? json_string(list[i].text)
                    : list[i].is_flag    ? json_boolean(list[i].flag)
                                         : json_integer(list[i].number);
        (void)json_object_set_new(doc, list[i].key, v);
    }
    return td_rest_put_json(&x->out, doc, err);
}

static enum td_code read_setting(const char *key, const json_t *v, struct td_log_setting *out,
                                 struct td_err *err)
{
    *out = (struct td_log_setting){
        .key = key, .text = json_string_value(v), .is_flag = json_is_boolean(v), .flag = json_is_true(v)};
    const bool number =
        json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= UINT32_MAX;
    out->number = number ? (uint32_t)json_integer_value(v) : 0;
    TD_FAIL_IF(out->text == NULL && !out->is_flag && !number, err, INVALID_ARGUMENT,
               "log setting '%.100s' must be a flag, a text, or a whole number, 0 or more", key);
    return TD_OK;
}

static enum td_code set_log(struct td_arena *a, json_t *doc, struct td_err *err)
{
    const char *key;
    json_t *v;
    int n = 0;
    struct td_log_setting *list = td_arena_alloc(a, json_object_size(doc) + 1, sizeof *list);
    if (list == NULL) {
        return td_no_memory(err, json_object_size(doc) * sizeof *list, "log settings");
    }
    json_object_foreach(doc, key, v)
    {
        TD_TRY(read_setting(key, v, &list[n++], err));
    }
    return td_log_settings_set(list, n, err);
}

enum td_code td_rest_set_logging(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    json_t *doc = NULL;
    TD_TRY(td_rest_get_json(x->body, x->body_len, &doc, err));
    const enum td_code rc = set_log(x->r.arena, doc, err);
    json_decref(doc);
    return rc ? rc : td_rest_logging(rest, x, err);
}
