/* server/models/registry_list.c - looks into the models' folders, when asked and every poll period.
 *
 * Folders are listed, and the files in them looked at, without the lock, from copies of names and paths;
 * what was seen counts only if the entry still has that path. The lock is taken in between to ask which
 * folders the policy wants: old versions may be many.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_cold.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/mapping.h"
#include "server/base/clock.h"
#include "server/models/version_files.h"
#include "server/models/watch_memory.h"

#define SECOND_NS 1000000000
#define SLACK_NS 1e6

struct place {
    char *name, *base_path;
    bool has_policy;          /* of versions, in a file of its own */
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
            p[count] = (struct place){.name = td_strdup(e->name),
                                      .base_path = td_strdup(base_of(e)),
                                      .has_policy = e->config.policy_of_model,
                                      .upload = td_upload_ref(e->upload)};
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
    td_registry_tell(r);
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

/* Is anything of what serves gone, or another than what is mapped? */
static void look_for_damage(struct td_sight *s)
{
    const bool damages = td_mapping_damages() > s->damages;
    if (!damages && s->seen.model == s->served.model) {
        return;
    }
    char *dir = td_version_files_model_dir(s->dir->path);
    const bool cut = dir != NULL && damages && td_mapping_damaged_below(dir);
    if (cut) {
        (void)td_fail(&s->fault, TD_DATA_LOSS, "a file that is mapped was truncated");
    } else if (dir != NULL && s->seen.model != s->served.model) {
        (void)!td_version_files_check(dir, &s->fault);
    }
    td_free(dir);
}

/* Looks at the files of the folders that count: takes its time. Without mu. */
static void look_at(struct td_watch_memory *m, struct td_sight *sights, int n, enum td_look how)
{
    for (int i = 0; i < n; i++) {
        struct td_sight *s = &sights[i];
        if (s->wanted && (how != TD_LOOK_DAMAGE || s->serves)) {
            td_watch_memory_look(m, s->dir->path, &s->seen);
            if (s->serves) {
                look_for_damage(s);
            }
        }
    }
}

/* What is found counts only if the entry is still of that place. Caller holds mu. */
static struct td_entry *entry_of(const struct td_registry *r, const struct place *p)
{
    struct td_entry *e = td_registry_entry(r, p->name);
    return e != NULL && !e->held && strcmp(base_of(e), p->base_path) == 0 ? e : NULL;
}

/* Caller holds mu. rc: of the listing. */
static void take_sights(struct td_registry *r, struct td_entry *e, struct td_sight *sights, int n,
                        enum td_look how)
{
    struct td_err err = {0};
    const bool warn = n == 0 && !e->listed;
    if (how == TD_LOOK_DAMAGE) {
        td_registry_doubt(r, e, sights, n);
    } else if (td_registry_aspire(r, e, sights, n, how, &err)) {
        note_list_error(r, e, &err);
    } else if (warn) {
        td_log(TD_LOG_WARNING, &(struct td_log_about){.model = e->name},
               "No versions of servable %s found under base path %s", e->name, base_of(e));
    }
}

static void list_dirs(struct td_registry *r, struct td_watch_memory *m, const struct place *p,
                      struct td_sight *sights, int n, enum td_look how)
{
    struct td_version_policy policy = p->has_policy ? policy_of(p) : (struct td_version_policy){0};
    pthread_mutex_lock(&r->mu);
    struct td_entry *e = entry_of(r, p);
    if (e != NULL) {
        if (p->has_policy) {
            use_policy(e, &policy);
        }
        td_registry_choose(e, sights, n);
    }
    pthread_mutex_unlock(&r->mu);
    td_free(policy.versions);
    if (e == NULL) {
        return;
    }
    look_at(m, sights, n, how);
    pthread_mutex_lock(&r->mu);
    e = entry_of(r, p);
    if (e != NULL) {
        take_sights(r, e, sights, n, how);
    }
    pthread_mutex_unlock(&r->mu);
    for (int i = 0; i < n; i++) {
        if (sights[i].gone != NULL) {
            td_servable_unref(sights[i].gone);
        }
    }
}

