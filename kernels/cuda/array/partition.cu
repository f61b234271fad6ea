/* kernels/cuda/array/partition.cu - how large the parts are, and what is put together of parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/partition.h"

#include "kernels/cuda/base/fold.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

/* How many keys are below k. */
__device__ int64_t below(const int32_t *keys, int64_t n, int32_t k)
{
    int64_t from = 0, to = n;
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if (keys[mid] < k) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

__global__ void count(const int32_t *keys, int64_t n, int parts, int64_t *counts)
{
    for (int64_t p = td_cuda_first(); p < parts; p += td_cuda_stride()) {
        const int32_t k = static_cast<int32_t>(p);
        counts[p] = below(keys, n, k + 1) - below(keys, n, k);
    }
}

__global__ void rows_of(const int32_t *indices, int64_t n, bool first, int64_t *rows, int32_t *fault)
{
    __shared__ int64_t shared[THREADS];
    int64_t most = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const int64_t end = int64_t(indices[i]) + 1;
        if (end <= 0) {
            td_cuda_refuse(fault);
        }
        most = end > most ? end : most;
    }
    most = td_cuda_fold<THREADS>(most, shared, [](int64_t a, int64_t b) { return a > b ? a : b; });
    if (threadIdx.x == 0) {
        *rows = first || most > *rows ? most : *rows;
    }
}

} // namespace

int td_cuda_partition_count(const int32_t *keys, int64_t n, int parts, int64_t *counts,
                            struct td_cuda_stream *stream)
{
    return td_cuda_over(count, parts, stream, keys, n, parts, counts);
}

int td_cuda_partition_rows(const int32_t *indices, int64_t n, bool first, int64_t *rows, int32_t *fault,
                           struct td_cuda_stream *stream)
{
    return td_cuda_blocks(rows_of, 1, stream, indices, n, first, rows, fault);
}
