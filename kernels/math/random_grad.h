/* kernels/math/random_grad.h - gradients of random draws by their parameters.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_RANDOM_GRAD_H
#define TD_KERNELS_MATH_RANDOM_GRAD_H

#include "core/grad/grad.h"

/* The last input is alpha: RandomGamma, StatelessRandomGammaV2 and V3. */
void td_random_gamma_grad(struct td_grad *g);

void td_random_truncated_grad(struct td_grad *g); /* StatelessParameterizedTruncatedNormal */

#endif
