/* tests/unit/server/test_embed_pool.c - threads that have helped look out for more (core/base/linger.h), and
 * the pool whose threads do (server/embed_pool.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/embed_pool.h"

#include <time.h>

#include "core/base/linger.h"
#include "tests/test.h"

static void sleep_ns(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* ------------------------------------------------------------------ endings */

struct ends {
    struct td_ending e;
    long after_ns;
};

static void *end_it(void *arg)
{
    struct ends *s = arg;
    sleep_ns(s->after_ns);
    td_ending_end(&s->e);
    return NULL;
}

/* Before it is waited for, while the waiter looks, and when it sleeps. */
TEST(an_ending_is_seen_whenever_it_comes)
{
    static const long after_ns[] = {0, TD_HOLD_NS, TD_LINGER_NS / 2, 3 * TD_LINGER_NS, 20000000};
    for (int i = 0; i < 5; i++) {
        struct ends s = {.after_ns = after_ns[i]};
        pthread_t thread;
        td_ending_init(&s.e);
        CHECK_INT(pthread_create(&thread, NULL, end_it, &s), 0);
        td_ending_wait(&s.e);
        pthread_join(thread, NULL);
        td_ending_fini(&s.e);
    }
    struct td_ending over;
    td_ending_init(&over);
    td_ending_end(&over);
    td_ending_wait(&over);
    td_ending_fini(&over);
}

/* ------------------------------------------------------------------ looking */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

TEST(who_has_helped_looks_until_its_time_is_over)
{
    struct td_linger l = {0};
    struct td_linger_me me = {0};
    pthread_mutex_lock(&mu);
    CHECK(!td_linger_look(&l, &me, &mu, INT64_MAX)); /* it has not */
    td_linger_helped(&l, &me);
    const int64_t from_ns = td_now_ns();
    CHECK(td_linger_look(&l, &me, &mu, INT64_MAX)); /* to look at the work again */
    CHECK(td_now_ns() - from_ns >= TD_LINGER_NS / 2);
    while (td_linger_look(&l, &me, &mu, INT64_MAX)) {
    }
    CHECK_INT(l.looking, 0);
    td_linger_helped(&l, &me);
    CHECK(!td_linger_look(&l, &me, &mu, from_ns)); /* something is to be done at a time that is over */
    pthread_mutex_unlock(&mu);
}

static void *look(void *arg)
{
    struct td_linger *l = arg;
    struct td_linger_me me = {.until_ns = INT64_MAX};
    pthread_mutex_lock(&mu);
    CHECK(td_linger_look(l, &me, &mu, INT64_MAX));
    pthread_mutex_unlock(&mu);
    return NULL;
}

TEST(who_looks_is_stirred_and_need_not_be_woken)
{
    struct td_linger l = {0};
    pthread_t thread;
    CHECK(td_linger_stir(&l, 1)); /* nobody looks */
    CHECK_INT(td_linger_wake_ns(&l), TD_WAKE_NS);
    CHECK_INT(pthread_create(&thread, NULL, look, &l), 0);
    while (td_linger_wake_ns(&l) != TD_SOON_NS) {
        sleep_ns(1000);
    }
    pthread_mutex_lock(&mu);
    CHECK(!td_linger_call(&l));   /* one is there */
    CHECK(td_linger_stir(&l, 2)); /* for two tasks it is not enough */
    CHECK(!td_linger_stir(&l, 1));
    pthread_mutex_unlock(&mu);
    pthread_join(thread, NULL);
    CHECK_INT(l.looking, 0);
}

TEST(after_one_that_came_in_vain_none_is_called_for_a_while)
{
    struct td_linger l = {0};
    struct td_linger_me me = {0};
    pthread_mutex_lock(&mu);
    CHECK(td_linger_call(&l));
    CHECK(!td_linger_call(&l)); /* it has not come yet */
    while (td_linger_look(&l, &me, &mu, INT64_MAX)) {
    }
    CHECK(l.call_at_ns > td_now_ns());
    CHECK(!td_linger_call(&l));
    l.call_at_ns = 0;
    const int64_t vain_ns = l.vain_ns;
    CHECK(td_linger_call(&l));
    while (td_linger_look(&l, &me, &mu, INT64_MAX)) {
    }
    CHECK_INT(l.vain_ns, 2 * vain_ns);
    td_linger_helped(&l, &me);
    CHECK_INT(l.vain_ns, 0);
    pthread_mutex_unlock(&mu);
}

/* ------------------------------------------------------------------ the pool */

enum { CHUNKS = 7, ROUNDS = 5000 };

struct chunks {
    atomic_int done[CHUNKS], helped;
};

static void do_chunk(void *arg, int i, int who)
{
    struct chunks *c = arg;
    atomic_fetch_add(&c->done[i], 1);
    atomic_fetch_add(&c->helped, who > 0);
    for (int64_t until_ns = td_now_ns() + 2000; td_now_ns() < until_ns;) {
    }
}

/* With every pause between two of them: helpers look out, are about to sleep, sleep. */
TEST(every_chunk_is_done_once_however_the_helpers_come)
{
    struct td_embed_pool *p;
    struct td_err err = {0};
    struct chunks c = {0};
    CHECK_OK(td_embed_pool_new(3, &p, &err));
    struct td_thread_pool *pool = td_embed_pool_of(p);
    for (int round = 0; round < ROUNDS; round++) {
        td_parallel_for(pool, CHUNKS, do_chunk, &c);
        for (int i = 0; i < CHUNKS; i++) {
            CHECK_INT(c.done[i], round + 1);
        }
        if (round % 50 == 0) {
            pool->call(pool);
            sleep_ns(round % 3 * TD_LINGER_NS);
        }
    }
    CHECK(c.helped > 0);
    CHECK_INT(pool->idle(pool), 2);
    td_embed_pool_free(p);
}

TEST_MAIN(RUN(an_ending_is_seen_whenever_it_comes) RUN(who_has_helped_looks_until_its_time_is_over)
              RUN(who_looks_is_stirred_and_need_not_be_woken)
                  RUN(after_one_that_came_in_vain_none_is_called_for_a_while)
                      RUN(every_chunk_is_done_once_however_the_helpers_come))
