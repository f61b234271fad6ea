/* kernels/cuda/nn/rnn_grad.h - launchers of rnn_grad.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_RNN_GRAD_H
#define TD_KERNELS_CUDA_NN_RNN_GRAD_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of an LSTM, backwards: i, f, o, ci, co, cs_before and what arrives from above [batch, cell], dcs and
 * dh what arrives from the step behind. gates [batch, 4 cell] become the gradients before the gates, place
 * saying where those of i, c, f, o are; dcs what goes to the step before. wci, wcf, wco [cell] or NULL. All
 * float. */
struct td_cuda_lstm_back {
    int64_t batch, cell;
    const void *i, *f, *o, *ci, *co, *cs_before, *cs_above, *h_above, *wci, *wcf, *wco;
    void *gates, *dcs, *dh;
    int place[4];
};
int td_cuda_lstm_step_back(const struct td_cuda_lstm_back *s, struct td_cuda_stream *stream);

/* Gradients of the peepholes [cell]: sums over all rows of gates [steps batch, 4 cell] times the states
 * before a step, cs_prev and then cs [steps batch, cell], or that after it (o). */
struct td_cuda_peepholes {
    int64_t rows, batch, cell;
    const void *gates, *cs_prev, *cs;
    void *dwci, *dwcf, *dwco;
    int place[4];
};
int td_cuda_lstm_peepholes(const struct td_cuda_peepholes *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
