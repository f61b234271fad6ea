/* kernels/formula/vectorize_rules.h - rules for rows of ops (td_op.vectorize, core/grad/vectorize.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_FORMULA_VECTORIZE_RULES_H
#define TD_KERNELS_FORMULA_VECTORIZE_RULES_H

#include "core/grad/vectorize.h"

/* What stands for an op without a rule of its own, and for nodes that no input is many of. */
bool td_many_default(struct td_vectorize *v, bool any);

bool td_many_broadcast(struct td_vectorize *v); /* each output element of the inputs' there, broadcast */
bool td_many_shape(struct td_vectorize *v);     /* Shape */
bool td_many_axes(struct td_vectorize *v); /* input 0 along the axes of input 1: Sum, ExpandDims, Cumsum */
bool td_many_last(struct td_vectorize *v); /* input 0 along its last axis alone, which it has: Softmax */
bool td_many_reshape(struct td_vectorize *v);
bool td_many_transpose(struct td_vectorize *v);
bool td_many_broadcast_to(struct td_vectorize *v);
bool td_many_sum_to(struct td_vectorize *v);
bool td_many_matmul(struct td_vectorize *v);
bool td_many_batch_matmul(struct td_vectorize *v);
bool td_many_bias_add_grad(struct td_vectorize *v);
bool td_many_conv(struct td_vectorize *v);        /* (x, filter) */
bool td_many_conv_input(struct td_vectorize *v);  /* (sizes, filter, dy): the rows join the batch */
bool td_many_conv_filter(struct td_vectorize *v); /* (x, sizes, dy): the rows join the channels of dy */
bool td_many_pool_grad(struct td_vectorize *v);   /* (x, y, dy), (sizes, dy): likewise */
bool td_many_scatter_nd(struct td_vectorize *v);
bool td_many_gather(struct td_vectorize *v); /* (params, indices, axis) */
bool td_many_gather_grad(struct td_vectorize *v);
bool td_many_pad(struct td_vectorize *v);
bool td_many_slice(struct td_vectorize *v);
bool td_many_strided_slice_grad(struct td_vectorize *v);

#endif
