/* server/base/busy_poll.c
 *
 * epoll_wait is defined here for the whole program: the dynamic linker finds this one before libc's, for
 * libmicrohttpd too. It is libc's epoll_pwait without a signal mask, which is the same, and looks first.
 *
 * How long a thread's waits are is a mean that forgets: a quarter of it is the last one's, of which no more counts
 * than four times the limit. So one long wait ends the looking, and a handful of short ones bring it back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/busy_poll.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "server/base/clock.h"

enum { GIVEN_WAY_NS = 20000 }; /* a turn that took longer: another thread had the processor */

static _Atomic int64_t limit_ns, spent_ns;
static atomic_int looking, most_looking;

static _Thread_local int64_t mean_wait_ns = INT64_MAX, own_spent_ns;

void td_busy_poll_start(int64_t most_us, int cores)
{
    atomic_store_explicit(&most_looking, cores / 2, memory_order_relaxed);
    atomic_store_explicit(&limit_ns, most_us * 1000, memory_order_relaxed);
}

int64_t td_busy_poll_spent_ns(void)
{
    return atomic_load_explicit(&spent_ns, memory_order_relaxed);
}

int64_t td_busy_poll_spent_here_ns(void)
{
    return own_spent_ns;
}

static bool may_look(void)
{
    if (atomic_fetch_add_explicit(&looking, 1, memory_order_relaxed) <
        atomic_load_explicit(&most_looking, memory_order_relaxed)) {
        return true;
    }
    atomic_fetch_sub_explicit(&looking, 1, memory_order_relaxed);
    return false;
}

/* As epoll_wait; 0: nothing has come in that time, or the processor was wanted by another thread. */
static int look(int epoll, struct epoll_event *events, int most, int64_t begun_ns, int64_t for_ns)
{
    int64_t now_ns = begun_ns, turn_ns = 0;
    int n;
    while ((n = epoll_pwait(epoll, events, most, 0, NULL)) == 0 && now_ns - begun_ns < for_ns &&
           turn_ns < GIVEN_WAY_NS) {
        const int64_t turn_begun_ns = now_ns;
        (void)sched_yield();
        now_ns = td_clock_ns();
        turn_ns = now_ns - turn_begun_ns;
    }
    own_spent_ns += now_ns - begun_ns;
    (void)atomic_fetch_add_explicit(&spent_ns, now_ns - begun_ns, memory_order_relaxed);
    return n;
}

static void remember(int64_t wait_ns, int64_t limit)
{
    const int64_t most = 4 * limit;
    mean_wait_ns = (3 * (mean_wait_ns < most ? mean_wait_ns : most) + (wait_ns < most ? wait_ns : most)) / 4;
}

__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events, int most,
                                                      int timeout_ms)
{
    const int64_t limit = atomic_load_explicit(&limit_ns, memory_order_relaxed);
    if (limit == 0 || timeout_ms == 0) {
        return epoll_pwait(epoll, events, most, timeout_ms, NULL);
    }
    const int64_t begun_ns = td_clock_ns(), timeout_ns = (int64_t)timeout_ms * 1000000;
    int n = 0;
    if (mean_wait_ns < limit && may_look()) {
        n = look(epoll, events, most, begun_ns, timeout_ms > 0 && timeout_ns < limit ? timeout_ns : limit);
        atomic_fetch_sub_explicit(&looking, 1, memory_order_relaxed);
    }
    if (n == 0) {
        n = epoll_pwait(epoll, events, most, timeout_ms, NULL);
    }
    remember(td_clock_ns() - begun_ns, limit);
    return n;
}
