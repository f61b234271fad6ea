/* tests/unit/core/test_buffer.c - counted blocks: who holds them, what is counted, limits, failing
 * allocation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/buffer.h"
#include "core/base/device.h"
#include "core/base/work.h"

#include <pthread.h>

#include "core/base/mem.h"
#include "core/base/obj.h"
#include "tests/test.h"

static struct td_buffer *fresh(size_t bytes, bool objects)
{
    struct td_err err = {0};
    struct td_buffer *b;
    CHECK_OK(td_buffer_new(bytes, objects, &b, &err));
    return b;
}

TEST(blocks_are_aligned_and_counted)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 96, 97, 4096, (1 << 20) + 1, 40 << 20};
    uint64_t before = td_buffer_live_bytes();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct td_buffer *b = fresh(sizes[i], false);
        CHECK((uintptr_t)b->data % 64 == 0 && b->bytes == sizes[i]);
        memset(b->data, 0x5a, sizes[i]);
        CHECK_INT(td_buffer_live_bytes() - before, sizes[i]);
        td_buffer_unref(b);
        CHECK_INT(td_buffer_live_bytes(), before);
    }
    td_buffer_unref(NULL);
    CHECK(td_buffer_ref(NULL) == NULL);
}

TEST(only_a_lone_holder_may_write)
{
    struct td_buffer *b = fresh(8, false);
    CHECK(td_buffer_unique(b));
    td_buffer_ref(b);
    CHECK(!td_buffer_unique(b));
    td_buffer_unref(b);
    CHECK(td_buffer_unique(b));
    td_buffer_unref(b);
}

static int released;
static void on_release(void *owner)
{
    released += *(int *)owner;
}

TEST(wrapped_bytes_go_back_once_and_are_never_written)
{
    struct td_err err = {0};
    struct td_buffer *b;
    int owner = 7;
    CHECK_OK(td_buffer_wrap("bytes", 5, on_release, &owner, &b, &err));
    CHECK(!td_buffer_unique(b));
    td_buffer_ref(b);
    td_buffer_unref(b);
    CHECK_INT(released, 0);
    td_buffer_unref(b);
    CHECK_INT(released, 7);
}

static int destroyed;
static void on_destroy(struct td_obj *o)
{
    destroyed++;
    td_free(o);
}
static const struct td_obj_type thing = {.name = "thing", .destroy = on_destroy};

TEST(objects_start_empty_and_are_let_go)
{
    struct td_buffer *b = fresh(3 * sizeof(struct td_obj *), true);
    struct td_obj **list = b->data, *o = td_calloc(1, sizeof *o);
    CHECK(list[0] == NULL && list[1] == NULL && list[2] == NULL);
    td_obj_init(o, &thing);
    list[0] = o;
    list[2] = td_obj_ref(o);
    td_buffer_unref(b);
    CHECK_INT(destroyed, 1);
    b = fresh(3 * sizeof(struct td_obj *), true); /* maybe the same block again */
    CHECK(((struct td_obj **)b->data)[0] == NULL && ((struct td_obj **)b->data)[2] == NULL);
    td_buffer_unref(b);
}

/* Sizes are far above what a thread keeps to itself (TD_BUDGET_STEP). */
TEST(the_budget_counts_what_is_alive)
{
    enum { MIB = 1 << 20 };
    struct td_err err = {0};
    struct td_buffer *a, *b;
    const uint64_t before = td_budget_held();
    td_budget_limit(before + (uint64_t)100 * MIB, "--such_a_limit");
    CHECK_OK(td_buffer_new((size_t)60 * MIB, false, &a, &err));
    CHECK(td_budget_held() - before >= (uint64_t)60 * MIB);
    CHECK_INT(td_buffer_new((size_t)41 * MIB, false, &b, &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "42991616 bytes") != NULL && strstr(err.msg, "--such_a_limit is ") != NULL);
    err = (struct td_err){0};
    CHECK_OK(td_buffer_new((size_t)39 * MIB, false, &b, &err));
    td_buffer_unref(a);
    CHECK_OK(td_buffer_new((size_t)60 * MIB, false, &a, &err));
    td_buffer_unref(a);
    td_buffer_unref(b);
    td_budget_limit(0, "");
    CHECK(td_budget_held() < before + TD_BUDGET_STEP);
}

static void *keep_a_little(void *unused)
{
    (void)unused;
    return td_calloc(1000, 1);
}

/* What a thread kept to itself is told when it ends, however little it is. */
TEST(threads_that_end_leave_the_sum_as_it_was)
{
    enum { N = 2000 }; /* MBs, if it were lost */
    static void *stay[N];
    int n = 0;
    const uint64_t before = td_budget_held();
    for (int i = 0; i < N; i++) {
        pthread_t t;
        void *kept = NULL;
        CHECK_INT(pthread_create(&t, NULL, keep_a_little, NULL), 0);
        pthread_join(t, &kept);
        if (i % 2 == 0) {
            td_free(kept);
        } else {
            stay[n++] = kept;
        }
    }
#ifndef TD_NO_BUFFER_CACHE
    const uint64_t held = td_budget_held();
    CHECK(held >= before + 900000 && held < before + 1200000);
#else
    (void)before;
#endif
    while (n > 0) {
        td_free(stay[--n]);
    }
}

