/* server/base/notify.h - what a service manager is told, as sd_notify(3) has it: datagrams of "KEY=value"
 * lines to the socket that $NOTIFY_SOCKET names (a path, or an abstract name behind '@').
 *
 * Without that variable nobody listens and all of it does nothing. Children do not inherit it: a job must not
 * speak for the daemon.
 *
 * Threads: td_notify_init before any thread; the others on any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_NOTIFY_H
#define TD_SERVER_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads and drops NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. */
void td_notify_init(void);
/* Milliseconds within which WATCHDOG=1 is expected, again and again; 0: nobody waits for it. */
int64_t td_notify_watchdog_ms(void);
/* One message, printed as by printf: "READY=1\nSTATUS=serving". Never waits; what cannot be sent is lost. */
void td_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
