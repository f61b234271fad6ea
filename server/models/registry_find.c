/* server/models/registry_find.c - who is served: a request finds its version, and what is there is told.
 *
 * Each function takes the registry's mu, looks, copies or counts, and lets go; error texts are written
 * without it. Versions of an entry stand highest first, so the latest available is the first that is
 * AVAILABLE. A label is a version of the model's configuration. A version that is found is counted before mu
 * is let go: withdrawing it meanwhile only takes it off the list.
 *
 * Threads: any. Nobody outside sees an entry. Does not: change anything (server/models/registry.c), or load
 * (server/models/registry_load.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_cold.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

/* One that goes, and would not be loaded any more: the version below it may serve. */
static bool is_past(const struct td_entry *e, const struct td_version *v)
{
    return v->cold && !v->aspired && td_registry_settled(e);
}

static struct td_version *pick(const struct td_entry *e, bool any, int64_t version)
{
    for (int i = 0; e != NULL && i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        if (v->state == TD_STATE_AVAILABLE && (any || v->number == version) && !is_past(e, v)) {
            return v;
        }
    }
    return NULL;
}

/* The version that was meant and does not serve: because its files are damaged, or (lazy) because it did not
 * load when it was asked for. Its error says so. */
static bool is_broken(const struct td_entry *e, bool lazy, bool any, int64_t version, struct td_err *why)
{
    for (int i = 0; e != NULL && i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        if (lazy && !v->damaged && v->aspired && v->error.code != TD_OK && (any || v->number == version)) {
            (void)td_registry_load_error(e, v, &v->error, why);
            return true;
        }
        if (v->damaged && v->aspired && (any || v->number == version)) {
            (void)td_fail(why, TD_DATA_LOSS, "model '%s' version %lld has damaged files%s%.700s", e->name,
                          (long long)v->number, v->error.code != TD_OK ? ": " : " and is loaded again",
                          v->error.msg);
            return true;
        }
    }
    return false;
}

/* Caller holds mu. */
static enum td_code tell_cold(const struct td_entry *e, const struct td_version *v, struct td_cold *cold,
                              struct td_err *err)
{
    TD_FAIL_IF(cold == NULL, err, UNAVAILABLE, "model '%s' version %lld is not loaded yet", e->name,
               (long long)v->number);
    *cold = (struct td_cold){td_strdup(e->name), v->number, td_strdup(v->dir)};
    if (cold->model == NULL || cold->dir == NULL) {
        td_cold_fini(cold);
        return td_no_memory(err, strlen(v->dir), "a request that waits for its model");
    }
    return td_fail(err, TD_UNAVAILABLE, "model '%s' version %lld is being loaded", e->name,
                   (long long)v->number);
}

/* One that is about to be known: what was served before it has gone. NULL: there is none. */
static struct td_version *coming(const struct td_entry *e, bool any, int64_t version)
{
    for (int i = 0; e != NULL && i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        if ((v->state == TD_STATE_START || v->state == TD_STATE_LOADING) && v->aspired && v->quiet &&
            v->error.code == TD_OK && !v->damaged && (any || v->number == version)) {
            return v;
        }
    }
    return NULL;
}

/* Caller holds mu. */
static enum td_code find(struct td_registry *r, const struct td_entry *e, bool any, int64_t version,
                         struct td_cold *cold, struct td_servable **out, struct td_err *err)
{
    struct td_version *v = pick(e, any, version);
    const bool soon = v == NULL && r->opts.lazy && cold != NULL;
    v = soon ? coming(e, any, version) : v;
    if (v != NULL && (soon || v->cold || (v->leaving && cold != NULL))) {
        return tell_cold(e, v, cold, err);
    }
    if (v != NULL) {
        v->used = cold != NULL ? ++r->n_uses : v->used;
        *out = td_servable_ref(v->servable);
        return TD_OK;
    }
    return is_broken(e, r->opts.lazy, any, version, err) ? err->code : TD_NOT_FOUND;
}

