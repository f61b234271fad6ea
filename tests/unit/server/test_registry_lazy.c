/* tests/unit/server/test_registry_lazy.c - versions that are loaded at their first request, and evicted: the
 * registry over copies of the bundled model.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "server/base/clock.h"
#include "server/models/servable_run.h"
#include "tests/test.h"

static char root[200];
static struct td_op_table *ops;
static struct td_err err;
static uint64_t weight; /* of the model, loaded */

/* ---- folders */

static void shell(const char *format, const char *name)
{
    char command[1200];
    snprintf(command, sizeof command, format, root, name);
    CHECK_INT(system(command), 0);
}

static void copy_model(const char *name_and_version)
{
    char command[1200];
    snprintf(command, sizeof command, "mkdir -p '%s/%s' && cp -r '" DIGITS_DIR "/.' '%s/%s'", root,
             name_and_version, root, name_and_version);
    CHECK_INT(system(command), 0);
}

/* ---- the registry */

static struct td_registry *start(uint64_t max_resident_bytes, double poll_s)
{
    struct td_registry *r = NULL;
    (void)snprintf(root, sizeof root, "/tmp/td_test_lazy.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    const struct td_registry_opts opts = {.servable = {.ops = ops},
                                          .poll_wait_s = poll_s,
                                          .load_threads = 2,
                                          .retry_wait_us = 60000000,
                                          .max_load_retries = 3,
                                          .lazy = true,
                                          .max_resident_bytes = max_resident_bytes};
    CHECK_OK(td_registry_start(&opts, &r, &err));
    return r;
}

static void stop(struct td_registry *r)
{
    td_registry_stop(r);
    td_op_table_free(ops);
    shell("rm -rf '%s%s'", "");
}

/* Models of these names, each a copy with version 1. */
static void configure(struct td_registry *r, const char *const *names, int n)
{
    struct td_model_config c[8];
    char path[8][300];
    for (int i = 0; i < n; i++) {
        char version[100];
        snprintf(version, sizeof version, "%s/1", names[i]);
        copy_model(version);
        snprintf(path[i], sizeof path[i], "%s/%s", root, names[i]);
        c[i] = (struct td_model_config){.name = (char *)names[i], .base_path = path[i], .n_latest = 1};
    }
    CHECK_OK(td_registry_configure(r, c, n, true, &err));
}

static struct td_resident_counts counts(struct td_registry *r)
{
    struct td_resident_counts c;
    td_registry_count(r, &c);
    return c;
}

static struct td_version_status status(struct td_registry *r, const char *model, int64_t version)
{
    struct td_version_status *rows = NULL, row = {0};
    struct td_err unknown = {0};
    int n = 0;
    if (td_registry_status(r, model, version, &rows, &n, &unknown) == TD_OK) {
        row = rows[0];
    }
    td_free(rows);
    return row;
}

/* ---- requests */

struct asked {
    pthread_mutex_t mu;
    pthread_cond_t told;
    bool over;
    struct td_servable *servable;
    struct td_err err;
    td_stop stop;
    struct td_work work;
    struct td_cold cold;
};

static void go(void *ctx, struct td_servable *s, const struct td_err *why)
{
    struct asked *a = ctx;
    pthread_mutex_lock(&a->mu);
    a->servable = s;
    a->err = *why;
    a->over = true;
    pthread_cond_signal(&a->told);
    pthread_mutex_unlock(&a->mu);
}

/* Finds, or waits to be told. */
static void begin(struct td_registry *r, const char *model, double limit_s, struct asked *a)
{
    *a = (struct asked){.mu = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};
    a->work = (struct td_work){.stop = &a->stop,
                               .deadline_ns = limit_s > 0 ? td_clock_ns() + (int64_t)(limit_s * 1e9) : 0};
    const enum td_code rc = td_registry_find(r, model, 0, NULL, &a->cold, &a->servable, &a->err);
    a->over = a->cold.model == NULL;
    if (a->over) {
        return;
    }
    CHECK_INT(rc, TD_UNAVAILABLE);
    a->err = (struct td_err){0};
    CHECK_OK(td_registry_await(r, &a->cold, &a->work, go, a, &err));
}

static enum td_code end(struct asked *a)
{
    pthread_mutex_lock(&a->mu);
    while (!a->over) {
        pthread_cond_wait(&a->told, &a->mu);
    }
    pthread_mutex_unlock(&a->mu);
    td_cold_fini(&a->cold);
    return a->err.code;
}

