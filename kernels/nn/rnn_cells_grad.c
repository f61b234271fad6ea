/* kernels/nn/rnn_cells_grad.c - gradients of block LSTMs, as ops of their own.
 *
 *     x [T,B,I]  cs_prev, h_prev [B,N]  w [I+N,4N]  i cs f o ci co h [T,B,N]   cs_grad, h_grad [T,B,N]
 *                                                   ->  gradients of x, cs_prev, h_prev, w, wci, wcf, wco, b
 *
 * Last step first, with dh and dcs what arrives at a step from above and from the step behind it:
 *
 *     do = dh * co * o (1 - o)                 dcs += dh * o * (1 - co^2)  [+ wco * do]
 *     di = dcs * ci * i (1 - i)    dc = dcs * i * (1 - ci^2)    df = dcs * cs_before * f (1 - f)
 *     before: dcs = dcs * f  [+ wci * di + wcf * df],  dh = gates * w_h'
 *
 * All steps' gate gradients are kept: those of x and of the weights are one product each over all steps.
 * Clipping of the state counts for nothing, as in TensorFlow; peepholes (in brackets) with use_peephole only.
 * half runs in float.
 *
 * BlockLSTMV2's gates lie i f c o, as those of BlockLSTMGradV2. TensorFlow's registry has BlockLSTMGrad for
 * it, whose order is i c f o: what it answers is no gradient. Ours is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/dense/gemm_cpu.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/formula/formula.h"
#include "kernels/nn/rnn_cells_grad.h"
#include "kernels/ops.h"

enum { X = 1, CS_PREV, H_PREV, W, WCI, WCF, WCO, B, I, CS, F, O, CI, CO, H, CS_GRAD, H_GRAD, INPUTS };
enum { DX, DCS_PREV, DH_PREV, DW, DWCI, DWCF, DWCO, DB, OUTPUTS };

/* ------------------------------------------------------------------ shapes */

static enum td_code want(const struct td_infer *c, int i, struct td_shape shape, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&c->in[i], &shape), err, INVALID_ARGUMENT,
               "%s: its input %d has shape %s, want %s", TD_NODE_STR(c->node), i, TD_SHAPE_STR(&c->in[i]),
               TD_SHAPE_STR(&shape));
    return TD_OK;
}

