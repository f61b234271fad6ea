/* server/lane_crew.c - a run borrows idle lanes (core/crew.h).
 *
 * A lane that is lent counts as running from the moment it is lent, so that the scheduler gives it to nobody
 * else, and one is lent only while nothing waits that could use it: a request waits for a borrowed lane no
 * longer than for the piece of work it is at. The time goes on the account of the model that borrows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/clock.h"
#include "server/lanes_impl.h"

static struct td_lane_flow *flow_of(struct td_crew *c)
{
    return (struct td_lane_flow *)((char *)c - offsetof(struct td_lane_flow, crew));
}

static void put(struct td_lanes *l, struct td_crew_task *t)
{
    t->next = NULL;
    t->prev = l->last_lent;
    *(l->last_lent != NULL ? &l->last_lent->next : &l->first_lent) = t;
    l->last_lent = t;
}

static void take(struct td_lanes *l, struct td_crew_task *t)
{
    *(t->prev != NULL ? &t->prev->next : &l->first_lent) = t->next;
    *(t->next != NULL ? &t->next->prev : &l->last_lent) = t->prev;
}

static bool lend(struct td_crew *c, struct td_crew_task *t)
{
    struct td_lanes *l = flow_of(c)->lanes;
    pthread_mutex_lock(&l->mu);
    const bool idle = td_sched_lend(&l->sched, td_clock_ns());
    if (idle) {
        t->crew = c;
        t->begun = false;
        sem_init(&t->ended, 0, 0);
        put(l, t);
        l->counts.lent++;
        pthread_cond_signal(&l->work);
    }
    pthread_mutex_unlock(&l->mu);
    if (idle) {
        td_metrics_lent();
    }
    return idle;
}

static void settle(struct td_crew *c, struct td_crew_task *t)
{
    struct td_lanes *l = flow_of(c)->lanes;
    pthread_mutex_lock(&l->mu);
    const bool begun = t->begun;
    if (!begun) {
        take(l, t);
        td_sched_back(&l->sched, &flow_of(c)->flow, 0);
        td_lanes_wake(l);
    }
    pthread_mutex_unlock(&l->mu);
    while (begun && sem_wait(&t->ended) != 0) {
    }
    sem_destroy(&t->ended);
}

static bool wanted(struct td_crew *c)
{
    struct td_lanes *l = flow_of(c)->lanes;
    pthread_mutex_lock(&l->mu);
    const bool yes = l->sched.n_tasks > 0;
    pthread_mutex_unlock(&l->mu);
    return yes;
}

static int idle(struct td_crew *c)
{
    struct td_lanes *l = flow_of(c)->lanes;
    pthread_mutex_lock(&l->mu);
    const int n = l->sched.lanes - l->sched.running;
    pthread_mutex_unlock(&l->mu);
    return n;
}

#define WAKE_NS 60000

const struct td_crew td_lane_crew = {
    .wake_ns = WAKE_NS, .lend = lend, .settle = settle, .wanted = wanted, .idle = idle};

bool td_lane_crew_run(struct td_lanes *l)
{
    struct td_crew_task *t = l->first_lent;
    if (t == NULL) {
        return false;
    }
    struct td_flow *flow = &flow_of(t->crew)->flow;
    take(l, t);
    t->begun = true;
    pthread_mutex_unlock(&l->mu);
    const int64_t from_ns = td_clock_ns();
    t->run(t);
    const int64_t ran_ns = td_clock_ns() - from_ns;
    pthread_mutex_lock(&l->mu);
    td_sched_back(&l->sched, flow, ran_ns);
    td_lanes_wake(l);
    sem_post(&t->ended); /* the borrower goes on: task and flow may be gone */
    return true;
}
