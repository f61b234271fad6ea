/* kernels/cuda/array/move.cu - elements that go to other places, a thread an element, as plain bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/move.h"

#include <cstring>

#include "kernels/cuda/base/bytes.cuh"

namespace
{

template <class T>
__global__ void move(td_cuda_steps s, const T *__restrict__ x, T *__restrict__ y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[at.b] = x[at.a];
    }
}

template <class T> __global__ void fill(T value, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = value;
    }
}

struct run_fill {
    const unsigned char *value;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        T v;
        memcpy(&v, value, sizeof v);
        return td_cuda_over(fill<T>, n, stream, v, static_cast<T *>(y), n);
    }
};

struct run_move {
    const td_cuda_steps *s;
    const void *x;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(move<T>, n, stream, *s, static_cast<const T *>(x), static_cast<T *>(y), n);
    }
};

} // namespace

int td_cuda_move(size_t bytes, const struct td_cuda_steps *steps, const void *x, void *y, int64_t n,
                 struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_move{steps, x, y, n, stream});
}

int td_cuda_fill(size_t bytes, const unsigned char value[16], void *y, int64_t n,
                 struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_fill{value, y, n, stream});
}