static enum td_code grad_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[X], *cs = &c->in[CS_PREV];
    TD_TRY(td_infer_rank(c, X, 3, err));
    TD_TRY(td_infer_rank(c, CS_PREV, 2, err));
    const int64_t all = x->rank == 3 ? x->dim[0] : -1, batch = x->rank == 3 ? x->dim[1] : -1;
    const int64_t in = x->rank == 3 ? x->dim[2] : -1, cell = cs->rank == 2 ? cs->dim[1] : -1;
    TD_FAIL_IF(cell > INT32_MAX || in > INT32_MAX, err, INVALID_ARGUMENT, "%s: cell of shape %s is too large",
               TD_NODE_STR(c->node), TD_SHAPE_STR(cs));
    const struct td_shape state = td_shape_matrix(batch, cell), steps = {3, {all, batch, cell}};
    TD_TRY(want(c, CS_PREV, state, err));
    TD_TRY(want(c, H_PREV, state, err));
    TD_TRY(want(c, W, td_shape_matrix(in < 0 || cell < 0 ? -1 : in + cell, cell < 0 ? -1 : 4 * cell), err));
    for (int i = WCI; i <= WCO && td_attr_bool(c->node, "use_peephole"); i++) {
        TD_TRY(want(c, i, td_shape_vector(cell), err));
    }
    TD_TRY(want(c, B, td_shape_vector(cell < 0 ? -1 : 4 * cell), err));
    for (int i = I; i < INPUTS; i++) {
        TD_TRY(want(c, i, steps, err));
    }
    bool known;
    int64_t most;
    TD_TRY(td_infer_int_value(c, 0, &known, &most, err));
    TD_FAIL_IF(known && (most < 0 || (all >= 0 && most > all)), err, INVALID_ARGUMENT,
               "%s: seq_len_max is %lld, want 0 to the %lld steps of x", TD_NODE_STR(c->node),
               (long long)most, (long long)all);
    for (int o = 0; o < OUTPUTS; o++) {
        c->out[o] = c->in[X + o];
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the kernel */

struct back {
    int64_t batch, in, cell, steps;
    int order[4]; /* place of i, c, f, o among the gates */
    bool peephole;
    const float *of[INPUTS];
    float *to[OUTPUTS];
    float *gates; /* [steps,B,4N] */
};

/* One row of one step: dcs and dh [N], what arrives from the step behind, become what goes to the one before
 * (dh: nothing yet). */
TD_CLONES static void step_row(const struct back *s, int64_t at, const float *cs_before, float *gates,
                               float *dcs, const float *dh)
{
    const int64_t n = s->cell;
    const float *i = s->of[I] + at, *f = s->of[F] + at, *o = s->of[O] + at, *ci = s->of[CI] + at;
    const float *co = s->of[CO] + at, *above = s->of[CS_GRAD] + at, *h_above = s->of[H_GRAD] + at;
    const float *wci = s->of[WCI], *wcf = s->of[WCF], *wco = s->of[WCO];
    float *gi = gates + s->order[0] * n, *gc = gates + s->order[1] * n, *gf = gates + s->order[2] * n;
    float *go = gates + s->order[3] * n;
    const bool peephole = s->peephole;
    TD_INDEPENDENT
    for (int64_t k = 0; k < n; k++) {
        const float d = dh[k] + h_above[k];
        const float d_o = d * co[k] * o[k] * (1 - o[k]);
        float v = dcs[k] + above[k] + d * o[k] * (1 - co[k] * co[k]);
        v += peephole ? wco[k] * d_o : 0;
        const float d_i = v * ci[k] * i[k] * (1 - i[k]), d_f = v * cs_before[k] * f[k] * (1 - f[k]);
        gi[k] = d_i;
        gc[k] = v * i[k] * (1 - ci[k] * ci[k]);
        gf[k] = d_f;
        go[k] = d_o;
        dcs[k] = v * f[k] + (peephole ? wci[k] * d_i + wcf[k] * d_f : 0);
    }
}

/* Gradients of the peepholes by one row. */
static void peephole_row(const struct back *s, int64_t at, const float *cs_before, const float *gates)
{
    const int64_t n = s->cell;
    for (int64_t k = 0; k < n; k++) {
        s->to[DWCI][k] += gates[s->order[0] * n + k] * cs_before[k];
        s->to[DWCF][k] += gates[s->order[2] * n + k] * cs_before[k];
        s->to[DWCO][k] += gates[s->order[3] * n + k] * s->of[CS][at + k];
    }
}

/* All steps' gates; the states' gradients are left in to[DCS_PREV] and to[DH_PREV]. */
static enum td_code walk_back(struct td_call *c, const struct back *s, struct td_err *err)
{
    const int64_t n = s->cell, rows = s->batch;
    const float *w_h = s->of[W] + s->in * 4 * n;
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        float *gates = s->gates + t * rows * 4 * n;
        const float *before = t > 0 ? s->of[CS] + (t - 1) * rows * n : s->of[CS_PREV];
        for (int64_t b = 0; b < rows; b++) {
            const int64_t at = (t * rows + b) * n;
            step_row(s, at, before + b * n, gates + b * 4 * n, s->to[DCS_PREV] + b * n,
                     s->to[DH_PREV] + b * n);
            if (s->peephole) {
                peephole_row(s, at, before + b * n, gates + b * 4 * n);
            }
        }
        const struct td_gemm g = {.tb = TD_TRANSPOSED,
                                  .m = rows,
                                  .n = n,
                                  .k = 4 * n,
                                  .a = gates,
                                  .b = w_h,
                                  .c = s->to[DH_PREV],
                                  .lda = 4 * n,
                                  .ldb = 4 * n,
                                  .ldc = n};
        td_gemm_f32(&g);
    }
    return TD_OK;
}

/* Large ones on idle threads, too. */
static enum td_code multiply(struct td_call *c, const struct td_gemm *g, struct td_err *err)
{
    return td_gemm_spread(c, g, td_gemm_is_few(g) ? TD_GEMM_SMALL : TD_GEMM_BLAS, err);
}

/* dw [rows,4N] += left' [rows,m] * gates [m,4N] */
static struct td_gemm to_weights(const struct back *s, const float *left, int64_t rows, const float *gates,
                                 int64_t m, float *dw)
{
    const int64_t n = 4 * s->cell;
    return (struct td_gemm){.ta = TD_TRANSPOSED,
                            .m = rows,
                            .n = n,
                            .k = m,
                            .a = left,
                            .b = gates,
                            .c = dw,
                            .lda = rows,
                            .ldb = n,
                            .ldc = n,
                            .add = true};
}

/* Those of x, w and b, from all steps' gates. The state before step t > 0 is h of step t - 1. */
static enum td_code multiply_out(struct td_call *c, const struct back *s, struct td_err *err)
{
    const int64_t n = s->cell, m = s->steps * s->batch;
    float *dw_h = s->to[DW] + s->in * 4 * n;
    const struct td_gemm product[] = {
        {.tb = TD_TRANSPOSED,
         .m = m,
         .n = s->in,
         .k = 4 * n,
         .a = s->gates,
         .b = s->of[W],
         .c = s->to[DX],
         .lda = 4 * n,
         .ldb = 4 * n,
         .ldc = s->in},
        to_weights(s, s->of[X], s->in, s->gates, m, s->to[DW]),
        to_weights(s, s->of[H_PREV], n, s->gates, s->batch, dw_h),
        to_weights(s, s->of[H], n, s->gates + s->batch * 4 * n, m - s->batch, dw_h)};
    for (int i = 0; i < (s->steps > 1 ? 4 : 3); i++) {
        if (product[i].m > 0 && product[i].n > 0) {
            TD_TRY(multiply(c, &product[i], err));
        }
    }
    for (int64_t r = 0; r < m; r++) {
        for (int64_t k = 0; k < 4 * n; k++) {
            s->to[DB][k] += s->gates[r * 4 * n + k];
        }
    }
    return TD_OK;
}

