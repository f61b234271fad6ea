/* kernels/math/random_grad.c - a draw of a gamma distribution, or of a normal one between bounds, follows
 * its parameters smoothly, which draw it is being held (implicit reparameterisation).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/random_grad.h"

#include <float.h>
#include <math.h>

#include "kernels/formula/formula.h"

/* alpha broadcasts to the draws from the right. RandomGammaGrad is of float and double alone. */
void td_random_gamma_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const int last = g->node->n_in - 1;
    const struct td_value alpha = td_grad_in(g, last), dy = td_grad_at(g, 0);
    const enum td_dtype dtype = td_dtype_of(dy), wide = dtype == TD_DOUBLE ? TD_DOUBLE : TD_FLOAT;
    const struct td_value slope =
        td_f_2(e, "RandomGammaGrad", td_f_cast(e, alpha, wide), td_f_cast(e, td_grad_out(g, 0), wide));
    td_grad_give(g, last, td_f_sum_to(e, td_f_mul(e, dy, td_f_cast(e, slope, dtype)), alpha));
}

/* The part of a normal distribution below x. */
static struct td_value below(struct td_emitter *e, struct td_value x)
{
    return td_f_scale(e, td_f_1(e, "Erfc", td_f_scale(e, x, -sqrt(0.5))), 0.5);
}

/* The smallest normal number of a type, and what its 1 is apart from the next. */
static double least_of(enum td_dtype t)
{
    return t == TD_HALF ? 0x1p-14 : t == TD_FLOAT ? FLT_MIN : DBL_MIN;
}
static double apart_of(enum td_dtype t)
{
    return t == TD_HALF ? 0x1p-10 : t == TD_FLOAT ? FLT_EPSILON : DBL_EPSILON;
}

/* e^((x^2 - y^2) / 2 + z) */
static struct td_value density(struct td_emitter *e, struct td_value x, struct td_value y, struct td_value z)
{
    const struct td_value apart = td_f_sub(e, td_f_square(e, x), td_f_square(e, y));
    return td_f_1(e, "Exp", td_f_add(e, td_f_scale(e, apart, 0.5), z));
}

/* A draw x is mean + deviation * z; a bound moves it by the density there over the density at x, times the
 * part of the distribution that lies on the bound's other side of x. The parameters broadcast from the
 * right. */
void td_random_truncated_grad(struct td_grad *g)
{
    enum { MEAN = 2, DEVIATION, LEAST, MOST };
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), mean = td_grad_in(g, MEAN);
    const enum td_dtype t = td_dtype_of(dy);
    struct td_value z[3] = {td_grad_out(g, 0), td_grad_in(g, LEAST), td_grad_in(g, MOST)};
    for (int i = 0; i < 3; i++) {
        z[i] = td_f_div(e, td_f_sub(e, z[i], mean), td_grad_in(g, DEVIATION));
    }
    struct td_value part =
        td_f_div(e, td_f_sub(e, below(e, z[0]), below(e, z[1])), td_f_sub(e, below(e, z[2]), below(e, z[1])));
    part = td_f_2(e, "Maximum", part, td_f_number(e, part, least_of(t)));
    part = td_f_2(e, "Minimum", part, td_f_number(e, part, 1 - apart_of(t)));
    const struct td_value by_most = density(e, z[0], z[2], td_f_1(e, "Log", part));
    const struct td_value by_least = density(e, z[0], z[1], td_f_1(e, "Log1p", td_f_neg(e, part)));
    const struct td_value by[] = {dy, td_f_mul(e, dy, z[0]), td_f_mul(e, dy, by_least),
                                  td_f_mul(e, dy, by_most)};
    for (int i = 0; i < 4; i++) {
        td_grad_give(g, MEAN + i, td_f_sum_to(e, by[i], td_grad_in(g, MEAN + i)));
    }
}
