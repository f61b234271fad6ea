/* server/request/repository.c - the registry's own lists, told row by row in the protocol's words.
 *
 * Every walk takes a copy of the registry's list of models, then a copy of each model's states, and calls the
 * wire's function with no lock held; so a slow client holds nothing up, and what goes away meanwhile is left
 * out or shown as it was. A version that serves is counted while the function is called with it. Five states
 * become four words.
 *
 * Loading and unloading wait for the registry on the caller's thread, which is why both wires give such calls
 * a thread that may wait. Does not: decide what to load (server/models/registry_load.c), write files
 * (server/models/upload.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/repository.h"

#include <string.h>

#include "proto/json/json_write.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"

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
    return v->error.code != TD_OK     ? v->error.msg
           : v->state == TD_STATE_END ? "unloaded"
           : v->cold                  ? "not loaded yet: the next request loads it"
                                      : "";
}

/* A row for each version of a model; one without a version for a model that has none. */
static enum td_code index_model(struct td_registry *reg, const char *name, bool ready_only,
                                td_repository_row_fn *fn, void *ctx, struct td_err *err)
{
    struct td_version_status *rows = NULL;
    struct td_err why = {0};
    int n = 0;
    if (td_registry_status(reg, name, 0, &rows, &n, &why)) {
        const struct td_repository_row row = {name, 0, "UNAVAILABLE", why.msg};
        return ready_only ? TD_OK : fn(ctx, &row, err);
    }
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        const struct td_repository_row row = {name, rows[i].version, state_name(rows[i].state),
                                              reason(&rows[i])};
        rc = !ready_only || rows[i].state == TD_STATE_AVAILABLE ? fn(ctx, &row, err) : TD_OK;
    }
    td_free(rows);
    return rc;
}

enum td_code td_repository_index(struct td_registry *reg, bool ready_only, td_repository_row_fn *fn,
                                 void *ctx, struct td_err *err)
{
    struct td_model_config *configs = NULL;
    int n = 0;
    TD_TRY(td_registry_models(reg, &configs, &n, err));
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = index_model(reg, configs[i].name, ready_only, fn, ctx, err);
    }
    td_model_configs_free(configs, n);
    return rc;
}

enum td_code td_repository_load_key(const char *key, enum td_load_key *out, struct td_err *err)
{
    TD_FAIL_IF(!td_utf8(key, strlen(key)), err, INVALID_ARGUMENT,
               "the name of a load parameter must be UTF-8");
    *out = strncmp(key, "file:", 5) == 0 ? TD_LOAD_FILE : TD_LOAD_CONFIG;
    TD_FAIL_IF(*out == TD_LOAD_CONFIG && strcmp(key, "config") != 0, err, INTERNAL,
               "unrecognized load parameter '%.100s', want 'config' or 'file:VERSION/PATH'", key);
    return TD_OK;
}

enum td_code td_repository_check_upload(const struct td_upload *u, bool files, struct td_err *err)
{
    TD_FAIL_IF(files && u == NULL, err, INVALID_ARGUMENT,
               "failed to poll from model repository: files stand for the model's whole directory, so the "
               "parameter 'config' must be there too");
    return TD_OK;
}

enum td_code td_repository_load(struct td_registry *reg, const char *name, struct td_upload *u,
                                struct td_err *err)
{
    const enum td_code rc = td_registry_load(reg, name, u, err);
    return rc ? td_err_wrap(err, "failed to load '%s'", name) : TD_OK;
}

enum td_code td_repository_unload(struct td_registry *reg, const char *name, struct td_err *err)
{
    const enum td_code rc = td_registry_unload(reg, name, err);
    return rc ? td_err_wrap(err, "failed to unload '%s'", name) : TD_OK;
}

/* as: what fn is told. A version that goes away during the walk is left out. */
static enum td_code walk_model(struct td_registry *reg, const char *name, const char *as,
                               td_repository_serving_fn *fn, void *ctx, struct td_err *err)
{
    struct td_version_status *rows = NULL;
    struct td_err ignored = {0};
    int n = 0;
    if (td_registry_status(reg, name, 0, &rows, &n, &ignored)) {
        return TD_OK;
    }
    enum td_code rc = TD_OK;
    for (int i = n - 1; i >= 0 && rc == TD_OK; i--) {
        struct td_servable *s = NULL;
        struct td_err gone = {0};
        if (rows[i].state == TD_STATE_AVAILABLE && !rows[i].cold && rows[i].version > 0 &&
            td_registry_find(reg, name, rows[i].version, NULL, NULL, &s, &gone) == TD_OK) {
            rc = fn(ctx, as, s, err);
            td_servable_unref(s);
        }
    }
    td_free(rows);
    return rc;
}

static enum td_code walk_all(struct td_registry *reg, td_repository_serving_fn *fn, void *ctx,
                             struct td_err *err)
{
    struct td_model_config *configs = NULL;
    int n = 0;
    TD_TRY(td_registry_models(reg, &configs, &n, err));
    enum td_code rc = TD_OK;
    for (int i = 0; i < n && rc == TD_OK; i++) {
        rc = walk_model(reg, configs[i].name, configs[i].name, fn, ctx, err);
    }
    td_model_configs_free(configs, n);
    return rc;
}

enum td_code td_repository_serving(struct td_registry *reg, const struct td_infer_ref *ref,
                                   td_repository_serving_fn *fn, void *ctx, struct td_err *err)
{
    struct td_servable *s = NULL;
    const char *signature;
    if (*ref->name == '\0') {
        return walk_all(reg, fn, ctx, err);
    }
    struct td_cold cold = {0};
    if (td_infer_find(reg, ref, &cold, &s, &signature, err)) {
        const bool known = cold.model != NULL; /* nothing has run there since it was loaded last */
        td_cold_fini(&cold);
        *err = known ? (struct td_err){0} : *err;
        return err->code;
    }
    const struct td_signature *sig;
    enum td_code rc = td_infer_view(s, signature, &sig, err);
    if (rc == TD_OK) {
        rc = ref->has_version || ref->label != NULL
                 ? fn(ctx, ref->name, s, err)
                 : walk_model(reg, td_servable_name(s), ref->name, fn, ctx, err);
    }
    td_servable_unref(s);
    return rc;
}
