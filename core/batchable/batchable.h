/* core/batchable/batchable.h - whether requests may be batched: is a callable a function of rows, each result
 * row following from the same row of the inputs alone?
 *
 *     f(a over b) = f(a) over f(b)      where "over" puts rows, the leading dimension, one after the other
 *
 * The answer is proven from the compiled plan, never guessed: anything not known to keep rows apart (an op
 * nobody has annotated, a batch statistic, a row number, a random draw, an effect) makes it no.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_H
#define TD_CORE_BATCHABLE_BATCHABLE_H

#include "core/function/callable.h"

struct td_batchable {
    bool rowwise;
    char why[256]; /* when not: "node 'mean' (Mean): reduces over the rows" and the like; else "" */
};

/* Whether f is row-wise for inputs of these shapes. The leading dimension of each is the number of rows and
 * its value is ignored, the others must be given. Takes about as long as laying out the plan a few times;
 * callers keep the answer, which is the same for any number of rows. Any thread. Fails only when f does not
 * compile or memory runs out. */
TD_MUST enum td_code td_batchable_prove(struct td_callable *f, const struct td_shape *in, int n_in,
                                        struct td_batchable *out, struct td_err *err);

#endif
