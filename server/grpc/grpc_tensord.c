/* server/grpc/grpc_tensord.c - tensord.v1.Models: every model with its versions, and looking for new versions
 * now.
 *
 * The list is written to the reply model by model from copies of the registry's rows; a version that serves
 * is looked up once more for what only a loaded one knows, and is left without it when it has gone meanwhile.
 * Reloading waits for the look at the folders, on the caller's thread.
 *
 * Does not: tell what functions have compiled (server/grpc/grpc_debug.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/variable.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "server/grpc/grpc_rpc.h"

td_rpc_fn td_rpc_models_list, td_rpc_models_reload;

#define PLATFORM "tensorflow"
#define MAX_NAME 4096

static enum td_code put_double(struct td_sink *s, uint32_t field, double v, struct td_err *err)
{
    TD_TRY(td_put_varint(s, (uint64_t)field << 3 | TD_WIRE_FIXED64, err));
    return td_sink_put(s, &v, sizeof v, err);
}

/* What is known of one that its next request loads. */
static enum td_code write_cold(struct td_rpc *r, const char *model, int64_t version, struct td_err *err)
{
    char *names = td_registry_signatures(r->registry, model, version);
    enum td_code rc = TD_OK;
    for (const char *s = names; s != NULL && *s != '\0' && rc == TD_OK; s += strlen(s) + 1) {
        rc = td_put_text(&r->reply, 6, s, err);
    }
    td_free(names);
    return rc;
}

/* What only a loaded version knows: signatures, weights. */
static enum td_code write_loaded(struct td_rpc *r, const char *model, int64_t version, struct td_err *err)
{
    struct td_servable *s;
    struct td_err ignored = {0};
    if (td_registry_find(r->registry, model, version, NULL, NULL, &s, &ignored)) {
        return TD_OK; /* withdrawn a moment ago */
    }
    const struct td_saved_model *m = td_servable_model(s);
    enum td_code rc = TD_OK;
    for (int i = 0; i < m->n_signatures && rc == TD_OK; i++) {
        rc = td_put_text(&r->reply, 6, m->signatures[i].key, err);
    }
    const struct td_replicas *replicas = td_servable_replicas(s);
    rc = rc ? rc : td_put_text(&r->reply, 7, "cpu", err);
    for (int i = 0; i < replicas->n && rc == TD_OK; i++) {
        const struct td_device *device = replicas->at[i].device;
        rc = device == NULL ? TD_OK : td_put_text(&r->reply, 7, device->name, err);
    }
    const size_t bytes = td_variable_total_bytes(td_servable_engine(s));
    rc = rc || bytes == 0 ? rc : td_put_int(&r->reply, 8, (int64_t)bytes, err);
    td_servable_unref(s);
    return rc;
}

static enum td_code write_version(struct td_rpc *r, const struct td_model_config *m,
                                  const struct td_version_status *row, struct td_err *err)
{
    struct td_sink *s = &r->reply;
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_int(s, 1, row->version, err));
    TD_TRY(td_put_text(s, 2, td_registry_state_name(row->state), err));
    TD_TRY(td_put_text(s, 3, td_code_name(row->error.code), err));
    TD_TRY(td_put_text(s, 4, row->error.msg, err));
    for (int i = 0; i < m->n_labels; i++) {
        if (m->labels[i].version == row->version) {
            TD_TRY(td_put_text(s, 5, m->labels[i].name, err));
        }
    }
    if (row->state == TD_STATE_AVAILABLE) {
        TD_TRY((row->cold ? write_cold : write_loaded)(r, m->name, row->version, err));
    }
    TD_TRY(put_double(s, 9, row->load_ms, err));
    TD_TRY(td_put_int(s, 10, row->loaded_at, err));
    return td_put_end(s, 4, at, err);
}

static enum td_code write_model(struct td_rpc *r, const struct td_model_config *m, struct td_err *err)
{
    struct td_sink *s = &r->reply;
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, m->name, err));
    TD_TRY(td_put_text(s, 2, m->base_path, err));
    TD_TRY(td_put_text(s, 3, PLATFORM, err));
    struct td_version_status *rows = NULL;
    struct td_err none = {0};
    int n = 0;
    enum td_code rc = TD_OK;
    if (td_registry_status(r->registry, m->name, 0, &rows, &n, &none)) {
        n = 0; /* no version was seen yet */
    }
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = write_version(r, m, &rows[i], err);
    }
    td_free(rows);
    return rc ? rc : td_put_end(s, 1, at, err);
}

enum td_code td_rpc_models_list(struct td_rpc *r, struct td_err *err)
{
    struct td_model_config *models;
    int n;
    TD_TRY(td_registry_models(r->registry, &models, &n, err));
    r->reply.limit = INT32_MAX;
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = td_rpc_sees(r, models[i].name) ? write_model(r, &models[i], err) : TD_OK;
    }
    td_model_configs_free(models, n);
    return rc;
}

enum td_code td_rpc_models_reload(struct td_rpc *r, struct td_err *err)
{
    char name[MAX_NAME] = "";
    struct td_field f;
    do {
        TD_TRY(td_wire_next(&r->in, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(f.sub.left >= MAX_NAME, err, INVALID_ARGUMENT,
                       "reload: a model's name may have %d bytes", MAX_NAME - 1);
            td_wire_copy(f.sub, name);
            name[f.sub.left] = 0;
            TD_FAIL_IF(!td_utf8(name, f.sub.left), err, INVALID_ARGUMENT,
                       "reload: the model's name is no UTF-8");
        }
    } while (f.number != 0);
    return td_registry_rescan(r->registry, *name ? name : NULL, err);
}
