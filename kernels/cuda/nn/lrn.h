/* kernels/cuda/nn/lrn.h - launchers of lrn.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_LRN_H
#define TD_KERNELS_CUDA_NN_LRN_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y, dy, dx [rows, depth]:
 *   y = x norm ^ -beta, norm = bias + alpha * the sum of squares of the channels within radius
 * radius -1: none are. work: a double for each of x. */
struct td_cuda_lrn {
    int64_t rows, depth, radius;
    double bias, alpha, beta;
};
int td_cuda_lrn_to(enum td_cuda_type type, const struct td_cuda_lrn *s, const void *x, void *y,
                   struct td_cuda_stream *stream);
struct td_cuda_lrn_grad {
    const void *dy, *x, *y;
    void *dx, *work;
};
int td_cuda_lrn_back(enum td_cuda_type type, const struct td_cuda_lrn *s, const struct td_cuda_lrn_grad *g,
                     struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
