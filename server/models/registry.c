/* server/models/registry.c - the list of models, and changing it. Who is served: registry_find.c.
 *
 * An entry lives as long as the registry unless it is removed and idle, so loaders may hold one across a
 * load.
 *
 * Invariant (td_registry_check): entries are sorted by name, and names are unique.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_cold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json/json_write.h"
#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "server/base/metrics.h"
#include "server/base/request_log.h"

#define MAX_REMOVED 256 /* removed models whose statuses are kept */

void td_registry_tell(struct td_registry *r)
{
    pthread_cond_broadcast(&r->changed);
    if (r->parked != NULL) {
        pthread_cond_signal(&r->moved);
    }
}

/* ------------------------------------------------------------------ entries */

/* Position of name, or where it would go (then *found is false). Caller holds mu. */
static int find_entry(const struct td_registry *r, const char *name, bool *found)
{
    int low = 0, high = r->n_entries;
    while (low < high) {
        const int mid = (low + high) / 2;
        const int order = strcmp(r->entries[mid]->name, name);
        if (order == 0) {
            *found = true;
            return mid;
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    *found = false;
    return low;
}

struct td_entry *td_registry_any_entry(const struct td_registry *r, const char *name)
{
    bool found = false;
    const int at = find_entry(r, name, &found);
    return found ? r->entries[at] : NULL;
}

struct td_entry *td_registry_entry(const struct td_registry *r, const char *name)
{
    struct td_entry *e = td_registry_any_entry(r, name);
    return e != NULL && e->configured ? e : NULL;
}

static void entry_free(struct td_entry *e)
{
    for (int i = 0; i < e->n_versions; i++) {
        if (e->versions[i]->servable != NULL) {
            td_servable_unref(e->versions[i]->servable);
        }
        td_version_free(e->versions[i]);
    }
    td_free(e->versions);
    td_model_config_fini(&e->config);
    td_upload_unref(e->upload);
    td_free(e->name);
    td_free(e);
}

enum td_code td_registry_add_entry(struct td_registry *r, const char *name, struct td_entry **out,
                                   struct td_err *err)
{
    bool found = false;
    const int at = find_entry(r, name, &found);
    if (found) {
        *out = r->entries[at];
        return TD_OK;
    }
    struct td_entry **grown = td_realloc(r->entries, (size_t)r->n_entries + 1, sizeof *grown);
    if (grown != NULL) {
        r->entries = grown;
    }
    struct td_entry *e = td_calloc(1, sizeof *e);
    if (e != NULL) {
        e->name = td_strdup(name);
    }
    if (grown == NULL || e == NULL || e->name == NULL) {
        td_free(e == NULL ? NULL : e->name);
        td_free(e);
        return td_no_memory(err, sizeof *e, "a model");
    }
    memmove(grown + at + 1, grown + at, (size_t)(r->n_entries - at) * sizeof *grown);
    grown[at] = e;
    r->n_entries++;
    TD_HOLDS(td_registry_check, r);
    *out = e;
    return TD_OK;
}

enum td_code td_registry_check(const struct td_registry *r, struct td_err *err)
{
    for (int i = 0; i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        TD_WANT(i == 0 || strcmp(r->entries[i - 1]->name, e->name) < 0, err, "model %s stands behind %s",
                e->name, r->entries[i - 1]->name);
        for (int k = 0; k < e->n_versions; k++) {
            const struct td_version *v = e->versions[k];
            TD_WANT((v->servable != NULL) == td_version_is_resident(v), err,
                    "version %lld of model %s is %s and has %s servable", (long long)v->number, e->name,
                    td_registry_state_name(v->state), v->servable != NULL ? "a" : "no");
            TD_WANT(k == 0 || e->versions[k - 1]->number > v->number, err,
                    "version %lld of model %s stands behind %lld", (long long)v->number, e->name,
                    (long long)e->versions[k - 1]->number);
        }
    }
    return TD_OK;
}

static bool idle(const struct td_entry *e)
{
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        if (v->busy || v->n_parked > 0 || v->state != TD_STATE_END) {
            return false;
        }
    }
    return !e->loading;
}

/* Frees removed models beyond the number whose statuses are kept. */
static void purge(struct td_registry *r)
{
    int removed = 0, kept = 0;
    for (int i = 0; i < r->n_entries; i++) {
        struct td_entry *e = r->entries[i];
        removed += !e->configured;
        if (!e->configured && removed > MAX_REMOVED && idle(e)) {
            entry_free(e);
        } else {
            r->entries[kept++] = e;
        }
    }
    r->n_entries = kept;
    TD_HOLDS(td_registry_check, r);
}

/* ------------------------------------------------------------------ changing the list */

static bool is_place(const char *path)
{
    return path[0] == '/' || strstr(path, "://") != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct td_model_config *const *)a)->name,
                  (*(const struct td_model_config *const *)b)->name);
}

