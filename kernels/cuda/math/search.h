/* kernels/cuda/math/search.h - launchers of search.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_SEARCH_H
#define TD_KERNELS_CUDA_MATH_SEARCH_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sorted [rows, n] ascending, values [rows, m]: y[r, j] = where the first of row r is that is not below
 * values[r, j], or that is above it (upper); n where none is. y: int64 (wide) or int32. */
struct td_cuda_bound {
    const void *sorted, *values;
    void *y;
    int64_t rows, n, m;
    bool upper, wide;
};
int td_cuda_bound_of(enum td_cuda_type type, const struct td_cuda_bound *s, struct td_cuda_stream *stream);

/* y[i] = how many of the boundaries, ascending, are not above x[i]. */
enum { TD_CUDA_BOUNDARIES = 512 };
struct td_cuda_buckets {
    float boundary[TD_CUDA_BOUNDARIES];
    int n_boundaries;
    const void *x;
    int32_t *y;
    int64_t n;
};
int td_cuda_bucketize(enum td_cuda_type type, const struct td_cuda_buckets *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
