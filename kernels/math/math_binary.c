/* kernels/math/math_binary.c - z = f(x, y) with NumPy broadcasting.
 *
 *   x [..], y [..] of T  ->  z [broadcast of both] of T
 *
 * Integer results wrap; integer division by zero and negative integer exponents are INVALID_ARGUMENT, looked
 * for in the whole second operand before the loop starts. Xlogy and its kin are 0 where x is 0, whatever y
 * is. Special functions of two and three arguments are in math_special.c, bit operations in bitwise.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/fused/fused_stage.h"
#include "kernels/cpu/simplify.h"
#include "kernels/cpu/upcast.h"
#include "kernels/math/math_binary_grad.h"

#define RUN(op, ...)                                                                                         \
    static td_binary_fn *const op##_fns[TD_DTYPE_END] = {__VA_ARGS__};                                       \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return td_binary_run(c, op##_fns, err);                                                              \
    }

#define FLOATS(attr, op)                                                                                     \
    TD_BINARY(attr, op##_f32, float, td_##op##_f32)                                                          \
    TD_BINARY(, op##_f64, double, td_##op##_f64)                                                             \
    TD_BINARY_F16(op##_f16, op##_f32)                                                                        \
    TD_BINARY_BF16(op##_bf16, op##_f32)
#define COMPLEX(op) TD_BINARY(, op##_c64, td_cf, td_##op##_c64) TD_BINARY(, op##_c128, td_cd, td_##op##_c128)
#define INT_LOOP(attr, op, tag, T) TD_BINARY(attr, op##_##tag, T, td_##op##_##tag)
#define SIGNED(attr, op)                                                                                     \
    INT_LOOP(, op, i8, int8_t)                                                                               \
    INT_LOOP(, op, i16, int16_t) INT_LOOP(attr, op, i32, int32_t) INT_LOOP(, op, i64, int64_t)
#define UNSIGNED(op)                                                                                         \
    INT_LOOP(, op, u8, uint8_t)                                                                              \
    INT_LOOP(, op, u16, uint16_t) INT_LOOP(, op, u32, uint32_t) INT_LOOP(, op, u64, uint64_t)
#define ROWS_REALS(op) TD_ROWS_FLOATS(op), TD_ROWS_SIGNED(op), TD_ROWS_UNSIGNED(op)

/* ------------------------------------------------------------------ sums and products */

FLOATS(TD_CLONES, add)
COMPLEX(add)
SIGNED(TD_CLONES, add)
UNSIGNED(add)
RUN(add, ROWS_REALS(add), TD_ROWS_COMPLEX(add))

FLOATS(TD_CLONES, sub)
COMPLEX(sub)
SIGNED(TD_CLONES, sub)
UNSIGNED(sub)
RUN(sub, ROWS_REALS(sub), TD_ROWS_COMPLEX(sub))

FLOATS(TD_CLONES, mul)
COMPLEX(mul)
SIGNED(TD_CLONES, mul)
UNSIGNED(mul)
RUN(mul, ROWS_REALS(mul), TD_ROWS_COMPLEX(mul))

FLOATS(TD_CLONES, sqdiff)
COMPLEX(sqdiff)
INT_LOOP(, sqdiff, i32, int32_t)
INT_LOOP(, sqdiff, i64, int64_t)
RUN(sqdiff, TD_ROWS_FLOATS(sqdiff), TD_ROWS_COMPLEX(sqdiff), [TD_INT32] = sqdiff_i32, [TD_INT64] = sqdiff_i64)

FLOATS(TD_CLONES, max)
SIGNED(TD_CLONES, max)
UNSIGNED(max)
RUN(max, ROWS_REALS(max))

FLOATS(TD_CLONES, min)
SIGNED(TD_CLONES, min)
UNSIGNED(min)
RUN(min, ROWS_REALS(min))

/* ------------------------------------------------------------------ functions of floats */

#define FUNCTION(attr, op)                                                                                   \
    FLOATS(attr, op)                                                                                         \
    COMPLEX(op)                                                                                              \
    RUN(op, TD_ROWS_FLOATS(op), TD_ROWS_COMPLEX(op))
