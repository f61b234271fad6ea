/* server/train/row_weights.h - what a row counts in a loss: its sample_weight times the weight of its class.
 *
 * One weight a row; for outputs of rank 3 and more one a position: a single sample_weight holds for all of
 * them, each position has its own class. The class of a target is itself, the largest of several numbers
 * (one-hot), or its integer part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_ROW_WEIGHTS_H
#define TD_SERVER_TRAIN_ROW_WEIGHTS_H

#include "server/train/row_cells.h"

/* The class weights of the losses, sorted, into the cells of their weights. */
TD_MUST enum td_code td_row_weights_set_classes(struct td_row_cells *c, const struct td_job_spec *spec,
                                                struct td_err *err);
/* The weights of the row in hand for field i, whose target has been read. */
TD_MUST enum td_code td_row_weights_put(struct td_row_cells *c, int i, struct td_err *err);

#endif
