/* server/sched/device_room.h - runs that find too little memory on the device, because others have it.
 *
 * A run that fails for want of memory gives back what it has, waits until another one has ended, and is tried
 * again; if that fails too, by itself: those under way end first, and those that come wait meanwhile. What
 * fails when nobody else runs wants more than there is, and has failed for good. So no run fails for
 * another's memory, and none waits while it holds any.
 *
 *   enter -> run --no memory--> again -> run --no memory--> again -> run, alone -> leave
 *
 * There is one for all GPUs, because which of them a run gets is found each time that it is tried: with
 * several, those who run on another are waited for, too.
 *
 * Threads: any; a run is one thread's. The lock is taken alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_SCHED_DEVICE_ROOM_H
#define TD_SERVER_SCHED_DEVICE_ROOM_H

#include <pthread.h>

#include "core/base/work.h"

struct td_device_room {
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t changed;
    int active;            /* runs that may hold memory */
    bool alone;            /* one is to be by itself */
    uint64_t begun, ended; /* tries of runs, since the start */
};

/* A run's way through it. */
struct td_room_try {
    const struct td_work *work; /* borrowed: it waits no longer than that */
    int failures;
    bool alone;     /* by the rule; or by chance: */
    bool beside;    /* others were under way when it began */
    uint64_t begun; /* which one it was */
};

void td_device_room_init(struct td_device_room *r);
void td_device_room_fini(struct td_device_room *r);
void td_device_room_enter(struct td_device_room *r, struct td_room_try *t);
/* Of a run that has failed with RESOURCE_EXHAUSTED and holds nothing any more. True: it is to be tried
 * again. */
TD_MUST bool td_device_room_again(struct td_device_room *r, struct td_room_try *t);
void td_device_room_leave(struct td_device_room *r, struct td_room_try *t);

#endif
