/* kernels/cpu/upcast.c - conversions of whole arrays between the number types and float or double.
 *
 * Kernels that have one body in float serve half and bfloat16 through here, as TensorFlow's own do. The
 * functions take every real dtype, so that image ops (uint8 in, float out) need one body as well.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/upcast.h"

#include <float.h>
#include <math.h>

#include "core/base/mem.h"
#include "kernels/cpu/vecmath.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define EACH(expr)                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        y[i] = (expr);                                                                                       \
    }                                                                                                        \
    break

/* ------------------------------------------------------------------ the 16-bit floats */

#define DEFINE_CONVERSION(name, to, from, convert)                                                           \
    TD_CLONES static void name(to *y, const from *x, int64_t n)                                              \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            y[i] = convert(x[i]);                                                                            \
        }                                                                                                    \
    }
DEFINE_CONVERSION(bf16s_to_floats, float, td_bf16, td_bf16_to_float)
DEFINE_CONVERSION(floats_to_bf16s, td_bf16, float, td_float_to_bf16)
DEFINE_CONVERSION(halves_plain, float, td_half, td_half_to_float)
DEFINE_CONVERSION(floats_plain, td_half, float, td_float_to_half)

#if defined(__x86_64__)
#define HAS_F16C __builtin_cpu_supports("avx2") /* every processor with AVX2 has F16C, a name clang lacks */
/* n is a multiple of 8. */
__attribute__((target("avx,f16c"))) static void halves_f16c(float *y, const td_half *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    }
}
__attribute__((target("avx,f16c"))) static void floats_f16c(td_half *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        _mm_storeu_si128((__m128i *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    }
}
#else
#define HAS_F16C 0
#define halves_f16c halves_plain
#define floats_f16c floats_plain
#endif

static void halves_to_floats(float *y, const td_half *x, int64_t n)
{
    const int64_t whole = HAS_F16C ? n / 8 * 8 : 0;
    halves_f16c(y, x, whole);
    halves_plain(y + whole, x + whole, n - whole);
}

static void floats_to_halves(td_half *y, const float *x, int64_t n)
{
    const int64_t whole = HAS_F16C ? n / 8 * 8 : 0;
    floats_f16c(y, x, whole);
    floats_plain(y + whole, x + whole, n - whole);
}

/* ------------------------------------------------------------------ any type to float or double */

#define UPCAST_BODY(ctype)                                                                                   \
    switch (dtype) {                                                                                         \
    case TD_FLOAT:                                                                                           \
        EACH((ctype)((const float *)x)[i]);                                                                  \
    case TD_DOUBLE:                                                                                          \
        EACH((ctype)((const double *)x)[i]);                                                                 \
    case TD_HALF:                                                                                            \
        EACH(td_half_to_float(((const td_half *)x)[i]));                                                     \
    case TD_BFLOAT16:                                                                                        \
        EACH(td_bf16_to_float(((const td_bf16 *)x)[i]));                                                     \
    case TD_INT8:                                                                                            \
        EACH((ctype)((const int8_t *)x)[i]);                                                                 \
    case TD_UINT8:                                                                                           \
    case TD_BOOL:                                                                                            \
        EACH((ctype)((const uint8_t *)x)[i]);                                                                \
    case TD_INT16:                                                                                           \
        EACH((ctype)((const int16_t *)x)[i]);                                                                \
    case TD_UINT16:                                                                                          \
        EACH((ctype)((const uint16_t *)x)[i]);                                                               \
    case TD_INT32:                                                                                           \
        EACH((ctype)((const int32_t *)x)[i]);                                                                \
    case TD_UINT32:                                                                                          \
        EACH((ctype)((const uint32_t *)x)[i]);                                                               \
    case TD_INT64:                                                                                           \
        EACH((ctype)((const int64_t *)x)[i]);                                                                \
    case TD_UINT64:                                                                                          \
        EACH((ctype)((const uint64_t *)x)[i]);                                                               \
    default:                                                                                                 \
        TD_CHECK(n == 0);                                                                                    \
    }

void td_upcast_elems(float *y, const void *x, enum td_dtype dtype, int64_t n)
{
    if (dtype == TD_HALF) {
        halves_to_floats(y, x, n);
    } else if (dtype == TD_BFLOAT16) {
        bf16s_to_floats(y, x, n);
    } else {
        UPCAST_BODY(float)
    }
}

void td_upcast_doubles(double *y, const void *x, enum td_dtype dtype, int64_t n)
{
    UPCAST_BODY(double)
}

/* Towards zero, clipped; NaN gives 0. lo and hi are representable in double or just outside the range. */
static double clip(double v, double lo, double hi)
{
    if (isnan(v)) {
        return 0;
    }
    return v < lo ? lo : v > hi ? hi : v;
}

#define DOWNCAST(ctype, expr)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        ((ctype *)y)[i] = (expr);                                                                            \
    }                                                                                                        \
    break
