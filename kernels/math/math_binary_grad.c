/* kernels/math/math_binary_grad.c - gradients of z = f(x, y) with broadcasting: what an operand was repeated
 * for is summed again (td_f_sum_to).
 *
 * At complex values factors are conjugated, as TensorFlow has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/math_binary_grad.h"

#include "kernels/formula/formula.h"

static void give_summed(struct td_grad *g, int i, struct td_value v)
{
    td_grad_give(g, i, td_f_sum_to(g->e, v, td_grad_in(g, i)));
}

void td_add_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    give_summed(g, 0, dz);
    give_summed(g, 1, dz);
}

void td_sub_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    give_summed(g, 0, dz);
    give_summed(g, 1, td_f_neg(g->e, dz));
}

void td_mul_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    give_summed(g, 0, td_f_mul(g->e, dz, td_f_conj(g->e, td_grad_in(g, 1))));
    give_summed(g, 1, td_f_mul(g->e, td_f_conj(g->e, td_grad_in(g, 0)), dz));
}
