/* kernels/train/activations.h - what a Dense layer of a new head does to its values, as nodes. Formulas:
 * Keras 3.15, keras/src/activations; an activation is one row of a table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_ACTIVATIONS_H
#define TD_KERNELS_TRAIN_ACTIVATIONS_H

#include "kernels/formula/formula.h"

struct td_activation {
    const char *name;
    /* x: a float of any shape; softmax and log_softmax go along its last axis */
    struct td_value (*apply)(struct td_emitter *e, struct td_value x);
};
/* NULL: none of that name. */
const struct td_activation *td_activation_find(const char *name);
const struct td_activation *td_activation_row(int i); /* NULL past the end */

#endif
