/* kernels/nn/activation_grad.c - gradients of activations and of a few functions, as ops of their own.
 *
 *   gradients, features (or outputs) [one shape] of T  ->  backprops [same shape] of T
 *
 * SigmoidGrad and its kin take (y, dy): the function's result and the incoming gradient, and conjugate y
 * where it is complex. At a kink the gradient is that of the flat side: 0 for ReluGrad at 0 and Relu6Grad at
 * 6; the flat side is a product with 0, so infinite gradients become NaN there, as in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

#define SELU_SCALE 1.0507009873554805
#define SELU_SLOPE 1.7580993408473768

/* f(g, x): g the incoming gradient, x the features or outputs.  X(tag, type, suffix) */
#define X(tag, T, s)                                                                                         \
    TD_INLINE T relu_grad_of_##tag(T g, T x)                                                                 \
    {                                                                                                        \
        return (T)(g * (x > 0));                                                                             \
    }                                                                                                        \
    TD_INLINE T relu6_grad_of_##tag(T g, T x)                                                                \
    {                                                                                                        \
        return (T)(g * (x > 0 && x < 6));                                                                    \
    }
X(f32, float, f)
X(f64, double, )
X(i8, int8_t, )
X(i16, int16_t, )
X(i32, int32_t, )
X(i64, int64_t, )
X(u8, uint8_t, )
X(u16, uint16_t, )
X(u32, uint32_t, )
X(u64, uint64_t, )
#undef X
#define X(tag, T, s)                                                                                         \
    TD_INLINE T elu_grad_of_##tag(T g, T y)                                                                  \
    {                                                                                                        \
        return y < 0 ? (y + 1) * g : g;                                                                      \
    }                                                                                                        \
    TD_INLINE T selu_grad_of_##tag(T g, T y)                                                                 \
    {                                                                                                        \
        return y < 0 ? (y + (T)SELU_SLOPE) * g : (T)SELU_SCALE * g;                                          \
    }                                                                                                        \
    TD_INLINE T softsign_grad_of_##tag(T g, T x)                                                             \
    {                                                                                                        \
        return g / ((1 + fabs##s(x)) * (1 + fabs##s(x)));                                                    \
    }
X(f32, float, f)
X(f64, double, )
#undef X

/* Gradients of functions by their results: each step of theirs is rounded to T, as its range can be left on
 * the way. */
#define X(tag, T, R)                                                                                         \
    TD_INLINE T sigmoid_grad_of_##tag(T y, T dy)                                                             \
    {                                                                                                        \
        return dy * R(y * R(1 - y));                                                                         \
    }                                                                                                        \
    TD_INLINE T tanh_grad_of_##tag(T y, T dy)                                                                \
    {                                                                                                        \
        return dy * R(1 - R(y * y));                                                                         \
    }                                                                                                        \
    TD_INLINE T sqrt_grad_of_##tag(T y, T dy)                                                                \
    {                                                                                                        \
        return dy == 0 ? 0 : R(dy * (T)0.5) / y;                                                             \
    }                                                                                                        \
    TD_INLINE T rsqrt_grad_of_##tag(T y, T dy)                                                               \
    {                                                                                                        \
        return dy == 0 ? 0 : R((T)-0.5 * R(dy * y)) * R(y * y);                                              \
    }                                                                                                        \
    TD_INLINE T inv_grad_of_##tag(T y, T dy)                                                                 \
    {                                                                                                        \
        return dy == 0 ? 0 : -R(y * y) * dy;                                                                 \
    }
X(f32, float, TD_AS_IS)
X(f64, double, TD_AS_IS)
X(f16, float, td_round_half)
X(bf16, float, td_round_bf16)
#undef X
#define X(tag, T, R, s)                                                                                      \
    static T sigmoid_grad_of_##tag(T y, T dy)                                                                \
    {                                                                                                        \
        return dy * y * ((R)1 - y);                                                                          \
    }                                                                                                        \
    static T tanh_grad_of_##tag(T y, T dy)                                                                   \
    {                                                                                                        \
        return dy * ((R)1 - y * y);                                                                          \
    }                                                                                                        \
    static T sqrt_grad_of_##tag(T y, T dy)                                                                   \
    {                                                                                                        \
        return dy == 0 ? 0 : dy * (R)0.5 / conj##s(y);                                                       \
    }                                                                                                        \
    static T rsqrt_grad_of_##tag(T y, T dy)                                                                  \
    {                                                                                                        \
        return dy == 0 ? 0 : (R)-0.5 * (dy * conj##s(y)) * (conj##s(y) * conj##s(y));                        \
    }                                                                                                        \
    static T inv_grad_of_##tag(T y, T dy)                                                                    \
    {                                                                                                        \
        return dy == 0 ? 0 : -(conj##s(y) * conj##s(y)) * dy;                                                \
    }
TD_COMPLEX_TYPES(X)
#undef X
TD_INLINE float softplus_grad_of_f32(float g, float x)
{
    return g / (1 + td_fast_exp_f32(-x));
}
static double softplus_grad_of_f64(double g, double x)
{
    return g / (1 + exp(-x));
}

#define FLOATS(op)                                                                                           \
    TD_BINARY(TD_CLONES, op##_f32, float, op##_of_f32)                                                       \
    TD_BINARY(, op##_f64, double, op##_of_f64)                                                               \
    TD_BINARY_F16(op##_f16, op##_f32)                                                                        \
    TD_BINARY_BF16(op##_bf16, op##_f32)
#define INTS(op)                                                                                             \
    TD_BINARY(, op##_i8, int8_t, op##_of_i8)                                                                 \
    TD_BINARY(, op##_i16, int16_t, op##_of_i16)                                                              \
    TD_BINARY(, op##_i32, int32_t, op##_of_i32)                                                              \
    TD_BINARY(, op##_i64, int64_t, op##_of_i64)                                                              \
    TD_BINARY(, op##_u8, uint8_t, op##_of_u8)                                                                \
    TD_BINARY(, op##_u16, uint16_t, op##_of_u16)                                                             \
    TD_BINARY(, op##_u32, uint32_t, op##_of_u32)                                                             \
    TD_BINARY(, op##_u64, uint64_t, op##_of_u64)
#define COMPLEX(op) TD_BINARY(, op##_c64, td_cf, op##_of_c64) TD_BINARY(, op##_c128, td_cd, op##_of_c128)
#define RUN(op, ...)                                                                                         \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_binary_fn *const fns[TD_DTYPE_END] = {__VA_ARGS__};                                        \
        return td_binary_run(c, fns, err);                                                                   \
    }
#define REAL_GRAD(op)                                                                                        \
    FLOATS(op) INTS(op) RUN(op, TD_ROWS_FLOATS(op), TD_ROWS_SIGNED(op), TD_ROWS_UNSIGNED(op))
#define FLOAT_GRAD(op) FLOATS(op) RUN(op, TD_ROWS_FLOATS(op))
#define FLOATS_STEPWISE(op)                                                                                  \
    TD_BINARY(TD_CLONES, op##_f32, float, op##_of_f32)                                                       \
    TD_BINARY(, op##_f64, double, op##_of_f64)                                                               \
    TD_BINARY(, op##_by_half, float, op##_of_f16)                                                            \
    TD_BINARY(, op##_by_bf16, float, op##_of_bf16)                                                           \
    TD_BINARY_F16(op##_f16, op##_by_half)                                                                    \
    TD_BINARY_BF16(op##_bf16, op##_by_bf16)
#define COMPLEX_GRAD(op) FLOATS_STEPWISE(op) COMPLEX(op) RUN(op, TD_ROWS_FLOATS(op), TD_ROWS_COMPLEX(op))

REAL_GRAD(relu_grad)
REAL_GRAD(relu6_grad)
FLOAT_GRAD(elu_grad)
FLOAT_GRAD(selu_grad)
FLOAT_GRAD(softplus_grad)
FLOAT_GRAD(softsign_grad)
COMPLEX_GRAD(sigmoid_grad)
COMPLEX_GRAD(tanh_grad)
COMPLEX_GRAD(sqrt_grad)
COMPLEX_GRAD(rsqrt_grad)
COMPLEX_GRAD(inv_grad)

/* ------------------------------------------------------------ LeakyReluGrad: a slope of its own a node */

#define LEAKY(tag, T, A, load, store)                                                                        \
    static void leaky_grad_##tag(const T *g, const T *x, T *y, int64_t n, A alpha)                           \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            y[i] = store(load(x[i]) > 0 ? load(g[i]) : load(g[i]) * alpha);                                  \
        }                                                                                                    \
    }
LEAKY(f32, float, float, TD_AS_IS, TD_AS_IS)
LEAKY(f64, double, double, TD_AS_IS, TD_AS_IS)
LEAKY(f16, td_half, float, td_half_to_float, td_float_to_half)
LEAKY(bf16, td_bf16, float, td_bf16_to_float, td_float_to_bf16)

static enum td_code leaky_grad_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *g = c->in[0], *x = c->in[1];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_tensor_count(x);
    float alpha = (float)td_attr_float(c->node, "alpha");
    switch (x->dtype) {
    case TD_FLOAT:
        leaky_grad_f32(g->data, x->data, y->data, n, alpha);
        break;
    case TD_DOUBLE:
        leaky_grad_f64(g->data, x->data, y->data, n, (double)alpha);
        break;
    case TD_HALF:
        leaky_grad_f16(g->data, x->data, y->data, n, alpha);
        break;
    default:
        leaky_grad_bf16(g->data, x->data, y->data, n, alpha);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients of these gradients
 *
 * ReluGrad and its kin are linear in their first input; SigmoidGrad and its kin, (y, dy), in the second. */

/* Where the slope is constant on both sides of a kink: nothing by the features, as TensorFlow has it. */
static void kinked_grad(struct td_grad *g)
{
    const struct td_value x = td_grad_in(g, 1);
    td_grad_give(g, 0, td_f_as(g->e, g->node->op->name, TD_IN(td_grad_at(g, 0), x), g->node, "alpha"));
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, td_f_zeros_like(g->e, x));
    }
}

/* EluGrad, SeluGrad: below 0 the slope is a number plus y. */
static void exponential_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), y = td_grad_in(g, 1);
    td_grad_give(g, 0, td_f_2(e, g->node->op->name, dz, y));
    if (td_grad_wants(g, 1)) {
        const struct td_value zero = td_f_number(e, y, 0), by_y = td_f_mul(e, dz, td_grad_in(g, 0));
        td_grad_give(g, 1, td_f_where(e, td_f_2(e, "Less", y, zero), by_y, zero));
    }
}

/* dy / (1 + exp(-x)): by x dy / (exp(-x) + 2 + exp(x)). */
static void softplus_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), x = td_grad_in(g, 1);
    td_grad_give(g, 0, td_f_2(e, "SoftplusGrad", dz, x));
    if (td_grad_wants(g, 1)) {
        const struct td_value both = td_f_add(e, td_f_1(e, "Exp", td_f_neg(e, x)), td_f_1(e, "Exp", x));
        td_grad_give(g, 1,
                     td_f_div(e, td_f_mul(e, dz, td_grad_in(g, 0)), td_f_add(e, both, td_f_number(e, x, 2))));
    }
}

/* dy / (1 + |x|)^2: by x -2 dy sign(x) / (1 + |x|)^3. TensorFlow has none. */
static void softsign_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), x = td_grad_in(g, 1);
    td_grad_give(g, 0, td_f_2(e, "SoftsignGrad", dz, x));
    if (td_grad_wants(g, 1)) {
        const struct td_value one = td_f_number(e, x, 1), size = td_f_add(e, td_f_1(e, "Abs", x), one);
        const struct td_value by = td_f_mul(e, td_f_mul(e, dz, td_grad_out(g, 0)), td_f_1(e, "Sign", x));
        td_grad_give(g, 1, td_f_scale(e, td_f_div(e, by, size), -2));
    }
}

static void sigmoid_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), y = td_f_conj(e, td_grad_in(g, 0));
    if (td_grad_wants(g, 0)) { /* dz * dy * (1 - 2y) */
        const struct td_value by = td_f_mul(e, dz, td_f_conj(e, td_grad_in(g, 1)));
        td_grad_give(g, 0, td_f_sub(e, by, td_f_mul(e, td_f_scale(e, by, 2), y)));
    }
    td_grad_give(g, 1, td_f_2(e, "SigmoidGrad", y, dz));
}

static void tanh_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), y = td_f_conj(e, td_grad_in(g, 0));
    if (td_grad_wants(g, 0)) { /* -2 * dz * dy * y */
        const struct td_value by = td_f_mul(e, td_f_scale(e, dz, -2), td_f_conj(e, td_grad_in(g, 1)));
        td_grad_give(g, 0, td_f_mul(e, by, y));
    }
    td_grad_give(g, 1, td_f_2(e, "TanhGrad", y, dz));
}

/* z = dy / (2 conj(y)) */
static void sqrt_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value by = td_f_div(e, td_grad_at(g, 0), td_grad_in(g, 0));
    if (td_grad_wants(g, 0)) {
        td_grad_give(g, 0, td_f_mul(e, td_f_neg(e, td_f_conj(e, by)), td_grad_out(g, 0)));
    }
    td_grad_give(g, 1, td_f_scale(e, by, 0.5));
}

/* z = -dy conj(y)^3 / 2 */
static void rsqrt_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), y = td_f_conj(e, td_grad_in(g, 0));
    if (td_grad_wants(g, 0)) {
        const struct td_value by = td_f_mul(e, td_f_scale(e, td_f_conj(e, dz), -1.5), td_grad_in(g, 1));
        td_grad_give(g, 0, td_f_mul(e, by, td_f_square(e, y)));
    }
    td_grad_give(g, 1, td_f_2(e, "RsqrtGrad", y, dz));
}

/* z = -dy conj(y)^2 */
static void inv_grad_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dz = td_grad_at(g, 0), y = td_f_conj(e, td_grad_in(g, 0));
    if (td_grad_wants(g, 0)) {
        const struct td_value by = td_f_mul(e, td_f_scale(e, td_f_conj(e, dz), -2), td_grad_in(g, 1));
        td_grad_give(g, 0, td_f_mul(e, by, y));
    }
    td_grad_give(g, 1, td_f_2(e, "ReciprocalGrad", y, dz));
}

/* ------------------------------------------------------------------ the table */

#define ROW(op_name, second, op, set, its_grad)                                                              \
    {                                                                                                        \
        .name = op_name, .sig = "(gradients:T, " second ":T) -> (backprops:T) {T:type}",                     \
        .flags = TD_OP_ELEMENTWISE, .infer = td_infer_equal_shapes,                                          \
        .kernels = TD_KERNEL("activation_grad.cpu", op##_run, {"T", set}), .grad = its_grad                  \
    }
#define ROW_OF_RESULT(op_name, op)                                                                           \
    {                                                                                                        \
        .name = op_name, .sig = "(y:T, dy:T) -> (z:T) {T:type}", .flags = TD_OP_ELEMENTWISE,                 \
        .infer = td_infer_equal_shapes,                                                                      \
        .kernels = TD_KERNEL("activation_grad.cpu", op##_run, {"T", TD_SET_FLOATS | TD_SET_COMPLEX}),        \
        .grad = op##_grad                                                                                    \
    }

const struct td_op td_ops_activation_grad[] = {
    ROW("ReluGrad", "features", relu_grad, TD_SET_REALS, kinked_grad),
    ROW("Relu6Grad", "features", relu6_grad, TD_SET_REALS, kinked_grad),
    ROW("EluGrad", "outputs", elu_grad, TD_SET_FLOATS, exponential_grad),
    ROW("SeluGrad", "outputs", selu_grad, TD_SET_FLOATS, exponential_grad),
    ROW("SoftplusGrad", "features", softplus_grad, TD_SET_FLOATS, softplus_grad_grad),
    ROW("SoftsignGrad", "features", softsign_grad, TD_SET_FLOATS, softsign_grad_grad),
    ROW_OF_RESULT("SigmoidGrad", sigmoid_grad),
    ROW_OF_RESULT("TanhGrad", tanh_grad),
    ROW_OF_RESULT("SqrtGrad", sqrt_grad),
    ROW_OF_RESULT("RsqrtGrad", rsqrt_grad),
    ROW_OF_RESULT("InvGrad", inv_grad),
    ROW_OF_RESULT("ReciprocalGrad", inv_grad),
    {.name = "LeakyReluGrad",
     .sig = "(gradients:T, features:T) -> (backprops:T) {alpha:float=0.20000000298023224; T:type=float}",
     .flags = TD_OP_ELEMENTWISE,
     .infer = td_infer_equal_shapes,
     .kernels = TD_KERNEL("activation_grad.cpu", leaky_grad_run, {"T", TD_SET_FLOATS}),
     .grad = kinked_grad},
    {.name = NULL},
};
