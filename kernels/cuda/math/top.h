/* kernels/cuda/math/top.h - launchers of top.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_TOP_H
#define TD_KERNELS_CUDA_MATH_TOP_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The k greatest of each of the rows of x [rows, n], 0 < k <= n < 2^31, in descending order: values and
 * indices [rows, k]. NaN is greatest, -0 is 0, and of equal ones the first comes first. */
enum { TD_CUDA_TOP_SMALL = 1024 }; /* the most that a block selects in its own memory */
struct td_cuda_top {
    const void *x;
    void *values, *indices;
    int64_t rows, n, k;
    int index_bytes; /* 2, 4 or 8 */
    void *workspace; /* as many bytes as td_cuda_top_workspace says */
};
int td_cuda_top_of(enum td_cuda_type type, const struct td_cuda_top *s, struct td_cuda_stream *stream);
/* What it sorts whole rows in, when k is no small one; false: more than there can be. */
bool td_cuda_top_workspace(int64_t rows, int64_t n, int64_t k, size_t *bytes);

/* values [rows] = the k-th greatest of each row, or the k-th least; of the above, k may be any number. */
int td_cuda_nth(enum td_cuda_type type, const struct td_cuda_top *s, bool least,
                struct td_cuda_stream *stream);

/* y[r] = fewer than k of row r are greater than the element `target` of it, and all are finite. targets and
 * k_at have int32 or int64. */
struct td_cuda_in_top {
    const float *x;
    const void *targets, *k_at; /* k_at NULL: it is k */
    int64_t k, rows, n;
    bool *y;
    bool wide; /* int64 */
};
int td_cuda_in_top_of(const struct td_cuda_in_top *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
