/* server/base/trim.h - memory that only the start needed goes back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_TRIM_H
#define TD_SERVER_BASE_TRIM_H

/* Unmaps, from this process, the pages of the program and its libraries that nothing will write (the next use
 * of one brings it back from the page cache), and frees what the allocator holds unused. Takes a millisecond;
 * any thread. */
void td_trim(void);

/* Installs what is done when memory is short (core/base/budget.h): idle frames of plans, and the caches of
 * threads, go, and what the allocator holds unused. */
void td_trim_on_shortage(void);

/* From now on a thread looks every few seconds whether much more is resident than is held, as after a burst
 * of requests, and then gives back what the allocator keeps. Without a thread to be had it stays there. */
void td_trim_start(void);
void td_trim_stop(void);

#endif
