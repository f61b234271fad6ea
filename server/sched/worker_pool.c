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

static struct td_worker_queue *queue_of(struct td_thread_pool *p)
{
    return (struct td_worker_queue *)((char *)p - offsetof(struct td_worker_queue, pool));
}

static void put(struct td_workers *w, struct td_pool_task *t)
{
    t->next = NULL;
    t->prev = w->last_offered;
    *(w->last_offered != NULL ? &w->last_offered->next : &w->first_offered) = t;
    w->last_offered = t;
}

static void take(struct td_workers *w, struct td_pool_task *t)
{
    w->n_offered--;
    *(t->prev != NULL ? &t->prev->next : &w->first_offered) = t->next;
    *(t->next != NULL ? &t->next->prev : &w->last_offered) = t->prev;
}

static bool try_start(struct td_thread_pool *p, struct td_pool_task *t)
{
    struct td_workers *w = queue_of(p)->workers;
    pthread_mutex_lock(&w->mu);
    const int64_t now_ns = td_clock_ns();
    const bool idle = td_sched_take_worker(&w->sched, now_ns);
    if (idle) {
        w->started_ns = now_ns;
        t->pool = p;
        t->begun = false;
        td_ending_init(&t->ending);
        put(w, t);
        w->counts.borrowed++;
        if (td_linger_stir(&w->linger, ++w->n_offered)) {
            pthread_cond_signal(&w->work);
        }
    }
    pthread_mutex_unlock(&w->mu);
    if (idle) {
        td_metrics_helped();
    }
    return idle;
}

static void join(struct td_thread_pool *p, struct td_pool_task *t)
{
    struct td_workers *w = queue_of(p)->workers;
    pthread_mutex_lock(&w->mu);
    const bool begun = t->begun;
    if (!begun) {
        take(w, t);
        td_sched_back(&w->sched, &queue_of(p)->queue, 0);
        td_workers_wake(w);
    }
    pthread_mutex_unlock(&w->mu);
    if (begun) {
        td_ending_wait(&t->ending);
    }
    td_ending_fini(&t->ending);
}

static bool wanted(struct td_thread_pool *p)
{
    struct td_workers *w = queue_of(p)->workers;
    pthread_mutex_lock(&w->mu);
    const bool yes = w->sched.n_tasks > 0;
    pthread_mutex_unlock(&w->mu);
    return yes;
}

static int idle(struct td_thread_pool *p)
{
    struct td_workers *w = queue_of(p)->workers;
    pthread_mutex_lock(&w->mu);
    const int n = w->sched.workers - w->sched.running;
    pthread_mutex_unlock(&w->mu);
    return n;
}

static int64_t wake_ns(struct td_thread_pool *p)
{
    return td_linger_wake_ns(&queue_of(p)->workers->linger);
}

static void call(struct td_thread_pool *p)
{
    struct td_workers *w = queue_of(p)->workers;
    pthread_mutex_lock(&w->mu);
    if (w->sched.n_tasks == 0 && w->sched.running < w->sched.workers && td_linger_call(&w->linger)) {
        pthread_cond_signal(&w->work);
    }
    pthread_mutex_unlock(&w->mu);
}

const struct td_thread_pool td_worker_pool = {
    .try_start = try_start, .join = join, .wanted = wanted, .idle = idle, .wake_ns = wake_ns, .call = call};

bool td_worker_pool_run(struct td_workers *w, struct td_linger_me *me)
{
    struct td_pool_task *t = w->first_offered;
    if (t == NULL) {
        return false;
    }
    struct td_sched_queue *queue = &queue_of(t->pool)->queue;
    take(w, t);
    t->begun = true;
    pthread_mutex_unlock(&w->mu);
    const int64_t from_ns = td_clock_ns();
    t->run(t);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    pthread_mutex_lock(&w->mu);
    td_sched_back(&w->sched, queue, ran_ns);
    td_workers_wake(w);
    td_linger_helped(&w->linger, me);
    td_ending_end(&t->ending); /* the borrower goes on: task and queue may be gone */
    return true;
}
