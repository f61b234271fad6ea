/* tests/host_cuda/cuda_groups_test.c - sums over devices by the module's groups (kernels/cuda/base/nccl.h),
 * above the stand-in for NCCL: two devices, each driven by a thread as by a process of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/buffer.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/nccl.h"
#include "tests/test.h"

int host_cuda_reports(void); /* host_cuda.h, which is C++; so is the next */
void host_cuda_reset(void);

enum { TWO = 2, ROUNDS = 20, SUMS = 5, MOST = 5000 };

struct side {
    pthread_t thread;
    int rank;
    const char *name;
    struct td_device *device;
    struct td_device_group *group;
    struct td_stream *run;
    struct td_event *event;
    void (*work)(struct side *s);
};

static const struct td_device_groups *const calls = &td_nccl_groups;

static void join_it(struct side *s)
{
    struct td_err err = {0};
    const struct td_device_seat seat = {.rank = s->rank, .size = TWO, .name = s->name};
    CHECK_OK(calls->open(s->device, &s->group, &err));
    CHECK_OK(calls->join(s->group, &seat, &err));
    for (bool in = false; !in;) {
        CHECK_OK(calls->joined(s->group, &in, &err));
        (void)usleep(100);
    }
}

static void *drive(void *arg)
{
    struct side *s = arg;
    struct td_err err = {0};
    const struct td_device_opts opts = {.number = s->rank};
    CHECK_OK(td_cuda_device_open(&opts, &s->device, &err));
    CHECK_OK(s->device->stream_open(s->device, &s->run, &err));
    CHECK_OK(s->device->event_open(s->device, &s->event, &err));
    join_it(s);
    s->work(s);
    calls->leave(s->group);
    s->device->event_close(s->device, s->event);
    s->device->stream_close(s->device, s->run);
    td_cuda_device_close(s->device);
    return NULL;
}

/* Both at once. */
static void drive_both(void (*work)(struct side *s))
{
    char name[TD_DEVICE_GROUP_NAME];
    struct td_err err = {0};
    struct td_device *first;
    const struct td_device_opts opts = {.number = 0};
    struct side side[TWO];
    const int before = host_cuda_reports();
    CHECK_OK(td_cuda_device_open(&opts, &first, &err));
    CHECK_OK(calls->name(first, name, &err));
    td_cuda_device_close(first);
    for (int i = 0; i < TWO; i++) {
        side[i] = (struct side){.rank = i, .name = name, .work = work};
        CHECK_INT(pthread_create(&side[i].thread, NULL, drive, &side[i]), 0);
    }
    for (int i = 0; i < TWO; i++) {
        CHECK_INT(pthread_join(side[i].thread, NULL), 0);
    }
    CHECK_INT(host_cuda_reports(), before);
}

static void wait_for_run(struct side *s)
{
    struct td_err err = {0};
    CHECK_OK(s->device->event_record(s->device, s->run, s->event, &err));
    CHECK_OK(s->device->event_wait(s->device, s->event, &err));
}

/* Whole numbers, exact in float. */
static double part(int rank, int round, int number, int i)
{
    return (rank + 1) * (round + number + 1) + i % 7;
}

/* Sum `number`: doubles now and then, and an empty one. */
static enum td_dtype type_of(int number)
{
    return number == 3 ? TD_DOUBLE : TD_FLOAT;
}

static int count_of(int number)
{
    return number == 2 ? 0 : 7 + number * 1200;
}

static void put(void *at, enum td_dtype t, int i, double v)
{
    if (t == TD_DOUBLE) {
        ((double *)at)[i] = v;
    } else {
        ((float *)at)[i] = (float)v;
    }
}

