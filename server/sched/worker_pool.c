/* server/sched/worker_pool.c - a run borrows idle workers (core/base/thread_pool.h).
 *
 * A worker that is borrowed counts as running from the moment it is borrowed, so that the scheduler gives it
 * to nobody else, and one is borrowed only while nothing waits that could use it: a request waits for a
 * borrowed worker no longer than for the chunk of work it is at. The time goes on the account of the model
 * that borrows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/clock.h"
#include "server/sched/workers_impl.h"

static struct td_worker_queue *queue_of(struct td_thread_pool *c)
{
    return (struct td_worker_queue *)((char *)c - offsetof(struct td_worker_queue, pool));
}

static void put(struct td_workers *l, struct td_pool_task *t)
{
    t->next = NULL;
    t->prev = l->last_offered;
    *(l->last_offered != NULL ? &l->last_offered->next : &l->first_offered) = t;
    l->last_offered = t;
}

static void take(struct td_workers *l, struct td_pool_task *t)
{
    *(t->prev != NULL ? &t->prev->next : &l->first_offered) = t->next;
    *(t->next != NULL ? &t->next->prev : &l->last_offered) = t->prev;
}

static bool try_start(struct td_thread_pool *c, struct td_pool_task *t)
{
    struct td_workers *l = queue_of(c)->workers;
    pthread_mutex_lock(&l->mu);
    const bool idle = td_sched_take_worker(&l->sched, td_clock_ns());
    if (idle) {
        t->pool = c;
        t->begun = false;
        sem_init(&t->ended, 0, 0);
        put(l, t);
        l->counts.borrowed++;
        pthread_cond_signal(&l->work);
    }
    pthread_mutex_unlock(&l->mu);
    if (idle) {
        td_metrics_helped();
    }
    return idle;
}

static void join(struct td_thread_pool *c, struct td_pool_task *t)
{
    struct td_workers *l = queue_of(c)->workers;
    pthread_mutex_lock(&l->mu);
    const bool begun = t->begun;
    if (!begun) {
        take(l, t);
        td_sched_back(&l->sched, &queue_of(c)->queue, 0);
        td_workers_wake(l);
    }
    pthread_mutex_unlock(&l->mu);
    while (begun && sem_wait(&t->ended) != 0) {
    }
    sem_destroy(&t->ended);
}

static bool wanted(struct td_thread_pool *c)
{
    struct td_workers *l = queue_of(c)->workers;
    pthread_mutex_lock(&l->mu);
    const bool yes = l->sched.n_tasks > 0;
    pthread_mutex_unlock(&l->mu);
    return yes;
}

static int idle(struct td_thread_pool *c)
{
    struct td_workers *l = queue_of(c)->workers;
    pthread_mutex_lock(&l->mu);
    const int n = l->sched.workers - l->sched.running;
    pthread_mutex_unlock(&l->mu);
    return n;
}

#define WAKE_NS 60000

const struct td_thread_pool td_worker_pool = {
    .wake_ns = WAKE_NS, .try_start = try_start, .join = join, .wanted = wanted, .idle = idle};

bool td_worker_pool_run(struct td_workers *l)
{
    struct td_pool_task *t = l->first_offered;
    if (t == NULL) {
        return false;
    }
    struct td_sched_queue *queue = &queue_of(t->pool)->queue;
    take(l, t);
    t->begun = true;
    pthread_mutex_unlock(&l->mu);
    const int64_t from_ns = td_clock_ns();
    t->run(t);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    pthread_mutex_lock(&l->mu);
    td_sched_back(&l->sched, queue, ran_ns);
    td_workers_wake(l);
    sem_post(&t->ended); /* the borrower goes on: task and queue may be gone */
    return true;
}
