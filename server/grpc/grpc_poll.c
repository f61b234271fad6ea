/* server/grpc/grpc_poll.c - the threads that wait for gRPC's events, and how few of them do.
 *
 * When several threads wait in one completion queue, gRPC hands the wait from one to the next with each event
 * and wakes a further one when an answer has left: two or three wake-ups a call, which cost a small one more
 * than it costs itself. So no more threads poll than keep up with the traffic; the others are parked here.
 *
 *   a poller is about to do what may take long   it steps back, and invites another when it was the last:
 *                                                somebody can always read within a short call's time
 *   a poller has used its core whole of late     it invites another, up to the number of handlers
 *   a poller has used less than half of one      it parks, unless it is the last
 *
 * What is short is judged beforehand by the message's size; runs that take longer than a wake-up go to a
 * worker, or have the poller step back first (server/sched/worker_enter.c). Where that was wrong, the ticker
 * makes the poller step back.
 *
 * Threads: td_poll_step_back may be called on any thread and concerns pollers only. Invariant (polls_check):
 * polling > 0, or no thread is parked. A poller that the ticker counts out while it returns polls once more
 * uncounted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/buffer.h"
#include "core/base/check.h"
#include "server/base/busy_poll.h"
#include "server/base/clock.h"
#include "server/grpc/grpc_impl.h"

#define SHORT_BYTES ((size_t)16 << 10) /* decoded in a few microseconds */
#define WINDOW_NS 3000000              /* a poller judges its load this often at most */
#define LONG_NS 10000000               /* no longer short */

struct td_poller {
    struct td_polls *polls;
    struct td_poller *next;   /* of polls->all */
    atomic_bool active;       /* counted in polls->polling; written under mu */
    _Atomic int64_t event_ns; /* when its event's work began; 0: it waits */
    int64_t since_ns, cpu_ns; /* when it last judged its load, and its processor time then */
    void *next_tag;           /* what td_poll_next was told; NULL: nothing */
    bool next_ok;
};

static _Thread_local struct td_poller *self;

/* Of this thread, but for the time that it had nothing to do and looked for more. gRPC reads and parses
 * inside its wait for events, so how long that took says nothing. */
static int64_t cpu_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - td_busy_poll_spent_here_ns();
}

/* Under mu. */
static void invite(struct td_polls *p)
{
    if (p->parked > p->invited) {
        p->invited++;
        p->polling++;
        pthread_cond_signal(&p->wanted);
    }
}

/* Under mu. */
TD_CHECK_FN enum td_code polls_check(const struct td_polls *p, struct td_err *err)
{
    TD_WANT(p->polling >= p->invited && p->invited >= 0 && p->parked >= 0, err,
            "%d poll, %d of them invited, %d parked", p->polling, p->invited, p->parked);
    TD_WANT(p->polling > 0 || p->parked == 0 || p->closing, err, "nobody polls, and %d are parked",
            p->parked);
    return TD_OK;
}

/* Under mu. */
static void count_out(struct td_poller *me)
{
    if (atomic_load(&me->active)) {
        atomic_store(&me->active, false);
        if (--me->polls->polling == 0) {
            invite(me->polls);
        }
        TD_HOLDS(polls_check, me->polls);
    }
}

void td_poll_step_back(void)
{
    struct td_poller *me = self;
    if (me != NULL && atomic_load(&me->active)) {
        pthread_mutex_lock(&me->polls->mu);
        count_out(me);
        pthread_mutex_unlock(&me->polls->mu);
    }
}

void td_poll_tick(struct td_polls *p)
{
    const int64_t before_ns = td_clock_ns() - LONG_NS;
    pthread_mutex_lock(&p->mu);
    for (struct td_poller *q = p->all; q != NULL; q = q->next) {
        const int64_t event_ns = atomic_load(&q->event_ns);
        if (event_ns != 0 && event_ns < before_ns) {
            count_out(q);
        }
    }
    pthread_mutex_unlock(&p->mu);
}

