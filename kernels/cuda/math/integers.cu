/* kernels/cuda/math/integers.cu - the element-wise ops on the integers that are seldom met: of 8 and 16 bits,
 * and those without a sign. A kernel serves all ops of a type, and is told at its launch which one: there are
 * a fifth as many to compile, and these are not worth one each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/elementwise.cuh"

namespace
{

/* Whether T is one of the types that a word of unary.def and binary.def stands for. */
#define HAS_BOOLS(T) false
#define HAS_WIDE(T) false
#define HAS_FLOATS(T) false
#define HAS_NATIVE(T) false
#define HAS_NUMBERS(T) false
#define HAS_ALL_NUMBERS(T) false
#define HAS_ALL_FLOATS(T) false
#define HAS_SIGNED(T) std::is_signed_v<T>
#define HAS_ALL_SIGNED(T) std::is_signed_v<T>
#define HAS_REALS(T) true
#define HAS_EQUALS(T) true
#define HAS_INTS(T) true
#define HAS_ALL(T) true

/* What a row is for T: `value`, of those types that are the row's. */
#define CASE(op, types, value)                                                                               \
    case TD_CUDA_##op:                                                                                       \
        if constexpr (HAS_##types(T)) {                                                                      \
            return value;                                                                                    \
        }                                                                                                    \
        break;

struct any_unary {
    enum td_cuda_unary which;
    template <class S, class T> __device__ T of(T x) const
    {
        switch (which) {
#define UNARY(op, types, value) CASE(op, types, unary_##op::of<S>(x))
#include "kernels/cuda/math/unary.def"
        default:
            break;
        }
        return x;
    }
};

struct any_binary {
    enum td_cuda_binary which;
    template <class S, class T> __device__ T of(T a, T b) const
    {
        switch (which) {
#define BINARY(op, types, value) CASE(op, types, binary_##op::of<S>(a, b))
#include "kernels/cuda/math/binary.def"
        default:
            break;
        }
        return a;
    }
};

struct any_comparison {
    enum td_cuda_binary which;
    template <class S, class T> __device__ bool of(T a, T b) const
    {
        switch (which) {
#define COMPARE(op, types, value) CASE(op, types, binary_##op::of<S>(a, b))
#include "kernels/cuda/math/binary.def"
        default:
            break;
        }
        return false;
    }
};

template <class T> bool has(enum td_cuda_unary which)
{
    switch (which) {
#define UNARY(op, types, value) CASE(op, types, true)
#include "kernels/cuda/math/unary.def"
    default:
        break;
    }
    return false;
}

template <class T> bool has(enum td_cuda_binary which)
{
    switch (which) {
#define BINARY(op, types, value) CASE(op, types, true)
#define COMPARE BINARY
#include "kernels/cuda/math/binary.def"
    default:
        break;
    }
    return false;
}

/* Runs `launch` where its op has the type. */
template <class Launch> struct where_had {
    Launch launch;
    template <class T> int operator()(T x) const
    {
        return has<T>(launch.op.which) ? launch(x) : static_cast<int>(cudaErrorInvalidValue);
    }
};

template <class Launch> int run_if_had(int type, const Launch &launch)
{
    return td_cuda_with_rare(type, where_had<Launch>{launch});
}

} // namespace

int td_cuda_unary_rare(enum td_cuda_unary op, enum td_cuda_type type, const void *x, void *y, int64_t n,
                       struct td_cuda_stream *stream)
{
    return op == TD_CUDA_PopulationCount
               ? td_cuda_with_rare(type, run_unary<unary_PopulationCount, uint8_t>{{}, x, y, n, stream})
               : run_if_had(type, run_unary<any_unary, void>{{op}, x, y, n, stream});
}

int td_cuda_binary_rare(enum td_cuda_binary op, enum td_cuda_type type, const struct td_cuda_steps *steps,
                        const void *a, const void *b, void *y, int64_t n, struct td_cuda_stream *stream)
{
    const pair p = {steps, a, b, y, n, stream};
    switch (op) {
#define COMPARE(op, types, value) case TD_CUDA_##op:
#include "kernels/cuda/math/binary.def"
        return run_if_had(type, run_binary<any_comparison, bool>{{op}, p});
    default:
        return run_if_had(type, run_binary<any_binary, void>{{op}, p});
    }
}
