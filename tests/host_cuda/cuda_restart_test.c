/* tests/host_cuda/cuda_restart_test.c - a device that an error has made unusable is given another context,
 * and what was of the old one is neither used nor given back: the host-run device reports who does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buffer.h"
#include "kernels/cuda/base/device.h"
#include "server/models/servable_run.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/test.h"

void host_cuda_fail(int error); /* host_cuda.h, which is C++; so is the next */
int host_cuda_reports(void);

enum { ROWS = 5, CLASSES = 10, ILLEGAL_ADDRESS = 700, MIB = 1 << 20, GRAPH_RUN = 2, WAIT_MS = 20 };

static struct td_device *device;
static struct td_engine engine;

static void setup(void)
{
    struct td_err err = {0};
    const struct td_device_opts opts = {.pinned = 16 * MIB, .graph_run = GRAPH_RUN};
    CHECK_OK(td_cuda_device_open(&opts, &device, &err));
}

static struct td_servable *load(void)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    device_engine(&engine);
    const struct td_servable_opts opts = {.ops = engine.ops, .devices = {{device}, 1}};
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &opts, &s, &err));
    return s;
}

/* p: what a run gives, where it comes to TD_OK. */
static enum td_code ask(struct td_servable *s, float p[ROWS][CLASSES], struct td_err *err)
{
    struct td_named in = {.name = "images"}, out[2] = {{0}};
    int n = 0;
    TD_TRY(td_tensor_new(&in.t, TD_FLOAT, &(struct td_shape){.rank = 3, .dim = {ROWS, 8, 8}}, err));
    for (int i = 0; i < ROWS * 64; i++) {
        TD_DATA(&in.t, float)[i] = (float)(i * 7 % 17);
    }
    const struct td_servable_call call = {.sig = td_servable_signature(s, ""), .in = &in, .n_in = 1};
    const enum td_code rc = td_servable_run(s, &call, out, &n, err);
    if (rc == TD_OK) {
        memcpy(p, out[1].t.data, sizeof(float[ROWS][CLASSES]));
        td_tensor_clear(&out[0].t);
        td_tensor_clear(&out[1].t);
    }
    td_tensor_clear(&in.t);
    return rc;
}

static struct td_device_counts counts(void)
{
    struct td_device_counts c;
    td_cuda_device_count(device, &c);
    return c;
}

/* Its next piece of work fails for good. */
static void lose(void)
{
    struct td_err err = {0};
    struct td_stream *stream;
    struct td_event *event;
    void *p;
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->event_open(device, &event, &err));
    host_cuda_fail(ILLEGAL_ADDRESS);
    enum td_code rc = device->allocate(device, stream, 8, &p, &err);
    rc = rc ? rc : device->copy(device, stream, TD_COPY_ON_DEVICE, p, p, 8, &err);
    rc = rc ? rc : device->event_record(device, stream, event, &err);
    rc = rc ? rc : device->event_wait(device, event, &err);
    CHECK_INT(rc, TD_UNAVAILABLE);
    device->event_close(device, event);
    device->stream_close(device, stream);
    CHECK(counts().lost);
}

TEST(a_model_goes_on_with_the_same_answers)
{
    struct td_err err = {0};
    float before[ROWS][CLASSES], after[ROWS][CLASSES];
    setup();
    struct td_servable *s = load();
    for (int i = 0; i < GRAPH_RUN + 1; i++) {
        CHECK_OK(ask(s, before, &err));
    }
    CHECK(counts().graphs > 0 && counts().held > 0);
    for (int times = 0; times < 2; times++) { /* lost twice */
        lose();
        CHECK_INT(ask(s, after, &err), TD_UNAVAILABLE);
        err = (struct td_err){0};
        const uint64_t made = counts().graphs_made;
        CHECK_OK(td_cuda_device_restart(device, WAIT_MS, &err));
        CHECK(!counts().lost && counts().held == 0 && counts().pinned == 0);
        for (int i = 0; i < 8; i++) {
            memset(after, 0, sizeof after);
            CHECK_OK(ask(s, after, &err));
            CHECK_INT(memcmp(before, after, sizeof before), 0);
        }
        CHECK(counts().graphs_made > made && counts().held > 0);
    }
    td_servable_unref(s);
    td_engine_fini(&engine);
    CHECK_INT((int)counts().held, 0);
    td_cuda_device_close(device);
    CHECK_INT(host_cuda_reports(), 0);
}

static atomic_bool over;
static float wanted[ROWS][CLASSES];

