/* kernels/cuda/fused/fused_posts.h - which steps behind a head its kernel is asked to do itself
 * (core/graph/kernel.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_FUSED_POSTS_H
#define TD_KERNELS_CUDA_FUSED_POSTS_H

#include "core/graph/kernel.h"
#include "kernels/cuda/fused/fused_program.h"

enum { TD_CUDA_FUSED_POSTS = 8 };

/* The longest run of them that there are words for. Behind the first i posts, `last` is the step whose result
 * the head's kernel leaves. */
struct td_cuda_fused_posts {
    int n;
    struct td_post post[TD_CUDA_FUSED_POSTS];
    short operand[TD_CUDA_FUSED_POSTS]; /* of the program; -1: none */
    short last[TD_CUDA_FUSED_POSTS + 1];
};
struct td_cuda_fused_posts td_cuda_fused_find_posts(const struct td_cuda_fused_plan *f);

/* Takes what the first n posts do out of the program, in which the head's result is now what they leave. No
 * step may be left. */
void td_cuda_fused_take_posts(struct td_cuda_fused_plan *f, const struct td_cuda_fused_posts *posts, int n);

#endif
