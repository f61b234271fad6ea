/* core/base/linger.h - threads of a pool stay awake for a while after they have helped, and those who wait
 * for each other look before they sleep.
 *
 *   sleeping --- woken: TD_WAKE_NS ---> at work --- has helped ---> looking --- TD_LINGER_NS ---> sleeping
 *                                          ^                           |
 *                                          +------- TD_SOON_NS --------+
 *
 * The kernels of a run follow each other within microseconds, and each may have work to share: only a
 * thread that is awake comes soon enough for most of them. Where one would have helped and all sleep, one is
 * called: it comes to look out, in vain when nothing more is offered, and then none is called for a while.
 *
 * Whoever looks lets others have the processor (sched_yield) after TD_HOLD_NS: a machine with fewer
 * cores than busy threads loses no more than that.
 *
 * Threads: the owner's lock guards a struct td_linger but for its atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_LINGER_H
#define TD_CORE_BASE_LINGER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ns: until a thread that sleeps is at work, and one that looks; how long it looks; how long it, and who
 * waits for it, keeps the processor for that. */
enum { TD_WAKE_NS = 60000, TD_SOON_NS = 3000, TD_LINGER_NS = 100000, TD_HOLD_NS = 5000 };

struct td_linger {
    atomic_uint stirred; /* grows with every reason to stop looking */
    atomic_int looking;  /* threads; changed under the lock */
    int called;          /* threads that were woken to look, and have not come yet */
    int64_t call_at_ns;  /* none is called before */
    int64_t vain_ns;     /* so long, after the last that came in vain */
};

/* A thread's own: zeroed when it starts. */
struct td_linger_me {
    int64_t until_ns; /* it looks out till then; 0: it sleeps */
    bool called;      /* and has not helped since */
};

/* All with the lock held. */

/* There is something to do: who looks stops looking. Whether a sleeping thread must be woken for it, when
 * `open` tasks, this one included, are to be begun. */
bool td_linger_stir(struct td_linger *l, int open);
/* Whether a sleeping thread is to be woken, so that it looks. */
bool td_linger_call(struct td_linger *l);
/* Of a thread that has helped. */
void td_linger_helped(struct td_linger *l, struct td_linger_me *me);
/* Of a thread that finds nothing to do: it looks for a reason to go on, without the lock, and no longer than
 * until at_ns. False, at once, when it shall sleep. */
bool td_linger_look(struct td_linger *l, struct td_linger_me *me, pthread_mutex_t *mu, int64_t at_ns);

/* What a helper takes to come. Without the lock. */
int64_t td_linger_wake_ns(const struct td_linger *l);

/* Between two looks at what another thread is about to do, the first of them at from_ns (td_now_ns); returns
 * the time. */
int64_t td_linger_between(int64_t from_ns);

/* ------------------------------------------------------------------ the end of a task */

/* One thread ends it, once, and another waits for that, once, and may free it then. */
struct td_ending {
    atomic_int state;
    sem_t ended; /* for who has waited for long */
};
void td_ending_init(struct td_ending *e);
void td_ending_end(struct td_ending *e); /* e may be gone when it returns */
void td_ending_wait(struct td_ending *e);
void td_ending_fini(struct td_ending *e);

#endif