enum td_code td_registry_find(struct td_registry *r, const char *model, int64_t version, const char *label,
                              struct td_cold *cold, struct td_servable **out, struct td_err *err)
{
    const bool labelled = label != NULL && *label != '\0';
    bool unknown_label = false;
    *out = NULL;
    pthread_mutex_lock(&r->mu);
    const struct td_entry *e = td_registry_entry(r, model);
    if (labelled) {
        const struct td_label *l = e != NULL ? td_registry_label(&e->config, label) : NULL;
        unknown_label = l == NULL;
        version = l != NULL ? l->version : 0;
    }
    const bool any = version <= 0 && !labelled;
    const enum td_code rc = unknown_label ? TD_OK : find(r, e, any, version, cold, out, err);
    pthread_mutex_unlock(&r->mu);
    TD_FAIL_IF(unknown_label, err, INVALID_ARGUMENT, "Unrecognized servable version label: %s", label);
    TD_FAIL_IF(rc == TD_NOT_FOUND && any, err, NOT_FOUND, "Servable not found for request: Latest(%s)",
               model);
    TD_FAIL_IF(rc == TD_NOT_FOUND, err, NOT_FOUND, "Servable not found for request: Specific(%s, %lld)",
               model, (long long)version);
    return rc;
}

static enum td_code copy_rows(const struct td_entry *e, int64_t version, struct td_version_status **rows,
                              int *n, struct td_err *err)
{
    struct td_version_status *copy = td_calloc((size_t)e->n_versions + 1, sizeof *copy);
    if (copy == NULL) {
        return td_no_memory(err, (size_t)e->n_versions * sizeof *copy, "a model's statuses");
    }
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        if (version <= 0 || v->number == version) {
            copy[(*n)++] = (struct td_version_status){.version = v->number,
                                                      .state = v->state,
                                                      .error = v->error,
                                                      .load_ms = v->load_ms,
                                                      .loaded_at = v->loaded_at,
                                                      .cold = v->cold};
        }
    }
    *rows = copy;
    return TD_OK;
}

enum td_code td_registry_status(struct td_registry *r, const char *model, int64_t version,
                                struct td_version_status **rows, int *n, struct td_err *err)
{
    enum td_code rc = TD_OK;
    *rows = NULL;
    *n = 0;
    pthread_mutex_lock(&r->mu);
    const struct td_entry *e = td_registry_any_entry(r, model);
    if (e != NULL) {
        rc = copy_rows(e, version, rows, n, err);
    }
    pthread_mutex_unlock(&r->mu);
    if (rc == TD_OK && *n == 0) {
        td_free(*rows);
        *rows = NULL;
        TD_FAIL_IF(version > 0, err, NOT_FOUND, "Could not find version %lld of model %s", (long long)version,
                   model);
        TD_FAIL(err, NOT_FOUND, "Could not find any versions of model %s", model);
    }
    return rc;
}

enum td_code td_registry_serving(struct td_registry *r, struct td_servable ***out, int *n, struct td_err *err)
{
    int most = 0;
    pthread_mutex_lock(&r->mu);
    for (int i = 0; i < r->n_entries; i++) {
        most += r->entries[i]->n_versions;
    }
    struct td_servable **list = td_calloc((size_t)most + 1, sizeof(struct td_servable *));
    *n = 0;
    for (int i = 0; list != NULL && i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        for (int k = 0; k < e->n_versions; k++) {
            if (e->versions[k]->servable != NULL) {
                list[(*n)++] = td_servable_ref(e->versions[k]->servable);
            }
        }
    }
    pthread_mutex_unlock(&r->mu);
    *out = list;
    return list != NULL ? TD_OK : td_no_memory(err, (size_t)most * sizeof *list, "the list of versions");
}

void td_registry_let_go(struct td_servable **list, int n)
{
    for (int i = 0; i < n; i++) {
        td_servable_unref(list[i]);
    }
    td_free(list);
}

bool td_registry_has(struct td_registry *r, const char *model)
{
    pthread_mutex_lock(&r->mu);
    const bool has = td_registry_entry(r, model) != NULL;
    pthread_mutex_unlock(&r->mu);
    return has;
}