static bool is_over(struct asked *a)
{
    pthread_mutex_lock(&a->mu);
    const bool over = a->over;
    pthread_mutex_unlock(&a->mu);
    return over;
}

/* A request: loaded if need be, run, let go. */
static enum td_code use(struct td_registry *r, const char *model)
{
    struct asked a;
    begin(r, model, 30, &a);
    if (end(&a) == TD_OK) {
        CHECK(a.servable != NULL);
        CHECK_STR(td_servable_name(a.servable), model);
        td_servable_unref(a.servable);
    } else {
        err = a.err;
    }
    return a.err.code;
}

static const char *const THREE[] = {"a", "b", "c"};

/* Each stays for four times its load. */
static void let_them_stay(struct td_registry *r)
{
    double loads_ms = 20;
    for (int i = 0; i < 3; i++) {
        loads_ms += status(r, THREE[i], 1).load_ms;
    }
    usleep((useconds_t)(4000 * loads_ms));
}

static void learn_weight(void)
{
    struct td_registry *r = start(0, 0);
    configure(r, THREE, 1);
    CHECK_OK(use(r, "a"));
    weight = counts(r).bytes;
    CHECK(weight > 50000 && weight < 2000000); /* 40 kB of weights, and its graph */
    stop(r);
}

/* With room for so many models. */
static struct td_registry *start_with_room(double models)
{
    learn_weight();
    return start((uint64_t)((double)weight * models), 0);
}

/* ---- tests */

static void a_lazy_version_is_available_ready_and_cold(void)
{
    struct td_registry *r = start(0, 0);
    configure(r, THREE, 3);
    CHECK(td_registry_ready(r, NULL));
    CHECK_INT(status(r, "b", 1).state, TD_STATE_AVAILABLE);
    CHECK(status(r, "b", 1).cold && status(r, "b", 1).loaded_at == 0);
    CHECK_INT(counts(r).cold, 3);
    CHECK_INT(counts(r).bytes, 0);
    struct td_cold b = {.model = (char *)"b", .version = 1};
    CHECK(td_registry_cold_has(r, &b, "serving_default") && td_registry_cold_has(r, &b, ""));
    CHECK(!td_registry_cold_has(r, &b, "other"));
    struct td_servable *s = NULL; /* who only looks loads nothing */
    CHECK_INT(td_registry_find(r, "b", 0, NULL, NULL, &s, &err), TD_UNAVAILABLE);
    CHECK_INT(counts(r).resident, 0);
    stop(r);
}

static void many_first_requests_share_one_load(void)
{
    enum { N = 40 };
    static struct asked a[N];
    struct td_registry *r = start(0, 0);
    configure(r, THREE, 2);
    for (int i = 0; i < N; i++) {
        begin(r, "a", 30, &a[i]);
    }
    for (int i = 0; i < N; i++) {
        CHECK_OK(end(&a[i]));
        td_servable_unref(a[i].servable);
    }
    CHECK_INT(counts(r).first_loads, 1);
    CHECK_INT(counts(r).resident, 1);
    CHECK(!status(r, "a", 1).cold && status(r, "a", 1).load_ms > 0);
    CHECK(status(r, "b", 1).cold);
    stop(r);
}

static void the_least_recently_used_is_evicted(void)
{
    struct td_registry *r = start_with_room(0.5 * 5);
    configure(r, THREE, 3);
    CHECK_OK(use(r, "a"));
    CHECK_OK(use(r, "b"));
    CHECK_OK(use(r, "a"));
    let_them_stay(r);
    CHECK_OK(use(r, "c"));
    CHECK(!status(r, "a", 1).cold && status(r, "b", 1).cold && !status(r, "c", 1).cold);
    CHECK_INT(status(r, "b", 1).state, TD_STATE_AVAILABLE);
    CHECK_INT(counts(r).evictions, 1);
    CHECK(counts(r).bytes <= weight * 5 / 2);
    CHECK(td_registry_ready(r, NULL));
    let_them_stay(r);
    CHECK_OK(use(r, "b"));
    CHECK(status(r, "a", 1).cold);
    stop(r);
}

static void what_is_in_use_is_never_evicted(void)
{
    struct td_registry *r = start_with_room(0.5 * 3);
    struct asked a, b;
    configure(r, THREE, 3);
    begin(r, "a", 30, &a);
    CHECK_OK(end(&a));
    begin(r, "b", 0.3, &b); /* there is no room while a is held */
    CHECK_INT(end(&b), TD_DEADLINE_EXCEEDED);
    CHECK(strstr(b.err.msg, "model 'b' version 1 was being loaded") != NULL);
    CHECK(!status(r, "a", 1).cold);
    begin(r, "c", 30, &b);
    usleep(50000);
    CHECK(!is_over(&b));
    td_servable_unref(a.servable);
    CHECK_OK(end(&b));
    CHECK(status(r, "a", 1).cold);
    td_servable_unref(b.servable);
    stop(r);
}