#define DOWNCAST_INT(ctype, lo, hi) DOWNCAST(ctype, (ctype)clip(x[i], lo, hi))

void td_downcast_doubles(void *y, const double *x, enum td_dtype dtype, int64_t n)
{
    switch (dtype) {
    case TD_FLOAT:
        DOWNCAST(float, (float)x[i]);
    case TD_DOUBLE:
        DOWNCAST(double, x[i]);
    case TD_HALF:
        DOWNCAST(td_half, td_float_to_half((float)x[i]));
    case TD_BFLOAT16:
        DOWNCAST(td_bf16, td_float_to_bf16((float)x[i]));
    case TD_INT8:
        DOWNCAST_INT(int8_t, INT8_MIN, INT8_MAX);
    case TD_UINT8:
        DOWNCAST_INT(uint8_t, 0, UINT8_MAX);
    case TD_INT16:
        DOWNCAST_INT(int16_t, INT16_MIN, INT16_MAX);
    case TD_UINT16:
        DOWNCAST_INT(uint16_t, 0, UINT16_MAX);
    case TD_INT32:
        DOWNCAST_INT(int32_t, INT32_MIN, INT32_MAX);
    case TD_UINT32:
        DOWNCAST_INT(uint32_t, 0, UINT32_MAX);
    case TD_INT64:
        DOWNCAST_INT(int64_t, -0x1p63, 0x1.fffffffffffffp62);
    case TD_UINT64:
        DOWNCAST_INT(uint64_t, 0, 0x1.fffffffffffffp63);
    default:
        TD_CHECK(n == 0);
    }
}

enum td_code td_upcast(struct td_call *c, const struct td_tensor *t, const float **x, struct td_err *err)
{
    if (t->dtype == TD_FLOAT) {
        *x = t->data;
        return TD_OK;
    }
    int64_t n = td_tensor_count(t);
    void *room;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(float), &room, err));
    td_upcast_elems(room, t->data, t->dtype, n);
    *x = room;
    return TD_OK;
}

enum td_code td_upcast_room(struct td_call *c, const struct td_tensor *t, float **y, struct td_err *err)
{
    if (t->dtype == TD_FLOAT) {
        *y = t->data;
        return TD_OK;
    }
    void *room;
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(t) * sizeof(float), &room, err));
    *y = room;
    return TD_OK;
}

double td_round_to(enum td_dtype dtype, double v)
{
    switch (dtype) {
    case TD_HALF:
        return td_round_half((float)v);
    case TD_BFLOAT16:
        return td_round_bf16((float)v);
    case TD_FLOAT:
        return (float)v;
    default:
        return v;
    }
}

double td_largest(enum td_dtype dtype)
{
    switch (dtype) {
    case TD_HALF:
        return 65504;
    case TD_BFLOAT16:
        return 0x1.fep127;
    case TD_FLOAT:
        return FLT_MAX;
    default:
        return DBL_MAX;
    }
}

void td_downcast_elems(void *y, const float *x, enum td_dtype dtype, int64_t n)
{
    if (dtype == TD_HALF) {
        floats_to_halves(y, x, n);
    } else {
        floats_to_bf16s(y, x, n);
    }
}

void td_downcast(struct td_tensor *t, const float *y)
{
    if (t->dtype == TD_HALF || t->dtype == TD_BFLOAT16) {
        td_downcast_elems(t->data, y, t->dtype, td_tensor_count(t));
    }
}
