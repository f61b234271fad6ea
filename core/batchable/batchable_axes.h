/* core/batchable/batchable_axes.h - rules (core/batchable/batchable_rules.h) of ops that contract, move,
 * split or join axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_AXES_H
#define TD_CORE_BATCHABLE_BATCHABLE_AXES_H

#include "core/batchable/batchable_rules.h"

td_rows_fn td_rows_matmul, td_rows_batch_matmul, td_rows_einsum, td_rows_reduce, td_rows_along,
    td_rows_reshape, td_rows_transpose, td_rows_concat, td_rows_pack, td_rows_unpack, td_rows_split,
    td_rows_slice, td_rows_strided, td_rows_spread, td_rows_tile, td_rows_fill, td_rows_like, td_rows_gather,
    td_rows_gather_nd, td_rows_one_hot;

#endif
