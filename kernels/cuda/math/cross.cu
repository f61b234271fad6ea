/* kernels/cuda/math/cross.cu - products of vectors, a thread an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/cross.h"

#include "kernels/cuda/base/scalar.cuh"

namespace
{

/* Each product is rounded to T, as the host's are. */
template <class T> __device__ auto rounded_product(T a, T b)
{
    return rounded<T>(product(td_cuda_load(a), td_cuda_load(b)));
}

template <class T> __global__ void cross(const T *a, const T *b, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const int64_t row = i / 3 * 3, j = row + (i + 1) % 3, k = row + (i + 2) % 3;
        y[i] = td_cuda_store<T>::of(difference(rounded_product(a[j], b[k]), rounded_product(a[k], b[j])));
    }
}

struct run_cross {
    const void *a, *b;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        return td_cuda_over(cross<T>, n, stream, static_cast<const T *>(a), static_cast<const T *>(b),
                            static_cast<T *>(y), n);
    }
};

} // namespace

int td_cuda_cross(enum td_cuda_type type, const void *a, const void *b, void *y, int64_t rows,
                  struct td_cuda_stream *stream)
{
    return td_cuda_with_real(type, run_cross{a, b, y, 3 * rows, stream});
}
