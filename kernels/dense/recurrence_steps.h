/* kernels/dense/recurrence_steps.h - the steps of a recurrent cell of floats, one after the other.
 *
 *     p = h U                   h [rows, units]   U [units, gates * units]   x (by step), p: rows of gates
 *
 *     LSTM   s = x + p + bx + bh      c' = sigmoid(s_f) c + sigmoid(s_i) tanh(s_g)
 *                                     h' = sigmoid(s_o) tanh(c')
 *     GRU    s = x + bx, q = p + bh   z = sigmoid(s_z + q_z)   r = sigmoid(s_r + q_r)
 *                                     h' = z h + (1 - z) tanh(s_n + r q_n)
 *     GRU_BEFORE                      z and r of s = x + p + bx + bh
 *                                     h' = z h + (1 - z) tanh(x2 + (r h) U2 + b2)
 *     PLAIN                           h' = tanh(x + p + bx + bh)
 *
 * In place of sigmoid and tanh any of enum td_squash may stand.
 *
 * A row that a step's mask leaves out keeps its h and c.
 *
 * A step's product and gates are computed for a few units at a time, which several threads share out: each
 * begins the next step when all parts of the last one are done. Or each thread has some of the rows. The
 * results are the same bits however many threads help.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_RECURRENCE_STEPS_H
#define TD_KERNELS_CPU_RECURRENCE_STEPS_H

#include "core/graph/op.h"

enum td_cell { TD_CELL_LSTM, TD_CELL_GRU, TD_CELL_GRU_BEFORE, TD_CELL_PLAIN };
enum { TD_CELL_GATES = 4 };
/* HARD: slope x + offset, cut to 0 .. 1 */
enum td_squash {
    TD_SQUASH_NONE, /* the cell has no place for one */
    TD_SQUASH_SIGMOID,
    TD_SQUASH_TANH,
    TD_SQUASH_RELU,
    TD_SQUASH_SOFTSIGN,
    TD_SQUASH_ELU,
    TD_SQUASH_HARD
};

/* How many gates are in a product with U. */
static inline int td_cell_gates(enum td_cell cell)
{
    static const int gates[] = {
        [TD_CELL_LSTM] = 4, [TD_CELL_GRU] = 3, [TD_CELL_GRU_BEFORE] = 2, [TD_CELL_PLAIN] = 1};
    return gates[cell];
}

struct td_recurrence_steps {
    enum td_cell cell;
    enum td_squash gate, state; /* what stands for sigmoid, and for tanh */
    float slope, offset;
    int64_t place[TD_CELL_GATES]; /* which gate of a row is i f g o; z r n */
    int64_t steps, rows, units;
    const float *const *x; /* by step */
    int64_t x_width;       /* from row to row */
    const float *const *x2;
    int64_t x2_width;
    const bool *const *mask; /* by step, then by row; NULL: no row is left out */
    const float *u; /* [units, gates * units]; in panels (kernels/dense/gemm_panels.h) when depth > 0 */
    int64_t depth;
    const float *u2; /* [units, units]; likewise, depth2 */
    int64_t depth2;
    const float *bx, *bh; /* [gates * units] */
    const float *b2;      /* [units] */
    const float *h0;      /* [rows, units] */
    float *h;             /* [kept, rows, units]: step t leaves its h at t % kept; 2 or more */
    int64_t kept;
    float *c;      /* [rows, units]: before the first step, and behind the last */
    float *p;      /* [rows, gates * units], for the steps' use; of GRU_BEFORE also */
    float *rh, *q; /* [rows, units] each */
};

/* All steps. Ends early when the run is stopped: look at td_stopped. */
void td_recurrence_run(struct td_call *c, const struct td_recurrence_steps *s);

#endif
