/* kernels/cuda/nn/attention.cu - attention in one kernel: scores are never in memory as a whole. Without
 * Tensor cores: of floats as they are, and of what attention_mma.cu has no room for.
 *
 *   a block    32 queries of one batch entry (8 where there are few), 128 columns of the result; it goes over
 *              the keys, 32 at a time:
 *                scores = query key^T, their stages     a warp has 4 rows (1), a thread one key of each
 *                exponentials, and their sum so far     a row's are its warp's
 *                result += exponentials value           a thread has 4 columns of each of its warp's rows
 *   in the end the result is divided by the sum
 *
 * Each row keeps its largest score so far; what was added up is scaled when a larger one comes (Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018). Stages behind the softmax multiply, or
 * choose, what a value counts for, and leave the sum alone: they are done to the exponentials.
 *
 * NaN, infinities: as a softmax over the whole row has them. A row without a sum, all of it -inf, is NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/attention.h"

#include <cmath>

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/nn/attention.cuh"
#include "kernels/cuda/nn/attention_mma.h"

namespace
{

constexpr int WARP = 32, WARPS = THREADS / WARP, KEYS = WARP, DEEP = 32, COLUMNS = 128,
              OWN_COLUMNS = COLUMNS / WARP;
constexpr unsigned ALL = 0xffffffff;

/* to[r][c] = from[(first + r) * row + (left + c) * column] where that is inside; else 0. */
template <int ROWS, int WIDE, int ROOM, class T>
__device__ void fetch(const T *from, int64_t row, int64_t column, int64_t first, int64_t rows, int64_t left,
                      int64_t columns, float (*to)[ROOM])
{
    for (int e = threadIdx.x; e < ROWS * WIDE; e += THREADS) {
        const int r = e / WIDE, c = e % WIDE;
        const bool inside = first + r < rows && left + c < columns;
        to[r][c] = inside ? td_cuda_load(from[(first + r) * row + (left + c) * column]) : 0;
    }
}

__device__ float warp_most(float x)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        x = fmaxf(x, __shfl_xor_sync(ALL, x, apart));
    }
    return x;
}

__device__ float warp_sum(float x)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        x += __shfl_xor_sync(ALL, x, apart);
    }
    return x;
}

/* What a row has come to: its largest score, and the sum of its exponentials. */
struct running {
    float most, sum;
};

/* The exponential of this thread's score; *shrink: what was added up is to be scaled by this. */
__device__ float exponential(running *row, float score, float *shrink)
{
    const float most = fmaxf(row->most, warp_most(score)), shift = most == -INFINITY ? 0 : most;
    const float e = expf(score - shift);
    *shrink = row->most == -INFINITY ? 0 : expf(row->most - shift);
    row->most = most;
    row->sum = row->sum * *shrink + warp_sum(e);
    return e;
}

