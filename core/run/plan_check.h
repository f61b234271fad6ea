/* core/run/plan_check.h - what holds of a compiled plan (core/run/plan.h) and of its parallel regions
 * (core/compile/parallel_regions.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_PLAN_CHECK_H
#define TD_CORE_RUN_PLAN_CHECK_H

#include "core/run/plan.h"

/* Values are numbered in the order they are made, steps read earlier ones, each value is released once, at
 * its last use, and regions are what core/compile/parallel_regions.h says. */
TD_MUST enum td_code td_plan_check(const struct td_plan *p, struct td_err *err);
/* The regions alone: ascending, groups that are not empty, no group reads another's values, and what several
 * groups read lives until the region's end. */
TD_MUST enum td_code td_regions_check(const struct td_plan *p, struct td_err *err);

#endif
