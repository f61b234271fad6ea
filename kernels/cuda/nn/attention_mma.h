/* kernels/cuda/nn/attention_mma.h - launcher of attention_mma.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_ATTENTION_MMA_H
#define TD_KERNELS_CUDA_NN_ATTENTION_MMA_H

#include "kernels/cuda/nn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types and sizes that it has a kernel for. */
bool td_cuda_attention_mma_takes(const struct td_cuda_attention *a);
int td_cuda_attend_mma(const struct td_cuda_attention *a, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
