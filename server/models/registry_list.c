/* server/models/registry_list.c - looks into the models' folders, when asked and every poll period.
 *
 * Folders are listed without the lock, from copies of names and paths; what was listed counts only if the
 * entry still has that path.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_impl.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"

struct place {
    char *name, *base_path;
    struct td_upload *upload; /* counted */
};

/* The folder that its versions are looked for in. Borrowed; caller holds mu. */
static const char *base_of(const struct td_entry *e)
{
    const char *base = td_upload_base(e->upload);
    return base != NULL ? base : e->config.base_path;
}

static void places_free(struct place *p, int n)
{
    for (int i = 0; i < n; i++) {
        td_free(p[i].name);
        td_free(p[i].base_path);
        td_upload_unref(p[i].upload);
    }
    td_free(p);
}

/* Names and paths of the configured models (only: just that one). */
static enum td_code copy_places(struct td_registry *r, const char *only, struct place **out, int *n,
                                struct td_err *err)
{
    pthread_mutex_lock(&r->mu);
    struct place *p = td_calloc((size_t)r->n_entries + 1, sizeof *p);
    int count = 0;
    bool whole = p != NULL;
    for (int i = 0; whole && i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        if (e->configured && (only == NULL || strcmp(e->name, only) == 0)) {
            p[count] = (struct place){td_strdup(e->name), td_strdup(base_of(e)), td_upload_ref(e->upload)};
            whole = p[count].name != NULL && p[count].base_path != NULL;
            count++;
        }
    }
    pthread_mutex_unlock(&r->mu);
    if (!whole) {
        places_free(p, count);
        return td_no_memory(err, sizeof *p, "the list of models");
    }
    *out = p;
    *n = count;
    return TD_OK;
}

/* Caller holds mu. */
static void note_list_error(struct td_registry *r, struct td_entry *e, const struct td_err *why)
{
    const bool said = e->listed && e->list_error.code == why->code;
    e->listed = true;
    e->list_error = *why;
    pthread_cond_broadcast(&r->changed);
    if (!said) {
        td_log(TD_LOG_WARNING, &(struct td_log_about){.model = e->name}, "model %s: %s", e->name, why->msg);
    }
}

/* What the model's own file says of versions, where its configuration says nothing. Takes the list of it.
 * Caller holds mu. */
static void use_policy(struct td_entry *e, struct td_version_policy *takes)
{
    struct td_model_config *c = &e->config;
    if (c->policy_of_model) {
        td_free(c->versions);
        c->policy = takes->kind;
        c->n_latest = takes->n_latest;
        c->versions = takes->versions;
        c->n_versions = takes->n_versions;
        takes->versions = NULL;
    }
}

static struct td_version_policy policy_of(const struct place *p)
{
    size_t n = 0;
    const char *json = p->upload != NULL ? td_upload_config(p->upload, &n) : NULL;
    return json != NULL ? td_model_config_policy_json(json, n) : td_model_config_policy(p->base_path);
}

static void list_one(struct td_registry *r, const struct place *p, bool again)
{
    struct td_version_dir *dirs = NULL;
    struct td_err err = {0};
    int n = 0;
    enum td_code rc = td_watch_list(p->base_path, &dirs, &n, &err);
    struct td_version_policy policy = policy_of(p);
    pthread_mutex_lock(&r->mu);
    struct td_entry *e = td_registry_entry(r, p->name);
    if (e != NULL && !e->held && strcmp(base_of(e), p->base_path) == 0) {
        const bool warn = n == 0 && !e->listed;
        use_policy(e, &policy);
        rc = rc ? rc : td_registry_aspire(r, e, dirs, n, again, &err);
        if (rc) {
            note_list_error(r, e, &err);
        } else if (warn) {
            td_log(TD_LOG_WARNING, &(struct td_log_about){.model = p->name},
                   "No versions of servable %s found under base path %s", p->name, p->base_path);
        }
    }
    pthread_mutex_unlock(&r->mu);
    td_free(policy.versions);
    td_watch_free(dirs, n);
}

enum td_code td_registry_list_all(struct td_registry *r, const char *only, bool again, struct td_err *err)
{
    struct place *places = NULL;
    int n = 0;
    TD_TRY(copy_places(r, only, &places, &n, err));
    for (int i = 0; i < n; i++) {
        list_one(r, &places[i], again);
    }
    places_free(places, n);
    return TD_OK;
}

void *td_registry_watcher_main(void *arg)
{
    struct td_registry *r = arg;
    const int64_t period_ns = (int64_t)(r->opts.poll_wait_s * 1e9);
    pthread_mutex_lock(&r->mu);
    while (!r->stop) {
        const int64_t due_ns = td_clock_ns() + period_ns;
        const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
        if (pthread_cond_timedwait(&r->tick, &r->mu, &at) == 0) {
            continue;
        }
        pthread_mutex_unlock(&r->mu);
        struct td_err err = {0};
        if (td_registry_list_all(r, NULL, false, &err)) {
            td_log(TD_LOG_WARNING, NULL, "looking for versions: %s", err.msg);
        }
        pthread_mutex_lock(&r->mu);
    }
    pthread_mutex_unlock(&r->mu);
    return NULL;
}
