/* kernels/array/array_select_grad.c - gradients of what chooses by a condition: each side has what it was
 * chosen for, and zeros elsewhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_select_grad.h"

#include "kernels/formula/formula.h"

/* The condition may be a vector that chooses rows: both sides are of one shape. */
void td_select_grad(struct td_grad *g)
{
    const struct td_value c = td_grad_in(g, 0), dz = td_grad_at(g, 0), zeros = td_f_zeros_like(g->e, dz);
    td_grad_give(g, 1, td_f_3(g->e, "Select", c, dz, zeros));
    td_grad_give(g, 2, td_f_3(g->e, "Select", c, zeros, dz));
}

void td_select_v2_grad(struct td_grad *g)
{
    const struct td_value c = td_grad_in(g, 0), dz = td_grad_at(g, 0), zero = td_f_number(g->e, dz, 0);
    if (td_grad_wants(g, 1)) {
        td_f_give_summed(g, 1, td_f_where(g->e, c, dz, zero));
    }
    if (td_grad_wants(g, 2)) {
        td_f_give_summed(g, 2, td_f_where(g->e, c, zero, dz));
    }
}
