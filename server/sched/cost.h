/* server/sched/cost.h - what a run of n rows will take, learnt from the runs before: t(n) = fixed + each * n.
 *
 * The line is core/base/timings.h's; what is here is what the batcher makes of it. Runs of microseconds are
 * worth joining even where a row costs as much as the next: what a worker does besides a run is more than
 * that.
 *
 * Threads: none of its own; the caller's lock guards it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_SCHED_COST_H
#define TD_SERVER_SCHED_COST_H

#include "core/base/timings.h"

struct td_cost {
    struct td_timing_line line;
    int64_t largest, last; /* rows of the largest run so far, and of the last one */
};

void td_cost_learn(struct td_cost *c, int64_t rows, int64_t ns);
/* ns of a run of so many rows; 0 when nothing is known. */
int64_t td_cost_of(const struct td_cost *c, int64_t rows);
/* Rows at which a batch should stop growing: its fixed part is then an eighth of it, or it would keep
 * everybody longer than four lone runs (and 5 ms) take. Never more than twice the largest run so far, so that
 * the line is trusted only near what was seen, nor, while runs are of one size, which is no line, than twice
 * that. At least 1. */
int64_t td_cost_worth(const struct td_cost *c);

#endif
