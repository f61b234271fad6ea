/* tests/host_cuda/cuda_device_test.c - kernels/cuda/base/device.c on the host-run device: its limit, its
 * errors, and the bundled model on it. Tests with other settings of the device are processes of their own
 * (CMakeLists.txt).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "core/base/timings.h"
#include "core/run/device_graph.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/pinned.h"
#include "server/models/devices.h"
#include "server/models/servable_run.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/test.h"

void host_cuda_fail(int error); /* host_cuda.h, which is C++; so is the next */
void host_cuda_fail_record(void);

enum { ROWS = 5, CLASSES = 10, ILLEGAL_ADDRESS = 700, MIB = 1 << 20 };

static struct td_device *device;

static void setup(uint64_t limit)
{
    struct td_err err = {0};
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.limit = limit}, &device, &err));
}

/* p: as a run gives it, of images that differ from `of` to `of`. */
static void ask_once(struct td_servable *s, int of, float p[ROWS][CLASSES])
{
    struct td_err err = {0};
    struct td_named in = {.name = "images"}, out[2] = {{0}};
    int n = 0;
    CHECK_OK(td_tensor_new(&in.t, TD_FLOAT, &(struct td_shape){.rank = 3, .dim = {ROWS, 8, 8}}, &err));
    for (int i = 0; i < ROWS * 64; i++) {
        TD_DATA(&in.t, float)[i] = (float)((i + of) * 7 % 17);
    }
    const struct td_servable_call call = {.sig = td_servable_signature(s, ""), .in = &in, .n_in = 1};
    CHECK_OK(td_servable_run(s, &call, out, &n, &err));
    memcpy(p, out[1].t.data, sizeof(float[ROWS][CLASSES]));
    td_tensor_clear(&out[0].t);
    td_tensor_clear(&out[1].t);
    td_tensor_clear(&in.t);
}

static void ask_with(const struct td_servable_opts *opts, float p[ROWS][CLASSES])
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, opts, &s, &err));
    ask_once(s, 0, p);
    td_servable_unref(s);
}

static void ask(const struct td_op_table *ops, const struct td_device *d, float p[ROWS][CLASSES])
{
    ask_with(&(struct td_servable_opts){.ops = ops, .devices = {{d}, d != NULL}}, p);
}

TEST(a_model_gives_what_it_gives_on_the_host)
{
    struct td_engine engine = {0};
    struct td_device_counts c;
    float here[ROWS][CLASSES], there[ROWS][CLASSES];
    setup(0);
    device_engine(&engine);
    ask(engine.ops, NULL, here);
    ask(engine.ops, device, there);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const float d = here[i / CLASSES][i % CLASSES] - there[i / CLASSES][i % CLASSES];
        CHECK(d < 1e-5f && d > -1e-5f);
    }
    td_cuda_device_count(device, &c);
    CHECK(c.launches >= 2 && c.most > 0 && c.held == 0);
    td_engine_fini(&engine);
    td_cuda_device_close(device);
}

TEST(kernels_are_tried_on_the_device_once_and_remembered)
{
    struct td_err err = {0};
    struct td_engine engine = {0};
    struct td_device_counts first, second;
    float plain[ROWS][CLASSES], tried[ROWS][CLASSES];
    setup(0);
    device_engine(&engine);
    CHECK_OK(td_timings_open(NULL, "here", &engine.timings, &err));
    ask(engine.ops, device, plain);
    td_cuda_device_count(device, &first);
    const struct td_servable_opts opts = {
        .ops = engine.ops, .devices = {{device}, 1}, .trial_ns = 1000000, .timings = engine.timings};
    ask_with(&opts, tried);
    td_cuda_device_count(device, &second);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const float d = plain[i / CLASSES][i % CLASSES] - tried[i / CLASSES][i % CLASSES];
        CHECK(d < 1e-5f && d > -1e-5f);
    }
    /* Two products, and of each at least two kernels, twice. */
    CHECK(second.launches >= 2 * first.launches + 2 * 2 * 2);
    ask_with(&opts, tried);
    td_cuda_device_count(device, &first);
    CHECK(first.launches - second.launches < second.launches / 2);
    CHECK(second.held == 0 && first.held == 0);
    td_engine_fini(&engine);
    td_cuda_device_close(device);
}

