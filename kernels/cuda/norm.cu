/* kernels/cuda/norm.cu - batch normalisation by given statistics, a thread an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/norm.h"

#include "kernels/cuda/launch.cuh"

namespace
{

template <class T> __global__ void norm(td_cuda_norm s, const T *x, T *y, int64_t n)
{
    const float *const scale = static_cast<const float *>(s.scale);
    const float *const offset = static_cast<const float *>(s.offset);
    const float *const mean = static_cast<const float *>(s.mean);
    const float *const variance = static_cast<const float *>(s.variance);
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t c = i / s.inner % s.channels;
        const float by = scale[c] / sqrtf(variance[c] + s.epsilon);
        y[i] = td_cuda_store<T>::of((static_cast<float>(td_cuda_load(x[i])) - mean[c]) * by + offset[c]);
    }
}

struct run_norm {
    const td_cuda_norm *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t n = s->outer * s->channels * s->inner;
        return td_cuda_over(norm<T>, n, stream, *s, static_cast<const T *>(x), static_cast<T *>(y), n);
    }
};

} // namespace

int td_cuda_norm_given(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x, void *y,
                       struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_norm{s, x, y, stream});
}
