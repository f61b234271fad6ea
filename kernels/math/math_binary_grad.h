/* kernels/math/math_binary_grad.h - gradients of the ops in math_binary.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_BINARY_GRAD_H
#define TD_KERNELS_MATH_MATH_BINARY_GRAD_H

#include "core/grad/grad.h"

void td_add_grad(struct td_grad *g);
void td_sub_grad(struct td_grad *g);
void td_mul_grad(struct td_grad *g);

#endif
