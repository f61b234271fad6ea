/* kernels/cuda/reduce.cu - reductions over chosen axes, each result in one order of additions, run after run.
 *
 *   rows      neighbours are folded: a group of threads has one output; 32 of them, or the block
 *   columns   neighbours are outputs: 32 outputs a block, eight threads each
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/reduce.h"

#include <type_traits>

#include "kernels/cuda/fold.cuh"

namespace
{

constexpr int COLUMNS = 32, LINES = THREADS / COLUMNS;

/* ------------------------------------------------------------------ the ops */

template <class T> constexpr bool is_integer = std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;

/* What a sum of T is rounded to before it is divided. */
__device__ double rounded(double a, float)
{
    return static_cast<float>(a);
}
__device__ double rounded(double a, double)
{
    return a;
}
__device__ double rounded(double a, __half)
{
    return __half2float(__float2half_rn(static_cast<float>(a)));
}
__device__ double rounded(double a, __nv_bfloat16)
{
    return static_cast<float>(a);
}

template <class T> __device__ T stored(double a)
{
    return td_cuda_store<T>::of(static_cast<typename td_cuda_wide<T>::type>(a));
}

struct fold_sum {
    template <class T> using acc = std::conditional_t<is_integer<T>, uint64_t, double>;
    template <class A, class T> __device__ static A start() { return 0; }
    template <class A> __device__ static A fold(A a, A b) { return a + b; }
    template <class T, class A> __device__ static T finish(A a, int64_t)
    {
        if constexpr (is_integer<T>) {
            return static_cast<T>(a);
        } else {
            return stored<T>(a);
        }
    }
};

struct fold_mean : fold_sum {
    template <class T, class A> __device__ static T finish(A a, int64_t of)
    {
        if constexpr (is_integer<T>) {
            return of == 0 ? T(0) : static_cast<T>(static_cast<int64_t>(a) / of);
        } else {
            return stored<T>(rounded(a, T()) / static_cast<double>(of));
        }
    }
};

struct fold_prod : fold_sum {
    template <class A, class T> __device__ static A start() { return 1; }
    template <class A> __device__ static A fold(A a, A b) { return a * b; }
};

/* NaN stays, wherever it is. */
struct fold_max : fold_sum {
    template <class T> using acc = std::conditional_t<is_integer<T>, T, double>;
    template <class A, class T> __device__ static A start() { return td_cuda_least<A>; }
    template <class A> __device__ static A fold(A a, A b) { return a >= b || a != a ? a : b; }
};

struct fold_min : fold_max {
    template <class A, class T> __device__ static A start() { return td_cuda_most<A>; }
    template <class A> __device__ static A fold(A a, A b) { return a <= b || a != a ? a : b; }
};

/* ------------------------------------------------------------------ kernels */

template <class Op, class A, class T>
__device__ A fold_from(const td_cuda_axes &s, const T *x, int64_t kept, int64_t first, int64_t step)
{
    const int64_t at = td_cuda_place_of(s.kept, kept).a;
    A a = Op::template start<A, T>();
    for (int64_t i = first; i < s.n_folded; i += step) {
        a = Op::fold(a, static_cast<A>(td_cuda_load(x[at + td_cuda_place_of(s.folded, i).a])));
    }
    return a;
}

template <class Op, int GROUP, class T> __global__ void rows(td_cuda_axes s, const T *x, T *y)
{
    using A = typename Op::template acc<T>;
    __shared__ A shared[THREADS];
    const int at = threadIdx.x % GROUP;
    const int64_t each = THREADS / GROUP;
    for (int64_t from = blockIdx.x * each; from < s.n_kept; from += gridDim.x * each) {
        const int64_t k = from + threadIdx.x / GROUP;
        A a = k < s.n_kept ? fold_from<Op, A>(s, x, k, at, GROUP) : Op::template start<A, T>();
        a = td_cuda_fold<GROUP>(a, shared, [](A p, A q) { return Op::fold(p, q); });
        if (k < s.n_kept && at == 0) {
            y[k] = Op::template finish<T>(a, s.n_folded);
        }
    }
}

template <class Op, class T> __global__ void columns(td_cuda_axes s, const T *x, T *y)
{
    using A = typename Op::template acc<T>;
    __shared__ A part[LINES][COLUMNS];
    const int column = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    for (int64_t from = static_cast<int64_t>(blockIdx.x) * COLUMNS; from < s.n_kept;
         from += static_cast<int64_t>(gridDim.x) * COLUMNS) {
        const int64_t k = from + column;
        if (k < s.n_kept) {
            part[line][column] = fold_from<Op, A>(s, x, k, line, LINES);
        }
        __syncthreads();
        if (k < s.n_kept && line == 0) {
            A a = part[0][column];
            for (int i = 1; i < LINES; i++) {
                a = Op::fold(a, part[i][column]);
            }
            y[k] = Op::template finish<T>(a, s.n_folded);
        }
        __syncthreads();
    }
}

template <class Op> struct run_reduce {
    const td_cuda_axes *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const auto *from = static_cast<const T *>(x);
        auto *to = static_cast<T *>(y);
        if (!s->rows) {
            return td_cuda_blocks(columns<Op, T>, (s->n_kept + COLUMNS - 1) / COLUMNS, stream, *s, from, to);
        }
        if (s->n_folded <= THREADS) {
            return td_cuda_blocks(rows<Op, 32, T>, (s->n_kept + 7) / 8, stream, *s, from, to);
        }
        return td_cuda_blocks(rows<Op, THREADS, T>, s->n_kept, stream, *s, from, to);
    }
};

} // namespace

int td_cuda_reduce(enum td_cuda_reduce op, enum td_cuda_type type, const struct td_cuda_axes *axes,
                   const void *x, void *y, struct td_cuda_stream *stream)
{
    switch (op) {
    case TD_CUDA_SUM:
        return td_cuda_with_number(type, run_reduce<fold_sum>{axes, x, y, stream});
    case TD_CUDA_MEAN:
        return td_cuda_with_number(type, run_reduce<fold_mean>{axes, x, y, stream});
    case TD_CUDA_PROD:
        return td_cuda_with_number(type, run_reduce<fold_prod>{axes, x, y, stream});
    case TD_CUDA_MAX:
        return td_cuda_with_number(type, run_reduce<fold_max>{axes, x, y, stream});
    case TD_CUDA_MIN:
        return td_cuda_with_number(type, run_reduce<fold_min>{axes, x, y, stream});
    }
    return static_cast<int>(cudaErrorInvalidValue);
}
