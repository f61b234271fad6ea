/* core/batchable/batchable_impl.h - what the files of this room share: one analysis, one walk over a
 * callable, and values as they go into and come out of callables. Rules see none of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_IMPL_H
#define TD_CORE_BATCHABLE_BATCHABLE_IMPL_H

#include "core/base/arena.h"
#include "core/batchable/batchable_rule.h"
#include "core/function/callable.h"
#include "core/run/bound_plan.h"

/* A value as it goes into or comes out of a callable. */
struct td_batchable_face {
    struct td_batchable_value value;
    struct td_shape shape[TD_BATCHABLE_PROBES];
    struct td_tensor known[TD_BATCHABLE_PROBES]; /* owned; dtype NONE where not known */
};

/* Every probe lies in the range: where the range becomes smaller than that, `again` is set. */
struct td_batchable_work {
    struct td_model *model;
    struct td_arena *arena; /* reasons, sizes, shapes of list elements */
    struct td_row_range range;
    int64_t probe[TD_BATCHABLE_PROBES]; /* numbers of rows; the first two differ */
    int64_t steps_left;
    int depth;
    const char *refused; /* set: the walk ends */
    bool again;          /* and another one begins, with probes in the range as it is now */
};

struct td_batchable_trace {
    struct td_batchable_work *work;
    const struct td_plan *plan;
    struct td_bound_walk *walk[TD_BATCHABLE_PROBES];
    struct td_bound_plan *bound[TD_BATCHABLE_PROBES];
    struct td_batchable_value *value; /* by value */
    struct td_batchable_value *in;    /* scratch: max_in */
};

/* Walks f from in[] (borrowed); out[] must be zeroed, and is the caller's to clear, also after a failure. */
TD_MUST enum td_code td_batchable_walk(struct td_batchable_work *w, struct td_callable *f,
                                       const struct td_batchable_face *in, int n_in,
                                       struct td_batchable_face *out, int n_out, struct td_err *err);
void td_batchable_face_clear(struct td_batchable_face *face, int n);
bool td_batchable_same_value(const struct td_tensor *a, const struct td_tensor *b);

/* The invariant of batchable_rule.h, of output o of the step. (batchable_rule.c) */
TD_MUST enum td_code td_batchable_check(const struct td_batchable_step *s, int o, struct td_err *err);
/* What output o of the step is said to be agrees with what its kernel gave at the probes.
 * (batchable_sizes.c) */
bool td_batchable_agrees(const struct td_batchable_step *s, int o);
bool td_batchable_same_sizes(const struct td_batchable_value *a, const struct td_batchable_value *b);

/* The rule of a loop of TF1 that the compiler has lifted into one node. (batchable_function.c) */
td_batchable_fn td_batchable_lifted_loop;

#endif
