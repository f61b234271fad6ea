/* core/dtype.c - names and sizes from dtype.def; half and bfloat16 conversion in plain integer arithmetic.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/dtype.h"

static const struct { const char *name, *tf_name; size_t size; } rows[TD_DTYPE_END] = {
#define X(NAME, number, ctype, lower, bytes) [number] = {lower, "DT_" #NAME, bytes},
#include "core/dtype.def"
#undef X
};

#define X(NAME, number, ctype, lower, bytes) _Static_assert(sizeof(ctype) == (bytes), "size of " lower);
#include "core/dtype.def"
#undef X

bool td_dtype_valid(int number)
{
    return number > 0 && number < TD_DTYPE_END && rows[number].name != NULL;
}

const char *td_dtype_name(enum td_dtype t)
{
    return td_dtype_valid((int)t) ? rows[t].name : "invalid";
}

const char *td_dtype_tf_name(enum td_dtype t)
{
    return td_dtype_valid((int)t) ? rows[t].tf_name : "DT_INVALID";
}

size_t td_dtype_size(enum td_dtype t)
{
    return td_dtype_valid((int)t) ? rows[t].size : 0;
}

bool td_dtype_is_object(enum td_dtype t)
{
    return td_dtype_in(t, TD_SET_OBJECTS);
}

float td_half_to_float(td_half h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16;
    uint32_t exponent = (h.bits >> 10) & 0x1fu;
    uint32_t mantissa = h.bits & 0x3ffu;
    uint32_t u;
    if (exponent == 0x1f) {
        u = sign | 0x7f800000u | (mantissa << 13);
    } else if (exponent != 0) {
        u = sign | ((exponent + 112) << 23) | (mantissa << 13);
    } else {
        float f = (float)mantissa * 0x1p-24f; /* subnormal, exact */
        memcpy(&u, &f, 4);
        u |= sign;
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}

td_half td_float_to_half(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) {
        return (td_half){(uint16_t)(sign | 0x7e00u)};
    }
    if (u >= 0x477ff000u) { /* 65520 and above round to infinity */
        return (td_half){(uint16_t)(sign | 0x7c00u)};
    }
    if (u < 0x38800000u) { /* below 2^-14: let the addition of 0.5 round at bit 2^-24 */
        float magic = 0.5f, v;
        memcpy(&v, &u, 4);
        v += magic;
        uint32_t r;
        memcpy(&r, &v, 4);
        return (td_half){(uint16_t)(sign | (r - 0x3f000000u))};
    }
    uint32_t odd = (u >> 13) & 1u;
    u += 0xc8000fffu + odd; /* rebias the exponent by -112 and round to nearest even */
    return (td_half){(uint16_t)(sign | (u >> 13))};
}

td_bf16 td_float_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (td_bf16){(uint16_t)((u >> 16) | 0x40u)};
    }
    u += 0x7fffu + ((u >> 16) & 1u);
    return (td_bf16){(uint16_t)(u >> 16)};
}
