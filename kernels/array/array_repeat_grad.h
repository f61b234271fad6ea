/* kernels/array/array_repeat_grad.h - gradients of the ops that show an element several times: those of
 * array_broadcast.c and array_fill.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_REPEAT_GRAD_H
#define TD_KERNELS_ARRAY_ARRAY_REPEAT_GRAD_H

#include "core/grad/grad.h"

void td_broadcast_to_grad(struct td_grad *g);
void td_tile_grad(struct td_grad *g);
void td_fill_grad(struct td_grad *g);

#endif
