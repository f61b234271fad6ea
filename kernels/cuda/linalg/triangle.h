/* kernels/cuda/linalg/triangle.h - launchers of triangle.cu; they return CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_TRIANGLE_H
#define TD_KERNELS_CUDA_LINALG_TRIANGLE_H

#include "kernels/cuda/base/steps.h"
#include "kernels/cuda/linalg/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* op(a) y = b for each matrix of a batch, a [n,n] or its bands [bands,n] (kernels/linalg/linalg_band.c), b
 * and y [n,m], `width` columns of a right-hand side at once. batches: which matrix of a, and of b, each is
 * of. A zero on the diagonal of bands is refused (*fault = 1). */
struct td_cuda_triangles {
    const void *a, *b;
    void *y;
    int64_t batch, n, m, width;
    int64_t bands; /* 0: whole matrices */
    bool lower, adjoint;
    struct td_cuda_steps batches;
    int32_t *fault;
    struct td_cuda_room room;
};
int td_cuda_triangle_solve(enum td_cuda_type type, const struct td_cuda_triangles *s,
                           struct td_cuda_stream *stream);

/* SOLVE: diagonals [batch,3,n] (above, main, below), b and y [batch,n,m]; a pivot of zero is refused.
 * Else y = the product of such a matrix, each diagonal [batch,n] by itself, and b. */
struct td_cuda_tridiagonal {
    const void *above, *main, *below, *b;
    void *y;
    int64_t batch, n, m;
    bool pivots;
    int32_t *fault;
    struct td_cuda_room room;
};
int td_cuda_tridiagonal_solve(enum td_cuda_type type, const struct td_cuda_tridiagonal *s,
                              struct td_cuda_stream *stream);
int td_cuda_tridiagonal_times(enum td_cuda_type type, const struct td_cuda_tridiagonal *s,
                              struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
