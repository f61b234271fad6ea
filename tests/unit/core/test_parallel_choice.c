/* tests/unit/core/test_parallel_choice.c - td_parallel_choose (core/base/thread_pool.h): when work is tried
 * on several threads, and when it stays with that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/thread_pool.h"
#include "tests/test.h"

enum { SHARE_NS = 30000, CALLED_LATE = 3, FIRST = 6, TRIES = 7, EVERY = 256, PATIENCE = 64 };

/* One helper, which sleeps unless it was called some runs ago, or helped last time. */
struct sleeper {
    struct td_thread_pool pool; /* first */
    int calls, comes_in;        /* runs until it is awake; -1: nobody called */
    bool awake, busy;           /* busy: it never comes */
};

static int64_t wake_ns(struct td_thread_pool *c)
{
    return ((struct sleeper *)c)->awake ? TD_SOON_NS : TD_WAKE_NS;
}

static void call(struct td_thread_pool *c)
{
    struct sleeper *s = (struct sleeper *)c;
    s->calls++;
    s->comes_in = s->comes_in < 0 && !s->busy ? CALLED_LATE : s->comes_in;
}

static struct sleeper asleep(void)
{
    return (struct sleeper){.pool = {.most = 2, .wake_ns = wake_ns, .call = call}, .comes_in = -1};
}

/* One run, which takes so long on one thread and on two. */
static enum td_parallel_way run(struct td_parallel_cost *c, struct sleeper *s, int alone_ns, int together_ns)
{
    s->awake = s->awake || s->comes_in == 0;
    s->comes_in -= s->comes_in >= 0;
    const enum td_parallel_way way = td_parallel_choose(c, &s->pool, SHARE_NS);
    if (way == TD_PARALLEL_TOGETHER) {
        CHECK(s->awake);
        td_timing_learn(&c->together_ns, together_ns);
    } else if (way == TD_PARALLEL_ALONE_TIMED) {
        td_timing_learn(&c->alone_ns, alone_ns);
    }
    s->awake = way == TD_PARALLEL_TOGETHER;
    return way;
}

/* How many of the next n runs are shared. */
static int shared(struct td_parallel_cost *c, struct sleeper *s, int n, int alone_ns, int together_ns)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        found += run(c, s, alone_ns, together_ns) == TD_PARALLEL_TOGETHER;
    }
    return found;
}

TEST(the_faster_way_is_taken)
{
    struct td_parallel_cost c = {0};
    struct sleeper s = asleep();
    CHECK_INT(shared(&c, &s, FIRST, 60000, 35000), 0);
    (void)shared(&c, &s, 2 * TRIES, 60000, 35000);
    CHECK(shared(&c, &s, 2 * EVERY, 60000, 35000) > 2 * EVERY * 9 / 10);
    struct td_parallel_cost slow = {0};
    s = asleep();
    (void)shared(&slow, &s, FIRST + 2 * TRIES, 60000, 70000);
    const int soon = shared(&slow, &s, EVERY, 60000, 70000);
    CHECK(soon > 1 && soon < 7);
    CHECK(shared(&slow, &s, 8 * EVERY, 60000, 70000) <= 8 + 1);
}

/* Nothing is shared, so that the helper sleeps, and is called for the try alone, whose run is long over then.
 */
TEST(a_try_that_is_due_waits_for_a_helper_to_wake)
{
    struct td_parallel_cost c = {0};
    struct sleeper s = asleep();
    (void)shared(&c, &s, FIRST + 2 * TRIES, 60000, 70000); /* another program has the second processor .. */
    CHECK(shared(&c, &s, EVERY / 4, 60000, 35000) > 0);    /* ... for a moment only */
    CHECK(shared(&c, &s, EVERY, 60000, 35000) > EVERY * 9 / 10);
    (void)shared(&c, &s, EVERY / 4, 60000, 200000); /* once more */
    CHECK_INT(shared(&c, &s, 4, 60000, 35000), 0);
    (void)shared(&c, &s, EVERY, 60000, 35000);
    CHECK(shared(&c, &s, EVERY, 60000, 35000) > EVERY * 9 / 10);
}

TEST(a_helper_that_never_comes_is_not_called_for_ever)
{
    struct td_parallel_cost c = {0};
    struct sleeper s = asleep();
    s.busy = true;
    CHECK_INT(shared(&c, &s, 100 * EVERY, 60000, 70000), 0);
    CHECK(s.calls > 0);
    c.together_ns = 70000; /* known, and slower */
    s.calls = 0;
    CHECK_INT(shared(&c, &s, 100 * EVERY, 60000, 70000), 0);
    CHECK(s.calls <= 100 * EVERY * (PATIENCE + 1) / (PATIENCE + EVERY) + PATIENCE);
}

/* A sleeping helper is worth waking for what takes much longer than that. */
TEST(first_runs_are_shared_where_they_are_long_by_an_estimate)
{
    const int64_t shares[] = {TD_WAKE_NS + 1, TD_WAKE_NS, 0};
    for (int i = 0; i < 3; i++) {
        struct td_parallel_cost c = {0};
        struct sleeper s = asleep();
        const enum td_parallel_way want = i == 0 ? TD_PARALLEL_TOGETHER : TD_PARALLEL_ALONE;
        CHECK_INT(td_parallel_choose(&c, &s.pool, shares[i]), want);
        CHECK_INT(td_parallel_choose(&c, &s.pool, shares[i]), want);
        CHECK_INT(td_parallel_choose(&c, &s.pool, shares[i]), TD_PARALLEL_ALONE_TIMED);
    }
}

TEST_MAIN(RUN(the_faster_way_is_taken) RUN(first_runs_are_shared_where_they_are_long_by_an_estimate)
              RUN(a_try_that_is_due_waits_for_a_helper_to_wake)
                  RUN(a_helper_that_never_comes_is_not_called_for_ever))