TEST(pinned_memory_is_used_again_and_never_more_than_may_be)
{
    enum { LIMIT = 64 << 10 };
    struct td_err err = {0};
    struct td_device_counts c;
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.pinned = LIMIT}, &device, &err));
    const char text[1000] = "abc";
    char *a = device->pin(device, sizeof text, text), *b = device->pin(device, 33 << 10, NULL);
    CHECK(a != NULL && b != NULL && a[0] == 'a' && a[2] == 'c');
    td_cuda_device_count(device, &c);
    CHECK(c.pinned == (4 << 10) + (48 << 10) && c.pinned_used == c.pinned && c.pinned_limit == LIMIT);
    CHECK(device->pin(device, 17 << 10, NULL) == NULL); /* 24 KiB, where 12 are left */
    device->unpin(device, a, 1000);
    CHECK(device->pin(device, 4096, NULL) == a);
    device->unpin(device, b, 33 << 10);
    b = device->pin(device, 40 << 10, NULL);
    CHECK(b != NULL);
    device->unpin(device, b, 40 << 10);
    b = device->pin(device, 17 << 10, NULL); /* what idles goes */
    CHECK(b != NULL);
    td_cuda_device_count(device, &c);
    CHECK(c.pinned == (4 << 10) + (24 << 10) && c.pinned_refusals == 1);
    CHECK(device->pin(device, LIMIT + 1, NULL) == NULL && device->pin(device, SIZE_MAX, NULL) == NULL);
    const struct td_device *gone = device;
    td_cuda_device_close(device);
    gone->unpin(gone, a, 4096); /* an answer that outlives the device */
    gone->unpin(gone, b, 17 << 10);
}

static void *pin_and_unpin(void *from)
{
    char *held[8] = {NULL};
    size_t bytes[8];
    uint64_t x = (uint64_t)(uintptr_t)from;
    for (int i = 0; i < 500; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        const int k = (int)(x >> 33) % 8;
        if (held[k] != NULL) {
            CHECK(held[k][bytes[k] - 1] == (char)k); /* nobody else has it */
            device->unpin(device, held[k], bytes[k]);
            held[k] = NULL;
            continue;
        }
        bytes[k] = 1 + (x >> 40) % 40000;
        held[k] = device->pin(device, bytes[k], NULL);
        if (held[k] != NULL) {
            memset(held[k], k, bytes[k]);
        }
    }
    for (int k = 0; k < 8; k++) {
        if (held[k] != NULL) {
            device->unpin(device, held[k], bytes[k]);
        }
    }
    return NULL;
}

enum { THREADS = 4 };

static void run_threads(void *(*fn)(void *from))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, fn, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
    }
}

TEST(threads_share_pinned_memory)
{
    struct td_err err = {0};
    struct td_device_counts c;
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.pinned = 256 << 10}, &device, &err));
    run_threads(pin_and_unpin);
    td_cuda_device_count(device, &c);
    CHECK(c.pinned_used == 0 && c.pinned <= c.pinned_limit);
    td_cuda_device_close(device);
}

enum { IDLE = 40, GIVEN = 8, LARGE_BYTES = 40 << 10 };

struct given {
    struct td_cuda_pinned *pinned;
    void *block[GIVEN];
};

static void *give_all(void *arg)
{
    const struct given *g = arg;
    for (int k = 0; k < GIVEN; k++) {
        td_cuda_pinned_give(g->pinned, g->block[k], LARGE_BYTES, false);
    }
    return NULL;
}

static void take_all(struct given *g)
{
    void *idle[IDLE];
    for (int k = 0; k < GIVEN; k++) {
        CHECK((g->block[k] = td_cuda_pinned_take(g->pinned, LARGE_BYTES)) != NULL);
    }
    for (int k = 0; k < IDLE; k++) {
        CHECK((idle[k] = td_cuda_pinned_take(g->pinned, 4096)) != NULL);
    }
    for (int k = 0; k < IDLE; k++) {
        td_cuda_pinned_give(g->pinned, idle[k], 4096, false);
    }
}

static void count_gone(void *ctx)
{
    ++*(int *)ctx;
}

