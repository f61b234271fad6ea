/* kernels/math/reduce_axes.h - the axes argument and the result shape that all reductions share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_REDUCE_AXES_H
#define TD_KERNELS_MATH_REDUCE_AXES_H

#include "core/graph/graph.h"
#include "core/graph/op.h"

/* Bit i of *mask: axis i of an input of `rank` is reduced. axes: int32 or int64 of any shape; negative values
 * count from the end. INVALID_ARGUMENT for an axis out of range or named twice. */
TD_MUST enum td_code td_reduce_axes(const struct td_node *n, int rank, const struct td_tensor *axes,
                                    uint32_t *mask, struct td_err *err);
/* Shape of input 0 without the axes of input 1; they become 1 with attribute keep_dims. */
td_infer_fn td_infer_reduce;

#endif
