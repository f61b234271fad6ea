/* kernels/cuda/array/pick.h - launchers of pick.cu; each returns CUDA's error number.
 *
 * Each element of y is one of x, by where it stands, or a filler; or, of gradients, the sum of those of x
 * that were it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_PICK_H
#define TD_KERNELS_CUDA_ARRAY_PICK_H

#include "kernels/cuda/base/conv_sizes.h"
#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

struct td_cuda_pick {
    size_t bytes; /* an element */
    const void *x;
    void *y;
    int64_t n, most;   /* elements: of y; of the larger of x and y */
    const void *other; /* what is not picked: NULL: zeros */
    bool each;         /* other has an element for each of y's; else one for all */
};

/* y's axes, innermost first; a position, less `before`, is one along x's axis of `in`, x's neighbours being
 * `step` apart. WRAP: modulo in; MIRROR: reflected at the ends, which are repeated unless `skips`. */
enum td_cuda_shift { TD_CUDA_WRAP, TD_CUDA_MIRROR };
struct td_cuda_shifts {
    enum td_cuda_shift kind;
    int rank, skips;
    int64_t dim[TD_CUDA_DIMS], in[TD_CUDA_DIMS], before[TD_CUDA_DIMS], step[TD_CUDA_DIMS];
};
int td_cuda_pick_shifted(const struct td_cuda_pick *p, const struct td_cuda_shifts *s,
                         struct td_cuda_stream *stream);
/* One axis of MIRROR the other way: x [outer, dim, inner] -> y [outer, in, inner], each the sum of what was
 * inside, in the border in front, and in the one behind. */
struct td_cuda_unmirror {
    int64_t outer, dim, in, before, inner;
    int skips;
};
int td_cuda_pick_unmirrored(enum td_cuda_type type, const struct td_cuda_unmirror *s, const void *x, void *y,
                            struct td_cuda_stream *stream);

/* Axes of a tensor and how far apart neighbours are there: `sequence` goes backwards up to the length that
 * `batch` has. A length outside of [0, sequence] is refused. */
struct td_cuda_sequences {
    int64_t sequence, sequence_step, batch, batch_step;
    struct td_cuda_indices lengths;
    int32_t *fault;
};
int td_cuda_pick_sequences(const struct td_cuda_pick *p, const struct td_cuda_sequences *s,
                           struct td_cuda_stream *stream);

/* big [batch, big.., inner] and small [blocks * batch, small.., inner]: position s of big is s + before of
 * blocks of `size`. */
struct td_cuda_blocking {
    int n;
    int64_t batch, inner;
    int64_t size[TD_CUDA_DIMS], before[TD_CUDA_DIMS], big[TD_CUDA_DIMS], small[TD_CUDA_DIMS];
};
int td_cuda_pick_small(const struct td_cuda_pick *p, const struct td_cuda_blocking *s,
                       struct td_cuda_stream *stream);
int td_cuda_pick_big(const struct td_cuda_pick *p, const struct td_cuda_blocking *s,
                     struct td_cuda_stream *stream);

/* Diagonals lo..hi of matrices [rows, cols], and packed [hi - lo + 1, longest], the highest first; a shorter
 * one stands at the left or right of its row. */
struct td_cuda_diagonals {
    int64_t rows, cols, lo, hi, longest;
    bool left_above, left_below;
};
int td_cuda_pick_packed(const struct td_cuda_pick *p, const struct td_cuda_diagonals *s,
                        struct td_cuda_stream *stream);
int td_cuda_pick_matrix(const struct td_cuda_pick *p, const struct td_cuda_diagonals *s,
                        struct td_cuda_stream *stream);
/* Of matrices [rows, cols]: at most `below` and `above` from the main diagonal; negative: all. */
struct td_cuda_band {
    int64_t rows, cols, below, above;
};
int td_cuda_pick_band(const struct td_cuda_pick *p, const struct td_cuda_band *s,
                      struct td_cuda_stream *stream);

/* y [outer, depth, inner]: x's one element where indices [outer, inner] have the depth. */
struct td_cuda_one_hot {
    int64_t depth, inner;
    struct td_cuda_indices indices;
};
int td_cuda_pick_one_hot(const struct td_cuda_pick *p, const struct td_cuda_one_hot *s,
                         struct td_cuda_stream *stream);

/* y [batch, out.., k.., depth] of x [batch, in.., depth]; and sums the other way. */
struct td_cuda_patches {
    struct td_cuda_axis axis[3];
    int64_t depth;
};
int td_cuda_pick_patches(const struct td_cuda_pick *p, const struct td_cuda_patches *s,
                         struct td_cuda_stream *stream);
int td_cuda_pick_unpatched(enum td_cuda_type type, const struct td_cuda_pick *p,
                           const struct td_cuda_patches *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
