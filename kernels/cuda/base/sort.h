/* kernels/cuda/base/sort.h - positions in the order of their keys; the launcher returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_SORT_H
#define TD_KERNELS_CUDA_BASE_SORT_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for n keys, which the caller's kernel puts into keys; sorted, they and their positions are there as
 * td_cuda_sort says. */
struct td_cuda_sort {
    int64_t n;
    int32_t *keys, *order, *other_keys, *other_order, *counts;
};
size_t td_cuda_sort_bytes(int64_t n);
struct td_cuda_sort td_cuda_sort_in(void *workspace, int64_t n);
/* keys: in [0, most]; they are sorted, and order[i] is where keys[i] was. Equal keys stay as they stood. */
int td_cuda_sort_run(struct td_cuda_sort *s, int32_t most, struct td_cuda_stream *stream);
/* The same room behind such a run, for who comes later. */
struct td_cuda_sort td_cuda_sort_done(void *workspace, int64_t n, int32_t most);

#ifdef __cplusplus
}
#endif
#endif
