/* server/http/rest_repository.c - the Open Inference Protocol's view of the model repository: index, load,
 * unload, and statistics.
 *
 * Rows come from server/request/repository.c, and are put into jansson values here. The parameters of a load
 * are walked twice in the body, because the configuration, which files are of no use without, may stand
 * behind them: first for the configuration, then for the files, each of which is unescaped, decoded from
 * base64 in place, and given to the upload before the next is read.
 *
 * Does not: load (server/models/registry_load.c), write files (server/models/upload.c). gRPC's side is
 * server/grpc/grpc_repository.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/variable.h"
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_tensor.h"
#include "server/request/repository.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"

/* ------------------------------------------------------------------ index */

/* The rows of an answer. */
struct listing {
    struct td_rest *rest;
    const struct td_exchange *x;
    json_t *rows;
};

static enum td_code add_row(void *listing, const struct td_repository_row *row, struct td_err *err)
{
    struct listing *l = listing;
    if (!td_rest_sees(l->rest, l->x, row->name)) {
        return TD_OK;
    }
    json_t *o = json_pack("{s:o, s:s, s:o}", "name", td_rest_json_text(row->name), "state", row->state,
                          "reason", td_rest_json_text(row->reason));
    (void)err;
    if (row->version > 0) {
        (void)json_object_set_new(o, "version", td_rest_json_int64(row->version));
    }
    (void)json_array_append_new(l->rows, o);
    return TD_OK;
}

/* The value of a key of the body's object; false when there is no body or no such key. */
static enum td_code body_find(const struct td_exchange *x, const char *key, struct td_json *value,
                              bool *found, struct td_err *err)
{
    struct td_json_body body;
    *found = false;
    if (x->body_len > 0) {
        TD_TRY(td_json_body(x->body, x->body_len, x->r.arena, &body, err));
        *found = td_json_body_find(&body, key, value);
    }
    return TD_OK;
}

enum td_code td_rest_v2_index(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_json value;
    bool found = false;
    TD_TRY(body_find(x, "ready", &value, &found, err));
    const char ready = found ? td_json_literal(&value) : 'f';
    TD_FAIL_IF(ready != 't' && ready != 'f', err, INVALID_ARGUMENT, "'ready' must be true or false");
    struct listing l = {rest, x, json_array()};
    if (td_repository_index(rest->registry, ready == 't', add_row, &l, err)) {
        json_decref(l.rows);
        return err->code;
    }
    return td_rest_put_json(&x->out, l.rows, err);
}

/* ------------------------------------------------------------------ load and unload */

/* A string member: what is between its quotes, in a block of its own (td_free). */
static enum td_code member_text(struct td_json *j, const char *key, char **out, size_t *n, struct td_err *err)
{
    struct td_json_str s;
    TD_FAIL_IF(td_json_peek(j) != '"', err, INVALID_ARGUMENT,
               "load parameter '%.100s': attempt to access JSON non-string as string", key);
    TD_TRY(td_json_string(j, &s, err));
    *out = td_calloc(s.len + 1, 1);
    if (*out == NULL) {
        return td_no_memory(err, s.len, "a load parameter");
    }
    const enum td_code rc = td_json_unescape(j, &s, *out, n, err);
    if (rc) {
        td_free(*out);
    }
    return rc;
}

/* What a walk over the parameters of a load fills: the configuration first, the files the second time, since
 * the one may stand behind the others. */
struct loading {
    const char *state_dir;
    struct td_upload *upload; /* NULL: no configuration yet */
    enum td_load_key wanted;
    bool files; /* there are some */
};

static enum td_code add_file(struct loading *l, const char *path, char *text, size_t n, struct td_err *err)
{
    size_t n_bytes = 0;
    TD_FAIL_IF(!td_json_base64(text, n, text, &n_bytes), err, INVALID_ARGUMENT,
               "file '%.200s': failed to decode base64", path);
    return td_upload_file(l->upload, l->state_dir, path, text, n_bytes, err);
}

static enum td_code read_parameter(struct loading *l, struct td_json *j, const char *key, struct td_err *err)
{
    enum td_load_key what;
    char *text = NULL;
    size_t n = 0;
    TD_TRY(td_repository_load_key(key, &what, err));
    l->files = l->files || what == TD_LOAD_FILE;
    if (what != l->wanted) {
        return td_json_skip(j, err);
    }
    TD_FAIL_IF(what == TD_LOAD_CONFIG && l->upload != NULL, err, INVALID_ARGUMENT,
               "load parameter 'config' is there twice");
    TD_TRY(member_text(j, key, &text, &n, err));
    const enum td_code rc = what == TD_LOAD_CONFIG ? td_upload_new(text, n, &l->upload, err)
                                                   : add_file(l, key + strlen("file:"), text, n, err);
    td_free(text);
    return rc;
}

static enum td_code read_parameters(struct loading *l, struct td_json j, struct td_arena *arena,
                                    enum td_load_key wanted, struct td_err *err)
{
    l->wanted = wanted;
    TD_FAIL_IF(!td_json_eat(&j, '{'), err, INVALID_ARGUMENT, "'parameters' must be an object");
    for (bool first = true, more;; first = false) {
        struct td_json_str s;
        const char *key;
        TD_TRY(td_json_member(&j, first, &s, &more, err));
        if (!more) {
            return TD_OK;
        }
        TD_TRY(td_json_text(&j, &s, arena, &key, err));
        TD_TRY(read_parameter(l, &j, key, err));
    }
}

