/* server/train/epoch_sums.h - what an epoch comes to: its losses, weighted by rows, and its metrics.
 *
 *   loss           sum of rows * loss / rows       the total one, penalties included
 *   OUTPUT_loss    the same of each loss by itself, where there are several
 *   METRIC         of the sums of all batches (kernels/train/metrics.h)
 *
 * in this order, under the names that the layout gives them; of two with one name the first counts. Sums are
 * kept in double and are part of a job's progress.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_EPOCH_SUMS_H
#define TD_SERVER_TRAIN_EPOCH_SUMS_H

#include "server/train/step.h"

struct td_epoch_sums;

/* Returns new, at zero; borrows both. */
TD_MUST enum td_code td_epoch_sums_new(const struct td_job_spec *spec, const struct td_row_layout *layout,
                                       struct td_epoch_sums **out, struct td_err *err);
void td_epoch_sums_free(struct td_epoch_sums *s); /* accepts NULL */
void td_epoch_sums_clear(struct td_epoch_sums *s);
/* A batch of so many rows. */
TD_MUST enum td_code td_epoch_sums_add(struct td_epoch_sums *s, int64_t rows, const struct td_step_result *r,
                                       struct td_err *err);

int td_epoch_sums_n(const struct td_epoch_sums *s);
const char *td_epoch_sums_name(const struct td_epoch_sums *s, int i); /* "loss" is the first */
double td_epoch_sums_value(const struct td_epoch_sums *s, int i);     /* NAN without rows */
/* By name; NAN when there is none. */
double td_epoch_sums_named(const struct td_epoch_sums *s, const char *name);
/* {NAME: value or null}; new reference, NULL without memory. */
json_t *td_epoch_sums_json(const struct td_epoch_sums *s);

/* All of it as a double vector, and back. INVALID_ARGUMENT for a vector of other sums. */
TD_MUST enum td_code td_epoch_sums_save(const struct td_epoch_sums *s, struct td_tensor *out,
                                        struct td_err *err);
TD_MUST enum td_code td_epoch_sums_load(struct td_epoch_sums *s, const struct td_tensor *t,
                                        struct td_err *err);

#endif
