/* server/http/rest_models.c - which models and versions are there, what their functions have compiled,
 * reloading, and the devices that they run on.
 *
 * The list walks a copy of the registry's models, and of each model's states; a version that serves is looked
 * up once more, and counted while it is described, so that what is being unloaded is told as it was, or
 * without its details. A version's bytes are its weights, and the plans of its signatures. Reloading looks at
 * the folders now, on the calling thread, and answers with the states then.
 *
 * Does not: tell these things in the protocol's words of /v2/ (server/http/rest_repository.c,
 * server/http/rest_v2.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/run/variable.h"
#include "core/base/mem.h"
#include "server/request/device_restart.h"
#include "server/models/devices_json.h"
#include "server/models/functions.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"

static json_t *version_json(const struct td_version_status *v)
{
    return json_pack("{s:o, s:s, s:{s:s, s:o}}", "version", td_rest_json_int64(v->version), "state",
                     td_registry_state_name(v->state), "status", "error_code", td_code_name(v->error.code),
                     "error_message", td_rest_json_text(v->error.msg));
}

/* ------------------------------------------------------------ one model's status, as TF Serving tells it */

enum td_code td_rest_status(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_version_status *rows = NULL;
    int n = 0;
    TD_FAIL_IF(x->r.has_version && x->r.version <= 0, err, NOT_FOUND,
               "Could not find version %lld of model %s", (long long)x->r.version, x->r.model);
    TD_TRY(td_registry_status(rest->registry, x->r.model, x->r.version, &rows, &n, err));
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        (void)json_array_append_new(list, version_json(&rows[i]));
    }
    td_free(rows);
    return td_rest_put_json(&x->out, json_pack("{s:o}", "model_version_status", list), err);
}

/* ------------------------------------------------------------------ all models */

static void add_plan_bytes(void *ctx, const struct td_concrete_stat *c)
{
    *(size_t *)ctx += c->bytes;
}

static json_t *labels_json(const struct td_model_config *c, int64_t version)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n_labels; i++) {
        if (c->labels[i].version == version) {
            (void)json_array_append_new(list, td_rest_json_text(c->labels[i].name));
        }
    }
    return list;
}

/* What only a loaded version can tell. */
static void add_loaded(json_t *v, struct td_servable *s, const struct td_version_status *row)
{
    const struct td_saved_model *m = td_servable_model(s);
    json_t *signatures = json_array();
    size_t plans = 0;
    for (int i = 0; i < m->n_signatures; i++) {
        struct td_callable *f = td_servable_callable(s, &m->signatures[i]);
        if (strncmp(m->signatures[i].key, "__", 2) != 0) {
            (void)json_array_append_new(signatures, td_rest_json_text(m->signatures[i].key));
        }
        if (f != NULL) {
            td_callable_each(f, add_plan_bytes, &plans);
        }
    }
    const size_t weights = td_variable_total_bytes(td_servable_engine(s));
    const struct td_replicas *replicas = td_servable_replicas(s);
    json_t *devices = json_pack("[s]", "cpu");
    for (int i = 0; i < replicas->n; i++) {
        if (replicas->at[i].device != NULL) {
            (void)json_array_append_new(devices, json_string(replicas->at[i].device->name));
        }
    }
    struct tm tm;
    const time_t at = (time_t)row->loaded_at;
    char when[40];
    gmtime_r(&at, &tm);
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    (void)json_object_set_new(v, "signatures", signatures);
    (void)json_object_set_new(v, "devices", devices);
    (void)json_object_set_new(
        v, "bytes", json_pack("{s:I, s:I}", "weights", (json_int_t)weights, "plans", (json_int_t)plans));
    (void)json_object_set_new(v, "load_ms", json_real(row->load_ms));
    (void)json_object_set_new(v, "loaded_at", json_string(when));
}

