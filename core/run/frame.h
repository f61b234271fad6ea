/* core/run/frame.h - one run's storage: a tensor slot for each value, the block that planned values lie in,
 * and room for what one step needs. Frames are pooled by their bound plan.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_FRAME_H
#define TD_CORE_RUN_FRAME_H

#include "core/run/bound_plan.h"

struct td_frame {
    struct td_frame *next;
    struct td_buffer *block;
    struct td_tensor *slots;     /* n_values */
    unsigned char *state;        /* n_values: enum td_slot_state */
    bool *dead, *step_dead;      /* n_values, n_steps; NULL without dead values */
    const struct td_tensor **in; /* max_in */
    struct td_tensor *snapshots; /* max_in: what reference edges held */
    struct td_shape *shapes;     /* max_in + max_out: for inference at run time */
    /* by step: kernels chosen in runs (core/run/late_choice.h); NULL: none yet, or not kept */
    struct td_late_choice *late;
    struct td_settled_values *settled; /* whose values the slots show; NULL: none's (core/run/settled.h) */
    const bool *settled_step;          /* by step: it need not run in this run; NULL: all do */
    bool beside;                       /* it shares another frame, for one thread of a parallel region */
    struct td_account *account;        /* of the run that uses it */
    struct td_device_run *dev;         /* the run's side on the device; NULL: nothing runs there */
};

/* A frame for one run: an idle one of l's, or a new one. Its block counts as that of the work at hand until
 * it is given back. */
TD_MUST enum td_code td_frame_take(struct td_bound_plan *l, struct td_frame **out, struct td_err *err);
void td_frame_give(struct td_bound_plan *l, struct td_frame *f);
/* Values of l's settled steps have come to be others: idle frames hold none that are not the latest. */
void td_frames_end_settled(struct td_bound_plan *l);
/* Frees those that idle: when l goes. */
void td_frame_free_idle(struct td_bound_plan *l);
/* l's idle frames may be freed when memory is short, from now on, until l goes (core/run/bound_plan.c). */
void td_frame_list(struct td_bound_plan *l);
void td_frame_unlist(struct td_bound_plan *l);

#endif
