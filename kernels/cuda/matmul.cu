/* kernels/cuda/matmul.cu - matrix products in tiles of 64 x 64, for what no library is asked for.
 *
 *   a block    a tile of y; 16 rows of k at a time go through shared memory
 *   a thread   4 x 4 elements of the tile, 16 apart, so that a warp writes runs of neighbours
 *
 * Tiles are read along the operand's neighbours, whichever of its dims these are. Shared rows are one longer
 * than a tile: threads that write a column then meet different banks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/launch.cuh"

namespace
{

constexpr int TILE = 64, DEEP = 16, SIDE = 16, EACH = TILE / SIDE;

struct tile { /* of one batch */
    int64_t row, column, at_a, at_b, at_y;
};

__device__ tile tile_of(const td_cuda_product &s, int64_t number)
{
    const int64_t across = (s.n + TILE - 1) / TILE, down = (s.m + TILE - 1) / TILE;
    const int64_t batch = number / (across * down);
    const td_cuda_place at = td_cuda_place_of(s.batch, batch);
    return {number / across % down * TILE, number % across * TILE, at.a, at.b, batch * s.m * s.n};
}

/* Rows [from, from + TILE) of x, DEEP of their columns from `deep` on, into to[column][row]; zeros
 * outside. */
template <class T, class W>
__device__ void fetch(const T *x, int64_t row_step, int64_t deep_step, int64_t from, int64_t rows,
                      int64_t deep, int64_t depth, W (*to)[TILE + 1])
{
    for (int e = threadIdx.x; e < TILE * DEEP; e += THREADS) {
        const int r = deep_step == 1 ? e / DEEP : e % TILE, k = deep_step == 1 ? e % DEEP : e / TILE;
        const bool inside = from + r < rows && deep + k < depth;
        to[k][r] = inside ? td_cuda_load(x[(from + r) * row_step + (deep + k) * deep_step]) : W(0);
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 1 : 2)
    matmul(td_cuda_product s, int64_t tiles, const T *__restrict__ a, const T *__restrict__ b,
           T *__restrict__ y)
{
    using W = typename td_cuda_wide<T>::type;
    __shared__ W left[DEEP][TILE + 1], right[DEEP][TILE + 1];
    const int x = threadIdx.x % SIDE, z = threadIdx.x / SIDE;
    for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const tile t = tile_of(s, number);
        W sum[EACH][EACH] = {};
        for (int64_t k = 0; k < s.k; k += DEEP) {
            fetch(a + t.at_a, s.a_row, s.a_k, t.row, s.m, k, s.k, left);
            fetch(b + t.at_b, s.b_col, s.b_k, t.column, s.n, k, s.k, right);
            __syncthreads();
            for (int p = 0; p < DEEP; p++) {
                for (int i = 0; i < EACH; i++) {
                    for (int j = 0; j < EACH; j++) {
                        sum[i][j] += left[p][z + i * SIDE] * right[p][x + j * SIDE];
                    }
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++) {
                const int64_t row = t.row + z + i * SIDE, column = t.column + x + j * SIDE;
                if (row < s.m && column < s.n) {
                    y[t.at_y + row * s.n + column] = td_cuda_store<T>::of(sum[i][j]);
                }
            }
        }
    }
}

struct run_matmul {
    const td_cuda_product *s;
    const void *a, *b;
    void *y;
    struct td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int64_t tiles = (s->m + TILE - 1) / TILE * ((s->n + TILE - 1) / TILE) * s->batches;
        return td_cuda_blocks(matmul<T>, tiles, stream, *s, tiles, static_cast<const T *>(a),
                              static_cast<const T *>(b), static_cast<T *>(y));
    }
};

} // namespace

int td_cuda_matmul(enum td_cuda_type type, const struct td_cuda_product *s, const void *a, const void *b,
                   void *y, struct td_cuda_stream *stream)
{
    return td_cuda_with_float(type, run_matmul{s, a, b, y, stream});
}
