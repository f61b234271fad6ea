/* kernels/cuda/base/scalar.cuh - functions of one name for every type, those of kernels/cpu/scalar.h: host
 * and GPU have the same. Integers wrap.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_SCALAR_CUH
#define TD_KERNELS_CUDA_BASE_SCALAR_CUH

#include <cmath>
#include <type_traits>

#include "kernels/cpu/scalar.h"
#include "kernels/cuda/base/launch.cuh"

#define ONE(name, fn, tag, T)                                                                                \
    __device__ inline T name(T x)                                                                            \
    {                                                                                                        \
        return td_##fn##_##tag(x);                                                                           \
    }
#define TWO(name, fn, tag, T)                                                                                \
    __device__ inline T name(T a, T b)                                                                       \
    {                                                                                                        \
        return td_##fn##_##tag(a, b);                                                                        \
    }
#define OF_ALL(tag, T, other)                                                                                \
    TWO(sum, add, tag, T)                                                                                    \
    TWO(difference, sub, tag, T)                                                                             \
    TWO(product, mul, tag, T)                                                                                \
    TWO(most, max, tag, T)                                                                                   \
    TWO(least, min, tag, T)                                                                                  \
    TWO(power, pow, tag, T)                                                                                  \
    TWO(floor_rest, floor_mod, tag, T)                                                                       \
    TWO(whole_rest, trunc_mod, tag, T)                                                                       \
    TWO(squared_distance, sqdiff, tag, T)                                                                    \
    ONE(square, square, tag, T)                                                                              \
    ONE(relu, relu, tag, T)                                                                                  \
    ONE(relu6, relu6, tag, T)
TD_FLOAT_TYPES(OF_ALL)
TD_INT_TYPES(OF_ALL)
#undef OF_ALL

#define OF_SIGNED(tag, T, other)                                                                             \
    ONE(negative, neg, tag, T)                                                                               \
    ONE(absolute, abs, tag, T)                                                                               \
    ONE(sign, sign, tag, T)
TD_FLOAT_TYPES(OF_SIGNED)
TD_SIGNED_TYPES(OF_SIGNED)
#undef OF_SIGNED

#define OF_INTS(tag, T, other)                                                                               \
    ONE(inverse, invert, tag, T)                                                                             \
    TWO(bits_and, and, tag, T)                                                                               \
    TWO(bits_or, or, tag, T)                                                                                 \
    TWO(bits_xor, xor, tag, T)                                                                               \
    TWO(shifted_left, shift_left, tag, T)                                                                    \
    TWO(shifted_right, shift_right, tag, T)                                                                  \
    TWO(whole_of_ints, trunc_div, tag, T)                                                                    \
    TWO(floor_of_ints, floor_div, tag, T)
TD_INT_TYPES(OF_INTS)
#undef OF_INTS
#undef ONE
#undef TWO

/* x as elements of type S hold it. */
template <class S, class T> __device__ inline T rounded(T x)
{
    if constexpr (std::is_same_v<S, T>) {
        return x;
    } else {
        return td_cuda_load(td_cuda_store<S>::of(x));
    }
}

template <class T> __device__ inline T nearest(T x)
{
    if constexpr (std::is_integral_v<T>) {
        return x;
    } else {
        return rint(x);
    }
}

template <class T> __device__ inline T quotient(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return whole_of_ints(a, b);
    } else {
        return a / b;
    }
}

/* A quotient of 16 bits is rounded to its type before it is rounded to an integer. */
template <class S, class T> __device__ inline T floor_quotient(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return floor_of_ints(a, b);
    } else {
        return floor(rounded<S>(a / b));
    }
}
template <class S, class T> __device__ inline T whole_quotient(T a, T b)
{
    if constexpr (std::is_integral_v<T>) {
        return whole_of_ints(a, b);
    } else {
        return trunc(rounded<S>(a / b));
    }
}

/* How many bits of x are set. */
template <class T> __device__ inline uint8_t ones(T x)
{
    uint64_t left = static_cast<uint64_t>(x) & (UINT64_MAX >> (64 - 8 * sizeof(T)));
    uint8_t n = 0;
    for (; left != 0; left &= left - 1) {
        n++;
    }
    return n;
}

#endif
