/* kernels/cuda/array/cast.h - launcher of cast.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_CAST_H
#define TD_KERNELS_CUDA_ARRAY_CAST_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = x[i] as the other type. A float becomes an integer without its fraction; what does not fit, and NaN,
 * the lowest int32 or int64. Anything but zero is true. */
int td_cuda_cast(enum td_cuda_type from, enum td_cuda_type to, const void *x, void *y, int64_t n,
                 struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
