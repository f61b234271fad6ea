/* tests/host_cuda/cuda_device_test.c - kernels/cuda/device.c on the host-run device: its limit, its errors,
 * and the bundled model on it. Tests with other settings of the device are processes of their own
 * (CMakeLists.txt).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/engine.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.h"
#include "kernels/ops.h"
#include "server/models/servable_run.h"
#include "tests/test.h"

void host_cuda_fail(int error); /* host_cuda.h, which is C++ */

enum { ROWS = 5, CLASSES = 10, ILLEGAL_ADDRESS = 700, MIB = 1 << 20 };

static struct td_device *device;

static void setup(uint64_t limit)
{
    struct td_err err = {0};
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){.limit = limit}, &device, &err));
}

static void add_rows(struct td_engine *e)
{
    struct td_err err = {0};
    for (int f = 0; td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            CHECK_OK(td_engine_add_kernels(e, r->op, r->rows, &err));
        }
    }
}

static void ask(const struct td_op_table *ops, const struct td_device *d, float p[ROWS][CLASSES])
{
    struct td_err err = {0};
    const struct td_servable_opts opts = {.ops = ops, .device = d};
    struct td_servable *s = NULL;
    struct td_named in = {.name = "images"}, out[2] = {{0}};
    int n = 0;
    CHECK_OK(td_servable_load("digits", 1, DIGITS_DIR, &opts, &s, &err));
    CHECK_OK(td_tensor_new(&in.t, TD_FLOAT, &(struct td_shape){.rank = 3, .dim = {ROWS, 8, 8}}, &err));
    for (int i = 0; i < ROWS * 64; i++) {
        TD_DATA(&in.t, float)[i] = (float)(i * 7 % 17);
    }
    const struct td_servable_call call = {.sig = td_servable_signature(s, ""), .in = &in, .n_in = 1};
    CHECK_OK(td_servable_run(s, &call, out, &n, &err));
    memcpy(p, out[1].t.data, sizeof(float[ROWS][CLASSES]));
    td_tensor_clear(&out[0].t);
    td_tensor_clear(&out[1].t);
    td_tensor_clear(&in.t);
    td_servable_unref(s);
}

TEST(a_model_gives_what_it_gives_on_the_host)
{
    struct td_err err = {0};
    struct td_engine engine = {0};
    struct td_device_counts c;
    float here[ROWS][CLASSES], there[ROWS][CLASSES];
    setup(0);
    CHECK_OK(td_engine_init(&engine, td_op_families, &err));
    add_rows(&engine);
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
    device->release(device, a, MIB - 1000, stream);
    CHECK_OK(device->allocate(device, stream, MIB, &b, &err));
    device->release(device, b, MIB, stream);
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
    device->release(device, p, sizeof bytes, stream);
    device->event_close(device, event);
    device->stream_close(device, stream);
    td_cuda_device_close(device);
}

TEST_MAIN(RUN(a_model_gives_what_it_gives_on_the_host)
              RUN(memory_past_the_limit_is_refused_and_what_was_freed_may_be_had_again)
                  RUN(a_limit_beyond_the_memory_and_a_gpu_that_is_not_there_are_refused)
                      RUN(an_error_that_stays_takes_the_device_out_of_service))
