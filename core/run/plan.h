/* core/run/plan.h - one callable compiled: a flat list of steps over numbered values. Immutable once
 * built.
 *
 * Values are numbered: feeds first, then constants, then step outputs in order. A step names the kernels that
 * may run it, its input values and its first output value. Shapes are not part of a plan
 * (core/run/bound_plan.h has them).
 *
 * Invariant (td_plan_check): a step's inputs have smaller value numbers than its outputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_PLAN_H
#define TD_CORE_RUN_PLAN_H

#include <stdatomic.h>

#include "core/run/model.h"

/* A range of steps that falls apart into groups that do not need each other
 * (core/compile/parallel_regions.h). */
enum { TD_REGION_GROUPS = 8 };

struct td_region {
    int first, n_groups;
    int end[TD_REGION_GROUPS]; /* by group: the step behind it; a group starts where the one before ends */
};

static inline int td_region_start(const struct td_region *r, int group)
{
    return group == 0 ? r->first : r->end[group - 1];
}
static inline int td_region_end(const struct td_region *r)
{
    return r->end[r->n_groups - 1];
}

struct td_step {
    const struct td_node *node;
    const struct td_kernel *const
        *rows; /* that may run it on the host, in order: which one does is the bound plan's to say */
    const struct td_kernel *const *device_rows; /* the same of the model's device (core/run/device_run.h) */
    int n_rows, n_device_rows; /* no rows: a join, or a constant; no device rows: it stays on the host */
    /* with device_rows: this input stays in host memory, but for rows that judge it; NULL: none does */
    const bool *on_host;
    const int *in;     /* value numbers, n_in */
    const bool *deref; /* this input is a reference edge: take a snapshot of its variable; NULL: none is */
    int n_in, n_out, out0;
    const int *release; /* values whose last use this is */
    int n_release;
    const int *after; /* steps whose deadness this one inherits through control edges (TF1 control flow) */
    int n_after;
    uint32_t flags;
};

/* Whether kernel k of a device, which serves the step, reads input i on the host. */
static inline bool td_step_reads_here(const struct td_step *s, const struct td_kernel *k, int i)
{
    return s->on_host != NULL && s->on_host[i] && (i >= 32 || (k->there >> i & 1) == 0);
}

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
    atomic_int refs;
};

/* Plans are counted: those who bind them have a reference each, and a bound plan may outlive its callable. */
const struct td_plan *td_plan_ref(const struct td_plan *p);
void td_plan_unref(const struct td_plan *p); /* accepts NULL */

#endif
