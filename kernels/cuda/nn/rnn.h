/* kernels/cuda/nn/rnn.h - launchers of rnn.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_RNN_H
#define TD_KERNELS_CUDA_NN_RNN_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of an LSTM: by_x, by_h [batch, 4 cell] are the products of x and h with their weights, b [4 cell],
 * wci, wcf, wco [cell] or NULL; cs_prev and out (i, cs, f, o, ci, co, h) [batch, cell]. place: of i, c, f, o
 * among the four gates. clip 0: none. All float. */
struct td_cuda_lstm {
    int64_t batch, cell;
    const void *by_x, *by_h, *b, *wci, *wcf, *wco, *cs_prev;
    void *out[7];
    float forget_bias, clip;
    int place[4];
};
int td_cuda_lstm_step(const struct td_cuda_lstm *s, struct td_cuda_stream *stream);

/* A GRU's gates: by_x, by_h [batch, 2 cell], b [2 cell]; r, u, reset = r h_prev [batch, cell]. Then its
 * state:
 * by_x, by_h [batch, cell], b [cell]; c, h. All float. */
struct td_cuda_gru {
    int64_t batch, cell;
    const void *by_x, *by_h, *b, *h_prev;
    void *r, *u, *reset, *c, *h;
};
int td_cuda_gru_gates(const struct td_cuda_gru *s, struct td_cuda_stream *stream);
int td_cuda_gru_state(const struct td_cuda_gru *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