/* What is known of one that its next request loads. */
static void add_cold(json_t *v, struct td_rest *rest, const char *model, int64_t version)
{
    json_t *signatures = json_array();
    char *names = td_registry_signatures(rest->registry, model, version);
    for (const char *s = names; s != NULL && *s != '\0'; s += strlen(s) + 1) {
        if (strncmp(s, "__", 2) != 0) {
            (void)json_array_append_new(signatures, td_rest_json_text(s));
        }
    }
    td_free(names);
    (void)json_object_set_new(v, "signatures", signatures);
    (void)json_object_set_new(v, "cold", json_true());
}

static json_t *model_json(struct td_rest *rest, const struct td_model_config *c, int64_t *created)
{
    struct td_version_status *rows = NULL;
    struct td_err ignored = {0};
    int n = 0;
    json_t *versions = json_array();
    *created = 0;
    if (td_registry_status(rest->registry, c->name, 0, &rows, &n, &ignored)) {
        n = 0;
    }
    for (int i = 0; i < n; i++) {
        json_t *v = version_json(&rows[i]);
        struct td_servable *s = NULL;
        struct td_err gone = {0};
        (void)json_object_set_new(v, "labels", labels_json(c, rows[i].version));
        if (rows[i].cold) {
            add_cold(v, rest, c->name, rows[i].version);
        } else if (rows[i].state == TD_STATE_AVAILABLE && rows[i].version > 0 &&
                   td_registry_find(rest->registry, c->name, rows[i].version, NULL, NULL, &s, &gone) ==
                       TD_OK) {
            add_loaded(v, s, &rows[i]);
            td_servable_unref(s);
            *created = *created == 0 ? rows[i].loaded_at : *created;
        }
        (void)json_array_append_new(versions, v);
    }
    td_free(rows);
    return json_pack("{s:o, s:o, s:s, s:o}", "name", td_rest_json_text(c->name), "base_path",
                     td_rest_json_text(c->base_path), "platform", "tensorflow", "versions", versions);
}

enum td_code td_rest_models(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_model_config *configs = NULL;
    int n = 0;
    TD_TRY(td_registry_models(rest->registry, &configs, &n, err));
    json_t *data = json_array(), *models = json_array();
    for (int i = 0; i < n; i++) {
        int64_t created = 0;
        if (!td_rest_sees(rest, x, configs[i].name)) {
            continue;
        }
        (void)json_array_append_new(models, model_json(rest, &configs[i], &created));
        (void)json_array_append_new(data, json_pack("{s:o, s:s, s:I, s:s}", "id",
                                                    td_rest_json_text(configs[i].name), "object", "model",
                                                    "created", (json_int_t)created, "owned_by", "tensord"));
    }
    td_model_configs_free(configs, n);
    return td_rest_put_json(
        &x->out, json_pack("{s:s, s:o, s:o}", "object", "list", "data", data, "models", models), err);
}

enum td_code td_rest_reload(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    TD_TRY(td_registry_rescan(rest->registry, x->r.model, err));
    return td_rest_status(rest, x, err);
}

enum td_code td_rest_functions(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    TD_TRY(td_request_find(&x->r, rest->registry, err));
    return td_rest_put_json(&x->out, td_functions_json(x->r.servable), err);
}

enum td_code td_rest_devices(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return td_rest_put_json(&x->out, td_devices_json(rest->devices), err);
}

/* {"device": NAME} */
enum td_code td_rest_restart_device(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    json_t *asked = NULL, *done = NULL;
    TD_TRY(td_rest_get_json(x->body, x->body_len, &asked, err));
    const char *name = json_string_value(json_object_get(asked, "device"));
    const enum td_code rc =
        name == NULL ? td_fail(err, TD_INVALID_ARGUMENT, "want {\"device\": \"/device:GPU:0\"}")
                     : td_device_restart(rest->devices, rest->registry, rest->shm, name, &done, err);
    json_decref(asked);
    return rc ? rc : td_rest_put_json(&x->out, done, err);
}
