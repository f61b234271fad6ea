/* kernels/math/math_special_grad.c - gradients of special functions: dy = dz * f'(x), f' by the recurrences
 * between them.
 *
 * The orders of Zeta and Polygamma and the parameters of Betainc have none, as in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_special_grad.h"

#include <math.h>

#include "kernels/formula/formula.h"

static void give_times(struct td_grad *g, struct td_value slope)
{
    td_grad_give(g, 0, td_f_mul(g->e, td_grad_at(g, 0), slope));
}

static struct td_value of_x(struct td_grad *g, const char *op)
{
    return td_f_1(g->e, op, td_grad_in(g, 0));
}

static struct td_value inverse(struct td_emitter *e, struct td_value v)
{
    return td_f_1(e, "Reciprocal", v);
}

/* number - v */
static struct td_value less(struct td_emitter *e, double number, struct td_value v)
{
    return td_f_sub(e, td_f_number(e, v, number), v);
}

/* slope, but `limit` where x is `at`. */
static struct td_value except(struct td_grad *g, double at, double limit, struct td_value slope)
{
    const struct td_value x = td_grad_in(g, 0);
    const struct td_value is = td_f_2(g->e, "Equal", x, td_f_number(g->e, x, at));
    return td_f_where(g->e, is, td_f_number(g->e, x, limit), slope);
}

/* ------------------------------------------------------------------ of one operand */

void td_lgamma_grad(struct td_grad *g)
{
    give_times(g, of_x(g, "Digamma"));
}

/* Polygamma is of float and double alone. */
void td_digamma_grad(struct td_grad *g)
{
    const struct td_value x = td_grad_in(g, 0);
    const struct td_value wide = td_dtype_of(x) == TD_HALF ? td_f_cast(g->e, x, TD_FLOAT) : x;
    const struct td_value slope = td_f_2(g->e, "Polygamma", td_f_number(g->e, wide, 1), wide);
    give_times(g, td_f_cast(g->e, slope, td_dtype_of(x)));
}

/* dx = dy * factor * exp(y^2 * scale) */
static void give_growing(struct td_grad *g, double factor, double scale)
{
    struct td_emitter *e = g->e;
    const struct td_value square = td_f_square(e, td_grad_out(g, 0));
    const struct td_value grown = td_f_1(e, "Exp", scale == 1 ? square : td_f_scale(e, square, scale));
    td_grad_give(g, 0, td_f_mul(e, td_f_scale(e, td_grad_at(g, 0), factor), grown));
}

void td_erfinv_grad(struct td_grad *g)
{
    give_growing(g, sqrt(M_PI) / 2, 1);
}

void td_ndtri_grad(struct td_grad *g)
{
    give_growing(g, sqrt(2 * M_PI), 0.5);
}

void td_dawson_grad(struct td_grad *g)
{
    const struct td_value x = td_f_scale(g->e, td_grad_in(g, 0), 2);
    give_times(g, less(g->e, 1, td_f_mul(g->e, x, td_grad_out(g, 0))));
}

void td_expint_grad(struct td_grad *g)
{
    const struct td_value top = td_f_mul(g->e, td_grad_at(g, 0), of_x(g, "Exp"));
    td_grad_give(g, 0, td_f_div(g->e, top, td_grad_in(g, 0)));
}

/* op(pi / 2 * x^2) */
static struct td_value of_scaled_square(struct td_grad *g, const char *op)
{
    return td_f_1(g->e, op, td_f_scale(g->e, td_f_square(g->e, td_grad_in(g, 0)), M_PI / 2));
}

void td_fresnel_cos_grad(struct td_grad *g)
{
    give_times(g, of_scaled_square(g, "Cos"));
}

void td_fresnel_sin_grad(struct td_grad *g)
{
    give_times(g, of_scaled_square(g, "Sin"));
}

void td_spence_grad(struct td_grad *g)
{
    const struct td_value below = less(g->e, 1, td_grad_in(g, 0));
    give_times(g, except(g, 1, -1, td_f_div(g->e, of_x(g, "Log"), below)));
}

/* ------------------------------------------------------------------ Bessel functions */

static struct td_value y_by_x(struct td_grad *g)
{
    return td_f_div(g->e, td_grad_out(g, 0), td_grad_in(g, 0));
}

void td_i0_grad(struct td_grad *g)
{
    give_times(g, of_x(g, "BesselI1"));
}

void td_i0e_grad(struct td_grad *g)
{
    const struct td_value decay = td_f_mul(g->e, of_x(g, "Sign"), td_grad_out(g, 0));
    give_times(g, td_f_sub(g->e, of_x(g, "BesselI1e"), decay));
}

void td_i1_grad(struct td_grad *g)
{
    give_times(g, except(g, 0, 1, td_f_sub(g->e, of_x(g, "BesselI0"), y_by_x(g))));
}

