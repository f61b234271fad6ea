/* server/models/registry_aspire.c - which versions a model shall have, and in what state their files are.
 *
 * The folders that were listed become the aspired versions, as the policy selects. One is taken, to be
 * loaded, when its files have been quiet: none was touched for a poll period, or between two looks. What a
 * command points at, and what is there when a model is first listed, is taken at once. Whether a folder is
 * complete is asked when it is loaded (server/models/version_files.h): one that is not has failed, and is
 * tried again as soon as its files have changed and are quiet again.
 *
 * The files of a version that serves are compared with those that it was loaded from:
 *
 *   some are gone or too short, or bytes that are mapped were written over   it stops serving at once
 *   others have changed                          once they are quiet, it is loaded again beside itself; what
 *                                                served before stops when that fails
 *
 * Either way it is loaded anew when its files change once more. Where its folder is another one by now (an
 * upload's, or a new base path's), the files that it was loaded from are not in question: it goes on until
 * those of the other folder have loaded, and if they fail.
 *
 * Threads: any; callers hold mu, and looked at the files before they took it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_impl.h"

#include <string.h>
#include <time.h>

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/mapping.h"
#include "server/base/metrics.h"

#define QUIET_MOST_S 2.0 /* what a poll period counts as at most here */

void td_version_free(struct td_version *v)
{
    if (v->dir != NULL) {
        td_metrics_forget(v->dir);
    }
    td_free(v->signatures);
    td_free(v->served_dir);
    td_free(v->dir);
    td_free(v);
}

bool td_version_serves_from(const struct td_version *v, const char *dir)
{
    return v->state == TD_STATE_AVAILABLE && v->served_dir != NULL && strcmp(v->served_dir, dir) == 0;
}

struct td_version *td_registry_version(const struct td_entry *e, int64_t number)
{
    for (int i = 0; i < e->n_versions; i++) {
        if (e->versions[i]->number == number) {
            return e->versions[i];
        }
    }
    return NULL;
}

static enum td_code insert_version(struct td_entry *e, const struct td_version_dir *d,
                                   struct td_version **out, struct td_err *err)
{
    struct td_version **grown = td_realloc(e->versions, (size_t)e->n_versions + 1, sizeof *grown);
    if (grown != NULL) {
        e->versions = grown;
    }
    struct td_version *v = td_calloc(1, sizeof *v);
    if (v != NULL) {
        v->dir = td_strdup(d->path);
    }
    if (grown == NULL || v == NULL || v->dir == NULL) {
        td_free(v == NULL ? NULL : v->dir);
        td_free(v);
        return td_no_memory(err, sizeof *v, "a model version");
    }
    v->number = d->version;
    v->state = TD_STATE_START;
    v->aspired = true;
    int at = e->n_versions++;
    for (; at > 0 && e->versions[at - 1]->number < v->number; at--) {
        e->versions[at] = e->versions[at - 1];
    }
    e->versions[at] = v;
    *out = v;
    return TD_OK;
}

void td_version_start_over(struct td_version *v)
{
    v->state = TD_STATE_START;
    v->error = (struct td_err){0};
    v->n_tries = 0;
    v->next_try_ns = 0;
    v->stale = false;
}

/* Whether nobody writes to the files any more: none was touched for a while, or since the last look. */
static bool is_quiet(const struct td_registry *r, const struct td_version *v,
                     const struct td_watch_seen *seen)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double period_s = r->opts.poll_wait_s < QUIET_MOST_S ? r->opts.poll_wait_s : QUIET_MOST_S;
    const int64_t age_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - seen->newest_ns;
    return (double)age_ns >= period_s * 1e9 || v->seen.stamp == seen->stamp;
}

/* What serves loses its files: nothing is asked of it from now on. */
static void withdraw(struct td_entry *e, struct td_version *v, struct td_sight *s)
{
    s->gone = v->servable;
    v->servable = NULL;
    v->state = TD_STATE_END;
    v->cold = v->leaving = false;
    v->damaged = true;
    v->stale = v->changed = false;
    v->next_try_ns = 0;
    v->tried = v->served; /* the files as they are now have not been tried */
    (void)td_fail(&v->error, TD_DATA_LOSS, "it was damaged while it served: %.800s", s->fault.msg);
    td_log(TD_LOG_ERROR, &(struct td_log_about){.model = e->name, .version = v->number},
           "Withdrew servable version {name: %s version: %lld}: %s", e->name, (long long)v->number,
           v->error.msg);
}

/* Compares the files of a version that serves with those that it was loaded from. */
static void look_at_served(struct td_entry *e, struct td_version *v, struct td_sight *s)
{
    const bool changed = td_version_serves_from(v, v->dir);
    if (changed && v->served.model == s->seen.model && s->fault.code == TD_OK) {
        return;
    }
    if (changed && s->fault.code == TD_OK && !v->cold && v->served.places == s->seen.places &&
        v->served.weights != s->seen.weights) {
        (void)td_fail(&s->fault, TD_DATA_LOSS, "its weights were written over where they are mapped");
    }
    if (s->fault.code != TD_OK) {
        withdraw(e, v, s);
    } else if (v->quiet && v->tried.model != s->seen.model) {
        v->stale = true;
        v->changed = changed;
    }
}

