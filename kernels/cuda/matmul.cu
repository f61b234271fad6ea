/* kernels/cuda/matmul.cu - matrix products in tiles (kernels/cuda/tile.cuh), where no library makes them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/tile.cuh"

namespace
{

template <class T> struct product {
    using wide = typename td_cuda_wide<T>::type;
    const T *__restrict__ a, *__restrict__ b;
    T *__restrict__ y;
    int64_t rows, columns, depth, a_row, a_k, b_k, b_col;
    bool left_by_depth, right_by_depth;
    __device__ wide left(int64_t row, int64_t k) const { return td_cuda_load(a[row * a_row + k * a_k]); }
    __device__ wide right(int64_t k, int64_t column) const
    {
        return td_cuda_load(b[k * b_k + column * b_col]);
    }
    __device__ void put(int64_t row, int64_t column, wide sum) const
    {
        y[row * columns + column] = td_cuda_store<T>::of(sum);
    }
};

/* p is of the first batch. */
template <class T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 1 : 2)
    matmul(product<T> p, td_cuda_steps batches, int64_t tiles, int64_t n)
{
    const product<T> first = p;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t batch = i / tiles;
        const td_cuda_place at = td_cuda_place_of(batches, batch);
        p.a = first.a + at.a;
        p.b = first.b + at.b;
        p.y = first.y + batch * p.rows * p.columns;
        td_cuda_tile(p, i % tiles);
    }
}

struct run_matmul {
    const td_cuda_product *s;
    const void *a, *b;
    void *y;
    struct td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const product<T> p = {static_cast<const T *>(a),
                              static_cast<const T *>(b),
                              static_cast<T *>(y),
                              s->m,
                              s->n,
                              s->k,
                              s->a_row,
                              s->a_k,
                              s->b_k,
                              s->b_col,
                              s->a_k == 1,
                              s->b_k == 1};
        const int64_t tiles = td_cuda_tiles(p), n = tiles * s->batches;
        return td_cuda_blocks(matmul<T>, n, stream, p, s->batch, tiles, n);
    }
};

} // namespace

int td_cuda_matmul(enum td_cuda_type type, const struct td_cuda_product *s, const void *a, const void *b,
                   void *y, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_matmul{s, a, b, y, stream});
}
