/* kernels/cuda/linalg/svd.h - launchers of svd.cu and least.cu; they return CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_SVD_H
#define TD_KERNELS_CUDA_LINALG_SVD_H

#include "kernels/cuda/linalg/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a [batch,m,n]: values [batch,p], from the greatest, p the less of m and n; u [batch,m,u_width] and v
 * [batch,n,v_width], or NULL. A width is p or, for a whole base, the rows. */
struct td_cuda_svd {
    const void *a;
    void *values, *u, *v;
    int64_t batch, m, n, u_width, v_width;
    struct td_cuda_room room;
};
int td_cuda_svd_all(enum td_cuda_type type, const struct td_cuda_svd *s, struct td_cuda_stream *stream);
/* Bytes of a room; cell: of an element as it is computed with. */
int64_t td_cuda_svd_bytes(const struct td_cuda_svd *s, int64_t cell);

/* The x [batch,n,k] for which a x is nearest to b [batch,m,k]. *l2, on the device, is added to the squares'
 * diagonal; one that is negative is refused (*fault = 1). fast: by the normal equations, which are refused
 * where they are not definite; else the one of least norm, by singular values, of which those up to epsilon
 * times the greatest count as zero, and l2 is not looked at further. */
struct td_cuda_ls {
    const void *a, *b;
    void *x;
    const double *l2;
    int64_t batch, m, n, k;
    bool fast;
    double epsilon;
    int32_t *fault;
    struct td_cuda_room room;
};
int td_cuda_least_squares(enum td_cuda_type type, const struct td_cuda_ls *s, struct td_cuda_stream *stream);
int64_t td_cuda_least_bytes(const struct td_cuda_ls *s, int64_t cell);

#ifdef __cplusplus
}
#endif
#endif
