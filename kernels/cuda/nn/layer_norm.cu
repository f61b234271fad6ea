/* kernels/cuda/nn/layer_norm.cu - rows normalised by their own mean and variance, read once.
 *
 *   y[r,i] = (x[r,i] - mean) / sqrt(variance + epsilon) * scale[i] + offset[i]
 *
 * A row of up to 1,024 numbers has 32 threads, eight rows a block; a longer one a block. Each thread keeps
 * its numbers in registers, as floats, 16 bytes of them read at a time: the mean is their sum, the variance
 * that of squares about it, and neither reads memory again. Rows of more than 8,192 numbers, that do not
 * begin at 16 bytes, or lie along another axis than the last, are gone through three times, a number at a
 * time.
 *
 * Sums are made in one order whatever the data. Threads of a warp have one row: they stay together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/layer_norm.h"

#include <cmath>
#include <type_traits>

#include "kernels/cuda/base/several.cuh"

namespace
{

constexpr unsigned ALL = 0xFFFFFFFF;
constexpr int WARP = 32, WARPS = THREADS / WARP;
constexpr int FEW = 8, MANY = 32; /* numbers that a thread keeps */

/* What kernels read of the call. */
struct rows_of {
    int64_t rows, n, inner, last, width;
    float epsilon;
    bool centred;
    td_cuda_type vectors;
    const void *scale, *offset;
};

/* The sum over a warp, or over the block, in `shared` [WARPS]: on each thread. */
template <int GROUP> __device__ float sum_of(float v, float *shared)
{
    TD_UNROLL
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        v += __shfl_xor_sync(ALL, v, apart);
    }
    if (GROUP > WARP) {
        if (threadIdx.x % WARP == 0) {
            shared[threadIdx.x / WARP] = v;
        }
        __syncthreads();
        v = 0;
        TD_UNROLL
        for (int w = 0; w < WARPS; w++) {
            v += shared[w];
        }
        __syncthreads();
    }
    return v;
}

template <class T> __device__ float number(const void *at, int64_t i)
{
    return td_cuda_load(static_cast<const T *>(at)[i]);
}

/* Element i of a vector. */
__device__ inline float number_of(td_cuda_type type, const void *at, int64_t i)
{
    return type == TD_CUDA_FLOAT  ? number<float>(at, i)
           : type == TD_CUDA_HALF ? number<__half>(at, i)
                                  : number<__nv_bfloat16>(at, i);
}

template <int N, class T> __device__ void numbers(const void *at, int64_t i, float *v)
{
    const td_cuda_several<T, N> some = td_cuda_read<N>(static_cast<const T *>(at) + i);
    TD_UNROLL
    for (int k = 0; k < N; k++) {
        v[k] = td_cuda_load(some.v[k]);
    }
}

/* N of them from i on. */
template <int N> __device__ void numbers_of(td_cuda_type type, const void *at, int64_t i, float *v)
{
    if (type == TD_CUDA_FLOAT) {
        numbers<N, float>(at, i, v);
    } else if (type == TD_CUDA_HALF) {
        numbers<N, __half>(at, i, v);
    } else {
        numbers<N, __nv_bfloat16>(at, i, v);
    }
}

/* Scales and shifts N neighbours. */
template <int N> __device__ void finish(const rows_of &c, int64_t i, float *v)
{
    float by[N];
    if (c.scale != nullptr) {
        numbers_of<N>(c.vectors, c.scale, i, by);
        TD_UNROLL
        for (int k = 0; k < N; k++) {
            v[k] *= by[k];
        }
    }
    if (c.offset != nullptr) {
        numbers_of<N>(c.vectors, c.offset, i, by);
        TD_UNROLL
        for (int k = 0; k < N; k++) {
            v[k] += by[k];
        }
    }
}

/* A thread keeps KEPT numbers of its row, N neighbours at a time; n is a multiple of N. */
template <int GROUP, int KEPT, class T, class R> __global__ void normalize(rows_of c, const T *x, R *y)
{
    constexpr int N = td_cuda_at_once<T, T>, TIMES = KEPT / N;
    constexpr int64_t EACH = THREADS / GROUP;
    __shared__ float shared[WARPS];
    const int64_t at = static_cast<int64_t>(threadIdx.x % GROUP) * N;
    for (int64_t row = blockIdx.x * EACH + threadIdx.x / GROUP; row < c.rows; row += gridDim.x * EACH) {
        const int64_t first = row * c.n;
        float v[KEPT], sum = 0, mean = 0;
        TD_UNROLL
        for (int t = 0; t < TIMES; t++) {
            const int64_t i = at + t * GROUP * N;
            td_cuda_several<T, N> some = {};
            if (i < c.n) {
                some = td_cuda_read<N>(x + first + i);
            }
            TD_UNROLL
            for (int k = 0; k < N; k++) {
                v[t * N + k] = td_cuda_load(some.v[k]);
                sum += v[t * N + k];
            }
        }
        if (c.centred) {
            mean = sum_of<GROUP>(sum, shared) / static_cast<float>(c.n);
        }
        sum = 0;
        TD_UNROLL
        for (int t = 0; t < TIMES; t++) {
            const bool inside = at + t * GROUP * N < c.n;
            TD_UNROLL
            for (int k = 0; k < N; k++) {
                v[t * N + k] -= mean;
                sum += inside ? v[t * N + k] * v[t * N + k] : 0;
            }
        }
        const float by = 1 / sqrtf(sum_of<GROUP>(sum, shared) / static_cast<float>(c.n) + c.epsilon);
        TD_UNROLL
        for (int t = 0; t < TIMES; t++) {
            const int64_t i = at + t * GROUP * N;
            if (i < c.n) {
                td_cuda_several<R, N> some;
                TD_UNROLL
                for (int k = 0; k < N; k++) {
                    v[t * N + k] *= by;
                }
                finish<N>(c, i, v + t * N);
                TD_UNROLL
                for (int k = 0; k < N; k++) {
                    some.v[k] = td_cuda_store<R>::of(v[t * N + k]);
                }
                td_cuda_write(y + first + i, some);
            }
        }
    }
}

