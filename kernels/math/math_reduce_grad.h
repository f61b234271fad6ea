/* kernels/math/math_reduce_grad.h - gradients of the reductions (math_reduce.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_REDUCE_GRAD_H
#define TD_KERNELS_MATH_MATH_REDUCE_GRAD_H

#include "core/grad/grad.h"

void td_sum_grad(struct td_grad *g);
void td_mean_grad(struct td_grad *g);
void td_prod_grad(struct td_grad *g);
void td_extreme_grad(struct td_grad *g); /* Max, Min */
void td_norm_grad(struct td_grad *g);
void td_sum_to_grad(struct td_grad *g);

#endif
