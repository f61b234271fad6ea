/* tests/unit/server/test_registry.c - the registry over servables that are mere folders: what a folder's file
 * "fail" says decides how it loads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "server/base/clock.h"
#include "tests/test.h"

/* ---- servables for this test */
struct td_servable {
    atomic_int refs;
    int64_t version;
};
static atomic_int n_live, n_loads;
static struct td_replicas replicas; /* everybody's: on the host, until a test says otherwise */

enum td_code td_servable_load(const char *name, int64_t version, const char *dir,
                              const struct td_servable_opts *opts, struct td_servable **out,
                              struct td_err *err)
{
    char path[600];
    snprintf(path, sizeof path, "%s/fail", dir);
    atomic_fetch_add(&n_loads, 1);
    (void)opts;
    TD_FAIL_IF(access(path, F_OK) == 0, err, DATA_LOSS, "model %s is broken", name);
    snprintf(path, sizeof path, "%s/slow", dir);
    if (access(path, F_OK) == 0) {
        usleep(150000);
    }
    snprintf(path, sizeof path, "%s/endless", dir);
    while (access(path, F_OK) == 0) {
        usleep(1000);
        const enum td_code why = td_work_over();
        if (why) {
            return td_work_error(why, err);
        }
    }
    *out = td_calloc(1, sizeof **out);
    (*out)->refs = 1;
    (*out)->version = version;
    atomic_fetch_add(&n_live, 1);
    return TD_OK;
}

struct td_load_times td_servable_load_times(const struct td_servable *s)
{
    (void)s;
    return (struct td_load_times){0};
}

struct td_servable *td_servable_ref(struct td_servable *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

enum td_code td_servable_survey(const char *dir, const struct td_servable_opts *opts, char **names,
                                uint64_t *bytes, struct td_err *err)
{
    (void)dir;
    (void)opts;
    *bytes = 1;
    *names = td_calloc(1, 1);
    return *names != NULL ? TD_OK : td_no_memory(err, 1, "names");
}

char *td_servable_names(const struct td_servable *s)
{
    (void)s;
    return td_calloc(1, 1);
}

const char *td_servable_name(const struct td_servable *s)
{
    (void)s;
    return "m";
}

const struct td_replicas *td_servable_replicas(const struct td_servable *s)
{
    (void)s;
    return &replicas;
}

bool td_servable_in_use(const struct td_servable *s)
{
    return atomic_load(&s->refs) > 1;
}

uint64_t td_servable_weigh(struct td_servable *s)
{
    return td_servable_weight(s);
}

uint64_t td_servable_weight(const struct td_servable *s)
{
    (void)s;
    return 1000;
}

void td_servable_unref(struct td_servable *s)
{
    if (s != NULL && atomic_fetch_sub(&s->refs, 1) == 1) {
        atomic_fetch_sub(&n_live, 1);
        td_free(s);
    }
}

/* ---- folders */
static char root[200];

static void make(const char *rel)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    for (char *c = path + strlen(root) + 1; *c; c++) {
        if (*c == '/') {
            *c = '\0';
            mkdir(path, 0755);
            *c = '/';
        }
    }
    mkdir(path, 0755);
}

static void touch(const char *rel)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fclose(f);
}

static void erase(const char *rel)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s/%s'", root, rel);
    CHECK_INT(system(command), 0);
}

static struct td_err err;

