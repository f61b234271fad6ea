/* tests/host_cuda/there.h - a graph of one input, x, and one result, r, on the host and on the device: what
 * both give, and what the device did.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_THERE_H
#define TD_TESTS_HOST_CUDA_THERE_H

#include <pthread.h>

#include "core/base/timings.h"
#include "core/run/device_graph.h"
#include "kernels/cuda/base/device.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/unit/core/pass_make.h"

enum { RUNS = 4, THREADS = 3, MIB = 1 << 20 };

struct there {
    struct passed t;
    struct td_device *device;
    struct td_model *m;
    struct td_callable *f;
};

/* alone: as a job has its model. */
static inline void open_there_as(struct there *d, const char *text, const struct td_device_opts *opts,
                                 bool alone)
{
    *d = (struct there){.device = NULL};
    passed_open_with(&d->t, opts != NULL ? device_ops() : passed_ops(), text, "r");
    if (opts != NULL) {
        CHECK_INT(td_cuda_device_open(opts, &d->device, &d->t.err), TD_OK);
    }
    const struct td_model_opts of = {.ops = d->t.ops, .device = d->device, .alone = alone};
    CHECK_INT(td_model_new(&of, NULL, &d->t.g.graph, &d->t.g.lib, &d->m, &d->t.err), TD_OK);
    CHECK_INT(td_callable_new(d->m, &d->t.how, &d->f, &d->t.err), TD_OK);
}

static inline void open_there(struct there *d, const char *text, const struct td_device_opts *opts)
{
    open_there_as(d, text, opts, false);
}

static inline struct td_device_counts close_there(struct there *d)
{
    struct td_device_counts c = {0};
    td_model_unref(d->m);
    passed_close(&d->t);
    if (d->device != NULL) {
        td_cuda_device_count(d->device, &c);
        CHECK(c.held == 0 && c.graphs == 0);
    }
    td_cuda_device_close(d->device);
    return c;
}

static inline struct td_tensor input(const struct td_shape *shape, int k)
{
    return ramp(shape, -1.0f + 0.25f * (float)k, 0.0625f);
}

static inline enum td_code ask(struct there *d, const struct td_shape *shape, int k, struct td_tensor *out,
                               struct td_err *err)
{
    struct td_tensor in = input(shape, k);
    const enum td_code rc = td_callable_run(d->f, &in, out, NULL, err);
    td_tensor_clear(&in);
    return rc;
}

static inline void check_same(const struct td_tensor *want, const struct td_tensor *got)
{
    CHECK(td_shape_equal(&want->shape, &got->shape));
    for (int64_t i = 0; i < td_tensor_count(want); i++) {
        const float a = TD_DATA(want, float)[i], b = TD_DATA(got, float)[i];
        CHECK(fabsf(a - b) <= 1e-5f * (1 + fabsf(a)));
    }
}

static const struct td_device_opts recorded = {.pinned = MIB, .graph_run = 2},
                                   never = {.pinned = MIB, .graph_run = 0};

/* Some runs with other inputs each, there and on the host. What the device did; made: recordings. */
static inline struct td_device_counts same_there(const char *text, const struct td_shape *shape,
                                                 const struct td_device_opts *opts)
{
    struct there here, there;
    struct td_device_counts c;
    open_there(&here, text, NULL);
    open_there(&there, text, opts);
    for (int k = 0; k < RUNS; k++) {
        struct td_tensor want = {0}, got = {0};
        struct td_err a = {0}, b = {0};
        CHECK_INT(ask(&there, shape, k, &got, &b), ask(&here, shape, k, &want, &a));
        CHECK_STR(b.msg, a.msg);
        if (a.code == TD_OK) {
            check_same(&want, &got);
        }
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    (void)close_there(&here);
    td_cuda_device_count(there.device, &c);
    (void)close_there(&there);
    return c;
}

static const struct td_shape square = {.rank = 2, .dim = {3, 3}};

/* That nothing of the graph is decided on the host: of a run comes what it is asked for, and, where something
 * judges, what that says. */
static inline void chosen_there(const char *text, const struct td_shape *shape, bool judges)
{
    const struct td_device_counts c =
        same_there(text, shape, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    CHECK_INT((long long)c.graphs_made, 1);
    CHECK_INT((long long)c.graph_launches, RUNS);
    CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], judges ? 2 * RUNS : RUNS);
}

static inline void decided_there(const char *text, const struct td_shape *shape)
{
    chosen_there(text, shape, false);
}

/* ---- several runs at once, and recordings that are dropped meanwhile */
static struct there shared;
static struct td_tensor wanted[RUNS];

