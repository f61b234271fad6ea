/* server/base/busy_poll.h - threads that wait for sockets look a while before they sleep (--busy_poll_us).
 *
 * A processor that sleeps takes some 20 to 30 us to come back in a virtual machine, and its caches are cold
 * then: more than a small model's request takes. So a thread whose last waits were short looks for events
 * without sleeping, as long as one may take; one whose waits are long sleeps at once, so that a server with
 * nothing to do, or with little, does nothing. What it looks at is epoll, libmicrohttpd's and gRPC's:
 * neither lets its caller poll, so this file is what they call when they call epoll_wait (busy_poll.c).
 *
 * A thread looks only where threads that had events in the last millisecond, itself among them, are no more
 * than half of the processors: none on a single one. It gives way in each turn, and sleeps as soon as
 * another one wanted its processor. So it helps where few requests come at once; where there are many,
 * nobody sleeps for long anyway.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_BUSY_POLL_H
#define TD_SERVER_BASE_BUSY_POLL_H

#include <stdint.h>

/* Until then, and with most_us = 0, everybody sleeps at once. cores: of this process
 * (server/base/cores.h). */
void td_busy_poll_start(int64_t most_us, int cores);

/* Nanoseconds that threads have looked for events after a first look that found none: all threads; this
 * one. */
int64_t td_busy_poll_spent_ns(void);
int64_t td_busy_poll_spent_here_ns(void);

#endif
