/* core/run/bound_plan_check.h - what holds of a plan's memory (core/run/bound_plan.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_BOUND_PLAN_CHECK_H
#define TD_CORE_RUN_BOUND_PLAN_CHECK_H

#include "core/run/bound_plan.h"

/* Values lie inside the block and are aligned; two whose lifetimes overlap do not share bytes, unless one is
 * made in the other's place by the step that ends it. Groups of a region are taken to run at the same
 * time. */
TD_MUST enum td_code td_bound_plan_check(const struct td_bound_plan *l, struct td_err *err);

#endif
