/* tests/host_cuda/include/cuda_fp16.h - __half under CUDA's names (host_cuda/small_floats.h has the
 * arithmetic).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_CUDA_FP16_H
#define HOST_CUDA_CUDA_FP16_H

#include "host_cuda/small_floats.h"

HOST_CUDA_SMALL_FLOAT(__half, half_of, of_half)

typedef __half half;
typedef __half2 half2;

static inline __half __float2half(float x)
{
    return __half(x);
}

static inline __half __float2half_rn(float x)
{
    return __half(x);
}

static inline __half __double2half(double x)
{
    return __half(x);
}

static inline float __half2float(__half x)
{
    return x;
}

static inline unsigned short __half_as_ushort(__half x)
{
    return x.bits;
}

static inline __half __ushort_as_half(unsigned short bits)
{
    __half x;
    x.bits = bits;
    return x;
}

static inline __half2 __half2half2(__half x)
{
    return {x, x};
}

static inline __half2 __halves2half2(__half x, __half y)
{
    return {x, y};
}

static inline __half2 __floats2half2_rn(float x, float y)
{
    return {__half(x), __half(y)};
}

static inline __half2 __float22half2_rn(float2 v)
{
    return {__half(v.x), __half(v.y)};
}

static inline float2 __half22float2(__half2 v)
{
    return {v.x, v.y};
}

static inline __half __low2half(__half2 v)
{
    return v.x;
}

static inline __half __high2half(__half2 v)
{
    return v.y;
}

#endif
