/* core/run/exec.h - runs plans; the only caller of kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_EXEC_H
#define TD_CORE_RUN_EXEC_H

#include "core/run/bound_plan.h"

/* What a run shares with the runs inside it (bodies of If and While). */
struct td_run {
    struct td_model *model;
    int depth;                      /* runs around this one */
    const struct td_run_opts *opts; /* never NULL; stop word and deadline are read there alone */
    /* The first n_gives feeds, when they are the run's to keep: it takes them over as it starts, and zeroes
     * them. NULL: all are borrowed. */
    struct td_tensor *gives;
    int n_gives;
    /* Feeds may lie on the model's device, and so may what comes out: floats that are there need not be
     * brought back. They belong to no stream then, and all work on them is done. */
    bool anywhere;
};

/* Runs plan p at bound plan l: in[i] borrowed unless run gives them, out[i] owned by the caller, nothing on
 * failure. */
TD_MUST enum td_code td_exec_run(const struct td_plan *p, struct td_bound_plan *l, struct td_run *run,
                                 const struct td_tensor *const *in, struct td_tensor *out,
                                 struct td_err *err);
/* Why the run shall end now (OK: it shall not), and that as an error. (core/run/call.c) */
enum td_code td_call_stop_reason(const struct td_run *run);
enum td_code td_call_stop_error(const struct td_run *run, struct td_err *err);

#endif
