/* server/base/clock.h - the clock of deadlines and durations.   (header-only by design)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_CLOCK_H
#define TD_SERVER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds. */
static inline int64_t td_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Microseconds since a time of td_clock_ns. */
static inline int64_t td_clock_us_since(int64_t from_ns)
{
    return (td_clock_ns() - from_ns) / 1000;
}

#endif
