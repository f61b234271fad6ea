/* kernels/cuda/nn/rnn.c - rows of LSTMBlockCell, BlockLSTM, BlockLSTMV2 and GRUBlockCell, of floats.
 *
 *   [x, h_prev] w  is  x w_x + h_prev w_h, w_x being the first rows of w
 *
 * so that one product has the x of all steps; a step is a product with h and one kernel over the state.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/rnn.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/math/matmul.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/rows.h"

enum { GATES = 4 };

/* y [m, n] = a [m, k] * b [k, n], dense. */
static int multiply(const struct td_call *c, const void *a, const void *b, void *y, int64_t m, int64_t k,
                    int64_t n)
{
    const struct td_cuda_product p = {
        .m = m, .n = n, .k = k, .batches = 1, .a_row = k, .a_k = 1, .b_k = n, .b_col = 1};
    return m * n == 0 ? 0 : td_cuda_matmul(TD_CUDA_FLOAT, &p, a, b, y, td_cuda_stream_of(c));
}

static const float *after(const void *p, int64_t n)
{
    return (const float *)p + n;
}

/* ------------------------------------------------------------------ LSTM */

static bool is_block(const struct td_node *n)
{
    return strncmp(n->op_name, "BlockLSTM", 9) == 0;
}

struct sizes {
    int64_t batch, in, cell, all; /* steps of x */
};

static struct sizes sizes_of(const struct td_shape *x, const struct td_shape *h)
{
    return (struct sizes){.batch = h->dim[0],
                          .in = x->dim[x->rank - 1],
                          .cell = h->dim[1],
                          .all = x->rank == 3 ? x->dim[0] : 1};
}

static enum td_code prepare_lstm(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    const int first = is_block(q->node) ? 1 : 0;
    const struct sizes z = sizes_of(&q->in[first], &q->in[first + 1]);
    (void)err;
    o->workspace_bytes = (size_t)((z.all + 1) * z.batch * GATES * z.cell) * sizeof(float);
    return TD_OK;
}

static struct td_cuda_lstm lstm_of(const struct td_call *c, const struct sizes *z)
{
    const bool v2 = strcmp(c->node->op_name, "BlockLSTMV2") == 0;
    const bool peephole = td_attr_bool(c->node, "use_peephole");
    const struct td_tensor *const *in = c->in + (is_block(c->node) ? 1 : 0);
    struct td_cuda_lstm s = {.batch = z->batch,
                             .cell = z->cell,
                             .b = in[7]->data,
                             .forget_bias = v2 ? 0 : (float)td_attr_float(c->node, "forget_bias"),
                             .clip = (float)td_attr_float(c->node, "cell_clip"),
                             .place = {0, v2 ? 2 : 1, v2 ? 1 : 2, 3}};
    if (peephole) {
        s.wci = in[4]->data;
        s.wcf = in[5]->data;
        s.wco = in[6]->data;
    }
    return s;
}

/* Steps after the last one are zeros. */
static int clear_rest(const struct td_call *c, struct td_tensor *const *out, int64_t from, int64_t n)
{
    static const unsigned char zero[16];
    int error = 0;
    for (int i = 0; i < 7 && error == 0 && n > 0; i++) {
        error = td_cuda_fill(sizeof(float), zero, (float *)out[i]->data + from, n, td_cuda_stream_of(c));
    }
    return error;
}

static enum td_code run_lstm(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[7];
    const struct td_tensor *const *in = c->in + (is_block(c->node) ? 1 : 0);
    const struct sizes z = sizes_of(&in[0]->shape, &in[1]->shape);
    const int64_t steps = is_block(c->node) ? td_tensor_int(c->in[0], 0) : 1, size = z.batch * z.cell;
    for (int i = 0; i < 7; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    struct td_cuda_lstm s = lstm_of(c, &z);
    float *const by_x = c->workspace, *const by_h = by_x + z.all * GATES * size;
    const float *cs = in[1]->data, *h = in[2]->data, *w = in[3]->data;
    int error = multiply(c, in[0]->data, w, by_x, steps * z.batch, z.in, GATES * z.cell);
    for (int64_t t = 0; t < steps && error == 0; t++) {
        s.by_x = by_x + t * GATES * size;
        s.by_h = by_h;
        s.cs_prev = cs;
        for (int i = 0; i < 7; i++) {
            s.out[i] = (float *)out[i]->data + t * size;
        }
        error = multiply(c, h, after(w, z.in * GATES * z.cell), by_h, z.batch, z.cell, GATES * z.cell);
        error = error != 0 ? error : td_cuda_lstm_step(&s, td_cuda_stream_of(c));
        cs = s.out[1];
        h = s.out[6];
    }
    error = error != 0 ? error : clear_rest(c, out, steps * size, (z.all - steps) * size);
    return td_cuda_launched(c, error, err);
}

/* ------------------------------------------------------------------ GRU */

static enum td_code prepare_gru(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    (void)err;
    o->workspace_bytes = (size_t)(5 * td_shape_count(&q->in[1])) * sizeof(float);
    return TD_OK;
}

static enum td_code run_gru(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[4];
    const struct td_tensor *x = c->in[0], *h = c->in[1];
    const int64_t batch = x->shape.dim[0], in = x->shape.dim[1], cell = h->shape.dim[1], size = batch * cell;
    const void *w_ru = c->in[2]->data, *w_c = c->in[3]->data;
    for (int i = 0; i < 4; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    float *const by_x = c->workspace, *const by_h = by_x + 2 * size, *const reset = by_h + 2 * size;
    struct td_cuda_gru s = {.batch = batch,
                            .cell = cell,
                            .by_x = by_x,
                            .by_h = by_h,
                            .b = c->in[4]->data,
                            .h_prev = h->data,
                            .r = out[0]->data,
                            .u = out[1]->data,
                            .reset = reset,
                            .c = out[2]->data,
                            .h = out[3]->data};
    int error = multiply(c, x->data, w_ru, by_x, batch, in, 2 * cell);
    error =
        error != 0 ? error : multiply(c, h->data, after(w_ru, in * 2 * cell), by_h, batch, cell, 2 * cell);
    error = error != 0 ? error : td_cuda_gru_gates(&s, td_cuda_stream_of(c));
    s.b = c->in[5]->data;
    error = error != 0 ? error : multiply(c, x->data, w_c, by_x, batch, in, cell);
    error = error != 0 ? error : multiply(c, reset, after(w_c, in * cell), by_h, batch, cell, cell);
    error = error != 0 ? error : td_cuda_gru_state(&s, td_cuda_stream_of(c));
    return td_cuda_launched(c, error, err);
}

TD_CUDA_ROWS(rows_lstm, "rnn.cuda", .types = {{"T", TD_BIT(TD_FLOAT)}}, .prepare = prepare_lstm,
             .run = run_lstm);
TD_CUDA_ROWS(rows_gru, "rnn.cuda", .types = {{"T", TD_BIT(TD_FLOAT)}}, .prepare = prepare_gru,
             .run = run_gru);

const struct td_op_rows td_cuda_rows_rnn[] = {{"LSTMBlockCell", rows_lstm},
                                              {"BlockLSTM", rows_lstm},
                                              {"BlockLSTMV2", rows_lstm},
                                              {"GRUBlockCell", rows_gru},
                                              {NULL, NULL}};
