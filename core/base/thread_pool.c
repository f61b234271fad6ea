/* core/base/thread_pool.c - one atomic counter of chunks, taken from by the caller and by the helpers it
 * gets, and what was learnt of such work.
 *
 *   heap {next: 0 .. n}  <-  work(): takes the next number, calls fn with it, until none is left
 *                            on the caller (who 0) and on each helper (who 1, 2, ..)
 *
 * Heap and helpers lie on the caller's stack. Helpers are started before the caller begins and joined, last
 * first, before it returns; one that has not begun by then never will, so nothing points at the stack
 * afterwards. A helper looks between two chunks whether its thread is wanted elsewhere, and leaves the rest
 * to the others.
 *
 * td_parallel_choose goes by the number of the run: the first prepare and are not timed; they run together
 * where an estimate says that it is worth it, so that a first answer takes no longer than others. Then some
 * are timed alone, some are tried together, the faster way is taken, and now and then each is looked at
 * again: together soon after it has come out slower, and less and less often while it stays so. A try that
 * is due waits for a helper to be awake: where nothing is shared all sleep, and one that was called for a
 * try comes some runs later.
 * Times are slowly rising minima: what else the machine does, a kernel's first run and a helper that slept
 * only add, and one such time shall not outweigh many. They are relaxed atomics: two runs at a time may
 * lose one.
 *
 * Does not: own threads (server/sched/worker_pool.c), cut work into chunks, order them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/thread_pool.h"

#include <stdatomic.h>
#include <stddef.h>

#include "core/base/float_mode.h"
#include "core/base/signal_stack.h"
#include "core/base/work.h"

struct heap {
    struct td_thread_pool *pool;
    int n;
    atomic_int next; /* the chunk to be taken */
    void (*fn)(void *arg, int i, int who);
    void *arg;
    const struct td_work *work; /* the caller's */
    atomic_bool cut;            /* a helper has cut it short */
};

struct helper {
    struct td_pool_task task; /* first */
    struct heap *heap;
    int who;
};

static void work(struct heap *h, int who)
{
    for (int i; (i = atomic_fetch_add(&h->next, 1)) < h->n;) {
        h->fn(h->arg, i, who);
        if (who > 0 && h->pool->wanted(h->pool)) {
            return;
        }
    }
}

static void help(struct td_pool_task *t)
{
    const struct helper *me = (const struct helper *)t;
    td_signal_stack_make();
    const unsigned long mode = td_float_mode_enter();
    const struct td_work *before = td_work_enter(me->heap->work);
    work(me->heap, me->who);
    if (td_work_cut) {
        atomic_store(&me->heap->cut, true);
    }
    td_work_enter(before);
    td_float_mode_leave(mode);
}

void td_parallel_for(struct td_thread_pool *c, int n, void (*fn)(void *arg, int i, int who), void *arg)
{
    struct helper helpers[TD_POOL_MOST];
    struct heap h = {.pool = c, .n = n, .fn = fn, .arg = arg, .work = td_work_now()};
    int started = 0;
    for (; c != NULL && started < n - 1 && started < TD_POOL_MOST; started++) {
        helpers[started] = (struct helper){.task = {.run = help}, .heap = &h, .who = started + 1};
        if (!c->try_start(c, &helpers[started].task)) {
            break;
        }
    }
    work(&h, 0);
    while (started > 0) {
        c->join(c, &helpers[--started].task);
    }
    td_work_cut |= atomic_load_explicit(&h.cut, memory_order_relaxed);
}

/* ------------------------------------------------------------------ is it worth it */

/* The first runs prepare and pack weights; the next show what each way takes; then, now and then, one does.
 */
#define STEADY_WORK 8e6 /* multiplications: a few tenths of a millisecond on one thread */
#define LEAST_PART 1e6  /* likewise: some 10 us, several times what a join takes */
enum { WARM = 2, LOOKED = WARM + 4, LOOK_EVERY = 64, TRIES = 6, NEXT_TRY = 8, LAST_TRY = 256 };

bool td_parallel_is_worth(struct td_thread_pool *c, int64_t share_ns)
{
    if (share_ns > c->wake_ns(c)) {
        return true;
    }
    if (share_ns > TD_SOON_NS) {
        c->call(c);
    }
    return false;
}

enum td_parallel_way td_parallel_by_work(double multiplications)
{
    return multiplications >= STEADY_WORK ? TD_PARALLEL_TOGETHER : TD_PARALLEL_ALONE;
}

int td_parallel_parts(double multiplications, int most)
{
    const double worth = multiplications / LEAST_PART;
    return worth >= most ? most : worth > 2 ? (int)worth : 2;
}

int td_parallel_class(double multiplications)
{
    int exponent = 0;
    for (; multiplications >= 2 && exponent < TD_PARALLEL_CLASSES - 1; multiplications /= 2) {
        exponent++;
    }
    return exponent;
}

/* Runs until the next try, after so many since together was faster last. */
static unsigned until_next(unsigned tries)
{
    unsigned runs = tries < TRIES ? 1 : NEXT_TRY;
    for (unsigned k = TRIES; k < tries && runs < LAST_TRY; k++) {
        runs *= 2;
    }
    return runs;
}

static void try_later(struct td_parallel_cost *c, unsigned tries, unsigned run)
{
    atomic_store_explicit(&c->tries, tries, memory_order_relaxed);
    atomic_store_explicit(&c->try_at, run, memory_order_relaxed);
}

/* Whether run is a try, which is due from c->try_at on. It takes place when it is worth it; when none was for
 * long, since all who could help are busy, the next is due later. */
static bool try_together(struct td_parallel_cost *c, unsigned run, struct td_thread_pool *pool,
                         int64_t share_ns)
{
    const unsigned due = atomic_load_explicit(&c->try_at, memory_order_relaxed);
    if (run < LOOKED || (int)(run - due) < 0) {
        return false;
    }
    const unsigned tries = atomic_load_explicit(&c->tries, memory_order_relaxed);
    const bool worth = td_parallel_is_worth(pool, share_ns);
    if (worth) {
        try_later(c, tries + 1, run + until_next(tries + 1));
    } else if (run - due >= LOOK_EVERY) {
        try_later(c, tries, run + LAST_TRY);
    }
    return worth;
}

enum td_parallel_way td_parallel_choose(struct td_parallel_cost *c, struct td_thread_pool *pool,
                                        int64_t share_ns)
{
    const unsigned run = atomic_fetch_add_explicit(&c->runs, 1, memory_order_relaxed);
    const bool look = run < LOOKED || run % LOOK_EVERY == LOOK_EVERY - 1;
    const int64_t together = td_timing_known(&c->together_ns);
    const bool faster = together < td_timing_known(&c->alone_ns);
    if (run < WARM ? td_parallel_is_worth(pool, share_ns) : try_together(c, run, pool, share_ns)) {
        return TD_PARALLEL_TOGETHER;
    }
    if (!look && faster && td_parallel_is_worth(pool, share_ns)) {
        if (together > 0) {
            try_later(c, TRIES, run + until_next(TRIES));
        }
        return TD_PARALLEL_TOGETHER;
    }
    return look && run >= WARM ? TD_PARALLEL_ALONE_TIMED : TD_PARALLEL_ALONE;
}
