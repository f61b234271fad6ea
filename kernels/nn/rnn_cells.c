/* kernels/nn/rnn_cells.c - fused recurrent cells: LSTMBlockCell, BlockLSTM, BlockLSTMV2, GRUBlockCell.
 *
 *     x [B,I]  cs_prev, h_prev [B,N]  w [I+N,4N]  b [4N]          gates = [x, h_prev] * w + b
 *     i = sigmoid(gates_i + wci * cs_prev)      f = sigmoid(gates_f + forget_bias + wcf * cs_prev)
 *     ci = tanh(gates_c)    cs = clip(ci * i + cs_prev * f)    o = sigmoid(gates_o + wco * cs)
 *     h = o * tanh(cs)
 *
 * Gates lie in the order i c f o (i f c o for BlockLSTMV2). The block ops repeat the step over x [T,B,I];
 * their outputs from seq_len_max on are zero. wci, wcf, wco count with use_peephole only.
 *
 *     GRU:  [r, u] = sigmoid([x, h_prev] * w_ru + b_ru)   c = tanh([x, r * h_prev] * w_c + b_c)
 *           h = u * h_prev + (1 - u) * c
 *
 * half runs in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/nn/rnn_cells_grad.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

/* ------------------------------------------------------------------ shapes */

static enum td_code want(const struct td_infer *c, int i, const char *what, struct td_shape shape,
                         struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&c->in[i], &shape), err, INVALID_ARGUMENT, "%s: %s has shape %s, want %s",
               TD_NODE_STR(c->node), what, TD_SHAPE_STR(&c->in[i]), TD_SHAPE_STR(&shape));
    return TD_OK;
}

/* Inputs from `first` on: x, cs_prev, h_prev, w, wci, wcf, wco, b. */
static enum td_code lstm_infer(struct td_infer *c, struct td_err *err)
{
    bool block = strncmp(c->node->op_name, "BlockLSTM", 9) == 0;
    int first = block ? 1 : 0, rank = block ? 3 : 2;
    const struct td_shape *x = &c->in[first], *cs = &c->in[first + 1];
    TD_TRY(td_infer_rank(c, first, rank, err));
    TD_TRY(td_infer_rank(c, first + 1, 2, err));
    int64_t batch = x->rank == rank ? x->dim[rank - 2] : -1, in = x->rank == rank ? x->dim[rank - 1] : -1;
    int64_t cell = cs->rank == 2 ? cs->dim[1] : -1;
    TD_FAIL_IF(cell > INT32_MAX || in > INT32_MAX, err, INVALID_ARGUMENT, "%s: cell of shape %s is too large",
               TD_NODE_STR(c->node), TD_SHAPE_STR(cs));
    TD_TRY(want(c, first + 1, "cs_prev", td_shape_matrix(batch, cell), err));
    TD_TRY(want(c, first + 2, "h_prev", td_shape_matrix(batch, cell), err));
    TD_TRY(want(c, first + 3, "w",
                td_shape_matrix(in < 0 || cell < 0 ? -1 : in + cell, cell < 0 ? -1 : 4 * cell), err));
    const char *const names[] = {"wci", "wcf", "wco"};
    for (int i = 0; i < 3 && td_attr_bool(c->node, "use_peephole"); i++) {
        TD_TRY(want(c, first + 4 + i, names[i], td_shape_vector(cell), err));
    }
    TD_TRY(want(c, first + 7, "b", td_shape_vector(cell < 0 ? -1 : 4 * cell), err));
    struct td_shape out = td_shape_of_rank(rank);
    if (block) {
        bool known;
        int64_t steps, all = x->rank == 3 ? x->dim[0] : -1;
        TD_TRY(td_infer_int_value(c, 0, &known, &steps, err));
        TD_FAIL_IF(known && (steps < 0 || (all >= 0 && steps > all)), err, INVALID_ARGUMENT,
                   "%s: seq_len_max is %lld, want 0 to the %lld steps of x", TD_NODE_STR(c->node),
                   (long long)steps, (long long)all);
        out.dim[0] = all;
    }
    out.dim[rank - 2] = batch;
    out.dim[rank - 1] = cell;
    for (int i = 0; i < 7; i++) {
        c->out[i] = out;
    }
    return TD_OK;
}

