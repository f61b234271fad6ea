/* kernels/cuda/base/posts.cuh - epilogues in a kernel.
 *
 *   template <..> __global__ void k(.., const __grid_constant__ td_cuda_posts posts)
 *       y[element] = td_cuda_posted(posts, sum, element, channel);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_POSTS_CUH
#define TD_KERNELS_CUDA_BASE_POSTS_CUH

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/posts.h"

__device__ inline float td_cuda_post_one(const td_cuda_post &p, float y, float with)
{
    switch (p.kind) {
    case TD_CUDA_POST_RELU:
        return y < 0 ? 0.0f : y;
    case TD_CUDA_POST_RELU6:
        return y < 0 ? 0.0f : y > 6 ? 6.0f : y;
    case TD_CUDA_POST_LEAKY:
        return y > 0 ? y : y * p.alpha;
    case TD_CUDA_POST_ELU:
        return y < 0 ? expm1f(y) : y;
    case TD_CUDA_POST_SIGMOID:
        return 1.0f / (1.0f + expf(-y));
    case TD_CUDA_POST_TANH:
        return tanhf(y);
    case TD_CUDA_POST_SWISH:
        return y / (1.0f + expf(-y));
    case TD_CUDA_POST_ADD:
        return y + with;
    case TD_CUDA_POST_SUB:
        return y - with;
    case TD_CUDA_POST_MUL:
        return y * with;
    default:
        return y;
    }
}

/* element: where it is in an operand of the result's own shape. */
__device__ inline float td_cuda_posted(const td_cuda_posts &posts, float y, int64_t element, int64_t channel)
{
    for (int i = 0; i < posts.n; i++) {
        const td_cuda_post &p = posts.post[i];
        const int64_t at = p.operand == TD_CUDA_POST_SCALAR    ? 0
                           : p.operand == TD_CUDA_POST_CHANNEL ? channel
                                                               : element;
        y = td_cuda_post_one(p, y, p.kind >= TD_CUDA_POST_ADD ? p.at[at] : 0.0f);
    }
    return y;
}

#endif
