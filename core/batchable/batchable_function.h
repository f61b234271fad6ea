/* core/batchable/batchable_function.h - the analysis of core/batchable/batchable.c as the rules of functions
 * and loops see it: whole callables, by the places of what goes in and comes out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_FUNCTION_H
#define TD_CORE_BATCHABLE_BATCHABLE_FUNCTION_H

#include "core/base/arena.h"
#include "core/batchable/batchable_rule.h"
#include "core/run/bound_plan.h"
#include "core/function/callable.h"

/* A value as it goes into or comes out of a callable. */
struct td_batchable_face {
    struct td_batchable_value value;
    struct td_shape shape[TD_BATCHABLE_PROBES];
    struct td_tensor known[TD_BATCHABLE_PROBES]; /* owned; dtype NONE where not known */
};

struct td_batchable_work {
    struct td_model *model;
    struct td_arena *arena; /* reasons, shapes of list elements */
    int64_t steps_left;
    int depth;
    const char *refused; /* set: the whole callable is not row-wise */
};

struct td_batchable_trace {
    struct td_batchable_work *work;
    const struct td_plan *plan;
    struct td_bound_walk *walk[TD_BATCHABLE_PROBES];
    struct td_bound_plan *layout[TD_BATCHABLE_PROBES];
    struct td_batchable_value *value; /* by value */
    struct td_batchable_value *in;    /* scratch: max_in */
};

/* Walks f from in[] (borrowed); out[] must be zeroed, and is the caller's to clear, also after a failure. */
TD_MUST enum td_code td_batchable_walk(struct td_batchable_work *w, struct td_callable *f,
                                       const struct td_batchable_face *in, int n_in,
                                       struct td_batchable_face *out, int n_out, struct td_err *err);
void td_batchable_face_clear(struct td_batchable_face *face, int n);
bool td_batchable_same_value(const struct td_tensor *a, const struct td_tensor *b);

/* The rule of a loop of TF1 that the compiler has lifted into one node. */
td_batchable_fn td_batchable_lifted_loop;

#endif
