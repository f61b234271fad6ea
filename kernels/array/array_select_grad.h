/* kernels/array/array_select_grad.h - gradients of the ops in array_select.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_SELECT_GRAD_H
#define TD_KERNELS_ARRAY_ARRAY_SELECT_GRAD_H

#include "core/grad/grad.h"

void td_select_grad(struct td_grad *g);
void td_select_v2_grad(struct td_grad *g);

#endif
