/* kernels/cuda/math/reduce.cuh - reductions over chosen axes, each result in one order of additions, run
 * after run.
 *
 *   rows      neighbours are folded: a group of threads has one output; 32 of them, or the block
 *   columns   neighbours are outputs: 32 outputs a block, eight threads each
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_REDUCE_CUH
#define TD_KERNELS_CUDA_MATH_REDUCE_CUH

#include <type_traits>

#include "kernels/cuda/base/fold.cuh"
#include "kernels/cuda/math/reduce.h"

namespace
{

constexpr int COLUMNS = 32, LINES = THREADS / COLUMNS;

/* ------------------------------------------------------------------ the ops */

template <class T> constexpr bool is_integer = std::is_integral_v<T>;

/* What a sum of T is rounded to before it is divided. */
__device__ inline double rounded(double a, float)
{
    return static_cast<float>(a);
}
__device__ inline double rounded(double a, double)
{
    return a;
}
__device__ inline double rounded(double a, __half)
{
    return __half2float(__float2half_rn(static_cast<float>(a)));
}
__device__ inline double rounded(double a, __nv_bfloat16)
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
    template <class A> __device__ static A of(A x) { return x; }
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
            using wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
            return of == 0 ? T(0) : static_cast<T>(static_cast<wide>(a) / static_cast<wide>(of));
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

/* The sum is rounded to T before its root is taken. */
struct fold_norm : fold_sum {
    template <class A> __device__ static A of(A x) { return x * x; }
    template <class T, class A> __device__ static T finish(A a, int64_t)
    {
        if constexpr (is_integer<T>) {
            const T sum = static_cast<T>(a);
            return sum > 0 ? static_cast<T>(sqrt(static_cast<double>(sum))) : T(0);
        } else {
            return stored<T>(sqrt(static_cast<double>(td_cuda_load(stored<T>(a)))));
        }
    }
};

struct fold_half_squares : fold_norm {
    template <class T, class A> __device__ static T finish(A a, int64_t) { return stored<T>(a / 2); }
};

/* Of bools, which are the bytes 0 and 1. */
struct fold_all : fold_max {
    template <class A, class T> __device__ static A start() { return 1; }
    template <class A> __device__ static A fold(A a, A b) { return a & b; }
};
struct fold_any : fold_max {
    template <class A, class T> __device__ static A start() { return 0; }
    template <class A> __device__ static A fold(A a, A b) { return a | b; }
};

/* ------------------------------------------------------------------ kernels */

template <class A, class Op, class T>
__device__ A fold_from(const Op &op, const td_cuda_axes &s, const T *x, int64_t kept, int64_t first,
                       int64_t step)
{
    const int64_t at = td_cuda_place_of(s.kept, kept).a;
    A a = op.template start<A, T>();
    for (int64_t i = first; i < s.n_folded; i += step) {
        a = op.fold(a, op.of(static_cast<A>(td_cuda_load(x[at + td_cuda_place_of(s.folded, i).a]))));
    }
    return a;
}

template <class Op, int GROUP, class T> __global__ void rows(Op op, td_cuda_axes s, const T *x, T *y)
{
    using A = typename Op::template acc<T>;
    TD_DYNAMIC_SHARED(A, shared);
    const int at = threadIdx.x % GROUP;
    const int64_t each = THREADS / GROUP;
    for (int64_t from = blockIdx.x * each; from < s.n_kept; from += gridDim.x * each) {
        const int64_t k = from + threadIdx.x / GROUP;
        A a = k < s.n_kept ? fold_from<A>(op, s, x, k, at, GROUP) : op.template start<A, T>();
        a = td_cuda_fold<GROUP>(a, shared, [&op](A p, A q) { return op.fold(p, q); });
        if (k < s.n_kept && at == 0) {
            y[k] = op.template finish<T>(a, s.n_folded);
        }
    }
}

template <class Op, class T> __global__ void columns(Op op, td_cuda_axes s, const T *x, T *y)
{
    using A = typename Op::template acc<T>;
    TD_DYNAMIC_SHARED(A, part); /* LINES of COLUMNS */
    const int column = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    for (int64_t from = static_cast<int64_t>(blockIdx.x) * COLUMNS; from < s.n_kept;
         from += static_cast<int64_t>(gridDim.x) * COLUMNS) {
        const int64_t k = from + column;
        if (k < s.n_kept) {
            part[line * COLUMNS + column] = fold_from<A>(op, s, x, k, line, LINES);
        }
        __syncthreads();
        if (k < s.n_kept && line == 0) {
            A a = part[column];
            for (int i = 1; i < LINES; i++) {
                a = op.fold(a, part[i * COLUMNS + column]);
            }
            y[k] = op.template finish<T>(a, s.n_folded);
        }
        __syncthreads();
    }
}

template <class Op> struct run_reduce {
    Op op;
    const td_cuda_axes *s;
    const void *x;
    void *y;
    td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const auto *from = static_cast<const T *>(x);
        auto *to = static_cast<T *>(y);
        constexpr size_t shared = THREADS * sizeof(typename Op::template acc<T>);
        const bool few = s->n_folded <= THREADS;
        if (!s->rows) {
            return td_cuda_blocks_of<THREADS>(columns<Op, T>, (s->n_kept + COLUMNS - 1) / COLUMNS, shared,
                                              stream, op, *s, from, to);
        }
        return td_cuda_blocks_of<THREADS>(few ? rows<Op, 32, T> : rows<Op, THREADS, T>,
                                          few ? (s->n_kept + 7) / 8 : s->n_kept, shared, stream, op, *s, from,
                                          to);
    }
};

} // namespace

#endif
