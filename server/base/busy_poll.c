/* server/base/busy_poll.c
 *
 * epoll_wait is defined here for the whole program: the dynamic linker finds this one before libc's, for
 * libmicrohttpd too. It is libc's epoll_pwait without a signal mask, which is the same, and looks first.
 *
 * Who looks takes a processor that others, and their clients on this machine, could have. So a thread looks
 * only while at most half of the processors have a thread of ours that had events lately, itself among
 * them.
 *
 * How long a thread's waits are is a mean that forgets: a quarter of it is the last one's, of which no more
 * counts than four times the limit. So one long wait ends the looking, and a handful of short ones bring it
 * back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/busy_poll.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "server/base/clock.h"

#define GIVEN_WAY_NS 20000 /* a round that took longer: another thread had the processor */
#define LATELY_NS 1000000
#define MOST_THREADS 64

static _Atomic int64_t limit_ns, spent_ns;
static _Atomic int64_t had_events_ns[MOST_THREADS]; /* when each thread had, by its number */
static atomic_int most_lively, n_threads;

static _Thread_local int64_t mean_wait_ns = INT64_MAX, own_spent_ns;
static _Thread_local int number = -1; /* MOST_THREADS and more: it never looks */

void td_busy_poll_start(int64_t most_us, int cores)
{
    atomic_store_explicit(&most_lively, cores / 2, memory_order_relaxed);
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

/* Whether processors enough are left for the others when this thread looks. */
static bool may_look(int64_t now_ns)
{
    int lively = 1;
    const int n = atomic_load_explicit(&n_threads, memory_order_relaxed);
    for (int i = 0; i < n && i < MOST_THREADS; i++) {
        const int64_t had_ns = atomic_load_explicit(&had_events_ns[i], memory_order_relaxed);
        lively += i != number && had_ns > now_ns - LATELY_NS;
    }
    return number < MOST_THREADS && lively <= atomic_load_explicit(&most_lively, memory_order_relaxed);
}

/* As epoll_wait; 0: nothing has come in that time, or the processor was wanted by another thread. */
static int look(int epoll, struct epoll_event *events, int most, int64_t begun_ns, int64_t for_ns)
{
    int64_t now_ns = begun_ns, round_ns = 0;
    int n = 0;
    while (now_ns - begun_ns < for_ns && round_ns < GIVEN_WAY_NS && may_look(now_ns) &&
           (n = epoll_pwait(epoll, events, most, 0, NULL)) == 0) {
        const int64_t round_begun_ns = now_ns;
        (void)sched_yield();
        now_ns = td_clock_ns();
        round_ns = now_ns - round_begun_ns;
    }
    if (now_ns > begun_ns) {
        own_spent_ns += now_ns - begun_ns;
        (void)atomic_fetch_add_explicit(&spent_ns, now_ns - begun_ns, memory_order_relaxed);
    }
    return n;
}

static void remember(int64_t begun_ns, int n, int64_t limit)
{
    const int64_t most = 4 * limit, now_ns = td_clock_ns(), wait_ns = now_ns - begun_ns;
    mean_wait_ns = (3 * (mean_wait_ns < most ? mean_wait_ns : most) + (wait_ns < most ? wait_ns : most)) / 4;
    if (n > 0 && number < MOST_THREADS) {
        atomic_store_explicit(&had_events_ns[number], now_ns, memory_order_relaxed);
    }
}

__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events, int most,
                                                      int timeout_ms)
{
    const int64_t limit = atomic_load_explicit(&limit_ns, memory_order_relaxed);
    if (limit == 0 || timeout_ms == 0) {
        return epoll_pwait(epoll, events, most, timeout_ms, NULL);
    }
    if (number < 0) {
        number = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed);
    }
    const int64_t begun_ns = td_clock_ns(), timeout_ns = (int64_t)timeout_ms * 1000000;
    int n = 0;
    if (mean_wait_ns < limit) {
        n = look(epoll, events, most, begun_ns, timeout_ms > 0 && timeout_ns < limit ? timeout_ns : limit);
    }
    if (n == 0) {
        n = epoll_pwait(epoll, events, most, timeout_ms, NULL);
    }
    remember(begun_ns, n, limit);
    return n;
}
