/* kernels/math/random_grad.c - a draw of a gamma distribution follows its parameter smoothly, which draw it
 * is being held (implicit reparameterisation).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/random_grad.h"

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
