/* kernels/cuda/linalg/eigen.h - launcher of eigen.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_EIGEN_H
#define TD_KERNELS_CUDA_LINALG_EIGEN_H

#include "kernels/cuda/linalg/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a [batch,n,n], of which the lower triangle counts: values [batch,n], ascending, and vectors [batch,n,n] in
 * columns, or NULL. What is not finite is refused (*fault = 1). */
struct td_cuda_eigen {
    const void *a;
    void *values, *vectors;
    int64_t batch, n;
    int32_t *fault;
    struct td_cuda_room room;
};
int td_cuda_eigen_all(enum td_cuda_type type, const struct td_cuda_eigen *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
