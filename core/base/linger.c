/* core/base/linger.c - loops that look at an atomic, first without a pause, then between others' turns.
 *
 * A reason counts for who looks when it comes after the lock was let go: the count that is compared with is
 * read under the lock, where every reason is made. A looking thread that has looked long enough counts as
 * looking until it has the lock again; whoever relies on it meanwhile is found by its next look at the work,
 * before it sleeps.
 *
 * An ending's semaphore is used only by a waiter that said so before the end: SLEEPS and the end are
 * exchanged for each other, so that who ends it touches the semaphore only while it is waited for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/linger.h"

#include <sched.h>

#include "core/base/timings.h"

enum { FIRST_VAIN_NS = 1000000, MOST_VAIN_NS = 256000000 };
enum { RUNS, SLEEPS, ENDED }; /* an ending's states */

static void breathe(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int64_t td_linger_between(int64_t from_ns)
{
    enum { BREATHS = 8 };
    const int64_t now_ns = td_now_ns();
    if (now_ns - from_ns > TD_HOLD_NS) {
        (void)sched_yield();
    } else {
        for (int i = 0; i < BREATHS; i++) {
            breathe();
        }
    }
    return now_ns;
}

/* ------------------------------------------------------------------ looking */

bool td_linger_stir(struct td_linger *l, int open)
{
    atomic_fetch_add_explicit(&l->stirred, 1, memory_order_release);
    return open > atomic_load_explicit(&l->looking, memory_order_relaxed);
}

bool td_linger_call(struct td_linger *l)
{
    const bool some = atomic_load_explicit(&l->looking, memory_order_relaxed) > 0 || l->called > 0;
    if (some || td_now_ns() < l->call_at_ns) {
        return false;
    }
    l->called++;
    return true;
}

void td_linger_helped(struct td_linger *l, struct td_linger_me *me)
{
    me->until_ns = td_now_ns() + TD_LINGER_NS;
    me->called = false;
    l->vain_ns = 0;
}

static void came_in_vain(struct td_linger *l)
{
    l->vain_ns = l->vain_ns == 0 ? FIRST_VAIN_NS : 2 * l->vain_ns;
    l->vain_ns = l->vain_ns < MOST_VAIN_NS ? l->vain_ns : MOST_VAIN_NS;
    l->call_at_ns = td_now_ns() + l->vain_ns;
}

bool td_linger_look(struct td_linger *l, struct td_linger_me *me, pthread_mutex_t *mu, int64_t at_ns)
{
    const int64_t from_ns = td_now_ns();
    if (l->called > 0) {
        l->called--;
        *me = (struct td_linger_me){.until_ns = from_ns + TD_LINGER_NS, .called = true};
    }
    if (from_ns >= me->until_ns || from_ns >= at_ns) {
        if (me->called) {
            came_in_vain(l);
        }
        *me = (struct td_linger_me){0};
        return false;
    }
    const int64_t until_ns = me->until_ns < at_ns ? me->until_ns : at_ns;
    const unsigned seen = atomic_load_explicit(&l->stirred, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->looking, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(mu);
    while (atomic_load_explicit(&l->stirred, memory_order_acquire) == seen &&
           td_linger_between(from_ns) < until_ns) {
    }
    (void)pthread_mutex_lock(mu);
    atomic_fetch_sub_explicit(&l->looking, 1, memory_order_relaxed);
    return true;
}

int64_t td_linger_wake_ns(const struct td_linger *l)
{
    return atomic_load_explicit(&l->looking, memory_order_relaxed) > 0 ? TD_SOON_NS : TD_WAKE_NS;
}

/* ------------------------------------------------------------------ the end of a task */

void td_ending_init(struct td_ending *e)
{
    atomic_init(&e->state, RUNS);
    (void)sem_init(&e->ended, 0, 0);
}

void td_ending_end(struct td_ending *e)
{
    if (atomic_exchange(&e->state, ENDED) == SLEEPS) {
        (void)sem_post(&e->ended);
    }
}

void td_ending_wait(struct td_ending *e)
{
    const int64_t from_ns = td_now_ns();
    while (atomic_load(&e->state) != ENDED) {
        int runs = RUNS;
        if (td_linger_between(from_ns) - from_ns > TD_LINGER_NS &&
            atomic_compare_exchange_strong(&e->state, &runs, SLEEPS)) {
            while (sem_wait(&e->ended) != 0) {
            }
        }
    }
}

void td_ending_fini(struct td_ending *e)
{
    (void)sem_destroy(&e->ended);
}
