/* kernels/cuda/sparse/spmm.h - launchers of spmm.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_SPARSE_SPMM_H
#define TD_KERNELS_CUDA_SPARSE_SPMM_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a: n entries of a matrix [rows, inner], or of its adjoint  b [inner, columns], or its adjoint
 *                                                                                  ->  y [rows, columns] */
struct td_cuda_spmm {
    struct td_cuda_indices indices; /* [n, 2] */
    int64_t n, rows, inner, columns;
    bool adjoint_a, adjoint_b;
    int32_t *fault;
};
/* keys[i] = the row of y that entry i adds to; rows where it lies outside, which is refused. */
int td_cuda_spmm_keys(const struct td_cuda_spmm *s, int32_t *keys, struct td_cuda_stream *stream);
/* By sorted keys, and where each stood. y is zeros before. */
struct td_cuda_spmm_data {
    const int32_t *keys, *order;
    const void *a, *b;
    void *y;
};
int td_cuda_spmm_run(enum td_cuda_type type, const struct td_cuda_spmm *s, const struct td_cuda_spmm_data *d,
                     struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
