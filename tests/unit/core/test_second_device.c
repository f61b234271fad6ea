/* tests/unit/core/test_second_device.c - the bundled model on the second device: the same numbers as on the
 * host, and no copy, wait or launch that could be left out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "server/models/servable_run.h"
#include "tests/second_device.h"
#include "tests/second_device_kernel.h"
#include "tests/test.h"

#ifndef DIGITS_DIR
#define DIGITS_DIR "deploy/models/digits/1"
#endif

enum { ROWS = 5, CLASSES = 10 };

struct answer {
    enum td_code rc;
    char classes[256];
    float p[ROWS][CLASSES];
};

static struct td_engine engine;
static struct td_device *device;

static struct td_servable *load(const struct td_device *d)
{
    struct td_err err = {0};
    struct td_servable_opts opts = {.ops = engine.ops, .devices = {{d}, 1}};
    struct td_servable *s = NULL;
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &opts, &s, &err));
    return s;
}

static void start(enum second_device_speed speed)
{
    struct td_err err = {0};
    CHECK_OK(td_engine_init(&engine, td_op_families, &err));
    CHECK_OK(td_second_device_add_kernels(&engine, &err));
    CHECK_OK(td_second_device_new(speed, &device, &err));
}

static void end(void)
{
    td_second_device_free(device);
    td_engine_fini(&engine);
}

static enum td_code run(struct td_servable *s, int rows, struct answer *a, struct td_err *err)
{
    struct td_shape shape = {.rank = 3, .dim = {rows, 8, 8}};
    struct td_named in = {.name = "images"}, out[2] = {{0}};
    TD_TRY(td_tensor_new(&in.t, TD_FLOAT, &shape, err));
    for (int i = 0; i < rows * 64; i++) {
        TD_DATA(&in.t, float)[i] = (float)(i * 7 % 17);
    }
    struct td_servable_call call = {.sig = td_servable_signature(s, ""), .in = &in, .n_in = 1};
    int n = 0;
    enum td_code rc = td_servable_run(s, &call, out, &n, err);
    if (rc == TD_OK) {
        CHECK(out[1].t.device == NULL && td_tensor_bytes(&out[1].t) == (size_t)rows * sizeof a->p[0]);
        CHECK(td_tensor_bytes(&out[0].t) <= sizeof a->classes);
        memcpy(a->classes, out[0].t.data, td_tensor_bytes(&out[0].t));
        memcpy(a->p, out[1].t.data, (size_t)rows * sizeof a->p[0]);
    }
    td_tensor_clear(&out[0].t);
    td_tensor_clear(&out[1].t);
    td_tensor_clear(&in.t);
    return rc;
}

static struct answer ask(struct td_servable *s)
{
    struct answer a = {0};
    struct td_err err = {0};
    a.rc = run(s, ROWS, &a, &err);
    return a;
}

static bool agree(const struct answer *a, const struct answer *b)
{
    for (int i = 0; a->rc == TD_OK && b->rc == TD_OK && i < ROWS * CLASSES; i++) {
        float d = a->p[i / CLASSES][i % CLASSES] - b->p[i / CLASSES][i % CLASSES];
        if (!(d < 1e-5f && d > -1e-5f)) {
            return false;
        }
    }
    return a->rc == b->rc && memcmp(a->classes, b->classes, sizeof a->classes) == 0;
}

static void compare_with_the_host(enum second_device_speed speed)
{
    start(speed);
    struct td_servable *here = load(NULL), *there = load(device);
    struct answer want = ask(here), got = ask(there), again = ask(there);
    CHECK_INT(want.rc, TD_OK);
    CHECK(agree(&want, &got) && agree(&want, &again));
    CHECK(td_second_device_counts(device).launches >= 2);
    td_servable_unref(here);
    td_servable_unref(there);
    end();
}

TEST(the_second_device_agrees_with_the_host)
{
    compare_with_the_host(SECOND_DEVICE_LAZY);
    compare_with_the_host(SECOND_DEVICE_EAGER);
}

static void note_kernel(void *ctx, const struct td_observed *o)
{
    char *seen = ctx;
    snprintf(seen + strlen(seen), 600 - strlen(seen), "%s@%s ", o->kernel, o->device);
}

/* The module's row is asked first, alone and as the head of a fused node, with its state, workspace and
 * epilogue. */
