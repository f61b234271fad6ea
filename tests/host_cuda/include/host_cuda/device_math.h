/* tests/host_cuda/include/host_cuda/device_math.h - the arithmetic that CUDA knows beyond math.h: bits, the
 * reinterpretations, roundings, and the fast approximations, which are exact here: a test that needs their
 * error needs a GPU.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_DEVICE_MATH_H
#define HOST_CUDA_DEVICE_MATH_H

#include <math.h>

#include <cstdint>

#include "host_cuda/device_atomics.h"

#define HOST_CUDA_MATH(result, name, parameters, expression)                                                 \
    static inline result name parameters                                                                     \
    {                                                                                                        \
        return expression;                                                                                   \
    }

HOST_CUDA_MATH(int, __popc, (unsigned x), __builtin_popcount(x))
HOST_CUDA_MATH(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
HOST_CUDA_MATH(int, __ffs, (int x), __builtin_ffs(x))
HOST_CUDA_MATH(int, __ffsll, (long long x), __builtin_ffsll(x))
HOST_CUDA_MATH(int, __clz, (int x), x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)))
HOST_CUDA_MATH(int, __clzll, (long long x), x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)))
HOST_CUDA_MATH(unsigned, __umulhi, (unsigned a, unsigned b), static_cast<unsigned>((uint64_t{a} * b) >> 32))
HOST_CUDA_MATH(int, __mulhi, (int a, int b), static_cast<int>((int64_t{a} * b) >> 32))
HOST_CUDA_MATH(unsigned long long, __umul64hi, (unsigned long long a, unsigned long long b),
               static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64))

static inline unsigned __brev(unsigned x)
{
    unsigned y = 0;
    for (int i = 0; i < 32; i++) {
        y |= ((x >> i) & 1u) << (31 - i);
    }
    return y;
}

HOST_CUDA_MATH(int, __float_as_int, (float x), host_cuda::same_bits<int>(x))
HOST_CUDA_MATH(unsigned, __float_as_uint, (float x), host_cuda::same_bits<unsigned>(x))
HOST_CUDA_MATH(float, __int_as_float, (int x), host_cuda::same_bits<float>(x))
HOST_CUDA_MATH(float, __uint_as_float, (unsigned x), host_cuda::same_bits<float>(x))
HOST_CUDA_MATH(long long, __double_as_longlong, (double x), host_cuda::same_bits<long long>(x))
HOST_CUDA_MATH(double, __longlong_as_double, (long long x), host_cuda::same_bits<double>(x))
HOST_CUDA_MATH(int, __float2int_rn, (float x), static_cast<int>(rintf(x)))
HOST_CUDA_MATH(int, __float2int_rz, (float x), static_cast<int>(x))
HOST_CUDA_MATH(int, __float2int_rd, (float x), static_cast<int>(floorf(x)))
HOST_CUDA_MATH(int, __float2int_ru, (float x), static_cast<int>(ceilf(x)))
HOST_CUDA_MATH(float, __int2float_rn, (int x), static_cast<float>(x))

HOST_CUDA_MATH(float, rsqrtf, (float x), 1.0f / sqrtf(x))
HOST_CUDA_MATH(double, rsqrt, (double x), 1.0 / sqrt(x))
/* glibc's math.h has these names as functions of its own. */
#define __expf(...) expf(__VA_ARGS__)
#define __logf(...) logf(__VA_ARGS__)
#define __log2f(...) log2f(__VA_ARGS__)
#define __powf(...) powf(__VA_ARGS__)
#define __sinf(...) sinf(__VA_ARGS__)
#define __cosf(...) cosf(__VA_ARGS__)
#define __tanf(...) tanf(__VA_ARGS__)

HOST_CUDA_MATH(float, __fdividef, (float x, float y), x / y)
HOST_CUDA_MATH(float, __frcp_rn, (float x), 1.0f / x)
HOST_CUDA_MATH(float, __fsqrt_rn, (float x), sqrtf(x))
HOST_CUDA_MATH(float, __frsqrt_rn, (float x), 1.0f / sqrtf(x))
HOST_CUDA_MATH(float, __fmaf_rn, (float x, float y, float z), fmaf(x, y, z))
HOST_CUDA_MATH(float, __fadd_rn, (float x, float y), x + y)
HOST_CUDA_MATH(float, __fsub_rn, (float x, float y), x - y)
HOST_CUDA_MATH(float, __fmul_rn, (float x, float y), x *y)
HOST_CUDA_MATH(double, __dmul_rn, (double x, double y), x *y)
HOST_CUDA_MATH(float, __fdiv_rn, (float x, float y), x / y)
HOST_CUDA_MATH(float, __saturatef, (float x), x > 0 ? (x < 1 ? x : 1.0f) : 0.0f)

/* CUDA has these without std::; of two floats a NaN loses, as with fminf. */
#define HOST_CUDA_MIN_MAX(T)                                                                                 \
    HOST_CUDA_MATH(T, min, (T a, T b), a < b ? a : b)                                                        \
    HOST_CUDA_MATH(T, max, (T a, T b), a > b ? a : b)
HOST_CUDA_MIN_MAX(int)
HOST_CUDA_MIN_MAX(unsigned)
HOST_CUDA_MIN_MAX(long)
HOST_CUDA_MIN_MAX(unsigned long)
HOST_CUDA_MIN_MAX(long long)
HOST_CUDA_MIN_MAX(unsigned long long)
HOST_CUDA_MATH(float, min, (float a, float b), fminf(a, b))
HOST_CUDA_MATH(float, max, (float a, float b), fmaxf(a, b))
HOST_CUDA_MATH(double, min, (double a, double b), fmin(a, b))
HOST_CUDA_MATH(double, max, (double a, double b), fmax(a, b))

#undef HOST_CUDA_MIN_MAX
#undef HOST_CUDA_MATH

#endif
