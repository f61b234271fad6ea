/* server/grpc/grpc_repository.c - GRPCInferenceService: the model repository and statistics.
 *
 * Requests are read field by field from the wire and answers written straight to the reply, each length
 * filled in when its message is complete. The parameters of a load are walked twice: for the configuration,
 * then for the files, one at a time.
 *
 * Does not: load (server/models/registry_load.c), write files (server/models/upload.c). HTTP's side is
 * server/http/rest_repository.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/run/variable.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_v2.h"
#include "server/request/repository.h"

td_rpc_fn td_rpc_v2_index, td_rpc_v2_load, td_rpc_v2_unload, td_rpc_v2_stats;

/* ---- repository ---- */

/* RepositoryIndexRequest { repository_name = 1, ready = 2 }, RepositoryModelLoadRequest and -UnloadRequest
 * { repository_name = 1, model_name = 2, parameters = 3 } */
struct repository_request {
    const char *model;
    bool ready, named;
};

static enum td_code read_request(struct td_rpc *r, struct td_arena *a, struct repository_request *out,
                                 struct td_err *err)
{
    struct td_wire w = r->in;
    struct td_field f;
    *out = (struct repository_request){.model = ""};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        out->named = out->named || (f.number == 1 && f.type == TD_WIRE_BYTES && f.sub.left > 0);
        out->ready = out->ready || (f.number == 2 && f.type == TD_WIRE_VARINT && f.value != 0);
        if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->model, err));
        }
    } while (f.number != 0);
    TD_FAIL_IF(out->named, err, UNIMPLEMENTED, "'repository_name' specification is not supported");
    return TD_OK;
}

/* RepositoryIndexResponse { models = 1 { name = 1, version = 2, state = 3, reason = 4 } } */
static enum td_code write_row(void *rpc, const struct td_repository_row *row, struct td_err *err)
{
    struct td_sink *s = &((struct td_rpc *)rpc)->reply;
    char version[24] = "";
    if (!td_rpc_sees(rpc, row->name)) {
        return TD_OK;
    }
    if (row->version > 0) {
        (void)snprintf(version, sizeof version, "%lld", (long long)row->version);
    }
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, row->name, err));
    TD_TRY(td_put_text(s, 2, version, err));
    TD_TRY(td_put_text(s, 3, row->state, err));
    TD_TRY(td_put_text(s, 4, row->reason, err));
    return td_put_end(s, 1, at, err);
}

static enum td_code write_index(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct repository_request q;
    TD_TRY(read_request(r, a, &q, err));
    return td_repository_index(r->registry, q.ready, write_row, r, err);
}

/* Parameters of a load: map entries { key = 1, value = 2 { bool_param = 1, int64_param = 2, string_param = 3,
 * bytes_param = 4 } }. The configuration is looked for first, files the second time. */
struct loading {
    struct td_arena *arena;
    const char *state_dir;
    struct td_upload *upload; /* NULL: no configuration yet */
    enum td_load_key wanted;
    bool files; /* there are some */
};

/* bytes: of the parameter's value, or of no type that fits it (then there are none). */
static enum td_code use_value(struct loading *l, const char *key, const struct td_field *value,
                              struct td_err *err)
{
    const bool config = l->wanted == TD_LOAD_CONFIG;
    const void *bytes = NULL;
    void *owned = NULL;
    TD_FAIL_IF(value->type != TD_WIRE_BYTES || value->number != (config ? 3u : 4u), err, INVALID_ARGUMENT,
               "invalid value type for load parameter '%.100s', expected %s", key,
               config ? "string_param" : "bytes_param");
    TD_FAIL_IF(config && l->upload != NULL, err, INVALID_ARGUMENT, "load parameter 'config' is there twice");
    const size_t n = (size_t)value->sub.left;
    TD_TRY(td_wire_gather(value->sub, &bytes, &owned, err));
    const enum td_code rc =
        config ? td_upload_new(n > 0 ? bytes : "", n, &l->upload, err)
               : td_upload_file(l->upload, l->state_dir, key + strlen("file:"), bytes, n, err);
    td_free(owned);
    return rc;
}

