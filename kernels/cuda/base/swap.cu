/* kernels/cuda/base/swap.cu - a matrix transposed in tiles of 32 x 32, by way of shared memory: both sides
 * are read and written along their rows. A shared row is one longer than a tile, so that a column's elements
 * lie in different banks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/swap.h"

#include "kernels/cuda/base/bytes.cuh"

namespace
{

constexpr int SIDE = 32, AT_ONCE = THREADS / SIDE;

template <class T>
__global__ void __launch_bounds__(THREADS)
    swap_axes(const T *__restrict__ x, T *__restrict__ y, int64_t rows, int64_t columns, int64_t n)
{
    __shared__ T tile[SIDE][SIDE + 1];
    const int64_t across = (columns + SIDE - 1) / SIDE;
    const int along = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t top = i / across * SIDE, left = i % across * SIDE;
        for (int r = first; r < SIDE; r += AT_ONCE) {
            if (top + r < rows && left + along < columns) {
                tile[r][along] = x[(top + r) * columns + left + along];
            }
        }
        __syncthreads();
        for (int r = first; r < SIDE; r += AT_ONCE) {
            if (left + r < columns && top + along < rows) {
                y[(left + r) * rows + top + along] = tile[along][r];
            }
        }
        __syncthreads();
    }
}

struct run_swap {
    int64_t rows, columns;
    const void *x;
    void *y;
    struct td_cuda_stream *stream;
    template <class T> int with() const
    {
        const int64_t n = (rows + SIDE - 1) / SIDE * ((columns + SIDE - 1) / SIDE);
        return td_cuda_blocks(swap_axes<T>, n, stream, static_cast<const T *>(x), static_cast<T *>(y), rows,
                              columns, n);
    }
};

} // namespace

int td_cuda_swap(size_t bytes, int64_t rows, int64_t columns, const void *x, void *y,
                 struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_swap{rows, columns, x, y, stream});
}
