/* kernels/cuda/array/ramp.h - launchers of ramp.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_RAMP_H
#define TD_KERNELS_CUDA_ARRAY_RAMP_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = sign[i] > 0 ? x[i] : alpha * x[i]; y may be an operand. */
int td_cuda_leaky(enum td_cuda_type type, const void *sign, const void *x, void *y, int64_t n, float alpha,
                  struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
