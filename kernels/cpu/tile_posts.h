/* kernels/cpu/tile_posts.h - epilogues (core/graph/kernel.h, struct td_post) of our own products, which
 * make their result tile by tile.
 *
 * Cheap ones are done to each vector of a tile while it is in registers (winograd.inc): bias, scale and
 * shift, a
 * sum with a tensor of the result's shape, ReLU and ReLU6. From the first costly one on (sigmoid, tanh,
 * swish, GELU) they are done row by row, once a block of the result is complete and still in a cache.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_TILE_POSTS_H
#define TD_KERNELS_CPU_TILE_POSTS_H

#include "core/graph/op.h"

struct td_tile_posts {
    const struct td_post *post;
    const float *const *operand; /* by post */
    int n, n_cheap;
    int64_t channels; /* of the result: its last axis */
};

enum { TD_TILE_POSTS = 8 };
/* How many of the query's posts can be done, from the first on; *cheap of them in registers. */
int td_tile_posts_taken(const struct td_kernel_query *q, int *cheap);
/* Those that are not cheap, on channels [from, to) of the row that begins at y + at. */
void td_tile_posts_finish(const struct td_tile_posts *p, float *y, int64_t at, int64_t from, int64_t to);

#endif
