/* core/function/effects.h - whether a plan may be run once more, or half and then again.
 *
 * What counts as an effect is what a later run, or another one, could see: a write, a print, a queue's next
 * element. Reading is none, nor is drawing random numbers, making a handle that is the same at every run, or
 * a check that may end the run with an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_FUNCTION_EFFECTS_H
#define TD_CORE_FUNCTION_EFFECTS_H

#include "core/run/plan.h"

/* Of any step, or of what the functions do that it calls: branches, conditions, bodies. True, too, where
 * these are unknown, or too many to look through. */
bool td_plan_has_effects(const struct td_model *m, const struct td_plan *p);

#endif
