/* core/run/device_loop.h - a While that goes round on the device, or an If or Case whose branches have some:
 * all is recorded once, and the device itself sees when it is over.
 *
 *   recording   condition -> [ body -> what is carried, to its places -> condition ]* while it is true
 *
 * Which loops can be recorded core/run/inner.h says; any other is run by the host, round by round, as ever.
 * Its recording is one of its run's (core/run/device_graph.h), made and dropped as they are. In its body
 * there may be branches, and loops, which are recorded with it (core/run/device_inner.c).
 *
 * What is carried has places in the recording's arena. What a round leaves as it was is not moved; a weight
 * that no round changes is read where it lies.
 *
 * Nobody can stop what a device was launched: so each launch may begin so many rounds alone as take some
 * hundredths of a second, those of all loops in it counted. Where one ends for want of rounds the run is
 * asked whether it shall end (it was cancelled, its deadline has passed), and else the recording is
 * launched again, from what was carried so far, and in the loops that it had come to. So an endless loop
 * costs its own request alone. Each loop that a launch goes on in costs it a round: it may begin one more
 * at least.
 *
 * Data that a kernel refuses (core/run/device_faults.h) ends the loop, before the round's values are carried
 * to the next: the host's words come from the inputs that were refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_LOOP_H
#define TD_CORE_RUN_DEVICE_LOOP_H

#include "core/run/device_graph_impl.h"
#include "core/run/exec.h"

/* Records the loop r->of, or what has some in a branch, now. *made: it can be run. *never: it cannot, and
 * need not be tried again. */
TD_MUST enum td_code td_device_loop_make(struct td_frame *f, const struct td_bound_plan *l,
                                         struct td_recorded *r, bool *made, bool *never, struct td_err *err);
/* Launches it until it is over; its inputs are in their places. */
TD_MUST enum td_code td_device_loop_run(struct td_frame *f, const struct td_plan *p, struct td_recorded *r,
                                        const struct td_run *run, struct td_err *err);

#endif
