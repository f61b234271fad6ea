/* kernels/cuda/nn/recurrence.cu - the steps of recurrent cells: a product with the recurrent weights, and
 * what the cell makes of it, in one kernel.
 *
 *   a block    8 rows, 32 units of all gates:  h [8, units] times u [units, gates, 32]
 *   a warp     every eighth k of the sum; a thread has a column of each gate, for all 8 rows
 *   then       the eight sums of an element are added up, always in one order, by the thread that has its
 *              row and unit, which goes on to the gates and the state
 *
 * A step reads all of h before it, so steps are launches. Where the weights are few, a block has its 8 rows
 * through all units and all steps instead, and waits for nobody but itself: one launch in all. Which of the
 * two it is changes no bit. Products made elsewhere (a library's, of many rows) have the rest of the step
 * done by a thread an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/recurrence.h"

#include <type_traits>

#include "kernels/cuda/base/launch.cuh"

namespace
{

constexpr int UNITS = 32, ROWS = 8, WARPS = THREADS / UNITS, DEEP = 64;
constexpr int64_t FEW_WEIGHTS = 32768; /* that one processor's cache holds */
static_assert(WARPS == ROWS, "a thread has an element of the block's");

/* ------------------------------------------------------------------ the cells */

__device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

__device__ float squash(const td_cuda_recurrence &s, int how, float x)
{
    switch (how) {
    case TD_CUDA_SQUASH_SIGMOID:
        return sigmoid(x);
    case TD_CUDA_SQUASH_TANH:
        return tanhf(x);
    case TD_CUDA_SQUASH_RELU:
        return x > 0 || x != x ? x : 0;
    case TD_CUDA_SQUASH_SOFTSIGN:
        return x / (1 + fabsf(x));
    case TD_CUDA_SQUASH_ELU:
        return x < 0 ? expm1f(x) : x;
    default: {
        const float most = s.slope * x + s.offset > 1 ? 1 : s.slope * x + s.offset;
        return most < 0 ? 0 : most;
    }
    }
}

/* An element of the state in step t. */
struct place {
    int64_t t, row, unit, at; /* at: of [rows, units] */
};

__device__ float before(const td_cuda_recurrence &s, const place &p)
{
    return p.t == 0 ? s.h0[p.at] : s.h[(p.t - 1) % s.h_kept * s.rows * s.units + p.at];
}

__device__ bool counts(const td_cuda_recurrence &s, const place &p)
{
    if (s.mask != nullptr) {
        return s.mask[p.t * s.rows + p.row] != 0;
    }
    return s.lengths == nullptr ||
           s.first + p.t < (s.long_lengths ? static_cast<const int64_t *>(s.lengths)[p.row]
                                           : static_cast<const int32_t *>(s.lengths)[p.row]);
}

/* The element's new h, where the row counts. */
__device__ void leave(const td_cuda_recurrence &s, const place &p, bool count, float h)
{
    const int64_t size = s.rows * s.units;
    s.h[p.t % s.h_kept * size + p.at] = count ? h : before(s, p);
    if (s.o != nullptr) {
        const float *const was = s.z != nullptr ? s.z : p.t == 0 ? s.o0 : s.o + (p.t - 1) % s.o_kept * size;
        s.o[p.t % s.o_kept * size + p.at] = count ? h : was[p.at];
    }
}

/* Gate k's x and bx. */
__device__ float given(const td_cuda_recurrence &s, const place &p, int k)
{
    const int64_t column = s.place[k] * s.units + p.unit;
    return s.x[p.t * s.x_step + p.row * s.x_row + column] + (s.bx != nullptr ? s.bx[column] : 0);
}

/* ... and what its sum is with bh. */
__device__ float with_bias(const td_cuda_recurrence &s, const place &p, int k, float sum)
{
    return sum + (s.bh != nullptr ? s.bh[s.place[k] * s.units + p.unit] : 0);
}

__device__ float gate(const td_cuda_recurrence &s, const place &p, int k, float sum, int how)
{
    return squash(s, how, given(s, p, k) + s.add[k] + with_bias(s, p, k, sum));
}