FUNCTION(TD_CLONES, mul_no_nan)
FUNCTION(TD_CLONES, div_no_nan)
FUNCTION(, xlogy)
FUNCTION(, xlog1py)
FUNCTION(TD_CLONES, xdivy)

FLOATS(TD_CLONES, div)
COMPLEX(div)
RUN(real_div, TD_ROWS_FLOATS(div), TD_ROWS_COMPLEX(div))

TD_BINARY(TD_CLONES, atan2_f32, float, td_fast_atan2_f32)
TD_BINARY(, atan2_f64, double, td_atan2_f64)
TD_BINARY_F16(atan2_f16, atan2_f32)
TD_BINARY_BF16(atan2_bf16, atan2_f32)
RUN(atan2, TD_ROWS_FLOATS(atan2))

TD_BINARY(, next_after_f32, float, td_next_after_f32)
TD_BINARY(, next_after_f64, double, td_next_after_f64)
RUN(next_after, [TD_FLOAT] = next_after_f32, [TD_DOUBLE] = next_after_f64)

/* ------------------------------------------------------------------ division with remainder, powers */

static bool has_zero(const struct td_tensor *t)
{
    int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        if (td_tensor_int(t, i) == 0) {
            return true;
        }
    }
    return false;
}

static enum td_code divide_run(struct td_call *c, td_binary_fn *const fns[TD_DTYPE_END], struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    const struct td_tensor *y = c->in[1];
    TD_FAIL_IF(td_dtype_in(y->dtype, TD_SET_INTS) && td_tensor_count(z) > 0 && has_zero(y), err,
               INVALID_ARGUMENT, "%s: Integer division by zero", TD_NODE_STR(c->node));
    return td_binary_apply(c, fns[y->dtype], c->in[0], y, z, err);
}

#define DIVISION(op, ...)                                                                                    \
    static td_binary_fn *const op##_fns[TD_DTYPE_END] = {__VA_ARGS__};                                       \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        return divide_run(c, op##_fns, err);                                                                 \
    }

