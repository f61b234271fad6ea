/* server/grpc/grpc_models.c - what is served: GetModelMetadata, GetModelStatus, HandleReloadConfigRequest.
 *
 * Status is answered from copies of the registry's statuses, so it works while models load. Requests and
 * answers are small: the first two are read and written field by field; a reload's message, a tree, is
 * unpacked by protobuf-c with a limit on what it may unpack to (proto/pb/guard.h). A reload waits until every
 * new model has an available version or has failed, and says by how much the counters that were named have
 * grown meanwhile.
 *
 * Does not: change the list of models itself (server/models/registry.c), or say how calls run
 * (server/grpc/grpc_call.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/pb/guard.h"
#include "proto/model/model_pb.h"
#include "proto/schema/serving.pb-c.h"
#include "server/models/config.h"
#include "server/grpc/grpc_rpc.h"

td_rpc_fn td_rpc_model_metadata, td_rpc_model_status, td_rpc_reload_config;

#define MAX_UNPACKED ((uint64_t)64 << 20)

static enum td_code check_spec(const struct td_model_spec *spec, struct td_err *err)
{
    TD_FAIL_IF(!spec->present, err, INVALID_ARGUMENT, "Missing ModelSpec");
    TD_FAIL_IF(!*spec->name, err, INVALID_ARGUMENT, "ModelSpec has no name specified.");
    return TD_OK;
}

static enum td_code model_metadata(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_metadata_pb p;
    r->reply.limit = INT32_MAX;
    TD_TRY(td_metadata_read(r->in, a, &p, err));
    TD_TRY(check_spec(&p.spec, err));
    TD_FAIL_IF(p.n_field == 0, err, INVALID_ARGUMENT,
               "GetModelMetadataRequest must specify at least one metadata_field");
    for (int i = 0; i < p.n_field; i++) {
        TD_FAIL_IF(strcmp(p.field[i], "signature_def") != 0, err, INVALID_ARGUMENT,
                   "Metadata field %s is not supported", p.field[i]);
    }
    struct td_request *q = &r->q;
    TD_FAIL_IF(p.spec.has_version && p.spec.version <= 0, err, NOT_FOUND,
               "Servable not found for request: Specific(%s, %lld)", p.spec.name, (long long)p.spec.version);
    if (q->servable == NULL) {
        TD_TRY(td_registry_find(r->registry, p.spec.name, p.spec.has_version ? p.spec.version : 0,
                                p.spec.label, &q->cold, &q->servable, err));
    }
    return td_metadata_write(&r->reply, p.spec.name, td_servable_version(q->servable),
                             td_servable_model(q->servable), err);
}

enum td_code td_rpc_model_metadata(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, model_metadata, err);
}

/* ModelVersionStatus { version = 1, state = 2, status = 3 { error_code = 1, error_message = 2 } } */
static enum td_code write_status(struct td_sink *s, const struct td_version_status *row, struct td_err *err)
{
    size_t at = td_put_mark(s);
    if (row->version != 0) {
        TD_TRY(td_put_int(s, 1, row->version, err));
    }
    TD_TRY(td_put_int(s, 2, row->state, err));
    size_t status = td_put_mark(s);
    if (row->error.code) {
        TD_TRY(td_put_int(s, 1, row->error.code, err));
        TD_TRY(td_put_text(s, 2, row->error.msg, err));
    }
    TD_TRY(td_put_end(s, 3, status, err));
    return td_put_end(s, 1, at, err);
}

static enum td_code model_status(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_field f;
    struct td_model_spec spec = {.name = ""};
    r->reply.limit = INT32_MAX;
    do {
        TD_TRY(td_wire_next(&r->in, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_model_spec_read(f.sub, a, &spec, err));
        }
    } while (f.number != 0);
    TD_TRY(check_spec(&spec, err));
    TD_FAIL_IF(spec.has_version && spec.version <= 0, err, NOT_FOUND,
               "Could not find version %lld of model %s", (long long)spec.version, spec.name);
    struct td_version_status *rows;
    int n;
    TD_TRY(td_registry_status(r->registry, spec.name, spec.has_version ? spec.version : 0, &rows, &n, err));
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = write_status(&r->reply, &rows[i], err);
    }
    td_free(rows);
    return rc;
}

enum td_code td_rpc_model_status(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, model_status, err);
}

static enum td_code configure(struct td_rpc *r, const struct Tensorflow__Serving__ReloadConfigRequest *m,
                              struct td_err *err)
{
    TD_FAIL_IF(m->config == NULL || m->config->config_case !=
                                        TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST,
               err, INVALID_ARGUMENT,
               "ServerModelConfig type not supported by HandleReloadConfigRequest. "
               "Only ModelConfigList is currently supported");
    struct td_model_config *models;
    int n;
    TD_TRY(td_config_models(m->config, &models, &n, err));
    enum td_code rc = td_registry_configure(r->registry, models, n, true, err);
    td_model_configs_free(models, n);
    return rc;
}

/* ReloadConfigResponse { status = 1 {}, metric = 2 { name = 1, int64_value_increase = 2 } }: OK, and by how
 * much the counters that were named have grown. */
static enum td_code write_reloaded(struct td_rpc *r, const struct Tensorflow__Serving__ReloadConfigRequest *m,
                                   const int64_t *before, struct td_err *err)
{
    TD_TRY(td_put_head(&r->reply, 1, 0, err));
    for (size_t i = 0; i < m->n_metric_names; i++) {
        const size_t at = td_put_mark(&r->reply);
        TD_TRY(td_put_text(&r->reply, 1, m->metric_names[i], err));
        TD_TRY(td_put_int(&r->reply, 2, td_metrics_counter(m->metric_names[i]) - before[i], err));
        TD_TRY(td_put_end(&r->reply, 2, at, err));
    }
    return TD_OK;
}

static enum td_code reload(struct td_rpc *r, const struct Tensorflow__Serving__ReloadConfigRequest *m,
                           struct td_err *err)
{
    int64_t *before = td_calloc(m->n_metric_names + 1, sizeof *before);
    if (before == NULL) {
        return td_no_memory(err, m->n_metric_names * sizeof *before, "a reload");
    }
    for (size_t i = 0; i < m->n_metric_names; i++) {
        before[i] = td_metrics_counter(m->metric_names[i]);
    }
    enum td_code rc = configure(r, m, err);
    rc = rc ? rc : write_reloaded(r, m, before, err);
    td_free(before);
    return rc;
}

enum td_code td_rpc_reload_config(struct td_rpc *r, struct td_err *err)
{
    const void *bytes;
    void *owned;
    size_t n = (size_t)r->in.left;
    TD_TRY(td_wire_gather(r->in, &bytes, &owned, err));
    ProtobufCMessage *m = NULL;
    enum td_code rc = td_guard_unpack_sent(&tensorflow__serving__reload_config_request__descriptor, bytes, n,
                                           MAX_UNPACKED, &m, err);
    td_free(owned);
    if (rc == TD_OK) {
        rc = reload(r, (struct Tensorflow__Serving__ReloadConfigRequest *)m, err);
        td_guard_free(m);
    }
    if (rc) {
        td_log(TD_LOG_ERROR, NULL, "reloading the configuration over gRPC: %s", err->msg);
    }
    return rc;
}