static inline void *ask_often(void *from)
{
    const int x = (int)(uintptr_t)from;
    for (int i = 0; i < 3 * RUNS; i++) {
        const int k = (i + x) % RUNS;
        struct td_tensor got = {0};
        struct td_err err = {0};
        CHECK_OK(ask(&shared, &square, k, &got, &err));
        check_same(&wanted[k], &got);
        td_tensor_clear(&got);
        if (i % 5 == x) {
            (void)td_device_graphs_trim(shared.device);
        }
    }
    return NULL;
}

static inline void runs_at_once(const char *text)
{
    pthread_t threads[THREADS];
    struct there here;
    struct td_err err = {0};
    open_there(&here, text, NULL);
    open_there(&shared, text, &(struct td_device_opts){.pinned = MIB, .streams = 2, .graph_run = 1});
    for (int k = 0; k < RUNS; k++) {
        CHECK_OK(ask(&here, &square, k, &wanted[k], &err));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, ask_often, (void *)(uintptr_t)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    }
    for (int k = 0; k < RUNS; k++) {
        td_tensor_clear(&wanted[k]);
    }
    (void)close_there(&here);
    (void)close_there(&shared);
}

#ifdef __SANITIZE_THREAD__ /* seconds a limit */
enum { LIMITS_APART = 112 << 10 };
#else
enum { LIMITS_APART = 32 << 10 };
#endif

/* Where the arena finds no room the graph is stepped, or the run refused, as without. x: 100 by 100
 * floats. */
static inline void finds_no_room(const char *text, uint64_t from, uint64_t to)
{
    const struct td_shape large = td_shape_matrix(100, 100);
    for (uint64_t limit = from; limit < to; limit += LIMITS_APART) {
        struct there here, there;
        open_there(&here, text, NULL);
        open_there(&there, text, &(struct td_device_opts){.limit = limit, .pinned = MIB, .graph_run = 1});
        for (int k = 0; k < RUNS; k++) {
            struct td_tensor want = {0}, got = {0};
            struct td_err err = {0};
            CHECK_OK(ask(&here, &large, k, &want, &err));
            const enum td_code rc = ask(&there, &large, k, &got, &err);
            CHECK(rc == TD_OK || rc == TD_RESOURCE_EXHAUSTED);
            if (rc == TD_OK) {
                check_same(&want, &got);
            }
            td_tensor_clear(&want);
            td_tensor_clear(&got);
        }
        (void)close_there(&here);
        (void)close_there(&there);
    }
}

/* ---- endless ones */
static inline void *stop_soon(void *word)
{
    const struct timespec some = {.tv_nsec = 200000000};
    (void)nanosleep(&some, NULL);
    atomic_store((td_stop *)word, TD_CANCELLED);
    return NULL;
}

/* After so many seconds. How often it was launched until then. */
static inline uint64_t launches_until(const char *text, int64_t seconds)
{
    struct there d;
    struct td_tensor out, in = input(&square, 0);
    struct td_device_counts c;
    open_there(&d, text, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const int64_t start = td_now_ns();
    const struct td_run_opts opts = {.work = {.deadline_ns = start + seconds * 1000000000}};
    CHECK_INT(td_callable_run(d.f, &in, &out, &opts, &d.t.err), TD_DEADLINE_EXCEEDED);
    CHECK(td_now_ns() - start < (seconds + 9) * 1000000000);
    td_cuda_device_count(d.device, &c);
    td_tensor_clear(&in);
    (void)close_there(&d);
    return c.graph_launches;
}

/* On a machine that has other things to do it may be late with the first launch. */
static inline void ends_at_the_deadline(const char *text)
{
    int64_t seconds = 1;
    while (launches_until(text, seconds) < 2 && seconds < 16) {
        seconds *= 4;
    }
    CHECK(seconds < 16);
}

static inline void can_be_cancelled(const char *text)
{
    struct there d;
    pthread_t thread;
    td_stop stop = 0;
    struct td_tensor out, in = input(&square, 0);
    open_there(&d, text, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const struct td_run_opts opts = {.work = {.stop = &stop}};
    CHECK_INT(pthread_create(&thread, NULL, stop_soon, &stop), 0);
    CHECK_INT(td_callable_run(d.f, &in, &out, &opts, &d.t.err), TD_CANCELLED);
    CHECK_INT(pthread_join(thread, NULL), 0);
    td_tensor_clear(&in);
    (void)close_there(&d);
}

/* Refused at the first run, by the device, in these words. */
static inline void refused_there(const char *text, const char *words)
{
    struct there d;
    struct td_tensor out;
    struct td_err err = {0};
    (void)same_there(text, &square, &recorded);
    open_there(&d, text, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    CHECK_INT(ask(&d, &square, 0, &out, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, words) != NULL);
    const struct td_device_counts c = close_there(&d);
    CHECK(c.graph_launches >= 1);
}

static inline bool has_conditional_nodes(void)
{
    const char *const conditions = getenv("HOST_CUDA_CONDITIONS");
    return conditions == NULL || strcmp(conditions, "0") != 0;
}

#endif
