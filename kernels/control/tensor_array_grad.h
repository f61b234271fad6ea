/* kernels/control/tensor_array_grad.h - gradients of the ops in tensor_array_ops.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_TENSOR_ARRAY_GRAD_H
#define TD_KERNELS_CONTROL_TENSOR_ARRAY_GRAD_H

#include "core/grad/grad.h"

void td_array_read_grad(struct td_grad *g);
void td_array_write_grad(struct td_grad *g);
void td_array_gather_grad(struct td_grad *g);
void td_array_scatter_grad(struct td_grad *g);
void td_array_concat_grad(struct td_grad *g);
void td_array_split_grad(struct td_grad *g);

#endif
