/* core/base/log.h - levelled log lines on stderr, as text or as JSON; the only printing code of core.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_LOG_H
#define TD_CORE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* AUDIT (server/base/audit.h) is written whatever levels are chosen. */
enum td_log_level { TD_LOG_DEBUG, TD_LOG_INFO, TD_LOG_WARNING, TD_LOG_ERROR, TD_LOG_AUDIT };

/* Of a request that is part of a distributed trace (W3C); zeros are left out. */
struct td_log_trace {
    uint8_t trace_id[16], span_id[8];
};
/* What a line is about; zeroed fields are left out. */
struct td_log_about {
    const char *model;
    int64_t version;
    const char *request_id;
    const struct td_log_trace *trace; /* NULL: that of the work at hand (core/base/work.h), if it has one */
};

void td_log_setup(enum td_log_level least, bool json);
/* The levels that are written: bit 1 << level of each. May change at any time, on any thread. */
unsigned td_log_levels(void);
void td_log_choose(unsigned levels);
/* One line, written with a single write(2); about may be NULL. */
void td_log(enum td_log_level level, const struct td_log_about *about, const char *fmt, ...) TD_PRINTF(3, 4);

#endif
