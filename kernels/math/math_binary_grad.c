/* kernels/math/math_binary_grad.c - gradients of z = f(x, y) with broadcasting: what an operand was repeated
 * for is summed again (td_f_give_summed).
 *
 * At complex values factors are conjugated, but for the ops of which TensorFlow does not: those that leave
 * out 0 * NaN, and SquaredDifference.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_binary_grad.h"

#include "kernels/formula/formula.h"

/* Operand i, conjugated. */
static struct td_value factor(struct td_grad *g, int i)
{
    return td_f_conj(g->e, td_grad_in(g, i));
}

/* ------------------------------------------------------------------ sums and products */

void td_add_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    td_f_give_summed(g, 0, dz);
    td_f_give_summed(g, 1, dz);
}

void td_sub_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    td_f_give_summed(g, 0, dz);
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, td_f_neg(g->e, dz));
    }
}

void td_mul_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        td_f_give_summed(g, 0, td_f_mul(g->e, dz, factor(g, 1)));
    }
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, td_f_mul(g->e, factor(g, 0), dz));
    }
}

void td_mul_no_nan_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    td_f_give_summed(g, 0, td_f_2(g->e, "MulNoNan", dz, td_grad_in(g, 1)));
    td_f_give_summed(g, 1, td_f_2(g->e, "MulNoNan", td_grad_in(g, 0), dz));
}

void td_squared_difference_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value less = td_f_sub(e, td_grad_in(g, 0), td_grad_in(g, 1));
    const struct td_value dx = td_f_mul(e, td_f_scale(e, td_grad_at(g, 0), 2), less);
    td_f_give_summed(g, 0, dx);
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, td_f_neg(e, dx));
    }
}

/* Slices go on as they are. */
void td_add_n_grad(struct td_grad *g)
{
    for (int i = 0; i < g->node->n_in; i++) {
        td_grad_pass_on(g, 0, i);
    }
}

/* ------------------------------------------------------------------ quotients */

/* z = x / y by `op`: dx = dz / y, dy = dz * (-x / y / y) */
static void give_quotients(struct td_grad *g, const char *op)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), y = factor(g, 1);
    if (td_grad_wants(g, 0)) {
        td_f_give_summed(g, 0, td_f_2(e, op, dz, y));
    }
    if (td_grad_wants(g, 1)) {
        const struct td_value once = td_f_2(e, op, td_f_neg(e, factor(g, 0)), y);
        td_f_give_summed(g, 1, td_f_mul(e, dz, td_f_2(e, op, once, y)));
    }
}

void td_div_grad(struct td_grad *g)
{
    give_quotients(g, "RealDiv");
}

void td_div_no_nan_grad(struct td_grad *g)
{
    give_quotients(g, "DivNoNan");
}

/* z = x - y * floor(x / y) */
void td_floor_mod_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0);
    td_f_give_summed(g, 0, dz);
    if (td_grad_wants(g, 1)) {
        const struct td_value times = td_f_2(e, "FloorDiv", td_grad_in(g, 0), td_grad_in(g, 1));
        td_f_give_summed(g, 1, td_f_mul(e, dz, td_f_neg(e, times)));
    }
}

/* ------------------------------------------------------------------ powers and logarithms */

/* log(x) where there is one (x > 0, complex: x is not 0), else 0. */
static struct td_value log_or_zero(struct td_emitter *e, struct td_value x)
{
    const bool is_complex = td_dtype_in(td_dtype_of(x), TD_SET_COMPLEX);
    const struct td_value zero = td_f_number(e, x, 0);
    const struct td_value mask = td_f_2(e, is_complex ? "NotEqual" : "Greater", x, zero);
    const struct td_value safe = td_f_where(e, mask, x, td_f_number(e, x, 1));
    return td_f_where(e, mask, td_f_1(e, "Log", safe), zero);
}

/* dx = dz * y * x^(y - 1), dy = dz * z * log(x) */
void td_pow_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), x = factor(g, 0), y = factor(g, 1);
    if (td_grad_wants(g, 0)) {
        const struct td_value power = td_f_2(e, "Pow", x, td_f_sub(e, y, td_f_number(e, y, 1)));
        td_f_give_summed(g, 0, td_f_mul(e, td_f_mul(e, dz, y), power));
    }
    if (td_grad_wants(g, 1)) {
        const struct td_value slope =
            td_f_mul(e, td_f_mul(e, dz, td_f_conj(e, td_grad_out(g, 0))), log_or_zero(e, x));
        td_f_give_summed(g, 1, slope);
    }
}

