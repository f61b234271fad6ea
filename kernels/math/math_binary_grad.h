/* kernels/math/math_binary_grad.h - gradients of the ops in math_binary.c; AddN, ClipByValue, Cross.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_BINARY_GRAD_H
#define TD_KERNELS_MATH_MATH_BINARY_GRAD_H

#include "core/grad/grad.h"

void td_add_grad(struct td_grad *g);
void td_sub_grad(struct td_grad *g);
void td_mul_grad(struct td_grad *g);
void td_mul_no_nan_grad(struct td_grad *g);
void td_div_grad(struct td_grad *g); /* RealDiv, too */
void td_div_no_nan_grad(struct td_grad *g);
void td_floor_mod_grad(struct td_grad *g);
void td_pow_grad(struct td_grad *g);
void td_maximum_grad(struct td_grad *g);
void td_minimum_grad(struct td_grad *g);
void td_squared_difference_grad(struct td_grad *g);
void td_xlogy_grad(struct td_grad *g);
void td_xlog1py_grad(struct td_grad *g);
void td_xdivy_grad(struct td_grad *g);
void td_atan2_grad(struct td_grad *g);
void td_next_after_grad(struct td_grad *g);

void td_add_n_grad(struct td_grad *g);
void td_clip_by_value_grad(struct td_grad *g);
void td_cross_grad(struct td_grad *g);

#endif
