/* kernels/cuda/math/matmul.cu - matrix products in tiles (kernels/cuda/base/tile.cuh), where no library makes
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/matmul.h"

#include "kernels/cuda/base/posts.cuh"
#include "kernels/cuda/base/tile.cuh"

namespace
{

template <class T, bool POSTS> struct product {
    using wide = typename td_cuda_wide<T>::type;
    const T *__restrict__ a, *__restrict__ b;
    T *__restrict__ y;
    int64_t rows, columns, depth, a_row, a_k, b_k, b_col;
    bool left_by_depth, right_by_depth;
    const td_cuda_posts *posts;
    int64_t before; /* elements of the batches before this one */
    __device__ wide left(int64_t row, int64_t k) const { return td_cuda_load(a[row * a_row + k * a_k]); }
    __device__ wide right(int64_t k, int64_t column) const
    {
        return td_cuda_load(b[k * b_k + column * b_col]);
    }
    __device__ void put(int64_t row, int64_t column, wide sum) const
    {
        const int64_t at = row * columns + column;
        if constexpr (POSTS) {
            sum = td_cuda_posted<T>(*posts, sum, before + at, column);
        }
        y[at] = td_cuda_store<T>::of(sum);
    }
};

/* p is of the first batch. */
template <class T, bool POSTS>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 1 : 2)
    matmul(product<T, POSTS> p, td_cuda_steps batches, int64_t tiles, int64_t n,
           const __grid_constant__ td_cuda_posts posts)
{
    const product<T, POSTS> first = p;
    p.posts = &posts;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t batch = i / tiles;
        const td_cuda_place at = td_cuda_place_of(batches, batch);
        p.a = first.a + at.a;
        p.b = first.b + at.b;
        p.before = batch * p.rows * p.columns;
        p.y = first.y + p.before;
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
        if constexpr (!std::is_same_v<T, double>) {
            if (s->posts.n > 0) {
                return run<T, true>();
            }
        }
        return run<T, false>();
    }
    template <class T, bool POSTS> int run() const
    {
        const product<T, POSTS> p = {static_cast<const T *>(a),
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
                                     s->b_k == 1,
                                     nullptr,
                                     0};
        const int64_t tiles = td_cuda_tiles(p), n = tiles * s->batches;
        return td_cuda_blocks(matmul<T, POSTS>, n, stream, p, s->batch, tiles, n, s->posts);
    }
};

} // namespace

int td_cuda_matmul(enum td_cuda_type type, const struct td_cuda_product *s, const void *a, const void *b,
                   void *y, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_matmul{s, a, b, y, stream});
}