/* Inputs and outputs as floats, outputs zeroed, and room for the gates: what is no float, in one scratch. */
static enum td_code open_all(struct td_call *c, struct back *s, struct td_tensor *out[OUTPUTS],
                             struct td_err *err)
{
    const bool wide = c->in[X]->dtype == TD_FLOAT;
    int64_t count = s->steps * s->batch * 4 * s->cell;
    for (int i = X; i < INPUTS && !wide; i++) {
        count += td_tensor_count(c->in[i]);
    }
    for (int o = 0; o < OUTPUTS; o++) {
        TD_TRY(td_out(c, o, NULL, &out[o], err));
        count += wide ? 0 : td_tensor_count(out[o]);
    }
    void *room;
    TD_TRY(td_scratch(c, (size_t)count * sizeof(float), &room, err));
    float *at = s->gates = room;
    at += s->steps * s->batch * 4 * s->cell;
    for (int i = X; i < INPUTS; i++) {
        const struct td_tensor *t = c->in[i];
        s->of[i] = wide ? t->data : at;
        if (!wide) {
            td_upcast_elems(at, t->data, t->dtype, td_tensor_count(t));
            at += td_tensor_count(t);
        }
    }
    for (int o = 0; o < OUTPUTS; o++) {
        const int64_t n = td_tensor_count(out[o]);
        s->to[o] = wide ? out[o]->data : at;
        at += wide ? 0 : n;
        if (n > 0) {
            memset(s->to[o], 0, (size_t)n * sizeof(float));
        }
    }
    return TD_OK;
}

static enum td_code grad_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[X]->shape;
    const bool v2 = strcmp(c->node->op_name, "BlockLSTMGradV2") == 0;
    struct back s = {.batch = x->dim[1],
                     .in = x->dim[2],
                     .cell = c->in[CS_PREV]->shape.dim[1],
                     .steps = td_tensor_int(c->in[0], 0),
                     .order = {0, v2 ? 2 : 1, v2 ? 1 : 2, 3},
                     .peephole = td_attr_bool(c->node, "use_peephole")};
    struct td_tensor *out[OUTPUTS];
    TD_TRY(open_all(c, &s, out, err));
    if (s.steps > 0 && s.batch > 0 && s.cell > 0) {
        TD_TRY(walk_back(c, &s, err));
        TD_TRY(multiply_out(c, &s, err));
    }
    for (int o = 0; o < OUTPUTS && c->in[X]->dtype != TD_FLOAT; o++) {
        td_downcast_elems(out[o]->data, s.to[o], out[o]->dtype, td_tensor_count(out[o]));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients of BlockLSTM */

/* What arrives at the gates themselves counts for nothing, as in TensorFlow: only cs and h lead on. */
void td_block_lstm_grad(struct td_grad *g)
{
    struct td_value in[INPUTS];
    for (int i = 0; i <= B; i++) {
        in[i] = td_grad_in(g, i);
    }
    for (int o = 0; o < 7; o++) {
        in[I + o] = td_grad_out(g, o);
    }
    in[CS_GRAD] = td_grad_at(g, 1);
    in[H_GRAD] = td_grad_at(g, 6);
    const bool v2 = strcmp(g->node->op->name, "BlockLSTMV2") == 0;
    const struct td_value dx =
        td_f_as(g->e, v2 ? "BlockLSTMGradV2" : "BlockLSTMGrad", in, INPUTS, g->node, "use_peephole");
    for (int o = 0; o < OUTPUTS; o++) {
        td_grad_give(g, X + o, td_f_port(dx, o));
    }
}

/* ------------------------------------------------------------------ table */

#define ROW(opname)                                                                                          \
    {                                                                                                        \
        .name = opname,                                                                                      \
        .sig = "(seq_len_max:int64, x:T, cs_prev:T, h_prev:T, w:T, wci:T, wcf:T, wco:T, b:T, i:T, cs:T, "    \
               "f:T, o:T, ci:T, co:T, h:T, cs_grad:T, h_grad:T) -> (x_grad:T, cs_prev_grad:T, "              \
               "h_prev_grad:T, w_grad:T, wci_grad:T, wcf_grad:T, wco_grad:T, b_grad:T) "                     \
               "{use_peephole:bool; T:type}",                                                                \
        .flags = TD_OP_HEAVY, .host_in = 1, .infer = grad_infer,                                             \
        .kernels = TD_KERNEL("block_lstm_grad.cpu", grad_run, {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF)})     \
    }

const struct td_op td_ops_rnn_cells_grad[] = {
    ROW("BlockLSTMGrad"),
    ROW("BlockLSTMGradV2"),
    {.name = NULL},
};
