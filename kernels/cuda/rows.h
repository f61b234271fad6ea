/* kernels/cuda/rows.h - which ops have rows for a GPU: a table for each family of kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ROWS_H
#define TD_KERNELS_CUDA_ROWS_H

#include "core/run/device_module.h"

extern const struct td_op_rows td_cuda_rows_cast[], td_cuda_rows_conv[], td_cuda_rows_elementwise[],
    td_cuda_rows_loss[], td_cuda_rows_matmul[], td_cuda_rows_move[], td_cuda_rows_norm[], td_cuda_rows_pool[],
    td_cuda_rows_reduce[], td_cuda_rows_select[], td_cuda_rows_slice[], td_cuda_rows_softmax[],
    td_cuda_rows_view[];

/* All of them, NULL at the end. */
extern const struct td_op_rows *const td_cuda_families[];

#endif
