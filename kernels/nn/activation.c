/* kernels/nn/activation.c - activations of neural networks; their gradients are in activation_grad.c.
 *
 *   features [any shape] of T  ->  activations [same shape] of T
 *
 * Elu is expm1(x) below 0; Selu scales both sides of 0; Softplus is log(1 + exp(x)) without overflow. NaN
 * passes through all of them. Sigmoid and Tanh are in kernels/math/math_unary.c, Softmax in softmax.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cpu/elementwise.h"
#include "kernels/fused/fused_stage.h"
#include "kernels/cpu/simplify.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cpu/vecmath.h"

#define SELU_SCALE 1.0507009873554805 /* Klambauer et al., "Self-Normalizing Neural Networks", 2017 */
#define SELU_SLOPE 1.7580993408473768 /* scale * alpha */

TD_INLINE float elu_f(float x)
{
    return x < 0 ? td_fast_expm1_f32(x) : x;
}
TD_INLINE float selu_f(float x)
{
    return x < 0 ? (float)SELU_SLOPE * td_fast_expm1_f32(x) : (float)SELU_SCALE * x;
}
static double elu_d(double x)
{
    return x < 0 ? expm1(x) : x;
}
static double selu_d(double x)
{
    return x < 0 ? SELU_SLOPE * expm1(x) : SELU_SCALE * x;
}
static double softplus_d(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0);
}

