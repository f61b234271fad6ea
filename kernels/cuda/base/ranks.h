/* kernels/cuda/base/ranks.h - launchers of ranks.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_RANKS_H
#define TD_KERNELS_CUDA_BASE_RANKS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* counts[i] becomes the sum of those before it; *all: of all of them, NULL: nobody asks. By one block. Sums
 * fit in 32 bits. */
int td_cuda_sums(int32_t *counts, int64_t n, int64_t *all, struct td_cuda_stream *stream);

/* Room for n marks, 0 or 1, that the caller's kernel puts into at; ranked, at[i] is how many there are
 * before i, and at[n] how many in all: i is marked where at[i + 1] is another number than at[i]. */
struct td_cuda_ranks {
    int64_t n;
    int32_t *at, *sums;
};
size_t td_cuda_ranks_bytes(int64_t n);
struct td_cuda_ranks td_cuda_ranks_in(void *workspace, int64_t n);
/* *all: how many marks there are. */
int td_cuda_ranks_run(const struct td_cuda_ranks *r, int64_t *all, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
