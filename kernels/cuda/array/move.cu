/* kernels/cuda/array/move.cu - elements that go to other places, a thread an element, as plain bytes.
 *
 * Neighbours that stay neighbours are moved together, 16 bytes at most: a Transpose that leaves the last axis
 * where it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/move.h"

#include <cstring>

#include "kernels/cuda/base/bytes.cuh"
#include "kernels/cuda/base/lines.cuh"

namespace
{

template <class T>
__global__ void move(td_cuda_steps s, const T *__restrict__ x, T *__restrict__ y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[at.b] = x[at.a];
    }
}

/* The element that it begins at; -1: it is not there. */
__device__ int64_t begin_of(const td_cuda_begin &from)
{
    int64_t first = 0;
    for (int a = 0; a < TD_CUDA_DIMS && a < from.n; a++) {
        const int64_t dim = from.dim[a], last = from.kind == TD_CUDA_BEGIN_INDEX ? dim - 1 : dim;
        int64_t at = td_cuda_index_at(from.at, from.entry[a]);
        at += from.kind == TD_CUDA_BEGIN_INDEX && at < 0 ? dim : 0;
        if (from.kind == TD_CUDA_BEGIN_CLAMPED) {
            at = at < 0 ? 0 : at > last ? last : at;
        }
        if (at < 0 || at > last) {
            return -1;
        }
        first += at * from.step[a];
    }
    return first;
}

template <class T>
__global__ void move_from(td_cuda_steps s, td_cuda_begin from, const T *__restrict__ x, T *__restrict__ y,
                          int64_t n)
{
    const int64_t first = begin_of(from);
    if (first < 0) {
        td_cuda_refuse(from.fault);
        return;
    }
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[at.b + (from.of_y ? first : 0)] = x[at.a + (from.of_y ? 0 : first)];
    }
}

template <class T> __global__ void fill(T value, T *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = value;
    }
}

struct run_fill {
    const unsigned char *value;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        T v;
        memcpy(&v, value, sizeof v);
        return td_cuda_over(fill<T>, n, stream, v, static_cast<T *>(y), n);
    }
};

struct run_move {
    const td_cuda_steps *s;
    const void *x;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(move<T>, n, stream, *s, static_cast<const T *>(x), static_cast<T *>(y), n);
    }
};

struct run_move_from {
    const td_cuda_steps *s;
    const td_cuda_begin *from;
    const void *x;
    void *y;
    int64_t n;
    td_cuda_stream *stream;
    template <class T> int with() const
    {
        return td_cuda_over(move_from<T>, n, stream, *s, *from, static_cast<const T *>(x),
                            static_cast<T *>(y), n);
    }
};

constexpr size_t MOST_BYTES = sizeof(td_cuda_sixteen);

/* Whether every two elements lie together on both sides, at places for one of twice the bytes. */
bool are_pairs(const td_cuda_steps &s, size_t bytes, const void *x, const void *y)
{
    const uintptr_t both = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
    bool are = s.rank > 0 && s.a[0] == 1 && s.b[0] == 1 && s.dim[0] % 2 == 0 && both % (2 * bytes) == 0;
    for (int d = 1; d < s.rank; d++) {
        are = are && s.a[d] % 2 == 0 && s.b[d] % 2 == 0;
    }
    return are;
}

void pair_up(td_cuda_steps *s)
{
    s->dim[0] /= 2;
    for (int d = 1; d < s->rank; d++) {
        s->a[d] /= 2;
        s->b[d] /= 2;
    }
}

} // namespace

int td_cuda_move(size_t bytes, const struct td_cuda_steps *steps, const void *x, void *y, int64_t n,
                 struct td_cuda_stream *stream)
{
    td_cuda_steps s = *steps;
    while (bytes < MOST_BYTES && are_pairs(s, bytes, x, y)) {
        pair_up(&s);
        bytes *= 2;
        n /= 2;
    }
    return td_cuda_with_bytes(bytes, run_move{&s, x, y, n, stream});
}

int td_cuda_move_from(size_t bytes, const struct td_cuda_steps *steps, const struct td_cuda_begin *from,
                      const void *x, void *y, int64_t n, struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_move_from{steps, from, x, y, n, stream});
}

int td_cuda_fill(size_t bytes, const unsigned char value[16], void *y, int64_t n,
                 struct td_cuda_stream *stream)
{
    return td_cuda_with_bytes(bytes, run_fill{value, y, n, stream});
}
