/* kernels/cuda/nn/rnn_grad.c - rows of BlockLSTMGrad and BlockLSTMGradV2, of floats.
 *
 *   a step, last first   the gradients of its gates, in the workspace; times w_h they are what goes to the
 *                        step before
 *   then                 x and the weights by one product each over all steps
 *
 * kernels/nn/rnn_cells_grad.c has the formulas.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/rnn_grad.h"

#include <string.h>

#include "kernels/cuda/array/move.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/math/matmul.h"
#include "kernels/cuda/math/reduce.h"
#include "kernels/cuda/rows.h"

enum { X = 1, CS_PREV, H_PREV, W, WCI, WCF, WCO, B, I, CS, F, O, CI, CO, H, CS_GRAD, H_GRAD };
enum { DX, DCS_PREV, DH_PREV, DW, DWCI, DWCF, DWCO, DB, OUTPUTS };
enum { GATES = 4 };

struct sizes {
    int64_t batch, in, cell, all;
};

static struct sizes sizes_of(const struct td_shape *x, const struct td_shape *cs)
{
    return (struct sizes){.all = x->dim[0], .batch = x->dim[1], .in = x->dim[2], .cell = cs->dim[1]};
}

/* All steps' gates, and the state before each. */
static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const struct sizes z = sizes_of(&q->in[X], &q->in[CS_PREV]);
    (void)err;
    o->refusal = z.all * z.batch * z.in * z.cell == 0 ? "nothing goes back" : NULL;
    o->workspace_bytes = (size_t)(z.all * z.batch * (GATES + 1) * z.cell) * sizeof(float);
    return TD_OK;
}

struct back {
    const struct td_call *c;
    struct sizes z;
    int64_t steps;
    int place[GATES];
    bool peephole;
    float *gates, *states, *to[OUTPUTS];
};

static const float *input(const struct back *s, int i, int64_t from)
{
    return (const float *)s->c->in[i]->data + from;
}

/* y [m, n] = a b, of which either may be given transposed. */
static int multiply(const struct back *s, struct td_cuda_product p, const float *a, const float *b, float *y)
{
    p.batches = 1;
    return td_cuda_matmul(TD_CUDA_FLOAT, &p, a, b, y, td_cuda_stream_of(s->c));
}

static int step_back(const struct back *s, int64_t t)
{
    const int64_t n = s->z.cell, size = s->z.batch * n, at = t * size;
    float *const gates = s->gates + GATES * at;
    struct td_cuda_lstm_back by = {.batch = s->z.batch,
                                   .cell = n,
                                   .i = input(s, I, at),
                                   .f = input(s, F, at),
                                   .o = input(s, O, at),
                                   .ci = input(s, CI, at),
                                   .co = input(s, CO, at),
                                   .cs_before = t > 0 ? input(s, CS, at - size) : input(s, CS_PREV, 0),
                                   .cs_above = input(s, CS_GRAD, at),
                                   .h_above = input(s, H_GRAD, at),
                                   .wci = s->peephole ? input(s, WCI, 0) : NULL,
                                   .wcf = input(s, WCF, 0),
                                   .wco = input(s, WCO, 0),
                                   .gates = gates,
                                   .dcs = s->to[DCS_PREV],
                                   .dh = s->to[DH_PREV]};
    memcpy(by.place, s->place, sizeof by.place);
    const int error = td_cuda_lstm_step_back(&by, td_cuda_stream_of(s->c));
    const struct td_cuda_product p = {
        .m = s->z.batch, .n = n, .k = GATES * n, .a_row = GATES * n, .a_k = 1, .b_k = 1, .b_col = GATES * n};
    return error != 0 ? error : multiply(s, p, gates, input(s, W, s->z.in * GATES * n), s->to[DH_PREV]);
}

/* The state before each step: h_prev, then h of the step before. */
static int gather_states(const struct back *s)
{
    const int64_t size = s->z.batch * s->z.cell;
    struct td_cuda_steps one = {0}, rest = {0};
    (void)td_cuda_steps_add(&one, size, 1, 1);
    (void)td_cuda_steps_add(&rest, (s->steps - 1) * size, 1, 1);
    const int error =
        td_cuda_move(sizeof(float), &one, input(s, H_PREV, 0), s->states, size, td_cuda_stream_of(s->c));
    return error != 0 || s->steps == 1 ? error
                                       : td_cuda_move(sizeof(float), &rest, input(s, H, 0), s->states + size,
                                                      (s->steps - 1) * size, td_cuda_stream_of(s->c));
}