/* What the element becomes behind a product, of which `sum` is its own, by gate. */
template <int GATES, bool SECOND>
__device__ void finish(const td_cuda_recurrence &s, const place &p, const float (&sum)[GATES])
{
    const bool count = counts(s, p);
    if constexpr (GATES == 4) {
        const float i = gate(s, p, 0, sum[0], s.gate), f = gate(s, p, 1, sum[1], s.gate);
        const float g = gate(s, p, 2, sum[2], s.state), o = gate(s, p, 3, sum[3], s.gate);
        const float was = p.t == 0 ? s.c0[p.at] : s.c[p.at], now = f * was + i * g;
        s.c[p.at] = count ? now : was;
        leave(s, p, count, o * squash(s, s.state, now));
    } else if constexpr (GATES == 3) {
        const float z = gate(s, p, 0, sum[0], s.gate), r = gate(s, p, 1, sum[1], s.gate);
        const float fresh = squash(s, s.state, given(s, p, 2) + r * with_bias(s, p, 2, sum[2]));
        leave(s, p, count, z * before(s, p) + (1 - z) * fresh);
    } else if constexpr (GATES == 2) {
        s.update[p.at] = gate(s, p, 0, sum[0], s.gate);
        s.reset_h[p.at] = gate(s, p, 1, sum[1], s.gate) * before(s, p);
    } else if constexpr (SECOND) {
        const float x = s.x2[p.t * s.x2_step + p.row * s.x2_row + p.unit], z = s.update[p.at];
        const float fresh = squash(s, s.state, sum[0] + (x + (s.b2 != nullptr ? s.b2[p.unit] : 0)));
        leave(s, p, count, z * before(s, p) + (1 - z) * fresh);
    } else {
        leave(s, p, count, gate(s, p, 0, sum[0], s.state));
    }
}

/* ------------------------------------------------------------------ products */

/* sum: of this thread's row and unit of the tile, by gate, of a [rows, units] times u. */
template <int GATES, bool SECOND>
__device__ void multiply(const td_cuda_recurrence &s, const float *a, int64_t row, int64_t unit,
                         float (&sum)[GATES])
{
    __shared__ float left[ROWS][DEEP], part[WARPS][GATES][ROWS][UNITS];
    const int at = threadIdx.x % UNITS, warp = threadIdx.x / UNITS;
    const float *const u = SECOND ? s.u2 : s.u;
    float of[GATES][ROWS] = {};
    for (int64_t deep = 0; deep < s.units; deep += DEEP) {
        for (int e = threadIdx.x; e < ROWS * DEEP; e += THREADS) {
            const int r = e / DEEP, d = e % DEEP;
            const bool inside = row + r < s.rows && deep + d < s.units;
            left[r][d] = inside ? a[(row + r) * s.units + deep + d] : 0;
        }
        __syncthreads();
        for (int d = warp; d < DEEP && deep + d < s.units && unit + at < s.units; d += WARPS) {
            const float *const weights = u + (deep + d) * GATES * s.units + unit + at;
            TD_UNROLL
            for (int g = 0; g < GATES; g++) {
                const float w = weights[SECOND ? 0 : s.place[g] * s.units];
                TD_UNROLL
                for (int r = 0; r < ROWS; r++) {
                    of[g][r] += left[r][d] * w;
                }
            }
        }
        __syncthreads();
    }
    TD_UNROLL
    for (int g = 0; g < GATES; g++) {
        TD_UNROLL
        for (int r = 0; r < ROWS; r++) {
            part[warp][g][r][at] = of[g][r];
        }
    }
    __syncthreads();
    for (int g = 0; g < GATES; g++) {
        sum[g] = 0;
        for (int w = 0; w < WARPS; w++) {
            sum[g] += part[w][g][warp][at];
        }
    }
    __syncthreads();
}

