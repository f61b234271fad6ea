/* kernels/cuda/math/cross.cu - products of vectors of three. Each product is rounded to the type, as
 * TensorFlow's are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/cross.h"

#include "kernels/cuda/base/exact.cuh"
#include "kernels/cuda/base/scalar.cuh"

namespace
{

template <class T, class W> __device__ W one_product(W a, W b)
{
    if constexpr (std::is_integral_v<W>) {
        return product(a, b);
    } else {
        return rounded<T>(td_cuda_times(a, b));
    }
}

template <class T> __global__ void cross(const T *a, const T *b, T *y, int64_t n)
{
    for (int64_t at = td_cuda_first(); at < n; at += td_cuda_stride()) {
        const int64_t row = at / 3, i = at - row * 3, j = row * 3 + (i + 1) % 3, k = row * 3 + (i + 2) % 3;
        y[at] = td_cuda_store<T>::of(difference(one_product<T>(td_cuda_load(a[j]), td_cuda_load(b[k])),
                                                one_product<T>(td_cuda_load(a[k]), td_cuda_load(b[j]))));
    }
}

struct run_cross {
    const void *a, *b;
    void *y;
    int64_t rows;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(cross<T>, rows * 3, stream, static_cast<const T *>(a), static_cast<const T *>(b),
                            static_cast<T *>(y), rows * 3);
    }
};

} // namespace

int td_cuda_cross(enum td_cuda_type type, const void *a, const void *b, void *y, int64_t rows,
                  struct td_cuda_stream *stream)
{
    return td_cuda_with_real(type, run_cross{a, b, y, rows, stream});
}