/* y of the normalised number v, which is x's number `at`: one, or all along the last axis. */
template <class R> __device__ void write_any(const rows_of &c, int64_t at, float v, R *y)
{
    const int64_t line = at / c.last * c.width;
    const bool one = c.last == c.width;
    for (int64_t w = one ? at % c.last : 0, end = one ? w + 1 : c.width; w < end; w++) {
        const float by = c.scale == nullptr ? 1 : number_of(c.vectors, c.scale, w);
        const float more = c.offset == nullptr ? 0 : number_of(c.vectors, c.offset, w);
        y[line + w] = td_cuda_store<R>::of(v * by + more);
    }
}

/* Of any length, wherever it lies. */
template <int GROUP, class T, class R> __global__ void normalize_any(rows_of c, const T *x, R *y)
{
    constexpr int64_t EACH = THREADS / GROUP;
    __shared__ float shared[WARPS];
    const int at = threadIdx.x % GROUP;
    for (int64_t row = blockIdx.x * EACH + threadIdx.x / GROUP; row < c.rows; row += gridDim.x * EACH) {
        const int64_t first = row / c.inner * c.inner * c.n + row % c.inner;
        float sum = 0, mean = 0;
        for (int64_t i = at; c.centred && i < c.n; i += GROUP) {
            sum += td_cuda_load(x[first + i * c.inner]);
        }
        if (c.centred) {
            mean = sum_of<GROUP>(sum, shared) / static_cast<float>(c.n);
        }
        sum = 0;
        for (int64_t i = at; i < c.n; i += GROUP) {
            const float d = td_cuda_load(x[first + i * c.inner]) - mean;
            sum += d * d;
        }
        const float by = 1 / sqrtf(sum_of<GROUP>(sum, shared) / static_cast<float>(c.n) + c.epsilon);
        for (int64_t i = at; i < c.n; i += GROUP) {
            const int64_t from = first + i * c.inner;
            write_any(c, from, (td_cuda_load(x[from]) - mean) * by, y);
        }
    }
}

template <int N> bool lies_for(td_cuda_type type, const void *vector)
{
    return type == TD_CUDA_FLOAT ? td_cuda_lies_for<N>(static_cast<const float *>(vector))
                                 : td_cuda_lies_for<N>(static_cast<const __half *>(vector));
}

template <class T, class R> int launch(const td_cuda_layer_norm &l, td_cuda_stream *stream)
{
    constexpr int N = td_cuda_at_once<T, T>;
    const rows_of c = {l.rows,    l.n,       l.inner,   l.last,  l.width,
                       l.epsilon, l.centred, l.vectors, l.scale, l.offset};
    const T *const x = static_cast<const T *>(l.x);
    R *const y = static_cast<R *>(l.y);
    const bool short_row = l.n <= WARP * MANY;
    const int64_t blocks = short_row ? (l.rows + WARPS - 1) / WARPS : l.rows;
    const bool plain = l.inner == 1 && l.n == l.last && l.last == l.width;
    const bool several = plain && l.n % N == 0 && l.n <= THREADS * MANY && td_cuda_lies_for<N>(x) &&
                         td_cuda_lies_for<N>(y) && lies_for<N>(l.vectors, l.scale) &&
                         lies_for<N>(l.vectors, l.offset);
    if (!several) {
        return short_row ? td_cuda_blocks(normalize_any<WARP, T, R>, blocks, stream, c, x, y)
                         : td_cuda_blocks(normalize_any<THREADS, T, R>, blocks, stream, c, x, y);
    }
    return l.n <= WARP * FEW ? td_cuda_blocks(normalize<WARP, FEW, T, R>, blocks, stream, c, x, y)
           : short_row       ? td_cuda_blocks(normalize<WARP, MANY, T, R>, blocks, stream, c, x, y)
                             : td_cuda_blocks(normalize<THREADS, MANY, T, R>, blocks, stream, c, x, y);
}

} // namespace

int td_cuda_normalize_rows(const struct td_cuda_layer_norm *l, struct td_cuda_stream *stream)
{
    const bool same = l->from == l->to;
    switch (l->from) {
    case TD_CUDA_FLOAT:
        return same                    ? launch<float, float>(*l, stream)
               : l->to == TD_CUDA_HALF ? launch<float, __half>(*l, stream)
                                       : launch<float, __nv_bfloat16>(*l, stream);
    case TD_CUDA_HALF:
        return same ? launch<__half, __half>(*l, stream) : launch<__half, float>(*l, stream);
    case TD_CUDA_BFLOAT16:
        return same ? launch<__nv_bfloat16, __nv_bfloat16>(*l, stream)
                    : launch<__nv_bfloat16, float>(*l, stream);
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}
