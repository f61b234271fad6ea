/* core/base/dtype.h - element types: TensorFlow's numbers, names and sizes, and conversions of the two 16-bit
 * floats.
 *
 * A type set is a bit mask, TD_BIT(TD_FLOAT) | TD_BIT(TD_INT32); the usual sets of TensorFlow's kernels have
 * names here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_DTYPE_H
#define TD_CORE_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct td_obj;
typedef struct td_obj *td_objp; /* element of string, variant and resource tensors */
typedef struct {
    uint16_t bits;
} td_half; /* IEEE binary16 */
typedef struct {
    uint16_t bits;
} td_bf16; /* upper half of a binary32 */
typedef struct {
    float re, im;
} td_c64;
typedef struct {
    double re, im;
} td_c128;
typedef uint8_t td_bool; /* 0 or 1 */

enum td_dtype {
    TD_DTYPE_NONE = 0,
#define X(NAME, number, ctype, name, bytes) TD_##NAME = number,
#include "core/base/dtype.def"
#undef X
    TD_DTYPE_END = 24
};

#define TD_BIT(dtype) (1u << (dtype))
#define TD_SET_FLOATS (TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define TD_SET_INTS                                                                                          \
    (TD_BIT(TD_INT8) | TD_BIT(TD_INT16) | TD_BIT(TD_INT32) | TD_BIT(TD_INT64) | TD_BIT(TD_UINT8) |           \
     TD_BIT(TD_UINT16) | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))
#define TD_SET_COMPLEX (TD_BIT(TD_COMPLEX64) | TD_BIT(TD_COMPLEX128))
#define TD_SET_QUANTIZED                                                                                     \
    (TD_BIT(TD_QINT8) | TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT16) | TD_BIT(TD_QUINT16) | TD_BIT(TD_QINT32))
#define TD_SET_REALS (TD_SET_FLOATS | TD_SET_INTS)     /* TF_CALL_REAL_NUMBER_TYPES */
#define TD_SET_NUMBERS (TD_SET_REALS | TD_SET_COMPLEX) /* TF_CALL_NUMBER_TYPES */
#define TD_SET_PLAIN                                                                                         \
    (TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_SET_QUANTIZED) /* all whose elements are plain bytes */
#define TD_SET_OBJECTS (TD_BIT(TD_STRING) | TD_BIT(TD_VARIANT) | TD_BIT(TD_RESOURCE))
#define TD_SET_ALL (TD_SET_PLAIN | TD_SET_OBJECTS)
#define TD_SET_INDEX (TD_BIT(TD_INT32) | TD_BIT(TD_INT64))

const char *td_dtype_name(enum td_dtype t);    /* "float"; "invalid" for a number that is no type */
const char *td_dtype_tf_name(enum td_dtype t); /* "DT_FLOAT"; "DT_INVALID" */
size_t td_dtype_size(enum td_dtype t);         /* bytes an element; 0 for no type */
bool td_dtype_valid(int number);
bool td_dtype_is_object(enum td_dtype t); /* elements are counted pointers (string, variant, resource) */
static inline bool td_dtype_in(enum td_dtype t, uint32_t set)
{
    return (set >> t) & 1u;
}

static inline uint32_t td_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float td_bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
/* Conversions to and from the 16-bit floats: to nearest even, overflow gives infinity, NaN stays NaN. Without
 * branches, so that loops over them become vector code; right also where the processor flushes denormals. */
static inline float td_half_to_float(td_half h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, rest = h.bits & 0x7fffu;
    uint32_t tiny = td_float_bits((float)(int32_t)rest * 0x1p-24f); /* a subnormal half, exact */
    uint32_t u = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u);
    return td_bits_float(sign | (rest < 0x400u ? tiny : u));
}
static inline td_half td_float_to_half(float f)
{
    uint32_t u = td_float_bits(f), sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    /* below 2^-14 the addition of 0.5 rounds at bit 2^-24; from there on the exponent moves by -112 */
    uint32_t tiny = td_float_bits(td_bits_float(u) + 0.5f) - 0x3f000000u;
    uint32_t r = u < 0x38800000u ? tiny : (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
    r = u >= 0x477ff000u ? 0x7c00u : r; /* 65520 and above */
    r = u > 0x7f800000u ? 0x7e00u : r;
    return (td_half){(uint16_t)(sign | r)};
}
static inline float td_bf16_to_float(td_bf16 b)
{
    return td_bits_float((uint32_t)b.bits << 16);
}
static inline td_bf16 td_float_to_bf16(float f)
{
    uint32_t u = td_float_bits(f), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (td_bf16){(uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : r)};
}

#endif