/* While closing frees the small ones that idle, large ones come back: none is left over. */
TEST(blocks_that_come_back_while_a_device_closes_are_freed)
{
    enum { TIMES = 300 };
    struct td_err err = {0};
    const uint64_t before = td_budget_held();
    int gone = 0;
    setup(0);
    for (int i = 0; i < TIMES; i++) {
        pthread_t thread;
        struct given g;
        CHECK_OK(td_cuda_pinned_new(0, 8 << 20, &g.pinned, &err));
        take_all(&g);
        CHECK_INT(pthread_create(&thread, NULL, give_all, &g), 0);
        td_cuda_pinned_close(g.pinned, count_gone, &gone);
        CHECK_INT(pthread_join(thread, NULL), 0);
    }
    CHECK_INT(gone, TIMES);
    td_cuda_device_close(device);
#ifndef TD_NO_BUFFER_CACHE /* else threads take along what they have not told when they end */
    CHECK(td_budget_held() < before + (256 << 10)); /* threads tell what they hold now and then */
#else
    (void)before;
#endif
}

TEST(a_model_without_pinned_memory_gives_the_same)
{
    static const uint64_t limits[] = {0, 4 << 10, 64 << 20};
    struct td_err err = {0};
    struct td_engine engine = {0};
    struct td_device_counts c;
    float p[3][ROWS][CLASSES];
    device_engine(&engine);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.pinned = limits[i]}, &device, &err));
        ask(engine.ops, device, p[i]);
        td_cuda_device_count(device, &c);
        CHECK(memcmp(p[i], p[0], sizeof p[0]) == 0 && c.pinned <= limits[i] && c.pinned_used == 0);
        CHECK((c.pinned > 0) == (limits[i] > 0));
        td_cuda_device_close(device);
    }
    td_engine_fini(&engine);
}

/* ------------------------------------------------------------------ graphs */

static struct td_servable *load(const struct td_engine *e)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    const struct td_servable_opts opts = {.ops = e->ops, .devices = {{device}, 1}};
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &opts, &s, &err));
    return s;
}

TEST(a_plan_is_recorded_at_its_nth_run_and_gives_the_same_bits)
{
    struct td_err err = {0};
    struct td_engine engine = {0};
    float plain[6][ROWS][CLASSES], p[ROWS][CLASSES];
    device_engine(&engine);
    for (int graph_run = 0; graph_run < 4; graph_run++) {
        struct td_device_counts c;
        CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.pinned = MIB, .graph_run = graph_run}, &device,
                                     &err));
        struct td_servable *s = load(&engine);
        for (int i = 0; i < 6; i++) {
            ask_once(s, i, graph_run == 0 ? plain[i] : p);
            CHECK(graph_run == 0 || memcmp(plain[i], p, sizeof p) == 0);
        }
        td_cuda_device_count(device, &c);
        CHECK_INT(c.graph_launches, graph_run == 0 ? 0 : 6 - graph_run + 1);
        CHECK_INT(c.graphs, graph_run > 0);
        td_servable_unref(s);
        td_cuda_device_count(device, &c);
        CHECK(c.graphs == 0 && c.held == 0);
        td_cuda_device_close(device);
    }
    td_engine_fini(&engine);
}

static struct td_servable *asked[2];
static float expected[ROWS][CLASSES];

static void *ask_often(void *from)
{
    const uintptr_t x = (uintptr_t)from;
    float p[ROWS][CLASSES];
    for (uintptr_t i = 0; i < 10; i++) {
        ask_once(asked[(i + x) % 2], 3, p);
        CHECK(memcmp(p, expected, sizeof p) == 0);
        if (i % 4 == x % 4) {
            (void)td_device_graphs_trim(device);
        }
    }
    return NULL;
}

TEST(runs_at_once_have_recordings_of_their_own_and_lose_those_that_idle)
{
    struct td_err err = {0};
    struct td_engine engine = {0};
    struct td_device_counts c;
    const struct td_device_opts opts = {.pinned = 64 << 10, .streams = 3, .graph_run = 2};
    device_engine(&engine);
    CHECK_OK(td_cuda_device_open(&opts, &device, &err));
    asked[0] = load(&engine);
    asked[1] = load(&engine);
    ask_once(asked[0], 3, expected);
    run_threads(ask_often);
    td_cuda_device_count(device, &c);
    CHECK(c.graphs_made > 0 && c.graph_launches >= c.graphs_made && c.graphs <= 2 * THREADS);
    (void)td_device_graphs_trim(device);
    td_cuda_device_count(device, &c);
    CHECK_INT(c.graphs, 0);
    td_servable_unref(asked[0]);
    td_servable_unref(asked[1]);
    td_cuda_device_count(device, &c);
    CHECK(c.held == 0 && c.pinned_used == 0);
    td_cuda_device_close(device);
    td_engine_fini(&engine);
}

