/* server/models/registry_cold.c - requests that wait for a version to be loaded.
 *
 *   find    a cold version: the request is told so, and fails for now; nothing has been decoded
 *   await   it is parked, and its thread does other things; a loader sees that the version is waited for
 *   waker   when the version is resident, the load has failed, or the request is over: go, on whose front
 *           end the request begins again, or ends
 *
 * A parked request pins its entry and version, so both can be looked at as long as it waits. What it means
 * may change meanwhile: a newer version came, this one's folder went, the model was unloaded. Then it is sent
 * back to look again, as soon as the versions that are wanted now are known.
 *
 * The waker sleeps while nobody is parked; else until something changes, and looks now and then whether a
 * request's deadline has passed or its client has left.
 *
 * Threads: await on any; go on the waker. Does not: decide what is loaded (server/models/registry_load.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_cold.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"

#define LOOK_NS 20000000 /* how often the parked requests' works are looked at */

void td_cold_fini(struct td_cold *c)
{
    td_free(c->model);
    td_free(c->dir);
    *c = (struct td_cold){0};
}

enum td_code td_registry_load_error(const struct td_entry *e, const struct td_version *v,
                                    const struct td_err *why, struct td_err *err)
{
    const bool keeps =
        why->code == TD_RESOURCE_EXHAUSTED || why->code == TD_DEADLINE_EXCEEDED || why->code == TD_DATA_LOSS;
    return td_fail(err, keeps ? why->code : TD_UNAVAILABLE, "model '%s' version %lld does not load: %.700s",
                   e->name, (long long)v->number, why->msg);
}

/* The version that is cold; NULL: it is not any more. Caller holds mu. */
static struct td_version *find_cold(const struct td_registry *r, const struct td_cold *cold,
                                    struct td_entry **entry)
{
    *entry = td_registry_entry(r, cold->model);
    return *entry != NULL ? td_registry_version(*entry, cold->version) : NULL;
}

enum td_code td_registry_await(struct td_registry *r, const struct td_cold *cold, const struct td_work *work,
                               td_registry_go_fn *go, void *ctx, struct td_err *err)
{
    struct td_parked *p = td_calloc(1, sizeof *p);
    if (p == NULL) {
        return td_no_memory(err, sizeof *p, "a request that waits for its model");
    }
    *p = (struct td_parked){.work = work, .go = go, .ctx = ctx, .from_ns = td_clock_ns()};
    pthread_mutex_lock(&r->mu);
    enum td_code rc = TD_OK;
    if (r->stop) {
        rc = td_fail(err, TD_UNAVAILABLE, "the server is shutting down");
    } else if (r->n_parked >= TD_MAX_PARKED) {
        rc = td_fail(err, TD_RESOURCE_EXHAUSTED, "%d requests wait for models to be loaded already",
                     r->n_parked);
    } else {
        p->version = find_cold(r, cold, &p->entry);
        if (p->version != NULL) {
            p->version->asked = p->version->asked > 0 ? p->version->asked : ++r->n_uses;
            p->version->n_parked++;
        }
        p->next = r->parked;
        r->parked = p;
        r->n_parked++;
        pthread_cond_signal(&r->work);
        pthread_cond_signal(&r->moved);
    }
    pthread_mutex_unlock(&r->mu);
    if (rc) {
        td_free(p);
    }
    return rc;
}

void td_registry_fail_parked(struct td_registry *r, const struct td_version *v, const struct td_err *why)
{
    for (struct td_parked *p = r->parked; p != NULL; p = p->next) {
        if (p->version == v && !p->over && v->aspired) {
            (void)td_registry_load_error(p->entry, v, why, &p->err);
            p->over = true;
        }
    }
}

/* ------------------------------------------------------------------ the waker */

static enum td_code work_over(const struct td_parked *p, struct td_err *err)
{
    const enum td_code why = td_work_why(p->work);
    TD_FAIL_IF(why == TD_DEADLINE_EXCEEDED && p->version != NULL, err, DEADLINE_EXCEEDED,
               "the request's deadline has passed while model '%s' version %lld was being loaded",
               p->entry->name, (long long)p->version->number);
    return why ? td_work_error(why, err) : TD_OK;
}

