/* kernels/cuda/nn/loss.h - launchers of loss.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_LOSS_H
#define TD_KERNELS_CUDA_NN_LOSS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* logits, labels, backprop [rows,n]; loss [rows]. With p = softmax(logits): loss = sum(labels * (log sum exp
 * - logits)), backprop = p - labels; backprop may be logits or labels. Sums are made in double.
 * classes INT32 or INT64: labels [rows] are class numbers in [0, n), each for a row of zeros with one 1. */
struct td_cuda_cross_entropy {
    const void *logits, *labels;
    void *loss, *backprop;
    int64_t rows, n;
    enum td_cuda_type classes; /* NO_TYPE: of logits' type, one an element */
};
int td_cuda_cross_entropy_of(enum td_cuda_type type, const struct td_cuda_cross_entropy *s,
                             struct td_cuda_stream *stream);

/* *y = the sum of the squares of x [n] / 2, made in double. work: td_cuda_l2_work(n) bytes. */
size_t td_cuda_l2_work(int64_t n);
int td_cuda_l2(enum td_cuda_type type, const void *x, void *y, int64_t n, void *work,
               struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
