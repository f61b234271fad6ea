/* kernels/math/math_special.c - element-wise ops over the special functions of special.h and of the C
 * library.
 *
 *   one argument:   x [any shape] of T  ->  y [same shape] of T
 *   two arguments:  broadcasting, as in math_binary.c
 *   Betainc:        a, b, x of one shape, or scalars
 *
 * Everything is computed in double and rounded once to T.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/math/math_special_grad.h"
#include "kernels/math/special.h"

#include <float.h>
#include <math.h>

/* ------------------------------------------------------------------ one argument */

/* Loops for float and half from one function of doubles, and for double from another. */
#define UNARY_EACH(op, fn32, fn)                                                                             \
    TD_UNARY_LOOP(, op##_f32, float, float, (float)fn32)                                                     \
    TD_UNARY_LOOP(, op##_f64, double, double, fn)                                                            \
    TD_UNARY_F16(op##_f16, op##_f32)                                                                         \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_unary_fn *const fns[TD_DTYPE_END] = {                                                      \
            [TD_FLOAT] = op##_f32, [TD_DOUBLE] = op##_f64, [TD_HALF] = op##_f16};                            \
        return td_unary_run(c, fns, err);                                                                    \
    }
#define UNARY(op, fn) UNARY_EACH(op, fn, fn)

/* TensorFlow's rules for what its types cannot hold: of float the pole of y1 is no number; nor are Ei and
 * Spence's function where 1/x is flushed to 0. */
static double y1_f32_of(double x)
{
    return fabs(x) < 0x1p-126 ? NAN : td_special_y1(x);
}
static double expint_f32_of(double x)
{
    return x > 0x1p126 ? NAN : td_special_expint(x);
}
static double expint_f64_of(double x)
{
    return x > 0x1p1022 ? NAN : td_special_expint(x);
}
static double spence_f32_of(double x)
{
    return x > 0x1p126 ? NAN : td_special_spence(x);
}
static double spence_f64_of(double x)
{
    return x > 0x1p1022 ? NAN : td_special_spence(x);
}

UNARY(lgamma, td_special_lgamma)
UNARY(digamma, td_special_digamma)
UNARY(erfinv, td_special_erfinv)
UNARY(ndtri, td_special_ndtri)
UNARY(i0, td_special_i0)
UNARY(i0e, td_special_i0e)
UNARY(i1, td_special_i1)
UNARY(i1e, td_special_i1e)
UNARY(j0, td_special_j0)
UNARY(j1, td_special_j1)
UNARY(k0, td_special_k0)
UNARY(k0e, td_special_k0e)
UNARY(k1, td_special_k1)
UNARY(k1e, td_special_k1e)
UNARY(y0, td_special_y0)
UNARY_EACH(y1, y1_f32_of, td_special_y1)
UNARY(dawson, td_special_dawson)
UNARY_EACH(expint, expint_f32_of, expint_f64_of)
UNARY(fresnel_cos, td_special_fresnel_cos)
UNARY(fresnel_sin, td_special_fresnel_sin)
UNARY_EACH(spence, spence_f32_of, spence_f64_of)

/* ------------------------------------------------------------------ two arguments */

#define BINARY_EACH(op, fn32, fn)                                                                            \
    TD_BINARY(, op##_f32, float, fn32)                                                                       \
    TD_BINARY(, op##_f64, double, fn)                                                                        \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_binary_fn *const fns[TD_DTYPE_END] = {[TD_FLOAT] = op##_f32, [TD_DOUBLE] = op##_f64};      \
        return td_binary_run(c, fns, err);                                                                   \
    }
#define BINARY(op, fn) BINARY_EACH(op, fn, fn)
#define IGAMMA_F32(a, x) td_special_igamma(a, x, FLT_MAX)
#define IGAMMA_F64(a, x) td_special_igamma(a, x, DBL_MAX)
#define IGAMMAC_F32(a, x) td_special_igammac(a, x, FLT_MAX)
#define IGAMMAC_F64(a, x) td_special_igammac(a, x, DBL_MAX)
#define SAMPLE_GRAD_F32(a, x) td_special_gamma_sample_grad(a, x, FLT_MIN)
#define SAMPLE_GRAD_F64(a, x) td_special_gamma_sample_grad(a, x, DBL_MIN)

BINARY_EACH(igamma, IGAMMA_F32, IGAMMA_F64)
BINARY_EACH(igammac, IGAMMAC_F32, IGAMMAC_F64)
BINARY(igamma_grad_a, td_special_igamma_grad_a)
BINARY_EACH(gamma_sample_grad, SAMPLE_GRAD_F32, SAMPLE_GRAD_F64)
BINARY(zeta, td_special_zeta)
BINARY(polygamma, td_special_polygamma)

/* ------------------------------------------------------------------ Betainc */

static enum td_code infer_betainc(struct td_infer *c, struct td_err *err)
{
    static const char *const names[] = {"a", "b", "x"};
    int from = -1; /* the first input that is not a scalar */
    for (int i = 0; i < 3; i++) {
        if (c->in[i].rank == 0) {
            continue;
        }
        if (from < 0) {
            from = i;
            c->out[0] = c->in[i];
            continue;
        }
        TD_FAIL_IF(c->in[from].rank > 0 && c->in[i].rank > 0 && !td_shape_compatible(&c->in[from], &c->in[i]),
                   err, INVALID_ARGUMENT, "%s: Shapes of %s and %s are inconsistent: %s vs. %s",
                   TD_NODE_STR(c->node), names[from], names[i], TD_SHAPE_STR(&c->in[from]),
                   TD_SHAPE_STR(&c->in[i]));
        if (c->in[from].rank < 0) { /* may turn out to be a scalar */
            from = i;
            c->out[0] = c->in[i].rank < 0 ? td_shape_unknown() : c->in[i];
        }
    }
    if (from < 0) {
        c->out[0] = td_shape_scalar();
    }
    return TD_OK;
}

static enum td_code betainc_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_tensor_count(y);
    for (int64_t i = 0; i < n; i++) {
        double v[3];
        for (int k = 0; k < 3; k++) {
            const struct td_tensor *t = c->in[k];
            int64_t at = t->shape.rank == 0 ? 0 : i;
            v[k] = t->dtype == TD_FLOAT ? (double)TD_DATA(t, const float)[at] : TD_DATA(t, const double)[at];
        }
        double value = td_special_betainc(v[0], v[1], v[2]);
        if (y->dtype == TD_FLOAT) {
            TD_DATA(y, float)[i] = (float)value;
        } else {
            TD_DATA(y, double)[i] = value;
        }
        if (i % 1024 == 1023 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define SET_HALF (TD_SET_F32_F64 | TD_BIT(TD_HALF))
#define ROW(op_name, op, set, gradient)                                                                      \
    {                                                                                                        \
        .name = op_name, .sig = "(x:T) -> (y:T) {T:type}", .flags = TD_OP_ELEMENTWISE,                       \
        .infer = td_infer_same, .kernels = TD_KERNEL("math_special.cpu", op##_run, {"T", set}),              \
        .grad = gradient                                                                                     \
    }
#define ROW2(op_name, args, op, gradient)                                                                    \
    {                                                                                                        \
        .name = op_name, .sig = args " {T:type}", .flags = TD_OP_ELEMENTWISE, .infer = td_infer_broadcast,   \
        .kernels = TD_KERNEL("math_special.cpu", op##_run, {"T", TD_SET_F32_F64}), .grad = gradient          \
    }

const struct td_op td_ops_math_special[] = {
    ROW("Lgamma", lgamma, SET_HALF, td_lgamma_grad),
    ROW("Digamma", digamma, SET_HALF, td_digamma_grad),
    ROW("Erfinv", erfinv, TD_SET_F32_F64, td_erfinv_grad),
    ROW("Ndtri", ndtri, TD_SET_F32_F64, td_ndtri_grad),
    ROW("BesselI0", i0, SET_HALF, td_i0_grad),
    ROW("BesselI0e", i0e, SET_HALF, td_i0e_grad),
    ROW("BesselI1", i1, SET_HALF, td_i1_grad),
    ROW("BesselI1e", i1e, SET_HALF, td_i1e_grad),
    ROW("BesselJ0", j0, SET_HALF, td_j0_grad),
    ROW("BesselJ1", j1, SET_HALF, td_j1_grad),
    ROW("BesselK0", k0, SET_HALF, td_k0_grad),
    ROW("BesselK0e", k0e, SET_HALF, td_k0e_grad),
    ROW("BesselK1", k1, SET_HALF, td_k1_grad),
    ROW("BesselK1e", k1e, SET_HALF, td_k1e_grad),
    ROW("BesselY0", y0, SET_HALF, td_y0_grad),
    ROW("BesselY1", y1, SET_HALF, td_y1_grad),
    ROW("Dawsn", dawson, TD_SET_F32_F64, td_dawson_grad),
    ROW("Expint", expint, TD_SET_F32_F64, td_expint_grad),
    ROW("FresnelCos", fresnel_cos, TD_SET_F32_F64, td_fresnel_cos_grad),
    ROW("FresnelSin", fresnel_sin, TD_SET_F32_F64, td_fresnel_sin_grad),
    ROW("Spence", spence, TD_SET_F32_F64, td_spence_grad),
    ROW2("Igamma", "(a:T, x:T) -> (z:T)", igamma, td_igamma_grad),
    ROW2("Igammac", "(a:T, x:T) -> (z:T)", igammac, td_igammac_grad),
    ROW2("IgammaGradA", "(a:T, x:T) -> (z:T)", igamma_grad_a, NULL),
    ROW2("RandomGammaGrad", "(alpha:T, sample:T) -> (output:T)", gamma_sample_grad, NULL),
    ROW2("Zeta", "(x:T, q:T) -> (z:T)", zeta, td_zeta_grad),
    ROW2("Polygamma", "(a:T, x:T) -> (z:T)", polygamma, td_polygamma_grad),
    {.name = "Betainc",
     .sig = "(a:T, b:T, x:T) -> (z:T) {T:type}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = infer_betainc,
     .grad = td_betainc_grad,
     .kernels = TD_KERNEL("math_special.cpu", betainc_run, {"T", TD_SET_F32_F64})},
    {.name = NULL},
};
