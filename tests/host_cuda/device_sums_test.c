/* tests/host_cuda/device_sums_test.c - sums of two processes, each with a GPU (server/train/device_sums.h),
 * and who counts the bytes that were summed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "kernels/ops.h"
#include "server/train/device_sums.h"
#include "tests/test.h"

enum { N = 5000 };

static struct td_ranks *ranks;
static struct td_engine engine;
static struct td_devices *devices;
static const struct td_device *device;
static struct td_stream *stream;
static struct td_event *event;

static void open_all(void)
{
    struct td_err err = {0};
    struct td_devices_opts opts = {.devices = "gpu", .module = CUDA_MODULE, .most = 1};
    CHECK_OK(td_ranks_open(2, &ranks, &err));
    opts.first = td_ranks_rank(ranks);
    CHECK_OK(td_engine_init(&engine, td_op_families, &err));
    CHECK_OK(td_devices_open(&opts, &engine, &devices, &err));
    device = td_devices_opened(devices).at[0];
    CHECK_OK(device->stream_open(device, &stream, &err));
    CHECK_OK(device->event_open(device, &event, &err));
}

static void close_all(void)
{
    device->event_close(device, event);
    device->stream_close(device, stream);
    td_devices_close(devices);
    td_engine_fini(&engine);
    td_ranks_close(ranks);
}

static void wait_for_run(void)
{
    struct td_err err = {0};
    CHECK_OK(device->event_record(device, stream, event, &err));
    CHECK_OK(device->event_wait(device, event, &err));
}

static uint64_t held(void)
{
    struct td_device_state state;
    td_devices_state(devices, 0, &state);
    for (int i = 1; i < td_devices_number(devices) && state.device == NULL; i++) {
        td_devices_state(devices, i, &state);
    }
    return state.counts.held;
}

/* N numbers, all v. off: they belong to no stream, as what is recorded does. */
static struct td_tensor numbers(float v, bool off)
{
    static float here[N];
    struct td_err err = {0};
    struct td_buffer *b;
    CHECK_OK(td_buffer_new_on(device, stream, sizeof here, &b, &err));
    for (int i = 0; i < N; i++) {
        here[i] = v;
    }
    CHECK_OK(device->copy(device, stream, TD_COPY_TO_DEVICE, b->data, here, sizeof here, &err));
    wait_for_run();
    if (off) {
        td_buffer_off_stream(b);
    }
    return (struct td_tensor){
        .buf = b, .data = b->data, .dtype = TD_FLOAT, .device = device, .shape = td_shape_vector(N)};
}

/* The sum of what each process has, by work on the run's stream: 3. keep: somebody else holds the values. */
static void sum_once(bool off, bool keep)
{
    static float here[N];
    struct td_err err = {0};
    const struct td_collective *all = td_collective();
    const struct td_sum s = {.number = 0, .at_once = true, .dtype = TD_FLOAT, .n = N};
    struct td_tensor sum, values = numbers((float)(all->rank + 1), off), kept = {0};
    all->begin(all->ctx);
    if (keep) {
        td_tensor_ref(&kept, &values);
    }
    CHECK_OK(all->add_there(all->ctx, &s, &values, stream, &err));
    td_tensor_clear(&values);
    CHECK_OK(all->take_there(all->ctx, &s, stream, &sum, &err));
    CHECK_OK(device->copy(device, stream, TD_COPY_TO_HOST, here, sum.data, sizeof here, &err));
    td_tensor_clear(&sum);
    wait_for_run();
    CHECK(here[0] == 3 && here[N - 1] == 3);
    td_tensor_clear(&kept);
}

/* What belongs to no stream is given back when the last one lets go, on whichever stream it was summed; what
 * does, at that stream's next wait. */
static void bytes_come_back(void)
{
    const uint64_t before = held();
    for (int i = 0; i < 3; i++) {
        sum_once(true, true);
        CHECK_INT((long long)held(), (long long)before);
        sum_once(true, false);
        CHECK_INT((long long)held(), (long long)before);
        sum_once(false, false);
        CHECK_INT((long long)held(), (long long)before);
    }
}

int main(void)
{
    struct td_err err = {0};
    struct td_device_sums *sums;
    open_all();
    CHECK_OK(td_device_sums_open(ranks, devices, 2, &sums, &err));
    CHECK(sums != NULL);
    bytes_come_back();
    td_device_sums_close(sums);
    close_all();
    printf("ok\n");
    return 0;
}
