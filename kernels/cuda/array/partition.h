/* kernels/cuda/array/partition.h - launchers of partition.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_PARTITION_H
#define TD_KERNELS_CUDA_ARRAY_PARTITION_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* counts[p] = how many of n keys, which ascend, are p, for p in [0, parts). */
int td_cuda_partition_count(const int32_t *keys, int64_t n, int parts, int64_t *counts,
                            struct td_cuda_stream *stream);
/* *rows = one more than the greatest of n indices, or, unless it is the first call, what *rows was if that is
 * more. Those below 0 are refused. By one block. */
int td_cuda_partition_rows(const int32_t *indices, int64_t n, bool first, int64_t *rows, int32_t *fault,
                           struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