/* Whether it need wait no longer, and with what outcome. Caller holds mu. */
static bool is_over(struct td_registry *r, struct td_parked *p)
{
    struct td_version *v = p->version;
    if (p->over) {
        return true;
    }
    if (r->stop) {
        (void)td_fail(&p->err, TD_UNAVAILABLE, "the server is shutting down");
        return true;
    }
    if (work_over(p, &p->err)) {
        return true;
    }
    if (v == NULL || !p->entry->configured) {
        return true; /* it shall look again */
    }
    if (!v->aspired) { /* once it is known what takes its place */
        return td_registry_settled(p->entry);
    }
    if (td_version_is_resident(v) && !v->leaving) {
        p->servable = td_servable_ref(v->servable);
        v->used = ++r->n_uses;
        return true;
    }
    return v->state == TD_STATE_END && !v->busy; /* withdrawn meanwhile: look again */
}

/* Takes those off the list that are over. Caller holds mu. */
static struct td_parked *take_over(struct td_registry *r)
{
    struct td_parked *over = NULL, **at = &r->parked;
    while (*at != NULL) {
        struct td_parked *p = *at;
        if (!is_over(r, p)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        r->n_parked--;
        if (p->version != NULL) {
            p->version->n_parked--;
            p->version->asked = td_version_is_called_for(p->version) ? p->version->asked : 0;
        }
        p->next = over; /* the oldest comes to stand first */
        over = p;
    }
    return over;
}

static void wake(struct td_parked *over)
{
    while (over != NULL) {
        struct td_parked *p = over;
        over = p->next;
        if (p->servable != NULL) {
            td_metrics_cold_start(td_metrics_model(td_servable_name(p->servable)),
                                  (td_clock_ns() - p->from_ns) / 1000);
        }
        p->go(p->ctx, p->servable, &p->err);
        td_free(p);
    }
}

void *td_registry_waker_main(void *arg)
{
    struct td_registry *r = arg;
    pthread_mutex_lock(&r->mu);
    while (!r->stop || r->parked != NULL) {
        struct td_parked *over = take_over(r);
        if (over != NULL) {
            pthread_mutex_unlock(&r->mu);
            wake(over);
            pthread_mutex_lock(&r->mu);
        } else if (r->parked == NULL) {
            pthread_cond_wait(&r->moved, &r->mu);
        } else {
            const int64_t due_ns = td_clock_ns() + LOOK_NS;
            const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
            (void)pthread_cond_timedwait(&r->moved, &r->mu, &at);
        }
    }
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

/* ------------------------------------------------------------------ what is told of cold versions */

static bool is_named(const char *names, const char *key)
{
    for (const char *n = names; n != NULL && *n != '\0'; n += strlen(n) + 1) {
        if (strcmp(n, key) == 0) {
            return true;
        }
    }
    return false;
}

bool td_registry_cold_has(struct td_registry *r, const struct td_cold *cold, const char *signature)
{
    struct td_entry *e = NULL;
    pthread_mutex_lock(&r->mu);
    const struct td_version *v = find_cold(r, cold, &e);
    const bool has = v != NULL && v->cold &&
                     (signature == NULL || *signature == '\0' || is_named(v->signatures, signature));
    pthread_mutex_unlock(&r->mu);
    return has;
}

char *td_registry_signatures(struct td_registry *r, const char *model, int64_t version)
{
    char *copy = NULL;
    pthread_mutex_lock(&r->mu);
    const struct td_entry *e = td_registry_entry(r, model);
    const struct td_version *v = e != NULL ? td_registry_version(e, version) : NULL;
    if (v != NULL && v->signatures != NULL) {
        size_t n = 1;
        for (const char *s = v->signatures; *s != '\0'; s += strlen(s) + 1) {
            n += strlen(s) + 1;
        }
        copy = td_calloc(n, 1);
        if (copy != NULL) {
            memcpy(copy, v->signatures, n);
        }
    }
    pthread_mutex_unlock(&r->mu);
    return copy;
}