static void list_one(struct td_registry *r, struct td_watch_memory *m, const struct place *p,
                     enum td_look how)
{
    struct td_version_dir *dirs = NULL;
    struct td_err err = {0};
    int n = 0;
    enum td_code rc = td_watch_memory_list(m, p->base_path, &dirs, &n, &err);
    struct td_sight *sights = rc == TD_OK ? td_calloc((size_t)n + 1, sizeof *sights) : NULL;
    rc = rc == TD_OK && sights == NULL ? td_no_memory(&err, (size_t)n * sizeof *sights, "a list of versions")
                                       : rc;
    if (rc == TD_OK) {
        for (int i = 0; i < n; i++) {
            sights[i].dir = &dirs[i];
        }
        list_dirs(r, m, p, sights, n, how);
    } else {
        pthread_mutex_lock(&r->mu);
        struct td_entry *e = entry_of(r, p);
        if (e != NULL) {
            note_list_error(r, e, &err);
        }
        pthread_mutex_unlock(&r->mu);
    }
    td_free(sights);
    td_watch_free(dirs, n);
}

static enum td_code list_all(struct td_registry *r, struct td_watch_memory *m, const char *only,
                             enum td_look how, struct td_err *err)
{
    struct place *places = NULL;
    int n = 0;
    TD_TRY(copy_places(r, only, &places, &n, err));
    for (int i = 0; i < n; i++) {
        list_one(r, m, &places[i], how);
    }
    places_free(places, n);
    return TD_OK;
}

enum td_code td_registry_list_all(struct td_registry *r, const char *only, enum td_look how,
                                  struct td_err *err)
{
    return list_all(r, NULL, only, how, err);
}

/* When the watcher looks next: a period from now, sooner for what waits to be quiet, and once a second at the
 * least to see whether a mapped file was cut. Caller holds mu. */
static int64_t next_look_ns(const struct td_registry *r)
{
    const int64_t period_ns = r->opts.poll_wait_s > 0 ? (int64_t)(r->opts.poll_wait_s * 1e9) : INT64_MAX;
    const int64_t most_ns = r->any_unquiet && period_ns / 4 < SECOND_NS ? period_ns / 4 : SECOND_NS;
    return td_clock_ns() + (period_ns < most_ns ? period_ns : most_ns);
}

static void look(struct td_registry *r, struct td_watch_memory *m, enum td_look how)
{
    struct td_err err = {0};
    if (list_all(r, m, NULL, how, &err)) {
        td_log(TD_LOG_WARNING, NULL, "looking for versions: %s", err.msg);
    }
    if (m != NULL && how == TD_LOOK_POLL) {
        td_watch_memory_round(m);
    }
}

void *td_registry_watcher_main(void *arg)
{
    struct td_registry *r = arg;
    const bool polls = r->opts.poll_wait_s > 0;
    int64_t looked_ns = td_clock_ns();
    unsigned long damages = td_mapping_damages();
    struct td_watch_memory *memory = td_watch_memory_new();
    pthread_mutex_lock(&r->mu);
    while (!r->stop) {
        const int64_t due_ns = next_look_ns(r);
        const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
        if (pthread_cond_timedwait(&r->tick, &r->mu, &at) == 0) {
            continue;
        }
        td_registry_spare_loader(r);
        const int64_t now_ns = td_clock_ns();
        const bool due =
            polls && (r->any_unquiet || (double)(now_ns - looked_ns) >= r->opts.poll_wait_s * 1e9 - SLACK_NS);
        const bool cut = td_mapping_damages() != damages;
        r->any_unquiet = r->any_unquiet && !due;
        pthread_mutex_unlock(&r->mu);
        if (due || cut) {
            damages = td_mapping_damages();
            looked_ns = due ? now_ns : looked_ns;
            look(r, memory, due ? TD_LOOK_POLL : TD_LOOK_DAMAGE);
        }
        if (r->opts.max_resident_bytes > 0) {
            td_registry_weigh(r);
        }
        pthread_mutex_lock(&r->mu);
    }
    pthread_mutex_unlock(&r->mu);
    td_watch_memory_free(memory);
    return NULL;
}
