/* tests/unit/server/test_busy_poll.c - epoll_wait as libc has it, and who looks before it sleeps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/busy_poll.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "tests/test.h"

#define LIMIT_US 1000000 /* longer than all that a slow machine makes of a wait for what is there */

static int epoll = -1, happens = -1;

static void open_both(int64_t most_us, int cores)
{
    td_busy_poll_start(most_us, cores);
    epoll = epoll_create1(0);
    happens = eventfd(0, 0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 7};
    CHECK(epoll >= 0 && happens >= 0);
    CHECK_INT(epoll_ctl(epoll, EPOLL_CTL_ADD, happens, &wanted), 0);
}

static void close_both(void)
{
    close(epoll);
    close(happens);
}

static void happen(void)
{
    const uint64_t one = 1;
    CHECK_INT(write(happens, &one, sizeof one), sizeof one);
}

/* Waits for what has happened already: short waits. */
static void find_some(int times)
{
    happen();
    for (int i = 0; i < times; i++) {
        struct epoll_event e = {0};
        CHECK_INT(epoll_wait(epoll, &e, 1, -1), 1);
        CHECK_INT(e.data.u64, 7);
    }
    uint64_t all;
    CHECK_INT(read(happens, &all, sizeof all), sizeof all);
}

/* What was spent on looking in a wait for nothing, in nanoseconds. */
static int64_t look_in_vain(int timeout_ms)
{
    struct epoll_event e;
    const int64_t before_ns = td_busy_poll_spent_here_ns(), begun_ns = td_clock_ns();
    CHECK_INT(epoll_wait(epoll, &e, 1, timeout_ms), 0);
    CHECK(td_clock_ns() - begun_ns >= (int64_t)timeout_ms * 1000000);
    return td_busy_poll_spent_here_ns() - before_ns;
}

TEST(who_has_waited_shortly_looks_before_it_sleeps)
{
    open_both(LIMIT_US, 2);
    CHECK_INT(look_in_vain(1), 0); /* nothing is known of it */
    find_some(16);
    const int64_t all_ns = td_busy_poll_spent_ns(), spent_ns = look_in_vain(5);
    CHECK(spent_ns > 0);
    CHECK_INT(td_busy_poll_spent_ns() - all_ns, spent_ns);
    close_both();
}

TEST(who_has_waited_long_sleeps_at_once)
{
    open_both(LIMIT_US, 2);
    find_some(16);
    CHECK(look_in_vain(1) > 0);
    td_busy_poll_start(100, 2); /* us: four times as much is long */
    (void)look_in_vain(5);
    (void)look_in_vain(5);
    CHECK_INT(look_in_vain(5), 0);
    close_both();
}

TEST(on_one_processor_and_without_a_limit_all_sleep_at_once)
{
    open_both(LIMIT_US, 1);
    find_some(16);
    CHECK_INT(look_in_vain(2), 0);
    close_both();
    open_both(0, 8);
    find_some(16);
    CHECK_INT(look_in_vain(2), 0);
    close_both();
}

static void *happen_later(void *unused)
{
    (void)unused;
    usleep(2000);
    happen();
    return NULL;
}

TEST(what_comes_while_it_looks_is_found)
{
    open_both(LIMIT_US, 2);
    for (int i = 0; i < 20; i++) {
        find_some(4);
        pthread_t other;
        CHECK_INT(pthread_create(&other, NULL, happen_later, NULL), 0);
        struct epoll_event e = {0};
        CHECK_INT(epoll_wait(epoll, &e, 1, -1), 1);
        CHECK_INT(e.data.u64, 7);
        CHECK_INT(pthread_join(other, NULL), 0);
    }
    close_both();
}

TEST(a_wrong_call_fails_as_libcs_does)
{
    td_busy_poll_start(LIMIT_US, 2);
    struct epoll_event e;
    CHECK_INT(epoll_wait(-1, &e, 1, 1), -1);
    CHECK_INT(errno, EBADF);
}

TEST_MAIN(RUN(who_has_waited_shortly_looks_before_it_sleeps) RUN(who_has_waited_long_sleeps_at_once)
              RUN(on_one_processor_and_without_a_limit_all_sleep_at_once)
                  RUN(what_comes_while_it_looks_is_found) RUN(a_wrong_call_fails_as_libcs_does))
