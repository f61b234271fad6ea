/* kernels/cuda/math/arg.cu - where the greatest of an axis is.
 *
 *   rows      the axis is innermost: a group of threads has one output; 32 of them, or the block
 *   columns   neighbours are outputs: 32 outputs a block, eight threads each
 *
 * Each thread looks at every so manieth element and keeps the first of its greatest; of those of a group the
 * greatest and then first one wins, so that the answer is one whatever the number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/arg.h"

#include "kernels/cuda/base/fold.cuh"

namespace
{

constexpr int COLUMNS = 32, LINES = THREADS / COLUMNS;

template <class W> struct found {
    W value;
    int64_t at;
};

template <class W> __device__ bool beats(W a, W b, bool least)
{
    return least ? a < b : a > b;
}

template <class W> __device__ found<W> better(found<W> a, found<W> b, bool least)
{
    const bool equal = !beats(a.value, b.value, least) && !beats(b.value, a.value, least);
    return beats(b.value, a.value, least) || (equal && b.at < a.at) ? b : a;
}

template <class T, class W>
__device__ found<W> search(const T *x, int64_t n, int64_t apart, int first, int step, bool least)
{
    found<W> best = {least ? td_cuda_most<W> : td_cuda_least<W>, 0};
    for (int64_t k = first; k < n; k += step) {
        const W v = td_cuda_load(x[k * apart]);
        if (beats(v, best.value, least)) {
            best = {v, k};
        }
    }
    return best;
}

__device__ void store(const td_cuda_arg &s, int64_t i, int64_t at)
{
    if (s.bytes == 8) {
        static_cast<int64_t *>(s.y)[i] = at;
    } else if (s.bytes == 4) {
        static_cast<int32_t *>(s.y)[i] = static_cast<int32_t>(at);
    } else {
        static_cast<uint16_t *>(s.y)[i] = static_cast<uint16_t>(at);
    }
}

template <int GROUP, class T> __global__ void rows(td_cuda_arg s)
{
    using W = typename td_cuda_wide<T>::type;
    TD_DYNAMIC_SHARED(found<W>, shared);
    const T *const x = static_cast<const T *>(s.x);
    const int at = threadIdx.x % GROUP;
    const int64_t each = THREADS / GROUP;
    for (int64_t from = blockIdx.x * each; from < s.outer; from += gridDim.x * each) {
        const int64_t row = from + threadIdx.x / GROUP;
        found<W> best = search<T, W>(x + row * s.n, row < s.outer ? s.n : 0, 1, at, GROUP, s.least);
        best =
            td_cuda_fold<GROUP>(best, shared, [&s](found<W> a, found<W> b) { return better(a, b, s.least); });
        if (row < s.outer && at == 0) {
            store(s, row, best.at);
        }
    }
}

template <class T> __global__ void columns(td_cuda_arg s)
{
    using W = typename td_cuda_wide<T>::type;
    TD_DYNAMIC_SHARED(found<W>, part); /* LINES of COLUMNS */
    const T *const x = static_cast<const T *>(s.x);
    const int column = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    const int64_t count = s.outer * s.inner;
    for (int64_t from = static_cast<int64_t>(blockIdx.x) * COLUMNS; from < count;
         from += static_cast<int64_t>(gridDim.x) * COLUMNS) {
        const int64_t k = from + column;
        if (k < count) {
            const T *const first = x + k / s.inner * s.n * s.inner + k % s.inner;
            part[line * COLUMNS + column] = search<T, W>(first, s.n, s.inner, line, LINES, s.least);
        }
        __syncthreads();
        if (k < count && line == 0) {
            found<W> best = part[column];
            for (int i = 1; i < LINES; i++) {
                best = better(best, part[i * COLUMNS + column], s.least);
            }
            store(s, k, best.at);
        }
        __syncthreads();
    }
}

struct run_arg {
    const td_cuda_arg *s;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        constexpr size_t shared = THREADS * sizeof(found<typename td_cuda_wide<T>::type>);
        const bool few = s->n <= THREADS;
        if (s->inner > 1) {
            const int64_t blocks = (s->outer * s->inner + COLUMNS - 1) / COLUMNS;
            return td_cuda_blocks_of<THREADS>(columns<T>, blocks, shared, stream, *s);
        }
        return td_cuda_blocks_of<THREADS>(few ? rows<32, T> : rows<THREADS, T>,
                                          few ? (s->outer + 7) / 8 : s->outer, shared, stream, *s);
    }
};

} // namespace

int td_cuda_arg_of(enum td_cuda_type type, const struct td_cuda_arg *s, struct td_cuda_stream *stream)
{
    if (s->outer == 0 || s->inner == 0) {
        return 0;
    }
    /* bools are the bytes 0 and 1 */
    return td_cuda_with_real(type == TD_CUDA_BOOL ? TD_CUDA_UINT8 : type, run_arg{s, stream});
}
