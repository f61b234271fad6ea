/* server/sched/device_room.c - a count of runs, and one that may ask for all of it.
 *
 * Who waits is not active. Whoever stops being active says so to all who wait: they are few, and runs that
 * find no memory are rare. A wait looks at the deadline and the stop word every LOOK_NS, which nobody
 * signals; a run that must wait no longer goes on, and the executor ends it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/device_room.h"

#include <time.h>

#include "server/base/clock.h"

enum { LOOK_NS = 10000000, TRIES_BESIDE = 2 };

void td_device_room_init(struct td_device_room *r)
{
    pthread_condattr_t monotonic;
    *r = (struct td_device_room){.active = 0};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void td_device_room_fini(struct td_device_room *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mu);
}

/* Until something has changed, or it is time to look. False: the run is not wanted any more. */
static bool wait(struct td_device_room *r, const struct td_room_try *t)
{
    const int64_t at_ns = td_clock_ns() + LOOK_NS;
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    (void)pthread_cond_timedwait(&r->changed, &r->mu, &at);
    return td_work_why(t->work) == TD_OK;
}

/* Caller holds mu, as of the next four. */
static void begin_now(struct td_device_room *r, struct td_room_try *t)
{
    t->beside = r->active++ > 0;
    t->begun = ++r->begun;
}

static void begin(struct td_device_room *r, struct td_room_try *t)
{
    while (r->alone && wait(r, t)) {
    }
    begin_now(r, t);
}

static void end(struct td_device_room *r)
{
    r->active--;
    r->ended++;
    pthread_cond_broadcast(&r->changed);
}

static void begin_alone(struct td_device_room *r, struct td_room_try *t)
{
    while (r->alone && wait(r, t)) {
    }
    if (!r->alone) {
        r->alone = t->alone = true;
        while (r->active > 0 && wait(r, t)) {
        }
    }
    begin_now(r, t);
}

static bool was_beside_others(const struct td_device_room *r, const struct td_room_try *t)
{
    return t->beside || r->begun != t->begun;
}

void td_device_room_enter(struct td_device_room *r, struct td_room_try *t)
{
    pthread_mutex_lock(&r->mu);
    begin(r, t);
    pthread_mutex_unlock(&r->mu);
}

bool td_device_room_again(struct td_device_room *r, struct td_room_try *t)
{
    pthread_mutex_lock(&r->mu);
    if (t->alone || !was_beside_others(r, t) || td_work_why(t->work) != TD_OK) {
        pthread_mutex_unlock(&r->mu);
        return false;
    }
    end(r);
    if (++t->failures < TRIES_BESIDE) {
        const uint64_t ended = r->ended;
        while (r->ended == ended && r->active > 0 && wait(r, t)) {
        }
        begin(r, t);
    } else {
        begin_alone(r, t);
    }
    pthread_mutex_unlock(&r->mu);
    return true;
}

void td_device_room_leave(struct td_device_room *r, struct td_room_try *t)
{
    pthread_mutex_lock(&r->mu);
    r->alone = r->alone && !t->alone;
    end(r);
    pthread_mutex_unlock(&r->mu);
}
