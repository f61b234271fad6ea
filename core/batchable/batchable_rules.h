/* core/batchable/batchable_rules.h - how single ops treat the rows of a batch: what rules see, and the table
 * of them.
 *
 * The analysis (core/batchable/batchable.c) walks a plan at several numbers of rows N at once (td_rows_probe)
 * and keeps for every value where its rows are (struct td_row_axis). What holds at all probes is taken to
 * hold for every N: sizes in real graphs are products of N, and thresholds beyond the largest probe would
 * have to be put there on purpose. Not so for what is asked of N ("is it 4?"), which may be true between the
 * probes:
 * core/batchable/batchable.c looks at where the answer would change.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_RULES_H
#define TD_CORE_BATCHABLE_BATCHABLE_RULES_H

#include "core/run/bound_plan.h"
#include "core/graph/op.h"

enum { TD_ROWS_PROBES = 4 };
extern const int64_t td_rows_probe[TD_ROWS_PROBES];

enum td_rows_kind {
    TD_ROWS_UNSET, /* not computed yet (first round through a loop), or an element never set */
    TD_ROWS_CONST, /* depends neither on what is fed nor on N */
    TD_ROWS_SIZE,  /* known at each probe, and follows from N */
    TD_ROWS_ROW,   /* dimension `axis` runs over rows */
    TD_ROWS_LIST,  /* a TensorList of elements that are all CONST or all ROW at the same axis */
    TD_ROWS_MIX,   /* anything else */
};

/* Of a ROW of shape [d.., k*N, e..] with axis pointing at k*N, index i of that axis belongs to row
 *
 *     (i / c) % N      where c = k / pre
 *
 * The axis holds `pre` blocks of N rows of c entries each. pre and k are 1 for a plain batch axis; reshapes
 * that merge it with its neighbours make them larger.
 *
 * Invariant: all other dimensions of a ROW are known and equal at all probes, k and pre are >= 1 and pre
 * divides k. */
struct td_row_axis {
    enum td_rows_kind kind;
    enum td_rows_kind item; /* LIST: kind of its elements */
    int axis;               /* ROW, and elements of a LIST */
    int64_t pre;
    int64_t length;                    /* LIST: -1 unknown */
    const struct td_shape *item_shape; /* LIST: of its elements by probe; NULL while none is set */
    const char *why;                   /* MIX: what made it so */
};

struct td_batchable_trace; /* one walk over a callable: core/batchable/batchable.c */

struct td_batchable_step { /* what a rule sees of a step */
    struct td_batchable_trace *trace;
    const struct td_step *step;
    const struct td_node *node;
    int n_in, n_out;
    const struct td_row_axis *in;
    const struct td_shape *in_shape[TD_ROWS_PROBES]; /* n_in each */
    struct td_bound_plan *bound[TD_ROWS_PROBES];     /* known values of inputs; shapes of outputs */
    struct td_row_axis *out;                         /* UNSET on entry */
    bool refuse;                                     /* with a no: of the whole callable */
    char why[200];                                   /* when the rule says no: "works across the rows" */
};

/* Places the outputs. False, with why, when rows may mix; the outputs are then MIX. */
typedef bool td_rows_fn(struct td_batchable_step *s);

struct td_rows_rule_row {
    td_rows_fn *fn;
    bool any_input; /* called with MIX inputs too, and when all inputs are CONST */
};
/* NULL for TD_ROWS_NONE. */
const struct td_rows_rule_row *td_rows_rule(const struct td_op *op);

/* ---- for rules */

bool td_rows_no(struct td_batchable_step *s, const char *fmt, ...) TD_PRINTF(2, 3); /* says why; false */
/* Output o has rows along axis, pre as given; checks its shape. k: what the axis must hold a row, 0 whatever
 * it does. */
bool td_rows_put(struct td_batchable_step *s, int o, int axis, int64_t pre, int64_t k);
/* Value of input i at a probe, or NULL. */
const struct td_tensor *td_rows_value(const struct td_batchable_step *s, int i, int probe);
/* Element k of an integer input, known and the same at all probes. */
bool td_rows_int(const struct td_batchable_step *s, int i, int64_t k, int64_t *out);
/* Output o has the rows of input i, at `axis`. */
bool td_rows_as_input(struct td_batchable_step *s, int o, int i, int axis);
/* Input i is a ROW and all others are CONST; else says why. */
bool td_rows_alone(struct td_batchable_step *s, int i);
/* Inputs i and j are ROWs with the same number of entries a row; else says so. */
bool td_rows_same_rows(struct td_batchable_step *s, int i, int j);
/* The first dimension of output o that grows with N; -1 none. */
int td_rows_growing(const struct td_batchable_step *s, int o);
/* Whether input i may have more than one entry at the axis `back` places before its last. */
bool td_rows_spans(const struct td_batchable_step *s, int i, int back);
struct td_shape *td_rows_out_shape(const struct td_batchable_step *s, int o, int probe);

#endif
