/* server/models/registry_wait.c - waiting until models are settled, and what is wrong with those that serve
 * nothing then.
 *
 * Who waits has been told to by a client: a thread that waits is one of few (max_waiting), works for the
 * client's request (core/base/work.h), and looks now and then whether that is over: its deadline has
 * passed, or its client has left. Otherwise it sleeps until a state changes.
 *
 * Threads: any that may be kept; callers hold mu, which is let go while they wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_impl.h"

#include <stdio.h>
#include <string.h>

#include "core/base/work.h"
#include "server/base/clock.h"

#define LOOK_NS 50000000 /* how often the work at hand is looked at */

enum td_code td_registry_begin_wait(struct td_registry *r, struct td_err *err)
{
    const int most = r->opts.max_waiting;
    TD_FAIL_IF(most > 0 && r->n_waiting >= most, err, RESOURCE_EXHAUSTED,
               "%d requests wait for models already: --max_waiting_commands is %d", r->n_waiting, most);
    r->n_waiting++;
    return TD_OK;
}

void td_registry_end_wait(struct td_registry *r)
{
    r->n_waiting--;
}

enum td_code td_registry_wait_changed(struct td_registry *r, struct td_err *err)
{
    TD_FAIL_IF(r->stop, err, UNAVAILABLE, "the server is shutting down");
    const enum td_code why = td_work_over();
    TD_FAIL_IF(why == TD_DEADLINE_EXCEEDED, err, DEADLINE_EXCEEDED,
               "the request's deadline has passed, and the models are not settled yet");
    if (why) {
        return td_work_error(why, err);
    }
    const int64_t due_ns = td_clock_ns() + LOOK_NS;
    const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    (void)pthread_cond_timedwait(&r->changed, &r->mu, &at);
    return TD_OK;
}

static void add_failure(struct td_failures *f, const char *one)
{
    const size_t len = strlen(one), room = sizeof f->text - 1 - f->at;
    memcpy(f->text + f->at, one, len < room ? len : room);
    f->at += len < room ? len : room;
    f->text[f->at] = '\0';
    f->n++;
}

void td_failures_add(struct td_failures *f, const char *model, int64_t version, const struct td_err *why)
{
    char one[1400];
    (void)snprintf(one, sizeof one, "{{name: %s version: %lld} due to error: %s: %s}, ", model,
                   (long long)version, td_code_name(why->code), why->msg);
    add_failure(f, one);
}

enum td_code td_failures_tell(const struct td_failures *f, struct td_err *err)
{
    TD_FAIL_IF(f->n > 0, err, UNAVAILABLE, "%d servable(s) did not become available: {%s}", f->n, f->text);
    return TD_OK;
}

/* Why a model serves nothing, unless it does. */
static void look_for_failure(const struct td_entry *e, struct td_failures *f)
{
    char one[1400];
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        if (v->aspired && v->error.code != TD_OK) {
            td_failures_add(f, e->name, v->number, &v->error);
            return;
        }
    }
    (void)snprintf(one, sizeof one, "{{name: %s} due to error: %s}, ", e->name,
                   e->list_error.code ? e->list_error.msg : "no version under its base path");
    add_failure(f, one);
}

static bool is_picked(const struct td_entry *e, const struct td_registry_pick *pick)
{
    return e->configured && (pick->name == NULL || strcmp(e->name, pick->name) == 0) &&
           (pick->since == 0 || e->since == pick->since);
}

static bool is_settled(const struct td_version *v)
{
    return !v->aspired || !(v->busy || v->stale || (v->cold && v->demanded) ||
                            (v->state != TD_STATE_AVAILABLE && v->state != TD_STATE_END));
}

bool td_registry_settled(const struct td_entry *e)
{
    for (int i = 0; i < e->n_versions; i++) {
        if (!is_settled(e->versions[i])) {
            return false;
        }
    }
    return true;
}

bool td_registry_version_settled(struct td_registry *r, const char *model, int64_t version)
{
    pthread_mutex_lock(&r->mu);
    const struct td_entry *e = td_registry_entry(r, model);
    const struct td_version *v = e == NULL ? NULL : td_registry_version(e, version);
    const bool settled = v == NULL || is_settled(v);
    pthread_mutex_unlock(&r->mu);
    return settled;
}

static bool are_settled(const struct td_registry *r, const struct td_registry_pick *pick)
{
    for (int i = 0; i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        if (is_picked(e, pick) && !(e->listed && td_registry_settled(e))) {
            return false;
        }
    }
    return true;
}

/* Names those that serve nothing. */
static enum td_code failures(const struct td_registry *r, const struct td_registry_pick *pick,
                             struct td_err *err)
{
    struct td_failures f = {.n = 0};
    for (int i = 0; i < r->n_entries; i++) {
        if (is_picked(r->entries[i], pick) && !td_registry_has_available(r->entries[i])) {
            look_for_failure(r->entries[i], &f);
        }
    }
    return td_failures_tell(&f, err);
}

enum td_code td_registry_wait_settled(struct td_registry *r, const struct td_registry_pick *pick,
                                      struct td_err *err)
{
    TD_FAIL_IF(r->stop, err, UNAVAILABLE, "the server is shutting down");
    if (!are_settled(r, pick)) {
        TD_TRY(td_registry_begin_wait(r, err));
        enum td_code rc = TD_OK;
        while (rc == TD_OK && !are_settled(r, pick)) {
            rc = td_registry_wait_changed(r, err);
        }
        td_registry_end_wait(r);
        TD_TRY(rc);
    }
    return failures(r, pick, err);
}
