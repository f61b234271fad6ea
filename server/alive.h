/* server/alive.h - whether the daemon is alive, for a service manager's watchdog: who asks is the main loop,
 * so that it turns is part of the answer.
 *
 * Alive means that somebody who asks is served: the registry can be asked, the HTTP listener answers /healthz
 * over a connection of its own, and the workers finish something while anything waits for them. One that is
 * slow, full, or has no model is alive; restarting it would not help.
 *
 * Threads: one, the main thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_ALIVE_H
#define TD_SERVER_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/drain.h"
#include "server/models/registry.h"
#include "server/sched/workers.h"

#define TD_ALIVE_STUCK_S 300 /* without one batch ended, while requests wait: no deadline is that long */

struct td_alive {
    struct td_registry *registry; /* borrowed */
    struct td_workers *workers;   /* borrowed; NULL: not looked at */
    const char *host;             /* of the HTTP listener: an address, "" any */
    int port;                     /* 0: not asked (none, or one that speaks TLS) */
    /* its own */
    int64_t told_ns;    /* of the last ping */
    uint64_t batches;   /* that had ended, */
    int64_t changed_ns; /* when that number last changed, or nothing waited */
    bool said;          /* why it is not alive */
};

/* WATCHDOG=1 when half of the watchdog's time has passed and the daemon is alive; one that is not is told of
 * in the log, once. Takes two seconds at most. */
void td_alive_ping(struct td_alive *a);
/* How often to call it, in milliseconds; 0: nobody waits for it. */
int64_t td_alive_period_ms(void);

/* As td_drain_wait, with pings meanwhile. */
enum td_wake td_alive_wait(struct td_alive *a, int ms);

#endif
