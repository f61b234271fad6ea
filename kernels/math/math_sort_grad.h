/* kernels/math/math_sort_grad.h - gradients of the ops in math_sort.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_SORT_GRAD_H
#define TD_KERNELS_MATH_MATH_SORT_GRAD_H

#include "core/grad/grad.h"

void td_top_k_grad(struct td_grad *g);
void td_approx_top_k_grad(struct td_grad *g);
void td_nth_element_grad(struct td_grad *g);

#endif
