/* kernels/cpu/accumulate.c - adds or subtracts an array in place: one stamped loop a dtype and sign, found in
 * a table.
 *
 * Signed integers go through their unsigned type, so they wrap; complex numbers are twice as many reals; half
 * and bfloat16 are rounded once an element. The loops are plain, for the compiler to vectorise.
 *
 * Does not: broadcast, check shapes, or use threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/accumulate.h"

/* One stamped loop a dtype and sign; integers wrap by going through their unsigned type. */
#define STAMP(fn, ctype, expr)                                                                               \
    static void fn(void *dst, const void *src, int64_t n)                                                    \
    {                                                                                                        \
        ctype *d = dst;                                                                                      \
        const ctype *s = src;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            d[i] = (expr);                                                                                   \
        }                                                                                                    \
    }
STAMP(add_f32, float, d[i] + s[i])
STAMP(sub_f32, float, d[i] - s[i])
STAMP(add_f64, double, d[i] + s[i])
STAMP(sub_f64, double, d[i] - s[i])
STAMP(add_u8, uint8_t, (uint8_t)(d[i] + s[i]))
STAMP(sub_u8, uint8_t, (uint8_t)(d[i] - s[i]))
STAMP(add_u16, uint16_t, (uint16_t)(d[i] + s[i]))
STAMP(sub_u16, uint16_t, (uint16_t)(d[i] - s[i]))
STAMP(add_u32, uint32_t, d[i] + s[i])
STAMP(sub_u32, uint32_t, d[i] - s[i])
STAMP(add_u64, uint64_t, d[i] + s[i])
STAMP(sub_u64, uint64_t, d[i] - s[i])
STAMP(add_f16, td_half, td_float_to_half(td_half_to_float(d[i]) + td_half_to_float(s[i])))
STAMP(sub_f16, td_half, td_float_to_half(td_half_to_float(d[i]) - td_half_to_float(s[i])))
STAMP(add_bf16, td_bf16, td_float_to_bf16(td_bf16_to_float(d[i]) + td_bf16_to_float(s[i])))
STAMP(sub_bf16, td_bf16, td_float_to_bf16(td_bf16_to_float(d[i]) - td_bf16_to_float(s[i])))

typedef void update_fn(void *dst, const void *src, int64_t n);
/* Complex numbers are pairs of reals (width 2); signed integers add as unsigned ones. */
struct update {
    enum td_dtype dtype;
    update_fn *add, *sub;
    int width;
};
static const struct update updates[] = {
    {TD_FLOAT, add_f32, sub_f32, 1},     {TD_DOUBLE, add_f64, sub_f64, 1},
    {TD_COMPLEX64, add_f32, sub_f32, 2}, {TD_COMPLEX128, add_f64, sub_f64, 2},
    {TD_HALF, add_f16, sub_f16, 1},      {TD_BFLOAT16, add_bf16, sub_bf16, 1},
    {TD_INT8, add_u8, sub_u8, 1},        {TD_UINT8, add_u8, sub_u8, 1},
    {TD_INT16, add_u16, sub_u16, 1},     {TD_UINT16, add_u16, sub_u16, 1},
    {TD_INT32, add_u32, sub_u32, 1},     {TD_UINT32, add_u32, sub_u32, 1},
    {TD_INT64, add_u64, sub_u64, 1},     {TD_UINT64, add_u64, sub_u64, 1},
};

bool td_accumulate(enum td_dtype dtype, bool sub, void *dst, const void *src, int64_t n)
{
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        if (updates[i].dtype == dtype) {
            (sub ? updates[i].sub : updates[i].add)(dst, src, n * updates[i].width);
            return true;
        }
    }
    return false;
}