static struct td_registry *start_with(const struct td_registry_opts *opts)
{
    (void)snprintf(root, sizeof root, "/tmp/td_test_registry.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    struct td_registry *r = NULL;
    CHECK_OK(td_registry_start(opts, &r, &err));
    return r;
}

static struct td_registry *start(double poll_s)
{
    return start_with(
        &(struct td_registry_opts){.poll_wait_s = poll_s, .load_threads = 2, .retry_wait_us = 1000});
}

static void stop(struct td_registry *r)
{
    td_registry_stop(r);
    CHECK_INT(n_live, 0);
    erase("");
}

static struct td_model_config config(const char *name)
{
    static char paths[8][300];
    static int i;
    i = (i + 1) % 8;
    snprintf(paths[i], sizeof paths[i], "%s/%s", root, name);
    return (struct td_model_config){.name = (char *)name, .base_path = paths[i], .n_latest = 1};
}

static int64_t latest(struct td_registry *r, const char *name)
{
    struct td_servable *s = NULL;
    err = (struct td_err){0};
    if (td_registry_find(r, name, 0, NULL, NULL, &s, &err)) {
        return -1;
    }
    const int64_t v = s->version;
    td_servable_unref(s);
    return v;
}

static enum td_state state_of(struct td_registry *r, const char *name, int64_t version)
{
    struct td_version_status *rows = NULL;
    int n = 0;
    struct td_err e = {0};
    if (td_registry_status(r, name, version, &rows, &n, &e)) {
        return TD_STATE_UNKNOWN;
    }
    const enum td_state s = rows[0].state;
    td_free(rows);
    return s;
}

static void await(struct td_registry *r, const char *name, int64_t version, enum td_state want)
{
    for (int i = 0; i < 500 && state_of(r, name, version) != want; i++) {
        usleep(10000);
    }
    CHECK_INT(state_of(r, name, version), want);
}

TEST(the_latest_version_is_served_and_swapped)
{
    struct td_registry *r = start(0.05);
    make("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    CHECK_INT(latest(r, "m"), 1);
    make("m/00000123");
    await(r, "m", 123, TD_STATE_AVAILABLE);
    await(r, "m", 1, TD_STATE_END);
    CHECK_INT(latest(r, "m"), 123);
    erase("m/00000123");
    await(r, "m", 123, TD_STATE_END);
    CHECK_INT(latest(r, "m"), 1);
    stop(r);
}

TEST(a_bad_version_keeps_the_old_one_and_its_error)
{
    struct td_registry *r = start(0.05);
    make("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    make("m/.2");
    touch("m/.2/fail");
    char from[300], to[300];
    snprintf(from, sizeof from, "%s/m/.2", root);
    snprintf(to, sizeof to, "%s/m/2", root);
    CHECK_INT(rename(from, to), 0);
    await(r, "m", 2, TD_STATE_END);
    CHECK_INT(latest(r, "m"), 1);
    struct td_version_status *rows = NULL;
    int n = 0;
    CHECK_OK(td_registry_status(r, "m", 0, &rows, &n, &err));
    CHECK_INT(n, 2);
    CHECK_INT(rows[0].version, 2);
    CHECK_INT(rows[0].error.code, TD_DATA_LOSS);
    td_free(rows);
    CHECK_INT(td_registry_rescan(r, "m", &err), TD_OK); /* version 1 still answers */
    erase("m/2/fail");
    touch("m/2/saved_model.pb");
    await(r, "m", 2, TD_STATE_AVAILABLE);
    stop(r);
}

TEST(one_bad_model_does_not_block_another)
{
    struct td_registry *r = start(0);
    make("good/1");
    make("bad/1");
    make("empty");
    touch("bad/1/fail");
    const struct td_model_config c[] = {config("bad"), config("missing"), config("good"), config("empty")};
    CHECK_INT(td_registry_configure(r, c, 4, true, &err), TD_UNAVAILABLE);
    CHECK(strstr(err.msg, "3 servable(s) did not become available") != NULL);
    CHECK(strstr(err.msg, "bad") && strstr(err.msg, "missing") && strstr(err.msg, "empty") &&
          !strstr(err.msg, "good"));
    CHECK_INT(latest(r, "good"), 1);
    CHECK_INT(state_of(r, "bad", 1), TD_STATE_END);
    char *missing = NULL;
    CHECK(!td_registry_ready(r, &missing));
    CHECK_STR(missing, "bad,empty,missing");
    td_free(missing);
    err = (struct td_err){0};
    CHECK_INT(latest(r, "bad"), -1);
    CHECK_STR(err.msg, "Servable not found for request: Latest(bad)");
    struct td_version_status *rows = NULL;
    int n = 0;
    err = (struct td_err){0};
    CHECK_INT(td_registry_status(r, "missing", 0, &rows, &n, &err), TD_NOT_FOUND);
    CHECK_STR(err.msg, "Could not find any versions of model missing");
    stop(r);
}

static enum td_code lost(const struct td_device *d, struct td_event **out, struct td_err *e)
{
    (void)d;
    (void)out;
    TD_FAIL(e, UNAVAILABLE, "it is lost");
}

TEST(a_model_whose_devices_are_lost_is_not_ready)
{
    const struct td_device device = {.event_open = lost};
    struct td_registry *r = start(0);
    char *missing = NULL;
    make("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    CHECK(td_registry_ready(r, NULL) && !td_registry_lost(r, "m"));
    replicas.n = 2; /* one of two: the host has no device */
    replicas.at[0].device = &device;
    CHECK(td_registry_ready(r, NULL));
    replicas.at[1].device = &device;
    CHECK(!td_registry_ready(r, &missing) && td_registry_lost(r, "m") && !td_registry_lost(r, "other"));
    CHECK_STR(missing, "m");
    td_free(missing);
    replicas = (struct td_replicas){.n = 0};
    CHECK(td_registry_ready(r, NULL));
    stop(r);
}

TEST(policies_choose_versions)
{
    struct td_registry *r = start(0);
    make("m/1");
    make("m/2");
    make("m/3");
    struct td_model_config c = config("m");
    c.policy = TD_POLICY_ALL;
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    CHECK_INT(state_of(r, "m", 1), TD_STATE_AVAILABLE);
    c.policy = TD_POLICY_SPECIFIC;
    c.versions = (int64_t[]){2};
    c.n_versions = 1;
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    await(r, "m", 3, TD_STATE_END);
    await(r, "m", 1, TD_STATE_END);
    CHECK_INT(latest(r, "m"), 2);
    struct td_servable *s = NULL;
    CHECK_INT(td_registry_find(r, "m", 3, NULL, NULL, &s, &err), TD_NOT_FOUND);
    CHECK_STR(err.msg, "Servable not found for request: Specific(m, 3)");
    stop(r);
}

TEST(labels_name_versions)
{
    struct td_registry *r = start(0);
    make("m/1");
    make("m/2");
    struct td_model_config c = config("m");
    c.policy = TD_POLICY_ALL;
    c.labels = (struct td_label[]){{(char *)"stable", 1}};
    c.n_labels = 1;
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    struct td_servable *s = NULL;
    CHECK_OK(td_registry_find(r, "m", 0, "stable", NULL, &s, &err));
    CHECK_INT(s->version, 1);
    td_servable_unref(s);
    CHECK_INT(td_registry_find(r, "m", 0, "canary", NULL, &s, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "Unrecognized servable version label: canary");
    err = (struct td_err){0};
    c.labels = (struct td_label[]){{(char *)"stable", 9}};
    CHECK_INT(td_registry_configure(r, &c, 1, true, &err), TD_FAILED_PRECONDITION);
    CHECK(strstr(err.msg, "Request to assign label to version 9 of model m") != NULL);
    err = (struct td_err){0};
    CHECK_OK(td_registry_find(r, "m", 0, "stable", NULL, &s, &err));
    td_servable_unref(s);
    stop(r);
}

TEST(bad_lists_change_nothing)
{
    struct td_registry *r = start(0);
    make("m/1");
    const struct td_model_config c[] = {config("m"), config("m")};
    CHECK_INT(td_registry_configure(r, c, 2, true, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "Illegal to list model m multiple times in config list");
    struct td_model_config relative = config("m");
    relative.base_path = (char *)"models/m";
    err = (struct td_err){0};
    CHECK_INT(td_registry_configure(r, &relative, 1, true, &err), TD_INVALID_ARGUMENT);
    err = (struct td_err){0};
    CHECK_OK(td_registry_configure(r, c, 1, true, &err));
    CHECK_OK(td_registry_configure(r, NULL, 0, true, &err));
    await(r, "m", 1, TD_STATE_END);
    CHECK_INT(latest(r, "m"), -1);
    CHECK_OK(td_registry_configure(r, c, 1, true, &err));
    CHECK_INT(latest(r, "m"), 1);
    stop(r);
}

static void *ask(void *arg)
{
    for (int i = 0; i < 100000; i++) {
        struct td_servable *s = NULL;
        struct td_err e = {0};
        if (td_registry_find(arg, "m", 0, NULL, NULL, &s, &e)) {
            return arg;
        }
        td_servable_unref(s);
    }
    return NULL;
}

TEST(swapping_leaves_no_gap)
{
    struct td_registry *r = start(0);
    make("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    pthread_t t;
    CHECK_INT(pthread_create(&t, NULL, ask, r), 0);
    for (int v = 2; v < 30; v++) {
        char rel[20];
        snprintf(rel, sizeof rel, "m/%d", v);
        make(rel);
        CHECK_OK(td_registry_rescan(r, "m", &err));
        CHECK_INT(latest(r, "m"), v);
    }
    void *gap = NULL;
    pthread_join(t, &gap);
    CHECK(gap == NULL);
    stop(r);
}

/* ---- models that never settle */
static void make_endless(const char *version)
{
    char file[100];
    make(version);
    snprintf(file, sizeof file, "%s/endless", version);
    touch(file);
}

TEST(who_waits_does_so_for_the_work_at_hand)
{
    struct td_registry *r =
        start_with(&(struct td_registry_opts){.poll_wait_s = 0, .load_threads = 1, .max_waiting = 1});
    make_endless("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, false, &err));
    td_stop left = TD_CANCELLED, stays = 0;
    const struct td_work late = {.stop = &stays, .deadline_ns = td_clock_ns() + 50000000},
                         gone = {.stop = &left};
    const struct td_work *before = td_work_enter(&late);
    CHECK_INT(td_registry_rescan(r, "m", &err), TD_DEADLINE_EXCEEDED);
    err = (struct td_err){0};
    td_work_enter(&gone);
    CHECK_INT(td_registry_rescan(r, "m", &err), TD_CANCELLED);
    td_work_enter(before);
    err = (struct td_err){0};
    CHECK_INT(state_of(r, "m", 1), TD_STATE_LOADING); /* what was asked for goes on */
    stop(r);                                          /* and ends with the registry */
}

static void *rescan_main(void *registry)
{
    struct td_err e = {0};
    CHECK_INT(td_registry_rescan(registry, "m", &e), TD_UNAVAILABLE);
    return NULL;
}

TEST(few_wait_at_once)
{
    struct td_registry *r =
        start_with(&(struct td_registry_opts){.poll_wait_s = 0, .load_threads = 1, .max_waiting = 1});
    make_endless("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, false, &err));
    pthread_t waits;
    CHECK_INT(pthread_create(&waits, NULL, rescan_main, r), 0);
    usleep(200000);
    CHECK_INT(td_registry_rescan(r, "m", &err), TD_RESOURCE_EXHAUSTED);
    err = (struct td_err){0};
    td_registry_cancel(r);
    pthread_join(waits, NULL);
    stop(r);
}

TEST(a_load_has_its_time)
{
    struct td_registry *r =
        start_with(&(struct td_registry_opts){.poll_wait_s = 0, .load_threads = 1, .load_timeout_s = 0.1});
    make_endless("m/1");
    const struct td_model_config c = config("m");
    CHECK_INT(td_registry_configure(r, &c, 1, true, &err), TD_UNAVAILABLE);
    CHECK(strstr(err.msg, "--load_timeout") != NULL);
    CHECK_INT(state_of(r, "m", 1), TD_STATE_END);
    err = (struct td_err){0};
    stop(r);
}

TEST(an_unload_ends_the_load)
{
    struct td_registry *r = start(0);
    make_endless("m/1");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, false, &err));
    await(r, "m", 1, TD_STATE_LOADING);
    CHECK_OK(td_registry_unload(r, "m", &err));
    await(r, "m", 1, TD_STATE_END);
    stop(r);
}

TEST(loaders_that_are_long_at_it_get_help)
{
    struct td_registry *r = start_with(&(struct td_registry_opts){.poll_wait_s = 0, .load_threads = 1});
    make_endless("a/1");
    make_endless("b/1");
    make("c/1");
    const struct td_model_config c[] = {config("a"), config("b"), config("c")};
    CHECK_OK(td_registry_configure(r, c, 3, false, &err));
    await(r, "c", 1, TD_STATE_AVAILABLE);
    await(r, "a", 1, TD_STATE_LOADING); /* in any order */
    await(r, "b", 1, TD_STATE_LOADING);
    stop(r);
}

TEST(a_version_whose_graph_goes_leaves_and_heals)
{
    struct td_registry *r = start(0.05);
    make("m/1");
    touch("m/1/saved_model.pb");
    const struct td_model_config c = config("m");
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    erase("m/1/saved_model.pb");
    touch("m/1/fail");
    await(r, "m", 1, TD_STATE_END);
    CHECK_INT(latest(r, "m"), -1);
    CHECK_INT(err.code, TD_DATA_LOSS);
    erase("m/1/fail");
    touch("m/1/saved_model.pb");
    await(r, "m", 1, TD_STATE_AVAILABLE);
    CHECK_INT(latest(r, "m"), 1);
    stop(r);
}

/* The files that it was loaded from are not in question. */
TEST(what_serves_of_another_folder_outlives_a_bad_one)
{
    struct td_registry *r = start(0);
    make("old/1");
    touch("old/1/saved_model.pb");
    make("new/1");
    touch("new/1/fail");
    struct td_model_config c = config("old");
    c.name = (char *)"m";
    CHECK_OK(td_registry_configure(r, &c, 1, true, &err));
    c.base_path = config("new").base_path;
    (void)!td_registry_configure(r, &c, 1, true, &err);
    err = (struct td_err){0};
    (void)!td_registry_rescan(r, "m", &err);
    CHECK_INT(n_loads > 1, true);
    CHECK_INT(latest(r, "m"), 1);
    erase("new/1/fail");
    touch("new/1/saved_model.pb");
    CHECK_OK(td_registry_load(r, "m", NULL, &err));
    CHECK_INT(latest(r, "m"), 1);
    erase("old"); /* nobody needs it any more */
    CHECK_OK(td_registry_load(r, "m", NULL, &err));
    CHECK_INT(latest(r, "m"), 1);
    stop(r);
}

TEST_MAIN(RUN(who_waits_does_so_for_the_work_at_hand) RUN(few_wait_at_once) RUN(a_load_has_its_time)
              RUN(an_unload_ends_the_load) RUN(loaders_that_are_long_at_it_get_help)
                  RUN(a_version_whose_graph_goes_leaves_and_heals)
                      RUN(the_latest_version_is_served_and_swapped)
                          RUN(a_bad_version_keeps_the_old_one_and_its_error)
                              RUN(one_bad_model_does_not_block_another) RUN(policies_choose_versions)
                                  RUN(a_model_whose_devices_are_lost_is_not_ready) RUN(labels_name_versions)
                                      RUN(bad_lists_change_nothing) RUN(swapping_leaves_no_gap)
                                          RUN(what_serves_of_another_folder_outlives_a_bad_one))