enum td_code td_registry_model(struct td_registry *r, const char *model, struct td_model_config **out,
                               struct td_err *err)
{
    pthread_mutex_lock(&r->mu);
    const struct td_entry *e = td_registry_entry(r, model);
    const enum td_code rc = e != NULL ? td_model_configs_copy(out, &e->config, 1, err)
                                      : td_fail(err, TD_NOT_FOUND, "model '%s' is not configured", model);
    pthread_mutex_unlock(&r->mu);
    return rc;
}

enum td_code td_registry_models(struct td_registry *r, struct td_model_config **out, int *n,
                                struct td_err *err)
{
    enum td_code rc = TD_OK;
    pthread_mutex_lock(&r->mu);
    struct td_model_config *copy = td_calloc((size_t)r->n_entries + 1, sizeof *copy);
    int count = 0;
    if (copy == NULL) {
        rc = td_no_memory(err, (size_t)r->n_entries * sizeof *copy, "the list of models");
    }
    for (int i = 0; i < r->n_entries && rc == TD_OK; i++) {
        if (r->entries[i]->configured) {
            rc = td_model_config_copy(&copy[count], &r->entries[i]->config, err);
            count += rc == TD_OK;
        }
    }
    pthread_mutex_unlock(&r->mu);
    if (rc) {
        td_model_configs_free(copy, count);
        return rc;
    }
    *out = copy;
    *n = count;
    return TD_OK;
}

/* Every version that serves has lost its devices. */
static bool is_lost(const struct td_entry *e)
{
    int n = 0;
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_servable *s = e->versions[i]->servable;
        if (e->versions[i]->state == TD_STATE_AVAILABLE) {
            if (s == NULL || !td_replicas_all_lost(td_servable_replicas(s))) {
                return false;
            }
            n++;
        }
    }
    return n > 0;
}

bool td_registry_lost(struct td_registry *r, const char *model)
{
    pthread_mutex_lock(&r->mu);
    const struct td_entry *e = td_registry_entry(r, model);
    const bool lost = e != NULL && is_lost(e);
    pthread_mutex_unlock(&r->mu);
    return lost;
}

static bool lacks(const struct td_entry *e)
{
    return e->configured && !e->held && (!td_registry_has_available(e) || is_lost(e));
}

bool td_registry_answers(struct td_registry *r)
{
    return r->opts.workers == NULL || r->opts.answer == NULL || r->opts.answer(r->opts.workers);
}

bool td_registry_ready(struct td_registry *r, char **missing)
{
    size_t bytes = 1;
    pthread_mutex_lock(&r->mu);
    for (int i = 0; i < r->n_entries; i++) {
        bytes += lacks(r->entries[i]) ? strlen(r->entries[i]->name) + 1 : 0;
    }
    char *text = bytes > 1 ? td_calloc(bytes, 1) : NULL;
    for (int i = 0; i < r->n_entries && text != NULL; i++) {
        const struct td_entry *e = r->entries[i];
        if (lacks(e)) {
            const size_t at = strlen(text);
            (void)snprintf(text + at, bytes - at, "%s%s", at > 0 ? "," : "", e->name);
        }
    }
    pthread_mutex_unlock(&r->mu);
    if (missing != NULL) {
        *missing = text;
    } else {
        td_free(text);
    }
    return bytes == 1 && td_registry_answers(r);
}

bool td_registry_all_settled(struct td_registry *r)
{
    bool all = true;
    pthread_mutex_lock(&r->mu);
    for (int i = 0; i < r->n_entries && all; i++) {
        const struct td_entry *e = r->entries[i];
        all = !e->configured || e->held || ((e->listed || r->opts.poll_wait_s < 0) && td_registry_settled(e));
    }
    pthread_mutex_unlock(&r->mu);
    return all;
}

const struct td_registry_opts *td_registry_options(const struct td_registry *r)
{
    return &r->opts;
}
