/* kernels/math/random_generator.h - where the generator of a random op comes from, and what it checks before
 * it draws: for the host's kernels and for those of devices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_RANDOM_GENERATOR_H
#define TD_KERNELS_MATH_RANDOM_GENERATOR_H

#include "core/graph/op.h"
#include "kernels/math/random_group.h"

/* *g = the generator that this node keeps between calls, of its attributes seed and seed2, as it is now; it
 * then moves on by `steps`. */
TD_MUST enum td_code td_random_reserve(struct td_call *c, uint64_t steps, struct td_philox *g,
                                       struct td_err *err);

/* The generator that a stateless op makes of its seeds, input i; and of its key, counter and algorithm,
 * inputs 1, 2 and 3, which td_random_judge_counter judges alone where no numbers are asked for. */
struct td_philox td_random_from_seeds(const struct td_call *c, int i);
TD_MUST enum td_code td_random_from_key(const struct td_call *c, struct td_philox *g, struct td_err *err);
TD_MUST enum td_code td_random_judge_counter(const struct td_call *c, struct td_err *err);

/* Two scalar bounds must be minval < maxval, unless the output is empty. */
TD_MUST enum td_code td_random_fill_bounds(const struct td_call *c, const struct td_tensor *minval,
                                           const struct td_tensor *maxval, const struct td_tensor *out,
                                           struct td_err *err);
/* What is set aside for so many draws in each row: a class takes a double, two words; the draws of a row are
 * rounded up to whole steps. */
static inline uint64_t td_random_class_steps(int64_t rows, int64_t draws)
{
    return (uint64_t)rows * (((uint64_t)draws + 3) / 4 * 4 * 2) * TD_RANDOM_STEPS;
}

#endif
