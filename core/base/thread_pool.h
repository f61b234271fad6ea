/* core/base/thread_pool.h - help from threads that idle: how a run spreads work that falls apart.
 *
 *   td_parallel_for(pool, n, fn, arg)   calls fn for each of 0..n-1, on this thread and on those that idle
 *
 * try_start gets a thread at once or not at all. The caller does not rely on it: it takes one chunk of work
 * after another itself, the helpers take from the same heap, and a helper that no thread has begun to run by
 * the time that the heap is empty is called back by join. So a caller waits only for chunks that are being
 * computed, by threads that wait for nothing but, in the same way, helpers of their own: no deadlock, at any
 * depth and on any number of threads.
 *
 * A helper goes home between two chunks when its thread is wanted for something else.
 *
 * Threads: any. The thread pool itself (server/sched/worker_pool.c; tests have their own) is shared by all
 * runs that use it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_THREAD_POOL_H
#define TD_CORE_BASE_THREAD_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/linger.h"
#include "core/base/timings.h"

struct td_thread_pool;

/* What a helper is to do. All but run is the thread pool's, from try_start until join. */
struct td_pool_task {
    void (*run)(struct td_pool_task *t);
    struct td_thread_pool *pool;
    struct td_pool_task *next, *prev;
    bool begun;
    struct td_ending ending;
};

struct td_thread_pool {
    int most; /* threads that there are, the caller's own included */
    /* The same run computes the same bits each time: where the way that is chosen changes how numbers round,
     * it follows from the work (td_parallel_by_work), not from what ways have taken or who idles. */
    bool steady;
    /* t->run(t) will be called on another thread, which is free now. False: none is; t is untouched. */
    bool (*try_start)(struct td_thread_pool *c, struct td_pool_task *t);
    /* The end of what try_start began: when it has begun to run, waits until it has, else it never will. */
    void (*join)(struct td_thread_pool *c, struct td_pool_task *t);
    /* Whether something else waits for a thread. */
    bool (*wanted)(struct td_thread_pool *c);
    /* How many threads are free. */
    int (*idle)(struct td_thread_pool *c);
    /* What it takes until a helper is at work, ns: less while one looks out (core/base/linger.h). */
    int64_t (*wake_ns)(struct td_thread_pool *c);
    /* Calls a free thread to look out, unless one does, or the last ones came in vain. */
    void (*call)(struct td_thread_pool *c);
};

/* Calls fn(arg, i, who) for each i of 0..n-1, lower ones begun first, and returns when all have returned. who
 * is 0 on this thread, else the number of the helper (up to TD_POOL_MOST): no two threads at a time have the
 * same. Helpers treat denormal numbers as runs do (core/base/float_mode.h). c may be NULL. */
enum { TD_POOL_MOST = 63 };
void td_parallel_for(struct td_thread_pool *c, int n, void (*fn)(void *arg, int i, int who), void *arg);

/* ------------------------------------------------------------------ is it worth it */

/* Whether a helper comes soon enough to take share_ns of work off the caller. Where only one that looks out
 * would, and all sleep, one is called for the next time. */
bool td_parallel_is_worth(struct td_thread_pool *c, int64_t share_ns);

/* What some work takes on one thread and on several, learnt from the runs before; 0: not known. Several are
 * tried when there is enough to share, and used while they are faster: they are not where the processors are
 * busy with other things, or memory is what all wait for. */
struct td_parallel_cost {
    atomic_uint runs;
    atomic_uint tries;  /* since together was faster last */
    atomic_uint try_at; /* the run from which on the next is due */
    td_timing_least alone_ns, together_ns;
};
enum td_parallel_way { TD_PARALLEL_ALONE, TD_PARALLEL_ALONE_TIMED, TD_PARALLEL_TOGETHER };
/* Of a steady pool: alone or together by the number of multiplications, and by nothing else. */
enum td_parallel_way td_parallel_by_work(double multiplications);
/* Of work that is known by its size alone, a power of two at a time: the number of multiplications' class. */
enum { TD_PARALLEL_CLASSES = 64 };
int td_parallel_class(double multiplications);
/* In how many parts so much work is best cut for so many threads: each worth a join, and two in any case. */
int td_parallel_parts(double multiplications, int most);
/* How to run this time. share_ns: what a helper could take off the caller, by an estimate in the first runs;
 * 0 while that is not known. */
enum td_parallel_way td_parallel_choose(struct td_parallel_cost *c, struct td_thread_pool *pool,
                                        int64_t share_ns);

#endif