void td_i1e_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value decay = td_f_add(e, of_x(g, "Sign"), inverse(e, td_grad_in(g, 0)));
    const struct td_value slope = td_f_sub(e, of_x(g, "BesselI0e"), td_f_mul(e, td_grad_out(g, 0), decay));
    give_times(g, except(g, 0, 0.5, slope));
}

void td_k0_grad(struct td_grad *g)
{
    give_times(g, td_f_neg(g->e, of_x(g, "BesselK1")));
}

void td_k0e_grad(struct td_grad *g)
{
    give_times(g, td_f_sub(g->e, td_grad_out(g, 0), of_x(g, "BesselK1e")));
}

void td_k1_grad(struct td_grad *g)
{
    give_times(g, td_f_sub(g->e, td_f_neg(g->e, of_x(g, "BesselK0")), y_by_x(g)));
}

void td_k1e_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value growth = less(e, 1, inverse(e, td_grad_in(g, 0)));
    give_times(g, td_f_sub(e, td_f_mul(e, td_grad_out(g, 0), growth), of_x(g, "BesselK0e")));
}

void td_j0_grad(struct td_grad *g)
{
    give_times(g, td_f_neg(g->e, of_x(g, "BesselJ1")));
}

void td_j1_grad(struct td_grad *g)
{
    give_times(g, except(g, 0, 0.5, td_f_sub(g->e, of_x(g, "BesselJ0"), y_by_x(g))));
}

void td_y0_grad(struct td_grad *g)
{
    give_times(g, td_f_neg(g->e, of_x(g, "BesselY1")));
}

void td_y1_grad(struct td_grad *g)
{
    give_times(g, td_f_sub(g->e, of_x(g, "BesselY0"), y_by_x(g)));
}

/* ------------------------------------------------------------------ of two and three */

/* d input i = sum(dz * slope) */
static void give_summed(struct td_grad *g, int i, struct td_value slope)
{
    const struct td_value d = td_f_mul(g->e, slope, td_grad_at(g, 0));
    td_f_give_summed(g, i, d);
}

/* z = igamma(a, x): by a, an op of its own; by x, x^(a - 1) * exp(-x) / gamma(a) */
static struct td_value slope_of_igamma(struct td_grad *g, int i)
{
    struct td_emitter *e = g->e;
    const struct td_value a = td_grad_in(g, 0), x = td_grad_in(g, 1);
    if (i == 0) {
        return td_f_2(e, "IgammaGradA", a, x);
    }
    const struct td_value power = td_f_mul(e, td_f_sub(e, a, td_f_number(e, a, 1)), td_f_1(e, "Log", x));
    return td_f_1(e, "Exp", td_f_sub(e, td_f_sub(e, power, x), td_f_1(e, "Lgamma", a)));
}

void td_igamma_grad(struct td_grad *g)
{
    for (int i = 0; i < 2; i++) {
        if (td_grad_wants(g, i)) {
            give_summed(g, i, slope_of_igamma(g, i));
        }
    }
}

void td_igammac_grad(struct td_grad *g)
{
    for (int i = 0; i < 2; i++) {
        if (td_grad_wants(g, i)) {
            give_summed(g, i, td_f_neg(g->e, slope_of_igamma(g, i)));
        }
    }
}

/* By x: x^(a - 1) * (1 - x)^(b - 1) / beta(a, b) */
void td_betainc_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value a = td_grad_in(g, 0), b = td_grad_in(g, 1), x = td_grad_in(g, 2);
    const struct td_value one = td_f_number(e, x, 1);
    const struct td_value gammas = td_f_add(e, td_f_1(e, "Lgamma", a), td_f_1(e, "Lgamma", b));
    const struct td_value log_beta = td_f_sub(e, gammas, td_f_1(e, "Lgamma", td_f_add(e, a, b)));
    const struct td_value right = td_f_2(e, "Xlog1py", td_f_sub(e, b, one), td_f_neg(e, x));
    const struct td_value left = td_f_2(e, "Xlogy", td_f_sub(e, a, one), x);
    give_summed(g, 2, td_f_1(e, "Exp", td_f_sub(e, td_f_add(e, right, left), log_beta)));
}

/* z = zeta(x, q): by q, -x * zeta(x + 1, q) */
void td_zeta_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value x = td_grad_in(g, 0), more = td_f_add(e, x, td_f_number(e, x, 1));
    give_summed(g, 1, td_f_mul(e, td_f_neg(e, x), td_f_2(e, "Zeta", more, td_grad_in(g, 1))));
}

/* z = polygamma(n, x): by x, polygamma(n + 1, x) */
void td_polygamma_grad(struct td_grad *g)
{
    const struct td_value n = td_grad_in(g, 0), more = td_f_add(g->e, n, td_f_number(g->e, n, 1));
    give_summed(g, 1, td_f_2(g->e, "Polygamma", more, td_grad_in(g, 1)));
}
