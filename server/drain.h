/* server/drain.h - waiting for signals, and what bounds a shutdown.
 *
 * All threads block SIGTERM, SIGINT and SIGHUP; only the main thread takes them, by td_drain_wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_DRAIN_H
#define TD_SERVER_DRAIN_H

#include <stdbool.h>

#define TD_DRAIN_MS 12000 /* for open requests to finish; the whole stop stays below 20 s */

/* Call before any thread is made. Also ignores SIGPIPE and SIGXFSZ. */
void td_drain_init(void);

enum td_wake { TD_WAKE_TIME, TD_WAKE_RELOAD /* SIGHUP */, TD_WAKE_STOP /* SIGTERM, SIGINT */ };
/* Waits for a signal for up to ms (-1: for ever). */
enum td_wake td_drain_wait(int ms);
/* From now on a second SIGTERM or SIGINT, or 19 seconds, end the process at once with status 1. */
void td_drain_bound(void);

#endif
