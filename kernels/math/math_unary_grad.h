/* kernels/math/math_unary_grad.h - gradients of the ops in math_unary.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_UNARY_GRAD_H
#define TD_KERNELS_MATH_MATH_UNARY_GRAD_H

#include "core/grad/grad.h"

typedef void td_grad_fn(struct td_grad *g);

/* ---- arithmetic */
td_grad_fn td_abs_grad, td_neg_grad, td_square_grad, td_sign_grad, td_inv_grad, td_sqrt_grad, td_rsqrt_grad;
/* ---- exponentials and logarithms */
td_grad_fn td_exp_grad, td_expm1_grad, td_log_grad, td_log1p_grad, td_sigmoid_grad, td_erf_grad, td_erfc_grad;
/* ---- circular and hyperbolic functions */
td_grad_fn td_sin_grad, td_cos_grad, td_tan_grad, td_asin_grad, td_acos_grad, td_atan_grad;
td_grad_fn td_sinh_grad, td_cosh_grad, td_tanh_grad, td_asinh_grad, td_acosh_grad, td_atanh_grad;

#endif
