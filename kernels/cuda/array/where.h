/* kernels/cuda/array/where.h - launchers of where.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_WHERE_H
#define TD_KERNELS_CUDA_ARRAY_WHERE_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* marks[i] = any of the bits of x[i] that `mask` has are set, for n elements of 1, 2, 4, 8 or 16 bytes, of
 * which those of 16 have the mask in both halves. */
int td_cuda_where_mark(const void *x, size_t bytes, uint64_t mask, int64_t n, int32_t *marks,
                       struct td_cuda_stream *stream);
/* y [marked, of.depth] = where the marked elements of a tensor of these axes are, in its order. */
int td_cuda_where_places(const struct td_cuda_ranks *r, const struct td_cuda_tuples *of, int64_t *y,
                         struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
