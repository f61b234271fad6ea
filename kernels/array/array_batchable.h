/* kernels/array/array_batchable.h - rules (core/batchable/batchable_rule.h) of ops that move, split, join,
 * repeat or choose.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ARRAY_ARRAY_BATCHABLE_H
#define TD_KERNELS_ARRAY_ARRAY_BATCHABLE_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_reshape; /* the same elements in the same order under another shape */
td_batchable_fn td_batchable_expand_dims, td_batchable_squeeze, td_batchable_transpose;
td_batchable_fn td_batchable_concat; /* the integer scalar among the inputs' ends is the axis */
td_batchable_fn td_batchable_pack, td_batchable_unpack;
td_batchable_fn td_batchable_split; /* Split, SplitV: the last or first input is the axis */
td_batchable_fn td_batchable_slice, td_batchable_strided_slice;
td_batchable_fn td_batchable_strided_slice_grad; /* shape, begin, end, strides, dy */
td_batchable_fn td_batchable_concat_offset;      /* as .sizes */

td_batchable_fn td_batchable_shape, td_batchable_rank_of, td_batchable_size_of; /* numbers; any_input */
td_batchable_fn td_batchable_broadcast_to, td_batchable_tile;
td_batchable_fn td_batchable_fill;   /* all elements are equal: Fill */
td_batchable_fn td_batchable_like;   /* all elements are equal, shape of input 0: ZerosLike; any_input */
td_batchable_fn td_batchable_gather; /* params, indices [, axis]; batch_dims */
td_batchable_fn td_batchable_gather_nd, td_batchable_one_hot;
td_batchable_fn td_batchable_gather_grad; /* dy, indices, shape, axis; batch_dims */
td_batchable_fn td_batchable_scatter_nd;  /* indices, updates, shape */

/* Which element of input i, a vector of n sizes, grows with N, by *k a row; the others must be the same for
 * every N. -1: says no. */
int td_batchable_growing(struct td_batchable_step *s, int i, int64_t n, int64_t *k);

#endif
