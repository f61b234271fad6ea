/* server/grpc/grpc_health.c - grpc.health.v1: Check, List and Watch, from the live state of the registry.
 *
 * Names: "" and the names of our services stand for the whole server, which serves once every configured
 * model has an available version; any other name is a model's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "server/grpc/grpc_rpc.h"

td_rpc_fn td_rpc_health_check, td_rpc_health_list, td_rpc_health_watch;

enum health { HEALTH_UNKNOWN = 0, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

#define MAX_NAME 4096

static enum health server_health(struct td_registry *reg)
{
    char *missing = NULL;
    bool ready = td_registry_ready(reg, &missing);
    td_free(missing);
    return ready ? SERVING : NOT_SERVING;
}

static enum health model_health(struct td_registry *reg, const char *name)
{
    struct td_version_status *rows;
    struct td_err ignored = {0};
    int n;
    if (td_registry_status(reg, name, 0, &rows, &n, &ignored)) {
        return td_registry_has(reg, name) ? NOT_SERVING : SERVICE_UNKNOWN;
    }
    enum health h = NOT_SERVING;
    for (int i = 0; i < n; i++) {
        h = rows[i].state == TD_STATE_AVAILABLE ? SERVING : h;
    }
    td_free(rows);
    return td_registry_answers(reg) && !td_registry_lost(reg, name) ? h : NOT_SERVING;
}

/* "PredictionService" and "tensorflow.serving.PredictionService" alike: TensorFlow Serving reports the short
 * names. */
static bool names_service(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < td_rpc_n_methods; i++) {
        const char *path = td_rpc_methods[i].path + 1;
        size_t len = strcspn(path, "/");
        bool tail = n < len && path[len - n - 1] == '.';
        if ((n == len || tail) && strncmp(path + len - n, name, n) == 0) {
            return true;
        }
    }
    return false;
}

static enum health health_of(struct td_registry *reg, const char *name)
{
    return !*name || names_service(name) ? server_health(reg) : model_health(reg, name);
}

/* HealthCheckRequest { service = 1 } */
static enum td_code read_name(struct td_wire w, char name[MAX_NAME], struct td_err *err)
{
    struct td_field f;
    name[0] = 0;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(f.sub.left >= MAX_NAME, err, INVALID_ARGUMENT,
                       "health: a service name may have %d bytes", MAX_NAME - 1);
            td_wire_copy(f.sub, name);
            name[f.sub.left] = 0;
            TD_FAIL_IF(!td_utf8(name, f.sub.left), err, INVALID_ARGUMENT,
                       "health: the service name is no UTF-8");
        }
    }
}

enum td_code td_rpc_health_check(struct td_rpc *r, struct td_err *err)
{
    char name[MAX_NAME];
    TD_FAIL_IF(!r->opts->health, err, UNIMPLEMENTED, "the health service is switched off");
    TD_TRY(read_name(r->in, name, err));
    enum health h = health_of(r->registry, name);
    TD_FAIL_IF(h == SERVICE_UNKNOWN, err, NOT_FOUND, "health: no service and no model is named '%s'", name);
    return td_put_int(&r->reply, 1, h, err);
}

/* HealthListResponse { statuses = 1 map<string, HealthCheckResponse { status = 1 }> } */
static enum td_code write_listed(struct td_sink *s, const char *name, enum health h, struct td_err *err)
{
    size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, name, err));
    size_t value = td_put_mark(s);
    TD_TRY(td_put_int(s, 1, h, err));
    TD_TRY(td_put_end(s, 2, value, err));
    return td_put_end(s, 1, entry, err);
}

enum td_code td_rpc_health_list(struct td_rpc *r, struct td_err *err)
{
    struct td_model_config *models;
    int n;
    TD_FAIL_IF(!r->opts->health, err, UNIMPLEMENTED, "the health service is switched off");
    TD_TRY(td_registry_models(r->registry, &models, &n, err));
    enum td_code rc = write_listed(&r->reply, "", server_health(r->registry), err);
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = write_listed(&r->reply, models[i].name, model_health(r->registry, models[i].name), err);
    }
    td_model_configs_free(models, n);
    return rc;
}

/* What a watcher was told last. */
struct watch {
    int told;
    char name[MAX_NAME];
};

static enum td_code watch_begin(struct td_rpc *r, struct td_err *err)
{
    TD_FAIL_IF(!r->opts->health, err, UNIMPLEMENTED, "the health service is switched off");
    TD_FAIL_IF(r->state != NULL, err, INVALID_ARGUMENT, "health: Watch takes one request");
    struct watch *w = td_calloc(1, sizeof *w);
    if (w == NULL) {
        return td_no_memory(err, sizeof *w, "a health watch");
    }
    r->state = w;
    r->ticks = true;
    w->told = -1;
    return read_name(r->in, w->name, err);
}

enum td_code td_rpc_health_watch(struct td_rpc *r, struct td_err *err)
{
    if (r->event == TD_RPC_GONE) {
        td_free(r->state);
        return TD_OK;
    }
    if (r->event == TD_RPC_MESSAGE) {
        TD_TRY(watch_begin(r, err));
    }
    struct watch *w = r->state;
    if (w == NULL || r->event == TD_RPC_END) {
        return TD_OK;
    }
    enum health h = health_of(r->registry, w->name);
    r->has_reply = (int)h != w->told;
    w->told = (int)h;
    return r->has_reply ? td_put_int(&r->reply, 1, h, err) : TD_OK;
}
