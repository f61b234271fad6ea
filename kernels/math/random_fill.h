/* kernels/math/random_fill.h - fills a tensor with random numbers of one distribution from a Philox
 * generator.
 *
 * The elements are those of TensorFlow's CPU kernels for the same generator, whatever the number of threads
 * there. All of them look at td_stopped now and then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_RANDOM_FILL_H
#define TD_KERNELS_MATH_RANDOM_FILL_H

#include "core/graph/op.h"
#include "kernels/math/random_generator.h"

/* out is half, bfloat16, float or double: [0, 1), N(0, 1), or N(0, 1) cut at two standard deviations. */
TD_MUST enum td_code td_random_fill(struct td_call *c, enum td_random_kind kind, struct td_philox g,
                                    struct td_tensor *out, struct td_err *err);
/* out is an integer tensor of 4 or 8 bytes: lo + bits mod range; range 0: all bits. */
TD_MUST enum td_code td_random_fill_ints(struct td_call *c, struct td_philox g, uint64_t lo, uint64_t range,
                                         struct td_tensor *out, struct td_err *err);
/* Integers in [minval, maxval), which td_random_fill_bounds has checked. */
TD_MUST enum td_code td_random_fill_range(struct td_call *c, struct td_philox g,
                                          const struct td_tensor *minval, const struct td_tensor *maxval,
                                          struct td_tensor *out, struct td_err *err);
/* Gamma(alpha, 1): element k of the flat output belongs to alpha[k mod n_alpha]. */
TD_MUST enum td_code td_random_fill_gamma(struct td_call *c, struct td_philox g,
                                          const struct td_tensor *alpha, struct td_tensor *out,
                                          struct td_err *err);
/* Poisson(rate), the same layout. */
TD_MUST enum td_code td_random_fill_poisson(struct td_call *c, struct td_philox g,
                                            const struct td_tensor *rate, struct td_tensor *out,
                                            struct td_err *err);
/* out[b, j]: a class drawn with the probabilities softmax(logits[b]). */
TD_MUST enum td_code td_random_fill_classes(struct td_call *c, struct td_philox g,
                                            const struct td_tensor *logits, struct td_tensor *out,
                                            struct td_err *err);
/* out = x with its rows in random order. */
TD_MUST enum td_code td_random_fill_shuffled(struct td_call *c, struct td_philox g, const struct td_tensor *x,
                                             struct td_tensor *out, struct td_err *err);

/* Element i of a tensor of floats or of int32 or int64: v, as the type holds it. */
void td_random_fill_store(struct td_tensor *t, int64_t i, double v);

/* Ops that keep a generator between calls: *g = it as it is now; it then moves on by `steps`. */
typedef enum td_code td_random_reserve_fn(struct td_call *c, uint64_t steps, struct td_philox *g,
                                          struct td_err *err);
/* Makes output 0 and reserves TD_RANDOM_STEPS steps for each of its elements. */
TD_MUST enum td_code td_random_fill_reserve(struct td_call *c, td_random_reserve_fn *reserve,
                                            struct td_tensor **out, struct td_philox *g, struct td_err *err);
/* The same, and fills it: td_random_fill, or the range of inputs i (minval) and i + 1 (maxval). */
TD_MUST enum td_code td_random_fill_drawn(struct td_call *c, td_random_reserve_fn *reserve,
                                          enum td_random_kind kind, struct td_err *err);
TD_MUST enum td_code td_random_fill_drawn_range(struct td_call *c, td_random_reserve_fn *reserve, int i,
                                                struct td_err *err);
/* Shape functions of random ops: input i is the shape, a vector; the output has it (followed by input j's).
 */
TD_MUST enum td_code td_random_fill_infer(struct td_infer *c, int i, int j, struct td_err *err);
/* The output has the shape that input i says, which must end with that of what is drawn from. */
TD_MUST enum td_code td_random_fill_infer_over(struct td_infer *c, int i, const struct td_shape *from,
                                               struct td_err *err);

#endif
