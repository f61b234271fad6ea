/* kernels/cpu/vecmath.h - float exp, log, tanh, erf and friends that the compiler can vectorise.
 *
 * Two layers. The td_fast_* functions are straight-line scalars (no branches, no calls, no tables): a loop
 * over one of them, or over a formula built from several, becomes SIMD code at -O3. The td_vec_* functions
 * are such loops over arrays, compiled for several instruction sets and chosen once at program start; y may
 * be x.
 *
 * Accuracy: within 3 units in the last place (tan 4; tanh, erf 7; erfc 8) over all floats, of sine, cosine
 * and tangent up to TD_TRIG_MAX; infinities, NaN, signed zeros and overflow as the C library gives them.
 * Subnormal results are right to their last place, but sigmoid's are 0, erfc's near.
 *
 * The polynomials are our own minimax fits (Lawson-weighted least squares against 40-digit values); the
 * reductions are the usual ones: exp by x = n ln2 + r, log by x = 2^e (1+f) with 1+f in [sqrt(1/2), sqrt(2))
 * (Muller, "Elementary Functions", chapter 11), sine by x = n pi/2 + r with pi/2 in four parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_VECMATH_H
#define TD_KERNELS_CPU_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/base/dtype.h"

/* Marks a function with hot loops: one clone an instruction set, picked by the loader (TD_HAS_CLONES).
 * Sanitizers do not survive the resolver functions, and clang has no x86-64-v3 clones. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__) && !defined(__CUDACC__)
#define TD_HAS_CLONES 1
#define TD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TD_CLONES
#endif
/* Before a loop: its stores touch nothing that a later turn reads, which gcc would check with more tests than
 * it allows. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#define TD_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TD_INDEPENDENT
#endif
#define TD_INLINE static inline __attribute__((always_inline))

#define TD_LN2_HI 0.693145751953125f /* 14 bits: n * TD_LN2_HI is exact */
#define TD_LN2_LO 1.42860677e-6f
#define TD_ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */

/* x = n ln2 + r with |r| <= ln2/2. Returns r; *n is -150..129 for x in [-104, 89], any number for NaN. */
TD_INLINE float td_exp_reduce(float x, int32_t *n)
{
    float t = x * 1.44269504f + TD_ROUND_MAGIC;
    float nf = t - TD_ROUND_MAGIC;
    *n = (int32_t)(td_float_bits(t) - td_float_bits(TD_ROUND_MAGIC));
    return (x - nf * TD_LN2_HI) - nf * TD_LN2_LO;
}

/* 2^n for n in [-126, 127], as bits: no conversion, so that NaN paths stay defined. */
TD_INLINE float td_pow2_f32(int32_t n)
{
    return td_bits_float((uint32_t)(n + 127) << 23);
}

TD_INLINE float td_fast_exp_f32(float x)
{
    float xc = x > 89.0f ? 89.0f : x;
    xc = xc < -104.0f ? -104.0f : xc;
    int32_t n;
    float r = td_exp_reduce(xc, &n);
    float q = 1.98459572e-4f;
    q = q * r + 1.39416529e-3f;
    q = q * r + 8.33339164e-3f;
    q = q * r + 4.16663487e-2f;
    q = q * r + 1.66666664e-1f;
    q = q * r + 0.5f;
    float p = 1.0f + (r + r * r * q);
    int32_t half = n >> 1; /* two factors: 2^128 and 2^-149 are no normal floats */
    return p * td_pow2_f32(half) * td_pow2_f32(n - half);
}

TD_INLINE float td_fast_expm1_f32(float x)
{
    float xc = x > 89.0f ? 89.0f : x;
    xc = xc < -25.0f ? -25.0f : xc;
    int32_t n;
    float r = td_exp_reduce(xc, &n);
    float q = 1.98459572e-4f;
    q = q * r + 1.39416529e-3f;
    q = q * r + 8.33339164e-3f;
    q = q * r + 4.16663487e-2f;
    q = q * r + 1.66666664e-1f;
    q = q * r + 0.5f;
    float p = r + r * r * q;
    float s = td_pow2_f32(n - 1); /* n - 1: 2^128 is no float */
    float y = 2.0f * (s * p + (s - 0.5f));
    return x == 0.0f ? x : y; /* keeps -0 */
}

