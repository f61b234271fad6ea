/* core/batchable/batchable.h - whether requests may be batched: is a callable a function of rows, each result
 * row following from the same row of the inputs alone?
 *
 *     f(a over b) = f(a) over f(b)      where "over" puts rows, the leading dimension, one after the other
 *
 * The answer is proven from the compiled plan, for every number of rows N of a range, which is part of the
 * answer. Anything not known to keep rows apart (an op nobody has annotated, a batch statistic, a row number,
 * a random draw, an effect) makes it no, and so does a use of N that is not followed. The argument:
 *
 *   1. Something is said of every value of the plan (core/batchable/batchable_rule.h): it is the same for all
 *      requests and all N (CONST); its elements are these expressions in N (SIZE); along one axis it has what
 *      follows from one row each, by a rule in which N does not occur (ROW); or nothing (MIX).
 *   2. The rule of a step's op says it of the outputs, from what is said of the inputs, from attributes, from
 *      values of CONST and from dimensions without rows. All of these are the same for every N: so is the
 *      conclusion. By induction over the steps it holds of what comes out, for every N of the range.
 *   3. Where a rule needs a number that differs with N (a shape to reshape to, the end of a slice, the
 *      operands of a comparison), it asks about the expression (core/batchable/affine.h). A question that
 *      has one answer for some N and another for others narrows the range to the part with one answer. An
 *      expression is exact: it narrows the range to where the graph's own int32 or int64 does not overflow.
 *   4. Functions are walked in the same way; of a conditional the branch that its constant condition takes,
 *      or what both branches agree on; of a loop what stays true from round to round, when its condition is
 *      the same for all.
 *   5. So a row of the result is the same function of the same row of the inputs for every N of the range:
 *      the equation holds wherever the rows of a, of b, and of both together lie in it. Batches, the members
 *      of a batch, padding and the chunks of a split request keep to that.
 *
 * Shape functions and kernels are code, not formulas, and can only be asked at one N at a time: they are, at
 * four numbers of rows of the range (the probes). A probe gives what is said to be the same for all N, and
 * that could be had from any one of them; the others are held against it, and a contradiction ends the proof.
 * Two decide one question: whether a dimension that the rule knows to be affine in N (its op cuts off, adds
 * or repeats by constants) is a multiple of N.
 *
 * Taken as given: that rules know their ops (tests/property/rows_ops.c and rows_draw.py hold them against
 * kernels), that rounding may differ with N, and that a request which fails in a batch is run again alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_H
#define TD_CORE_BATCHABLE_BATCHABLE_H

#include "core/function/callable.h"

struct td_batchable {
    bool rowwise;
    int64_t min_rows, max_rows; /* when it is: of each member of a batch, and of the whole; 2 * min <= max */
    char why[256]; /* when not: "node 'mean' (Mean): reduces over the rows" and the like; else "" */
};

/* Whether f is row-wise for inputs of these shapes. The leading dimension of each is the number of rows and
 * its value is ignored, the others must be given. Takes about as long as binding the plan to shapes a few
 * times; callers keep the answer. Any thread. Fails only when f does not compile or memory runs out. */
TD_MUST enum td_code td_batchable_prove(struct td_callable *f, const struct td_shape *in, int n_in,
                                        struct td_batchable *out, struct td_err *err);

#endif
