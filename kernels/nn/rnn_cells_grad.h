/* kernels/nn/rnn_cells_grad.h - gradients of the ops in rnn_cells.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_RNN_CELLS_GRAD_H
#define TD_KERNELS_NN_RNN_CELLS_GRAD_H

#include "core/grad/grad.h"

void td_block_lstm_grad(struct td_grad *g); /* BlockLSTM, BlockLSTMV2 */

#endif
