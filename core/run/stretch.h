/* core/run/stretch.h - parts of a bound plan that a device can record once and launch as a whole
 * (core/run/device_graph.h).
 *
 * A stretch is as many steps as there are, one behind the other, of mode DEVICE or SKIP, whose launches are
 * the same in every run but for the bytes of their inputs: what kernels read on the host is known with the
 * shapes; and those that draw random numbers take them from what is drawn before each launch
 * (core/run/device_draws.c), but in what control flow runs, which has none. If and Case are such steps, too,
 * where all of their branches are made of them (core/run/inner.h). It has two launches at least, and judges
 * at most as often as a run has words for that (core/run/device_faults.h). Plans with dead values have none.
 *
 * Steps of the host that move values of variables (TD_OP_VARIABLES) may stand among them: those that read or
 * take are done before the launch, those that assign behind it. So a stretch ends before a variable is read,
 * taken or assigned that one of its steps assigns.
 *
 * A loop is one by itself (core/run/device_loop.h), and so is an If or Case with a loop in it, unless a loop
 * has it: nobody could end a longer one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_STRETCH_H
#define TD_CORE_RUN_STRETCH_H

#include "core/run/bound_plan.h"
#include "core/run/inner.h"

/* Fills in l->stretches, when modes and kernels are known. False without memory. */
TD_MUST bool td_stretches_find(struct td_bound_plan *l);
/* The number of the stretch that begins at step; -1: none does. */
int td_stretch_at(const struct td_bound_plan *l, int step);
/* The one that has the step; NULL: none has. */
const struct td_stretch *td_stretch_of(const struct td_bound_plan *l, int step);
/* Whether the step is the device's, or control flow that is recorded, and does something. */
static inline bool td_stretch_runs(const struct td_bound_plan *l, int step)
{
    const bool inner = l->inner[step] != NULL && l->mode[step] != TD_STEP_SKIP;
    return (inner || td_step_on_device(l->mode[step])) && l->choice[step].kernel != NULL;
}
/* What a step does with the variables that it has handles of. */
enum td_stretch_use { TD_USES_NONE, TD_USES_READ, TD_USES_TAKE, TD_USES_ASSIGN };
enum td_stretch_use td_stretch_use(const struct td_bound_plan *l, int step);
/* Whether it assigns value v to a variable. */
bool td_stretch_assigns(const struct td_bound_plan *l, int step, int v);
/* Whether value v is used when the stretch was launched: by steps behind it, or by what it assigns. */
bool td_stretch_outlives(const struct td_bound_plan *l, const struct td_stretch *s, int v);
/* The variable behind input i, a handle, as is known with the shapes: NULL if it is not. */
const struct td_obj *td_stretch_variable(const struct td_bound_plan *l, int step, int i);
/* Whether a step draws from a generator that the host has. */
bool td_stretch_draws(const struct td_bound_plan *l, int step);
/* Whether a step draws no random numbers, or finds them drawn, and what it reads on the host is known with
 * the shapes. */
bool td_stretch_is_same(const struct td_bound_plan *l, int step);
/* Whether step k may be a part of what another step runs, and does the same there each time, but for the
 * bytes of its inputs; some do nothing. */
bool td_stretch_is_steady(const struct td_bound_plan *l, int k);
/* Whether value v is known with the shapes. */
static inline bool td_stretch_is_fixed(const struct td_bound_plan *l, int v)
{
    return l->known[v].dtype != TD_DTYPE_NONE;
}
/* Whether a step of mode DEVICE only gives its first input another shape: nothing is launched. */
static inline bool td_stretch_hands_on(const struct td_bound_plan *l, int step)
{
    return l->choice[step].kernel->hands_on && !l->plan->steps[step].on_host[0];
}

#endif
