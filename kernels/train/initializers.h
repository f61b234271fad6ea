/* kernels/train/initializers.h - what the variables of a new head start with, as nodes. Formulas and draws:
 * Keras 3.15, keras/src/initializers, given an integer seed; an initializer is one row of a table.
 *
 *   kernel [in, out] of glorot_uniform with seed s   =   keras.initializers.GlorotUniform(seed=s)([in, out])
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_INITIALIZERS_H
#define TD_KERNELS_TRAIN_INITIALIZERS_H

#include "kernels/formula/formula.h"

struct td_initializer {
    const char *name;
    struct td_value (*draw)(struct td_emitter *e, const struct td_initializer *row,
                            const struct td_shape *shape, struct td_value seed);
    double scale; /* of the random ones: what Keras multiplies or limits the draw by */
    int fan;      /* which side of the variable the scale is divided by */
};
/* NULL: none of that name. */
const struct td_initializer *td_initializer_find(const char *name);
const struct td_initializer *td_initializer_row(int i); /* NULL past the end */
/* float32 of a known shape of rank 1 or 2. INVALID_ARGUMENT, stuck in e: the initializer has none such. */
struct td_value td_initializer_draw(struct td_emitter *e, const struct td_initializer *row,
                                    const struct td_shape *shape, int64_t seed);
/* A job's or a layer's seed as what TensorFlow's stateless ops are given by Keras: int32 [2], with `count`
 * (of draws before this one) as its second number. */
struct td_value td_seed_of(struct td_emitter *e, int64_t seed, int64_t count);
int64_t td_seed_number(int64_t seed); /* the first of the two */

#endif
