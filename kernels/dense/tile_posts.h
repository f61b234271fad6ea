/* kernels/dense/tile_posts.h - epilogues (core/graph/kernel.h, struct td_post) of our own products, which
 * make their result tile by tile.
 *
 * Cheap ones can be done to each vector of a tile while it is in registers (winograd.inc): bias, scale and
 * shift, a sum with a tensor of the result's shape, ReLU and ReLU6. From the first costly one on (sigmoid,
 * tanh, swish, GELU) they are done row by row, once a block of the result is complete and still in a cache;
 * products whose tiles are long sums (gemm_panels.h) do all of them so.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_TILE_POSTS_H
#define TD_KERNELS_CPU_TILE_POSTS_H

#include "core/graph/op.h"

enum { TD_TILE_POSTS = 8 };

struct td_tile_posts {
    struct td_post post[TD_TILE_POSTS];
    int n, n_cheap;
    int64_t channels; /* of the result: its last axis */
    /* set by each run: */
    const float *const *operand; /* by post */
    float *y;                    /* the result */
};

/* Those of the query's posts that can be done, from the first on; n_cheap of them in registers. */
struct td_tile_posts td_tile_posts_taken(const struct td_kernel_query *q, int64_t channels);
/* Posts [first, n) on channels [from, to) of the row that begins at y + at. */
void td_tile_posts_finish(const struct td_tile_posts *p, int first, int64_t at, int64_t from, int64_t to);

#endif