template <class T, int EACH>
__global__ void __launch_bounds__(THREADS, EACH == 1 ? 3 : 2)
    attention(const __grid_constant__ td_cuda_attention a, int64_t high, int64_t across, int64_t n)
{
    constexpr int ROWS = EACH * WARPS;
    __shared__ float query[ROWS][DEEP + 1], key[KEYS][DEEP + 1], weight[ROWS][KEYS], value[KEYS][COLUMNS];
    __shared__ td_cuda_attention_bases b;
    const int at = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t left = i % across * COLUMNS, top = i / across % high * ROWS;
        __syncthreads();
        td_cuda_attention_find(a, i / across / high, &b);
        __syncthreads();
        running row[EACH];
        float sum[EACH][OWN_COLUMNS] = {};
        TD_UNROLL
        for (int j = 0; j < EACH; j++) {
            row[j] = {-INFINITY, 0};
        }
        for (int64_t first = 0; first < a.dim[0]; first += KEYS) {
            float score[EACH] = {}, shrink[EACH];
            for (int64_t deep = 0; deep < a.depth; deep += DEEP) {
                fetch<ROWS, DEEP>(static_cast<const T *>(a.query) + b.query, a.of_query.at[1],
                                  a.of_query.at[0], top, a.dim[1], deep, a.depth, query);
                fetch<KEYS, DEEP>(static_cast<const T *>(a.key) + b.key, a.of_key.at[1], a.of_key.at[0],
                                  first, a.dim[0], deep, a.depth, key);
                __syncthreads();
                for (int d = 0; d < DEEP; d++) {
                    TD_UNROLL
                    for (int j = 0; j < EACH; j++) {
                        score[j] += query[warp + j * WARPS][d] * key[at][d];
                    }
                }
                __syncthreads();
            }
            fetch<KEYS, COLUMNS>(static_cast<const T *>(a.value) + b.value, a.of_value.at[1],
                                 a.of_value.at[0], first, a.dim[0], left, a.width, value);
            TD_UNROLL
            for (int j = 0; j < EACH; j++) {
                const int64_t t = top + warp + j * WARPS, s = first + at;
                const bool inside = t < a.dim[1] && s < a.dim[0];
                const float e = exponential(
                    &row[j], inside ? td_cuda_attention_staged<T>(a, b, false, t, s, score[j]) : -INFINITY,
                    &shrink[j]);
                weight[warp + j * WARPS][at] = inside ? td_cuda_attention_staged<T>(a, b, true, t, s, e) : 0;
            }
            __syncthreads();
            TD_UNROLL
            for (int j = 0; j < EACH; j++) {
                TD_UNROLL
                for (int c = 0; c < OWN_COLUMNS; c++) {
                    sum[j][c] *= shrink[j];
                }
            }
            for (int k = 0; k < KEYS; k++) {
                TD_UNROLL
                for (int j = 0; j < EACH; j++) {
                    const float w = weight[warp + j * WARPS][k];
                    TD_UNROLL
                    for (int c = 0; c < OWN_COLUMNS; c++) {
                        sum[j][c] += w * value[k][at + c * WARP];
                    }
                }
            }
            __syncthreads();
        }
        TD_UNROLL
        for (int j = 0; j < EACH; j++) {
            const int64_t t = top + warp + j * WARPS;
            const float by = a.dim[0] == 0 ? 0 : a.copies / row[j].sum;
            TD_UNROLL
            for (int c = 0; c < OWN_COLUMNS; c++) {
                const int64_t d = left + at + c * WARP;
                if (t < a.dim[1] && d < a.width) {
                    static_cast<T *>(a.out)[b.out + t * a.of_out.at[1] + d * a.of_out.at[0]] =
                        td_cuda_store<T>::of(sum[j][c] * by);
                }
            }
        }
        TD_UNROLL
        for (int j = 0; j < EACH; j++) {
            const int64_t t = top + warp + j * WARPS;
            if (t < a.dim[1] && td_cuda_attention_again(a, row[j].sum)) {
                for (int64_t d = left + at; d < left + COLUMNS && d < a.width; d += WARP) {
                    td_cuda_attention_put_again<T>(a, b, t, d);
                }
            }
        }
    }
}

template <class T, int EACH> int launch(const td_cuda_attention &a, td_cuda_stream *stream)
{
    constexpr int64_t ROWS = EACH * WARPS;
    const int64_t high = (a.dim[1] + ROWS - 1) / ROWS, across = (a.width + COLUMNS - 1) / COLUMNS;
    const int64_t n = a.batches * high * across;
    return td_cuda_blocks(attention<T, EACH>, n, stream, a, high, across, n);
}

template <class T> int run(const td_cuda_attention &a, td_cuda_stream *stream)
{
    return a.dim[1] <= WARPS ? launch<T, 1>(a, stream) : launch<T, 4>(a, stream);
}

} // namespace

int td_cuda_attend(const struct td_cuda_attention *a, struct td_cuda_stream *stream)
{
    return td_cuda_attention_mma_takes(a) ? td_cuda_attend_mma(a, stream)
           : a->type == TD_CUDA_FLOAT     ? run<float>(*a, stream)
           : a->type == TD_CUDA_HALF      ? run<__half>(*a, stream)
           : a->type == TD_CUDA_BFLOAT16  ? run<__nv_bfloat16>(*a, stream)
                                          : static_cast<int>(cudaErrorInvalidValue);
}
