/* server/models/registry_load.c - what to load and unload next, and the threads that do it.
 *
 * Loaders look for one action at a time under the lock, perform it without, and record the outcome. An
 * aspired version that is not loaded is loaded, the highest of a model first. A version that is no longer
 * aspired is withdrawn once another one of the model can take over (or none is aspired at all), so a model
 * never has a gap; of several that linger only the highest stays. A stale version is loaded again beside
 * itself, and the new one takes its place when it is ready. Withdrawing drops the registry's reference:
 * running requests keep theirs.
 *
 * A load is a work with a stop word, set when nobody wants the version any more or the server stops, and a
 * deadline. Loaders that are all long at something get help: the watcher makes one more a second while
 * there is something to do, and those end when there is not.
 *
 * Invariant (td_registry_check): v->servable is set exactly while v->state is AVAILABLE.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_impl.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/bytes/mapping.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"

#define LOADER_NICE 10    /* loading yields the processor to requests */
#define LONG_NS 900000000 /* all loaders at it for so long: another one is made */

const char *td_registry_state_name(enum td_state s)
{
    switch (s) {
    case TD_STATE_START:
        return "START";
    case TD_STATE_LOADING:
        return "LOADING";
    case TD_STATE_AVAILABLE:
        return "AVAILABLE";
    case TD_STATE_UNLOADING:
        return "UNLOADING";
    case TD_STATE_END:
        return "END";
    case TD_STATE_UNKNOWN:
        break;
    }
    return "UNKNOWN";
}

bool td_registry_settled(const struct td_entry *e)
{
    for (int i = 0; i < e->n_versions; i++) {
        const struct td_version *v = e->versions[i];
        if (v->aspired &&
            (v->busy || v->stale || (v->state != TD_STATE_AVAILABLE && v->state != TD_STATE_END))) {
            return false;
        }
    }
    return true;
}

