/* kernels/cuda/base/channel_sums.cuh - two sums of each channel of x [outer, channels, inner], in double:
 * parts by many blocks, each in one order of additions, which whoever takes them adds in their order.
 *
 *   a part    channels last: 32 channels by eight lines of cells a block; else a block along a channel
 *
 *   of(at, base)              what element number `at` adds
 *   of.base(channel, first)   a number for its channel, whose first element's number is `first`
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CHANNEL_SUMS_CUH
#define TD_KERNELS_CUDA_BASE_CHANNEL_SUMS_CUH

#include "kernels/cuda/base/fold.cuh"

struct td_cuda_channels {
    int64_t outer, channels, inner;
};

struct td_cuda_two {
    double a, b;
};
__device__ inline td_cuda_two operator+(td_cuda_two x, td_cuda_two y)
{
    return {x.a + y.a, x.b + y.b};
}

constexpr int TD_CUDA_COLUMNS = 32, TD_CUDA_LINES = THREADS / TD_CUDA_COLUMNS;

__host__ __device__ inline int64_t td_cuda_channel_cells(const td_cuda_channels &s)
{
    return s.outer * s.inner;
}
__host__ __device__ inline int64_t td_cuda_column_groups(const td_cuda_channels &s)
{
    return (s.channels + TD_CUDA_COLUMNS - 1) / TD_CUDA_COLUMNS;
}

/* In how many parts the cells of a channel are summed: of shapes alone. */
inline int64_t td_cuda_channel_parts(const td_cuda_channels &s)
{
    constexpr int64_t BLOCKS = 1024, LEAST_ROWS = 64, LEAST_CELLS = 1024; /* that are worth having */
    const bool last = s.inner == 1;
    const int64_t blocks = last ? td_cuda_column_groups(s) : s.channels;
    const int64_t least = last ? LEAST_ROWS : LEAST_CELLS;
    const int64_t want = blocks >= BLOCKS || blocks == 0 ? 1 : BLOCKS / blocks;
    const int64_t most = (td_cuda_channel_cells(s) + least - 1) / least;
    return want < most ? want : most < 1 ? 1 : most;
}

/* part[p][c]: of the p-th of `parts` stretches of cells, where channels come last. */
template <class Of>
static __global__ void td_cuda_sums_of_columns(td_cuda_channels s, int64_t parts, Of of, td_cuda_two *part)
{
    __shared__ td_cuda_two shared[TD_CUDA_LINES][TD_CUDA_COLUMNS];
    const int column = threadIdx.x % TD_CUDA_COLUMNS, line = threadIdx.x / TD_CUDA_COLUMNS;
    const int64_t groups = td_cuda_column_groups(s), each = (s.outer + parts - 1) / parts;
    for (int64_t b = blockIdx.x; b < groups * parts; b += gridDim.x) {
        const int64_t c = b % groups * TD_CUDA_COLUMNS + column, p = b / groups, from = p * each;
        const int64_t to = from + each < s.outer ? from + each : s.outer;
        td_cuda_two sum = {0, 0};
        const double base = c < s.channels ? of.base(c, c) : 0;
        for (int64_t row = from + line; row < to && c < s.channels; row += TD_CUDA_LINES) {
            sum = sum + of(row * s.channels + c, base);
        }
        shared[line][column] = sum;
        __syncthreads();
        if (line == 0 && c < s.channels) {
            for (int i = 1; i < TD_CUDA_LINES; i++) {
                sum = sum + shared[i][column];
            }
            part[p * s.channels + c] = sum;
        }
        __syncthreads();
    }
}

template <class Of>
static __global__ void td_cuda_sums_of_planes(td_cuda_channels s, int64_t parts, Of of, td_cuda_two *part)
{
    __shared__ td_cuda_two shared[THREADS];
    const int64_t cells = td_cuda_channel_cells(s), each = (cells + parts - 1) / parts;
    for (int64_t b = blockIdx.x; b < s.channels * parts; b += gridDim.x) {
        const int64_t c = b % s.channels, p = b / s.channels, from = p * each;
        const int64_t to = from + each < cells ? from + each : cells;
        td_cuda_two sum = {0, 0};
        const double base = of.base(c, c * s.inner);
        for (int64_t i = from + threadIdx.x; i < to; i += THREADS) {
            const int64_t o = i / s.inner;
            sum = sum + of((o * s.channels + c) * s.inner + (i - o * s.inner), base);
        }
        sum = td_cuda_fold<THREADS>(sum, shared, [](td_cuda_two x, td_cuda_two y) { return x + y; });
        if (threadIdx.x == 0) {
            part[p * s.channels + c] = sum;
        }
    }
}

__device__ inline td_cuda_two td_cuda_sum_of(const td_cuda_two *part, int64_t parts, int64_t channels,
                                             int64_t c)
{
    td_cuda_two sum = part[c];
    for (int64_t p = 1; p < parts; p++) {
        sum = sum + part[p * channels + c];
    }
    return sum;
}

template <class Of>
int td_cuda_channel_sums(const td_cuda_channels &s, int64_t parts, const Of &of, td_cuda_two *part,
                         td_cuda_stream *stream)
{
    return s.inner == 1
               ? td_cuda_blocks(td_cuda_sums_of_columns<Of>, td_cuda_column_groups(s) * parts, stream, s,
                                parts, of, part)
               : td_cuda_blocks(td_cuda_sums_of_planes<Of>, s.channels * parts, stream, s, parts, of, part);
}

#endif
