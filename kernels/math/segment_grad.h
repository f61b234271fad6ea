/* kernels/math/segment_grad.h - gradients of reductions by segment: segment.c and segment_sparse.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_SEGMENT_GRAD_H
#define TD_KERNELS_MATH_SEGMENT_GRAD_H

#include "core/grad/grad.h"

void td_segment_sum_grad(struct td_grad *g);
void td_segment_mean_grad(struct td_grad *g);
void td_segment_prod_grad(struct td_grad *g);
void td_segment_extreme_grad(struct td_grad *g); /* SegmentMax, SegmentMin */

void td_unsorted_segment_sum_grad(struct td_grad *g);
void td_unsorted_segment_prod_grad(struct td_grad *g);
void td_unsorted_segment_extreme_grad(struct td_grad *g);

/* With and without num_segments. */
void td_sparse_segment_sum_grad(struct td_grad *g);
void td_sparse_segment_mean_grad(struct td_grad *g);
void td_sparse_segment_sqrt_n_grad(struct td_grad *g);
/* Of SparseSegmentSumGrad and its like. */
void td_sparse_segment_sum_grad_grad(struct td_grad *g);
void td_sparse_segment_mean_grad_grad(struct td_grad *g);
void td_sparse_segment_sqrt_n_grad_grad(struct td_grad *g);

#endif
