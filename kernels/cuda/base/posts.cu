/* kernels/cuda/base/posts.cu - epilogues by themselves, behind a kernel that does not have them: a thread an
 * element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/posts.cuh"

namespace
{

template <class T>
__global__ void __launch_bounds__(THREADS)
    behind(T *y, int64_t n, int64_t channels, const __grid_constant__ td_cuda_posts posts)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = td_cuda_store<T>::of(td_cuda_posted<T>(posts, td_cuda_load(y[i]), i, i % channels));
    }
}

struct run_behind {
    const td_cuda_posts *posts;
    void *y;
    int64_t n, channels;
    struct td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        if constexpr (std::is_same_v<T, double>) {
            return static_cast<int>(cudaErrorInvalidValue);
        } else {
            return td_cuda_over(behind<T>, n, stream, static_cast<T *>(y), n, channels, *posts);
        }
    }
};

} // namespace

int td_cuda_posts_behind(enum td_cuda_type type, const struct td_cuda_posts *posts, void *y, int64_t n,
                         int64_t channels, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_behind{posts, y, n, channels, stream});
}