void td_poll_before(grpc_byte_buffer *message)
{
    if (message != NULL &&
        (td_payload_is_packed(message) || grpc_byte_buffer_length(message) > SHORT_BYTES)) {
        td_poll_step_back();
    }
}

/* Parks until this thread shall poll. */
static void come_in(struct td_poller *me)
{
    struct td_polls *p = me->polls;
    pthread_mutex_lock(&p->mu);
    if (p->polling == 0 || p->closing) {
        p->polling++;
    } else {
        p->parked++;
        while (p->invited == 0 && !p->closing) {
            td_buffer_idle_wait(&p->wanted, &p->mu);
        }
        p->parked--;
        if (p->invited > 0) {
            p->invited--;
        } else {
            p->polling++;
        }
    }
    atomic_store(&me->active, true);
    pthread_mutex_unlock(&p->mu);
    me->since_ns = td_clock_ns();
    me->cpu_ns = cpu_now_ns();
}

/* Others poll, and this thread is not needed. */
static void leave(struct td_poller *me)
{
    pthread_mutex_lock(&me->polls->mu);
    if (me->polls->polling > 1) {
        count_out(me);
    }
    pthread_mutex_unlock(&me->polls->mu);
}

static void judge(struct td_poller *me, int64_t now_ns, int most)
{
    const int64_t window_ns = now_ns - me->since_ns;
    if (window_ns < WINDOW_NS) {
        return;
    }
    const int64_t cpu_ns = cpu_now_ns(), used_ns = cpu_ns - me->cpu_ns;
    me->since_ns = now_ns;
    me->cpu_ns = cpu_ns;
    if (used_ns > window_ns - window_ns / 16) {
        pthread_mutex_lock(&me->polls->mu);
        if (me->polls->polling < most) {
            invite(me->polls);
        }
        pthread_mutex_unlock(&me->polls->mu);
    } else if (used_ns < window_ns / 2) {
        leave(me);
    }
}

void td_poll_next(void *tag, bool ok)
{
    self->next_tag = tag;
    self->next_ok = ok;
}

/* The event's step, and those of the events that steps have taken themselves. */
static void run_event(struct td_poller *me, void *tag, bool ok)
{
    while (tag != NULL) {
        me->next_tag = NULL;
        td_event_run(tag, ok);
        tag = me->next_tag;
        ok = me->next_ok;
    }
}

static void enlist(struct td_poller *me)
{
    struct td_polls *p = me->polls;
    pthread_mutex_lock(&p->mu);
    me->next = p->all;
    p->all = me;
    pthread_mutex_unlock(&p->mu);
    self = me;
}

static void delist(struct td_poller *me)
{
    struct td_polls *p = me->polls;
    self = NULL;
    pthread_mutex_lock(&p->mu);
    struct td_poller **at = &p->all;
    while (*at != me) {
        at = &(*at)->next;
    }
    *at = me->next;
    pthread_mutex_unlock(&p->mu);
}

void *td_poll_main(void *grpc)
{
    struct td_grpc *g = grpc;
    struct td_poller me = {.polls = &g->polls};
    const gpr_timespec for_ever = gpr_inf_future(GPR_CLOCK_REALTIME);
    enlist(&me);
    for (;;) {
        if (!atomic_load(&me.active)) {
            come_in(&me);
        }
        const grpc_event e = grpc_completion_queue_next(g->cq, for_ever, NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN) {
            delist(&me);
            return NULL;
        }
        const int64_t now_ns = td_clock_ns();
        judge(&me, now_ns, g->max_running);
        if (e.type == GRPC_OP_COMPLETE) {
            atomic_store_explicit(&me.event_ns, now_ns, memory_order_relaxed);
            run_event(&me, e.tag, e.success != 0);
            atomic_store_explicit(&me.event_ns, 0, memory_order_relaxed);
        }
    }
}

void td_poll_close(struct td_polls *p)
{
    pthread_mutex_lock(&p->mu);
    p->closing = true;
    pthread_cond_broadcast(&p->wanted);
    pthread_mutex_unlock(&p->mu);
}
