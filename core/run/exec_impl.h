/* core/run/exec_impl.h - a thread's part in a run: what exec.c, exec_step.c and region_run.c share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_EXEC_IMPL_H
#define TD_CORE_RUN_EXEC_IMPL_H

#include "core/run/exec.h"
#include "core/run/frame.h"

enum { TD_EXEC_SCRATCH = 16 };

struct td_exec {
    struct td_run *run;
    const struct td_plan *plan;  /* NULL: a lone node */
    struct td_bound_plan *bound; /* NULL: a lone node */
    /* of several threads: slots and states are one, in, snapshots and shapes are each's own */
    struct td_frame *frame;
    const struct td_step *step;
    int step_index;
    int done;                      /* steps up to this one are done, or queued, but for what they assign */
    const struct td_shape *shapes; /* of the outputs, when inferred now */
    struct td_buffer *scratch[TD_EXEC_SCRATCH];
    int n_scratch;
    const struct td_choice *choice; /* the step's kernel: the bound plan's, or `now` */
    struct td_choice now;           /* chosen in this run, until td_exec_end_step */
    const char *queued;             /* the last step went to the model's device: to this kernel; else NULL */
    bool outputs_given;             /* a lone node's: they are the slots' bytes already */
};

/* Runs x's step: on the host, or queues it on the model's device. td_exec_end_step is due after it, whatever
 * it came to. */
TD_MUST enum td_code td_exec_step(struct td_exec *x, struct td_err *err);
void td_exec_end_step(struct td_exec *x);
void td_exec_release(struct td_exec *x, int v); /* gives back what value v's slot owns */

/* Runs the steps [from, to) on this thread. */
TD_MUST enum td_code td_exec_steps(struct td_exec *x, int from, int to, struct td_err *err);
/* Runs all groups of the plan's region r. The error is that of the first step that fails. */
TD_MUST enum td_code td_region_run(struct td_exec *x, int r, struct td_err *err);

#endif