static enum td_code check_names(const struct td_model_config *models, int n, struct td_err *err)
{
    const struct td_model_config **sorted = td_calloc((size_t)n + 1, sizeof *sorted);
    if (sorted == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *sorted, "the list of models");
    }
    enum td_code rc = TD_OK;
    for (int i = 0; i < n; i++) {
        sorted[i] = &models[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int i = 1; i < n && rc == TD_OK; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            rc = td_fail(err, TD_INVALID_ARGUMENT, "Illegal to list model %s multiple times in config list",
                         sorted[i]->name);
        }
    }
    td_free(sorted);
    return rc;
}

const struct td_label *td_registry_label(const struct td_model_config *c, const char *name)
{
    for (int i = 0; i < c->n_labels; i++) {
        if (strcmp(c->labels[i].name, name) == 0) {
            return &c->labels[i];
        }
    }
    return NULL;
}

/* A label of a model that is served already may only name a version that can be asked. Caller holds mu. */
static enum td_code check_labels(const struct td_registry *r, const struct td_model_config *c,
                                 struct td_err *err)
{
    const struct td_entry *e = td_registry_entry(r, c->name);
    for (int i = 0; i < c->n_labels; i++) {
        TD_FAIL_IF(td_registry_label(c, c->labels[i].name) != &c->labels[i], err, INVALID_ARGUMENT,
                   "model %s: label %s is given twice", c->name, c->labels[i].name);
        bool available = e == NULL;
        for (int k = 0; e != NULL && k < e->n_versions; k++) {
            available |=
                e->versions[k]->number == c->labels[i].version && e->versions[k]->state == TD_STATE_AVAILABLE;
        }
        const struct td_label *old = e != NULL ? td_registry_label(&e->config, c->labels[i].name) : NULL;
        const bool kept = old != NULL && old->version == c->labels[i].version;
        const bool allowed = r->opts.labels_for_unavailable && old == NULL;
        TD_FAIL_IF(!available && !kept && !allowed, err, FAILED_PRECONDITION,
                   "Request to assign label to version %lld of model %s, which is not currently available "
                   "for inference",
                   (long long)c->labels[i].version, c->name);
    }
    return TD_OK;
}

/* Caller holds mu. */
static enum td_code check_all(const struct td_registry *r, const struct td_model_config *models, int n,
                              struct td_err *err)
{
    TD_TRY(check_names(models, n, err));
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(models[i].name[0] == '\0', err, INVALID_ARGUMENT,
                   "model %d of the config list has no name", i + 1);
        TD_FAIL_IF(!td_utf8(models[i].name, strlen(models[i].name)), err, INVALID_ARGUMENT,
                   "model %d of the config list: its name is no UTF-8", i + 1);
        TD_FAIL_IF(!is_place(models[i].base_path), err, INVALID_ARGUMENT,
                   "Expected model %s to have an absolute path or URI; got base_path()=%s", models[i].name,
                   models[i].base_path);
        TD_TRY(check_labels(r, &models[i], err));
    }
    return TD_OK;
}

