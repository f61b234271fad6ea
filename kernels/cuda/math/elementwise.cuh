/* kernels/cuda/math/elementwise.cuh - element-wise kernels: a thread some elements that lie together
 * (several.cuh), or one, neighbours by neighbours, so that reads and writes of a warp are one run of bytes,
 * but for operands that are repeated.
 *
 * An op is a struct whose of<S>(x) computes it: one of its own for each row of unary.def and binary.def, so
 * that a kernel knows its op when it is compiled, or one that is told at its launch (integers.cu).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_ELEMENTWISE_CUH
#define TD_KERNELS_CUDA_MATH_ELEMENTWISE_CUH

#include "kernels/cuda/math/elementwise.h"
#include "kernels/cuda/base/scalar.cuh"
#include "kernels/cuda/base/several.cuh"

namespace
{

/* ------------------------------------------------------------------ one input */

/* S: what elements are; T: what they are computed in. */
#define VALUE_OF_ONE(op, R, value)                                                                           \
    struct unary_##op {                                                                                      \
        template <class S, class T> __device__ static R of(T x) { return value; }                            \
    };
#define UNARY(op, types, value) VALUE_OF_ONE(op, T, value)
#define TEST(op, types, value) VALUE_OF_ONE(op, bool, value)
#define COUNT(op, types, value) VALUE_OF_ONE(op, uint8_t, value)
#include "kernels/cuda/math/unary.def"

template <class R, class Op, class T> __device__ R made_of(Op op, T x)
{
    return td_cuda_store<R>::of(op.template of<T>(td_cuda_load(x)));
}

template <class Op, class T, class R> __global__ void unary(Op op, const T *x, R *y, int64_t n, bool several)
{
    td_cuda_map(x, y, n, several, [op](T v) { return made_of<R>(op, v); });
}

/* R void: the result is of the operands' type. */
template <class R, class T> using result_of = std::conditional_t<std::is_void_v<R>, T, R>;

template <class Op, class R> struct run_unary {
    Op op;
    const void *x;
    void *y;
    int64_t n;
    struct td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        using result = result_of<R, T>;
        constexpr int N = td_cuda_at_once<T, result>;
        const T *const from = static_cast<const T *>(x);
        result *const to = static_cast<result *>(y);
        const bool several = td_cuda_lies_for<N>(from) && td_cuda_lies_for<N>(to);
        return td_cuda_over(unary<Op, T, result>, several ? (n + N - 1) / N : n, stream, op, from, to, n,
                            several);
    }
};

/* ------------------------------------------------------------------ two inputs */

#define VALUE_OF_TWO(op, R, value)                                                                           \
    struct binary_##op {                                                                                     \
        template <class S, class T> __device__ static R of(T a, T b) { return value; }                       \
    };
#define BINARY(op, types, value) VALUE_OF_TWO(op, T, value)
#define COMPARE(op, types, value) VALUE_OF_TWO(op, bool, value)
#include "kernels/cuda/math/binary.def"

template <class R, class Op, class T> __device__ R made_of(Op op, T a, T b)
{
    return td_cuda_store<R>::of(op.template of<T>(td_cuda_load(a), td_cuda_load(b)));
}

/* N neighbours, or as often the same. */
template <int N, class T> __device__ td_cuda_several<T, N> read_or_repeat(const T *x, int64_t step)
{
    if (step == 1) {
        return td_cuda_read<N>(x);
    }
    td_cuda_several<T, N> all;
    TD_UNROLL
    for (int k = 0; k < N; k++) {
        all.v[k] = *x;
    }
    return all;
}

template <class Op, class T, class R>
__global__ void binary(Op op, struct td_cuda_steps s, const T *a, const T *b, R *y, int64_t n, bool several)
{
    constexpr int N = td_cuda_at_once<T, R>;
    for (int64_t i = td_cuda_first() * N; several && i < n; i += td_cuda_stride() * N) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        const td_cuda_several<T, N> p = read_or_repeat<N>(a + at.a, s.a[0]);
        const td_cuda_several<T, N> q = read_or_repeat<N>(b + at.b, s.b[0]);
        td_cuda_several<R, N> to;
        TD_UNROLL
        for (int k = 0; k < N; k++) {
            to.v[k] = made_of<R>(op, p.v[k], q.v[k]);
        }
        td_cuda_write(y + i, to);
    }
    for (int64_t i = td_cuda_first(); !several && i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[i] = made_of<R>(op, a[at.a], b[at.b]);
    }
}

struct pair {
    const struct td_cuda_steps *steps;
    const void *a, *b;
    void *y;
    int64_t n;
    struct td_cuda_stream *stream;
};

template <class Op, class R> struct run_binary {
    Op op;
    pair p;
    template <class T> int operator()(T) const
    {
        using result = result_of<R, T>;
        constexpr int N = td_cuda_at_once<T, result>;
        const T *const a = static_cast<const T *>(p.a), *const b = static_cast<const T *>(p.b);
        result *const y = static_cast<result *>(p.y);
        const bool several = td_cuda_steps_for<N>(*p.steps, p.steps->a) && td_cuda_lies_for<N>(a) &&
                             td_cuda_steps_for<N>(*p.steps, p.steps->b) && td_cuda_lies_for<N>(b) &&
                             td_cuda_lies_for<N>(y);
        return td_cuda_over(binary<Op, T, result>, several ? p.n / N : p.n, p.stream, op, *p.steps, a, b, y,
                            p.n, several);
    }
};

/* ------------------------------------------------------------------ many inputs */

/* Of element i, the sum of inputs first..last - 1, of which there are some. */
template <class T> __device__ auto sum_of_inputs(const td_cuda_addends &s, int first, int last, int64_t i)
{
    auto sum_of = td_cuda_load(static_cast<const T *>(s.in[first])[i]);
    for (int k = first + 1; k < last; k++) {
        sum_of = rounded<T>(sum(sum_of, td_cuda_load(static_cast<const T *>(s.in[k])[i])));
    }
    return sum_of;
}

template <class T> __global__ void add_many(td_cuda_addends s, int first, T *y)
{
    for (int64_t i = td_cuda_first(); i < s.n; i += td_cuda_stride()) {
        auto sum_of =
            first > 0 ? sum_of_inputs<T>(s, 0, first, i) : td_cuda_load(static_cast<const T *>(s.before)[i]);
        for (int k = first; k < s.n_in; k += TD_CUDA_ADDED_AT_ONCE) {
            sum_of = rounded<T>(sum(sum_of, sum_of_inputs<T>(s, k, k + TD_CUDA_ADDED_AT_ONCE, i)));
        }
        y[i] = td_cuda_store<T>::of(sum_of);
    }
}

struct run_add_many {
    const td_cuda_addends *s;
    void *y;
    struct td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        const int first = s->before != nullptr ? 0 : td_cuda_addends_first(s->n_in);
        return td_cuda_over(add_many<T>, s->n, stream, *s, first, static_cast<T *>(y));
    }
};

} // namespace

#endif
