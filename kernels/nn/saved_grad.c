/* kernels/nn/saved_grad.c - gradient ops of TensorFlow's own that saved training graphs carry. They become
 * the formulas that they stand for when a graph is loaded (core/graph/expand.h).
 *
 *   LSTMBlockCellGrad    gates' gradients side by side [B,4N], in the order i c f o
 *   GRUBlockCellGrad     of x, of the state before, and of both layers of gates
 *   BatchNormWithGlobalNormalizationGrad    of t, m, v, beta, gamma
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/expand.h"
#include "kernels/formula/formula.h"
#include "kernels/nn/norm_grad.h"
#include "kernels/ops.h"

static void become(struct td_emitter *e, struct td_node *n, const struct td_value *out, int n_out)
{
    td_emit_again(e, n, td_op_find(e->ops, "IdentityN"), out, n_out, TD_NO_ATTRS);
}

/* 1 - x */
static struct td_value rest(struct td_emitter *e, struct td_value x)
{
    return td_f_sub(e, td_f_number(e, x, 1), x);
}

/* d x (1 - x): through a sigmoid whose value is x. */
static struct td_value through_gate(struct td_emitter *e, struct td_value d, struct td_value x)
{
    return td_f_mul(e, td_f_mul(e, d, x), rest(e, x));
}

/* d (1 - x^2): through a tangent. */
static struct td_value through_tanh(struct td_emitter *e, struct td_value d, struct td_value x)
{
    return td_f_mul(e, d, rest(e, td_f_square(e, x)));
}

/* ------------------------------------------------------------------ LSTM */

enum { CS_PREV = 1, WCI = 4, WCF, WCO, I = 8, CS, F, O, CI, CO, CS_GRAD, H_GRAD };

/* The sum over rows of a times b. */
static struct td_value over_rows(struct td_emitter *e, struct td_value a, struct td_value b)
{
    return td_f_sum(e, td_f_mul(e, a, b), td_f_ints(e, 0), false);
}

static void expand_lstm(struct td_emitter *e, struct td_node *n)
{
    const struct td_value *in = n->in;
    const bool peephole = td_attr_bool(n, "use_peephole");
    const struct td_value d_o = through_gate(e, td_f_mul(e, in[H_GRAD], in[CO]), in[O]);
    struct td_value dcs = td_f_mul(e, through_tanh(e, in[H_GRAD], in[CO]), in[O]);
    dcs = td_f_add(e, dcs, in[CS_GRAD]);
    dcs = peephole ? td_f_add(e, dcs, td_f_mul(e, d_o, in[WCO])) : dcs;
    const struct td_value d_i = through_gate(e, td_f_mul(e, dcs, in[CI]), in[I]);
    const struct td_value d_f = through_gate(e, td_f_mul(e, dcs, in[CS_PREV]), in[F]);
    const struct td_value d_ci = through_tanh(e, td_f_mul(e, dcs, in[I]), in[CI]);
    struct td_value before = td_f_mul(e, dcs, in[F]);
    struct td_value out[5] = {before, td_f_concat(e, TD_IN(d_i, d_ci, d_f, d_o), 1)};
    for (int k = 0; k < 3; k++) {
        out[2 + k] = td_f_zeros_like(e, in[WCI + k]);
    }
    if (peephole) {
        out[0] = td_f_add(e, td_f_add(e, before, td_f_mul(e, d_i, in[WCI])), td_f_mul(e, d_f, in[WCF]));
        out[2] = over_rows(e, d_i, in[CS_PREV]);
        out[3] = over_rows(e, d_f, in[CS_PREV]);
        out[4] = over_rows(e, d_o, in[CS]);
    }
    become(e, n, out, 5);
}

/* ------------------------------------------------------------------ GRU */

