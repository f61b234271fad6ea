/* kernels/cpu/combine.c - element-wise accumulation by dtype.
 *
 * Integers wrap (computed unsigned); half and bfloat16 go through float and round after every step, as
 * Eigen does. MIN and MAX keep dst when either side is NaN, LEAST and
 * MOST take src. Bool ADD is "or", SUB "differs".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/combine.h"

#include <float.h>
#include <math.h>

#include "kernels/cpu/strided.h"

/* One op of one dtype: T in memory, `expr` of x (dst) and y (src). */
#define COMBINE(name, T, expr)                                                                               \
    static void name(void *dst, const void *src, int64_t n, int step)                                        \
    {                                                                                                        \
        T *restrict d = dst;                                                                                 \
        const T *restrict s = src;                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T x = d[i], y = s[i * step];                                                               \
            d[i] = (expr);                                                                                   \
        }                                                                                                    \
    }

/* Wrapping arithmetic: W is an unsigned type at least as wide as int. */
#define INTEGER(dt, T, W, divide)                                                                            \
    COMBINE(add_##dt, T, (T)((W)x + (W)y))                                                                   \
    COMBINE(sub_##dt, T, (T)((W)x - (W)y))                                                                   \
    COMBINE(mul_##dt, T, (T)((W)x * (W)y))                                                                   \
    COMBINE(div_##dt, T, divide)                                                                             \
    COMBINE(min_##dt, T, y < x ? y : x)                                                                      \
    COMBINE(max_##dt, T, x < y ? y : x)
#define SIGNED(dt, T, W) INTEGER(dt, T, W, y == 0 ? x : y == -1 ? (T)((W)0 - (W)x) : (T)(x / y))
#define UNSIGNED(dt, T, W) INTEGER(dt, T, W, y == 0 ? x : (T)(x / y))
SIGNED(int8, int8_t, uint32_t)
SIGNED(int16, int16_t, uint32_t)
SIGNED(int32, int32_t, uint32_t)
SIGNED(int64, int64_t, uint64_t)
UNSIGNED(uint8, uint8_t, uint32_t)
UNSIGNED(uint16, uint16_t, uint32_t)
UNSIGNED(uint32, uint32_t, uint32_t)
UNSIGNED(uint64, uint64_t, uint64_t)

#define FLOATING(dt, T)                                                                                      \
    COMBINE(add_##dt, T, x + y)                                                                              \
    COMBINE(sub_##dt, T, x - y)                                                                              \
    COMBINE(mul_##dt, T, x *y)                                                                               \
    COMBINE(div_##dt, T, x / y)                                                                              \
    COMBINE(min_##dt, T, y < x ? y : x)                                                                      \
    COMBINE(max_##dt, T, x < y ? y : x)                                                                      \
    COMBINE(least_##dt, T, x < y ? x : y)                                                                    \
    COMBINE(most_##dt, T, y < x ? x : y)
FLOATING(float, float)
FLOATING(double, double)

#define SMALL(dt, T, up, down)                                                                               \
    COMBINE(add_##dt, T, down(up(x) + up(y)))                                                                \
    COMBINE(sub_##dt, T, down(up(x) - up(y)))                                                                \
    COMBINE(mul_##dt, T, down(up(x) * up(y)))                                                                \
    COMBINE(div_##dt, T, down(up(x) / up(y)))                                                                \
    COMBINE(min_##dt, T, up(y) < up(x) ? y : x)                                                              \
    COMBINE(max_##dt, T, up(x) < up(y) ? y : x)                                                              \
    COMBINE(least_##dt, T, up(x) < up(y) ? x : y)                                                            \
    COMBINE(most_##dt, T, up(y) < up(x) ? x : y)
SMALL(half, td_half, td_half_to_float, td_float_to_half)
SMALL(bfloat16, td_bf16, td_bf16_to_float, td_float_to_bf16)

#define COMPLEX(dt, T)                                                                                       \
    static T divide_##dt(T x, T y)                                                                           \
    {                                                                                                        \
        const double d = (double)y.re * y.re + (double)y.im * y.im;                                          \
        T q;                                                                                                 \
        q.re = ((double)x.re * y.re + (double)x.im * y.im) / d;                                              \
        q.im = ((double)x.im * y.re - (double)x.re * y.im) / d;                                              \
        return q;                                                                                            \
    }                                                                                                        \
    COMBINE(add_##dt, T, ((T){x.re + y.re, x.im + y.im}))                                                    \
    COMBINE(sub_##dt, T, ((T){x.re - y.re, x.im - y.im}))                                                    \
    COMBINE(mul_##dt, T, ((T){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}))                        \
    COMBINE(div_##dt, T, divide_##dt(x, y))
COMPLEX(complex64, td_c64)
COMPLEX(complex128, td_c128)

COMBINE(add_bool, td_bool, x || y)
COMBINE(sub_bool, td_bool, x != y)

#define FOUR(dt)                                                                                             \
    {                                                                                                        \
        NULL, add_##dt, sub_##dt, mul_##dt, div_##dt, NULL, NULL, NULL, NULL                                 \
    }
#define SIX(dt)                                                                                              \
    {                                                                                                        \
        NULL, add_##dt, sub_##dt, mul_##dt, div_##dt, min_##dt, max_##dt, min_##dt, max_##dt                 \
    }
#define EIGHT(dt)                                                                                            \
    {                                                                                                        \
        NULL, add_##dt, sub_##dt, mul_##dt, div_##dt, min_##dt, max_##dt, least_##dt, most_##dt              \
    }

/* Combines n elements; src advances by `step` (1, or 0 for one scalar against all). Integer division by
 * zero leaves the element: callers refuse it first (td_combine_has_zero). */
typedef void combine_fn(void *dst, const void *src, int64_t n, int step);

/* In the order of enum td_combine_op; UPDATE is not here: it is td_elems_copy. */
static combine_fn *const table[TD_DTYPE_END][TD_COMBINE_OPS] = {
    [TD_INT8] = SIX(int8),
    [TD_INT16] = SIX(int16),
    [TD_INT32] = SIX(int32),
    [TD_INT64] = SIX(int64),
    [TD_UINT8] = SIX(uint8),
    [TD_UINT16] = SIX(uint16),
    [TD_UINT32] = SIX(uint32),
    [TD_UINT64] = SIX(uint64),
    [TD_FLOAT] = EIGHT(float),
    [TD_DOUBLE] = EIGHT(double),
    [TD_HALF] = EIGHT(half),
    [TD_BFLOAT16] = EIGHT(bfloat16),
    [TD_COMPLEX64] = FOUR(complex64),
    [TD_COMPLEX128] = FOUR(complex128),
    [TD_BOOL] = {NULL, add_bool, sub_bool},
};

void td_combine_run(enum td_combine_op op, enum td_dtype dtype, void *dst, const void *src, int64_t n,
                    int step)
{
    if (n <= 0) {
        return;
    }
    if (op != TD_COMBINE_UPDATE) {
        table[dtype][op](dst, src, n, step);
    } else if (step != 0) {
        td_elems_copy(dtype, dst, src, n);
    } else {
        td_strided_fill(dtype, dst, src, n);
    }
}

#define ANY_ZERO(T, expr)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        const T x = ((const T *)src)[i];                                                                     \
        if (expr) {                                                                                          \
            return true;                                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    return false

bool td_combine_has_zero(enum td_dtype dtype, const void *src, int64_t n)
{
    switch (dtype) {
    case TD_FLOAT:
        ANY_ZERO(float, x == 0);
    case TD_DOUBLE:
        ANY_ZERO(double, x == 0);
    case TD_HALF:
    case TD_BFLOAT16:
        ANY_ZERO(uint16_t, (x & 0x7fff) == 0);
    case TD_COMPLEX64:
        ANY_ZERO(td_c64, x.re == 0 && x.im == 0);
    case TD_COMPLEX128:
        ANY_ZERO(td_c128, x.re == 0 && x.im == 0);
    case TD_INT8:
    case TD_UINT8:
        ANY_ZERO(uint8_t, x == 0);
    case TD_INT16:
    case TD_UINT16:
        ANY_ZERO(uint16_t, x == 0);
    case TD_INT32:
    case TD_UINT32:
        ANY_ZERO(uint32_t, x == 0);
    case TD_INT64:
    case TD_UINT64:
        ANY_ZERO(uint64_t, x == 0);
    default:
        return false;
    }
}

union number {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f;
    double d;
    td_half h;
    td_bf16 b;
    td_c64 c;
    td_c128 z;
};

static union number one(enum td_dtype dtype)
{
    union number v = {.z = {0, 0}};
    switch (dtype) {
    case TD_FLOAT:
    case TD_COMPLEX64:
        v.f = 1;
        break;
    case TD_DOUBLE:
    case TD_COMPLEX128:
        v.d = 1;
        break;
    case TD_HALF:
        v.h = td_float_to_half(1);
        break;
    case TD_BFLOAT16:
        v.b = td_float_to_bf16(1);
        break;
    default:
        v.u64 = 1; /* little-endian: the low byte, whatever the width */
        break;
    }
    return v;
}

/* Largest finite value, or (low) the most negative: what TensorFlow starts Max and Min of segments with. */
static union number limit(enum td_dtype dtype, bool low)
{
    union number v = {.z = {0, 0}};
    const double sign = low ? -1 : 1;
    switch (dtype) {
    case TD_FLOAT:
        v.f = (float)sign * FLT_MAX;
        break;
    case TD_DOUBLE:
        v.d = sign * DBL_MAX;
        break;
    case TD_HALF:
        v.h = td_float_to_half((float)sign * 65504.0f);
        break;
    case TD_BFLOAT16:
        v.b.bits = low ? 0xff7f : 0x7f7f;
        break;
    case TD_INT8:
        v.i8 = low ? INT8_MIN : INT8_MAX;
        break;
    case TD_INT16:
        v.i16 = low ? INT16_MIN : INT16_MAX;
        break;
    case TD_INT32:
        v.i32 = low ? INT32_MIN : INT32_MAX;
        break;
    case TD_INT64:
        v.i64 = low ? INT64_MIN : INT64_MAX;
        break;
    default: /* unsigned of any width */
        v.u64 = low ? 0 : UINT64_MAX;
        break;
    }
    return v;
}

void td_combine_identity(enum td_combine_op op, enum td_dtype dtype, void *dst, int64_t n)
{
    if (n <= 0) {
        return;
    }
    union number v;
    switch (op) {
    case TD_COMBINE_MUL:
    case TD_COMBINE_DIV:
        v = one(dtype);
        break;
    case TD_COMBINE_MIN:
    case TD_COMBINE_LEAST:
        v = limit(dtype, false);
        break;
    case TD_COMBINE_MAX:
    case TD_COMBINE_MOST:
        v = limit(dtype, true);
        break;
    default:
        td_strided_zero(dtype, dst, n);
        return;
    }
    td_strided_fill(dtype, dst, &v, n);
}
