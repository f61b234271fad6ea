/* kernels/math/math_scan_grad.h - gradients of the ops in math_scan.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_MATH_SCAN_GRAD_H
#define TD_KERNELS_MATH_MATH_SCAN_GRAD_H

#include "core/grad/grad.h"

void td_cumsum_grad(struct td_grad *g);
void td_cumprod_grad(struct td_grad *g);
void td_cumulative_logsumexp_grad(struct td_grad *g);

#endif
