/* kernels/math/math_complex.c - taking complex numbers apart and putting them together.
 *
 *   Complex: real, imag [broadcastable] of T  ->  out of the complex type of T
 *   Real, Imag, ComplexAbs, Angle: x of a complex T  ->  its real type;   Conj: x  ->  the same type
 *
 * Tout must be the counterpart of T (complex64 with float, complex128 with double): the kernels refuse other
 * pairs. Conj of variants, which TensorFlow maps over TensorLists, passes them through: their elements are
 * real here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/simplify.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/complex_scalar.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/math/math_complex_grad.h"
#include "kernels/cpu/vecmath.h"

TD_BINARY_LOOP(, complex_f32, float, td_cf, TD_AS_IS, TD_AS_IS, td_make_c64)
TD_BINARY_LOOP(, complex_f64, double, td_cd, TD_AS_IS, TD_AS_IS, td_make_c128)

static float angle_c64(td_cf v)
{
    return atan2f(cimagf(v), crealf(v));
}
static double angle_c128(td_cd v)
{
    return atan2(cimag(v), creal(v));
}

#define PART(op, f64fn, f128fn)                                                                              \
    TD_UNARY_LOOP(, op##_c64, td_cf, float, f64fn)                                                           \
    TD_UNARY_LOOP(, op##_c128, td_cd, double, f128fn)                                                        \
    static enum td_code op##_run(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        static td_unary_fn *const fns[TD_DTYPE_END] = {TD_ROWS_COMPLEX(op)};                                 \
        return td_unary_run(c, fns, err);                                                                    \
    }
PART(real, crealf, creal)
PART(imag, cimagf, cimag)
PART(length, cabsf, cabs)
PART(phase, angle_c64, angle_c128)

TD_UNARY_LOOP(, conj_c64, td_cf, td_cf, conjf)
TD_UNARY_LOOP(, conj_c128, td_cd, td_cd, conj)

static enum td_code conj_run(struct td_call *c, struct td_err *err)
{
    static td_unary_fn *const fns[TD_DTYPE_END] = {TD_ROWS_COMPLEX(conj)};
    return td_unary_run(c, fns, err);
}

static enum td_code conj_variant_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_elems_copy(y->dtype, y->data, c->in[0]->data, td_tensor_count(y));
    return TD_OK;
}

static enum td_code complex_run(struct td_call *c, struct td_err *err)
{
    static td_binary_fn *const fns[TD_DTYPE_END] = {[TD_FLOAT] = complex_f32, [TD_DOUBLE] = complex_f64};
    return td_binary_run(c, fns, err);
}

/* The attributes allow pairs of types that have no meaning, such as float and complex128. */
static const char *refuse_mixed_pair(const struct td_node *n)
{
    enum td_dtype t = td_attr_type(n, "T"), out = td_attr_type(n, "Tout");
    bool single = t == TD_FLOAT || t == TD_COMPLEX64, single_out = out == TD_FLOAT || out == TD_COMPLEX64;
    return single == single_out ? NULL : "T and Tout must have the same precision";
}

#define PAIR_KERNEL(fn, set, set_out)                                                                        \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        {.name = "math_complex.cpu",                                                                         \
         .device = TD_CPU,                                                                                   \
         .types = {{"T", set}, {"Tout", set_out}},                                                           \
         .refuse = refuse_mixed_pair,                                                                        \
         .run = fn},                                                                                         \
        {                                                                                                    \
            .name = NULL                                                                                     \
        }                                                                                                    \
    }
#define ROW_PART(op_name, in_name, out_name, fn, gradient)                                                   \
    {                                                                                                        \
        .name = op_name,                                                                                     \
        .sig = "(" in_name ":T) -> (" out_name ":Tout) {T:type=complex64; Tout:type=float}",                 \
        .permute = &td_permute_elementwise, .batchable = TD_BATCHABLE(td_batchable_broadcast),               \
        .infer = td_infer_same, .kernels = PAIR_KERNEL(fn, TD_SET_COMPLEX, TD_SET_F32_F64), .grad = gradient \
    }

const struct td_op td_ops_math_complex[] = {
    {.name = "Complex",
     .sig = "(real:T, imag:T) -> (out:Tout) {T:type=float; Tout:type=complex64}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_broadcast,
     .grad = td_complex_grad,
     .kernels = PAIR_KERNEL(complex_run, TD_SET_F32_F64, TD_SET_COMPLEX)},
    ROW_PART("Real", "input", "output", real_run, td_real_grad),
    ROW_PART("Imag", "input", "output", imag_run, td_imag_grad),
    ROW_PART("Angle", "input", "output", phase_run, td_angle_grad),
    ROW_PART("ComplexAbs", "x", "y", length_run, td_complex_abs_grad),
    {.name = "Conj",
     .sig = "(input:T) -> (output:T) {T:type=complex64}",
     .permute = &td_permute_elementwise,
     .simplify = td_simplify_undone,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = td_infer_same,
     .grad = td_conj_grad,
     .kernels = (const struct td_kernel[]){{.name = "math_complex.cpu",
                                            .device = TD_CPU,
                                            .types = {{"T", TD_SET_COMPLEX}},
                                            .run = conj_run},
                                           {.name = "math_complex.variant",
                                            .device = TD_CPU,
                                            .types = {{"T", TD_BIT(TD_VARIANT)}},
                                            .run = conj_variant_run},
                                           {.name = NULL}}},
    {.name = NULL},
};
