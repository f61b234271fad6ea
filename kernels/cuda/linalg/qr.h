/* kernels/cuda/linalg/qr.h - launcher of qr.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_QR_H
#define TD_KERNELS_CUDA_LINALG_QR_H

#include "kernels/cuda/linalg/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a [batch,m,n] = q [batch,m,p] r [batch,p,n] */
struct td_cuda_qr {
    const void *a;
    void *q, *r;
    int64_t batch, m, n, p;
    struct td_cuda_room room;
};
int td_cuda_qr_all(enum td_cuda_type type, const struct td_cuda_qr *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
