/* kernels/cuda/base/tile.cuh - sums of products, y[row][column] = sum over k of left(row, k) * right(k,
 * column), for kernels that say where factors come from.
 *
 *   a block    a tile of y, 64 x 64; 16 of its k at a time go through shared memory
 *   a thread   4 x 4 elements of the tile, 16 apart, so that a warp writes runs of neighbours
 *
 * A product P has rows, columns and depth; wide, what it is summed in; left(row, k), right(k, column) and
 * put(row, column, sum); and left_by_depth, right_by_depth: neighbours in memory are neighbours of k, and
 * tiles are read along them. Shared rows are one longer than a tile: threads that write a column then meet
 * different banks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_TILE_CUH
#define TD_KERNELS_CUDA_BASE_TILE_CUH

#include "kernels/cuda/base/fold.cuh"

enum { TD_CUDA_TILE = 64, TD_CUDA_DEEP = 16, TD_CUDA_SIDE = 16, TD_CUDA_EACH = TD_CUDA_TILE / TD_CUDA_SIDE };

/* to[k][r] = at(from + r, deep + k), zeros outside. */
template <class W, class At>
__device__ void td_cuda_fetch(const At &at, int64_t from, int64_t rows, int64_t deep, int64_t depth,
                              bool by_depth, W (*to)[TD_CUDA_TILE + 1])
{
    for (int e = threadIdx.x; e < TD_CUDA_TILE * TD_CUDA_DEEP; e += THREADS) {
        const int r = by_depth ? e / TD_CUDA_DEEP : e % TD_CUDA_TILE;
        const int k = by_depth ? e % TD_CUDA_DEEP : e / TD_CUDA_TILE;
        const bool inside = from + r < rows && deep + k < depth;
        to[k][r] = inside ? at(from + r, deep + k) : W(0);
    }
}

template <class P> __host__ __device__ int64_t td_cuda_tiles(const P &p)
{
    return (p.rows + TD_CUDA_TILE - 1) / TD_CUDA_TILE * ((p.columns + TD_CUDA_TILE - 1) / TD_CUDA_TILE);
}

/* Tile `number` of p, by a whole block. */
template <class P> __device__ void td_cuda_tile(const P &p, int64_t number)
{
    using W = typename P::wide;
    __shared__ W left[TD_CUDA_DEEP][TD_CUDA_TILE + 1], right[TD_CUDA_DEEP][TD_CUDA_TILE + 1];
    const int64_t across = (p.columns + TD_CUDA_TILE - 1) / TD_CUDA_TILE;
    const int64_t top = number / across * TD_CUDA_TILE, first = number % across * TD_CUDA_TILE;
    const int x = threadIdx.x % TD_CUDA_SIDE, z = threadIdx.x / TD_CUDA_SIDE;
    W sum[TD_CUDA_EACH][TD_CUDA_EACH] = {};
    for (int64_t k = 0; k < p.depth; k += TD_CUDA_DEEP) {
        td_cuda_fetch([&](int64_t r, int64_t d) { return p.left(r, d); }, top, p.rows, k, p.depth,
                      p.left_by_depth, left);
        td_cuda_fetch([&](int64_t r, int64_t d) { return p.right(d, r); }, first, p.columns, k, p.depth,
                      p.right_by_depth, right);
        __syncthreads();
        for (int d = 0; d < TD_CUDA_DEEP; d++) {
            for (int i = 0; i < TD_CUDA_EACH; i++) {
                for (int j = 0; j < TD_CUDA_EACH; j++) {
                    sum[i][j] += left[d][z + i * TD_CUDA_SIDE] * right[d][x + j * TD_CUDA_SIDE];
                }
            }
        }
        __syncthreads();
    }
    /* However long `put` is: an index that is no constant would keep the sums out of registers. */
    TD_UNROLL
    for (int i = 0; i < TD_CUDA_EACH; i++) {
        TD_UNROLL
        for (int j = 0; j < TD_CUDA_EACH; j++) {
            const int64_t row = top + z + i * TD_CUDA_SIDE, column = first + x + j * TD_CUDA_SIDE;
            if (row < p.rows && column < p.columns) {
                p.put(row, column, sum[i][j]);
            }
        }
    }
}

/* Where a tile would be mostly empty: GROUP neighbouring threads make one element, `number` of p's. All
 * threads of the block come here alike; `inside` says whose element there is. */
template <int GROUP, class P> __device__ void td_cuda_dot(const P &p, int64_t number, bool inside)
{
    using W = typename P::wide;
    __shared__ W parts[THREADS];
    const int64_t row = inside ? number / p.columns : 0, column = inside ? number % p.columns : 0;
    W sum = 0;
    for (int64_t k = threadIdx.x % GROUP; inside && k < p.depth; k += GROUP) {
        sum += p.left(row, k) * p.right(k, column);
    }
    if (GROUP > 1) {
        sum = td_cuda_fold<GROUP>(sum, parts, [](W a, W b) { return a + b; });
    }
    if (inside && threadIdx.x % GROUP == 0) {
        p.put(row, column, sum);
    }
}

#endif
