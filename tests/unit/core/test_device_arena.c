/* tests/unit/core/test_device_arena.c - where the values of a recording lie (core/run/device_arena.h): those
 * alive at one time apart, bytes used again, and sizes that no device has.
 *
 * The plan: steps 0..3, each makes value k + 1 of value k; value 0 is fed, value 4 is fetched.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_arena.h"

#include "tests/test.h"

enum { STEPS = 4, VALUES = STEPS + 1, RESERVED = 512 };

struct made {
    struct td_plan plan;
    struct td_bound_plan bound;
    struct td_step steps[STEPS];
    struct td_choice choice[STEPS];
    struct td_kernel kernel[STEPS];
    struct td_shape shape[VALUES];
    unsigned char mode[STEPS];
    struct td_inner *inner[STEPS];
    enum td_dtype dtype[VALUES];
    int in[STEPS], last_use[VALUES];
    bool on_host[1];
};

static void make(struct made *m, int64_t n)
{
    *m = (struct made){.plan = {.n_steps = STEPS, .n_values = VALUES}};
    for (int k = 0; k < STEPS; k++) {
        m->in[k] = k;
        m->steps[k] =
            (struct td_step){.in = &m->in[k], .on_host = m->on_host, .n_in = 1, .n_out = 1, .out0 = k + 1};
        m->choice[k].kernel = &m->kernel[k];
        m->mode[k] = TD_STEP_DEVICE;
    }
    for (int v = 0; v < VALUES; v++) {
        m->shape[v] = td_shape_vector(n);
        m->dtype[v] = TD_INT64;
        m->last_use[v] = v;
    }
    m->plan.steps = m->steps;
    m->plan.dtype = m->dtype;
    m->plan.last_use = m->last_use;
    m->bound.plan = &m->plan;
    m->bound.choice = m->choice;
    m->bound.shape = m->shape;
    m->bound.mode = m->mode;
    m->bound.inner = m->inner;
}

static const struct td_stretch all = {.first = 0, .end = STEPS};

TEST(values_that_are_over_give_their_bytes_on)
{
    static struct made m;
    struct td_device_arena a;
    struct td_err err = {0};
    make(&m, 100); /* 800 bytes: four pieces of 256 */
    CHECK_OK(td_device_arena_plan(&m.bound, &all, RESERVED, &a, &err));
    CHECK_INT(a.n, STEPS);
    CHECK(a.at[0] == RESERVED && a.at[1] == RESERVED + 1024);
    CHECK(a.at[2] == a.at[0] && a.at[3] == a.at[1]);
    CHECK_INT(a.bytes, RESERVED + 2048);
    td_device_arena_fini(&a);
}

/* Looked at only when the run waits. */
TEST(what_is_judged_stays)
{
    static struct made m;
    struct td_device_arena a;
    struct td_err err = {0};
    make(&m, 100);
    m.kernel[1].judged = 1; /* of step 1: value 1 */
    CHECK_OK(td_device_arena_plan(&m.bound, &all, 0, &a, &err));
    for (int k = 1; k < STEPS; k++) {
        CHECK(a.at[k] != a.at[0]);
    }
    td_device_arena_fini(&a);
}

/* Step 1 hands on: value 2 lies where value 1 does, as long as it is read. */
TEST(what_is_handed_on_keeps_its_bytes)
{
    static struct made m;
    struct td_device_arena a;
    struct td_err err = {0};
    make(&m, 100);
    m.kernel[1].hands_on = true;
    m.choice[2].offer.workspace_bytes = 10;
    CHECK_OK(td_device_arena_plan(&m.bound, &all, 0, &a, &err));
    CHECK_INT(a.n, STEPS); /* values 1, 3, a workspace, value 4 */
    CHECK(a.at[0] == 0 && a.at[1] == 1024 && a.at[2] == 2048 && a.at[3] == 0);
    td_device_arena_fini(&a);
}

TEST(sizes_that_no_device_has_are_refused)
{
    static const int64_t sizes[] = {INT64_C(1) << 60, (INT64_C(1) << 61) - 1};
    static struct made m;
    struct td_device_arena a;
    for (int i = 0; i < 2; i++) {
        struct td_err err = {0};
        make(&m, sizes[i]);
        CHECK_INT(td_device_arena_plan(&m.bound, &all, RESERVED, &a, &err), TD_RESOURCE_EXHAUSTED);
        CHECK(a.at == NULL);
    }
}

TEST_MAIN(RUN(values_that_are_over_give_their_bytes_on) RUN(what_is_judged_stays)
              RUN(what_is_handed_on_keeps_its_bytes) RUN(sizes_that_no_device_has_are_refused))
