/* server/rest_repository.c - the Open Inference Protocol's view of the model repository: index, load, unload,
 * and statistics.
 *
 * Loading is looking for versions now; a model that was unloaded stays so until it is loaded by name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/arena.h"
#include "core/mem.h"
#include "server/infer.h"
#include "server/json_tensor.h"
#include "server/rest.h"
#include "server/rest_json.h"

/* ------------------------------------------------------------------ index */

static const char *state_name(enum td_state s)
{
    switch (s) {
    case TD_STATE_AVAILABLE:
        return "READY";
    case TD_STATE_START:
    case TD_STATE_LOADING:
        return "LOADING";
    case TD_STATE_UNLOADING:
        return "UNLOADING";
    case TD_STATE_END:
    case TD_STATE_UNKNOWN:
        break;
    }
    return "UNAVAILABLE";
}

static const char *reason(const struct td_version_status *v)
{
    return v->error.code != TD_OK ? v->error.msg : v->state == TD_STATE_END ? "unloaded" : "";
}

/* Appends a row for each version of a model; one without a version for a model that has none. */
static void add_rows(struct td_rest *rest, const char *name, bool ready_only, json_t *list)
{
    struct td_version_status *rows = NULL;
    struct td_err why = {0};
    int n = 0;
    if (td_registry_status(rest->registry, name, 0, &rows, &n, &why)) {
        n = 0;
        if (!ready_only) {
            (void)json_array_append_new(list,
                                        json_pack("{s:o, s:s, s:o}", "name", td_rest_json_text(name), "state",
                                                  "UNAVAILABLE", "reason", td_rest_json_text(why.msg)));
        }
    }
    for (int i = 0; i < n; i++) {
        if (!ready_only || rows[i].state == TD_STATE_AVAILABLE) {
            (void)json_array_append_new(
                list, json_pack("{s:o, s:o, s:s, s:o}", "name", td_rest_json_text(name), "version",
                                td_rest_json_int64(rows[i].version), "state", state_name(rows[i].state),
                                "reason", td_rest_json_text(reason(&rows[i]))));
        }
    }
    td_free(rows);
}

/* The value of a key of the body's object; false when there is no body or no such key. */
static enum td_code body_find(const struct td_exchange *x, const struct td_route_args *args, const char *key,
                              struct td_json *value, bool *found, struct td_err *err)
{
    struct td_json_body body;
    *found = false;
    if (x->body_len > 0) {
        TD_TRY(td_json_body(x->body, x->body_len, args->arena, &body, err));
        *found = td_json_body_find(&body, key, value);
    }
    return TD_OK;
}

enum td_code td_rest_v2_index(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                              struct td_err *err)
{
    struct td_model_config *configs = NULL;
    struct td_json value;
    bool found = false;
    int n = 0;
    TD_TRY(body_find(x, args, "ready", &value, &found, err));
    const bool ready_only = found && td_json_literal(&value) == 't';
    TD_TRY(td_registry_models(rest->registry, &configs, &n, err));
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        add_rows(rest, configs[i].name, ready_only, list);
    }
    td_model_configs_free(configs, n);
    return td_rest_put_json(&x->out, list, err);
}

/* ------------------------------------------------------------------ load and unload */

enum td_code td_rest_v2_load(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                             struct td_err *err)
{
    struct td_json value;
    bool found = false;
    TD_TRY(body_find(x, args, "parameters", &value, &found, err));
    TD_FAIL_IF(found && td_json_eat(&value, '{') && !td_json_eat(&value, '}'), err, UNIMPLEMENTED,
               "failed to load '%s': configurations and files in the request are not supported", args->model);
    if (td_registry_rescan(rest->registry, args->model, err)) {
        return td_err_wrap(err, "failed to load '%s'", args->model);
    }
    return TD_OK;
}

enum td_code td_rest_v2_unload(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                               struct td_err *err)
{
    (void)x;
    if (td_registry_unload(rest->registry, args->model, err)) {
        return td_err_wrap(err, "failed to unload '%s'", args->model);
    }
    return TD_OK;
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

static json_t *stats_json(struct td_servable *s)
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
    const size_t weights = td_model_weight_bytes(td_servable_engine(s));
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:o, s:{}, s:o, s:[{s:s, s:i, s:I}]}", "name",
        td_rest_json_text(td_servable_name(s)), "version", td_rest_json_int64(td_servable_version(s)),
        "last_inference", (json_int_t)atomic_load(&c->last_ms), "inference_count",
        (json_int_t)atomic_load(&c->inferences), "execution_count", (json_int_t)atomic_load(&c->executions),
        "inference_stats", run, "response_stats", "batch_stats", batches, "memory_usage", "type", "CPU", "id",
        0, "byte_size", (json_int_t)weights);
}

/* All versions of a model that serve, lowest first. */
static void add_stats(struct td_rest *rest, const char *name, json_t *list)
{
    struct td_version_status *rows = NULL;
    struct td_err ignored = {0};
    int n = 0;
    if (td_registry_status(rest->registry, name, 0, &rows, &n, &ignored)) {
        n = 0;
    }
    for (int i = n - 1; i >= 0; i--) {
        struct td_servable *s = NULL;
        struct td_err gone = {0};
        if (rows[i].state == TD_STATE_AVAILABLE && rows[i].version > 0 &&
            td_registry_find(rest->registry, name, rows[i].version, NULL, &s, &gone) == TD_OK) {
            (void)json_array_append_new(list, stats_json(s));
            td_servable_unref(s);
        }
    }
    td_free(rows);
}

static enum td_code add_all_stats(struct td_rest *rest, json_t *list, struct td_err *err)
{
    struct td_model_config *configs = NULL;
    int n = 0;
    TD_TRY(td_registry_models(rest->registry, &configs, &n, err));
    for (int i = 0; i < n; i++) {
        add_stats(rest, configs[i].name, list);
    }
    td_model_configs_free(configs, n);
    return TD_OK;
}

/* A model that is named must serve; of one version, or of all that serve. */
static enum td_code add_named_stats(struct td_rest *rest, const struct td_route_args *args, json_t *list,
                                    struct td_err *err)
{
    struct td_servable *s = NULL;
    const char *signature;
    const struct td_infer_ref ref = {.name = args->model,
                                     .has_version = args->has_version,
                                     .version = args->version,
                                     .label = args->label,
                                     .signature = ""};
    TD_TRY(td_infer_find(rest->registry, &ref, &s, &signature, err));
    if (args->has_version || args->label != NULL) {
        (void)json_array_append_new(list, stats_json(s));
    } else {
        add_stats(rest, td_servable_name(s), list);
    }
    td_servable_unref(s);
    return TD_OK;
}

enum td_code td_rest_v2_stats(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                              struct td_err *err)
{
    json_t *list = json_array();
    const enum td_code rc =
        *args->model != '\0' ? add_named_stats(rest, args, list, err) : add_all_stats(rest, list, err);
    if (rc) {
        json_decref(list);
        return rc;
    }
    return td_rest_put_json(&x->out, json_pack("{s:o}", "model_stats", list), err);
}