/* dw [width, 4 cell] = left [rows, width]' gates */
static int to_weights(const struct back *s, const float *left, int64_t width, float *dw)
{
    const int64_t columns = GATES * s->z.cell;
    const struct td_cuda_product p = {.m = width,
                                      .n = columns,
                                      .k = s->steps * s->z.batch,
                                      .a_row = 1,
                                      .a_k = width,
                                      .b_k = columns,
                                      .b_col = 1};
    return multiply(s, p, left, s->gates, dw);
}

static int sum_gates(const struct back *s)
{
    const int64_t columns = GATES * s->z.cell, rows = s->steps * s->z.batch;
    struct td_cuda_axes axes = {.n_kept = columns, .n_folded = rows};
    (void)td_cuda_steps_add(&axes.kept, columns, 1, 0);
    (void)td_cuda_steps_add(&axes.folded, rows, columns, 0);
    return td_cuda_reduce(TD_CUDA_SUM, TD_CUDA_FLOAT, &axes, s->gates, s->to[DB], td_cuda_stream_of(s->c));
}

static int to_peepholes(const struct back *s)
{
    struct td_cuda_peepholes p = {.rows = s->steps * s->z.batch,
                                  .batch = s->z.batch,
                                  .cell = s->z.cell,
                                  .gates = s->gates,
                                  .cs_prev = input(s, CS_PREV, 0),
                                  .cs = input(s, CS, 0),
                                  .dwci = s->to[DWCI],
                                  .dwcf = s->to[DWCF],
                                  .dwco = s->to[DWCO]};
    memcpy(p.place, s->place, sizeof p.place);
    return td_cuda_lstm_peepholes(&p, td_cuda_stream_of(s->c));
}

static int multiply_out(const struct back *s)
{
    const int64_t columns = GATES * s->z.cell;
    const struct td_cuda_product to_x = {.m = s->steps * s->z.batch,
                                         .n = s->z.in,
                                         .k = columns,
                                         .a_row = columns,
                                         .a_k = 1,
                                         .b_k = 1,
                                         .b_col = columns};
    int error = multiply(s, to_x, s->gates, input(s, W, 0), s->to[DX]);
    error = error != 0 ? error : to_weights(s, input(s, X, 0), s->z.in, s->to[DW]);
    error = error != 0 ? error : gather_states(s);
    error = error != 0 ? error : to_weights(s, s->states, s->z.cell, s->to[DW] + s->z.in * columns);
    error = error != 0 ? error : sum_gates(s);
    return error != 0 || !s->peephole ? error : to_peepholes(s);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const bool v2 = strcmp(c->node->op_name, "BlockLSTMGradV2") == 0;
    const struct sizes z = sizes_of(&c->in[X]->shape, &c->in[CS_PREV]->shape);
    struct back s = {.c = c,
                     .z = z,
                     .steps = td_tensor_int(c->in[0], 0),
                     .place = {0, v2 ? 2 : 1, v2 ? 1 : 2, 3},
                     .peephole = td_attr_bool(c->node, "use_peephole"),
                     .gates = c->workspace,
                     .states = (float *)c->workspace + z.all * z.batch * GATES * z.cell};
    for (int o = 0; o < OUTPUTS; o++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, o, NULL, &y, err));
        TD_TRY(td_tensor_count(y) > 0 ? td_cuda_zero(c, y, err) : TD_OK);
        s.to[o] = y->data;
    }
    int error = 0;
    for (int64_t t = s.steps - 1; t >= 0 && error == 0; t--) {
        error = step_back(&s, t);
    }
    return td_cuda_launched(c, error != 0 || s.steps == 0 ? error : multiply_out(&s), err);
}

TD_CUDA_ROWS(rows, "rnn.cuda", .types = {{"T", TD_BIT(TD_FLOAT)}}, .prepare = prepare, .run = run);

const struct td_op_rows td_cuda_rows_rnn_grad[] = {
    {"BlockLSTMGrad", rows}, {"BlockLSTMGradV2", rows}, {NULL, NULL}};
