/* kernels/cuda/math/bins.h - launchers of bins.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_BINS_H
#define TD_KERNELS_CUDA_MATH_BINS_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* n values, `length` of them a row of y [rows, size]: value v of row r is of bin r * size + v. Those from
 * size on are left out, those below zero refused. */
struct td_cuda_bins {
    struct td_cuda_indices values;
    int64_t n, length, size;
    int32_t *fault;
};
/* keys[i] = value i's bin; `most` where it has none. */
int td_cuda_bin_keys(const struct td_cuda_bins *s, int32_t most, int32_t *keys,
                     struct td_cuda_stream *stream);
/* counts, zeros before: how many values each bin has. */
int td_cuda_bin_counts(const struct td_cuda_bins *s, int32_t *counts, struct td_cuda_stream *stream);

/* The same of numbers, for `bins` bins as wide as each other, range[0] .. range[1], the outermost open to
 * their sides. A range that is none and what is no number are refused. */
struct td_cuda_histogram {
    const void *x, *range;
    int64_t n, bins;
    int32_t *fault;
};
int td_cuda_histogram_counts(enum td_cuda_type type, const struct td_cuda_histogram *s, int32_t *counts,
                             struct td_cuda_stream *stream);

/* y[i] = counts[i], or 1 of those that are not 0 (binary). */
int td_cuda_counts_to(enum td_cuda_type type, const int32_t *counts, bool binary, void *y, int64_t n,
                      struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
