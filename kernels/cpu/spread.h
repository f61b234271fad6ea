/* kernels/cpu/spread.h - element-wise work and copies on this thread and on those that idle.
 *
 *   td_spread(c, n, TILE, 0.5, run_range, &job);   calls run_range(&job, from, to, who) over parts of [0, n)
 *
 * For work whose result does not depend on where it is cut: so runs compute the same bits however many
 * threads help, and no choice has to be remembered. What takes hardly longer than it takes to wake a thread,
 * by the caller's estimate, is done at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_SPREAD_H
#define TD_KERNELS_CPU_SPREAD_H

#include "core/base/thread_pool.h"
#include "core/graph/op.h"

/* What an element takes, in ns, with 4 bytes each: to be read or written once in memory, to be computed by an
 * instruction of a loop that the compiler vectorises. Coarse; wrong by a factor of two does no harm. */
#define TD_SPREAD_PASS_NS 0.3
#define TD_SPREAD_OP_NS 0.15

/* Elements [from, to); from is a multiple of the grain. No two threads at a time have the same `who`. */
typedef void td_spread_fn(void *arg, int64_t from, int64_t to, int who);

/* In how many ranges n elements are best cut, of `grain` elements or more, ns each; 1: this thread does it
 * alone. */
int td_spread_ranges(const struct td_call *c, int64_t n, int64_t grain, double ns);
/* All n elements in so many ranges; returns when all are done. `who` is below `ranges`, and at most
 * TD_POOL_MOST. */
void td_spread_over(const struct td_call *c, int ranges, int64_t n, int64_t grain, td_spread_fn *fn,
                    void *arg);
/* Both. */
void td_spread(const struct td_call *c, int64_t n, int64_t grain, double ns, td_spread_fn *fn, void *arg);

#endif