/* An entry of the map: its key, and the first field of its value. */
static enum td_code read_entry(struct td_wire entry, struct td_arena *a, const char **key,
                               struct td_field *value, struct td_err *err)
{
    struct td_field f;
    *key = "";
    *value = (struct td_field){0};
    do {
        TD_TRY(td_wire_next(&entry, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, key, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_next(&f.sub, value, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code read_parameter(struct loading *l, struct td_wire entry, struct td_err *err)
{
    struct td_field value;
    const char *key;
    enum td_load_key what;
    TD_TRY(read_entry(entry, l->arena, &key, &value, err));
    TD_TRY(td_repository_load_key(key, &what, err));
    l->files = l->files || what == TD_LOAD_FILE;
    return what == l->wanted ? use_value(l, key, &value, err) : TD_OK;
}

static enum td_code read_parameters(struct loading *l, struct td_wire w, enum td_load_key wanted,
                                    struct td_err *err)
{
    struct td_field f;
    l->wanted = wanted;
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 3 && f.type == TD_WIRE_BYTES) {
            TD_TRY(read_parameter(l, f.sub, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code load(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct repository_request q;
    TD_TRY(read_request(r, a, &q, err));
    struct loading l = {.arena = a, .state_dir = td_registry_options(r->registry)->servable.state_dir};
    enum td_code rc = read_parameters(&l, r->in, TD_LOAD_CONFIG, err);
    rc = rc ? rc : td_repository_check_upload(l.upload, l.files, err);
    rc = rc || !l.files ? rc : read_parameters(&l, r->in, TD_LOAD_FILE, err);
    rc = rc ? td_err_wrap(err, "failed to load '%s'", q.model)
            : td_repository_load(r->registry, q.model, l.upload, err);
    td_upload_unref(l.upload);
    return rc;
}

/* Of the parameters only unload_dependents means something, a flag; nothing here depends on another model. */
static enum td_code check_unload(struct td_wire w, struct td_arena *a, struct td_err *err)
{
    struct td_field f, value;
    const char *key = "";
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 3 && f.type == TD_WIRE_BYTES) {
            TD_TRY(read_entry(f.sub, a, &key, &value, err));
            TD_FAIL_IF(strcmp(key, TD_UNLOAD_DEPENDENTS) == 0 && value.number != 1, err, INVALID_ARGUMENT,
                       "invalid value type for '" TD_UNLOAD_DEPENDENTS "' parameter, expected bool_param.");
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code unload(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct repository_request q;
    TD_TRY(read_request(r, a, &q, err));
    if (check_unload(r->in, a, err)) {
        return td_err_wrap(err, "failed to unload '%s'", q.model);
    }
    return td_repository_unload(r->registry, q.model, err);
}

enum td_code td_rpc_v2_index(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, write_index, err);
}

enum td_code td_rpc_v2_load(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, load, err);
}

enum td_code td_rpc_v2_unload(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, unload, err);
}

/* ---- statistics ---- */

/* StatisticDuration { count = 1, ns = 2 } */
static enum td_code put_duration(struct td_sink *s, uint32_t field, uint64_t count, uint64_t ns,
                                 struct td_err *err)
{
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_int(s, 1, (int64_t)count, err));
    TD_TRY(td_put_int(s, 2, (int64_t)ns, err));
    return td_put_end(s, field, at, err);
}

/* InferStatistics { success = 1, fail = 2, queue = 3, compute_input = 4, compute_infer = 5, compute_output =
 * 6, cache_hit = 7, cache_miss = 8 } */
static enum td_code put_infer(struct td_sink *s, const struct td_stats *c, struct td_err *err)
{
    const uint64_t ok = atomic_load(&c->ok);
    const size_t at = td_put_mark(s);
    TD_TRY(put_duration(s, 1, ok, atomic_load(&c->ok_ns), err));
    TD_TRY(put_duration(s, 2, atomic_load(&c->failed), atomic_load(&c->failed_ns), err));
    TD_TRY(put_duration(s, 3, ok, atomic_load(&c->queue_ns), err));
    TD_TRY(put_duration(s, 4, ok, atomic_load(&c->input_ns), err));
    TD_TRY(put_duration(s, 5, ok, atomic_load(&c->infer_ns), err));
    TD_TRY(put_duration(s, 6, ok, atomic_load(&c->output_ns), err));
    TD_TRY(put_duration(s, 7, 0, 0, err));
    TD_TRY(put_duration(s, 8, 0, 0, err));
    return td_put_end(s, 6, at, err);
}

/* InferBatchStatistics { batch_size = 1, compute_input = 2, compute_infer = 3, compute_output = 4 } */
static enum td_code put_batch(struct td_sink *s, const struct td_stats_size *b, struct td_err *err)
{
    const uint64_t n = atomic_load(&b->n);
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_int(s, 1, atomic_load(&b->size), err));
    TD_TRY(put_duration(s, 2, n, atomic_load(&b->input_ns), err));
    TD_TRY(put_duration(s, 3, n, atomic_load(&b->infer_ns), err));
    TD_TRY(put_duration(s, 4, n, atomic_load(&b->output_ns), err));
    return td_put_end(s, 7, at, err);
}

/* MemoryUsage { type = 1, id = 2, byte_size = 3 } */
static enum td_code put_memory(struct td_sink *s, struct td_servable *v, struct td_err *err)
{
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, "CPU", err));
    TD_TRY(td_put_int(s, 3, (int64_t)td_variable_total_bytes(td_servable_engine(v)), err));
    return td_put_end(s, 8, at, err);
}

/* ModelStatisticsResponse { model_stats = 1 { name = 1, version = 2, last_inference = 3, inference_count = 4,
 * execution_count = 5, inference_stats = 6, batch_stats = 7, memory_usage = 8 } } */
static enum td_code write_stats(void *rpc, const char *name, struct td_servable *v, struct td_err *err)
{
    struct td_sink *s = &((struct td_rpc *)rpc)->reply;
    const struct td_stats *c = td_servable_stats(v);
    char version[24];
    (void)snprintf(version, sizeof version, "%lld", (long long)td_servable_version(v));
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, name, err));
    TD_TRY(td_put_text(s, 2, version, err));
    TD_TRY(td_put_int(s, 3, atomic_load(&c->last_ms), err));
    TD_TRY(td_put_int(s, 4, (int64_t)atomic_load(&c->inferences), err));
    TD_TRY(td_put_int(s, 5, (int64_t)atomic_load(&c->executions), err));
    TD_TRY(put_infer(s, c, err));
    for (int i = 0; i < TD_STATS_SIZES && atomic_load(&c->sizes[i].size) > 0; i++) {
        TD_TRY(put_batch(s, &c->sizes[i], err));
    }
    TD_TRY(put_memory(s, v, err));
    return td_put_end(s, 1, at, err);
}

static enum td_code stats(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_grpc_v2_name m;
    TD_TRY(td_grpc_v2_model(r, a, &m, err));
    struct td_infer_ref ref = {.name = m.name, .signature = ""};
    TD_TRY(td_infer_version(m.version, &ref, err));
    return td_repository_serving(r->registry, &ref, write_stats, r, err);
}

enum td_code td_rpc_v2_stats(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, stats, err);
}
