/* core/compile/plan.h - one callable compiled: a flat list of steps over numbered values. Immutable once
 * built.
 *
 * Values are numbered: feeds first, then constants, then step outputs in order. A step names its kernel, its
 * input values and its first output value. Shapes are not part of a plan (core/run/bound_plan.h has them).
 *
 * Invariant: a step's inputs have smaller value numbers than its outputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PLAN_H
#define TD_CORE_COMPILE_PLAN_H

#include "core/compile/parallel_regions.h"
#include "core/compile/ir.h"

struct td_step {
    const struct td_node *node;
    const struct td_kernel *kernel;
    const struct td_kernel
        *device_kernel;  /* on the model's device; NULL: the step runs on the host (core/run/device_run.h) */
    const bool *on_host; /* with device_kernel: this input stays in host memory */
    const int *in;       /* value numbers, n_in */
    const bool *deref;   /* this input is a reference edge: take a snapshot of its variable; NULL: none is */
    int n_in, n_out, out0;
    const int *release; /* values whose last use this is */
    int n_release;
    const int *after; /* steps whose deadness this one inherits through control edges (TF1 control flow) */
    int n_after;
    uint32_t flags;
};

struct td_plan {
    struct td_arena *arena; /* owned: nodes, steps, constants */
    struct td_model *model; /* borrowed: a plan dies before its model */
    struct td_step *steps;
    int n_steps, n_values, n_feeds, n_fetches;
    const int *fetches; /* value numbers */
    int first_const, n_consts;
    const struct td_tensor **consts; /* of values first_const.. */
    const enum td_dtype *dtype;      /* by value */
    const bool *is_ref;              /* by value: a reference edge */
    const bool *escapes;             /* by value: may outlive the run, so it needs a buffer of its own */
    const int *last_use;             /* by value: step index; n_steps for fetches; -1 never */
    const struct td_region *regions; /* n_regions, ascending */
    int n_regions;
    int max_in, max_out;
    bool dead_values; /* has Switch / Merge */
    int graph_nodes;  /* of the IR before it became steps */
};

struct td_plan_opts {
    bool inline_calls, log_placement;
    const char *passes_off;
};

/* Builds IR, runs the passes, chooses kernels. Returns new. UNIMPLEMENTED / PERMISSION_DENIED name node, op
 * and function. */
TD_MUST enum td_code td_plan_compile(struct td_model *m, const struct td_graph *graph,
                                     const struct td_callable_opts *f, const struct td_plan_opts *opts,
                                     struct td_plan **out, struct td_err *err);
void td_plan_free(struct td_plan *p);

#endif