static enum td_code gru_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    const struct td_shape *x = &c->in[0], *h = &c->in[1];
    int64_t batch = x->rank == 2 ? x->dim[0] : -1, in = x->rank == 2 ? x->dim[1] : -1,
            cell = h->rank == 2 ? h->dim[1] : -1;
    TD_FAIL_IF(cell > INT32_MAX || in > INT32_MAX, err, INVALID_ARGUMENT, "%s: cell of shape %s is too large",
               TD_NODE_STR(c->node), TD_SHAPE_STR(h));
    int64_t rows = in < 0 || cell < 0 ? -1 : in + cell;
    TD_TRY(want(c, 1, "h_prev", td_shape_matrix(batch, cell), err));
    TD_TRY(want(c, 2, "w_ru", td_shape_matrix(rows, cell < 0 ? -1 : 2 * cell), err));
    TD_TRY(want(c, 3, "w_c", td_shape_matrix(rows, cell), err));
    TD_TRY(want(c, 4, "b_ru", td_shape_vector(cell < 0 ? -1 : 2 * cell), err));
    TD_TRY(want(c, 5, "b_c", td_shape_vector(cell), err));
    for (int i = 0; i < 4; i++) {
        c->out[i] = td_shape_matrix(batch, cell);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ one step */

/* Weights of a layer that reads an input and a state: w [in+cell,n]  b [n]. */
struct layer {
    const float *w, *b;
    int64_t in, cell, n;
};

/* x [B,in]  h [B,cell]  ->  out [B,n] = [x, h] * w + b */
static void affine(const struct layer *l, const float *x, const float *h, int64_t batch, float *out)
{
    const int64_t n = l->n;
    for (int64_t i = 0; i < batch && n > 0; i++) {
        memcpy(out + i * n, l->b, (size_t)n * sizeof *out);
    }
    struct td_gemm g = {.m = batch,
                        .n = n,
                        .k = l->in,
                        .a = x,
                        .b = l->w,
                        .c = out,
                        .lda = l->in,
                        .ldb = n,
                        .ldc = n,
                        .add = true};
    td_gemm_f32(&g);
    g.k = g.lda = l->cell;
    g.a = h;
    g.b = l->w + l->in * n;
    td_gemm_f32(&g);
}

struct lstm {
    int64_t batch, in, cell, steps, all;
    const float *x, *cs_prev, *h_prev, *w, *wci, *wcf, *wco, *b;
    float *out[7], *gates; /* i cs f o ci co h */
    float forget_bias, clip;
    int order[4]; /* place of i, c, f, o among the gates */
};

TD_CLONES static void lstm_row(const struct lstm *s, const float *gates, const float *cs_prev, int64_t at)
{
    int64_t n = s->cell;
    const float *gi = gates + s->order[0] * n, *gc = gates + s->order[1] * n, *gf = gates + s->order[2] * n;
    const float *go = gates + s->order[3] * n;
    float *i = s->out[0] + at, *cs = s->out[1] + at, *f = s->out[2] + at, *o = s->out[3] + at,
          *ci = s->out[4] + at;
    float *co = s->out[5] + at, *h = s->out[6] + at;
    for (int64_t k = 0; k < n; k++) {
        float peep_i = s->wci != NULL ? s->wci[k] * cs_prev[k] : 0,
              peep_f = s->wcf != NULL ? s->wcf[k] * cs_prev[k] : 0;
        i[k] = td_fast_sigmoid_f32(gi[k] + peep_i);
        f[k] = td_fast_sigmoid_f32(gf[k] + s->forget_bias + peep_f);
        ci[k] = td_fast_tanh_f32(gc[k]);
        float v = ci[k] * i[k] + cs_prev[k] * f[k];
        cs[k] = s->clip > 0 ? fminf(fmaxf(v, -s->clip), s->clip) : v;
        o[k] = td_fast_sigmoid_f32(go[k] + (s->wco != NULL ? s->wco[k] * cs[k] : 0));
        co[k] = td_fast_tanh_f32(cs[k]);
        h[k] = o[k] * co[k];
    }
}

static enum td_code lstm_steps(struct td_call *c, const struct lstm *s, struct td_err *err)
{
    const struct layer gates = {.w = s->w, .b = s->b, .in = s->in, .cell = s->cell, .n = 4 * s->cell};
    const float *cs = s->cs_prev, *h = s->h_prev;
    int64_t size = s->batch * s->cell;
    for (int64_t t = 0; t < s->steps; t++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        affine(&gates, s->x + t * s->batch * s->in, h, s->batch, s->gates);
        for (int64_t b = 0; b < s->batch; b++) {
            lstm_row(s, s->gates + b * 4 * s->cell, cs + b * s->cell, t * size + b * s->cell);
        }
        cs = s->out[1] + t * size;
        h = s->out[6] + t * size;
    }
    for (int i = 0; i < 7 && s->all > s->steps && size > 0; i++) {
        memset(s->out[i] + s->steps * size, 0, (size_t)((s->all - s->steps) * size) * sizeof(float));
    }
    return TD_OK;
}

static enum td_code lstm_run(struct td_call *c, struct td_err *err)
{
    bool block = strncmp(c->node->op_name, "BlockLSTM", 9) == 0,
         v2 = strcmp(c->node->op_name, "BlockLSTMV2") == 0;
    int first = block ? 1 : 0;
    const struct td_shape *x = &c->in[first]->shape, *h = &c->in[first + 1]->shape;
    struct lstm s = {.batch = h->dim[0], .in = x->dim[x->rank - 1], .cell = h->dim[1], .order = {0, 1, 2, 3}};
    s.all = block ? x->dim[0] : 1;
    s.steps = block ? td_tensor_int(c->in[0], 0) : 1;
    if (v2) {
        s.order[1] = 2;
        s.order[2] = 1;
    }
    s.forget_bias = v2 ? 0 : (float)td_attr_float(c->node, "forget_bias");
    s.clip = (float)td_attr_float(c->node, "cell_clip");
    const float **in[8] = {&s.x, &s.cs_prev, &s.h_prev, &s.w, &s.wci, &s.wcf, &s.wco, &s.b};
    for (int i = 0; i < 8; i++) {
        bool peephole = i >= 4 && i <= 6;
        if (!peephole || td_attr_bool(c->node, "use_peephole")) {
            TD_TRY(td_upcast(c, c->in[first + i], in[i], err));
        }
    }
    struct td_tensor *out[7];
    for (int i = 0; i < 7; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
        TD_TRY(td_upcast_room(c, out[i], &s.out[i], err));
    }
    void *room;
    TD_TRY(td_scratch(c, (size_t)(s.batch * 4 * s.cell) * sizeof(float), &room, err));
    s.gates = room;
    TD_TRY(lstm_steps(c, &s, err));
    for (int i = 0; i < 7; i++) {
        td_downcast(out[i], s.out[i]);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ GRU */

static enum td_code gru_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[4];
    for (int i = 0; i < 4; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    const float *x = c->in[0]->data, *h_prev = c->in[1]->data;
    int64_t batch = c->in[0]->shape.dim[0], in = c->in[0]->shape.dim[1], n = c->in[1]->shape.dim[1];
    const struct layer to_ru = {c->in[2]->data, c->in[4]->data, in, n, 2 * n},
                       to_cand = {c->in[3]->data, c->in[5]->data, in, n, n};
    void *room;
    TD_TRY(td_scratch(c, (size_t)(batch * 3 * n) * sizeof(float), &room, err));
    float *ru = room, *reset = ru + batch * 2 * n;
    float *r = out[0]->data, *u = out[1]->data, *cand = out[2]->data, *h = out[3]->data;
    affine(&to_ru, x, h_prev, batch, ru);
    td_vec_sigmoid_f32(ru, ru, batch * 2 * n);
    for (int64_t i = 0; i < batch * n; i++) {
        int64_t row = i / n, k = i % n;
        r[i] = ru[row * 2 * n + k];
        u[i] = ru[row * 2 * n + n + k];
        reset[i] = r[i] * h_prev[i];
    }
    affine(&to_cand, x, reset, batch, cand);
    td_vec_tanh_f32(cand, cand, batch * n);
    for (int64_t i = 0; i < batch * n; i++) {
        h[i] = u[i] * h_prev[i] + (1 - u[i]) * cand[i];
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_CELL (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF))
#define CELL_IN                                                                                              \
    "x:T, cs_prev:T, h_prev:T, w:T, wci:T, wcf:T, wco:T, b:T) -> (i:T, cs:T, f:T, o:T, ci:T, co:T, h:T) "
#define CELL_ATTRS "{forget_bias:float=1.0; cell_clip:float=3.0; use_peephole:bool=false; T:type}"

const struct td_op td_ops_rnn_cells[] = {
    {.name = "LSTMBlockCell",
     .sig = "(" CELL_IN CELL_ATTRS,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = lstm_infer,
     .kernels = TD_KERNEL("lstm_block_cell.cpu", lstm_run, {"T", SET_CELL})},
    {.name = "BlockLSTM",
     .sig = "(seq_len_max:int64, " CELL_IN CELL_ATTRS,
     .host_in = 1,
     .infer = lstm_infer,
     .kernels = TD_KERNEL("block_lstm.cpu", lstm_run, {"T", SET_CELL}),
     .grad = td_block_lstm_grad},
    {.name = "BlockLSTMV2",
     .sig = "(seq_len_max:int64, " CELL_IN "{cell_clip:float=0.0; use_peephole:bool=false; T:type}",
     .host_in = 1,
     .infer = lstm_infer,
     .kernels = TD_KERNEL("block_lstm.cpu", lstm_run, {"T", SET_CELL}),
     .grad = td_block_lstm_grad},
    {.name = "GRUBlockCell",
     .sig = "(x:T, h_prev:T, w_ru:T, w_c:T, b_ru:T, b_c:T) -> (r:T, u:T, c:T, h:T) {T:type}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = gru_infer,
     .kernels = TD_KERNEL("gru_block_cell.cpu", gru_run, {"T", TD_BIT(TD_FLOAT)})},
    {.name = NULL},
};
