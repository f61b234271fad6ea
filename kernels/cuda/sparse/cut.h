/* kernels/cuda/sparse/cut.h - launchers of cut.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_SPARSE_CUT_H
#define TD_KERNELS_CUDA_SPARSE_CUT_H

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Those of n entries, indices [n, size.depth], that lie within [start, start + size). */
struct td_cuda_cut {
    const int64_t *indices;
    int64_t n, start[TD_CUDA_DEPTH];
    struct td_cuda_tuples size;
    struct td_cuda_ranks ranks; /* marked: those within */
};
int td_cuda_cut_mark(const struct td_cuda_cut *s, struct td_cuda_stream *stream);
/* from [kept] = which entries these are, to [kept, depth] = their indices less start, shape [depth] = size.
 * */
int td_cuda_cut_tell(const struct td_cuda_cut *s, int32_t *from, int64_t *to, int64_t *shape,
                     struct td_cuda_stream *stream);

/* n entries of a tensor of these sizes in parts along an axis: `longer` parts of each + 1, then others of
 * each. */
struct td_cuda_parts {
    const int64_t *indices;
    int64_t n, each, longer;
    struct td_cuda_tuples size;
    int axis;
};
/* Of each entry, the part that it is in. Those outside are refused. */
int td_cuda_parts_keys(const struct td_cuda_parts *s, int32_t *keys, int32_t *fault,
                       struct td_cuda_stream *stream);
/* Of the part that begins at `first` of the axis and is so long: to [n, depth] = the indices of the n entries
 * that `from` names, less first, and shape [depth]. */
int td_cuda_parts_tell(const struct td_cuda_parts *s, const int32_t *from, int64_t n, int64_t first,
                       int64_t length, int64_t *to, int64_t *shape, struct td_cuda_stream *stream);

/* y [n], zeros, gets values [m] where entry k of out [m, depth] is found among in [n, depth], start added:
 * the first behind what entry k - 1 has found. Refuses what is not found. */
struct td_cuda_cut_grad {
    const int64_t *in, *out, *start;
    int64_t n, m;
    int depth;
    int32_t *found; /* [m]: room */
    int32_t *plain; /* room: in ascends, and all are found in order */
    const void *values;
    void *y;
    int32_t *fault;
};
int td_cuda_cut_grad_put(const struct td_cuda_cut_grad *s, size_t bytes, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