static double get(const void *at, enum td_dtype t, int i)
{
    return t == TD_DOUBLE ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* The values are copied there by the run's stream, summed, and come back by it, with no wait between. */
static void one_round(struct side *s, int round, double here[SUMS][MOST])
{
    struct td_err err = {0};
    struct td_buffer *from[SUMS], *to[SUMS];
    struct td_device_sum sums[SUMS];
    const struct td_device *d = s->device;
    for (int k = 0; k < SUMS; k++) {
        const size_t bytes = (size_t)count_of(k) * td_dtype_size(type_of(k));
        CHECK_OK(td_buffer_new_on(d, s->run, bytes, &from[k], &err));
        if (k % 2 == 0) {
            CHECK_OK(td_buffer_new_on(d, s->run, bytes, &to[k], &err));
        } else {
            to[k] = td_buffer_ref(from[k]); /* in place */
        }
        for (int i = 0; i < count_of(k); i++) {
            put(here[k], type_of(k), i, part(s->rank, round, k, i));
        }
        if (bytes > 0) {
            CHECK_OK(d->copy(d, s->run, TD_COPY_TO_DEVICE, from[k]->data, here[k], bytes, &err));
        }
        sums[k] = (struct td_device_sum){
            .from = from[k]->data, .to = to[k]->data, .n = count_of(k), .dtype = type_of(k)};
    }
    CHECK_OK(calls->sum(s->group, s->run, sums, 2, 0, &err));
    CHECK_OK(calls->sum(s->group, s->run, sums + 2, SUMS - 2, 17 + round, &err));
    CHECK_OK(calls->after(s->group, s->run, 0, &err));
    CHECK_OK(calls->after(s->group, s->run, 17 + round, &err));
    wait_for_run(s); /* host memory is read by copies until then */
    for (int k = 0; k < SUMS; k++) {
        const size_t bytes = (size_t)count_of(k) * td_dtype_size(type_of(k));
        if (bytes > 0) {
            CHECK_OK(d->copy(d, s->run, TD_COPY_TO_HOST, here[k], to[k]->data, bytes, &err));
        }
        td_buffer_unref(from[k]);
        td_buffer_unref(to[k]);
    }
    wait_for_run(s);
    CHECK_OK(calls->check(s->group, &err));
}

static void sum_rounds(struct side *s)
{
    double(*here)[MOST] = calloc(SUMS, sizeof *here);
    for (int round = 0; round < ROUNDS; round++) {
        one_round(s, round, here);
        for (int k = 0; k < SUMS; k++) {
            for (int i = 0; i < count_of(k); i++) {
                CHECK(get(here[k], type_of(k), i) == part(0, round, k, i) + part(1, round, k, i));
            }
        }
    }
    free(here);
}

TEST(sums_are_made_beside_the_run_and_before_what_waits_for_them)
{
    drive_both(sum_rounds);
}

static void *end_it(void *arg)
{
    const struct side *s = arg;
    CHECK(calls->abort(s->group));
    return NULL;
}

/* Rank 1 does not come; rank 0 waits until another thread of it ends the group. */
static void sum_alone(struct side *s)
{
    struct td_err err = {0};
    struct td_buffer *x;
    pthread_t other;
    if (s->rank == 1) {
        return;
    }
    CHECK_OK(td_buffer_new_on(s->device, s->run, 64, &x, &err));
    const struct td_device_sum sum = {.from = x->data, .to = x->data, .n = 16, .dtype = TD_FLOAT};
    CHECK_OK(calls->sum(s->group, s->run, &sum, 1, 3, &err));
    CHECK_OK(calls->after(s->group, s->run, 3, &err));
    CHECK_INT(pthread_create(&other, NULL, end_it, s), 0);
    wait_for_run(s);
    CHECK_INT(pthread_join(other, NULL), 0);
    CHECK_INT(calls->check(s->group, &err), TD_UNAVAILABLE);
    CHECK_STR(err.msg, "the sums over devices were ended");
    err = (struct td_err){0};
    CHECK_INT(calls->sum(s->group, s->run, &sum, 1, 3, &err), TD_UNAVAILABLE);
    td_buffer_unref(x);
}

TEST(a_group_that_is_ended_keeps_nobody_waiting)
{
    drive_both(sum_alone);
}

/* Rank 1 of two never comes: nothing is waited for, and who leaves is not kept. */
TEST(one_that_joins_alone_may_leave)
{
    char name[TD_DEVICE_GROUP_NAME];
    struct td_err err = {0};
    struct td_device *d;
    struct td_device_group *g;
    bool in = true;
    const struct td_device_opts opts = {.number = 0};
    const struct td_device_seat seat = {.rank = 0, .size = TWO, .name = name};
    CHECK_OK(td_cuda_device_open(&opts, &d, &err));
    CHECK_OK(calls->name(d, name, &err));
    CHECK_OK(calls->open(d, &g, &err));
    CHECK_OK(calls->join(g, &seat, &err));
    (void)usleep(10000);
    CHECK_OK(calls->joined(g, &in, &err));
    CHECK(!in);
    CHECK(calls->abort(g));
    calls->leave(g);
    td_cuda_device_close(d);
}

TEST(one_that_cannot_join_is_told_why)
{
    static const char name[TD_DEVICE_GROUP_NAME];
    struct td_err err = {0};
    struct td_device *d;
    struct td_device_group *g;
    bool in = false;
    enum td_code rc = TD_OK;
    const struct td_device_opts opts = {.number = 0};
    const struct td_device_seat seat = {.rank = 0, .size = TWO, .name = name};
    const int before = host_cuda_reports();
    CHECK_OK(td_cuda_device_open(&opts, &d, &err));
    CHECK_OK(calls->open(d, &g, &err));
    CHECK_OK(calls->join(g, &seat, &err));
    while (rc == TD_OK && !in) {
        rc = calls->joined(g, &in, &err);
        (void)usleep(100);
    }
    CHECK_INT(rc, TD_UNAVAILABLE);
    CHECK_STR(err.msg, "NCCL: ncclCommInitRank: invalid argument");
    CHECK_INT(host_cuda_reports(), before + 1); /* "its id is none" */
    host_cuda_reset();
    calls->leave(g);
    td_cuda_device_close(d);
}

TEST(a_library_that_is_missing_or_something_else_is_told)
{
    static const char *const none[] = {"libnothing.so.1", NULL}, *const other[] = {"libc.so.6", NULL};
    char said[320];
    CHECK_INT(td_nccl_version_of(none, said, sizeof said), 0);
    CHECK_STR(said, "libnothing.so.1: cannot open shared object file: No such file or directory");
    CHECK_INT(td_nccl_version_of(other, said, sizeof said), 0);
    CHECK_STR(said, "libc.so.6 has no function ncclGetVersion");
    CHECK_INT(calls->version(NULL, said, sizeof said), 22899);
    CHECK_STR(said, "NCCL 2.28.99 (libnccl.so.2)");
}

TEST_MAIN(RUN(sums_are_made_beside_the_run_and_before_what_waits_for_them)
              RUN(a_group_that_is_ended_keeps_nobody_waiting) RUN(one_that_joins_alone_may_leave)
                  RUN(one_that_cannot_join_is_told_why)
                      RUN(a_library_that_is_missing_or_something_else_is_told))
