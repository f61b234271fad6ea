/* kernels/linalg/einsum_grad.h - gradient of the op in einsum.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_EINSUM_GRAD_H
#define TD_KERNELS_LINALG_EINSUM_GRAD_H

#include "core/grad/grad.h"

void td_einsum_grad(struct td_grad *g);

#endif
