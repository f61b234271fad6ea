/* kernels/math/math_unary_grad.c - gradients of y = f(x), element by element: dx = dy * f'(x).
 *
 * Where f' is cheaper from y than from x, as of exp and tanh, it is. At complex values f' is conjugated: for
 * these functions, f' of the conjugate.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_unary_grad.h"

#include "kernels/formula/formula.h"

static struct td_value x_of(struct td_grad *g)
{
    return td_f_conj(g->e, td_grad_in(g, 0));
}

static struct td_value y_of(struct td_grad *g)
{
    return td_f_conj(g->e, td_grad_out(g, 0));
}

/* dx = dy * slope */
static void give_times(struct td_grad *g, struct td_value slope)
{
    td_grad_give(g, 0, td_f_mul(g->e, td_grad_at(g, 0), slope));
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

/* number + v */
static struct td_value more(struct td_emitter *e, double number, struct td_value v)
{
    return td_f_add(e, v, td_f_number(e, v, number));
}

/* ------------------------------------------------------------------ arithmetic */

void td_abs_grad(struct td_grad *g)
{
    give_times(g, td_f_1(g->e, "Sign", td_grad_in(g, 0)));
}

void td_neg_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_neg(g->e, td_grad_at(g, 0)));
}

void td_square_grad(struct td_grad *g)
{
    give_times(g, td_f_scale(g->e, x_of(g), 2));
}

void td_sign_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_zeros_like(g->e, td_grad_in(g, 0)));
}

void td_inv_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "ReciprocalGrad", td_grad_out(g, 0), td_grad_at(g, 0)));
}

void td_sqrt_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "SqrtGrad", td_grad_out(g, 0), td_grad_at(g, 0)));
}

void td_rsqrt_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "RsqrtGrad", td_grad_out(g, 0), td_grad_at(g, 0)));
}

/* ------------------------------------------------------------------ exponentials and logarithms */

void td_exp_grad(struct td_grad *g)
{
    give_times(g, y_of(g));
}

void td_expm1_grad(struct td_grad *g)
{
    give_times(g, td_f_1(g->e, "Exp", x_of(g)));
}

void td_log_grad(struct td_grad *g)
{
    give_times(g, inverse(g->e, x_of(g)));
}

void td_log1p_grad(struct td_grad *g)
{
    give_times(g, inverse(g->e, more(g->e, 1, x_of(g))));
}

void td_sigmoid_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "SigmoidGrad", y_of(g), td_grad_at(g, 0)));
}

/* dx = dy * factor * exp(-x^2) */
static void give_bell(struct td_grad *g, double factor)
{
    const struct td_value bell = td_f_1(g->e, "Exp", td_f_neg(g->e, td_f_square(g->e, x_of(g))));
    td_grad_give(g, 0, td_f_mul(g->e, td_f_scale(g->e, td_grad_at(g, 0), factor), bell));
}

#define TWO_BY_ROOT_PI 1.12837916709551257390

void td_erf_grad(struct td_grad *g)
{
    give_bell(g, TWO_BY_ROOT_PI);
}

void td_erfc_grad(struct td_grad *g)
{
    give_bell(g, -TWO_BY_ROOT_PI);
}

/* ------------------------------------------------------------------ circular functions */

void td_sin_grad(struct td_grad *g)
{
    give_times(g, td_f_1(g->e, "Cos", x_of(g)));
}

void td_cos_grad(struct td_grad *g)
{
    give_times(g, td_f_neg(g->e, td_f_1(g->e, "Sin", x_of(g))));
}

void td_tan_grad(struct td_grad *g)
{
    give_times(g, td_f_square(g->e, inverse(g->e, td_f_1(g->e, "Cos", x_of(g)))));
}

/* 1 / sqrt(1 - x^2) */
static struct td_value slope_of_asin(struct td_grad *g)
{
    return inverse(g->e, td_f_1(g->e, "Sqrt", less(g->e, 1, td_f_square(g->e, x_of(g)))));
}

void td_asin_grad(struct td_grad *g)
{
    give_times(g, slope_of_asin(g));
}

void td_acos_grad(struct td_grad *g)
{
    give_times(g, td_f_neg(g->e, slope_of_asin(g)));
}

void td_atan_grad(struct td_grad *g)
{
    give_times(g, inverse(g->e, more(g->e, 1, td_f_square(g->e, x_of(g)))));
}

/* ------------------------------------------------------------------ hyperbolic functions */

void td_sinh_grad(struct td_grad *g)
{
    give_times(g, td_f_1(g->e, "Cosh", x_of(g)));
}

void td_cosh_grad(struct td_grad *g)
{
    give_times(g, td_f_1(g->e, "Sinh", x_of(g)));
}

void td_tanh_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_2(g->e, "TanhGrad", y_of(g), td_grad_at(g, 0)));
}

void td_asinh_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_div(g->e, td_grad_at(g, 0), td_f_1(g->e, "Cosh", y_of(g))));
}

void td_acosh_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_div(g->e, td_grad_at(g, 0), td_f_1(g->e, "Sinh", y_of(g))));
}

void td_atanh_grad(struct td_grad *g)
{
    give_times(g, inverse(g->e, less(g->e, 1, td_f_square(g->e, x_of(g)))));
}
