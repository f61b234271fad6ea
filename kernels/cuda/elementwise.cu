/* kernels/cuda/elementwise.cu - a thread an element, neighbours by neighbours: reads and writes of a warp are
 * one run of bytes, but for operands that are repeated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/elementwise.h"

#include <cmath>

#include "kernels/cuda/launch.cuh"

namespace
{

/* Integers wrap, as unsigned ones do in C. */
template <class T> using bits = std::make_unsigned_t<T>;
template <class T> __device__ T sum(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<bits<T>>(a) + static_cast<bits<T>>(b));
    } else {
        return a + b;
    }
}
template <class T> __device__ T difference(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<bits<T>>(a) - static_cast<bits<T>>(b));
    } else {
        return a - b;
    }
}
template <class T> __device__ T product(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<bits<T>>(a) * static_cast<bits<T>>(b));
    } else {
        return a * b;
    }
}
template <class T> __device__ T negative(T x)
{
    if constexpr (std::is_integral_v<T>) {
        return difference(T(0), x);
    } else {
        return -x;
    }
}

/* ------------------------------------------------------------------ one input */

#define UNARY(op, types, value)                                                                              \
    struct unary_##op {                                                                                      \
        template <class T> __device__ static T of(T x) { return value; }                                     \
    };
#define TEST(op, types, value)                                                                               \
    struct unary_##op {                                                                                      \
        template <class T> __device__ static bool of(T x) { return value; }                                  \
    };
#include "kernels/cuda/unary.def"

template <class Op, class T, class R> __global__ void unary(const T *x, R *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        y[i] = td_cuda_store<R>::of(Op::of(td_cuda_load(x[i])));
    }
}

/* R void: the result is of the operands' type. */
template <class R, class T> using result_of = std::conditional_t<std::is_void_v<R>, T, R>;

template <class Op, class R> struct run_unary {
    const void *x;
    void *y;
    int64_t n;
    struct td_cuda_stream *stream;
    template <class T> int operator()(T) const
    {
        using result = result_of<R, T>;
        return td_cuda_over(unary<Op, T, result>, n, stream, static_cast<const T *>(x),
                            static_cast<result *>(y), n);
    }
};

/* ------------------------------------------------------------------ two inputs */

#define BINARY(op, types, value)                                                                             \
    struct binary_##op {                                                                                     \
        template <class T> __device__ static T of(T a, T b) { return value; }                                \
    };
#define COMPARE(op, types, value)                                                                            \
    struct binary_##op {                                                                                     \
        template <class T> __device__ static bool of(T a, T b) { return value; }                             \
    };
#include "kernels/cuda/binary.def"

template <class Op, class T, class R>
__global__ void binary(struct td_cuda_steps s, const T *a, const T *b, R *y, int64_t n)
{
    for (int64_t i = td_cuda_first(); i < n; i += td_cuda_stride()) {
        const td_cuda_place at = td_cuda_place_of(s, i);
        y[i] = td_cuda_store<R>::of(Op::of(td_cuda_load(a[at.a]), td_cuda_load(b[at.b])));
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
    pair p;
    template <class T> int operator()(T) const
    {
        using result = result_of<R, T>;
        return td_cuda_over(binary<Op, T, result>, p.n, p.stream, *p.steps, static_cast<const T *>(p.a),
                            static_cast<const T *>(p.b), static_cast<result *>(p.y), p.n);
    }
};

} // namespace

#define WITH_BOOLS td_cuda_with_bool
#define WITH_WIDE td_cuda_with_wide
#define WITH_FLOATS td_cuda_with_float
#define WITH_NUMBERS td_cuda_with_number

int td_cuda_unary(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                  struct td_cuda_stream *stream)
{
    switch (op) {
#define UNARY(op, types, value)                                                                              \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_unary<unary_##op, void>{x, y, n, stream});
#define TEST(op, types, value)                                                                               \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_unary<unary_##op, bool>{x, y, n, stream});
#include "kernels/cuda/unary.def"
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}

int td_cuda_binary(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                   const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream)
{
    const pair p = {steps, a, b, y, n, stream};
    switch (op) {
#define BINARY(op, types, value)                                                                             \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_binary<binary_##op, void>{p});
#define COMPARE(op, types, value)                                                                            \
    case TD_CUDA_##op:                                                                                       \
        return WITH_##types(type, run_binary<binary_##op, bool>{p});
#include "kernels/cuda/binary.def"
    default:
        return static_cast<int>(cudaErrorInvalidValue);
    }
}
