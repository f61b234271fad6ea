/* kernels/cuda/nn/ctc_loss.h - launcher of ctc_loss.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_CTC_LOSS_H
#define TD_KERNELS_CUDA_NN_CTC_LOSS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Logits x [steps, batch, classes], class 0 the blank; n labels, sorted, each with its sequence's number in
 * indices [n, 2], values that fit (kernels/nn/ctc.c); lengths [batch]. */
struct td_cuda_ctc {
    const float *x;
    int64_t steps, batch, classes, n;
    const int64_t *indices;
    const int32_t *values, *lengths;
    bool collapse, merge, ignore_longer;
    double *y;            /* [steps, batch, classes] */
    double *alpha, *beta; /* [steps * (2 n + batch)]: of each sequence [its steps, length of l'] */
    double *log_p;        /* [batch] */
    int32_t *label; /* [2 n + batch]: l' of each sequence, at twice its first label's place + its number */
    int32_t *begin, *size; /* [batch]: its first label; the length of l', 0: its loss is 0 */
    float *loss, *gradient;
};
int td_cuda_ctc_loss(const struct td_cuda_ctc *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
