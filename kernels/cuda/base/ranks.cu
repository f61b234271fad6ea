/* kernels/cuda/base/ranks.cu - how many marks stand before each element.
 *
 *   add    a block a tile: how many marks it has
 *   sums   where each tile begins, by one block
 *   rank   a block a tile again: the elements of each thread stand behind those of the threads before it
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/ranks.h"

#include "kernels/cuda/base/sums.cuh"

namespace
{

constexpr int EACH = 8, TILE = EACH * THREADS;

__global__ void sums(int32_t *counts, int64_t n, int64_t *total)
{
    __shared__ int32_t shared[THREADS];
    int32_t before = 0;
    for (int64_t from = 0; from < n; from += TILE) {
        const int64_t first = from + static_cast<int64_t>(threadIdx.x) * EACH;
        int32_t sum = 0, all;
        for (int64_t i = first; i < first + EACH && i < n; i++) {
            sum += counts[i];
        }
        sum = before + td_cuda_sum_before(sum, shared, &all);
        for (int64_t i = first; i < first + EACH && i < n; i++) {
            const int32_t here = counts[i];
            counts[i] = sum;
            sum += here;
        }
        before += all;
    }
    if (total != nullptr && threadIdx.x == 0) {
        *total = before;
    }
}

/* Of the elements of this thread in the tile. */
__device__ int32_t marks_of(const td_cuda_ranks &r, int64_t tile)
{
    const int64_t first = tile * TILE + static_cast<int64_t>(threadIdx.x) * EACH;
    int32_t sum = 0;
    for (int64_t i = first; i < first + EACH && i < r.n; i++) {
        sum += r.at[i];
    }
    return sum;
}

__global__ void add(td_cuda_ranks r, int64_t tiles)
{
    __shared__ int32_t shared[THREADS];
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int32_t all;
        (void)td_cuda_sum_before(marks_of(r, tile), shared, &all);
        if (threadIdx.x == 0) {
            r.sums[tile] = all;
        }
    }
}

__global__ void rank(td_cuda_ranks r, int64_t tiles)
{
    __shared__ int32_t shared[THREADS];
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int32_t all, before = r.sums[tile] + td_cuda_sum_before(marks_of(r, tile), shared, &all);
        const int64_t first = tile * TILE + static_cast<int64_t>(threadIdx.x) * EACH;
        for (int64_t i = first; i < first + EACH && i < r.n; i++) {
            const int32_t here = r.at[i];
            r.at[i] = before;
            before += here;
            if (i + 1 == r.n) {
                r.at[r.n] = before;
            }
        }
    }
}

int64_t tiles_of(int64_t n)
{
    return (n + TILE - 1) / TILE;
}

} // namespace

int td_cuda_sums(int32_t *counts, int64_t n, int64_t *all, struct td_cuda_stream *stream)
{
    return td_cuda_blocks(sums, 1, stream, counts, n, all);
}

size_t td_cuda_ranks_bytes(int64_t n)
{
    return static_cast<size_t>(n + 1 + tiles_of(n)) * sizeof(int32_t);
}

struct td_cuda_ranks td_cuda_ranks_in(void *workspace, int64_t n)
{
    auto *at = static_cast<int32_t *>(workspace);
    return {n, at, at + n + 1};
}

int td_cuda_ranks_run(const struct td_cuda_ranks *r, int64_t *all, struct td_cuda_stream *stream)
{
    const int64_t tiles = tiles_of(r->n);
    int error = td_cuda_blocks(add, tiles, stream, *r, tiles);
    error = error != 0 ? error : td_cuda_sums(r->sums, tiles, all, stream);
    return error != 0 ? error : td_cuda_blocks(rank, tiles, stream, *r, tiles);
}