bool td_registry_has_available(const struct td_entry *e)
{
    for (int i = 0; i < e->n_versions; i++) {
        if (e->versions[i]->state == TD_STATE_AVAILABLE) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ choosing */

enum action { NOTHING, LOAD, UNLOAD };
struct job {
    enum action action;
    struct td_entry *entry;
    struct td_version *version;
};

/* Whether a failed version shall be tried again by now; *due_ns falls to the time when, otherwise. */
static bool retry_due(const struct td_version *v, int64_t now_ns, int64_t *due_ns)
{
    if (v->state != TD_STATE_END || v->next_try_ns == 0) {
        return false;
    }
    if (v->next_try_ns > now_ns) {
        *due_ns = *due_ns == 0 || v->next_try_ns < *due_ns ? v->next_try_ns : *due_ns;
        return false;
    }
    return true;
}

static struct job choose(struct td_entry *e, int64_t now_ns, int64_t *due_ns)
{
    bool any_aspired = false, aspired_up = false, lingering = false;
    struct td_version *to_load = NULL, *to_unload = NULL;
    for (int i = 0; i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        any_aspired |= v->aspired;
        aspired_up |= v->aspired && v->state == TD_STATE_AVAILABLE;
        if (v->aspired && !v->busy && to_load == NULL &&
            ((v->state == TD_STATE_START && v->quiet) || v->stale || retry_due(v, now_ns, due_ns))) {
            to_load = v;
        }
        if (!v->aspired && v->state == TD_STATE_AVAILABLE && !v->busy) {
            if (lingering) { /* a higher one lingers already */
                return (struct job){UNLOAD, e, v};
            }
            lingering = true;
            to_unload = v;
        }
    }
    if (to_unload != NULL && (aspired_up || !any_aspired)) {
        return (struct job){UNLOAD, e, to_unload};
    }
    return to_load != NULL ? (struct job){LOAD, e, to_load} : (struct job){0};
}

static struct job next_job(struct td_registry *r, int64_t *due_ns)
{
    const int64_t now_ns = td_clock_ns();
    *due_ns = 0;
    for (int i = 0; i < r->n_entries; i++) {
        const int at = (r->next_entry + i) % r->n_entries;
        const struct job job = choose(r->entries[at], now_ns, due_ns);
        if (job.action != NOTHING) {
            r->next_entry = at + 1;
            return job;
        }
    }
    return (struct job){0};
}

/* ------------------------------------------------------------------ doing */

static void log_loaded(const char *name, const struct td_version *v, const struct td_err *why)
{
    const struct td_log_about about = {.model = name, .version = v->number};
    if (why->code == TD_OK) {
        td_log(TD_LOG_INFO, &about, "Successfully loaded servable version {name: %s version: %lld}", name,
               (long long)v->number);
    } else {
        td_log(TD_LOG_ERROR, &about, "Loading servable: {name: %s version: %lld} failed: %s: %s%s", name,
               (long long)v->number, td_code_name(why->code), why->msg,
               v->state == TD_STATE_AVAILABLE ? " (what was loaded before goes on)" : "");
    }
}

/* Where to load from, and with what. */
struct source {
    const char *name;
    int64_t version;
    char *dir;                /* owned */
    struct td_upload *upload; /* counted */
};

/* Returns new: a version that may be published. */
static enum td_code make_ready(struct td_registry *r, const struct source *from, struct td_servable **out,
                               struct td_err *err)
{
    struct td_servable *s = NULL;
    struct td_servable_opts opts = r->opts.servable;
    const int64_t from_ns = td_clock_ns();
    opts.upload = from->upload;
    enum td_code rc = td_servable_load(from->name, from->version, from->dir, &opts, &s, err);
    td_metrics_loaded(from->dir, rc == TD_OK, (td_clock_ns() - from_ns) / 1000);
    TD_TRY(rc);
    const struct td_load_times times = td_servable_load_times(s);
    td_metrics_load_stage(from->dir, "restore_graph", times.restore_ns / 1000);
    td_metrics_load_stage(from->dir, "init_graph", times.init_ns / 1000);
    rc = r->opts.workers != NULL ? r->opts.admit(r->opts.workers, s, err) : TD_OK;
    rc = rc == TD_OK && r->opts.warm_up != NULL ? r->opts.warm_up(r, s, err) : rc;
    if (rc) {
        td_servable_unref(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

/* The same, of files that nobody touched meanwhile; *seen: the files. */
static enum td_code load_quietly(struct td_registry *r, const struct source *from, struct td_watch_seen *seen,
                                 struct td_servable **out, struct td_err *err)
{
    struct td_watch_seen after;
    if (from->dir == NULL) {
        return td_no_memory(err, TD_FILE_PATH, "a path");
    }
    td_watch_look(from->dir, seen);
    TD_TRY(make_ready(r, from, out, err));
    td_watch_look(from->dir, &after);
    if (after.model != seen->model) {
        td_servable_unref(*out);
        *out = NULL;
        TD_FAIL(err, UNAVAILABLE, "%.900s: its files changed while they were loaded", from->dir);
    }
    return TD_OK;
}

/* The same, as a work of its own. */
static enum td_code load_in_time(struct td_registry *r, const struct source *from, td_stop *stop,
                                 struct td_watch_seen *seen, struct td_servable **out, struct td_err *err)
{
    const double limit_s = r->opts.load_timeout_s;
    const struct td_work work = {.stop = stop,
                                 .deadline_ns = limit_s > 0 ? td_clock_ns() + (int64_t)(limit_s * 1e9) : 0};
    const struct td_work *before = td_work_enter(&work);
    enum td_code rc = load_quietly(r, from, seen, out, err);
    td_work_enter(before);
    if (rc == TD_DEADLINE_EXCEEDED && td_work_why(&work) == TD_DEADLINE_EXCEEDED) {
        return td_err_wrap(err, "loading took longer than --load_timeout (%g s)", limit_s);
    }
    return rc;
}

/* Caller holds mu. Returns what served until now: to be let go without mu. */
static struct td_servable *publish(struct td_version *v, struct td_servable *takes)
{
    struct td_servable *old = v->servable;
    v->served = v->tried;
    v->damaged = v->changed = false;
    v->servable = takes;
    v->state = TD_STATE_AVAILABLE;
    v->error = v->reload_error = (struct td_err){0};
    v->loaded_at = (int64_t)time(NULL);
    v->next_try_ns = 0;
    return old;
}

/* Caller holds mu. Returns what served until now of files that are no more: to be let go without mu. */
static struct td_servable *note_failure(const struct td_registry *r, struct td_version *v,
                                        const struct td_err *why)
{
    struct td_servable *old = NULL;
    if (v->state == TD_STATE_AVAILABLE && !v->changed) {
        v->reload_error = *why;
        return NULL;
    }
    if (v->state == TD_STATE_AVAILABLE) {
        old = v->servable;
        v->servable = NULL;
        v->damaged = true;
        v->changed = false;
    }
    v->state = TD_STATE_END;
    v->error = *why;
    v->n_tries++;
    const int64_t wait_ns = r->opts.retry_wait_us > 0 ? r->opts.retry_wait_us * 1000 : 0;
    const bool again = v->n_tries <= r->opts.max_load_retries && why->code != TD_DEADLINE_EXCEEDED;
    v->next_try_ns = again ? td_clock_ns() + wait_ns : 0; /* what took too long would do so again */
    return old;
}

/* Caller holds mu, which is let go while loading. A stale version serves on meanwhile. */
static void load(struct td_registry *r, struct td_entry *e, struct td_version *v)
{
    struct td_err err = {0};
    struct td_servable *s = NULL, *old = NULL;
    struct source from = {e->name, v->number, td_strdup(v->dir), td_upload_ref(e->upload)};
    v->busy = true;
    v->stale = false;
    atomic_store(&v->stop, r->stop ? TD_UNAVAILABLE : TD_OK);
    v->upload_id = td_upload_id(from.upload);
    v->state = v->state == TD_STATE_AVAILABLE ? v->state : TD_STATE_LOADING;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mu);
    const int64_t from_ns = td_clock_ns();
    const unsigned long damages = td_mapping_damages();
    struct td_watch_seen seen = {0};
    const enum td_code rc = load_in_time(r, &from, &v->stop, &seen, &s, &err);
    const int64_t to_ns = td_clock_ns();
    td_free(from.dir);
    pthread_mutex_lock(&r->mu);
    v->tried = seen;
    v->damages = damages;
    v->load_ms = (double)(to_ns - from_ns) * 1e-6;
    if (rc == TD_OK) {
        err = (struct td_err){0}; /* what went wrong on the way was no failure */
        old = publish(v, s);
    } else {
        old = note_failure(r, v, &err);
    }
    log_loaded(e->name, v, &err);
    TD_HOLDS(td_registry_check, r);
    pthread_mutex_unlock(&r->mu);
    if (old != NULL) {
        td_servable_unref(old);
    }
    td_upload_unref(from.upload);
    pthread_mutex_lock(&r->mu);
    v->busy = false;
}

/* As load. */
static void unload(struct td_registry *r, struct td_entry *e, struct td_version *v)
{
    struct td_servable *s = v->servable;
    v->busy = true;
    v->servable = NULL;
    v->stale = false;
    v->state = TD_STATE_UNLOADING;
    TD_HOLDS(td_registry_check, r);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mu);
    td_servable_unref(s);
    td_log(TD_LOG_INFO, &(struct td_log_about){.model = e->name, .version = v->number},
           "Unloaded servable version {name: %s version: %lld}", e->name, (long long)v->number);
    pthread_mutex_lock(&r->mu);
    v->busy = false;
    v->state = TD_STATE_END;
    if (v->aspired) { /* it came back meanwhile */
        td_version_start_over(v);
    }
}

static void wait_for_work(struct td_registry *r, int64_t due_ns)
{
    if (due_ns == 0) {
        pthread_cond_wait(&r->work, &r->mu);
        return;
    }
    const struct timespec at = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    (void)pthread_cond_timedwait(&r->work, &r->mu, &at);
}

/* Hands back what loading left free in the C library and in this thread's buffers. */
static void give_back_memory(void)
{
    td_buffer_trim();
#if defined(__GLIBC__) && !defined(TD_NO_BUFFER_CACHE) /* sanitizers bring an allocator of their own */
    (void)malloc_trim(0);
#endif
}

/* Does one thing if there is one to be done. Caller holds mu, which is let go meanwhile. */
static bool work_once(struct td_registry *r, int64_t *due_ns)
{
    const struct job job = next_job(r, due_ns);
    if (job.action == NOTHING) {
        return false;
    }
    r->n_busy++;
    r->moved_ns = td_clock_ns();
    (job.action == LOAD ? load : unload)(r, job.entry, job.version);
    r->n_busy--;
    r->moved_ns = td_clock_ns();
    pthread_cond_broadcast(&r->changed);
    pthread_cond_broadcast(&r->work);
    return true;
}

/* Once after a series of loads: it takes milliseconds. As work_once. */
static void tidy(struct td_registry *r)
{
    pthread_mutex_unlock(&r->mu);
    give_back_memory();
    pthread_mutex_lock(&r->mu);
}

static void *loader_main(void *arg)
{
    struct td_registry *r = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOADER_NICE);
    bool worked = false;
    pthread_mutex_lock(&r->mu);
    while (!r->stop) {
        int64_t due_ns = 0;
        if (work_once(r, &due_ns)) {
            worked = true;
        } else if (worked) {
            worked = false;
            tidy(r);
        } else {
            wait_for_work(r, due_ns);
        }
    }
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

/* A loader that ends when nothing is left to be done. */
static void *spare_main(void *arg)
{
    struct td_registry *r = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOADER_NICE);
    int64_t due_ns;
    pthread_mutex_lock(&r->mu);
    while (!r->stop && work_once(r, &due_ns)) {
    }
    tidy(r);
    r->n_spare--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

void td_registry_spare_loader(struct td_registry *r)
{
    int64_t due_ns;
    pthread_t thread;
    if (r->stop || r->n_spare >= TD_MAX_SPARE_LOADERS || r->n_busy < r->n_loaders + r->n_spare ||
        td_clock_ns() - r->moved_ns < LONG_NS || next_job(r, &due_ns).action == NOTHING) {
        return;
    }
    r->n_spare++;
    if (pthread_create(&thread, NULL, spare_main, r) == 0) {
        pthread_detach(thread);
    } else {
        r->n_spare--;
    }
}

enum td_code td_registry_start_loaders(struct td_registry *r, struct td_err *err)
{
    const int n = r->opts.load_threads < 1                     ? 1
                  : r->opts.load_threads > TD_MAX_LOAD_THREADS ? TD_MAX_LOAD_THREADS
                                                               : r->opts.load_threads;
    for (; r->n_loaders < n; r->n_loaders++) {
        TD_FAIL_IF(pthread_create(&r->loaders[r->n_loaders], NULL, loader_main, r) != 0, err,
                   RESOURCE_EXHAUSTED, "starting loader thread %d of %d: no thread could be made",
                   r->n_loaders + 1, n);
    }
    return TD_OK;
}
