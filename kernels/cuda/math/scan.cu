/* kernels/cuda/math/scan.cu - running sums, products and log-sum-exps: bit for bit what one chain of steps
 * gives, as the host has it.
 *
 *   columns   neighbours are chains: a thread has one
 *   rows      chains lie behind each other: a warp's threads read 32 rows of 32 elements together, then each
 *             of them goes through one row in shared memory
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/scan.h"

#include "kernels/cuda/base/fold.cuh"
#include "kernels/cuda/base/scalar.cuh"

namespace
{

constexpr int SIDE = 32, WIDTH = SIDE + 1, TILE = SIDE * WIDTH, WARPS = 4; /* of a tile; of a block of rows */

struct running_sum {
    template <class W> __device__ static W start() { return W(0); }
    template <class W> __device__ static W fold(W a, W v) { return sum(a, v); }
};
struct running_product {
    template <class W> __device__ static W start() { return W(1); }
    template <class W> __device__ static W fold(W a, W v) { return product(a, v); }
};
/* By the greater of the two. Of NaN neither is less: it counts as the sum before it. */
struct running_logsum {
    template <class W> __device__ static W start() { return td_cuda_least<W>; }
    template <class W> __device__ static W fold(W a, W v)
    {
        const W low = v < a ? v : a, high = a < v ? v : a;
        return high == td_cuda_least<W> ? high : high + log1p(exp(low - high));
    }
};

template <class Op, class T> __global__ void columns(td_cuda_running s)
{
    using W = typename td_cuda_wide<T>::type;
    for (int64_t c = td_cuda_first(); c < s.outer * s.inner; c += td_cuda_stride()) {
        const int64_t from = c / s.inner * s.n * s.inner + c % s.inner;
        const T *__restrict__ const x = static_cast<const T *>(s.x) + from;
        T *__restrict__ const y = static_cast<T *>(s.y) + from;
        W a = Op::template start<W>();
        for (int64_t k = 0; k < s.n; k++) {
            const int64_t at = (s.reverse ? s.n - 1 - k : k) * s.inner;
            const W before = a;
            a = rounded<T>(Op::fold(a, td_cuda_load(x[at])));
            y[at] = td_cuda_store<T>::of(s.exclusive ? before : a);
        }
    }
}

/* Element k of a row in the order of its chain. */
__device__ int64_t place(const td_cuda_running &s, int64_t row, int64_t k)
{
    return row * s.n + (s.reverse ? s.n - 1 - k : k);
}

template <class Op, class T> __global__ void rows(td_cuda_running s)
{
    using W = typename td_cuda_wide<T>::type;
    TD_DYNAMIC_SHARED(T, tiles);
    const int column = threadIdx.x % SIDE, warp = threadIdx.x / SIDE;
    T *const tile = tiles + warp * TILE;
    const int64_t each = static_cast<int64_t>(gridDim.x) * WARPS * SIDE;
    for (int64_t first = (static_cast<int64_t>(blockIdx.x) * WARPS + warp) * SIDE; first < s.outer;
         first += each) {
        const int n_rows = static_cast<int>(s.outer - first < SIDE ? s.outer - first : SIDE);
        W a = Op::template start<W>();
        for (int64_t from = 0; from < s.n; from += SIDE) {
            const int width = static_cast<int>(s.n - from < SIDE ? s.n - from : SIDE);
            for (int r = 0; r < n_rows && column < width; r++) {
                tile[r * WIDTH + column] = static_cast<const T *>(s.x)[place(s, first + r, from + column)];
            }
            __syncwarp();
            for (int k = 0; column < n_rows && k < width; k++) {
                const W before = a;
                a = rounded<T>(Op::fold(a, td_cuda_load(tile[column * WIDTH + k])));
                tile[column * WIDTH + k] = td_cuda_store<T>::of(s.exclusive ? before : a);
            }
            __syncwarp();
            for (int r = 0; r < n_rows && column < width; r++) {
                static_cast<T *>(s.y)[place(s, first + r, from + column)] = tile[r * WIDTH + column];
            }
            __syncwarp();
        }
    }
}

template <class Op> struct run_scan {
    const td_cuda_running *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        if (s->inner > 1) {
            return td_cuda_over(columns<Op, T>, s->outer * s->inner, stream, *s);
        }
        constexpr int64_t each = WARPS * SIDE;
        return td_cuda_blocks_of<WARPS * SIDE>(rows<Op, T>, (s->outer + each - 1) / each,
                                               WARPS * TILE * sizeof(T), stream, *s);
    }
};

} // namespace

int td_cuda_scan_of(enum td_cuda_scan op, enum td_cuda_type type, const struct td_cuda_running *s,
                    struct td_cuda_stream *stream)
{
    switch (op) {
    case TD_CUDA_RUNNING_SUM:
        return td_cuda_with_real(type, run_scan<running_sum>{s, stream});
    case TD_CUDA_RUNNING_PRODUCT:
        return td_cuda_with_real(type, run_scan<running_product>{s, stream});
    case TD_CUDA_RUNNING_LOGSUM:
        return td_cuda_with_float(type, run_scan<running_logsum>{s, stream});
    }
    return static_cast<int>(cudaErrorInvalidValue);
}
