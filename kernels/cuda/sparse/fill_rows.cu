/* kernels/cuda/sparse/fill_rows.cu - entries by row, and one for each row that has none: a thread an entry,
 * or a row.
 *
 * An entry stands behind the entries that are sorted before it, and the empty rows before its own; an empty
 * row behind the entries and the empty rows before it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/fill_rows.h"

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

__global__ void make_keys(td_cuda_fill_rows s, int32_t *keys, int32_t *fault)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        const int64_t row = s.indices[i * s.width];
        const bool there = row >= 0 && row < s.rows;
        keys[i] = static_cast<int32_t>(there ? row : s.rows);
        if (!there) {
            td_cuda_refuse(fault);
        }
    }
}

/* How many entries are of rows before this one. */
__device__ int64_t before(const td_cuda_fill_rows &s, int64_t row)
{
    int64_t from = 0, to = s.n;
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if (s.keys[mid] < row) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

__global__ void mark(td_cuda_fill_rows s)
{
    for (int64_t row = td_cuda_first(); row < s.rows; row += td_cuda_stride()) {
        const int64_t first = before(s, row);
        s.ranks.at[row] = first < s.n && s.keys[first] == row ? 0 : 1;
    }
}

__global__ void put_entries(td_cuda_fill_rows s)
{
    for (int64_t p = td_cuda_first(); p < s.n; p += td_cuda_stride()) {
        const int32_t i = s.order[p];
        const int64_t to = p + s.ranks.at[s.keys[p]];
        s.from[to] = i;
        s.map[i] = to;
        for (int64_t k = 0; k < s.width; k++) {
            s.to[to * s.width + k] = s.indices[i * s.width + k];
        }
    }
}

__global__ void put_rows(td_cuda_fill_rows s)
{
    for (int64_t row = td_cuda_first(); row < s.rows; row += td_cuda_stride()) {
        const int32_t empty = s.ranks.at[row];
        const bool is = s.ranks.at[row + 1] != empty;
        s.empty[row] = is;
        if (!is) {
            continue;
        }
        const int64_t to = before(s, row) + empty;
        s.from[to] = -1;
        for (int64_t k = 0; k < s.width; k++) {
            s.to[to * s.width + k] = k == 0 ? row : 0;
        }
    }
}

template <class T> __global__ void put_values(td_cuda_fill_rows s, int64_t all)
{
    const T absent = *static_cast<const T *>(s.absent);
    for (int64_t i = td_cuda_first(); i < all; i += td_cuda_stride()) {
        static_cast<T *>(s.y)[i] = s.from[i] < 0 ? absent : static_cast<const T *>(s.values)[s.from[i]];
    }
}

struct run_values {
    const td_cuda_fill_rows *s;
    int64_t all;
    td_cuda_stream *stream;
    template <class T> int with() const { return td_cuda_over(put_values<T>, all, stream, *s, all); }
};

} // namespace

int td_cuda_fill_rows_keys(const struct td_cuda_fill_rows *s, int32_t *keys, int32_t *fault,
                           struct td_cuda_stream *stream)
{
    return td_cuda_over(make_keys, s->n, stream, *s, keys, fault);
}

int td_cuda_fill_rows_mark(const struct td_cuda_fill_rows *s, struct td_cuda_stream *stream)
{
    return td_cuda_over(mark, s->rows, stream, *s);
}

int td_cuda_fill_rows_tell(const struct td_cuda_fill_rows *s, int64_t all, size_t bytes,
                           struct td_cuda_stream *stream)
{
    int error = td_cuda_over(put_entries, s->n, stream, *s);
    error = error != 0 ? error : td_cuda_over(put_rows, s->rows, stream, *s);
    return error != 0 ? error : td_cuda_with_bytes(bytes, run_values{s, all, stream});
}
