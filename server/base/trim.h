/* server/base/trim.h - memory that only the start needed goes back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_TRIM_H
#define TD_SERVER_BASE_TRIM_H

#include <stdbool.h>

/* Unmaps, from this process, the pages of the program and its libraries that nothing will write (the next use
 * of one brings it back from the page cache), and frees what the allocator holds unused. Takes a millisecond;
 * any thread. */
void td_trim(void);

/* Installs what is done when memory is short (core/base/budget.h): idle frames of plans, and the caches of
 * threads, go, then plans themselves once the thread below runs, and what the allocator holds unused. */
void td_trim_on_shortage(void);

/* Lets compiled plans go, least recently used first, until is_enough(ctx). */
typedef void td_trim_plans(bool (*is_enough)(void *ctx), void *ctx);

/* From now on a thread makes room by plans() for those who are short of memory. Every few seconds it looks
 * whether the process has come to rest, or much more is resident than is held, as after a burst of requests,
 * and then gives back what the allocator keeps. Without a thread to be had it stays there. */
void td_trim_start(td_trim_plans *plans);
void td_trim_stop(void);

#endif
