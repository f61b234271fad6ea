/* kernels/cuda/base/posts.cuh - epilogues in a kernel.
 *
 *   template <..> __global__ void k(.., const __grid_constant__ td_cuda_posts posts)
 *       y[element] = td_cuda_posted<T>(posts, sum, element, channel);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_POSTS_CUH
#define TD_KERNELS_CUDA_BASE_POSTS_CUH

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/posts.h"

/* y as numbers of type T hold it. */
template <class T> __device__ inline float td_cuda_post_rounded(float y)
{
    return td_cuda_load(td_cuda_store<T>::of(y));
}

/* Sigmoid and a product, rounded between the two where T is. */
template <class T> __device__ inline float td_cuda_post_swish(float y)
{
    if constexpr (sizeof(T) == sizeof(float)) {
        return y / (1.0f + expf(-y));
    } else {
        return y * td_cuda_post_rounded<T>(1.0f / (1.0f + expf(-y)));
    }
}

template <class T> __device__ inline float td_cuda_post_one(const td_cuda_post &p, float y, float with)
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
        return td_cuda_post_swish<T>(y);
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
template <class T>
__device__ inline float td_cuda_posted(const td_cuda_posts &posts, float y, int64_t element, int64_t channel)
{
    y = td_cuda_post_rounded<T>(y);
    for (int i = 0; i < posts.n; i++) {
        const td_cuda_post &p = posts.post[i];
        const int64_t at = p.operand == TD_CUDA_POST_SCALAR    ? 0
                           : p.operand == TD_CUDA_POST_CHANNEL ? channel
                                                               : element;
        const float with = p.kind >= TD_CUDA_POST_ADD ? td_cuda_load(static_cast<const T *>(p.at)[at]) : 0.0f;
        y = td_cuda_post_rounded<T>(td_cuda_post_one<T>(p, y, with));
    }
    return y;
}

#endif
