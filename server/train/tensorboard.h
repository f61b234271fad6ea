/* server/train/tensorboard.h - a job's curves as TensorBoard reads them.
 *
 *   DIR/train/events.out.tfevents.TIME.HOST        step: batch_loss, batch_learning_rate
 *   DIR/validation/events.out.tfevents.TIME.HOST   epoch: epoch_loss, epoch_METRIC, histograms
 *
 * (the tags are those of Keras's callback). A side's file is made when it is first written to. A job that
 * goes on from saved progress cuts its files to what they held then, so that no step is in them twice.
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_TENSORBOARD_H
#define TD_SERVER_TRAIN_TENSORBOARD_H

#include "core/base/tensor.h"

enum td_board_side { TD_BOARD_TRAIN, TD_BOARD_VALIDATION, TD_BOARD_SIDES };

struct td_tensorboard;

/* Returns new. dir need not be there. at: bytes of each side's file that stay, as td_tensorboard_flush told
 * them; NULL or 0: none. */
TD_MUST enum td_code td_tensorboard_open(const char *dir, const int64_t at[TD_BOARD_SIDES],
                                         struct td_tensorboard **out, struct td_err *err);
/* A point of the curve `tag`. It may wait in memory for up to two seconds, or until the next flush. */
TD_MUST enum td_code td_tensorboard_scalar(struct td_tensorboard *b, enum td_board_side side, int64_t step,
                                           const char *tag, double v, struct td_err *err);
/* The distribution of the finite elements of t, of a real dtype; nothing for one without any. */
TD_MUST enum td_code td_tensorboard_histogram(struct td_tensorboard *b, enum td_board_side side, int64_t step,
                                              const char *tag, const struct td_tensor *t, struct td_err *err);
/* Everything is on disk when it returns; at: bytes of each side's file, 0 where there is none. */
TD_MUST enum td_code td_tensorboard_flush(struct td_tensorboard *b, int64_t at[TD_BOARD_SIDES],
                                          struct td_err *err);
/* Writes what waits, and frees; accepts NULL. */
void td_tensorboard_close(struct td_tensorboard *b);

#endif