static void a_request_for_what_leaves_waits_too(void)
{
    struct td_registry *r = start_with_room(0.5 * 3);
    struct asked a, b, again;
    configure(r, THREE, 2);
    begin(r, "a", 30, &a);
    CHECK_OK(end(&a));
    begin(r, "b", 30, &b);
    let_them_stay(r);
    usleep(100000); /* a leaves: else it would never, while requests come one upon the other */
    begin(r, "a", 30, &again);
    CHECK(!is_over(&again));
    td_servable_unref(a.servable);
    CHECK_OK(end(&b));
    td_servable_unref(b.servable);
    CHECK_OK(end(&again));
    td_servable_unref(again.servable);
    stop(r);
}

static void a_model_beyond_the_limit_is_refused(void)
{
    struct td_registry *r = start_with_room(0.5);
    configure(r, THREE, 1);
    CHECK_INT(use(r, "a"), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "--max_resident_bytes") != NULL);
    CHECK_INT(status(r, "a", 1).state, TD_STATE_END);
    CHECK_INT(counts(r).bytes, 0);
    CHECK(!td_registry_ready(r, NULL));
    stop(r);
}

static void a_load_that_fails_says_why_and_heals(void)
{
    struct td_registry *r = start(0, 0.1);
    configure(r, THREE, 1);
    shell("echo 'max_batch_size: -3' > '%s/%s/config.pbtxt'", "a");
    struct asked a[2];
    begin(r, "a", 30, &a[0]);
    begin(r, "a", 30, &a[1]);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(end(&a[i]), TD_UNAVAILABLE);
        CHECK(strstr(a[i].err.msg, "model 'a' version 1 does not load: ") != NULL);
    }
    CHECK_INT(use(r, "a"), TD_UNAVAILABLE); /* and who comes later hears the same */
    CHECK_INT(status(r, "a", 1).state, TD_STATE_END);
    shell("rm '%s/%s/config.pbtxt'", "a");
    for (int i = 0; i < 300 && counts(r).resident == 0; i++) {
        usleep(20000);
    }
    CHECK_INT(counts(r).resident, 1); /* loaded, not only surveyed: that had been asked for */
    CHECK_OK(use(r, "a"));
    stop(r);
}

static void a_broken_version_is_not_available(void)
{
    struct td_registry *r = start(0, 0.1);
    configure(r, THREE, 2);
    copy_model("b/2");
    shell("truncate -s 100 '%s/%s/2/variables/variables.data-00000-of-00001'", "b");
    for (int i = 0; i < 300 && status(r, "b", 2).state != TD_STATE_END; i++) {
        usleep(20000);
    }
    CHECK_INT(status(r, "b", 2).state, TD_STATE_END);
    CHECK_INT(status(r, "b", 1).state, TD_STATE_AVAILABLE);
    shell("rm '%s/%s/1/variables/variables.index'", "a"); /* of a cold one: it goes, too */
    for (int i = 0; i < 300 && status(r, "a", 1).state == TD_STATE_AVAILABLE; i++) {
        usleep(20000);
    }
    CHECK(status(r, "a", 1).state != TD_STATE_AVAILABLE);
    CHECK_INT(use(r, "a"), TD_DATA_LOSS);
    stop(r);
}

static void a_newer_version_is_loaded_beside_what_is_resident_only(void)
{
    struct td_registry *r = start(0, 0.1);
    configure(r, THREE, 2);
    CHECK_OK(use(r, "a"));
    copy_model("a/2");
    copy_model("b/2");
    for (int i = 0; i < 300 && !(status(r, "a", 2).loaded_at > 0 && status(r, "b", 2).cold); i++) {
        usleep(20000);
    }
    CHECK(!status(r, "a", 2).cold && status(r, "a", 2).state == TD_STATE_AVAILABLE);
    CHECK(status(r, "b", 2).cold && status(r, "b", 2).state == TD_STATE_AVAILABLE);
    for (int i = 0;
         i < 300 && !(status(r, "a", 1).state == TD_STATE_END && status(r, "b", 1).state == TD_STATE_END);
         i++) {
        usleep(20000);
    }
    CHECK_INT(status(r, "a", 1).state, TD_STATE_END);
    CHECK_INT(status(r, "b", 1).state, TD_STATE_END);
    CHECK_INT(counts(r).resident, 1);
    stop(r);
}

