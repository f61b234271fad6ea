/* kernels/train/loss_entropy.h - cross entropies: rows of td_losses (kernels/train/losses.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_LOSS_ENTROPY_H
#define TD_KERNELS_TRAIN_LOSS_ENTROPY_H

#include "kernels/train/losses.h"

extern const struct td_field td_entropy_fields[];        /* from_logits, label_smoothing */
extern const struct td_field td_entropy_sparse_fields[]; /* from_logits, ignore_class */

struct td_value td_entropy_binary(struct td_emitter *e, const struct td_loss_args *a);
struct td_value td_entropy_dense(struct td_emitter *e, const struct td_loss_args *a);
struct td_value td_entropy_sparse(struct td_emitter *e, const struct td_loss_args *a);
struct td_value td_entropy_counted(struct td_emitter *e, const struct td_loss_args *a);

#endif
