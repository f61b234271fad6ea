/* kernels/math/math_unary.c - y = f(x), element by element, with functions of the C library and of
 * kernels/cpu/vecmath.h.
 *
 *   x [any shape] of T  ->  y [same shape] of T
 *
 * Integer results wrap. Round and Rint go to the even neighbour at ties. Functions beyond the C library
 * (Digamma, Erfinv, Bessel ...) are in math_special.c; predicates in math_compare.c; |complex|, Real, Imag in
 * math_complex.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/fused/fused_stage.h"
#include "kernels/cpu/simplify.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/math/math_unary_grad.h"

#define RUN(op, ...)                                                                                         \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_unary_fn *const fns[TD_DTYPE_END] = {__VA_ARGS__};                                         \
        return td_unary_run(c, fns, err);                                                                    \
    }

/* Loops of the four float types from a float and a double function. */
#define FLOATS(attr, op, ffn, dfn)                                                                           \
    TD_UNARY_LOOP(attr, op##_f32, float, float, ffn)                                                         \
    OTHER_FLOATS(op, attr, dfn)
#define OTHER_FLOATS(op, attr, dfn)                                                                          \
    TD_UNARY_LOOP(attr, op##_f64, double, double, dfn)                                                       \
    TD_UNARY_F16(op##_f16, op##_f32)                                                                         \
    TD_UNARY_BF16(op##_bf16, op##_f32)
#define COMPLEX(op, cffn, cdfn)                                                                              \
    TD_UNARY_LOOP(, op##_c64, td_cf, td_cf, cffn)                                                            \
    TD_UNARY_LOOP(, op##_c128, td_cd, td_cd, cdfn)
#define INT_LOOP(op, tag, T) TD_UNARY_LOOP(, op##_##tag, T, T, td_##op##_##tag)
#define SIGNED(op)                                                                                           \
    INT_LOOP(op, i8, int8_t) INT_LOOP(op, i16, int16_t) INT_LOOP(op, i32, int32_t) INT_LOOP(op, i64, int64_t)
#define UNSIGNED(op)                                                                                         \
    INT_LOOP(op, u8, uint8_t)                                                                                \
    INT_LOOP(op, u16, uint16_t) INT_LOOP(op, u32, uint32_t) INT_LOOP(op, u64, uint64_t)

/* ------------------------------------------------------------------ arithmetic of all numbers */

FLOATS(TD_CLONES, abs, td_abs_f32, td_abs_f64)
SIGNED(abs)
RUN(abs, TD_ROWS_FLOATS(abs), TD_ROWS_SIGNED(abs))

FLOATS(TD_CLONES, neg, td_neg_f32, td_neg_f64)
COMPLEX(neg, td_neg_c64, td_neg_c128)
SIGNED(neg)
RUN(neg, TD_ROWS_FLOATS(neg), TD_ROWS_COMPLEX(neg), TD_ROWS_SIGNED(neg))

FLOATS(TD_CLONES, square, td_square_f32, td_square_f64)
COMPLEX(square, td_square_c64, td_square_c128)
SIGNED(square)
UNSIGNED(square)
RUN(square, TD_ROWS_FLOATS(square), TD_ROWS_COMPLEX(square), TD_ROWS_SIGNED(square), TD_ROWS_UNSIGNED(square))

FLOATS(TD_CLONES, sign, td_sign_f32, td_sign_f64)
COMPLEX(sign, td_sign_c64, td_sign_c128)
SIGNED(sign)
RUN(sign, TD_ROWS_FLOATS(sign), TD_ROWS_COMPLEX(sign), TD_ROWS_SIGNED(sign))

/* ------------------------------------------------------------------ rounding */

FLOATS(TD_CLONES, floor, floorf, floor)
RUN(floor, TD_ROWS_FLOATS(floor))
FLOATS(TD_CLONES, ceil, ceilf, ceil)
RUN(ceil, TD_ROWS_FLOATS(ceil))
FLOATS(TD_CLONES, round, rintf, rint)
TD_UNARY_LOOP(, round_i32, int32_t, int32_t, TD_AS_IS)
TD_UNARY_LOOP(, round_i64, int64_t, int64_t, TD_AS_IS)
RUN(round, TD_ROWS_FLOATS(round), [TD_INT32] = round_i32, [TD_INT64] = round_i64)

/* ------------------------------------------------------------------ real and complex functions */

/* OP(name, attribute, float, double, complex float, complex double function) */
#define FUNCTIONS(OP)                                                                                        \
    OP(sqrt, TD_CLONES, sqrtf, sqrt, csqrtf, csqrt)                                                          \
    OP(rsqrt, TD_CLONES, td_rsqrt_f32, td_rsqrt_f64, td_rsqrt_c64, td_rsqrt_c128)                            \
    OP(inv, TD_CLONES, td_inv_f32, td_inv_f64, td_inv_c64, td_inv_c128)                                      \
    OP(exp, TD_CLONES, td_fast_exp_f32, exp, cexpf, cexp)                                                    \
    OP(expm1, TD_CLONES, td_fast_expm1_f32, expm1, td_expm1_c64, td_expm1_c128)                              \
    OP(log, TD_CLONES, td_fast_log_f32, log, clogf, clog)                                                    \
    OP(log1p, TD_CLONES, td_fast_log1p_f32, log1p, td_log1p_c64, td_log1p_c128)                              \
    OP(asin, TD_CLONES, td_fast_asin_f32, asin, casinf, casin)                                               \
    OP(acos, TD_CLONES, td_fast_acos_f32, acos, cacosf, cacos)                                               \
    OP(atan, TD_CLONES, td_fast_atan_f32, atan, catanf, catan)                                               \
    OP(sinh, TD_CLONES, td_fast_sinh_f32, sinh, csinhf, csinh)                                               \
    OP(cosh, TD_CLONES, td_fast_cosh_f32, cosh, ccoshf, ccosh)                                               \
    OP(tanh, TD_CLONES, td_fast_tanh_f32, tanh, ctanhf, ctanh)                                               \
    OP(asinh, TD_CLONES, td_fast_asinh_f32, asinh, casinhf, casinh)                                          \
    OP(acosh, TD_CLONES, td_fast_acosh_f32, acosh, cacoshf, cacosh)                                          \
    OP(atanh, TD_CLONES, td_fast_atanh_f32, atanh, catanhf, catanh)                                          \
    OP(sigmoid, TD_CLONES, td_fast_sigmoid_f32, sigmoid_of_double, td_sigmoid_c64, td_sigmoid_c128)

static double sigmoid_of_double(double x)
{
    return 1 / (1 + exp(-x));
}

#define STAMP(op, attr, ffn, dfn, cffn, cdfn)                                                                \
    FLOATS(attr, op, ffn, dfn)                                                                               \
    COMPLEX(op, cffn, cdfn)                                                                                  \
    RUN(op, TD_ROWS_FLOATS(op), TD_ROWS_COMPLEX(op))
FUNCTIONS(STAMP)

/* Blocks with an argument too large for the short reduction go to the C library. */
enum { TRIG_BLOCK = 256 };

TD_CLONES static bool any_large(const float *x, int64_t n)
{
    int large = 0;
    for (int64_t i = 0; i < n; i++) {
        large |= !(fabsf(x[i]) <= TD_TRIG_MAX);
    }
    return large != 0;
}

#define TRIG(op)                                                                                             \
    TD_UNARY_LOOP(TD_CLONES, op##_small, float, float, td_fast_##op##_f32)                                   \
    TD_UNARY_LOOP(, op##_large, float, float, op##f)                                                         \
    static void op##_f32(const void *xv, void *yv, int64_t n)                                                \
    {                                                                                                        \
        const float *x = xv;                                                                                 \
        float *y = yv;                                                                                       \
        for (int64_t i = 0; i < n; i += TRIG_BLOCK) {                                                        \
            const int64_t m = n - i < TRIG_BLOCK ? n - i : TRIG_BLOCK;                                       \
            (any_large(x + i, m) ? op##_large : op##_small)(x + i, y + i, m);                                \
        }                                                                                                    \
    }                                                                                                        \
    OTHER_FLOATS(op, , op)                                                                                   \
    COMPLEX(op, c##op##f, c##op)                                                                             \
    RUN(op, TD_ROWS_FLOATS(op), TD_ROWS_COMPLEX(op))
TRIG(sin)
TRIG(cos)
TRIG(tan)

FLOATS(TD_CLONES, erf, td_fast_erf_f32, erf)
RUN(erf, TD_ROWS_FLOATS(erf))
FLOATS(TD_CLONES, erfc, td_fast_erfc_f32, erfc)
RUN(erfc, TD_ROWS_FLOATS(erfc))

/* ------------------------------------------------------------------ the table */

/* Further members of the row follow. */
#define ROW(op_name, op, set, ...)                                                                           \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T) -> (y:T) {T:type}", .flags = TD_OP_ELEMENTWISE,                       \
        .infer = td_infer_same, .kernels = TD_KERNEL("math_unary.cpu", op##_run, {"T", set}), __VA_ARGS__    \
    }
/* One that may be a stage of a fused node, by its loop of floats. */
#define ROW_FUSES(op_name, op, set, ...)                                                                     \
    ROW(op_name, op, set, .fuse = {.stage = TD_STAGE_ONE(op##_f32)}, __VA_ARGS__)
#define NUMBERS (TD_SET_FLOATS | TD_SET_COMPLEX)

const struct td_op td_ops_math_unary[] = {
    ROW_FUSES("Abs", abs, TD_SET_FLOATS | TD_SET_SIGNED, .halves = TD_HALVES_KEEP,
              .simplify = td_simplify_repeated, .grad = td_abs_grad),
    ROW("Neg", neg, NUMBERS | TD_SET_SIGNED, .fuse = {.stage = &td_stage_neg}, .halves = TD_HALVES_KEEP,
        .simplify = td_simplify_undone, .grad = td_neg_grad),
    ROW_FUSES("Square", square, TD_SET_NUMBERS, .grad = td_square_grad),
    ROW_FUSES("Sign", sign, NUMBERS | TD_SET_SIGNED, .simplify = td_simplify_repeated, .grad = td_sign_grad),
    ROW("Floor", floor, TD_SET_FLOATS, .simplify = td_simplify_repeated, .grad = td_not_differentiable),
    ROW("Ceil", ceil, TD_SET_FLOATS, .simplify = td_simplify_repeated, .grad = td_not_differentiable),
    ROW("Round", round, TD_SET_FLOATS | TD_SET_INDEX, .simplify = td_simplify_repeated,
        .grad = td_not_differentiable),
    ROW("Rint", round, TD_SET_FLOATS, .simplify = td_simplify_repeated, .grad = td_not_differentiable),
    ROW_FUSES("Sqrt", sqrt, NUMBERS, .grad = td_sqrt_grad),
    ROW_FUSES("Rsqrt", rsqrt, NUMBERS, .grad = td_rsqrt_grad),
    ROW_FUSES("Inv", inv, NUMBERS, .grad = td_inv_grad),
    ROW_FUSES("Reciprocal", inv, NUMBERS, .grad = td_inv_grad),
    ROW_FUSES("Exp", exp, NUMBERS, .grad = td_exp_grad),
    ROW_FUSES("Expm1", expm1, NUMBERS, .grad = td_expm1_grad),
    ROW_FUSES("Log", log, NUMBERS, .grad = td_log_grad),
    ROW_FUSES("Log1p", log1p, NUMBERS, .grad = td_log1p_grad),
    ROW("Sin", sin, NUMBERS, .grad = td_sin_grad),
    ROW("Cos", cos, NUMBERS, .grad = td_cos_grad),
    ROW("Tan", tan, NUMBERS, .grad = td_tan_grad),
    ROW("Asin", asin, NUMBERS, .grad = td_asin_grad),
    ROW("Acos", acos, NUMBERS, .grad = td_acos_grad),
    ROW("Atan", atan, NUMBERS, .grad = td_atan_grad),
    ROW("Sinh", sinh, NUMBERS, .grad = td_sinh_grad),
    ROW("Cosh", cosh, NUMBERS, .grad = td_cosh_grad),
    ROW("Tanh", tanh, NUMBERS, .fuse = {.stage = TD_STAGE_POST(tanh_f32, TD_POST_TANH)},
        .grad = td_tanh_grad),
    ROW("Asinh", asinh, NUMBERS, .grad = td_asinh_grad),
    ROW("Acosh", acosh, NUMBERS, .grad = td_acosh_grad),
    ROW("Atanh", atanh, NUMBERS, .grad = td_atanh_grad),
    ROW("Sigmoid", sigmoid, NUMBERS, .fuse = {.stage = &td_stage_sigmoid}, .grad = td_sigmoid_grad),
    ROW("Erf", erf, TD_SET_FLOATS, .fuse = {.stage = &td_stage_erf}, .grad = td_erf_grad),
    ROW("Erfc", erfc, TD_SET_FLOATS, .fuse = {.stage = &td_stage_erfc}, .grad = td_erfc_grad),
    {.name = NULL},
};