/* log(x 2^-bias) for a positive normal x. */
TD_INLINE float td_log_core(float x, int bias)
{
    uint32_t ix = td_float_bits(x);
    int32_t e = (int32_t)((ix - 0x3f3504f3u) & 0xff800000u) >> 23; /* 0x3f3504f3 is sqrt(1/2) */
    float f = td_bits_float(ix - ((uint32_t)e << 23)) - 1.0f;
    float ef = (float)(e - bias);
    float p = 6.74660161e-2f;
    p = p * f - 1.16756414e-1f;
    p = p * f + 1.18881745e-1f;
    p = p * f - 1.24055914e-1f;
    p = p * f + 1.42195509e-1f;
    p = p * f - 1.66679957e-1f;
    p = p * f + 2.00021187e-1f;
    p = p * f - 2.50000096e-1f;
    p = p * f + 3.33333126e-1f;
    float f2 = f * f;
    return ef * TD_LN2_HI + (f + (f * f2 * p - 0.5f * f2 + ef * TD_LN2_LO));
}

TD_INLINE float td_fast_log_f32(float x)
{
    int tiny = x < 1.17549435e-38f;
    float y = td_log_core(tiny ? x * 8388608.0f : x, tiny ? 23 : 0);
    y = x == INFINITY ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x >= 0.0f ? y : NAN;
}

/* log(u) plus the part of x that 1 + x rounds away, divided by u. */
TD_INLINE float td_fast_log1p_f32(float x)
{
    float u = 1.0f + x;
    float c = (x - (u - 1.0f)) / u;
    float y = td_fast_log_f32(u) + (x > -1.0f && x < INFINITY ? c : 0.0f);
    return x == 0.0f ? x : y;
}

TD_INLINE float td_fast_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + td_fast_exp_f32(-x));
}

/* x P(x^2) / Q(x^2); tanh(9.01) rounds to 1. */
TD_INLINE float td_fast_tanh_f32(float x)
{
    float s = x * x;
    float p = -8.50889251e-14f;
    p = p * s + 5.28918680e-11f;
    p = p * s - 2.02558610e-8f;
    p = p * s + 1.11634799e-5f;
    p = p * s + 3.10493796e-3f;
    p = p * s + 1.30849242e-1f;
    p = p * s + 1.0f;
    float q = 2.54751038e-4f;
    q = q * s + 2.44991966e-2f;
    q = q * s + 4.64182526e-1f;
    q = q * s + 1.0f;
    return fabsf(x) > 9.01f ? copysignf(1.0f, x) : x * p / q;
}

/* x P(x^2) / Q(x^2); erf(3.925) rounds to 1. */
TD_INLINE float td_fast_erf_f32(float x)
{
    float s = x * x;
    float p = -1.27358621e-8f;
    p = p * s + 4.59530520e-6f;
    p = p * s + 3.76337353e-4f;
    p = p * s + 3.84156476e-3f;
    p = p * s + 5.42464592e-2f;
    p = p * s + 1.85243562e-1f;
    p = p * s + 1.12837923f;
    float q = 6.22679145e-5f;
    q = q * s + 1.30156673e-3f;
    q = q * s + 1.54343471e-2f;
    q = q * s + 1.13908015e-1f;
    q = q * s + 4.97501224e-1f;
    q = q * s + 1.0f;
    return fabsf(x) > 3.925f ? copysignf(1.0f, x) : x * p / q;
}

/* ------------------------------------------------------------------ trigonometry */

#define TD_TRIG_MAX                                                                                          \
    8192.0f /* of these functions' arguments: products with the parts of pi/2 are exact up to here */