#define FLOATS(op, ffn, dfn)                                                                                 \
    TD_UNARY_LOOP(TD_CLONES, op##_f32, float, float, ffn)                                                    \
    TD_UNARY_LOOP(, op##_f64, double, double, dfn)                                                           \
    TD_UNARY_F16(op##_f16, op##_f32)                                                                         \
    TD_UNARY_BF16(op##_bf16, op##_f32)
#define INT_LOOPS(tag, T, U)                                                                                 \
    TD_UNARY_LOOP(, relu_##tag, T, T, td_relu_##tag)                                                         \
    TD_UNARY_LOOP(, relu6_##tag, T, T, td_relu6_##tag)
#define RUN(op, ...)                                                                                         \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_unary_fn *const fns[TD_DTYPE_END] = {__VA_ARGS__};                                         \
        return td_unary_run(c, fns, err);                                                                    \
    }

TD_INT_TYPES(INT_LOOPS)
FLOATS(relu, td_relu_f32, td_relu_f64)
FLOATS(relu6, td_relu6_f32, td_relu6_f64)
FLOATS(elu, elu_f, elu_d)
FLOATS(selu, selu_f, selu_d)
FLOATS(softplus, td_fast_softplus_f32, softplus_d)
FLOATS(softsign, td_softsign_f32, td_softsign_f64)
RUN(relu, TD_ROWS_FLOATS(relu), TD_ROWS_SIGNED(relu), TD_ROWS_UNSIGNED(relu))
RUN(relu6, TD_ROWS_FLOATS(relu6), TD_ROWS_SIGNED(relu6), TD_ROWS_UNSIGNED(relu6))
RUN(elu, TD_ROWS_FLOATS(elu))
RUN(selu, TD_ROWS_FLOATS(selu))
RUN(softplus, TD_ROWS_FLOATS(softplus))
RUN(softsign, TD_ROWS_FLOATS(softsign))

/* ------------------------------------------------------------------ LeakyRelu: a slope of its own a node */

#define LEAKY(attr, tag, T, A, load, store)                                                                  \
    attr static void leaky_##tag(const T *x, T *y, int64_t n, A alpha)                                       \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            A v = load(x[i]);                                                                                \
            y[i] = store(v > 0 ? v : alpha * v);                                                             \
        }                                                                                                    \
    }
LEAKY(TD_CLONES, f32, float, float, TD_AS_IS, TD_AS_IS)
LEAKY(, f64, double, double, TD_AS_IS, TD_AS_IS)
LEAKY(, f16, td_half, float, td_half_to_float, td_float_to_half)
LEAKY(, bf16, td_bf16, float, td_bf16_to_float, td_float_to_bf16)

static enum td_code leaky_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_tensor_count(x);
    float alpha = (float)td_attr_float(c->node, "alpha");
    switch (x->dtype) {
    case TD_FLOAT:
        leaky_f32(x->data, y->data, n, alpha);
        break;
    case TD_DOUBLE:
        leaky_f64(x->data, y->data, n, (double)alpha);
        break;
    case TD_HALF:
        leaky_f16(x->data, y->data, n, alpha);
        break;
    default:
        leaky_bf16(x->data, y->data, n, alpha);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients: one node each */

#define GRAD_BY(op, of, with)                                                                                \
    static void op##_grad(struct td_grad *g)                                                                 \
    {                                                                                                        \
        td_grad_give(g, 0, td_f_2(g->e, of, td_grad_at(g, 0), with(g, 0)));                                  \
    }
GRAD_BY(relu, "ReluGrad", td_grad_out)
GRAD_BY(relu6, "Relu6Grad", td_grad_out)
GRAD_BY(elu, "EluGrad", td_grad_out)
GRAD_BY(selu, "SeluGrad", td_grad_out)
GRAD_BY(softplus, "SoftplusGrad", td_grad_in)
GRAD_BY(softsign, "SoftsignGrad", td_grad_in)

static void leaky_grad(struct td_grad *g)
{
    td_grad_give(g, 0,
                 td_f_as(g->e, "LeakyReluGrad", TD_IN(td_grad_at(g, 0), td_grad_in(g, 0)), g->node, "alpha"));
}

/* ------------------------------------------------------------------ the table */

/* Further members of the row follow. */
#define ROW(op_name, op, set, ...)                                                                           \
    {                                                                                                        \
        .name = op_name, .sig = "(features:T) -> (activations:T) {T:type}", .flags = TD_OP_ELEMENTWISE,      \
        .infer = td_infer_same, .kernels = TD_KERNEL("activation.cpu", op##_run, {"T", set}),                \
        .grad = op##_grad, __VA_ARGS__                                                                       \
    }

/* Relu(Relu(x)) and Relu(Relu6(x)) are what is inside. */
static struct td_value simplify_relu(struct td_emitter *e, const struct td_node *n)
{
    const struct td_node *inner = td_only_maker(n->in[0]);
    const bool positive = inner != NULL && inner->op != NULL && strcmp(inner->op->name, "Relu6") == 0;
    return positive ? n->in[0] : td_simplify_repeated(e, n);
}

static void leaky_stage(const float *a, const float *b, float *y, int64_t n, enum td_operands how,
                        float slope)
{
    (void)b;
    (void)how;
    leaky_f32(a, y, n, slope);
}

const struct td_op td_ops_activation[] = {
    ROW("Relu", relu, TD_SET_REALS, .simplify = simplify_relu,
        .fuse = {.stage = TD_STAGE_POST(relu_f32, TD_POST_RELU)}, .halves = TD_HALVES_KEEP),
    ROW("Relu6", relu6, TD_SET_REALS, .simplify = td_simplify_repeated,
        .fuse = {.stage = TD_STAGE_POST(relu6_f32, TD_POST_RELU6)}, .halves = TD_HALVES_KEEP),
    ROW("Elu", elu, TD_SET_FLOATS, .fuse = {.stage = TD_STAGE_POST(elu_f32, TD_POST_ELU)}),
    ROW("Selu", selu, TD_SET_FLOATS, .fuse = {.stage = TD_STAGE_ONE(selu_f32)}),
    ROW("Softplus", softplus, TD_SET_FLOATS, .fuse = {.stage = TD_STAGE_ONE(softplus_f32)}),
    ROW("Softsign", softsign, TD_SET_FLOATS, .fuse = {.stage = TD_STAGE_ONE(softsign_f32)}),
    {.name = "LeakyRelu",
     .sig = "(features:T) -> (activations:T) {alpha:float=0.20000000298023224; T:type=float}",
     .flags = TD_OP_ELEMENTWISE,
     .fuse = {.stage =
                  &(const struct td_stage){.with = leaky_stage, .parameter = "alpha", .post = TD_POST_LEAKY}},
     .infer = td_infer_same,
     .kernels = TD_KERNEL("activation.cpu", leaky_run, {"T", TD_SET_FLOATS}),
     .grad = leaky_grad},
    {.name = NULL},
};
