/* kernels/train/constraints.h - what a variable is brought back to after an update. Formulas: Keras 3.15,
 * keras/src/constraints; a constraint is one row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_CONSTRAINTS_H
#define TD_KERNELS_TRAIN_CONSTRAINTS_H

#include "kernels/formula/formula.h"
#include "kernels/train/fields.h"

struct td_constraint {
    const char *name; /* max_norm, non_neg, unit_norm, min_max_norm */
    const struct td_field *fields;
    int axis_field; /* the list of axes that a norm is taken over, which w must have; -1: none */
    /* Of w's dtype and shape. */
    struct td_value (*project)(struct td_emitter *e, struct td_value w, const struct td_field_values *v);
};
const struct td_constraint *td_constraint_find(const char *name); /* NULL: none of that name */
const struct td_constraint *td_constraint_row(int i);             /* NULL past the end */

#endif
