/* kernels/array/array_slice_grad.h - gradients of the ops that cut a part out or put something around: those
 * of array_slice.c and array_pad.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_SLICE_GRAD_H
#define TD_KERNELS_ARRAY_ARRAY_SLICE_GRAD_H

#include "core/grad/grad.h"

void td_slice_grad(struct td_grad *g);
void td_strided_slice_grad(struct td_grad *g);
void td_strided_slice_grad_grad(struct td_grad *g); /* StridedSliceGrad */
void td_strided_slice_update_grad(struct td_grad *g);
void td_pad_grad(struct td_grad *g); /* Pad, PadV2 */
void td_mirror_pad_grad(struct td_grad *g);
void td_mirror_pad_grad_grad(struct td_grad *g); /* MirrorPadGrad */

#endif
