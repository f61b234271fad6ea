/* kernels/cuda/rows.c - the list of families.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/rows.h"

#include <stddef.h>

const struct td_op_rows *const td_cuda_families[] = {td_cuda_rows_cast,        td_cuda_rows_conv,
                                                     td_cuda_rows_elementwise, td_cuda_rows_loss,
                                                     td_cuda_rows_matmul,      td_cuda_rows_move,
                                                     td_cuda_rows_norm,        td_cuda_rows_pool,
                                                     td_cuda_rows_reduce,      td_cuda_rows_select,
                                                     td_cuda_rows_slice,       td_cuda_rows_softmax,
                                                     td_cuda_rows_view,        NULL};
