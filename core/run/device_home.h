/* core/run/device_home.h - the variables that a recording assigns (core/run/device_graph.h), which lie at one
 * address, their home (core/run/variable.h), launch after launch.
 *
 *   take    w ---copy, if it is elsewhere---> [ home ] <---copy--- w' made in the arena     assign home
 *
 * Where a stretch takes a variable and assigns it a value of the same size, the recorded steps read the old
 * value at its home, and a copy at the recording's end puts the new one in its place: then the variable is
 * assigned what lies there already. Of one that is not taken others may read the old value meanwhile: the
 * assignment itself copies the new one, from the arena, when nobody does. Either way it is there in the next
 * run, for this recording and for those that read it, of this plan and of others.
 *
 * What kernels judge (core/run/device_faults.h) is looked at when the recording is done, and its home written
 * over: the recorded steps put the old value aside for that.
 *
 * A recording that writes a home is launched only by a run that has taken the variable, and while nobody else
 * holds what lies there; what the run itself has read of it is used up when the stretch ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_DEVICE_HOME_H
#define TD_CORE_RUN_DEVICE_HOME_H

#include "core/run/device_graph_impl.h"

struct td_recorded_home {
    struct td_variable *variable; /* of the plan's constants */
    int taken, made;              /* values: what is taken of it, -1: nothing is; and what it is assigned */
    struct td_tensor there;       /* without a reference: the variable has it */
    int held;                     /* how many references the run has */
    bool judged;                  /* some kernel may judge what lies there */
    struct td_tensor aside;       /* that, at every launch's end; buf NULL: it is not judged */
};

/* Which variables of the stretch have one. */
TD_MUST enum td_code td_homes_find(const struct td_bound_plan *l, struct td_recorded *r, struct td_err *err);
/* The home of the variable that was taken as v; NULL: it has none. */
struct td_recorded_home *td_home_of(const struct td_recorded *r, int v);
/* Gives each its place. */
TD_MUST enum td_code td_homes_place(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                    struct td_err *err);
/* Records what puts the new values there, behind all steps: that is where they are from here on. */
TD_MUST enum td_code td_homes_record(struct td_frame *f, struct td_recorded *r, struct td_stream *stream,
                                     struct td_err *err);
/* Whether all that a launch writes may be written now: then the run holds it. */
TD_MUST enum td_code td_homes_enter(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                    bool *free, struct td_err *err);
/* What is recorded finds what it judges aside, where that lies at a home. */
void td_homes_judge_aside(const struct td_recorded *r);
void td_homes_drop(struct td_recorded *r);

#endif
