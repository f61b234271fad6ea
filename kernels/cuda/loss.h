/* kernels/cuda/loss.h - launcher of loss.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LOSS_H
#define TD_KERNELS_CUDA_LOSS_H

#include "kernels/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* logits, labels, backprop [rows,n]; loss [rows]. With p = softmax(logits): loss = sum(labels * (log sum exp
 * - logits)), backprop = p - labels; backprop may be logits or labels. Sums are made in double. */
struct td_cuda_cross_entropy {
    const void *logits, *labels;
    void *loss, *backprop;
    int64_t rows, n;
};
int td_cuda_cross_entropy_of(enum td_cuda_type type, const struct td_cuda_cross_entropy *s,
                             struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
