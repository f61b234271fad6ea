/* tests/host_cuda/include/host_cuda/small_floats.h - what __half and __nv_bfloat16 share: conversion by bits,
 * to the nearest and of two equally rounded ones to the even, and arithmetic through float, rounded once. A
 * NaN becomes 0x7FFF, as the device makes it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_SMALL_FLOATS_H
#define HOST_CUDA_SMALL_FLOATS_H

#include <math.h>

#include <cstdint>

#include "cuda_runtime.h"

namespace host_cuda
{

inline uint16_t bfloat16_of(float x)
{
    const uint32_t bits = same_bits<uint32_t>(x);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) {
        return 0x7FFF;
    }
    return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float of_bfloat16(uint16_t x)
{
    return same_bits<float>(static_cast<uint32_t>(x) << 16);
}

inline uint16_t half_of(float x)
{
    const uint32_t bits = same_bits<uint32_t>(x), sign = (bits >> 16) & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) {
        return 0x7FFF;
    }
    if (size >= 0x477FF000) { /* 65520 and above */
        return static_cast<uint16_t>(sign | 0x7C00);
    }
    if (size < 0x38800000) { /* below 2^-14: the sum's last bit weighs 2^-24, and the adder rounds */
        const float sum = same_bits<float>(size) + 0.5f;
        return static_cast<uint16_t>(sign | (same_bits<uint32_t>(sum) - 0x3F000000));
    }
    return static_cast<uint16_t>(sign | ((size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13));
}

inline float of_half(uint16_t x)
{
    const uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16, size = x & 0x7FFF;
    if (size >= 0x7C00) {
        return same_bits<float>(sign | 0x7F800000 | (size << 13));
    }
    if (size < 0x0400) {
        const float small = static_cast<float>(size) * 0x1p-24f;
        return sign ? -small : small;
    }
    return same_bits<float>(sign | ((size << 13) + 0x38000000));
}

/* The nearest float whose last bit is set when it is not exact: to round it again is to round once. */
inline float to_odd(double x)
{
    const float rounded = static_cast<float>(x);
    if (rounded != rounded || static_cast<double>(rounded) == x) {
        return rounded;
    }
    uint32_t bits = same_bits<uint32_t>(rounded);
    if (fabs(static_cast<double>(rounded)) > fabs(x)) {
        bits--; /* towards zero; from infinity to the largest */
    }
    return same_bits<float>(bits | 1);
}

} // namespace host_cuda

#define HOST_CUDA_SMALL_OPERATOR(T, op)                                                                      \
    static inline T operator op(const T &a, const T &b)                                                      \
    {                                                                                                        \
        return T(static_cast<float>(a) op static_cast<float>(b));                                            \
    }                                                                                                        \
    static inline T &operator op##=(T &a, const T &b)                                                        \
    {                                                                                                        \
        return a = a op b;                                                                                   \
    }

#define HOST_CUDA_SMALL_COMPARE(T, op)                                                                       \
    static inline bool operator op(const T &a, const T &b)                                                   \
    {                                                                                                        \
        return static_cast<float>(a) op static_cast<float>(b);                                               \
    }

#define HOST_CUDA_SMALL_CALL(T, name, expression)                                                            \
    static inline T name(T a, T b)                                                                           \
    {                                                                                                        \
        return expression;                                                                                   \
    }

/* T of 16 bits with its operators and the calls that are named alike for both, T##2 as a pair. */
#define HOST_CUDA_SMALL_FLOAT(T, encode, decode)                                                             \
    struct T {                                                                                               \
        uint16_t bits;                                                                                       \
        T() = default;                                                                                       \
        T(float x) : bits(host_cuda::encode(x)) {}                                                           \
        T(double x) : bits(host_cuda::encode(host_cuda::to_odd(x))) {}                                       \
        T(int x) : T(static_cast<double>(x)) {}                                                              \
        T(unsigned x) : T(static_cast<double>(x)) {}                                                         \
        T(long long x) : T(static_cast<double>(x)) {}                                                        \
        operator float() const { return host_cuda::decode(bits); }                                           \
    };                                                                                                       \
    struct alignas(4) T##2                                                                                   \
    {                                                                                                        \
        T x, y;                                                                                              \
    };                                                                                                       \
    HOST_CUDA_SMALL_OPERATOR(T, +)                                                                           \
    HOST_CUDA_SMALL_OPERATOR(T, -)                                                                           \
    HOST_CUDA_SMALL_OPERATOR(T, *)                                                                           \
    HOST_CUDA_SMALL_OPERATOR(T, /)                                                                           \
    HOST_CUDA_SMALL_COMPARE(T, ==)                                                                           \
    HOST_CUDA_SMALL_COMPARE(T, !=)                                                                           \
    HOST_CUDA_SMALL_COMPARE(T, <)                                                                            \
    HOST_CUDA_SMALL_COMPARE(T, <=)                                                                           \
    HOST_CUDA_SMALL_COMPARE(T, >)                                                                            \
    HOST_CUDA_SMALL_COMPARE(T, >=)                                                                           \
    HOST_CUDA_SMALL_CALL(T, __hadd, a + b)                                                                   \
    HOST_CUDA_SMALL_CALL(T, __hsub, a - b)                                                                   \
    HOST_CUDA_SMALL_CALL(T, __hmul, a *b)                                                                    \
    HOST_CUDA_SMALL_CALL(T, __hdiv, a / b)                                                                   \
    HOST_CUDA_SMALL_CALL(T, __hmax, T(fmaxf(a, b)))                                                          \
    HOST_CUDA_SMALL_CALL(T, __hmin, T(fminf(a, b)))                                                          \
    HOST_CUDA_SMALL_CALL(T##2, __hadd2, (T##2 {a.x + b.x, a.y + b.y}))                                       \
    HOST_CUDA_SMALL_CALL(T##2, __hmul2, (T##2 {a.x * b.x, a.y * b.y}))                                       \
    static inline T operator-(const T &a)                                                                    \
    {                                                                                                        \
        T r = a;                                                                                             \
        r.bits ^= 0x8000;                                                                                    \
        return r;                                                                                            \
    }                                                                                                        \
    static inline T __hneg(T a)                                                                              \
    {                                                                                                        \
        return -a;                                                                                           \
    }                                                                                                        \
    static inline T __hfma(T a, T b, T c)                                                                    \
    {                                                                                                        \
        return T(static_cast<double>(static_cast<float>(a)) * static_cast<double>(static_cast<float>(b)) +   \
                 static_cast<double>(static_cast<float>(c)));                                                \
    }                                                                                                        \
    static inline bool __hisnan(T a)                                                                         \
    {                                                                                                        \
        return (a.bits & 0x7FFF) > T(INFINITY).bits;                                                         \
    }                                                                                                        \
    static inline float __low2float(T##2 a)                                                                  \
    {                                                                                                        \
        return a.x;                                                                                          \
    }                                                                                                        \
    static inline float __high2float(T##2 a)                                                                 \
    {                                                                                                        \
        return a.y;                                                                                          \
    }                                                                                                        \
    static inline T atomicAdd(T *at, T value)                                                                \
    {                                                                                                        \
        return host_cuda::atomic_change(at, [value](T old) { return old + value; });                         \
    }

#endif