/* Sine and cosine of r = x - n pi/2, |r| <= pi/4. Returns n. */
TD_INLINE uint32_t td_sincos_core(float x, float *sine, float *cosine)
{
    float t = x * 6.36619772e-1f + TD_ROUND_MAGIC;
    float nf = t - TD_ROUND_MAGIC;
    float r = (((x - nf * 1.5703125f) - nf * 4.83751297e-4f) - nf * 7.54953362e-8f) - nf * 2.56334407e-12f;
    float s = r * r;
    *sine = r + r * s * (-1.66666538e-1f + s * (8.3321128e-3f - s * 1.95087414e-4f));
    *cosine = (1.0f - 0.5f * s) + s * s * (4.16666456e-2f + s * (-1.38872513e-3f + s * 2.44256808e-5f));
    return td_float_bits(t) - td_float_bits(TD_ROUND_MAGIC);
}
TD_INLINE float td_fast_sin_f32(float x)
{
    float s, c;
    uint32_t n = td_sincos_core(x, &s, &c);
    float y = n & 1 ? c : x == 0.0f ? x : s;
    return td_bits_float(td_float_bits(y) ^ (n & 2) << 30);
}
TD_INLINE float td_fast_cos_f32(float x)
{
    float s, c;
    uint32_t n = td_sincos_core(x, &s, &c);
    float y = n & 1 ? s : c;
    return td_bits_float(td_float_bits(y) ^ ((n + 1) & 2) << 30);
}
TD_INLINE float td_fast_tan_f32(float x)
{
    float s, c;
    uint32_t n = td_sincos_core(x, &s, &c);
    return n & 1 ? -c / s : x == 0.0f ? x : s / c;
}

#define TD_PIO2_HI 1.57079637f
#define TD_PIO2_LO (-4.37113883e-8f)

/* asin(s) for s in [0, 1/2], z = s^2. */
TD_INLINE float td_asin_core(float s, float z)
{
    float p = 4.21663001e-2f;
    p = p * z + 2.41795182e-2f;
    p = p * z + 4.54703756e-2f;
    p = p * z + 7.49529749e-2f;
    p = p * z + 1.66667521e-1f;
    return s + s * z * p;
}
/* Above 1/2: asin(t) = pi/2 - 2 asin(sqrt((1 - t) / 2)). */
TD_INLINE float td_fast_asin_f32(float x)
{
    float t = fabsf(x), z = t > 0.5f ? (1.0f - t) * 0.5f : t * t;
    float p = td_asin_core(t > 0.5f ? sqrtf(z) : t, z);
    return copysignf(t > 0.5f ? TD_PIO2_HI - (2.0f * p - TD_PIO2_LO) : p, x);
}
TD_INLINE float td_fast_acos_f32(float x)
{
    float t = fabsf(x), z = t > 0.5f ? (1.0f - t) * 0.5f : t * t;
    float p = td_asin_core(t > 0.5f ? sqrtf(z) : t, z);
    float big = x < 0.0f ? 2.0f * TD_PIO2_HI - (2.0f * p - 2.0f * TD_PIO2_LO) : 2.0f * p;
    return t > 0.5f ? big : TD_PIO2_HI - (copysignf(p, x) - TD_PIO2_LO);
}

/* atan(z) for |z| <= tan(pi/8). */
TD_INLINE float td_atan_core(float z)
{
    float s = z * z;
    float p = -6.05485328e-2f;
    p = p * s + 1.05849825e-1f;
    p = p * s - 1.42423973e-1f;
    p = p * s + 1.99984148e-1f;
    p = p * s - 3.33333135e-1f;
    return z + z * s * p;
}
TD_INLINE float td_fast_atan_f32(float x)
{
    float t = fabsf(x);
    int big = t > 2.41421356f, middle = t > 4.14213562e-1f;
    float z = big ? -1.0f / t : middle ? (t - 1.0f) / (t + 1.0f) : t;
    float base = big ? TD_PIO2_HI : middle ? 0.5f * TD_PIO2_HI : 0.0f;
    float rest = big ? TD_PIO2_LO : middle ? 0.5f * TD_PIO2_LO : 0.0f;
    return copysignf(base + (td_atan_core(z) + rest), x);
}
/* The angle of the smaller to the larger magnitude, then its mirror images. */
TD_INLINE float td_fast_atan2_f32(float y, float x)
{
    float a = fabsf(y), b = fabsf(x), lo = a < b ? a : b, hi = a < b ? b : a;
    float q = hi == 0.0f ? 0.0f : lo == INFINITY ? 1.0f : lo / hi;
    float r =
        q > 4.14213562e-1f ? 0.5f * TD_PIO2_HI + td_atan_core((q - 1.0f) / (q + 1.0f)) : td_atan_core(q);
    r = a > b ? TD_PIO2_HI - (r - TD_PIO2_LO) : r;
    r = td_float_bits(x) >> 31 ? 2.0f * TD_PIO2_HI - (r - 2.0f * TD_PIO2_LO) : r;
    return ((x != x) | (y != y)) ? x + y : copysignf(r, y);
}

