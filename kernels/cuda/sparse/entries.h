/* kernels/cuda/sparse/entries.h - launchers of entries.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_SPARSE_ENTRIES_H
#define TD_KERNELS_CUDA_SPARSE_ENTRIES_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Refuses n keys unless each is above the one before it. */
int td_cuda_must_ascend(const int32_t *keys, int64_t n, int32_t *fault, struct td_cuda_stream *stream);

/* y[i] = values[i] op what dense has where entry i is, n entries of a tensor of these sizes: dense has the
 * last `rank` of its axes, or size 1 along them (step 0). Indices outside are refused, and integers divided
 * by zero. */
enum td_cuda_entry_op { TD_CUDA_ENTRY_ADD, TD_CUDA_ENTRY_MULTIPLY, TD_CUDA_ENTRY_DIVIDE };
struct td_cuda_entries {
    const int64_t *indices; /* [n, tuples.depth] */
    struct td_cuda_tuples tuples;
    int64_t n, step[TD_CUDA_DEPTH]; /* of dense, by axis */
    const void *values, *dense;
    void *y;
    int32_t *fault;
};
int td_cuda_entries_with(enum td_cuda_entry_op op, enum td_cuda_type type, const struct td_cuda_entries *s,
                         struct td_cuda_stream *stream);

/* keys[i] = 0 for those i of [0, m) that the map [n] does not name, else 1. Places outside are refused. */
int td_cuda_unnamed_keys(const int64_t *map, int64_t n, int64_t m, int32_t *keys, int32_t *fault,
                         struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
