/* kernels/cuda/linalg/matrix.h - what rows and kernels of linear algebra share: matrices of a batch, and the
 * room that a block computes one in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_LINALG_MATRIX_H
#define TD_KERNELS_CUDA_LINALG_MATRIX_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SHARED: bytes of shared memory that a block may have, of the 48 KiB that it may have without asking: its
 * kernel has up to 8,208 of its own. LARGEST: of a room that one block is asked to go through; SUM: of all
 * rooms together; BLOCKS: with rooms of their own. */
enum {
    TD_CUDA_MATRIX_SHARED = 36 << 10,
    TD_CUDA_MATRIX_LARGEST = 64 << 20,
    TD_CUDA_MATRIX_SUM = 128 << 20,
    TD_CUDA_MATRIX_BLOCKS = 512
};

/* Bytes for each of so many blocks. at: NULL: they lie in shared memory; else block i has at + i * bytes. */
struct td_cuda_room {
    char *at;
    int64_t bytes, blocks;
};

/* For `jobs` matrices, each computed in so many bytes. */
static inline struct td_cuda_room td_cuda_room_of(int64_t jobs, int64_t bytes, void *workspace)
{
    struct td_cuda_room r = {NULL, (bytes + 15) / 16 * 16, jobs};
    if (r.bytes > TD_CUDA_MATRIX_SHARED) {
        const int64_t fit = TD_CUDA_MATRIX_SUM / r.bytes, most = TD_CUDA_MATRIX_BLOCKS;
        r.at = (char *)workspace;
        r.blocks = fit < 1 ? 1 : fit < most ? fit : most;
        r.blocks = r.blocks < jobs ? r.blocks : jobs;
    }
    return r;
}
/* Bytes of workspace that it takes. */
static inline int64_t td_cuda_room_workspace(int64_t jobs, int64_t bytes)
{
    const struct td_cuda_room r = td_cuda_room_of(jobs, bytes, NULL);
    return r.bytes > TD_CUDA_MATRIX_SHARED ? r.bytes * r.blocks : 0;
}

#ifdef __cplusplus
}
#endif
#endif