TEST(an_account_bounds_one_request_and_outlives_it)
{
    struct td_err err = {0};
    struct td_buffer *a, *b, *c;
    td_account_limit(1000, "--of_a_request");
    const struct td_work w = {.account = td_account_open()};
    const struct td_work *before = td_work_enter(&w);
    CHECK_OK(td_buffer_new(600, false, &a, &err));
    CHECK_OK(td_buffer_new(400, false, &b, &err));
    CHECK_INT(td_buffer_new(1, false, &c, &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "holds 1000 bytes") != NULL && strstr(err.msg, "--of_a_request=1000") != NULL);
    td_buffer_unref(a);
    td_work_enter(before);
    CHECK_INT(td_account_held(w.account), 400);
    CHECK_OK(td_buffer_new(5000, false, &c, &err)); /* of nobody's account */
    td_account_limit(0, "");
    td_account_close(w.account);
    td_buffer_unref(b); /* frees the account */
    td_buffer_unref(c);
}

TEST(an_allowance_is_used_up_and_handed_back)
{
    struct td_err err = {0};
    struct td_buffer *a, *b;
    CHECK(td_buffer_allow(100) == UINT64_MAX);
    CHECK_OK(td_buffer_new(60, false, &a, &err));
    CHECK_INT(td_buffer_new(41, false, &b, &err), TD_RESOURCE_EXHAUSTED);
    CHECK_INT(td_buffer_allow(UINT64_MAX), 40);
    err = (struct td_err){0};
    CHECK_OK(td_buffer_new(41, false, &b, &err));
    td_buffer_unref(a);
    td_buffer_unref(b);
}

TEST(a_warm_thread_asks_the_c_library_for_nothing)
{
#ifndef TD_NO_BUFFER_CACHE
    td_buffer_unref(fresh(5000, false));
    uint64_t before = td_mem_allocations();
    for (int i = 0; i < 100; i++) {
        td_buffer_unref(fresh(4999, false));
    }
    CHECK_INT(td_mem_allocations(), before);
    td_buffer_trim();
    td_buffer_unref(fresh(4999, false));
    CHECK(td_mem_allocations() > before);
#endif
}

TEST(a_failed_allocation_counts_nothing)
{
    struct td_err err = {0};
    struct td_buffer *b;
    td_buffer_trim();
    uint64_t before = td_buffer_live_bytes();
    td_mem_fail_at(1);
    CHECK_INT(td_buffer_new(700, false, &b, &err), TD_RESOURCE_EXHAUSTED);
    CHECK_INT(td_buffer_new(SIZE_MAX, false, &b, &err), TD_RESOURCE_EXHAUSTED);
    td_mem_fail_at(0);
    CHECK_INT(td_buffer_new(SIZE_MAX - 100, false, &b, &err), TD_RESOURCE_EXHAUSTED);
    CHECK_INT(td_buffer_live_bytes(), before);
}

static void *churn(void *shared)
{
    for (int i = 0; i < 2000; i++) {
        td_buffer_ref(shared);
        td_buffer_unref(fresh((size_t)(i % 700), false));
        td_buffer_unref(shared);
    }
    return NULL;
}

TEST(threads_share_and_free)
{
    struct td_buffer *shared = fresh(10, false);
    uint64_t before = td_buffer_live_bytes();
    pthread_t t[3];
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pthread_create(&t[i], NULL, churn, shared), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK(td_buffer_unique(shared) && td_buffer_live_bytes() == before);
    td_buffer_unref(shared);
}

static void *off_stream(void *shared)
{
    td_buffer_off_stream(shared);
    td_buffer_unref(shared);
    return NULL;
}

/* As runs do that read one variable's value on a device. */
TEST(threads_take_what_they_share_off_its_stream)
{
    static struct td_device device;
    struct td_buffer b = {.refs = 3, .device = &device, .size_class = -1};
    pthread_t t[2];
    for (int i = 0; i < 2; i++) {
        CHECK_INT(pthread_create(&t[i], NULL, off_stream, &b), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK_INT(b.refs, 1);
    CHECK(b.stream == NULL);
}

TEST_MAIN(RUN(blocks_are_aligned_and_counted) RUN(only_a_lone_holder_may_write)
              RUN(wrapped_bytes_go_back_once_and_are_never_written) RUN(objects_start_empty_and_are_let_go)
                  RUN(the_budget_counts_what_is_alive) RUN(threads_that_end_leave_the_sum_as_it_was)
                      RUN(an_account_bounds_one_request_and_outlives_it)
                          RUN(an_allowance_is_used_up_and_handed_back)
                              RUN(a_warm_thread_asks_the_c_library_for_nothing)
                                  RUN(a_failed_allocation_counts_nothing) RUN(threads_share_and_free)
                                      RUN(threads_take_what_they_share_off_its_stream))