static void a_version_whose_folder_went_leaves_its_place_to_the_one_before(void)
{
    struct td_registry *r = start(0, 5); /* no poll sees it first */
    configure(r, THREE, 1);
    copy_model("a/2");
    CHECK_OK(td_registry_rescan(r, "a", &err));
    CHECK(status(r, "a", 2).cold);
    shell("rm -r '%s/%s/2'", "a");
    struct asked a;
    begin(r, "a", 30, &a);
    CHECK_OK(end(&a)); /* look again */
    CHECK(a.servable == NULL);
    begin(r, "a", 30, &a);
    CHECK_OK(end(&a));
    CHECK_INT(td_servable_version(a.servable), 1);
    td_servable_unref(a.servable);
    stop(r);
}

static void commands_load_and_unload(void)
{
    struct td_registry *r = start_with_room(0.5 * 3);
    struct asked a, b;
    configure(r, THREE, 2);
    CHECK_OK(td_registry_load(r, "a", NULL, &err));
    CHECK(!status(r, "a", 1).cold);
    begin(r, "a", 30, &a);
    CHECK_OK(end(&a));
    begin(r, "b", 30, &b);
    usleep(20000);
    CHECK_OK(td_registry_unload(r, "b", &err)); /* who waits for it is sent to look again */
    CHECK_OK(end(&b));
    CHECK(b.servable == NULL);
    CHECK_INT(use(r, "b"), TD_NOT_FOUND);
    td_servable_unref(a.servable);
    CHECK_OK(td_registry_unload(r, "a", &err));
    CHECK_INT(counts(r).resident, 0);
    CHECK_OK(td_registry_rescan(r, "b", &err));
    CHECK(status(r, "b", 1).cold);
    stop(r);
}

static void a_client_that_leaves_waits_no_longer(void)
{
    struct td_registry *r = start_with_room(0.5 * 3);
    struct asked a, b, c;
    configure(r, THREE, 3);
    begin(r, "a", 30, &a);
    CHECK_OK(end(&a));
    begin(r, "b", 30, &b);
    atomic_store(&b.stop, TD_CANCELLED);
    CHECK_INT(end(&b), TD_CANCELLED);
    begin(r, "c", 30, &c);
    td_registry_cancel(r);
    CHECK_INT(end(&c), TD_UNAVAILABLE);
    td_servable_unref(a.servable);
    stop(r);
}

/* ---- many at once */

static struct td_registry *shared;
static atomic_int n_used, n_wrong;

static void *use_at_random(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 60; i++) {
        seed = seed * 1103515245 + 12345;
        struct asked a;
        begin(shared, THREE[seed >> 16 & 1], 60, &a);
        const enum td_code rc = end(&a);
        atomic_fetch_add(&n_wrong, rc != TD_OK || a.servable == NULL);
        if (a.servable != NULL) {
            atomic_fetch_add(&n_used, 1);
            td_servable_unref(a.servable);
        }
    }
    return NULL;
}

static void two_models_with_room_for_one_share_it(void)
{
    pthread_t threads[4];
    shared = start_with_room(0.5 * 3);
    configure(shared, THREE, 2);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, use_at_random, (void *)(uintptr_t)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_INT(n_used, 240);
    CHECK_INT(n_wrong, 0);
    const struct td_resident_counts c = counts(shared);
    CHECK(c.evictions > 0 && c.first_loads >= 2);
    CHECK(c.evictions < 200); /* several requests for one load */
    CHECK(c.bytes <= weight * 3 / 2);
    stop(shared);
}

TEST_MAIN(RUN(a_lazy_version_is_available_ready_and_cold) RUN(many_first_requests_share_one_load)
              RUN(the_least_recently_used_is_evicted) RUN(what_is_in_use_is_never_evicted)
                  RUN(a_request_for_what_leaves_waits_too) RUN(a_model_beyond_the_limit_is_refused)
                      RUN(a_load_that_fails_says_why_and_heals) RUN(a_broken_version_is_not_available)
                          RUN(a_newer_version_is_loaded_beside_what_is_resident_only)
                              RUN(a_version_whose_folder_went_leaves_its_place_to_the_one_before)
                                  RUN(commands_load_and_unload) RUN(a_client_that_leaves_waits_no_longer)
                                      RUN(two_models_with_room_for_one_share_it))
