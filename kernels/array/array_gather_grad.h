/* kernels/array/array_gather_grad.h - gradients of the ops that choose and place by index: those of
 * array_gather.c and array_scatter.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_GATHER_GRAD_H
#define TD_KERNELS_ARRAY_ARRAY_GATHER_GRAD_H

#include "core/grad/grad.h"

void td_gather_grad(struct td_grad *g); /* Gather, GatherV2 */
void td_resource_gather_grad(struct td_grad *g);
void td_gather_nd_grad(struct td_grad *g);
void td_resource_gather_nd_grad(struct td_grad *g);

void td_scatter_nd_grad(struct td_grad *g);
void td_tensor_scatter_update_grad(struct td_grad *g);
void td_tensor_scatter_add_grad(struct td_grad *g); /* and ScatterNdNonAliasingAdd */
void td_tensor_scatter_sub_grad(struct td_grad *g);
void td_tensor_scatter_most_grad(struct td_grad *g); /* TensorScatterMax, TensorScatterMin */

#endif