/* ------------------------------------------------------------------ hyperbolic functions and their inverses
 */

/* Far out by exp(t/2)^2 / 2, which overflows no sooner than the result. */
TD_INLINE float td_fast_sinh_f32(float x)
{
    float t = fabsf(x), e = td_fast_expm1_f32(t), h = td_fast_exp_f32(0.5f * t);
    return copysignf(t > 20.0f ? 0.5f * h * h : 0.5f * (e + e / (e + 1.0f)), x);
}
TD_INLINE float td_fast_cosh_f32(float x)
{
    float t = fabsf(x), e = td_fast_exp_f32(t), h = td_fast_exp_f32(0.5f * t);
    return t > 20.0f ? 0.5f * h * h : 0.5f * (e + 1.0f / e);
}
TD_INLINE float td_fast_asinh_f32(float x)
{
    float t = fabsf(x), u = t * t;
    float near = td_fast_log1p_f32(t + u / (1.0f + sqrtf(1.0f + u)));
    return copysignf(t > 1e9f ? td_fast_log_f32(t) + 6.93147181e-1f : near, x);
}
TD_INLINE float td_fast_acosh_f32(float x)
{
    float d = x - 1.0f;
    float near = td_fast_log1p_f32(d + sqrtf(d * (x + 1.0f)));
    return x > 1e9f ? td_fast_log_f32(x) + 6.93147181e-1f : x < 1.0f ? NAN : near;
}
TD_INLINE float td_fast_atanh_f32(float x)
{
    float t = fabsf(x);
    return copysignf(0.5f * td_fast_log1p_f32(2.0f * t / (1.0f - t)), x);
}

/* erfc(t) = exp(-t^2) P(u) / (t + 2.5) with u = (t - 2.5) / (t + 2.5) for t = |x|, and 2 - that for x below
 * 0. exp(-t^2) keeps its last places by t^2 = h^2 + (t - h)(t + h), where h is t in 12 bits, so that h^2 is
 * exact. */
TD_INLINE float td_fast_erfc_f32(float x)
{
    float t = fabsf(x);
    t = t > 10.1f ? 10.1f : t; /* erfc(10.1) is 0 */
    float h = td_bits_float(td_float_bits(t) & 0xfffff000u);
    float d = (h - t) * (h + t);
    float e = td_fast_exp_f32(-h * h) *
              (1.0f + d * (1.0f + d * (0.5f + d * (1.66666667e-1f + d * 4.16666667e-2f))));
    float r = 1.0f / (t + 2.5f), u = (t - 2.5f) * r;
    float p = 1.42608187e-4f;
    p = p * u + 6.29658811e-4f;
    p = p * u - 5.2559661e-4f;
    p = p * u - 4.8044617e-3f;
    p = p * u + 8.42129253e-3f;
    p = p * u + 2.83608120e-2f;
    p = p * u - 1.71254635e-1f;
    p = p * u + 4.53914136e-1f;
    p = p * u - 8.04651737e-1f;
    p = p * u + 1.05403185f;
    float y = e * p * r;
    return x < 0.0f ? 2.0f - y : y;
}

/* log(1 + exp(x)) without overflow, to the last place at both ends. */
TD_INLINE float td_fast_softplus_f32(float x)
{
    float e = td_fast_exp_f32(-fabsf(x));
    float u = 1.0f + e; /* log1p without its edges: 0 <= e <= 1 */
    return (x > 0.0f ? x : 0.0f) + (td_log_core(u, 0) + (e - (u - 1.0f)) / u);
}

void td_vec_tanh_f32(const float *x, float *y, int64_t n);
void td_vec_sigmoid_f32(const float *x, float *y, int64_t n);

/* Sums and extremes in a fixed order of partial results: the same numbers on every machine. Sum of nothing is
 * 0, maximum of nothing -infinity; a NaN anywhere makes the maximum NaN. */
float td_vec_sum_f32(const float *x, int64_t n);
float td_vec_max_f32(const float *x, int64_t n);
/* y[i] = exp(x[i] - shift); returns the sum of y. */
float td_vec_exp_sum_f32(const float *x, float shift, float *y, int64_t n);

#endif
