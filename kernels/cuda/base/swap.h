/* kernels/cuda/base/swap.h - launcher of swap.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_SWAP_H
#define TD_KERNELS_CUDA_BASE_SWAP_H

#include <stddef.h>

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [columns,rows] = x [rows,columns] transposed, of elements of 1, 2, 4, 8 or 16 bytes. They share no
 * byte. */
int td_cuda_swap(size_t bytes, int64_t rows, int64_t columns, const void *x, void *y,
                 struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