/* One product of step t, for the tile of rows and units from these on. */
template <int GATES, bool SECOND>
__device__ void tile(const td_cuda_recurrence &s, int64_t t, int64_t row, int64_t unit)
{
    float sum[GATES];
    const float *const h = t == 0 ? s.h0 : s.h + (t - 1) % s.h_kept * s.rows * s.units;
    multiply<GATES, SECOND>(s, SECOND ? s.reset_h : h, row, unit, sum);
    const int64_t mine = row + threadIdx.x / UNITS, column = unit + threadIdx.x % UNITS;
    if (mine < s.rows && column < s.units) {
        finish<GATES, SECOND>(s, place{t, mine, column, mine * s.units + column}, sum);
    }
}

/* The kernel's block has 8 rows, all units, and steps [from, to). */
template <int GATES> __global__ void __launch_bounds__(THREADS, 2) all_steps(td_cuda_recurrence s)
{
    const int64_t tiles = (s.rows + ROWS - 1) / ROWS;
    for (int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        for (int64_t t = 0; t < s.steps; t++) {
            for (int64_t unit = 0; unit < s.units; unit += UNITS) {
                tile<GATES, false>(s, t, i * ROWS, unit);
            }
            __syncthreads();
            if constexpr (GATES == 2) {
                for (int64_t unit = 0; unit < s.units; unit += UNITS) {
                    tile<1, true>(s, t, i * ROWS, unit);
                }
                __syncthreads();
            }
        }
    }
}

/* A tile a block, of one product of step t. */
template <int GATES, bool SECOND>
__global__ void __launch_bounds__(THREADS) one_product(td_cuda_recurrence s, int64_t t)
{
    const int64_t across = (s.units + UNITS - 1) / UNITS, tiles = (s.rows + ROWS - 1) / ROWS * across;
    for (int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        tile<GATES, SECOND>(s, t, i / across * ROWS, i % across * UNITS);
    }
}

template <int GATES, bool SECOND> __global__ void behind(td_cuda_recurrence s, int64_t t, const float *p)
{
    for (int64_t at = td_cuda_first(); at < s.rows * s.units; at += td_cuda_stride()) {
        const int64_t row = at / s.units, unit = at - row * s.units;
        float sum[GATES];
        for (int g = 0; g < GATES; g++) {
            sum[g] = p[(row * GATES + (SECOND ? 0 : s.place[g])) * s.units + unit];
        }
        finish<GATES, SECOND>(s, place{t, row, unit, at}, sum);
    }
}

/* ------------------------------------------------------------------ launches */

template <int GATES> int run(const td_cuda_recurrence &s, td_cuda_stream *stream)
{
    const int64_t high = (s.rows + ROWS - 1) / ROWS, tiles = high * ((s.units + UNITS - 1) / UNITS);
    if (s.units * s.units * GATES <= FEW_WEIGHTS) {
        return td_cuda_blocks(all_steps<GATES>, high, stream, s);
    }
    int error = 0;
    for (int64_t t = 0; t < s.steps && error == 0; t++) {
        error = td_cuda_blocks(one_product<GATES, false>, tiles, stream, s, t);
        if (GATES == 2 && error == 0) {
            error = td_cuda_blocks(one_product<1, true>, tiles, stream, s, t);
        }
    }
    return error;
}

/* f(the number of gates, as a type) */
template <int N> using gates = std::integral_constant<int, N>;
template <class F> int with_gates(int n, F f)
{
    return n == 4 ? f(gates<4>()) : n == 3 ? f(gates<3>()) : n == 2 ? f(gates<2>()) : f(gates<1>());
}

} // namespace

int td_cuda_recurrence_run(const struct td_cuda_recurrence *s, struct td_cuda_stream *stream)
{
    if (s->rows * s->units * s->steps == 0) {
        return 0;
    }
    return with_gates(td_cuda_recurrence_gates(s, 0), [&](auto n) { return run<n()>(*s, stream); });
}

int td_cuda_recurrence_behind(const struct td_cuda_recurrence *s, int64_t t, int product, const float *p,
                              struct td_cuda_stream *stream)
{
    const int64_t n = s->rows * s->units;
    if (product == 1) {
        return td_cuda_over(behind<1, true>, n, stream, *s, t, p);
    }
    return with_gates(td_cuda_recurrence_gates(s, 0),
                      [&](auto g) { return td_cuda_over(behind<g(), false>, n, stream, *s, t, p); });
}
