/* kernels/math/math_compare.c - comparisons, boolean logic and tests of floats, all with bool results.
 *
 *   x, y [broadcastable] of T  ->  z [broadcast of both] of bool
 *   IsNan and its kin: x       ->  y [same shape] of bool
 *
 * Comparisons follow IEEE: false with NaN, except NotEqual. Equal and NotEqual take every dtype but variants
 * and resources; with incompatible_shape_error=false, shapes that do not broadcast answer one scalar instead
 * of an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/simplify.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cpu/vecmath.h"

/* ------------------------------------------------------------------ loops */

#define LESS(a, b) ((a) < (b))
#define LESS_EQUAL(a, b) ((a) <= (b))
#define GREATER(a, b) ((a) > (b))
#define GREATER_EQUAL(a, b) ((a) >= (b))
#define EQUAL(a, b) ((a) == (b))
#define NOT_EQUAL(a, b) ((a) != (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))

#define LOOP(attr, op, tag, T, load, rel) TD_BINARY_LOOP(attr, op##_##tag, T, td_bool, load, (td_bool), rel)
#define REAL_LOOPS(op, rel)                                                                                  \
    LOOP(TD_CLONES, op, f32, float, TD_AS_IS, rel)                                                           \
    LOOP(, op, f64, double, TD_AS_IS, rel)                                                                   \
    TD_BINARY_16(op##_f16, TD_HALF, TD_BOOL, op##_f32)                                                       \
    TD_BINARY_16(op##_bf16, TD_BFLOAT16, TD_BOOL, op##_f32)                                                  \
    LOOP(, op, i8, int8_t, TD_AS_IS, rel)                                                                    \
    LOOP(, op, i16, int16_t, TD_AS_IS, rel)                                                                  \
    LOOP(, op, i32, int32_t, TD_AS_IS, rel)                                                                  \
    LOOP(, op, i64, int64_t, TD_AS_IS, rel)                                                                  \
    LOOP(, op, u8, uint8_t, TD_AS_IS, rel)                                                                   \
    LOOP(, op, u16, uint16_t, TD_AS_IS, rel)                                                                 \
    LOOP(, op, u32, uint32_t, TD_AS_IS, rel)                                                                 \
    LOOP(, op, u64, uint64_t, TD_AS_IS, rel)
#define REAL_ROWS(op) TD_ROWS_FLOATS(op), TD_ROWS_SIGNED(op), TD_ROWS_UNSIGNED(op)

#define ORDER(op, rel)                                                                                       \
    REAL_LOOPS(op, rel)                                                                                      \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_binary_fn *const fns[TD_DTYPE_END] = {REAL_ROWS(op)};                                      \
        return td_binary_run(c, fns, err);                                                                   \
    }
ORDER(less, LESS)
ORDER(less_equal, LESS_EQUAL)
ORDER(greater, GREATER)
ORDER(greater_equal, GREATER_EQUAL)

/* ------------------------------------------------------------------ Equal, NotEqual */

static bool same_string(td_objp a, td_objp b)
{
    const struct td_tensor ta = {.data = &a, .dtype = TD_STRING}, tb = {.data = &b, .dtype = TD_STRING};
    size_t na, nb;
    const char *pa = td_tensor_str(&ta, 0, &na), *pb = td_tensor_str(&tb, 0, &nb);
    return na == nb && (na == 0 || memcmp(pa, pb, na) == 0);
}
static bool other_string(td_objp a, td_objp b)
{
    return !same_string(a, b);
}

REAL_LOOPS(equal, EQUAL)
LOOP(, equal, c64, td_cf, TD_AS_IS, EQUAL)
LOOP(, equal, c128, td_cd, TD_AS_IS, EQUAL)
LOOP(, equal, str, td_objp, TD_AS_IS, same_string)
REAL_LOOPS(not_equal, NOT_EQUAL)
LOOP(, not_equal, c64, td_cf, TD_AS_IS, NOT_EQUAL)
LOOP(, not_equal, c128, td_cd, TD_AS_IS, NOT_EQUAL)
LOOP(, not_equal, str, td_objp, TD_AS_IS, other_string)

#define ALL_ROWS(op)                                                                                         \
    REAL_ROWS(op), TD_ROWS_COMPLEX(op), [TD_STRING] = op##_str, [TD_BOOL] = op##_u8, [TD_QINT8] = op##_i8,   \
                                        [TD_QUINT8] = op##_u8, [TD_QINT16] = op##_i16,                       \
                                        [TD_QUINT16] = op##_u16, [TD_QINT32] = op##_i32

static enum td_code infer_equal(struct td_infer *c, struct td_err *err)
{
    if (td_attr_bool(c->node, "incompatible_shape_error")) {
        return td_infer_broadcast(c, err);
    }
    if (!td_shape_known(&c->in[0]) || !td_shape_known(&c->in[1])) {
        return TD_OK; /* a scalar, should the shapes not fit */
    }
    if (td_shape_broadcast(&c->in[0], &c->in[1], &c->out[0], NULL)) {
        c->out[0] = td_shape_scalar();
    }
    return TD_OK;
}

static enum td_code equality_run(struct td_call *c, td_binary_fn *const fns[TD_DTYPE_END],
                                 bool when_incompatible, struct td_err *err)
{
    struct td_shape both;
    if (td_shape_broadcast(&c->in[0]->shape, &c->in[1]->shape, &both, NULL)) {
        struct td_tensor *z;
        TD_TRY(td_out(c, 0, NULL, &z, err));
        TD_DATA(z, td_bool)[0] = when_incompatible;
        return TD_OK;
    }
    return td_binary_run(c, fns, err);
}

static enum td_code equal_run(struct td_call *c, struct td_err *err)
{
    static td_binary_fn *const fns[TD_DTYPE_END] = {ALL_ROWS(equal)};
    return equality_run(c, fns, false, err);
}

static enum td_code not_equal_run(struct td_call *c, struct td_err *err)
{
    static td_binary_fn *const fns[TD_DTYPE_END] = {ALL_ROWS(not_equal)};
    return equality_run(c, fns, true, err);
}

/* ------------------------------------------------------------------ ApproximateEqual */

static enum td_code approximate_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *z;
    TD_TRY(td_out(c, 0, NULL, &z, err));
    int64_t n = td_tensor_count(z);
    float tolerance = (float)td_attr_float(c->node, "tolerance");
    td_bool *out = z->data;
    if (c->in[0]->dtype == TD_FLOAT) {
        const float *x = c->in[0]->data, *y = c->in[1]->data;
        for (int64_t i = 0; i < n; i++) {
            out[i] = fabsf(x[i] - y[i]) < tolerance;
        }
    } else {
        const double *x = c->in[0]->data, *y = c->in[1]->data;
        for (int64_t i = 0; i < n; i++) {
            out[i] = fabs(x[i] - y[i]) < (double)tolerance;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ logic and tests of floats */

LOOP(, logical_and, bool, td_bool, TD_AS_IS, AND)
LOOP(, logical_or, bool, td_bool, TD_AS_IS, OR)

static enum td_code logical_and_run(struct td_call *c, struct td_err *err)
{
    static td_binary_fn *const fns[TD_DTYPE_END] = {[TD_BOOL] = logical_and_bool};
    return td_binary_run(c, fns, err);
}

static enum td_code logical_or_run(struct td_call *c, struct td_err *err)
{
    static td_binary_fn *const fns[TD_DTYPE_END] = {[TD_BOOL] = logical_or_bool};
    return td_binary_run(c, fns, err);
}

#define NOT(a) (!(a))
TD_UNARY_LOOP(, logical_not_bool, td_bool, td_bool, NOT)

static enum td_code logical_not_run(struct td_call *c, struct td_err *err)
{
    static td_unary_fn *const fns[TD_DTYPE_END] = {[TD_BOOL] = logical_not_bool};
    return td_unary_run(c, fns, err);
}

#define NAN16(a) isnan(td_half_to_float(a))
#define INF16(a) (isinf(td_half_to_float(a)) != 0)
#define FINITE16(a) (isfinite(td_half_to_float(a)) != 0)
#define NANB16(a) isnan(td_bf16_to_float(a))
#define INFB16(a) (isinf(td_bf16_to_float(a)) != 0)
#define FINITEB16(a) (isfinite(td_bf16_to_float(a)) != 0)
#define ISNAN(a) (isnan(a) != 0)
#define ISINF(a) (isinf(a) != 0)
#define ISFINITE(a) (isfinite(a) != 0)

#define TEST(op, test, test16, testb16)                                                                      \
    TD_UNARY_LOOP(, op##_f32, float, td_bool, test)                                                          \
    TD_UNARY_LOOP(, op##_f64, double, td_bool, test)                                                         \
    TD_UNARY_LOOP(, op##_f16, td_half, td_bool, test16)                                                      \
    TD_UNARY_LOOP(, op##_bf16, td_bf16, td_bool, testb16)                                                    \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_unary_fn *const fns[TD_DTYPE_END] = {TD_ROWS_FLOATS(op)};                                  \
        return td_unary_run(c, fns, err);                                                                    \
    }
TEST(is_nan, ISNAN, NAN16, NANB16)
TEST(is_inf, ISINF, INF16, INFB16)
TEST(is_finite, ISFINITE, FINITE16, FINITEB16)

/* ------------------------------------------------------------------ the table */

#define SET_EQUAL (TD_SET_PLAIN | TD_BIT(TD_STRING))
#define ROW_ORDER(op_name, op, number_fn)                                                                    \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T, y:T) -> (z:bool) {T:type}", .permute = &td_permute_elementwise,       \
        .batchable = TD_BATCHABLE_NUMBER(number_fn), .grad = td_not_differentiable,                          \
        .infer = td_infer_broadcast, .kernels = TD_KERNEL("math_compare.cpu", op##_run, {"T", TD_SET_REALS}) \
    }
#define ROW_EQUAL(op_name, op, number_fn)                                                                    \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T, y:T) -> (z:bool) {T:type; incompatible_shape_error:bool=true}",       \
        .flags = TD_OP_BY_SHAPES, .permute = &td_permute_elementwise,                                        \
        .batchable = TD_BATCHABLE_NUMBER(number_fn), .grad = td_not_differentiable, .infer = infer_equal,    \
        .kernels = TD_KERNEL("math_compare.cpu", op##_run, {"T", SET_EQUAL})                                 \
    }
#define ROW_LOGIC(op_name, op, rule)                                                                         \
    {                                                                                                        \
        .name = op_name, .sig = "(x:bool, y:bool) -> (z:bool) {}", .flags = TD_OP_ELEMENTWISE,               \
        .grad = td_not_differentiable, .infer = td_infer_broadcast,                                          \
        .kernels = TD_KERNEL("math_compare.cpu", op##_run, {NULL, 0}), .simplify = rule                      \
    }
#define ROW_TEST(op_name, op)                                                                                \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T) -> (y:bool) {T:type}", .permute = &td_permute_elementwise,            \
        .batchable = TD_BATCHABLE(td_batchable_broadcast), .grad = td_not_differentiable,                    \
        .infer = td_infer_same, .kernels = TD_KERNEL("math_compare.cpu", op##_run, {"T", TD_SET_FLOATS})     \
    }

/* x and true */
static struct td_value simplify_and(struct td_emitter *e, const struct td_node *n)
{
    return td_without(e, n, TD_EITHER, 1);
}

const struct td_op td_ops_math_compare[] = {
    ROW_ORDER("Less", less, td_affine_less),
    ROW_ORDER("LessEqual", less_equal, td_affine_less_equal),
    ROW_ORDER("Greater", greater, td_affine_greater),
    ROW_ORDER("GreaterEqual", greater_equal, td_affine_greater_equal),
    ROW_EQUAL("Equal", equal, td_affine_equals),
    ROW_EQUAL("NotEqual", not_equal, td_affine_differs),
    {.name = "ApproximateEqual",
     .sig = "(x:T, y:T) -> (z:bool) {T:type; tolerance:float=9.999999747378752e-06}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_equal_shapes,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("math_compare.cpu", approximate_run, {"T", TD_SET_F32_F64})},
    ROW_LOGIC("LogicalAnd", logical_and, simplify_and),
    ROW_LOGIC("LogicalOr", logical_or, td_simplify_or),
    {.name = "LogicalNot",
     .sig = "(x:bool) -> (y:bool) {}",
     .flags = TD_OP_ELEMENTWISE,
     .simplify = td_simplify_undone,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_same,
     .grad = td_not_differentiable,
     .kernels = TD_KERNEL("math_compare.cpu", logical_not_run, {NULL, 0})},
    ROW_TEST("IsNan", is_nan),
    ROW_TEST("IsInf", is_inf),
    ROW_TEST("IsFinite", is_finite),
    {.name = NULL},
};
