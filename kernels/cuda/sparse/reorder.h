/* kernels/cuda/sparse/reorder.h - launchers of reorder.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_SPARSE_REORDER_H
#define TD_KERNELS_CUDA_SPARSE_REORDER_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/sort.h"

#ifdef __cplusplus
extern "C" {
#endif

/* order [n]: the entries of indices [n, tuples.depth] in row-major order, equal ones as they stand; by as
 * many sorts as 32 bits of key make necessary, the last axes first. An index outside of its axis counts as
 * the place next to it. sort: room for n; order is other room. */
struct td_cuda_reordering {
    const int64_t *indices;
    struct td_cuda_tuples tuples;
    int64_t n;
    int32_t *order, *other; /* n each; the result is in order */
    struct td_cuda_sort sort;
};
int td_cuda_reorder(const struct td_cuda_reordering *s, struct td_cuda_stream *stream);

/* to = indices [n, rank], moved by so much along an axis; and the sizes of a tensor [depth]. */
int td_cuda_shift_entries(const int64_t *indices, int64_t n, int rank, int axis, int64_t by, int64_t *to,
                          struct td_cuda_stream *stream);
int td_cuda_put_sizes(const struct td_cuda_tuples *sizes, int64_t *to, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
