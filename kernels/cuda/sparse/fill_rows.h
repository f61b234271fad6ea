/* kernels/cuda/sparse/fill_rows.h - launchers of fill_rows.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_SPARSE_FILL_ROWS_H
#define TD_KERNELS_CUDA_SPARSE_FILL_ROWS_H

#include "kernels/cuda/base/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* n entries, each of the row that comes first in its indices [n, width]; rows without one get one. */
struct td_cuda_fill_rows {
    const int64_t *indices;
    int64_t n, width, rows;
    const int32_t *keys, *order; /* entries by row: what td_cuda_fill_rows_keys made, sorted */
    struct td_cuda_ranks ranks;  /* [rows], marked: those without an entry */
    int32_t *from;               /* [n + rows]: room */
    const void *values, *absent; /* [n]; the value that a row gets */
    /* of what comes out: [all, width], [all], [rows], and [n]: where each entry went */
    int64_t *to;
    void *y;
    bool *empty;
    int64_t *map;
};
/* Rows outside are refused. */
int td_cuda_fill_rows_keys(const struct td_cuda_fill_rows *s, int32_t *keys, int32_t *fault,
                           struct td_cuda_stream *stream);
int td_cuda_fill_rows_mark(const struct td_cuda_fill_rows *s, struct td_cuda_stream *stream);
/* all: entries that come out; values are of so many bytes. */
int td_cuda_fill_rows_tell(const struct td_cuda_fill_rows *s, int64_t all, size_t bytes,
                           struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
