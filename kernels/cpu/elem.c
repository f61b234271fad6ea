/* kernels/cpu/elem.c - arithmetic on one element of any dtype: one stamped function a type, found by a
 * switch.
 *
 * For ops that combine single elements in an order that data decide, where a vector loop has nothing to gain.
 * Integers add and multiply in an unsigned type that is not promoted, so they wrap; the lowest one divided by
 * -1 is itself; dividing by 0 is told, not done. Half and bfloat16 are computed in float, complex64 products
 * in double.
 *
 * Does not: loop, broadcast, handle strings.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/elem.h"

#include <math.h>

/* Integers: add and multiply in an unsigned type wide enough not to be promoted to int. */
#define INT_APPLY(name, type, wide, minus_one)                                                               \
    static bool apply_##name(enum td_elem_op op, type *out, type a, type b)                                  \
    {                                                                                                        \
        if (op == TD_ELEM_DIV && b == 0) {                                                                   \
            return false;                                                                                    \
        }                                                                                                    \
        *out = op == TD_ELEM_ADD   ? (type)((wide)a + (wide)b)                                               \
               : op == TD_ELEM_MUL ? (type)((wide)a * (wide)b)                                               \
               : op == TD_ELEM_DIV ? (minus_one ? (type)(0 - (wide)a) : (type)(a / b))                       \
               : op == TD_ELEM_MAX ? (a < b ? b : a)                                                         \
                                   : (b < a ? b : a);                                                        \
        return true;                                                                                         \
    }

#define FLOAT_APPLY(name, type)                                                                              \
    static type apply_##name(enum td_elem_op op, type a, type b)                                             \
    {                                                                                                        \
        return op == TD_ELEM_ADD   ? a + b                                                                   \
               : op == TD_ELEM_MUL ? a * b                                                                   \
               : op == TD_ELEM_DIV ? a / b                                                                   \
               : op == TD_ELEM_MAX ? (a < b ? b : a)                                                         \
                                   : (b < a ? b : a);                                                        \
    }

INT_APPLY(i8, int8_t, uint32_t, b == -1)
INT_APPLY(i16, int16_t, uint32_t, b == -1)
INT_APPLY(i32, int32_t, uint32_t, b == -1)
INT_APPLY(i64, int64_t, uint64_t, b == -1)
INT_APPLY(u8, uint8_t, uint32_t, false)
INT_APPLY(u16, uint16_t, uint32_t, false)
INT_APPLY(u32, uint32_t, uint32_t, false)
INT_APPLY(u64, uint64_t, uint64_t, false)
FLOAT_APPLY(float, float)
FLOAT_APPLY(double, double)

static bool apply_complex(enum td_elem_op op, td_c128 *out, td_c128 a, td_c128 b)
{
    if (op == TD_ELEM_ADD) {
        *out = (td_c128){a.re + b.re, a.im + b.im};
    } else if (op == TD_ELEM_MUL) {
        *out = (td_c128){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else if (op == TD_ELEM_DIV) {
        double d = b.re * b.re + b.im * b.im;
        *out = (td_c128){(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
    } else {
        return false;
    }
    return true;
}

static bool apply_c64(enum td_elem_op op, td_c64 *out, const td_c64 *a, const td_c64 *b)
{
    td_c128 y;
    if (op == TD_ELEM_ADD) {
        *out = (td_c64){a->re + b->re, a->im + b->im};
        return true;
    }
    if (!apply_complex(op, &y, (td_c128){(double)a->re, (double)a->im},
                       (td_c128){(double)b->re, (double)b->im})) {
        return false;
    }
    *out = (td_c64){(float)y.re, (float)y.im};
    return true;
}

bool td_elem_apply(enum td_dtype dtype, enum td_elem_op op, void *out, const void *a, const void *b)
{
#define INT_CASE(DTYPE, name, type)                                                                          \
    case DTYPE:                                                                                              \
        return apply_##name(op, out, *(const type *)a, *(const type *)b);
    switch (dtype) {
        INT_CASE(TD_INT8, i8, int8_t)
        INT_CASE(TD_INT16, i16, int16_t)
        INT_CASE(TD_INT32, i32, int32_t)
        INT_CASE(TD_INT64, i64, int64_t)
        INT_CASE(TD_UINT8, u8, uint8_t)
        INT_CASE(TD_UINT16, u16, uint16_t)
        INT_CASE(TD_UINT32, u32, uint32_t)
        INT_CASE(TD_UINT64, u64, uint64_t)
    case TD_FLOAT:
        *(float *)out = apply_float(op, *(const float *)a, *(const float *)b);
        return true;
    case TD_DOUBLE:
        *(double *)out = apply_double(op, *(const double *)a, *(const double *)b);
        return true;
    case TD_HALF:
        *(td_half *)out = td_float_to_half(
            apply_float(op, td_half_to_float(*(const td_half *)a), td_half_to_float(*(const td_half *)b)));
        return true;
    case TD_BFLOAT16:
        *(td_bf16 *)out = td_float_to_bf16(
            apply_float(op, td_bf16_to_float(*(const td_bf16 *)a), td_bf16_to_float(*(const td_bf16 *)b)));
        return true;
    case TD_COMPLEX64:
        return apply_c64(op, out, a, b);
    case TD_COMPLEX128:
        return apply_complex(op, out, *(const td_c128 *)a, *(const td_c128 *)b);
    default:
        return false;
    }
#undef INT_CASE
}

double td_elem_abs(enum td_dtype dtype, const void *x)
{
    switch (dtype) {
    case TD_FLOAT:
        return (double)fabsf(*(const float *)x);
    case TD_DOUBLE:
        return fabs(*(const double *)x);
    case TD_INT8:
        return fabs((double)*(const int8_t *)x);
    case TD_INT16:
        return fabs((double)*(const int16_t *)x);
    case TD_INT32:
        return fabs((double)*(const int32_t *)x);
    case TD_INT64:
        return fabs((double)*(const int64_t *)x);
    case TD_HALF:
        return (double)fabsf(td_half_to_float(*(const td_half *)x));
    case TD_BFLOAT16:
        return (double)fabsf(td_bf16_to_float(*(const td_bf16 *)x));
    case TD_COMPLEX64:
        return (double)hypotf(((const td_c64 *)x)->re, ((const td_c64 *)x)->im);
    case TD_COMPLEX128:
        return hypot(((const td_c128 *)x)->re, ((const td_c128 *)x)->im);
    default:
        return 0;
    }
}
