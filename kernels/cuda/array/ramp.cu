/* kernels/cuda/array/ramp.cu - LeakyRelu and its gradient, a thread an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/ramp.h"

#include "kernels/cuda/base/launch.cuh"

namespace
{

template <class T> __global__ void leaky(const T *sign, const T *x, T *y, int64_t n, float alpha)
{
    using W = typename td_cuda_wide<T>::type;
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const W v = td_cuda_load(x[i]);
        y[i] = td_cuda_store<T>::of(td_cuda_load(sign[i]) > 0 ? v : v * static_cast<W>(alpha));
    }
}

struct run_leaky {
    const void *sign, *x;
    void *y;
    int64_t n;
    float alpha;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(leaky<T>, n, stream, static_cast<const T *>(sign), static_cast<const T *>(x),
                            static_cast<T *>(y), n, alpha);
    }
};

} // namespace

int td_cuda_leaky(enum td_cuda_type type, const void *sign, const void *x, void *y, int64_t n, float alpha,
                  struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_leaky{sign, x, y, n, alpha, stream});
}
