/* kernels/cuda/array/gather.cu - slices picked by index, as plain bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/gather.h"

#include "kernels/cuda/base/lines.cuh"

namespace
{

struct by_axis {
    td_cuda_gather_axis s;
    td_cuda_indices indices;
    __device__ int64_t operator()(int64_t row) const
    {
        const int64_t line = s.batches * s.outer == 1 ? 0 : row / s.n;
        const int64_t batch = s.outer == 1 ? line : line / s.outer;
        const int64_t at = td_cuda_index_at(indices, batch * s.n + row - line * s.n);
        return at < 0 || at >= s.dim ? -1 : line * s.dim + at;
    }
};

struct by_tuple {
    td_cuda_tuples s;
    td_cuda_indices indices;
    __device__ int64_t operator()(int64_t row) const { return td_cuda_tuple_at(indices, s, row); }
};

template <class From, class T>
__global__ void gather(td_cuda_lines l, From from, const T *__restrict__ x, T *__restrict__ y, int32_t *fault)
{
    td_cuda_each_line(l, [&](int64_t row, int64_t first, int64_t last, int step) {
        const int64_t at = from(row);
        for (int64_t i = first; i < last; i += step) {
            y[row * l.width + i] = at < 0 ? T() : x[at * l.width + i];
        }
        if (at < 0 && fault != nullptr) {
            td_cuda_refuse(fault);
        }
    });
}

template <class From> struct run_gather {
    From from;
    int64_t rows;
    const td_cuda_slices *s;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        const td_cuda_lines l = td_cuda_lines_of(rows, static_cast<int64_t>(s->bytes / sizeof(T)));
        return td_cuda_blocks(gather<From, T>, td_cuda_line_blocks(l), stream, l, from,
                              static_cast<const T *>(s->x), static_cast<T *>(s->y), s->fault);
    }
};

template <class From> int go(From from, int64_t rows, const td_cuda_slices *s, td_cuda_stream *stream)
{
    return td_cuda_with_bytes(td_cuda_unit(s->bytes, s->x, s->y), run_gather<From>{from, rows, s, stream});
}

} // namespace

int td_cuda_gather_along(const struct td_cuda_gather_axis *s, const struct td_cuda_slices *slices,
                         struct td_cuda_stream *stream)
{
    return go(by_axis{*s, slices->indices}, s->batches * s->outer * s->n, slices, stream);
}

int td_cuda_gather_nd(const struct td_cuda_tuples *tuples, int64_t rows, const struct td_cuda_slices *slices,
                      struct td_cuda_stream *stream)
{
    return go(by_tuple{*tuples, slices->indices}, rows, slices, stream);
}
