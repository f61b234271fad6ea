/* server/grpc/grpc_v2.c - GRPCInferenceService, the Open Inference Protocol (KServe v2): liveness, readiness,
 * metadata and configuration of the server and its models.
 *
 * Each handler reads a name and a version, finds the servable and writes fields straight to the reply; packed
 * shapes are varints with the length filled in after. A false answer is an empty message, as proto3 has it.
 * td_grpc_v2_find() and td_grpc_v2_model() are for the files of the other methods too.
 *
 * Does not: infer (server/grpc/grpc_infer.c), or list the repository (server/grpc/grpc_repository.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/request/infer_pb.h"
#include "server/models/config_view.h"
#include "server/grpc/grpc_v2.h"
#include "server/request/infer_request.h"

td_rpc_fn td_rpc_v2_live, td_rpc_v2_ready, td_rpc_v2_model_ready, td_rpc_v2_server, td_rpc_v2_model,
    td_rpc_v2_config;

enum td_code td_rpc_v2_live(struct td_rpc *r, struct td_err *err)
{
    return td_put_int(&r->reply, 1, 1, err);
}

enum td_code td_rpc_v2_ready(struct td_rpc *r, struct td_err *err)
{
    char *missing = NULL;
    const bool ready = td_registry_ready(r->registry, &missing);
    td_free(missing);
    return ready ? td_put_int(&r->reply, 1, 1, err) : TD_OK;
}

enum td_code td_rpc_v2_server(struct td_rpc *r, struct td_err *err)
{
    TD_TRY(td_put_text(&r->reply, 1, "tensord", err));
    TD_TRY(td_put_text(&r->reply, 2, TENSORD_VERSION, err));
    for (int i = 0; td_infer_extension(i) != NULL; i++) {
        TD_TRY(td_put_text(&r->reply, 3, td_infer_extension(i), err));
    }
    return TD_OK;
}

/* ---- which model ---- */

enum td_code td_grpc_v2_find(struct td_rpc *r, const char *model, const char *version, const char *asked,
                             const char **signature, struct td_err *err)
{
    struct td_infer_ref ref = {.name = model, .signature = asked};
    TD_TRY(td_infer_version(version, &ref, err));
    return td_infer_find(r->registry, &ref, &r->q.cold, &r->q.servable, signature, err);
}

enum td_code td_grpc_v2_model(struct td_rpc *r, struct td_arena *a, struct td_grpc_v2_name *out,
                              struct td_err *err)
{
    struct td_wire w = r->in;
    struct td_field f;
    *out = (struct td_grpc_v2_name){"", ""};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->name, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->version, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

/* A model that is unknown, does not serve or lacks the signature is not ready; only a malformed version is an
 * error. */
static enum td_code model_ready(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_grpc_v2_name m;
    TD_TRY(td_grpc_v2_model(r, a, &m, err));
    struct td_infer_ref ref = {.name = m.name, .signature = ""};
    struct td_err why = {0};
    TD_TRY(td_infer_version(m.version, &ref, err));
    if (td_infer_ready(r->registry, &ref, &why)) {
        return why.code == TD_INVALID_ARGUMENT ? td_fail(err, why.code, "%s", why.msg) : TD_OK;
    }
    return td_registry_answers(r->registry) ? td_put_int(&r->reply, 1, 1, err) : TD_OK;
}

enum td_code td_rpc_v2_model_ready(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, model_ready, err);
}

/* ---- metadata ---- */

/* TensorMetadata { name = 1, datatype = 2, shape = 3 packed }; an unknown rank has the shape [-1]. */
static enum td_code write_infos(struct td_sink *s, uint32_t field, const struct td_tensor_info *list, int n,
                                struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const char *type = td_v2_name(list[i].dtype);
        const size_t at = td_put_mark(s);
        TD_TRY(td_put_text(s, 1, list[i].key, err));
        TD_TRY(td_put_text(s, 2, type != NULL ? type : "", err));
        const size_t shape = td_put_mark(s);
        const int rank = list[i].shape.rank < 0 ? 1 : list[i].shape.rank;
        for (int k = 0; k < rank; k++) {
            TD_TRY(td_put_varint(s, (uint64_t)(list[i].shape.rank < 0 ? -1 : list[i].shape.dim[k]), err));
        }
        TD_TRY(td_put_end(s, 3, shape, err));
        TD_TRY(td_put_end(s, field, at, err));
    }
    return TD_OK;
}

static enum td_code write_versions(struct td_rpc *r, const char *model, struct td_err *err)
{
    struct td_version_status *rows;
    int n;
    TD_TRY(td_registry_status(r->registry, model, 0, &rows, &n, err));
    enum td_code rc = TD_OK;
    for (int i = n - 1; i >= 0 && rc == TD_OK; i--) { /* lowest first */
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)rows[i].version);
        rc = rows[i].state == TD_STATE_AVAILABLE ? td_put_text(&r->reply, 2, text, err) : TD_OK;
    }
    td_free(rows);
    return rc;
}

static enum td_code write_model(struct td_rpc *r, const char *name, struct td_servable *s,
                                const char *signature, struct td_err *err)
{
    const struct td_signature *sig;
    TD_TRY(td_infer_view(s, signature, &sig, err));
    TD_TRY(td_put_text(&r->reply, 1, name, err));
    TD_TRY(write_versions(r, td_servable_name(s), err));
    TD_TRY(td_put_text(&r->reply, 3, TD_CONFIG_PLATFORM, err));
    if (sig == NULL) {
        return TD_OK;
    }
    TD_TRY(write_infos(&r->reply, 4, sig->in, sig->n_in, err));
    return write_infos(&r->reply, 5, sig->out, sig->n_out, err);
}

static enum td_code model_metadata(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_grpc_v2_name m;
    TD_TRY(td_grpc_v2_model(r, a, &m, err));
    const char *signature;
    TD_TRY(td_grpc_v2_find(r, m.name, m.version, "", &signature, err));
    return write_model(r, m.name, r->q.servable, signature, err);
}

enum td_code td_rpc_v2_model(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, model_metadata, err);
}

/* ---- configuration ---- */

/* ModelConfigResponse { config = 1 } */
static enum td_code write_config(struct td_rpc *r, const char *name, struct td_servable *s,
                                 const char *signature, struct td_err *err)
{
    const struct td_signature *sig;
    TD_TRY(td_infer_view(s, signature, &sig, err));
    const size_t at = td_put_mark(&r->reply);
    TD_TRY(td_config_view_write(r->registry, s, name, sig, &r->reply, err));
    return td_put_end(&r->reply, 1, at, err);
}

static enum td_code model_config(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_grpc_v2_name m;
    TD_TRY(td_grpc_v2_model(r, a, &m, err));
    const char *signature;
    TD_TRY(td_grpc_v2_find(r, m.name, m.version, "", &signature, err));
    return write_config(r, m.name, r->q.servable, signature, err);
}

enum td_code td_rpc_v2_config(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, model_config, err);
}
