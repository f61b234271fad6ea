/* kernels/cuda/base/lines.cuh - rows of elements that a kernel goes through, and the indices that name them.
 *
 * A row is read by a group of neighbouring threads, as many as it has elements (a power of two, a block at
 * most), so that what holds for a row, such as its index, is found once, and no element's place is divided
 * for. A long row is cut into chunks, each a group's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_LINES_CUH
#define TD_KERNELS_CUDA_BASE_LINES_CUH

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/indices.h"

struct td_cuda_lines {
    int64_t rows, width, chunks, chunk;
    int shift; /* a group has 1 << shift threads */
};

inline td_cuda_lines td_cuda_lines_of(int64_t rows, int64_t width)
{
    constexpr int EACH = 8; /* elements of a chunk that one thread has */
    int shift = 0;
    while ((1 << shift) < THREADS && (int64_t(1) << shift) < width) {
        shift++;
    }
    const int64_t chunk = int64_t(EACH) << shift;
    return {rows, width, (width + chunk - 1) / chunk, chunk, shift};
}

inline int64_t td_cuda_line_blocks(const td_cuda_lines &l)
{
    const int64_t groups = THREADS >> l.shift;
    return (l.rows * l.chunks + groups - 1) / groups;
}

/* f(row, from, to, step) by every thread: elements from, from + step, .. below to of that row are its own. */
template <class F> __device__ void td_cuda_each_line(const td_cuda_lines &l, F f)
{
    const int64_t groups = THREADS >> l.shift;
    const int step = 1 << l.shift;
    for (int64_t g = blockIdx.x * groups + (threadIdx.x >> l.shift); g < l.rows * l.chunks;
         g += gridDim.x * groups) {
        const int64_t row = l.chunks == 1 ? g : g / l.chunks, at = (g - row * l.chunks) * l.chunk;
        f(row, at + (threadIdx.x & (step - 1)), at + l.chunk < l.width ? at + l.chunk : l.width, step);
    }
}

__device__ inline int64_t td_cuda_index_at(const td_cuda_indices &x, int64_t i)
{
    return x.type == TD_CUDA_INDEX_32   ? static_cast<const int32_t *>(x.at)[i]
           : x.type == TD_CUDA_INDEX_64 ? static_cast<const int64_t *>(x.at)[i]
           : x.type == TD_CUDA_INDEX_16 ? static_cast<const int16_t *>(x.at)[i]
           : x.type == TD_CUDA_INDEX_8  ? static_cast<const int8_t *>(x.at)[i]
                                        : static_cast<const uint8_t *>(x.at)[i];
}

/* The slice that tuple `row` names among those of n.dim: -1 outside. */
__device__ inline int64_t td_cuda_tuple_at(const td_cuda_indices &x, const td_cuda_tuples &n, int64_t row)
{
    int64_t at = 0;
    for (int k = 0; k < TD_CUDA_DEPTH && k < n.depth; k++) {
        const int64_t v = td_cuda_index_at(x, row * n.depth + k);
        if (v < 0 || v >= n.dim[k]) {
            return -1;
        }
        at = at * n.dim[k] + v;
    }
    return at;
}

__device__ inline void td_cuda_refuse(int32_t *fault)
{
    (void)atomicExch(fault, 1);
}

#endif
