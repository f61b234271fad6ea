/* kernels/cuda/array/where.cu - which elements are not zero, and where these are: a thread an element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/where.h"

#include "kernels/cuda/base/bytes.cuh"

namespace
{

template <class T> __device__ bool has(T x, uint64_t mask)
{
    return (x & mask) != 0;
}
__device__ bool has(const td_cuda_sixteen &x, uint64_t mask)
{
    return ((x.half[0] | x.half[1]) & mask) != 0;
}

template <class T> __global__ void mark(const T *x, uint64_t mask, int64_t n, int32_t *marks)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        marks[i] = has(x[i], mask) ? 1 : 0;
    }
}

struct run_mark {
    const void *x;
    uint64_t mask;
    int64_t n;
    int32_t *marks;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(mark<T>, n, stream, static_cast<const T *>(x), mask, n, marks);
    }
};

__global__ void places(td_cuda_ranks r, td_cuda_tuples of, int64_t *y)
{
    for (int64_t i = td_cuda_first(); i < r.n; i += td_cuda_stride()) {
        const int64_t row = r.at[i];
        if (r.at[i + 1] == row) {
            continue;
        }
        int64_t up = i;
        for (int d = of.depth - 1; d >= 0; d--) {
            const int64_t next = up / of.dim[d];
            y[row * of.depth + d] = up - next * of.dim[d];
            up = next;
        }
    }
}

} // namespace

int td_cuda_where_mark(const void *x, size_t bytes, uint64_t mask, int64_t n, int32_t *marks,
                       struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_mark{x, mask, n, marks, stream});
}

int td_cuda_where_places(const struct td_cuda_ranks *r, const struct td_cuda_tuples *of, int64_t *y,
                         struct td_cuda_stream *stream)
{
    return td_cuda_over(places, r->n, stream, *r, *of, y);
}