/* Puts the checked copies in place; takes them (fields are zeroed as they move). Caller holds mu. */
static enum td_code replace_all(struct td_registry *r, struct td_model_config *models, int n,
                                struct td_err *err)
{
    r->n_changes++;
    for (int i = 0; i < n; i++) { /* make room first: after this nothing fails */
        struct td_entry *e = NULL;
        TD_TRY(td_registry_add_entry(r, models[i].name, &e, err));
    }
    for (int i = 0; i < r->n_entries; i++) { /* what was uploaded is not of the list, and not its to remove */
        r->entries[i]->since = r->entries[i]->configured ? r->entries[i]->since : r->n_changes;
        r->entries[i]->configured = r->entries[i]->uploaded;
    }
    for (int i = 0; i < n; i++) {
        struct td_entry *e = td_registry_any_entry(r, models[i].name);
        const bool moved =
            e->config.base_path == NULL || strcmp(e->config.base_path, models[i].base_path) != 0;
        td_model_config_fini(&e->config);
        e->config = models[i];
        models[i] = (struct td_model_config){0};
        e->configured = true;
        if (e->uploaded) { /* now its folder is what the list says */
            td_upload_unref(e->upload);
            e->upload = NULL;
            e->uploaded = false;
        }
        td_metrics_add_model(e->name);
        if (e->since == r->n_changes || moved) {
            e->held = e->config.on_command;
            e->listed = false;
            e->list_error = (struct td_err){0};
        }
    }
    for (int i = 0; i < r->n_entries; i++) {
        if (!r->entries[i]->configured) {
            td_registry_forget_aspired(r->entries[i]);
        }
    }
    purge(r);
    pthread_cond_broadcast(&r->work);
    return TD_OK;
}

/* Which models' requests are logged from now on. */
static enum td_code put_logs(const struct td_model_config *models, int n, struct td_err *err)
{
    struct td_request_log_setting *s = td_calloc((size_t)n + 1, sizeof *s);
    int n_set = 0;
    if (s == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *s, "the list of models");
    }
    for (int i = 0; i < n; i++) {
        if (models[i].log_prefix != NULL) {
            s[n_set++] =
                (struct td_request_log_setting){models[i].name, models[i].log_prefix, models[i].log_rate};
        }
    }
    const enum td_code rc = td_request_log_replace(s, n_set, err);
    td_free(s);
    return rc;
}

/* *since: the change that this is. */
static enum td_code put_configs(struct td_registry *r, const struct td_model_config *models, int n,
                                uint64_t *since, struct td_err *err)
{
    struct td_model_config *copy = NULL;
    TD_TRY(td_model_configs_copy(&copy, models, n, err));
    pthread_mutex_lock(&r->mu);
    enum td_code rc = check_all(r, copy, n, err);
    rc = rc ? rc : replace_all(r, copy, n, err);
    *since = r->n_changes;
    pthread_mutex_unlock(&r->mu);
    rc = rc ? rc : put_logs(models, n, err);
    td_model_configs_free(copy, n);
    return rc;
}

enum td_code td_registry_configure(struct td_registry *r, const struct td_model_config *models, int n,
                                   bool wait, struct td_err *err)
{
    uint64_t since = 0;
    pthread_mutex_lock(&r->configuring);
    enum td_code rc = put_configs(r, models, n, &since, err);
    if (rc == TD_OK && r->opts.poll_wait_s >= 0) {
        rc = td_registry_list_all(r, NULL, TD_LOOK_POLL, err);
    }
    pthread_mutex_unlock(&r->configuring); /* others may change the list while this one waits */
    if (rc == TD_OK && wait && r->opts.poll_wait_s >= 0) {
        pthread_mutex_lock(&r->mu);
        rc = td_registry_wait_settled(r, &(struct td_registry_pick){.since = since}, err);
        pthread_mutex_unlock(&r->mu);
    }
    return rc;
}

