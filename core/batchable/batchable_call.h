/* core/batchable/batchable_call.h - the analysis of core/batchable/batchable.c as the rules of functions and
 * loops see it: whole callables, by the places of what goes in and comes out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_CALL_H
#define TD_CORE_BATCHABLE_BATCHABLE_CALL_H

#include "core/base/arena.h"
#include "core/batchable/batchable_rules.h"

/* A value as it goes into or comes out of a callable. */
struct td_batchable_face {
    struct td_row_axis place;
    struct td_shape shape[TD_ROWS_PROBES];
    struct td_tensor known[TD_ROWS_PROBES]; /* owned; dtype NONE where not known */
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
    struct td_bound_walk *walk[TD_ROWS_PROBES];
    struct td_bound_plan *bound[TD_ROWS_PROBES];
    struct td_row_axis *place; /* by value */
    struct td_row_axis *in;    /* scratch: max_in */
};

/* Walks f from in[] (borrowed); out[] must be zeroed, and is the caller's to clear, also after a failure. */
TD_MUST enum td_code td_rows_walk(struct td_batchable_work *w, struct td_callable *f,
                                  const struct td_batchable_face *in, int n_in, struct td_batchable_face *out,
                                  int n_out, struct td_err *err);
void td_rows_face_clear(struct td_batchable_face *face, int n);
bool td_rows_same_value(const struct td_tensor *a, const struct td_tensor *b);

/* Rules of the ops that own functions. */
td_rows_fn td_rows_call, td_rows_if, td_rows_case, td_rows_while, td_rows_loop;

#endif
