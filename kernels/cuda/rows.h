/* kernels/cuda/rows.h - which ops have rows for a GPU: a table for each family of kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ROWS_H
#define TD_KERNELS_CUDA_ROWS_H

#include "core/graph/kernel.h"

struct td_cuda_rows {
    const char *op;               /* NULL: the end */
    const struct td_kernel *rows; /* end with a row without a name */
};

extern const struct td_cuda_rows td_cuda_rows_elementwise[], td_cuda_rows_matmul[], td_cuda_rows_move[],
    td_cuda_rows_reduce[], td_cuda_rows_softmax[];

/* All of them, NULL at the end. */
extern const struct td_cuda_rows *const td_cuda_families[];

#endif
