/* kernels/cpu/complex_scalar.h - scalar functions on complex numbers, one a dtype, named
 * td_<operation>_<tag>.
 *
 * C's own complex types, which have the layout of td_c64 and td_c128. Products and quotients follow C's Annex
 * G rules for infinities, as C++'s std::complex does in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_COMPLEX_SCALAR_H
#define TD_KERNELS_CPU_COMPLEX_SCALAR_H

#include <complex.h>
#undef I /* a name that is too short to take */
#include <math.h>

typedef float complex td_cf;
typedef double complex td_cd;

/* One function a line. */
/* clang-format off */

/* X(tag, complex type, real type, suffix of the C library's functions) */
#define TD_COMPLEX_TYPES(X) X(c64, td_cf, float, f) X(c128, td_cd, double, )

#define X(tag, T, R, s)                                                                                      \
    static inline T td_make_##tag(R re, R im) { return __builtin_complex(re, im); }                          \
    static inline T td_add_##tag(T a, T b) { return a + b; }                                                 \
    static inline T td_sub_##tag(T a, T b) { return a - b; }                                                 \
    static inline T td_mul_##tag(T a, T b) { return a * b; }                                                 \
    static inline T td_div_##tag(T a, T b) { return a / b; }                                                 \
    static inline T td_mul_no_nan_##tag(T a, T b) { return b == 0 ? 0 : a * b; }                             \
    static inline T td_div_no_nan_##tag(T a, T b) { return b == 0 ? 0 : a / b; }                             \
    static inline T td_sqdiff_##tag(T a, T b) { return (a - b) * conj##s(a - b); }                           \
    static inline T td_pow_##tag(T a, T b) { return cpow##s(a, b); }                                         \
    static inline T td_xlogy_##tag(T a, T b) { return a == 0 ? 0 : a * clog##s(b); }                         \
    static inline T td_xdivy_##tag(T a, T b) { return a == 0 ? 0 : a / b; }                                  \
    static inline T td_neg_##tag(T a) { return -a; }                                                         \
    static inline T td_square_##tag(T a) { return a * a; }                                                   \
    static inline T td_inv_##tag(T a) { return (R)1 / a; }                                                   \
    static inline T td_rsqrt_##tag(T a) { return (R)1 / csqrt##s(a); }                                       \
    static inline T td_sign_##tag(T a) { return a == 0 ? 0 : a / cabs##s(a); }                               \
    static inline T td_sigmoid_##tag(T a) { return (R)1 / ((R)1 + cexp##s(-a)); }
TD_COMPLEX_TYPES(X)
#undef X

/* exp(z) - 1 and log(1 + z) without cancellation near 0:
 * exp(x+iy) - 1 = expm1(x) cos y - 2 sin^2(y/2) + i exp(x) sin y;  |1+z|^2 - 1 = x (2 + x) + y^2. */
#define X(tag, T, R, s)                                                                                      \
    static inline T td_expm1_##tag(T a)                                                                      \
    {                                                                                                        \
        R x = creal##s(a), y = cimag##s(a), h = sin##s(y / 2);                                               \
        return td_make_##tag(expm1##s(x) * cos##s(y) - 2 * h * h, exp##s(x) * sin##s(y));                    \
    }                                                                                                        \
    static inline T td_log1p_##tag(T a)                                                                      \
    {                                                                                                        \
        R x = creal##s(a), y = cimag##s(a);                                                                  \
        if (fabs##s(x) > (R)0.5 || fabs##s(y) > (R)0.5) {                                                    \
            return clog##s((R)1 + a);                                                                        \
        }                                                                                                    \
        return td_make_##tag(log1p##s(x * (2 + x) + y * y) / 2, atan2##s(y, 1 + x));                         \
    }                                                                                                        \
    static inline T td_xlog1py_##tag(T a, T b) { return a == 0 ? 0 : a * td_log1p_##tag(b); }
TD_COMPLEX_TYPES(X)
#undef X

/* clang-format on */
#endif
