/* kernels/array/array_move_grad.h - gradients of the ops that show all elements in other places or under
 * another shape: those of array_shape.c, array_layout.c and array_block.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_MOVE_GRAD_H
#define TD_KERNELS_ARRAY_ARRAY_MOVE_GRAD_H

#include "core/grad/grad.h"

void td_reshape_grad(struct td_grad *g); /* Reshape, ExpandDims, Squeeze */
void td_transpose_grad(struct td_grad *g);
void td_conjugate_transpose_grad(struct td_grad *g);
void td_reverse_grad(struct td_grad *g); /* Reverse, ReverseV2 */
void td_reverse_sequence_grad(struct td_grad *g);
void td_roll_grad(struct td_grad *g);
void td_space_to_batch_grad(struct td_grad *g), td_batch_to_space_grad(struct td_grad *g);
void td_space_to_batch_nd_grad(struct td_grad *g), td_batch_to_space_nd_grad(struct td_grad *g);
void td_space_to_depth_grad(struct td_grad *g), td_depth_to_space_grad(struct td_grad *g);

#endif
