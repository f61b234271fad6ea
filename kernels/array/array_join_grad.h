/* kernels/array/array_join_grad.h - gradients of the ops that join tensors or take them apart: those of
 * array_concat.c, and DynamicPartition and DynamicStitch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_JOIN_GRAD_H
#define TD_KERNELS_ARRAY_ARRAY_JOIN_GRAD_H

#include "core/grad/grad.h"

void td_concat_grad(struct td_grad *g); /* Concat, ConcatV2 */
void td_pack_grad(struct td_grad *g), td_unpack_grad(struct td_grad *g);
void td_split_grad(struct td_grad *g); /* Split, SplitV */
void td_dynamic_partition_grad(struct td_grad *g);
void td_dynamic_stitch_grad(struct td_grad *g);

#endif
