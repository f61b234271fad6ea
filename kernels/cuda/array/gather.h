/* kernels/cuda/array/gather.h - launchers of gather.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_GATHER_H
#define TD_KERNELS_CUDA_ARRAY_GATHER_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What slices are taken from and put to; a slice outside of x is zeros, and refused where fault is not
 * NULL. */
struct td_cuda_slices {
    const void *x;
    void *y;
    size_t bytes; /* a slice */
    struct td_cuda_indices indices;
    int32_t *fault;
};
/* x [batches, outer, dim, slice]  indices [batches, n]  ->  y [batches, outer, n, slice] */
struct td_cuda_gather_axis {
    int64_t batches, outer, dim, n;
};
int td_cuda_gather_along(const struct td_cuda_gather_axis *s, const struct td_cuda_slices *slices,
                         struct td_cuda_stream *stream);
/* x [dim.., slice]  indices [rows, depth]  ->  y [rows, slice] */
int td_cuda_gather_nd(const struct td_cuda_tuples *tuples, int64_t rows, const struct td_cuda_slices *slices,
                      struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