/* The gradient of [x, h] w by [x, h], taken apart again. */
static void through_layer(struct td_emitter *e, struct td_value d, struct td_value w, struct td_value x,
                          struct td_value h, struct td_value *dx, struct td_value *dh)
{
    const struct td_value both = td_f_matmul(e, d, w, false, true);
    const struct td_value widths =
        td_f_concat(e, TD_IN(td_f_part(e, td_f_shape(e, x), 1, 1), td_f_part(e, td_f_shape(e, h), 1, 1)), 0);
    *dx = td_emit(e, "SplitV", TD_IN(both, widths, td_f_int(e, 1)), TD_ATTRS(TD_ATTR_OF_INT("num_split", 2)));
    *dh = td_f_port(*dx, 1);
}

static void expand_gru(struct td_emitter *e, struct td_node *n)
{
    const struct td_value x = n->in[0], before = n->in[1], w_ru = n->in[2], w_c = n->in[3];
    const struct td_value r = n->in[6], u = n->in[7], c = n->in[8], dh = n->in[9];
    struct td_value dx[2], d_before[2];
    const struct td_value d_c = through_tanh(e, td_f_mul(e, dh, rest(e, u)), c);
    const struct td_value d_u = through_gate(e, td_f_mul(e, dh, td_f_sub(e, before, c)), u);
    through_layer(e, d_c, w_c, x, before, &dx[0], &d_before[0]);
    const struct td_value d_r = through_gate(e, td_f_mul(e, d_before[0], before), r);
    const struct td_value d_ru = td_f_concat(e, TD_IN(d_r, d_u), 1);
    through_layer(e, d_ru, w_ru, x, before, &dx[1], &d_before[1]);
    const struct td_value by_reset = td_f_mul(e, d_before[0], r), kept = td_f_mul(e, dh, u);
    const struct td_value out[] = {td_f_add(e, dx[0], dx[1]),
                                   td_f_add(e, td_f_add(e, by_reset, kept), d_before[1]), d_c, d_ru};
    become(e, n, out, 4);
}

/* ------------------------------------------------------------------ batch normalisation */

static void expand_norm(struct td_emitter *e, struct td_node *n)
{
    struct td_value out[5];
    td_global_batch_norm_formula(
        e,
        &(struct td_global_norm){.t = n->in[0],
                                 .m = n->in[1],
                                 .v = n->in[2],
                                 .gamma = n->in[3],
                                 .dy = n->in[4],
                                 .epsilon = (float)td_attr_float(n, "variance_epsilon"),
                                 .scaled = td_attr_bool(n, "scale_after_normalization")},
        out);
    become(e, n, out, 5);
}

/* ------------------------------------------------------------------ the table */

#define KERNEL(set) TD_KERNEL("saved_grad.expanded", td_expanded_run, {"T", set})
#define SET_CELL (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF))

const struct td_op td_ops_saved_grad[] = {
    {.name = "LSTMBlockCellGrad",
     .sig = "(x:T, cs_prev:T, h_prev:T, w:T, wci:T, wcf:T, wco:T, b:T, i:T, cs:T, f:T, o:T, ci:T, co:T, "
            "cs_grad:T, h_grad:T) -> (cs_prev_grad:T, dicfo:T, wci_grad:T, wcf_grad:T, wco_grad:T) "
            "{use_peephole:bool; T:type}",
     .expand = expand_lstm,
     .kernels = KERNEL(SET_CELL)},
    {.name = "GRUBlockCellGrad",
     .sig = "(x:T, h_prev:T, w_ru:T, w_c:T, b_ru:T, b_c:T, r:T, u:T, c:T, d_h:T) -> (d_x:T, d_h_prev:T, "
            "d_c_bar:T, d_r_bar_u_bar:T) {T:type}",
     .expand = expand_gru,
     .kernels = KERNEL(TD_BIT(TD_FLOAT))},
    {.name = "BatchNormWithGlobalNormalizationGrad",
     .sig = "(t:T, m:T, v:T, gamma:T, backprop:T) -> (dx:T, dm:T, dv:T, db:T, dg:T) {T:type; "
            "variance_epsilon:float; scale_after_normalization:bool}",
     .expand = expand_norm,
     .kernels = KERNEL(TD_SET_FLOATS)},
    {.name = NULL},
};
