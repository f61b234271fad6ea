/* kernels/cuda/base/sort.cu - a stable sort of small integers, four bits of them a pass, the lowest first.
 *
 *   count   a block a tile of keys: how many have each digit
 *   sums    where each tile's keys of a digit begin (ranks.h)
 *   put     each key behind those of its digit that stand before it
 *
 * Within a tile a thread has neighbouring keys and a counter of its own for each digit; the counters' sums in
 * the order (digit, thread) are the places. What fits in one tile is sorted in shared memory by one launch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/sort.h"

#include <utility>

#include "kernels/cuda/base/ranks.h"
#include "kernels/cuda/base/sums.cuh"

namespace
{

constexpr int BITS = 4, DIGITS = 1 << BITS, EACH = 8, TILE = EACH * THREADS;

struct tile {
    uint16_t place[DIGITS * THREADS]; /* by digit, then thread */
    int32_t sums[THREADS];
    int32_t start[DIGITS];
};

__device__ int digit_of(int32_t key, int shift)
{
    return key >> shift & (DIGITS - 1);
}

/* place[]: where this thread's first key of each digit goes in the tile; start[]: where the digit begins. */
__device__ void find_places(tile &s, const int32_t *keys, int n, int shift)
{
    const int t = threadIdx.x;
    for (int d = 0; d < DIGITS; d++) {
        s.place[d * THREADS + t] = 0;
    }
    for (int i = t * EACH; i < (t + 1) * EACH && i < n; i++) {
        s.place[digit_of(keys[i], shift) * THREADS + t]++;
    }
    __syncthreads();
    int32_t sum = 0, all;
    for (int i = t * DIGITS; i < (t + 1) * DIGITS; i++) {
        sum += s.place[i];
    }
    sum = td_cuda_sum_before(sum, s.sums, &all);
    for (int i = t * DIGITS; i < (t + 1) * DIGITS; i++) {
        const int32_t here = s.place[i];
        s.place[i] = static_cast<uint16_t>(sum);
        sum += here;
    }
    __syncthreads();
    if (t < DIGITS) {
        s.start[t] = s.place[t * THREADS];
    }
    __syncthreads();
}

__device__ void load_tile(const int32_t *keys, int n, int32_t *to)
{
    for (int i = threadIdx.x; i < n; i += THREADS) {
        to[i] = keys[i];
    }
    __syncthreads();
}

__device__ int tile_size(int64_t n, int64_t tile)
{
    return static_cast<int>(n - tile * TILE < TILE ? n - tile * TILE : TILE);
}

__global__ void sort_tile(int32_t *keys, int32_t *order, int n, int bits)
{
    __shared__ tile s;
    __shared__ int32_t k[2][TILE], o[2][TILE];
    int at = 0;
    load_tile(keys, n, k[0]);
    for (int i = threadIdx.x; i < n; i += THREADS) {
        o[0][i] = i;
    }
    __syncthreads();
    for (int shift = 0; shift < bits; shift += BITS, at = 1 - at) {
        find_places(s, k[at], n, shift);
        const int t = threadIdx.x;
        for (int i = t * EACH; i < (t + 1) * EACH && i < n; i++) {
            const int to = s.place[digit_of(k[at][i], shift) * THREADS + t]++;
            k[1 - at][to] = k[at][i];
            o[1 - at][to] = o[at][i];
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += THREADS) {
        keys[i] = k[at][i];
        order[i] = o[at][i];
    }
}

__global__ void count(const int32_t *keys, int64_t n, int shift, int32_t *counts, int64_t tiles)
{
    __shared__ tile s;
    __shared__ int32_t k[TILE];
    for (int64_t b = blockIdx.x; b < tiles; b += gridDim.x) {
        const int here = tile_size(n, b);
        load_tile(keys + b * TILE, here, k);
        find_places(s, k, here, shift);
        const int d = threadIdx.x;
        if (d < DIGITS) {
            counts[d * tiles + b] = (d + 1 < DIGITS ? s.start[d + 1] : here) - s.start[d];
        }
        __syncthreads();
    }
}

/* order NULL: keys stand where they came from. */
__global__ void put(const int32_t *keys, const int32_t *order, int64_t n, int shift, const int32_t *counts,
                    int64_t tiles, int32_t *to_keys, int32_t *to_order)
{
    __shared__ tile s;
    __shared__ int32_t k[TILE];
    for (int64_t b = blockIdx.x; b < tiles; b += gridDim.x) {
        const int here = tile_size(n, b), t = threadIdx.x;
        load_tile(keys + b * TILE, here, k);
        find_places(s, k, here, shift);
        for (int i = t * EACH; i < (t + 1) * EACH && i < here; i++) {
            const int d = digit_of(k[i], shift);
            const int64_t to = counts[d * tiles + b] + s.place[d * THREADS + t]++ - s.start[d];
            to_keys[to] = k[i];
            to_order[to] = order == nullptr ? static_cast<int32_t>(b * TILE + i) : order[b * TILE + i];
        }
        __syncthreads();
    }
}

int64_t tiles_of(int64_t n)
{
    return (n + TILE - 1) / TILE;
}

int bits_of(int32_t most)
{
    int bits = 1;
    while (bits < 31 && most >> bits != 0) {
        bits++;
    }
    return bits;
}

} // namespace

size_t td_cuda_sort_bytes(int64_t n)
{
    return static_cast<size_t>(4 * n + DIGITS * tiles_of(n)) * sizeof(int32_t);
}

struct td_cuda_sort td_cuda_sort_in(void *workspace, int64_t n)
{
    auto *at = static_cast<int32_t *>(workspace);
    return {n, at, at + n, at + 2 * n, at + 3 * n, at + 4 * n};
}

struct td_cuda_sort td_cuda_sort_done(void *workspace, int64_t n, int32_t most)
{
    struct td_cuda_sort s = td_cuda_sort_in(workspace, n);
    const int passes = (bits_of(most) + BITS - 1) / BITS;
    if (tiles_of(n) > 1 && passes % 2 == 1) {
        std::swap(s.keys, s.other_keys);
        std::swap(s.order, s.other_order);
    }
    return s;
}

int td_cuda_sort_run(struct td_cuda_sort *s, int32_t most, struct td_cuda_stream *stream)
{
    const int bits = bits_of(most);
    const int64_t tiles = tiles_of(s->n);
    if (tiles <= 1) {
        return td_cuda_blocks(sort_tile, tiles, stream, s->keys, s->order, s->n, bits);
    }
    int rc = 0;
    for (int shift = 0; shift < bits && rc == 0; shift += BITS) {
        const int32_t *order = shift == 0 ? nullptr : s->order;
        rc = td_cuda_blocks(count, tiles, stream, s->keys, s->n, shift, s->counts, tiles);
        rc = rc != 0 ? rc : td_cuda_sums(s->counts, DIGITS * tiles, nullptr, stream);
        rc = rc != 0 ? rc
                     : td_cuda_blocks(put, tiles, stream, s->keys, order, s->n, shift, s->counts, tiles,
                                      s->other_keys, s->other_order);
        std::swap(s->keys, s->other_keys);
        std::swap(s->order, s->other_order);
    }
    return rc;
}
