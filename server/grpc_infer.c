/* server/grpc_infer.c - GRPCInferenceService, the Open Inference Protocol (KServe v2): liveness, readiness,
 * metadata and ModelInfer.
 *
 * The request parameter "signature_name" chooses another signature than the default one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "proto/infer_pb.h"
#include "server/grpc_rpc.h"
#include "server/request.h"

td_rpc_fn td_rpc_v2_live, td_rpc_v2_ready, td_rpc_v2_model_ready, td_rpc_v2_server, td_rpc_v2_model,
    td_rpc_v2_infer;

#define ARENA_BYTES ((size_t)1 << 20)
#define PLATFORM "tensorflow_savedmodel"

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
    return td_put_text(&r->reply, 3, "binary_tensor_data", err);
}

/* ---- which model ---- */

/* "" is the latest version, 0 here. */
static enum td_code read_version(const char *model, const char *text, int64_t *version, struct td_err *err)
{
    int64_t v = 0;
    for (const char *p = text; *p; p++) {
        const bool ok = *p >= '0' && *p <= '9' && td_i64_mul(v, 10, &v) && td_i64_add(v, *p - '0', &v);
        TD_FAIL_IF(!ok, err, INVALID_ARGUMENT,
                   "failed to get model version from specified version string '%s' of '%s'", text, model);
    }
    TD_FAIL_IF(*text && v == 0, err, NOT_FOUND, "Request for unknown model: '%s' version %s is not found",
               model, text);
    *version = v;
    return TD_OK;
}

static enum td_code find(struct td_registry *reg, const char *model, const char *version,
                         struct td_servable **out, struct td_err *err)
{
    int64_t v;
    struct td_err why = {0};
    TD_TRY(read_version(model, version, &v, err));
    const enum td_code rc = td_registry_find(reg, model, v, NULL, out, &why);
    TD_FAIL_IF(rc == TD_NOT_FOUND && v, err, NOT_FOUND,
               "Request for unknown model: '%s' version %lld is not found", model, (long long)v);
    TD_FAIL_IF(rc == TD_NOT_FOUND, err, NOT_FOUND, "Request for unknown model: '%s' is not found", model);
    return rc ? td_fail(err, rc, "%s", why.msg) : TD_OK;
}

/* { name = 1, version = 2 } of ModelReadyRequest and ModelMetadataRequest */
struct named_model {
    const char *name, *version;
};

static enum td_code read_model(struct td_wire w, struct td_arena *a, struct named_model *out,
                               struct td_err *err)
{
    struct td_field f;
    *out = (struct named_model){"", ""};
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

typedef enum td_code model_fn(struct td_rpc *r, const struct named_model *m, struct td_err *err);

static enum td_code with_model(struct td_rpc *r, model_fn *body, struct td_err *err)
{
    struct td_arena *a = td_arena_new(ARENA_BYTES);
    if (a == NULL) {
        return td_no_memory(err, ARENA_BYTES, "a request");
    }
    struct named_model m;
    enum td_code rc = read_model(r->in, a, &m, err);
    rc = rc ? rc : body(r, &m, err);
    td_arena_free(a);
    return rc;
}

/* A model that is unknown or does not serve is not ready; only a malformed version is an error. */
static enum td_code model_ready(struct td_rpc *r, const struct named_model *m, struct td_err *err)
{
    struct td_servable *s;
    struct td_err ignored = {0};
    int64_t v;
    enum td_code rc = read_version(m->name, m->version, &v, &ignored);
    if (rc == TD_INVALID_ARGUMENT) {
        return td_fail(err, rc, "%s", ignored.msg);
    }
    if (rc || td_registry_find(r->registry, m->name, v, NULL, &s, &ignored)) {
        return TD_OK;
    }
    td_servable_unref(s);
    return td_put_int(&r->reply, 1, 1, err);
}

enum td_code td_rpc_v2_model_ready(struct td_rpc *r, struct td_err *err)
{
    return with_model(r, model_ready, err);
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

static enum td_code write_model(struct td_rpc *r, const char *name, struct td_servable *s, struct td_err *err)
{
    const struct td_signature *sig = td_servable_signature(s, "");
    TD_TRY(td_put_text(&r->reply, 1, name, err));
    TD_TRY(write_versions(r, name, err));
    TD_TRY(td_put_text(&r->reply, 3, PLATFORM, err));
    if (sig == NULL) {
        return TD_OK; /* several signatures, none of them the default: a request has to name one */
    }
    TD_TRY(write_infos(&r->reply, 4, sig->in, sig->n_in, err));
    return write_infos(&r->reply, 5, sig->out, sig->n_out, err);
}

static enum td_code model_metadata(struct td_rpc *r, const struct named_model *m, struct td_err *err)
{
    struct td_servable *s;
    TD_TRY(find(r->registry, m->name, m->version, &s, err));
    const enum td_code rc = write_model(r, m->name, s, err);
    td_servable_unref(s);
    return rc;
}

enum td_code td_rpc_v2_model(struct td_rpc *r, struct td_err *err)
{
    return with_model(r, model_metadata, err);
}

/* ---- ModelInfer ---- */

static enum td_code read_inputs(struct td_rpc *r, struct td_request *q, const struct td_infer_pb *p,
                                struct td_err *err)
{
    q->in = td_arena_alloc(q->arena, (size_t)p->n_in + 1, sizeof *q->in);
    if (q->in == NULL) {
        return td_no_memory(err, (size_t)p->n_in * sizeof *q->in, "a request");
    }
    for (; q->n_in < p->n_in; q->n_in++) {
        q->in[q->n_in].name = p->in[q->n_in].name;
        TD_TRY(td_infer_tensor(&p->in[q->n_in], r->opts->max_request_bytes, &q->in[q->n_in].t, err));
    }
    td_rpc_drop_input(r);
    return TD_OK;
}

static enum td_code infer(struct td_rpc *r, struct td_request *q, struct td_err *err)
{
    struct td_infer_pb p;
    TD_TRY(td_infer_read(r->in, q->arena, &p, err));
    q->model = p.model;
    q->signature = p.signature;
    TD_TRY(find(r->registry, p.model, p.version, &q->servable, err));
    TD_TRY(td_request_resolve(q, r->registry, err));
    TD_TRY(read_inputs(r, q, &p, err));
    q->filter = p.filter;
    q->n_filter = p.n_filter;
    TD_TRY(td_request_run(q, r->registry, err));
    const struct td_infer_answer answer = {
        .model = p.model,
        .id = p.id,
        .version = td_servable_version(q->servable),
        .out = q->out,
        .n_out = q->n_out,
    };
    return td_infer_write(&answer, &r->reply, err);
}

enum td_code td_rpc_v2_infer(struct td_rpc *r, struct td_err *err)
{
    struct td_request q;
    TD_TRY(td_request_init(&q, err));
    q.deadline_ns = r->deadline_ns;
    td_rpc_watch(r, &q.stop);
    const enum td_code rc = infer(r, &q, err);
    td_rpc_watch(r, NULL);
    td_request_fini(&q);
    return rc;
}
