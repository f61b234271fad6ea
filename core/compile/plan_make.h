/* core/compile/plan_make.h - the compiler's entry: a callable's part of a graph becomes a plan
 * (core/run/plan.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PLAN_MAKE_H
#define TD_CORE_COMPILE_PLAN_MAKE_H

#include "core/compile/ir.h"
#include "core/run/plan.h"

struct td_plan_opts {
    bool inline_calls, log_placement;
    const char *passes_off; /* as in struct td_model_opts */
};

/* Builds the IR, runs the passes, lists the kernel rows that may serve each step. Returns new. UNIMPLEMENTED
 * / PERMISSION_DENIED name node, op and function. */
TD_MUST enum td_code td_plan_make(struct td_model *m, const struct td_graph *graph,
                                  const struct td_callable_opts *f, const struct td_plan_opts *opts,
                                  struct td_plan **out, struct td_err *err);

#endif
