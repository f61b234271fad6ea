/* kernels/math/random_binomial.h - numbers of binomial distributions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_RANDOM_BINOMIAL_H
#define TD_KERNELS_MATH_RANDOM_BINOMIAL_H

#include "kernels/math/random_fill.h"

/* Shape function's part: output 0 of the shape that input `shape` spells ends with what inputs i (counts) and
 * i + 1 (probabilities) broadcast to. */
TD_MUST enum td_code td_random_binomial_infer(struct td_infer *c, int shape, int i, struct td_err *err);
/* Fills output 0 by inputs i and i + 1 from g. */
TD_MUST enum td_code td_random_binomial_fill(struct td_call *c, struct td_philox g, int i,
                                             struct td_tensor *out, struct td_err *err);

#endif
