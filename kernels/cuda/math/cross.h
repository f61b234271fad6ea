/* kernels/cuda/math/cross.h - launcher of cross.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_CROSS_H
#define TD_KERNELS_CUDA_MATH_CROSS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[row] = a[row] x b[row], rows of three numbers. */
int td_cuda_cross(enum td_cuda_type type, const void *a, const void *b, void *y, int64_t rows,
                  struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