enum td_code td_registry_rescan(struct td_registry *r, const char *model, struct td_err *err)
{
    pthread_mutex_lock(&r->mu);
    struct td_entry *named = model != NULL ? td_registry_entry(r, model) : NULL;
    const bool known = model == NULL || named != NULL;
    if (named != NULL) {
        named->held = false;
    }
    pthread_mutex_unlock(&r->mu);
    TD_FAIL_IF(!known, err, NOT_FOUND, "Could not find any versions of model %s", model);
    TD_TRY(td_registry_list_all(r, model, TD_LOOK_AGAIN, err));
    pthread_mutex_lock(&r->mu);
    const enum td_code rc = td_registry_wait_settled(r, &(struct td_registry_pick){.name = model}, err);
    pthread_mutex_unlock(&r->mu);
    return rc;
}

enum td_code td_registry_look(struct td_registry *r, const char *model, struct td_err *err)
{
    return td_registry_list_all(r, model, TD_LOOK_TAKE, err);
}

/* ------------------------------------------------------------------ life */

static void init_locks(struct td_registry *r)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->configuring, NULL);
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_cond_init(&r->work, &monotonic);
    pthread_cond_init(&r->tick, &monotonic);
    pthread_cond_init(&r->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static enum td_code start_threads(struct td_registry *r, struct td_err *err)
{
    TD_TRY(td_registry_start_loaders(r, err));
    r->has_watcher = pthread_create(&r->watcher, NULL, td_registry_watcher_main, r) == 0;
    TD_FAIL_IF(!r->has_watcher, err, RESOURCE_EXHAUSTED, "starting the watcher: no thread could be made");
    r->has_waker = r->opts.lazy && pthread_create(&r->waker, NULL, td_registry_waker_main, r) == 0;
    TD_FAIL_IF(r->opts.lazy && !r->has_waker, err, RESOURCE_EXHAUSTED,
               "starting the waker: no thread could be made");
    return TD_OK;
}

enum td_code td_registry_start(const struct td_registry_opts *opts, struct td_registry **out,
                               struct td_err *err)
{
    struct td_registry *r = td_calloc(1, sizeof *r);
    if (r == NULL) {
        return td_no_memory(err, sizeof *r, "the registry");
    }
    r->opts = *opts;
    init_locks(r);
    const enum td_code rc = start_threads(r, err);
    if (rc) {
        td_registry_stop(r);
        return rc;
    }
    *out = r;
    return TD_OK;
}

void td_registry_cancel(struct td_registry *r)
{
    pthread_mutex_lock(&r->mu);
    r->stop = true;
    for (int i = 0; i < r->n_entries; i++) {
        for (int k = 0; k < r->entries[i]->n_versions; k++) {
            atomic_store(&r->entries[i]->versions[k]->stop, TD_UNAVAILABLE);
        }
    }
    td_registry_tell(r);
    pthread_cond_broadcast(&r->work);
    pthread_cond_broadcast(&r->tick);
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->mu);
}

void td_registry_stop(struct td_registry *r)
{
    if (r == NULL) {
        return;
    }
    td_registry_cancel(r);
    for (int i = 0; i < r->n_loaders; i++) {
        pthread_join(r->loaders[i], NULL);
    }
    if (r->has_watcher) {
        pthread_join(r->watcher, NULL);
    }
    if (r->has_waker) {
        pthread_join(r->waker, NULL);
    }
    pthread_mutex_lock(&r->mu);
    while (r->n_spare > 0) {
        pthread_cond_wait(&r->changed, &r->mu);
    }
    pthread_mutex_unlock(&r->mu);
    for (int i = 0; i < r->n_entries; i++) {
        entry_free(r->entries[i]);
    }
    td_free(r->entries);
    pthread_cond_destroy(&r->moved);
    pthread_cond_destroy(&r->tick);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mu);
    pthread_mutex_destroy(&r->configuring);
    td_free(r);
}