/* 1 where v is not 0, else 0. */
static struct td_value not_zero(struct td_emitter *e, struct td_value v)
{
    return td_f_cast(e, td_f_2(e, "NotEqual", v, td_f_number(e, v, 0)), td_dtype_of(v));
}

/* z = x * h(y) by `op`, 0 where x is: dx = dz * h(y), dy = dz * slope */
static void give_guarded(struct td_grad *g, const char *op, struct td_value slope)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        const struct td_value h = td_f_2(e, op, not_zero(e, td_grad_in(g, 0)), td_grad_in(g, 1));
        td_f_give_summed(g, 0, td_f_mul(e, h, dz));
    }
    td_f_give_summed(g, 1, td_f_mul(e, slope, dz));
}

void td_xlogy_grad(struct td_grad *g)
{
    give_guarded(g, "Xlogy", td_f_2(g->e, "Xdivy", td_grad_in(g, 0), td_grad_in(g, 1)));
}

void td_xlog1py_grad(struct td_grad *g)
{
    const struct td_value y = td_grad_in(g, 1);
    const struct td_value more = td_f_add(g->e, y, td_f_number(g->e, y, 1));
    give_guarded(g, "Xlog1py", td_f_2(g->e, "Xdivy", td_grad_in(g, 0), more));
}

void td_xdivy_grad(struct td_grad *g)
{
    const struct td_value x = td_f_neg(g->e, td_grad_in(g, 0)), y = td_f_square(g->e, td_grad_in(g, 1));
    give_guarded(g, "Xdivy", td_f_2(g->e, "Xdivy", x, y));
}

/* ------------------------------------------------------------------ the larger, the smaller */

/* dz where the mask says so, else 0; the other way round. */
static struct td_value kept(struct td_grad *g, struct td_value mask)
{
    const struct td_value dz = td_grad_at(g, 0);
    return td_f_where(g->e, mask, dz, td_f_number(g->e, dz, 0));
}

static struct td_value dropped(struct td_grad *g, struct td_value mask)
{
    const struct td_value dz = td_grad_at(g, 0);
    return td_f_where(g->e, mask, td_f_number(g->e, dz, 0), dz);
}

/* Where both are equal, x has it. */
static void give_chosen(struct td_grad *g, const char *compare)
{
    const struct td_value mask = td_f_2(g->e, compare, td_grad_in(g, 0), td_grad_in(g, 1));
    if (td_grad_wants(g, 0)) {
        td_f_give_summed(g, 0, kept(g, mask));
    }
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, dropped(g, mask));
    }
}

void td_maximum_grad(struct td_grad *g)
{
    give_chosen(g, "GreaterEqual");
}

void td_minimum_grad(struct td_grad *g)
{
    give_chosen(g, "LessEqual");
}

/* (t, low, high) */
void td_clip_by_value_grad(struct td_grad *g)
{
    const struct td_value t = td_grad_in(g, 0);
    const struct td_value below = td_f_2(g->e, "Less", t, td_grad_in(g, 1));
    const struct td_value above = td_f_2(g->e, "Greater", t, td_grad_in(g, 2));
    if (td_grad_wants(g, 0)) {
        td_grad_give(g, 0, dropped(g, td_f_2(g->e, "LogicalOr", below, above)));
    }
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, kept(g, below));
    }
    if (td_grad_wants(g, 2)) {
        td_f_give_summed(g, 2, kept(g, above));
    }
}

/* ------------------------------------------------------------------ others of two operands */

/* z = atan(y / x); inputs are y, x */
void td_atan2_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value y = td_grad_in(g, 0), x = td_grad_in(g, 1);
    const struct td_value length = td_f_add(e, td_f_square(e, y), td_f_square(e, x));
    const struct td_value scaled = td_f_div(e, td_grad_at(g, 0), length);
    td_f_give_summed(g, 0, td_f_mul(e, x, scaled));
    td_f_give_summed(g, 1, td_f_mul(e, td_f_neg(e, y), scaled));
}

void td_next_after_grad(struct td_grad *g)
{
    td_f_give_summed(g, 0, td_grad_at(g, 0));
    td_grad_give(g, 1, td_f_zeros_like(g->e, td_grad_in(g, 1)));
}

void td_cross_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    td_grad_give(g, 0, td_f_2(g->e, "Cross", td_grad_in(g, 1), dz));
    td_grad_give(g, 1, td_f_2(g->e, "Cross", dz, td_grad_in(g, 0)));
}
