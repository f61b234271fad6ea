/* core/run/trial.h - kernels that compete are tried, and the fastest is chosen.
 *
 * A trial runs a prepared kernel a few times on inputs made up for it, and takes the shortest time. It
 * happens when a plan is bound to shapes, within the target's trial_ns a step, and only where a row says that
 * it competes (core/graph/kernel.h); where the kernels run, on the host or a device (core/run/trial_there.h).
 * What was learnt is remembered under the op, its attributes, dtypes, shapes and the device
 * (core/base/timings.h), so that the next plan, or the next process, need not try again.
 *
 * On a device a kernel that leaves epilogues to others, where one beside it leaves nothing, is timed with a
 * copy of its result behind it, about what the pass costs that does them.
 *
 * Does not: count that on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_TRIAL_H
#define TD_CORE_RUN_TRIAL_H

#include "core/run/select.h"

/* Which of n kernels, all prepared for the query, is the fastest; 0, the first, where that could not be told:
 * inputs that are no numbers, no memory, a kernel that fails. */
int td_trial_choose(const struct td_kernel_query *q, const struct td_choice *rival, int n);

#endif
