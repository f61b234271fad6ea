/* server/request/infer_request.c - which version and signature a name means, and room for a request's inputs.
 *
 * A name is looked up as it stands first; only when there is no such model, and it has a colon, what is
 * before the last colon is, and what is behind it names a signature. So a model may have a colon in its name.
 * A version 0 that was asked for is nowhere, while the registry takes 0 for "any". The registry's words are
 * replaced by the protocol's.
 *
 * Extensions are one list, whose last is told only where there is a GPU. Inputs are an array in the request's
 * arena, whose length is known beforehand; equal names are found by comparing.
 *
 * Does not: check shapes against a configuration (server/request/infer_check.c), fetch and deliver tensors
 * (infer_run.c), rank classes (infer_top.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/infer_request.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/request/cuda_ipc.h"

static const char *const EXTENSIONS[] = {
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
    "cuda_shared_memory", /* the last: only where there is a GPU */
    NULL,
};

const char *td_infer_extension(int i)
{
    const char *name = EXTENSIONS[i];
    return name != NULL && strcmp(name, "cuda_shared_memory") == 0 && td_cuda_devices() == 0 ? NULL : name;
}

enum td_code td_infer_version(const char *text, struct td_infer_ref *ref, struct td_err *err)
{
    int64_t v = 0;
    for (const char *p = text; *p != '\0'; p++) {
        const bool ok = *p >= '0' && *p <= '9' && td_i64_mul(v, 10, &v) && td_i64_add(v, *p - '0', &v);
        TD_FAIL_IF(!ok, err, INVALID_ARGUMENT,
                   "failed to get model version from specified version string '%s' of '%s'", text, ref->name);
    }
    ref->version = v;
    ref->has_version = *text != '\0';
    return TD_OK;
}

/* The registry's answer for a plain name; a version 0 that was asked for is nowhere. */
static enum td_code find_plain(struct td_registry *reg, const struct td_infer_ref *ref, const char *name,
                               struct td_cold *cold, struct td_servable **out, struct td_err *err)
{
    if (*out != NULL) {
        return strcmp(td_servable_name(*out), name) == 0 ? TD_OK : TD_NOT_FOUND;
    }
    TD_FAIL_IF(ref->has_version && ref->version <= 0, err, NOT_FOUND, "version 0");
    return td_registry_find(reg, name, ref->has_version ? ref->version : 0, ref->label, cold, out, err);
}

enum td_code td_infer_find(struct td_registry *reg, const struct td_infer_ref *ref, struct td_cold *cold,
                           struct td_servable **out, const char **signature, struct td_err *err)
{
    struct td_err why = {0};
    const char *colon = strrchr(ref->name, ':');
    enum td_code rc = find_plain(reg, ref, ref->name, cold, out, &why);
    *signature = ref->signature;
    if (rc == TD_NOT_FOUND && colon != NULL) {
        char *name = td_strndup(ref->name, (size_t)(colon - ref->name));
        if (name == NULL) {
            return td_no_memory(err, strlen(ref->name), "a model's name");
        }
        why = (struct td_err){0};
        rc = find_plain(reg, ref, name, cold, out, &why);
        td_free(name);
        *signature = colon + 1;
    }
    TD_FAIL_IF(rc == TD_NOT_FOUND && ref->has_version, err, NOT_FOUND,
               "Request for unknown model: '%s' version %lld is not found", ref->name,
               (long long)ref->version);
    TD_FAIL_IF(rc == TD_NOT_FOUND, err, NOT_FOUND, "Request for unknown model: '%s' is not found", ref->name);
    if (rc) {
        return td_fail(err, rc, "%s", why.msg);
    }
    if (*ref->signature != '\0' && strcmp(*signature, ref->signature) != 0) {
        td_servable_unref(*out);
        *out = NULL;
        TD_FAIL(err, INVALID_ARGUMENT, "model '%s' and parameter signature_name '%s' name two signatures",
                ref->name, ref->signature);
    }
    return TD_OK;
}

enum td_code td_infer_ready(struct td_registry *reg, const struct td_infer_ref *ref, struct td_err *err)
{
    struct td_cold cold = {0};
    struct td_servable *s = NULL;
    const char *signature;
    const struct td_signature *sig;
    enum td_code rc = td_infer_find(reg, ref, &cold, &s, &signature, err);
    if (rc == TD_OK) {
        rc = td_infer_view(s, signature, &sig, err);
        if (rc == TD_OK && td_replicas_all_lost(td_servable_replicas(s))) {
            rc = td_fail(err, TD_UNAVAILABLE, "the GPU that it runs on is out of service");
        }
        td_servable_unref(s);
    } else if (cold.model != NULL) {
        const bool has = td_registry_cold_has(reg, &cold, signature);
        *err = (struct td_err){0};
        rc = has ? TD_OK
                 : td_fail(err, TD_FAILED_PRECONDITION, "Serving signature key \"%s\" not found.", signature);
    }
    td_cold_fini(&cold);
    return rc;
}

enum td_code td_infer_view(const struct td_servable *s, const char *signature,
                           const struct td_signature **out, struct td_err *err)
{
    *out = td_servable_signature(s, signature);
    TD_FAIL_IF(*out == NULL && *signature != '\0', err, FAILED_PRECONDITION,
               "Serving signature key \"%s\" not found.", signature);
    return TD_OK;
}

enum td_code td_infer_room(struct td_request *q, int n, struct td_err *err)
{
    q->in = td_arena_alloc(q->arena, (size_t)n + 1, sizeof *q->in);
    return q->in != NULL ? TD_OK : td_no_memory(err, (size_t)n * sizeof *q->in, "a request");
}

/* All names are the signature's: none occurs twice. */
static enum td_code check_equal(const struct td_request *q, struct td_err *err)
{
    for (int i = 0; i < q->sig->n_in; i++) {
        int n = 0;
        for (int k = 0; k < q->n_in; k++) {
            n += strcmp(q->in[k].name, q->sig->in[i].key) == 0;
        }
        TD_FAIL_IF(n > 1, err, INVALID_ARGUMENT, "input '%s' already exists in request", q->sig->in[i].key);
    }
    return TD_OK;
}

enum td_code td_infer_expect(struct td_request *q, struct td_registry *reg, td_infer_in_fn *in, void *ctx,
                             int n, struct td_err *err)
{
    TD_TRY(td_infer_room(q, n, err));
    for (int i = 0; i < n; i++) {
        const struct td_infer_in *one = in(ctx, i);
        const enum td_dtype dtype = td_v2_dtype(one->datatype);
        TD_FAIL_IF(dtype == TD_DTYPE_NONE, err, INVALID_ARGUMENT,
                   "input '%.200s': datatype '%.60s' is unknown", one->name, one->datatype);
        q->in[q->n_in++] = (struct td_named){.name = one->name, .t = {.dtype = dtype, .shape = one->shape}};
    }
    const struct td_servable_call call = td_request_call(q, reg);
    if (td_infer_check(q, err) || check_equal(q, err) || td_servable_check(q->servable, &call, err)) {
        td_stats_request(td_servable_stats(q->servable), false, 0, 0, &q->times);
    }
    return err->code;
}

enum td_code td_infer_add(struct td_request *q, const char *name, struct td_tensor *takes, struct td_err *err)
{
    for (int i = 0; i < q->n_in; i++) {
        if (strcmp(q->in[i].name, name) == 0) {
            td_tensor_clear(takes);
            TD_FAIL(err, INVALID_ARGUMENT, "input '%s' already exists in request", name);
        }
    }
    q->in[q->n_in++] = (struct td_named){.name = name, .t = *takes};
    return TD_OK;
}