TEST(a_kernel_that_a_module_added_serves_the_device)
{
    start(SECOND_DEVICE_LAZY);
    const struct second_device_kernel_counts before = td_second_device_kernel_counts();
    struct td_servable *here = load(NULL), *there = load(device);
    struct answer want = ask(here), got = ask(there);
    const struct second_device_kernel_counts after = td_second_device_kernel_counts();
    CHECK(agree(&want, &got));
    CHECK(after.calls > before.calls && after.biases > before.biases && after.states > 0);
    char seen[600] = "";
    struct td_shape shape = {.rank = 3, .dim = {2, 8, 8}};
    struct td_err err = {0};
    struct td_named in = {.name = "images"}, out[2] = {{0}};
    CHECK_OK(td_tensor_new(&in.t, TD_FLOAT, &shape, &err));
    memset(in.t.data, 0, td_tensor_bytes(&in.t));
    const struct td_run_opts watch = {.observe = note_kernel, .ctx = seen};
    struct td_servable_call call = {
        .sig = td_servable_signature(there, ""), .in = &in, .n_in = 1, .run = &watch};
    int n = 0;
    CHECK_OK(td_servable_run(there, &call, out, &n, &err));
    CHECK(strstr(seen, "fused(" SECOND_DEVICE_MATMUL ")@/device:TEST:0") != NULL);
    td_tensor_clear(&in.t);
    td_tensor_clear(&out[0].t);
    td_tensor_clear(&out[1].t);
    td_servable_unref(here);
    td_servable_unref(there);
    CHECK_INT(td_second_device_kernel_counts().states, 0);
    end();
}

TEST(no_copy_wait_or_launch_can_be_left_out)
{
    start(SECOND_DEVICE_LAZY);
    struct td_servable *s = load(device);
    struct answer want = ask(s);
    td_second_device_leave_out(device, (struct second_device_counts){0});
    CHECK_INT(ask(s).rc, TD_OK);
    struct second_device_counts all = td_second_device_counts(device);
    CHECK(all.copies > 0 && all.waits > 0 && all.launches > 0);
    for (int kind = 0; kind < 3; kind++) {
        long total = kind == 0 ? all.copies : kind == 1 ? all.waits : all.launches;
        for (long n = 1; n <= total; n++) {
            td_second_device_leave_out(device, (struct second_device_counts){
                                                   kind == 0 ? n : 0, kind == 1 ? n : 0, kind == 2 ? n : 0});
            struct answer got = ask(s);
            if (agree(&got, &want)) {
                fprintf(stderr, "%s %ld of %ld is not missed\n",
                        kind == 0   ? "copy"
                        : kind == 1 ? "wait"
                                    : "launch",
                        n, total);
                exit(1);
            }
        }
    }
    td_second_device_leave_out(device, (struct second_device_counts){0});
    struct answer last = ask(s);
    CHECK(agree(&want, &last));
    td_servable_unref(s);
    end();
}

static void *run_many(void *servable)
{
    struct answer first = ask(servable);
    for (int i = 0; i < 30; i++) {
        struct answer a = {0};
        struct td_err err = {0};
        CHECK_OK(run(servable, 1 + i % ROWS, &a, &err));
        for (int k = 0; k < (1 + i % ROWS) * CLASSES; k++) {
            float d = a.p[k / CLASSES][k % CLASSES] - first.p[k / CLASSES][k % CLASSES];
            CHECK(d < 1e-5f && d > -1e-5f);
        }
    }
    return NULL;
}

TEST(runs_at_once_do_not_disturb_each_other)
{
    for (int speed = SECOND_DEVICE_LAZY; speed <= SECOND_DEVICE_EAGER; speed++) {
        start((enum second_device_speed)speed);
        struct td_servable *s = load(device);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            CHECK_INT(pthread_create(&threads[i], NULL, run_many, s), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
        }
        td_servable_unref(s);
        end();
    }
}

/* A run on the device with the n-th allocation failing: an error or an answer, never a crash or a leak. */
TEST(every_failed_allocation_is_reported)
{
    start(SECOND_DEVICE_LAZY);
    int failures = 0;
    for (long n = 1; n < 3000; n += 1 + n / 8) {
        struct td_servable *s = load(device);
        struct answer a;
        struct td_err err = {0};
        td_mem_fail_at(n);
        enum td_code rc = run(s, ROWS, &a, &err);
        td_mem_fail_at(0);
        failures += rc != TD_OK;
        CHECK(rc == TD_OK || err.msg[0] != 0);
        td_servable_unref(s);
    }
    CHECK(failures > 0);
    end();
}

TEST_MAIN(RUN(the_second_device_agrees_with_the_host) RUN(a_kernel_that_a_module_added_serves_the_device)
              RUN(no_copy_wait_or_launch_can_be_left_out) RUN(runs_at_once_do_not_disturb_each_other)
                  RUN(every_failed_allocation_is_reported))
