/* tests/host_cuda/include/cuda_bf16.h - __nv_bfloat16 under CUDA's names (host_cuda/small_floats.h has the
 * arithmetic).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CUDA_CUDA_BF16_H
#define HOST_CUDA_CUDA_BF16_H

#include "host_cuda/small_floats.h"

HOST_CUDA_SMALL_FLOAT(__nv_bfloat16, bfloat16_of, of_bfloat16)

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float x)
{
    return __nv_bfloat16(x);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return __nv_bfloat16(x);
}

static inline __nv_bfloat16 __double2bfloat16(double x)
{
    return __nv_bfloat16(x);
}

static inline float __bfloat162float(__nv_bfloat16 x)
{
    return x;
}

static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x)
{
    return x.bits;
}

static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    __nv_bfloat16 x;
    x.bits = bits;
    return x;
}

static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x)
{
    return {x, x};
}

static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y)
{
    return {x, y};
}

static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}

static inline __nv_bfloat162 __float22bfloat162_rn(float2 v)
{
    return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
}

static inline float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return {v.x, v.y};
}

static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v)
{
    return v.x;
}

static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v)
{
    return v.y;
}

#endif
