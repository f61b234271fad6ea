/* tests/sim/sim_clock.h - a clock that only moves while every thread waits, for tests of who waits for whom.
 *
 * A program that is linked with td_sim_clock (tests/sim/CMakeLists.txt) has its calls of pthread_mutex_*,
 * pthread_cond_*, sem_*, pthread_create, pthread_join, nanosleep and clock_gettime(CLOCK_MONOTONIC) come
 * here. The code under test is the daemon's own, unchanged, with its own threads.
 *
 *   runs -----> waits for a key (mutex, condition, semaphore, thread, a device's work), perhaps until a time
 *    ^               |  a waker, or the time
 *    +---- ready <---+
 *
 * Why what is seen is sound. (1) Every wait of a thread that takes part goes through one list, under one
 * lock, and a waker makes the waiter ready under that lock: at no moment has a thread been woken without
 * being counted. (2) Time passes only when no thread runs and none is ready, to the earliest time that a
 * waiter or a source (a device) has named: so it never passes something that was due, and computing takes no
 * time at all (what shall take some says so: sim_sleep). (3) When it passes, all threads stand at their
 * waits: what they guard by locks is as they left it, so a property that is looked at then (sim_on_pass)
 * holds for the whole stretch of time, not for a sample. (4) When nobody is ready and nothing will ever be
 * due, that is a lost wake-up or a deadlock: it is told with each thread's wait, and the program aborts; so
 * it is when SIM_MOST_S have passed, as they do when some wait for ever and others look now and then. (5) A
 * thread that looks at the clock over and over without a wait is spinning for time to pass: it then sleeps a
 * microsecond.
 *
 * One thread runs at a time, and a seed draws which of those that are ready, whom a signal wakes, and whether
 * a thread that lets go of a mutex lets others go first: the same seed is the same run. SIM_AT_ONCE lets all
 * that are ready run at once, for ThreadSanitizer.
 *
 * Not seen: waits for what is not listed above (rwlocks, files, futures of libraries), which count as
 * running. Threads that sim_start did not make go their own way, in real time but for the clock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_SIM_CLOCK_H
#define TD_TESTS_SIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum sim_threads { SIM_ONE_BY_ONE, SIM_AT_ONCE };

/* The calling thread takes part, and those that it and they make. */
void sim_start(enum sim_threads how, uint64_t seed);
void sim_stop(void); /* of that thread, when all others have ended */
int64_t sim_now_ns(void);
/* Its processor is busy, or it sleeps, for so long. */
void sim_sleep(int64_t ns);
uint64_t sim_draw(uint64_t below); /* of the seed; any thread */

/* What happens without a thread. Called with the lock held, as is sim_on_pass's. */
struct sim_source {
    int64_t (*due_ns)(void *ctx); /* INT64_MAX: nothing is under way */
    void (*happen)(void *ctx);    /* all that is due now; wakes who waits for it */
    void *ctx;
    struct sim_source *next;
};
void sim_add(struct sim_source *s);
/* Called whenever time passes, before it does. */
void sim_on_pass(void (*pass)(void *ctx, int64_t from_ns, int64_t to_ns), void *ctx);

/* The lock, for sources: nothing that waits, and no mutex, under it. */
void sim_enter(void);
void sim_leave(void);
void sim_wait(const void *key); /* with the lock, which is let go meanwhile */
void sim_wake(const void *key); /* with the lock: all who wait for it */

#endif
