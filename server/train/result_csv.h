/* server/train/result_csv.h - a job's result file: its numbers as a table, a line a step.
 *
 *   step,epoch,train_loss,learning_rate,valid_loss,train_M,..,valid_M,..     M: what epochs tell but the loss
 *   1,1,1.6600000858306885,0.001,,,
 *   5,1,1.2,0.001 0.01,1.71,0.4,0.35                                         the epoch's last step
 *
 * Numbers are written so that they read back the same; one that is not finite is an empty cell, as it is null
 * in the events. A job that goes on from saved progress cuts the file to what it held then.
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_RESULT_CSV_H
#define TD_SERVER_TRAIN_RESULT_CSV_H

#include "server/train/epoch_sums.h"

struct td_result_csv;

/* Returns new. at: bytes of the file that stay, as td_result_csv_flush told them; 0: it begins anew. names:
 * whose columns it has; borrowed. */
TD_MUST enum td_code td_result_csv_open(const char *path, const struct td_epoch_sums *names, int64_t at,
                                        struct td_result_csv **out, struct td_err *err);
/* What a step told. The row of an epoch's last step is for td_result_csv_epoch alone. */
struct td_csv_step {
    int64_t step, epoch;
    double loss;
    const double *rates;
    int n_rates;
};
TD_MUST enum td_code td_result_csv_step(struct td_result_csv *c, const struct td_csv_step *s,
                                        struct td_err *err);
/* The row of an epoch's last step, with what the epoch came to. valid: NULL: not evaluated. */
TD_MUST enum td_code td_result_csv_epoch(struct td_result_csv *c, const struct td_csv_step *s,
                                         const struct td_epoch_sums *train, const struct td_epoch_sums *valid,
                                         struct td_err *err);
/* All rows are on disk when it returns; at: bytes of the file. */
TD_MUST enum td_code td_result_csv_flush(struct td_result_csv *c, int64_t *at, struct td_err *err);
/* What was not flushed may be lost. Accepts NULL. */
void td_result_csv_close(struct td_result_csv *c);

#endif