/* A version on disk that the policy wants. */
static enum td_code aspire_one(struct td_registry *r, struct td_entry *e, struct td_sight *s,
                               enum td_look how, struct td_err *err)
{
    struct td_version *v = td_registry_version(e, s->dir->version);
    if (v == NULL) {
        TD_TRY(insert_version(e, s->dir, &v, err));
    } else if (strcmp(v->dir, s->dir->path) != 0) {
        char *dir = td_strdup(s->dir->path);
        if (dir == NULL) {
            return td_no_memory(err, strlen(s->dir->path), "a model version");
        }
        td_free(v->dir);
        v->dir = dir;
    }
    v->quiet = how != TD_LOOK_POLL || !e->listed || is_quiet(r, v, &s->seen);
    v->seen = s->seen;
    if (!v->busy && v->state == TD_STATE_AVAILABLE) {
        look_at_served(e, v, s);
    }
    const bool failed = v->state == TD_STATE_END && v->error.code != TD_OK;
    if (!v->busy && v->state == TD_STATE_END &&
        (!v->aspired || !failed || how == TD_LOOK_AGAIN || (v->quiet && s->seen.stamp != v->tried.stamp))) {
        td_version_start_over(v);
    }
    v->aspired = true;
    return TD_OK;
}

static bool wanted(const struct td_model_config *c, int64_t version, int i_from_top)
{
    if (c->policy == TD_POLICY_ALL) {
        return true;
    }
    if (c->policy == TD_POLICY_LATEST) {
        return i_from_top < c->n_latest;
    }
    for (int i = 0; i < c->n_versions; i++) {
        if (c->versions[i] == version) {
            return true;
        }
    }
    return false;
}

/* Nobody wants what is being loaded. */
static void end_load(struct td_version *v)
{
    if (!v->aspired && (v->state == TD_STATE_LOADING || v->loading)) {
        atomic_store(&v->stop, TD_CANCELLED);
    }
    v->demanded = v->demanded && v->aspired;
}

static bool on_list(const struct td_sight *sights, int n, int64_t version)
{
    for (int i = 0; i < n; i++) {
        if (sights[i].dir->version == version) {
            return sights[i].wanted;
        }
    }
    return false;
}

void td_registry_choose(struct td_entry *e, struct td_sight *sights, int n)
{
    for (int i = 0; i < n; i++) {
        struct td_sight *s = &sights[i];
        const struct td_version *v = td_registry_version(e, s->dir->version);
        s->wanted = wanted(&e->config, s->dir->version, i);
        s->serves = v != NULL && td_version_serves_from(v, s->dir->path);
        if (s->serves) {
            s->served = v->served;
            s->damages = v->damages;
        }
    }
}

/* Drops rows that say nothing any more: never loaded, or too many that ended long ago (the lowest first). */
static void drop_rows(struct td_entry *e)
{
    int ended = 0, kept = 0;
    for (int i = 0; i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        const bool gone = !v->aspired && !v->busy && v->n_parked == 0 &&
                          (v->state == TD_STATE_START || v->state == TD_STATE_END);
        if (gone && (v->state == TD_STATE_START || ++ended > TD_MAX_ENDED)) {
            td_version_free(v);
        } else {
            e->versions[kept++] = v;
        }
    }
    e->n_versions = kept;
}

/* Differs when something is to be done for the model, or to be told of it. */
static uint64_t gist(const struct td_entry *e)
{
    const int of_all[] = {e->n_versions, e->listed, (int)e->list_error.code};
    uint64_t h = td_hash_bytes(of_all, sizeof of_all);
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        const int64_t of_one[] = {v->number, v->state, v->aspired, v->quiet, v->stale};
        h = td_hash_more(h, of_one, sizeof of_one);
    }
    return h;
}

enum td_code td_registry_aspire(struct td_registry *r, struct td_entry *e, struct td_sight *sights, int n,
                                enum td_look how, struct td_err *err)
{
    const uint64_t before = gist(e);
    for (int i = 0; i < n; i++) {
        if (sights[i].wanted) {
            TD_TRY(aspire_one(r, e, &sights[i], how, err));
        }
    }
    for (int i = 0; i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        v->aspired = v->aspired && on_list(sights, n, v->number);
        end_load(v);
        r->any_unquiet |= v->aspired && !v->quiet;
    }
    drop_rows(e);
    e->listed = true;
    e->list_error = (struct td_err){0};
    TD_HOLDS(td_registry_check, r);
    if (gist(e) != before) { /* of hundreds of models few have changed */
        pthread_cond_broadcast(&r->work);
        td_registry_tell(r);
    }
    return TD_OK;
}

void td_registry_doubt(struct td_registry *r, struct td_entry *e, struct td_sight *sights, int n)
{
    for (int i = 0; i < n; i++) {
        struct td_version *v = sights[i].serves ? td_registry_version(e, sights[i].dir->version) : NULL;
        if (v != NULL && !v->busy && v->state == TD_STATE_AVAILABLE && sights[i].fault.code != TD_OK) {
            withdraw(e, v, &sights[i]);
        }
    }
    TD_HOLDS(td_registry_check, r);
    td_registry_tell(r);
}

void td_registry_forget_aspired(struct td_entry *e)
{
    for (int i = 0; i < e->n_versions; i++) {
        e->versions[i]->aspired = false;
        end_load(e->versions[i]);
    }
    drop_rows(e);
}
