/* kernels/cuda/nn/softmax.cu - Softmax and LogSoftmax over the last axis. A row has 32 threads, or a block
 * where it is long; it is shifted by its maximum, so exp() cannot overflow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/softmax.h"

#include <cmath>

#include "kernels/cuda/base/fold.cuh"

namespace
{

template <class W> __device__ W larger(W a, W b)
{
    return a >= b || a != a ? a : b;
}

template <int GROUP, class T>
__global__ void softmax(bool logarithm, const T *x, T *y, int64_t rows, int64_t n)
{
    using W = typename td_cuda_wide<T>::type;
    __shared__ W shared[THREADS];
    const int at = threadIdx.x % GROUP;
    const int64_t each = THREADS / GROUP;
    for (int64_t from = blockIdx.x * each; from < rows; from += gridDim.x * each) {
        const int64_t row = from + threadIdx.x / GROUP, end = row < rows ? n : 0, first = row * n;
        W top = td_cuda_least<W>, sum = 0;
        for (int64_t i = at; i < end; i += GROUP) {
            top = larger(top, td_cuda_load(x[first + i]));
        }
        top = td_cuda_fold<GROUP>(top, shared, [](W a, W b) { return larger(a, b); });
        for (int64_t i = at; i < end; i += GROUP) {
            sum += exp(td_cuda_load(x[first + i]) - top);
        }
        sum = td_cuda_fold<GROUP>(sum, shared, [](W a, W b) { return a + b; });
        for (int64_t i = at; i < end; i += GROUP) {
            const W v = td_cuda_load(x[first + i]) - top;
            y[first + i] = td_cuda_store<T>::of(logarithm ? v - log(sum) : exp(v) / sum);
        }
    }
}

struct run_softmax {
    bool logarithm;
    const void *x;
    void *y;
    int64_t rows, n;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const auto *from = static_cast<const T *>(x);
        auto *to = static_cast<T *>(y);
        if (n <= THREADS) {
            return td_cuda_blocks(softmax<32, T>, (rows + 7) / 8, stream, logarithm, from, to, rows, n);
        }
        return td_cuda_blocks(softmax<THREADS, T>, rows, stream, logarithm, from, to, rows, n);
    }
};

} // namespace

int td_cuda_softmax(enum td_cuda_type type, bool logarithm, const void *x, void *y, int64_t rows, int64_t n,
                    struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_softmax{logarithm, x, y, rows, n, stream});
}
