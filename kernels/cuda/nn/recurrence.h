/* kernels/cuda/nn/recurrence.h - launchers of recurrence.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_RECURRENCE_H
#define TD_KERNELS_CUDA_NN_RECURRENCE_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* enum td_cell and enum td_squash of kernels/dense/recurrence_steps.h, which is not for .cu files. */
enum td_cuda_cell { TD_CUDA_CELL_LSTM, TD_CUDA_CELL_GRU, TD_CUDA_CELL_GRU_BEFORE, TD_CUDA_CELL_PLAIN };
enum td_cuda_squash {
    TD_CUDA_SQUASH_NONE,
    TD_CUDA_SQUASH_SIGMOID,
    TD_CUDA_SQUASH_TANH,
    TD_CUDA_SQUASH_RELU,
    TD_CUDA_SQUASH_SOFTSIGN,
    TD_CUDA_SQUASH_ELU,
    TD_CUDA_SQUASH_HARD
};

/* The steps of a cell, of which formulas are in kernels/dense/recurrence_steps.h; all on the device. gates:
 * how many are in a product with u. */
struct td_cuda_recurrence {
    int cell, gate, state;       /* enum td_cuda_cell; what stands for sigmoid, and for tanh */
    float slope, offset, add[4]; /* add: to each gate of an LSTM */
    int place[4];                /* which gate of a row is i f g o; z r n */
    int64_t steps, rows, units;
    const float *x, *x2; /* of the first step */
    int64_t x_row, x_step, x2_row, x2_step;
    const unsigned char *mask; /* [steps, rows]: 0 leaves a row out; NULL: none is */
    /* [rows] of int32, or of int64: step t counts for a row while first + t is below; NULL: always */
    const void *lengths;
    bool long_lengths;
    int64_t first;
    const float *u, *u2;           /* [units, gates units]; GRU_BEFORE: [units, units] */
    const float *bx, *bh, *b2;     /* [gates units], [units]; NULL: zeros */
    const float *h0, *c0, *o0, *z; /* [rows, units], before the first step; see o */
    float *h;                      /* [h_kept, rows, units]: step t leaves its h at t % h_kept */
    float *c;                      /* [rows, units], behind the last step */
    /* [o_kept, rows, units]: h in rows that count, in others z; where z is NULL, what it was: o0 before the
     * first step. NULL: nobody wants it */
    float *o;
    int64_t h_kept, o_kept;  /* 2 or more */
    float *update, *reset_h; /* of GRU_BEFORE, for the steps' use: [rows, units] each */
};

/* How many products a step is made of; how many gates are in the i-th. */
static inline int td_cuda_recurrence_products(const struct td_cuda_recurrence *s)
{
    return s->cell == TD_CUDA_CELL_GRU_BEFORE ? 2 : 1;
}
static inline int td_cuda_recurrence_gates(const struct td_cuda_recurrence *s, int product)
{
    return s->cell == TD_CUDA_CELL_LSTM  ? 4
           : s->cell == TD_CUDA_CELL_GRU ? 3
                                         : td_cuda_recurrence_products(s) - product;
}
/* All steps. */
int td_cuda_recurrence_run(const struct td_cuda_recurrence *s, struct td_cuda_stream *stream);
/* Step t behind its product number `product`, which is p [rows, its gates, units]: of h, or of reset_h. */
int td_cuda_recurrence_behind(const struct td_cuda_recurrence *s, int64_t t, int product, const float *p,
                              struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
