/* kernels/cuda/array/picked.h - launchers of picked.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_PICKED_H
#define TD_KERNELS_CUDA_ARRAY_PICKED_H

#include "kernels/cuda/base/ranks.h"
#include "kernels/cuda/base/sort.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks each of the sorted keys that is another than the one before it, and ranks them. *groups: how many
 * there are. */
int td_cuda_picked_rank(const struct td_cuda_sort *s, const struct td_cuda_ranks *r, int64_t *groups,
                        struct td_cuda_stream *stream);
/* distinct [groups] = the keys, each once; those of s become the numbers of their groups. */
int td_cuda_picked_number(const struct td_cuda_sort *s, const struct td_cuda_ranks *r, void *distinct,
                          bool wide, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
