/* core/run/settled.h - steps of a bound plan whose results follow from constants and from what variables
 * hold: they run once, and again when one of those variables holds something else.
 *
 * What a model has learnt lies in variables, which graphs read, cast, reshape and fold into scales in every
 * run, and which seldom change where a model is served. Kernels know packed weights by the buffer that they
 * were packed from: a cast weight is one and the same from run to run so, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_SETTLED_H
#define TD_CORE_RUN_SETTLED_H

#include "core/run/bound_plan.h"

struct td_exec;
struct td_frame;
struct td_settled;        /* which steps, and their latest values */
struct td_settled_values; /* values of one time; counted */

/* Looks for such steps in l, whose steps are bound: l->settled, NULL where there are none. False without
 * memory. */
TD_MUST bool td_settled_find(struct td_bound_plan *l);
/* The values go with the last frame that shows them. Accepts NULL. */
void td_settled_free(struct td_settled *s);
/* Lets go of the values: memory is short. Accepts NULL; takes no lock that it would have to wait for. */
void td_settled_forget(struct td_settled *s);

/* As x's run begins, its slots set: the frame shows the values where they are right, and says which steps
 * need not run (td_frame.settled_step). They are worked out here when variables have been what they are for
 * some runs. A step of them that fails is left to the run, and so is all of it where somebody observes. */
void td_settled_begin(struct td_exec *x);
/* The frame idles: it lets go of values that are not the latest any more. */
void td_settled_end(struct td_frame *f, const struct td_bound_plan *l);
/* The frame goes, or shows nothing any more. */
void td_settled_leave(struct td_frame *f, const struct td_bound_plan *l);

#endif