TEST(recordings_go_when_memory_is_short)
{
    struct td_err err = {0};
    struct td_engine engine = {0};
    struct td_device_counts c;
    struct td_stream *stream;
    float p[2][ROWS][CLASSES];
    void *most;
    device_engine(&engine);
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.limit = MIB, .graph_run = 1}, &device, &err));
    struct td_servable *a = load(&engine), *b = load(&engine);
    ask_once(a, 0, p[0]);
    td_cuda_device_count(device, &c);
    CHECK(c.graphs == 1 && c.held > 0);
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->allocate(device, stream, MIB - c.held, &most, &err));
    ask_once(b, 0, p[1]);
    CHECK(memcmp(p[0], p[1], sizeof p[0]) == 0);
    td_cuda_device_count(device, &c);
    CHECK(c.graphs <= 1 && c.graphs_made >= 1);
    ask_once(a, 0, p[1]);
    CHECK(memcmp(p[0], p[1], sizeof p[0]) == 0);
    device->release(device, most, MIB - c.held, stream, 0);
    device->stream_close(device, stream);
    td_servable_unref(a);
    td_servable_unref(b);
    td_cuda_device_close(device);
    td_engine_fini(&engine);
}

TEST(memory_past_the_limit_is_refused_and_what_was_freed_may_be_had_again)
{
    struct td_err err = {0};
    struct td_stream *stream;
    void *a, *b;
    setup(MIB);
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->allocate(device, stream, MIB - 1000, &a, &err));
    CHECK_INT(device->allocate(device, stream, 1000, &b, &err), TD_RESOURCE_EXHAUSTED);
    CHECK_STR(err.msg, "/device:GPU:0: 1024 bytes are asked for, 1048064 are held, and 1048576 are allowed "
                       "(--gpu_memory_limit)");
    err = (struct td_err){0};
    device->release(device, a, MIB - 1000, stream, 0);
    CHECK_OK(device->allocate(device, stream, MIB, &b, &err));
    device->release(device, b, MIB, stream, 0);
    device->stream_close(device, stream);
    td_cuda_device_close(device);
}

TEST(a_limit_beyond_the_memory_and_a_gpu_that_is_not_there_are_refused)
{
    struct td_err err = {0};
    CHECK_INT(td_cuda_device_open(&(struct td_device_opts){.limit = UINT64_MAX}, &device, &err),
              TD_FAILED_PRECONDITION);
    CHECK(strstr(err.msg,
                 "too little memory: 18446744073709551615 bytes are asked for (--gpu_memory_limit)") != NULL);
    err = (struct td_err){0};
    CHECK_INT(td_cuda_device_open(&(struct td_device_opts){.number = 7}, &device, &err),
              TD_FAILED_PRECONDITION);
    CHECK_STR(err.msg, "/device:GPU:7 is not there: the driver shows 1");
}

TEST(options_of_a_device_are_numbers_by_name)
{
    static const char *const wrong[] = {"streams",
                                        "streams=",
                                        "streams=4x",
                                        "=4",
                                        "streams=-1",
                                        "stream=4",
                                        "memory_fraction=1.5",
                                        "memory_limit=1e30",
                                        "streams=1,,",
                                        "streams=nan",
                                        "tf32=2",
                                        "tf32=0.5",
                                        "graph_run=-1",
                                        "pinned_memory=1e30"};
    struct td_err err = {0};
    struct td_device_opts o = {.number = 3};
    CHECK_OK(td_devices_options(NULL, &o, &err));
    CHECK_OK(td_devices_options("streams=4,memory_limit=1048576,memory_fraction=0.5,tf32=1", &o, &err));
    CHECK_OK(td_devices_options("pinned_memory=4096,graph_run=2", &o, &err));
    CHECK(o.pinned == 4096 && o.graph_run == 2);
    CHECK(o.number == 3 && o.streams == 4 && o.limit == 1048576 && o.fraction == 0.5 && o.tf32);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (struct td_err){0};
        CHECK_INT(td_devices_options(wrong[i], &o, &err), TD_INVALID_ARGUMENT);
        CHECK(strstr(err.msg, "is none: streams=N") != NULL);
    }
}

