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

td_batchable_fn td_batchable_shape, td_batchable_rank_of, td_batchable_size_of; /* numbers; any_input */
td_batchable_fn td_batchable_broadcast_to, td_batchable_tile;
td_batchable_fn td_batchable_fill;   /* all elements are equal: Fill */
td_batchable_fn td_batchable_like;   /* all elements are equal, shape of input 0: ZerosLike; any_input */
td_batchable_fn td_batchable_gather; /* params, indices [, axis]; batch_dims */
td_batchable_fn td_batchable_gather_nd, td_batchable_one_hot;

#endif
