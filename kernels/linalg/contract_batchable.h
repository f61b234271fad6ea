/* kernels/linalg/contract_batchable.h - rules (core/batchable/batchable_rule.h) of ops that sum over an axis
 * of two inputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_CONTRACT_BATCHABLE_H
#define TD_KERNELS_LINALG_CONTRACT_BATCHABLE_H

#include "core/batchable/batchable_rule.h"

td_batchable_fn td_batchable_matmul;       /* MatMul: transpose_a, transpose_b */
td_batchable_fn td_batchable_batch_matmul; /* BatchMatMul: adj_x, adj_y */
td_batchable_fn td_batchable_einsum;

#endif