/* Nobody could wait for what was queued: so the call itself has, and the bytes may be freed. */
TEST(a_point_that_cannot_be_recorded_is_behind_all_that_is_queued)
{
    enum { BYTES = 4 << 20, TIMES = 40 };
    struct td_err err = {0};
    struct td_stream *stream;
    struct td_event *event;
    void *a, *b;
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.pinned = 16 * MIB}, &device, &err));
    char *const from = device->pin(device, BYTES, NULL), *const to = device->pin(device, BYTES, NULL);
    memset(from, 7, BYTES);
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->event_open(device, &event, &err));
    CHECK_OK(device->allocate(device, stream, BYTES, &a, &err));
    CHECK_OK(device->allocate(device, stream, BYTES, &b, &err));
    CHECK_OK(device->copy(device, stream, TD_COPY_TO_DEVICE, a, from, BYTES, &err));
    for (int i = 0; i < TIMES; i++) {
        CHECK_OK(device->copy(device, stream, TD_COPY_ON_DEVICE, i % 2 == 0 ? b : a, i % 2 == 0 ? a : b,
                              BYTES, &err));
    }
    CHECK_OK(device->copy(device, stream, TD_COPY_TO_HOST, to, a, BYTES, &err));
    host_cuda_fail_record();
    CHECK_INT(device->event_record(device, stream, event, &err), TD_RESOURCE_EXHAUSTED);
    CHECK_INT(memcmp(from, to, BYTES), 0);
    device->unpin(device, to, BYTES);
    device->unpin(device, from, BYTES);
    device->release(device, a, BYTES, stream, 0);
    device->release(device, b, BYTES, stream, 0);
    device->event_close(device, event);
    device->stream_close(device, stream);
    td_cuda_device_close(device);
}

/* Last: the device is of no use to this process afterwards. */
TEST(an_error_that_stays_takes_the_device_out_of_service)
{
    struct td_err err = {0};
    struct td_stream *stream, *second;
    struct td_event *event;
    void *p;
    char bytes[64] = {0};
    setup(0);
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->event_open(device, &event, &err));
    CHECK_OK(device->allocate(device, stream, sizeof bytes, &p, &err));
    host_cuda_fail(ILLEGAL_ADDRESS);
    /* It shows in whichever call is the first to come after it. */
    CHECK(device->copy(device, stream, TD_COPY_TO_DEVICE, p, bytes, sizeof bytes, &err) != TD_OK ||
          device->event_record(device, stream, event, &err) != TD_OK ||
          device->event_wait(device, event, &err) != TD_OK);
    CHECK_INT(err.code, TD_UNAVAILABLE);
    err = (struct td_err){0};
    CHECK_INT(device->stream_open(device, &second, &err), TD_UNAVAILABLE);
    CHECK(strstr(err.msg, "/device:GPU:0 is out of service since an error of CUDA's") != NULL);
    device->release(device, p, sizeof bytes, stream, 0);
    device->event_close(device, event);
    device->stream_close(device, stream);
    td_cuda_device_close(device);
}

TEST_MAIN(
    RUN(a_model_gives_what_it_gives_on_the_host) RUN(kernels_are_tried_on_the_device_once_and_remembered)
        RUN(pinned_memory_is_used_again_and_never_more_than_may_be)
            RUN(a_model_without_pinned_memory_gives_the_same)
                RUN(a_plan_is_recorded_at_its_nth_run_and_gives_the_same_bits)
                    RUN(recordings_go_when_memory_is_short) RUN(threads_share_pinned_memory)
                        RUN(blocks_that_come_back_while_a_device_closes_are_freed)
                            RUN(runs_at_once_have_recordings_of_their_own_and_lose_those_that_idle)
                                RUN(memory_past_the_limit_is_refused_and_what_was_freed_may_be_had_again)
                                    RUN(a_limit_beyond_the_memory_and_a_gpu_that_is_not_there_are_refused)
                                        RUN(options_of_a_device_are_numbers_by_name)
                                            RUN(a_point_that_cannot_be_recorded_is_behind_all_that_is_queued)
                                                RUN(an_error_that_stays_takes_the_device_out_of_service))
