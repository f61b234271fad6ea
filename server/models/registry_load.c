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
#include "server/models/registry_cold.h"

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

#define LOADER_NICE 10    /* loading yields the processor to requests, once there is something to ask */
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

/* SURVEY: what is lazy is looked at only; EVICT: it becomes cold again. */
enum action { NOTHING, LOAD, SURVEY, UNLOAD, EVICT };
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

/* Whether a load of it would do something now. */
static bool load_due(const struct td_version *v, int64_t now_ns, int64_t *due_ns)
{
    return v->aspired && !v->busy &&
           (v->stale ||
            (v->quiet && (v->state == TD_STATE_START || (v->cold && td_version_is_called_for(v)))) ||
            retry_due(v, now_ns, due_ns));
}

/* What is to be done for a version whose load is due. A model that is resident stays so: its next version is
 * loaded beside it. */
static struct job job_of(struct td_registry *r, struct td_entry *e, struct td_version *v, int64_t now_ns,
                         int64_t *due_ns)
{
    struct td_version *victim = NULL;
    bool resident = false;
    for (int i = 0; i < e->n_versions; i++) {
        resident |= td_version_is_resident(e->versions[i]);
    }
    if (r->opts.lazy && !resident && !td_version_is_called_for(v)) {
        return (struct job){SURVEY, e, v};
    }
    if (td_version_is_resident(v) || td_registry_has_room(r, e, v, now_ns, &victim, due_ns)) {
        return (struct job){LOAD, e, v};
    }
    return victim != NULL ? (struct job){EVICT, NULL, victim} : (struct job){0};
}

