/* kernels/train/loss_args.h - target and output as formulas take them: float32, of one rank, a column where
 * the output is of rank 1.
 *
 *   p  [batch, positions.., K]   the output
 *   y  the same shape; of classes [batch, positions.., 1], which broadcasts against p
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_LOSS_ARGS_H
#define TD_KERNELS_TRAIN_LOSS_ARGS_H

#include "kernels/formula/formula.h"

/* Keras's epsilon. */
#define TD_LOSS_EPSILON 1e-7

struct td_loss_pair {
    struct td_value y, p;
    int rank; /* of p; -1: not known */
};

struct td_loss_pair td_loss_pair_make(struct td_emitter *e, struct td_value target, struct td_value output);
/* Classes as they are, [batch, positions..]; y is that. */
struct td_loss_pair td_loss_class_pair(struct td_emitter *e, struct td_value target, struct td_value output);

/* [batch, positions.., K] -> [N, K]; x itself when it is of rank 2. And back: [N] -> [batch, positions..] of
 * p. */
struct td_value td_loss_flat(struct td_emitter *e, struct td_value x, int rank);
struct td_value td_loss_unflat(struct td_emitter *e, struct td_value v, const struct td_loss_pair *of);

struct td_value td_loss_sum_last(struct td_emitter *e, struct td_value x);
struct td_value td_loss_mean_last(struct td_emitter *e, struct td_value x);
/* max(min(x, high), low); at both ends the gradient passes. */
struct td_value td_loss_clipped(struct td_emitter *e, struct td_value x, double low, double high);
/* x scaled to length 1 along the last axis, zeros as they are. */
struct td_value td_loss_unit(struct td_emitter *e, struct td_value x);
/* w [batch] or of values' rank: of values' rank, with axes of length 1 behind. */
struct td_value td_loss_weights_like(struct td_emitter *e, struct td_value w, struct td_value values);
/* How many elements x has: float32 scalar. */
struct td_value td_loss_count(struct td_emitter *e, struct td_value x);

#endif
