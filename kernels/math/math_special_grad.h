/* kernels/math/math_special_grad.h - gradients of the ops in math_special.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_SPECIAL_GRAD_H
#define TD_KERNELS_MATH_MATH_SPECIAL_GRAD_H

#include "core/grad/grad.h"

typedef void td_special_grad_fn(struct td_grad *g);

td_special_grad_fn td_lgamma_grad, td_digamma_grad, td_erfinv_grad, td_ndtri_grad, td_dawson_grad;
td_special_grad_fn td_expint_grad, td_fresnel_cos_grad, td_fresnel_sin_grad, td_spence_grad;
td_special_grad_fn td_i0_grad, td_i0e_grad, td_i1_grad, td_i1e_grad, td_j0_grad, td_j1_grad;
td_special_grad_fn td_k0_grad, td_k0e_grad, td_k1_grad, td_k1e_grad, td_y0_grad, td_y1_grad;
td_special_grad_fn td_igamma_grad, td_igammac_grad, td_betainc_grad, td_zeta_grad, td_polygamma_grad;

#endif
