/* kernels/cuda/move.cu - elements that go to other places, a thread an element, as plain bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/move.h"

#include "kernels/cuda/launch.cuh"

namespace
{

struct alignas(16) sixteen {
    uint64_t half[2];
};

template <class T>
__global__ void move(td_cuda_steps s, const T *__restrict__ x, T *__restrict__ y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[at.b] = x[at.a];
    }
}

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
    const run_move run = {steps, x, y, n, stream};
    return bytes == 1    ? run.with<uint8_t>()
           : bytes == 2  ? run.with<uint16_t>()
           : bytes == 4  ? run.with<uint32_t>()
           : bytes == 8  ? run.with<uint64_t>()
           : bytes == 16 ? run.with<sixteen>()
                         : static_cast<int>(cudaErrorInvalidValue);
}
