/* kernels/cuda/sparse/reorder.cu - entries in row-major order.
 *
 *   keys     of a run of axes whose places 32 bits count, or of 30 bits of one axis; of the entries as the
 *            sorts before have left them
 *   compose  where they stood before those
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/reorder.h"

#include <utility>

#include "kernels/cuda/base/launch.cuh"

namespace
{

enum { DIGIT = 30 };

/* Axes [from, to), or of one axis the bits from `shift` on. */
struct part {
    int from, to, shift;
    int32_t most;
};

/* From 0, before the axis, to dim + 1, behind it. */
__device__ uint64_t place(const td_cuda_reordering &s, int64_t entry, int d)
{
    const int64_t v = s.indices[entry * s.tuples.depth + d], dim = s.tuples.dim[d];
    return v < 0 ? 0 : static_cast<uint64_t>(v < dim ? v : dim) + 1;
}

__global__ void make_keys(td_cuda_reordering s, part p, const int32_t *order, int32_t *keys)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t entry = order == nullptr ? i : order[i];
        uint64_t key = 0;
        for (int d = p.from; d < p.to; d++) {
            key = key * (static_cast<uint64_t>(s.tuples.dim[d]) + 2) + place(s, entry, d);
        }
        keys[i] = static_cast<int32_t>(p.shift < 0 ? key : key >> p.shift & ((1 << DIGIT) - 1));
    }
}

__global__ void compose(const int32_t *before, const int32_t *sorted, int32_t *to, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        to[i] = before == nullptr ? sorted[i] : before[sorted[i]];
    }
}

__global__ void shift(const int64_t *indices, int64_t n, int rank, int axis, int64_t by, int64_t *to)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const uint64_t v = static_cast<uint64_t>(indices[i]);
        to[i] = static_cast<int64_t>(v + (i % rank == axis ? static_cast<uint64_t>(by) : 0));
    }
}

__global__ void put_sizes(td_cuda_tuples sizes, int64_t *to)
{
    for (int d = threadIdx.x; d < sizes.depth; d += THREADS) {
        to[d] = sizes.dim[d];
    }
}

/* As many axes that end before `to` as one key holds; or none: a single one is too long. */
part last_axes(const td_cuda_reordering &s, int to)
{
    int64_t count = 1;
    part p = {to, to, -1, 0};
    while (p.from > 0 && s.tuples.dim[p.from - 1] <= INT32_MAX / count - 2) {
        count *= s.tuples.dim[--p.from] + 2;
    }
    p.most = static_cast<int32_t>(count - 1);
    return p;
}

/* Sorts by p; *order: by what has been sorted before, and what it is then; NULL: by nothing. */
int step(td_cuda_reordering *s, const part &p, int32_t **order, td_cuda_stream *stream)
{
    td_cuda_sort sort = s->sort;
    int error = td_cuda_over(make_keys, s->n, stream, *s, p, *order, sort.keys);
    error = error != 0 ? error : td_cuda_sort_run(&sort, p.most, stream);
    error = error != 0 ? error : td_cuda_over(compose, s->n, stream, *order, sort.order, s->other, s->n);
    std::swap(s->order, s->other);
    *order = s->order;
    return error;
}

} // namespace

int td_cuda_reorder(const struct td_cuda_reordering *given, struct td_cuda_stream *stream)
{
    td_cuda_reordering s = *given;
    int32_t *order = nullptr;
    int error = 0, to = s.tuples.depth;
    while (error == 0 && to > 0) {
        const part p = last_axes(s, to);
        const bool too_long = p.from == p.to;
        if (!too_long) {
            error = step(&s, p, &order, stream);
        }
        for (int shift = 0; too_long && error == 0 && shift < 64; shift += DIGIT) {
            error = step(&s, part{to - 1, to, shift, (1 << DIGIT) - 1}, &order, stream);
        }
        to = too_long ? to - 1 : p.from;
    }
    return error != 0 || order == given->order
               ? error
               : td_cuda_over(compose, s.n, stream, static_cast<const int32_t *>(nullptr), order,
                              given->order, s.n);
}

int td_cuda_shift_entries(const int64_t *indices, int64_t n, int rank, int axis, int64_t by, int64_t *to,
                          struct td_cuda_stream *stream)
{
    return td_cuda_over(shift, n * rank, stream, indices, n * rank, rank, axis, by, to);
}

int td_cuda_put_sizes(const struct td_cuda_tuples *sizes, int64_t *to, struct td_cuda_stream *stream)
{
    return td_cuda_blocks(put_sizes, 1, stream, *sizes, to);
}
