/* kernels/cuda/base/posts.h - epilogues (core/graph/kernel.h) that our own products and convolutions do in
 * registers: what a fused node asks its head for, so that the result is not read and written once more.
 * Half and bfloat16 are rounded before the first and behind each, as between the nodes that these were.
 *
 *   prepare   td_cuda_posts_take(q, o, err): takes the first that are known here; the row's state is which
 *   run       s.posts = td_cuda_posts_of(c), for the launcher
 *   release   td_cuda_posts_release
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_POSTS_H
#define TD_KERNELS_CUDA_BASE_POSTS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_post_kind {
    TD_CUDA_POST_RELU,
    TD_CUDA_POST_RELU6,
    TD_CUDA_POST_LEAKY,
    TD_CUDA_POST_ELU,
    TD_CUDA_POST_SIGMOID,
    TD_CUDA_POST_TANH,
    TD_CUDA_POST_SWISH,
    TD_CUDA_POST_ADD, /* operand from here on */
    TD_CUDA_POST_SUB,
    TD_CUDA_POST_MUL
};

/* Operand: one for all, one of each channel, or the element's own. */
enum td_cuda_post_operand { TD_CUDA_POST_SCALAR, TD_CUDA_POST_CHANNEL, TD_CUDA_POST_ELEMENT };

struct td_cuda_post {
    enum td_cuda_post_kind kind;
    enum td_cuda_post_operand operand;
    float alpha;    /* slope of LEAKY */
    const void *at; /* of the result's type */
};

enum { TD_CUDA_POSTS = 6 };
struct td_cuda_posts {
    int n;
    struct td_cuda_post post[TD_CUDA_POSTS];
};

/* The same behind a kernel of somebody else's: of each of n elements of y, in place. Returns CUDA's error
 * number. */
int td_cuda_posts_behind(enum td_cuda_type type, const struct td_cuda_posts *posts, void *y, int64_t n,
                         int64_t channels, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#else

#include "core/graph/kernel.h"
#include "core/graph/op.h"

/* The first of the wanted ones that are known here, without operands. */
struct td_cuda_posts td_cuda_posts_wanted(const struct td_kernel_query *q);
TD_MUST enum td_code td_cuda_posts_take(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                        struct td_err *err);
struct td_cuda_posts td_cuda_posts_of(const struct td_call *c);
/* The same of others than the row's state. */
struct td_cuda_posts td_cuda_posts_with(const struct td_cuda_posts *posts, const struct td_call *c);
void td_cuda_posts_release(void *state);

#endif
#endif
