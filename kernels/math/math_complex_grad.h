/* kernels/math/math_complex_grad.h - gradients of the ops in math_complex.c, and of Cast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_COMPLEX_GRAD_H
#define TD_KERNELS_MATH_MATH_COMPLEX_GRAD_H

#include "core/grad/grad.h"

void td_complex_grad(struct td_grad *g);
void td_real_grad(struct td_grad *g);
void td_imag_grad(struct td_grad *g);
void td_angle_grad(struct td_grad *g);
void td_complex_abs_grad(struct td_grad *g);
void td_conj_grad(struct td_grad *g);
void td_cast_grad(struct td_grad *g);

#endif
