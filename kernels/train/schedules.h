/* kernels/train/schedules.h - learning rates by the number of updates so far. Formulas: Keras 3.15,
 * keras/src/optimizers/schedules; a schedule is one row. Computed on the host once a step, in float32 as
 * Keras does, so that stairs and restarts fall on the same steps: the step is fed with the rate.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_SCHEDULES_H
#define TD_KERNELS_TRAIN_SCHEDULES_H

#include "kernels/train/fields.h"

struct td_schedule {
    const char *name;
    const struct td_field *fields;
    /* first: the optimizer's learning_rate; step: updates so far, 0 at the first */
    double (*rate)(double first, double step, const struct td_field_values *v);
    /* what is wrong between fields (piecewise: one value more than boundaries); NULL: nothing */
    const char *(*wrong)(const struct td_field_values *v);
};
const struct td_schedule *td_schedule_find(const char *name);
const struct td_schedule *td_schedule_row(int i);

#endif