static struct job choose(struct td_registry *r, struct td_entry *e, int64_t now_ns, int64_t *due_ns)
{
    bool any_aspired = false, aspired_up = false, lingering = false;
    struct td_version *to_unload = NULL;
    struct job job = {0};
    for (int i = 0; i < e->n_versions; i++) {
        struct td_version *v = e->versions[i];
        any_aspired |= v->aspired;
        aspired_up |= v->aspired && v->state == TD_STATE_AVAILABLE;
        if (job.action == NOTHING && load_due(v, now_ns, due_ns)) {
            job = job_of(r, e, v, now_ns, due_ns);
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
    return job;
}

/* No load waits for room any more: what was to leave for one stays. */
static void let_stay(struct td_registry *r)
{
    for (int i = 0; i < r->n_entries; i++) {
        for (int k = 0; k < r->entries[i]->n_versions; k++) {
            r->entries[i]->versions[k]->leaving = false;
        }
    }
    r->any_leaving = false;
    td_registry_tell(r);
}

static struct job next_job(struct td_registry *r, int64_t *due_ns)
{
    const int64_t now_ns = td_clock_ns();
    *due_ns = 0;
    r->lacks_room = false;
    for (int i = 0; i < r->n_entries; i++) {
        const int at = (r->next_entry + i) % r->n_entries;
        const struct job job = choose(r, r->entries[at], now_ns, due_ns);
        if (job.action != NOTHING) {
            r->next_entry = at + 1;
            return job;
        }
    }
    if (r->any_leaving && !r->lacks_room) {
        let_stay(r);
    }
    struct td_version *fat = td_registry_too_many(r, now_ns);
    return fat != NULL ? (struct job){EVICT, NULL, fat} : (struct job){0};
}

/* ------------------------------------------------------------------ doing */

static void log_loaded(const char *name, const struct td_version *v, const struct td_err *why)
{
    const struct td_log_about about = {.model = name, .version = v->number};
    if (why->code == TD_OK && v->cold) {
        td_log(TD_LOG_INFO, &about,
               "Found servable version {name: %s version: %lld}: its first request loads it", name,
               (long long)v->number);
    } else if (why->code == TD_OK) {
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
    bool survey;              /* is looked at only */
};

/* What comes of it. */
struct loaded {
    struct td_servable *servable; /* counted; NULL: a survey's */
    char *signatures;
    uint64_t graph_bytes; /* of a survey */
    char *dir;            /* the version's folder */
};

/* Returns new: a version that may be published. */
static enum td_code make_ready(struct td_registry *r, const struct source *from, struct td_servable **out,
                               struct td_err *err)
{
    struct td_servable *s = NULL;
    struct td_servable_opts opts = r->opts.servable;
    const uint64_t most = r->opts.max_resident_bytes;
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
    const uint64_t bytes = td_servable_weigh(s);
    if (rc == TD_OK && most > 0 && bytes > most) {
        rc = td_fail(err, TD_RESOURCE_EXHAUSTED, "it holds %llu bytes, and --max_resident_bytes is %llu",
                     (unsigned long long)bytes, (unsigned long long)most);
    }
    if (rc) {
        td_servable_unref(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

/* The same, or a survey alone. On failure nothing is left in *out. */
static enum td_code make(struct td_registry *r, const struct source *from, struct loaded *out,
                         struct td_err *err)
{
    if (from->survey) {
        return td_servable_survey(from->dir, &r->opts.servable, &out->signatures, &out->graph_bytes, err);
    }
    TD_TRY(make_ready(r, from, &out->servable, err));
    out->signatures = td_servable_names(out->servable);
    return TD_OK;
}

static void drop(struct loaded *l)
{
    td_servable_unref(l->servable);
    td_free(l->signatures);
    *l = (struct loaded){0};
}

/* The same, of files that nobody touched meanwhile; *seen: the files. */
static enum td_code load_quietly(struct td_registry *r, const struct source *from, struct td_watch_seen *seen,
                                 struct loaded *out, struct td_err *err)
{
    struct td_watch_seen after;
    if (from->dir == NULL) {
        return td_no_memory(err, TD_FILE_PATH, "a path");
    }
    td_watch_look(from->dir, seen);
    TD_TRY(make(r, from, out, err));
    td_watch_look(from->dir, &after);
    if (after.model != seen->model) {
        drop(out);
        TD_FAIL(err, UNAVAILABLE, "%.900s: its files changed while they were loaded", from->dir);
    }
    return TD_OK;
}

/* The same, as a work of its own. */
static enum td_code load_in_time(struct td_registry *r, const struct source *from, td_stop *stop,
                                 struct td_watch_seen *seen, struct loaded *out, struct td_err *err)
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
static struct td_servable *publish(struct td_registry *r, struct td_version *v, struct loaded *takes,
                                   int64_t load_ns)
{
    struct td_servable *old = v->servable;
    const bool resident = takes->servable != NULL;
    v->served = v->tried;
    td_free(v->served_dir);
    v->served_dir = takes->dir;
    v->damaged = v->changed = v->leaving = false;
    r->n_first_loads += resident && (v->cold || v->asked > 0);
    v->servable = takes->servable;
    v->cold = !resident;
    v->state = TD_STATE_AVAILABLE;
    v->error = v->reload_error = (struct td_err){0};
    v->next_try_ns = 0;
    if (takes->signatures != NULL) {
        td_free(v->signatures);
        v->signatures = takes->signatures;
    }
    if (resident) {
        v->n_tries = 0;
        v->demanded = false;
        v->loaded_at = (int64_t)time(NULL);
        td_registry_note_resident(r, v, load_ns);
    } else {
        v->bytes = takes->graph_bytes + v->tried.bytes;
    }
    return old;
}

/* Caller holds mu. Returns what served until now of files that are no more: to be let go without mu. */
static struct td_servable *note_failure(struct td_registry *r, struct td_version *v, bool surveyed,
                                        const struct td_err *why)
{
    struct td_servable *old = NULL;
    const bool elsewhere = v->state == TD_STATE_AVAILABLE && !td_version_serves_from(v, v->dir);
    if (elsewhere || (td_version_is_resident(v) && !v->changed)) {
        v->reload_error = *why;
        if (v->cold) {
            v->demanded = false;
            td_registry_fail_parked(r, v, why);
        }
        return NULL;
    }
    if (v->state == TD_STATE_AVAILABLE && v->changed) {
        old = v->servable;
        v->servable = NULL;
        v->damaged = true;
        v->changed = false;
    }
    v->demanded = v->demanded || (v->cold && !surveyed && v->aspired); /* the next try is a load too */
    v->cold = v->leaving = false;
    v->state = TD_STATE_END;
    v->error = *why;
    v->n_tries++;
    const int64_t wait_ns = r->opts.retry_wait_us > 0 ? r->opts.retry_wait_us * 1000 : 0;
    const bool again = v->n_tries <= r->opts.max_load_retries && why->code != TD_DEADLINE_EXCEEDED;
    v->next_try_ns = again ? td_clock_ns() + wait_ns : 0; /* what took too long would do so again */
    td_registry_fail_parked(r, v, why);
    return old;
}

/* A version that was known does not load. If it is not what it was any more, its folder may be gone: others
 * count then. Without mu. */
static void look_again(struct td_registry *r, const struct source *from, uint64_t surveyed)
{
    struct td_watch_seen now;
    struct td_err ignored = {0};
    td_watch_look(from->dir, &now);
    if (now.stamp != surveyed) {
        (void)!td_registry_list_all(r, from->name, TD_LOOK_POLL, &ignored);
    }
}

/* Caller holds mu, which is let go while loading. A stale version serves on meanwhile. */
static void load(struct td_registry *r, struct td_entry *e, struct td_version *v, bool survey)
{
    struct td_err err = {0};
    struct loaded got = {0};
    struct source from = {e->name, v->number, td_strdup(v->dir), td_upload_ref(e->upload), survey};
    v->busy = true;
    v->stale = false;
    v->loading = !survey && !td_version_is_resident(v);
    const uint64_t surveyed = v->cold ? v->served.stamp : 0;
    v->bytes = v->bytes > 0 ? v->bytes : v->seen.bytes;
    atomic_store(&v->stop, r->stop ? TD_UNAVAILABLE : TD_OK);
    v->upload_id = td_upload_id(from.upload);
    v->state = v->state == TD_STATE_AVAILABLE ? v->state : TD_STATE_LOADING;
    td_registry_tell(r);
    pthread_mutex_unlock(&r->mu);
    const int64_t from_ns = td_clock_ns();
    const unsigned long damages = td_mapping_damages();
    struct td_watch_seen seen = {0};
    err.code = load_in_time(r, &from, &v->stop, &seen, &got, &err);
    const int64_t load_ns = td_clock_ns() - from_ns;
    if (err.code && surveyed != 0 && from.dir != NULL) {
        look_again(r, &from, surveyed);
    }
    if (err.code) {
        td_free(from.dir);
    } else {
        got.dir = from.dir;
    }
    pthread_mutex_lock(&r->mu);
    v->tried = seen;
    v->damages = damages;
    v->loading = false;
    v->load_ms = survey ? v->load_ms : (double)load_ns * 1e-6;
    struct td_servable *old =
        err.code == TD_OK ? publish(r, v, &got, load_ns) : note_failure(r, v, survey, &err);
    log_loaded(e->name, v, &err);
    TD_HOLDS(td_registry_check, r);
    pthread_mutex_unlock(&r->mu);
    td_servable_unref(old);
    td_upload_unref(from.upload);
    pthread_mutex_lock(&r->mu);
    v->busy = false;
}

/* As load: it becomes cold again, and its memory comes back. */
static void evict(struct td_registry *r, struct td_version *v)
{
    struct td_servable *s = v->servable;
    v->bytes = td_servable_weight(s);
    v->busy = v->evicting = v->cold = true;
    v->leaving = v->stale = false;
    v->servable = NULL;
    v->loaded_at = 0;
    r->n_evictions++;
    TD_HOLDS(td_registry_check, r);
    td_registry_tell(r);
    pthread_mutex_unlock(&r->mu);
    td_log(TD_LOG_INFO, &(struct td_log_about){.model = td_servable_name(s), .version = v->number},
           "Evicted servable version {name: %s version: %lld}: %llu bytes", td_servable_name(s),
           (long long)v->number, (unsigned long long)v->bytes);
    td_servable_unref(s);
    pthread_mutex_lock(&r->mu);
    v->busy = v->evicting = false;
}

/* As load. */
static void unload(struct td_registry *r, struct td_entry *e, struct td_version *v)
{
    struct td_servable *s = v->servable;
    v->busy = true;
    v->servable = NULL;
    v->stale = v->cold = v->leaving = false;
    v->state = TD_STATE_UNLOADING;
    TD_HOLDS(td_registry_check, r);
    td_registry_tell(r);
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

/* Before the first version serves nobody waits but for the load. A thread that is nice stays so: the way back
 * is not everybody's. Caller holds mu. */
static void yield_to_requests(const struct td_registry *r)
{
    static __thread bool nice_already;
    for (int i = 0; i < r->n_entries && !nice_already; i++) {
        if (td_registry_has_available(r->entries[i])) {
            nice_already = true;
            (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOADER_NICE);
        }
    }
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
    yield_to_requests(r);
    switch (job.action) {
    case LOAD:
    case SURVEY:
        load(r, job.entry, job.version, job.action == SURVEY);
        break;
    case UNLOAD:
        unload(r, job.entry, job.version);
        break;
    case EVICT:
        evict(r, job.version);
        break;
    case NOTHING:
        break;
    }
    r->n_busy--;
    r->moved_ns = td_clock_ns();
    td_registry_tell(r);
    pthread_cond_broadcast(&r->work);
    return true;
}

/* Once after a series of loads: frees what is in this thread's cache. What the C library keeps is for the
 * thread of server/base/trim.h: to give it back here would stop requests for milliseconds. As work_once. */
static void tidy(struct td_registry *r)
{
    pthread_mutex_unlock(&r->mu);
    td_buffer_trim();
    pthread_mutex_lock(&r->mu);
}

static void *loader_main(void *arg)
{
    struct td_registry *r = arg;
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
    int64_t due_ns;
    pthread_mutex_lock(&r->mu);
    while (!r->stop && work_once(r, &due_ns)) {
    }
    tidy(r);
    r->n_spare--;
    td_registry_tell(r);
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
