/* core/run/late_choice.h - kernels of steps whose shapes are found only in a run, kept for the next run at
 * those shapes.
 *
 * In the body of a loop many shapes are not known when the plan is bound, and are the same in every round all
 * the same. What prepare() makes for such a step is kept in the frame, with the shapes that it was made for;
 * only constants go into it, so that it serves whatever values a later run brings.
 *
 * Threads: a frame is one run's, and a step of it one thread's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_LATE_CHOICE_H
#define TD_CORE_RUN_LATE_CHOICE_H

#include "core/run/frame.h"

/* The choice for step at the shapes of q: the one that f holds, or made now and kept there. Borrowed, until
 * the shapes change. NULL: no row serves without the values of this very run, or memory ran out; the caller
 * then chooses for this run alone. */
const struct td_choice *td_late_choice(struct td_frame *f, const struct td_bound_plan *l, int step,
                                       const struct td_kernel_query *q);
/* Accepts NULL. */
void td_late_choices_free(struct td_late_choice *late, int n_steps);

#endif
