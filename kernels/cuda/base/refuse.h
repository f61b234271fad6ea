/* kernels/cuda/base/refuse.h - launcher of refuse.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_REFUSE_H
#define TD_KERNELS_CUDA_BASE_REFUSE_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Refuses a call for what is on the host already: the host's kernel has the words (core/run/device_faults.h).
 * Of a row that judges an input. */
int td_cuda_refuse_call(int32_t *fault, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