/* What came with the request, new; NULL without parameters. */
static enum td_code read_upload(struct td_rest *rest, const struct td_exchange *x, struct td_upload **out,
                                struct td_err *err)
{
    struct td_json value;
    bool found = false;
    struct loading l = {.state_dir = td_registry_options(rest->registry)->servable.state_dir};
    TD_TRY(body_find(x, "parameters", &value, &found, err));
    if (!found) {
        return TD_OK;
    }
    enum td_code rc = read_parameters(&l, value, x->r.arena, TD_LOAD_CONFIG, err);
    rc = rc ? rc : td_repository_check_upload(l.upload, l.files, err);
    rc = rc || !l.files ? rc : read_parameters(&l, value, x->r.arena, TD_LOAD_FILE, err);
    if (rc) {
        td_upload_unref(l.upload);
        return td_err_wrap(err, "failed to load '%s'", x->r.model);
    }
    *out = l.upload;
    return TD_OK;
}

enum td_code td_rest_v2_load(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_upload *u = NULL;
    TD_TRY(read_upload(rest, x, &u, err));
    const enum td_code rc = td_repository_load(rest->registry, x->r.model, u, err);
    td_upload_unref(u);
    return rc;
}

/* Of the parameters only unload_dependents means something, a flag; nothing here depends on another model. */
static enum td_code check_unload(const struct td_exchange *x, struct td_err *err)
{
    struct td_json j;
    struct td_json_str key;
    bool found = false, more = true;
    TD_TRY(body_find(x, "parameters", &j, &found, err));
    TD_FAIL_IF(found && !td_json_eat(&j, '{'), err, INVALID_ARGUMENT, "'parameters' must be an object");
    for (bool first = true; found && more; first = false) {
        TD_TRY(td_json_member(&j, first, &key, &more, err));
        const bool dependents = more && td_json_str_is(&key, TD_UNLOAD_DEPENDENTS);
        const char flag = dependents ? td_json_literal(&j) : 't';
        TD_FAIL_IF(flag != 't' && flag != 'f', err, INVALID_ARGUMENT,
                   "unload parameter '" TD_UNLOAD_DEPENDENTS "' must be true or false");
        TD_TRY(more && !dependents ? td_json_skip(&j, err) : TD_OK);
    }
    return TD_OK;
}

enum td_code td_rest_v2_unload(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    if (check_unload(x, err)) {
        return td_err_wrap(err, "failed to unload '%s'", x->r.model);
    }
    return td_repository_unload(rest->registry, x->r.model, err);
}

/* Triton has the path, and answers it so: there is one repository. */
enum td_code td_rest_v2_repository(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    (void)rest;
    (void)x;
    TD_FAIL(err, UNIMPLEMENTED, "'repository_name' specification is not supported");
}

/* ------------------------------------------------------------------ statistics */

static json_t *duration(uint64_t count, uint64_t ns)
{
    return json_pack("{s:I, s:I}", "count", (json_int_t)count, "ns", (json_int_t)ns);
}

static json_t *batch_json(const struct td_stats_size *b)
{
    const uint64_t n = atomic_load(&b->n);
    return json_pack("{s:I, s:o, s:o, s:o}", "batch_size", (json_int_t)atomic_load(&b->size), "compute_input",
                     duration(n, atomic_load(&b->input_ns)), "compute_infer",
                     duration(n, atomic_load(&b->infer_ns)), "compute_output",
                     duration(n, atomic_load(&b->output_ns)));
}

static json_t *stats_json(const char *name, struct td_servable *s)
{
    const struct td_stats *c = td_servable_stats(s);
    const uint64_t ok = atomic_load(&c->ok);
    json_t *run = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "success", duration(ok, atomic_load(&c->ok_ns)), "fail",
        duration(atomic_load(&c->failed), atomic_load(&c->failed_ns)), "queue",
        duration(ok, atomic_load(&c->queue_ns)), "compute_input", duration(ok, atomic_load(&c->input_ns)),
        "compute_infer", duration(ok, atomic_load(&c->infer_ns)), "compute_output",
        duration(ok, atomic_load(&c->output_ns)), "cache_hit", duration(0, 0), "cache_miss", duration(0, 0));
    json_t *batches = json_array();
    for (int i = 0; i < TD_STATS_SIZES && atomic_load(&c->sizes[i].size) > 0; i++) {
        (void)json_array_append_new(batches, batch_json(&c->sizes[i]));
    }
    const size_t weights = td_variable_total_bytes(td_servable_engine(s));
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:o, s:{}, s:o, s:[{s:s, s:i, s:I}]}", "name", td_rest_json_text(name),
        "version", td_rest_json_int64(td_servable_version(s)), "last_inference",
        (json_int_t)atomic_load(&c->last_ms), "inference_count", (json_int_t)atomic_load(&c->inferences),
        "execution_count", (json_int_t)atomic_load(&c->executions), "inference_stats", run, "response_stats",
        "batch_stats", batches, "memory_usage", "type", "CPU", "id", 0, "byte_size", (json_int_t)weights);
}

static enum td_code add_stats(void *list, const char *name, struct td_servable *s, struct td_err *err)
{
    (void)err;
    (void)json_array_append_new(list, stats_json(name, s));
    return TD_OK;
}

enum td_code td_rest_v2_stats(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const struct td_infer_ref ref = {.name = x->r.model,
                                     .has_version = x->r.has_version,
                                     .version = x->r.version,
                                     .label = x->r.label,
                                     .signature = ""};
    json_t *list = json_array();
    if (td_repository_serving(rest->registry, &ref, add_stats, list, err)) {
        json_decref(list);
        return err->code;
    }
    return td_rest_put_json(&x->out, json_pack("{s:o}", "model_stats", list), err);
}