/* 16-bit quotients are rounded to their type before they are rounded to an integer. */
#define QUOTIENT_FLOATS(op, round)                                                                           \
    TD_BINARY(TD_CLONES, op##_f32, float, td_##op##_f32)                                                     \
    TD_BINARY(, op##_f64, double, td_##op##_f64)                                                             \
    static float op##_of_f16(float a, float b)                                                               \
    {                                                                                                        \
        return round(td_round_half(a / b));                                                                  \
    }                                                                                                        \
    static float op##_of_bf16(float a, float b)                                                              \
    {                                                                                                        \
        return round(td_round_bf16(a / b));                                                                  \
    }                                                                                                        \
    TD_BINARY(, op##_rounded_f16, float, op##_of_f16)                                                        \
    TD_BINARY(, op##_rounded_bf16, float, op##_of_bf16)                                                      \
    TD_BINARY_F16(op##_f16, op##_rounded_f16)                                                                \
    TD_BINARY_BF16(op##_bf16, op##_rounded_bf16)
/* int32 by way of double, which holds quotient and remainder exactly and divides in vectors; b is not 0. */
TD_INLINE double quotient_i32(int32_t a, int32_t b)
{
    return (double)a / (double)b;
}
TD_INLINE int32_t fast_trunc_div(int32_t a, int32_t b)
{
    const double q = quotient_i32(a, b);
    return q >= 0x1p31 ? INT32_MIN : (int32_t)q;
}
TD_INLINE int32_t fast_floor_div(int32_t a, int32_t b)
{
    const int32_t t = fast_trunc_div(a, b);
    return t - ((double)t > quotient_i32(a, b));
}
TD_INLINE int32_t fast_trunc_mod(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)fast_trunc_div(a, b) * (uint32_t)b);
}
TD_INLINE int32_t fast_floor_mod(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)fast_floor_div(a, b) * (uint32_t)b);
}
#define SIGNED_QUOTIENT(op)                                                                                  \
    INT_LOOP(, op, i8, int8_t)                                                                               \
    INT_LOOP(, op, i16, int16_t)                                                                             \
    TD_BINARY(TD_CLONES, op##_i32, int32_t, fast_##op) INT_LOOP(, op, i64, int64_t)

QUOTIENT_FLOATS(floor_div, floorf)
SIGNED_QUOTIENT(floor_div)
UNSIGNED(floor_div)
DIVISION(floor_div, ROWS_REALS(floor_div))

QUOTIENT_FLOATS(trunc_div, truncf)
SIGNED_QUOTIENT(trunc_div)
UNSIGNED(trunc_div)
DIVISION(trunc_div, ROWS_REALS(trunc_div))
DIVISION(div, TD_ROWS_FLOATS(div), TD_ROWS_COMPLEX(div), TD_ROWS_SIGNED(trunc_div),
         TD_ROWS_UNSIGNED(trunc_div))

FLOATS(, floor_mod)
SIGNED_QUOTIENT(floor_mod)
UNSIGNED(floor_mod)
DIVISION(floor_mod, ROWS_REALS(floor_mod))

TD_BINARY(, trunc_mod_f32, float, td_trunc_mod_f32)
TD_BINARY(, trunc_mod_f64, double, td_trunc_mod_f64)
TD_BINARY(TD_CLONES, trunc_mod_i32, int32_t, fast_trunc_mod)
INT_LOOP(, trunc_mod, i64, int64_t)
DIVISION(trunc_mod, [TD_FLOAT] = trunc_mod_f32, [TD_DOUBLE] = trunc_mod_f64, [TD_INT32] = trunc_mod_i32,
         [TD_INT64] = trunc_mod_i64)

FLOATS(, pow)
COMPLEX(pow)
SIGNED(, pow)
static td_binary_fn *const pow_fns[TD_DTYPE_END] = {TD_ROWS_FLOATS(pow), TD_ROWS_COMPLEX(pow),
                                                    TD_ROWS_SIGNED(pow)};

static enum td_code pow_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    const struct td_tensor *y = c->in[1];
    int64_t n = td_dtype_in(y->dtype, TD_SET_INTS) && td_tensor_count(z) > 0 ? td_tensor_count(y) : 0;
    for (int64_t i = 0; i < n; i++) {
        TD_FAIL_IF(td_tensor_int(y, i) < 0, err, INVALID_ARGUMENT,
                   "%s: Integers to negative integer powers are not allowed; exponent %lld is %lld",
                   TD_NODE_STR(c->node), (long long)i, (long long)td_tensor_int(y, i));
    }
    return td_binary_apply(c, pow_fns[y->dtype], c->in[0], y, z, err);
}

/* ------------------------------------------------------------------ Add of strings: concatenation */

/* Position in t of element i of a tensor of shape z that t broadcasts to. */
static int64_t broadcast_index(const struct td_shape *t, const struct td_shape *z, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = z->rank - 1, k = t->rank - 1; k >= 0; d--, k--) {
        int64_t coord = i % z->dim[d];
        i /= z->dim[d];
        at += t->dim[k] == 1 ? 0 : coord * step;
        step *= t->dim[k];
    }
    return at;
}

static enum td_code add_strings_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    int64_t n = td_tensor_count(z);
    for (int64_t i = 0; i < n; i++) {
        size_t na, nb;
        const char *a = td_tensor_str(c->in[0], broadcast_index(&c->in[0]->shape, &z->shape, i), &na);
        const char *b = td_tensor_str(c->in[1], broadcast_index(&c->in[1]->shape, &z->shape, i), &nb);
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        char *both = td_calloc(na + nb + 1, 1);
        if (both == NULL) {
            return td_no_memory(err, na + nb, "a concatenated string");
        }
        memcpy(both, a, na);
        memcpy(both + na, b, nb);
        enum td_code rc = td_tensor_set_str(z, i, both, na + nb, err);
        td_free(both);
        TD_TRY(rc);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ cheaper forms */

static struct td_value simplify_mul(struct td_emitter *e, const struct td_node *n)
{
    return td_without(e, n, TD_EITHER, 1);
}

/* Of floats a quotient is rounded to a whole number. */
static struct td_value simplify_whole_div(struct td_emitter *e, const struct td_node *n)
{
    return td_dtype_in(n->out_type[0], TD_SET_INTS) ? td_without(e, n, TD_RIGHT, 1) : td_no_value;
}

/* x ^ 1 is x, x ^ 2 is Square(x), a rounding apart. */
static struct td_value simplify_pow(struct td_emitter *e, const struct td_node *n)
{
    const struct td_value x = td_without(e, n, TD_RIGHT, 1);
    if (x.node != NULL || !td_dtype_in(n->out_type[0], TD_SET_F32_F64 | TD_SET_INDEX) ||
        !td_is_all(e, n->in[1], 2, n->in[0])) {
        return x;
    }
    return td_emit(e, "Square", TD_IN(n->in[0]), TD_NO_ATTRS);
}

/* 1 / c of each element in place; false when some is no power of two or leaves the normal numbers. */
static bool invert_powers(struct td_tensor *t)
{
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        double v = t->dtype == TD_FLOAT ? (double)TD_DATA(t, float)[i] : TD_DATA(t, double)[i];
        int exponent;
        if (fabs(frexp(v, &exponent)) != 0.5 || abs(exponent) > 100) {
            return false;
        }
        if (t->dtype == TD_FLOAT) {
            TD_DATA(t, float)[i] = (float)(1 / v);
        } else {
            TD_DATA(t, double)[i] = 1 / v;
        }
    }
    return true;
}

/* x / 1 is x; x / c, c a power of two, is x * (1 / c): a product is several times faster. */
static struct td_value simplify_real_div(struct td_emitter *e, const struct td_node *n)
{
    enum { MAX_DIVISORS = 4096 };
    const struct td_value x = td_without(e, n, TD_RIGHT, 1);
    const struct td_tensor *c = td_known_value(n->in[1]);
    struct td_tensor inverse;
    if (x.node != NULL || c == NULL || !td_dtype_in(c->dtype, TD_SET_F32_F64) || td_tensor_count(c) == 0 ||
        td_tensor_count(c) > MAX_DIVISORS || td_tensor_copy(&inverse, c, e->err)) {
        return x;
    }
    const bool exact = invert_powers(&inverse);
    const struct td_value factor = exact ? td_emit_const(e, &inverse) : td_no_value;
    td_tensor_clear(&inverse);
    return exact ? td_emit(e, "Mul", TD_IN(n->in[0], factor), TD_NO_ATTRS) : td_no_value;
}

/* ------------------------------------------------------------------ the table */

/* Further members of the row follow. */
#define ROW_AS(op_name, sig_text, op, set, ...)                                                              \
    {                                                                                                        \
        .name = op_name, .sig = sig_text, .infer = td_infer_broadcast,                                       \
        .kernels = TD_KERNEL("math_binary.cpu", op##_run, {"T", set}), __VA_ARGS__                           \
    }
#define ROW(op_name, op, set, ...)                                                                           \
    ROW_AS(op_name, "(x:T, y:T) -> (z:T) {T:type}", op, set, .flags = TD_OP_ELEMENTWISE, __VA_ARGS__)
#define ROW_COMMUTES(op_name, op, set, ...)                                                                  \
    ROW_AS(op_name, "(x:T, y:T) -> (z:T) {T:type}", op, set, .flags = TD_OP_ELEMENTWISE | TD_OP_COMMUTATIVE, \
           __VA_ARGS__)
#define SIZES(fn) .batchable = TD_BATCHABLE_NUMBER(fn) /* graphs compute shapes with it */
#define FLOATS_COMPLEX (TD_SET_FLOATS | TD_SET_COMPLEX)

const struct td_op td_ops_math_binary[] = {
    {.name = "Add",
     .sig = "(x:T, y:T) -> (z:T) {T:type}",
     .permute = &td_permute_elementwise,
     SIZES(td_affine_add),
     .infer = td_infer_broadcast,
     .simplify = td_simplify_sum,
     .fuse = {.stage = &td_stage_add},
     .halves = TD_HALVES_ADD,
     .grad = td_add_grad,
     .kernels =
         (const struct td_kernel[]){
             {.name = "math_binary.cpu", .device = TD_CPU, .types = {{"T", TD_SET_NUMBERS}}, .run = add_run},
             {.name = "math_binary.strings",
              .device = TD_CPU,
              .types = {{"T", TD_BIT(TD_STRING)}},
              .run = add_strings_run},
             {.name = NULL}}},
    ROW_COMMUTES("AddV2", add, TD_SET_NUMBERS, SIZES(td_affine_add), .simplify = td_simplify_sum,
                 .fuse = {.stage = &td_stage_add}, .halves = TD_HALVES_ADD, .grad = td_add_grad),
    ROW("Sub", sub, TD_SET_NUMBERS, SIZES(td_affine_sub), .simplify = td_simplify_less,
        .fuse = {.stage = &td_stage_sub}, .grad = td_sub_grad),
    ROW_COMMUTES("Mul", mul, TD_SET_NUMBERS, SIZES(td_affine_mul), .simplify = simplify_mul,
                 .fuse = {.stage = &td_stage_mul}, .grad = td_mul_grad),
    ROW("MulNoNan", mul_no_nan, FLOATS_COMPLEX, .grad = td_mul_no_nan_grad),
    ROW("Div", div, TD_SET_NUMBERS, SIZES(td_affine_div), .simplify = td_simplify_quotient,
        .fuse = {.stage = &td_stage_div}, .grad = td_div_grad),
    ROW("RealDiv", real_div, FLOATS_COMPLEX, .simplify = simplify_real_div, .fuse = {.stage = &td_stage_div},
        .grad = td_div_grad),
    ROW("DivNoNan", div_no_nan, FLOATS_COMPLEX, .simplify = td_simplify_quotient, .grad = td_div_no_nan_grad),
    ROW("FloorDiv", floor_div, TD_SET_REALS, SIZES(td_affine_div), .simplify = simplify_whole_div,
        .grad = td_not_differentiable),
    ROW("FloorMod", floor_mod, TD_SET_REALS, SIZES(td_affine_mod), .grad = td_floor_mod_grad),
    ROW("TruncateDiv", trunc_div, TD_SET_REALS, SIZES(td_affine_div), .simplify = simplify_whole_div,
        .grad = td_not_differentiable),
    ROW("TruncateMod", trunc_mod, TD_SET_F32_F64 | TD_SET_INDEX, SIZES(td_affine_mod)),
    ROW("Mod", trunc_mod, TD_SET_F32_F64 | TD_SET_INDEX, SIZES(td_affine_mod)),
    ROW("Pow", pow, FLOATS_COMPLEX | TD_SET_SIGNED, .simplify = simplify_pow, .grad = td_pow_grad),
    ROW("Maximum", max, TD_SET_REALS, SIZES(td_affine_max), .fuse = {.stage = TD_STAGE_TWO(max_f32)},
        .halves = TD_HALVES_KEEP, .grad = td_maximum_grad),
    ROW("Minimum", min, TD_SET_REALS, SIZES(td_affine_min), .fuse = {.stage = TD_STAGE_TWO(min_f32)},
        .halves = TD_HALVES_KEEP, .grad = td_minimum_grad),
    ROW("SquaredDifference", sqdiff, FLOATS_COMPLEX | TD_SET_INDEX,
        .fuse = {.stage = TD_STAGE_TWO(sqdiff_f32)}, .grad = td_squared_difference_grad),
    ROW("Xlogy", xlogy, FLOATS_COMPLEX, .grad = td_xlogy_grad),
    ROW("Xlog1py", xlog1py, FLOATS_COMPLEX, .grad = td_xlog1py_grad),
    ROW("Xdivy", xdivy, FLOATS_COMPLEX, .grad = td_xdivy_grad),
    ROW_AS("Atan2", "(y:T, x:T) -> (z:T) {T:type}", atan2, TD_SET_FLOATS, .flags = TD_OP_ELEMENTWISE,
           .grad = td_atan2_grad),
    ROW_AS("NextAfter", "(x1:T, x2:T) -> (output:T) {T:type=float}", next_after, TD_SET_F32_F64,
           .flags = TD_OP_ELEMENTWISE, .grad = td_next_after_grad),
    {.name = NULL},
};