static void *ask_on(void *s)
{
    while (!atomic_load(&over)) {
        struct td_err err = {0};
        float p[ROWS][CLASSES] = {{0}};
        const enum td_code rc = ask(s, p, &err);
        CHECK(rc == TD_UNAVAILABLE || (rc == TD_OK && memcmp(p, wanted, sizeof p) == 0));
    }
    return NULL;
}

TEST(runs_meanwhile_fail_or_are_right)
{
    enum { THREADS = 3, TIMES = 4, LONG_MS = 20000 };
    pthread_t threads[THREADS];
    struct td_err err = {0};
    setup();
    struct td_servable *s = load();
    CHECK_OK(ask(s, wanted, &err));
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, ask_on, s), 0);
    }
    for (int i = 0; i < TIMES; i++) {
        usleep(20000);
        host_cuda_fail(ILLEGAL_ADDRESS); /* whose work that is, nobody knows */
        while (!counts().lost) {
            usleep(1000);
        }
        CHECK_OK(td_cuda_device_restart(device, LONG_MS, &err));
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    }
    float p[ROWS][CLASSES];
    CHECK_OK(ask(s, p, &err));
    CHECK_INT(memcmp(p, wanted, sizeof p), 0);
    td_servable_unref(s);
    td_engine_fini(&engine);
    td_cuda_device_close(device);
    CHECK_INT(host_cuda_reports(), 0);
}

TEST(one_that_works_is_not_restarted)
{
    struct td_err err = {0};
    setup();
    CHECK_INT(td_cuda_device_restart(device, WAIT_MS, &err), TD_FAILED_PRECONDITION);
    CHECK(strstr(err.msg, "/device:GPU:0 is in service: there is nothing to restart") != NULL);
    td_cuda_device_close(device);
}

TEST(whoever_holds_something_is_waited_for)
{
    struct td_err err = {0};
    struct td_stream *stream;
    setup();
    void *const block = device->pin(device, 100, NULL);
    CHECK(block != NULL);
    CHECK_OK(device->stream_open(device, &stream, &err));
    lose();
    CHECK_INT(td_cuda_device_restart(device, WAIT_MS, &err), TD_UNAVAILABLE);
    CHECK(strstr(err.msg, "as 1 runs and 4096 bytes of pinned memory") != NULL);
    device->stream_close(device, stream);
    err = (struct td_err){0};
    CHECK_INT(td_cuda_device_restart(device, WAIT_MS, &err), TD_UNAVAILABLE);
    CHECK(strstr(err.msg, "as 0 runs and 4096 bytes of pinned memory") != NULL);
    memset(block, 1, 100); /* it is there as long as somebody has it */
    device->unpin(device, block, 100);
    err = (struct td_err){0};
    CHECK_OK(td_cuda_device_restart(device, WAIT_MS, &err));
    CHECK_OK(device->stream_open(device, &stream, &err));
    device->stream_close(device, stream);
    td_cuda_device_close(device);
    CHECK_INT(host_cuda_reports(), 0);
}

/* As a variable has one: no run holds it. */
TEST(bytes_that_are_gone_are_known_for_that)
{
    struct td_err err = {0};
    struct td_stream *stream;
    struct td_event *event;
    struct td_buffer *b = NULL;
    struct td_tensor here, there = {.dtype = TD_FLOAT, .shape = {.rank = 1, .dim = {4}}};
    setup();
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->event_open(device, &event, &err));
    CHECK_OK(td_buffer_new_on(device, stream, 16, &b, &err));
    CHECK_OK(device->event_record(device, stream, event, &err));
    CHECK_OK(device->event_wait(device, event, &err));
    td_buffer_off_stream(b);
    device->stream_close(device, stream);
    lose();
    CHECK(!td_buffer_is_gone(b));
    CHECK_OK(td_cuda_device_restart(device, WAIT_MS, &err));
    CHECK(td_buffer_is_gone(b));
    there.buf = b;
    there.data = b->data;
    there.device = device;
    CHECK_INT(td_device_bring(&there, NULL, &here, &err), TD_DATA_LOSS);
    err = (struct td_err){0};
    CHECK_INT(device->event_wait(device, event, &err), TD_UNAVAILABLE);
    device->event_close(device, event);
    td_buffer_unref(b);
    CHECK_INT((int)counts().held, 0);
    td_cuda_device_close(device);
    CHECK_INT(host_cuda_reports(), 0);
}

TEST_MAIN(RUN(a_model_goes_on_with_the_same_answers) RUN(runs_meanwhile_fail_or_are_right)
              RUN(one_that_works_is_not_restarted) RUN(whoever_holds_something_is_waited_for)
                  RUN(bytes_that_are_gone_are_known_for_that))
