/* kernels/cpu/scalar.h - scalar functions that the element-wise loops share, one a dtype:
 * td_<operation>_<tag>.
 *
 * Header only, and plain enough to be read by a CUDA compiler too. Integer arithmetic wraps (computed in
 * unsigned); division by zero is checked by the caller, INT_MIN / -1 wraps here. Formulas are those of the
 * TensorFlow op pages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_SCALAR_H
#define TD_KERNELS_CPU_SCALAR_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TD_SCALAR static inline __host__ __device__
#else
#define TD_SCALAR static inline __attribute__((always_inline))
#endif

/* One function a line. */
/* clang-format off */

/* X(tag, type, unsigned type at least as wide as int) */
#define TD_SIGNED_TYPES(X)                                                                                   \
    X(i8, int8_t, uint32_t) X(i16, int16_t, uint32_t) X(i32, int32_t, uint32_t) X(i64, int64_t, uint64_t)
#define TD_UNSIGNED_TYPES(X)                                                                                 \
    X(u8, uint8_t, uint32_t) X(u16, uint16_t, uint32_t) X(u32, uint32_t, uint32_t) X(u64, uint64_t, uint64_t)
#define TD_INT_TYPES(X) TD_SIGNED_TYPES(X) TD_UNSIGNED_TYPES(X)

/* ---- floats.  X(tag, type, suffix of the C library's functions) */
#define TD_FLOAT_TYPES(X) X(f32, float, f) X(f64, double, )

#define X(tag, T, s)                                                                                         \
    TD_SCALAR T td_add_##tag(T a, T b) { return a + b; }                                                     \
    TD_SCALAR T td_sub_##tag(T a, T b) { return a - b; }                                                     \
    TD_SCALAR T td_mul_##tag(T a, T b) { return a * b; }                                                     \
    TD_SCALAR T td_div_##tag(T a, T b) { return a / b; }                                                     \
    TD_SCALAR T td_mul_no_nan_##tag(T a, T b) { return b == 0 ? 0 : a * b; }                                 \
    TD_SCALAR T td_div_no_nan_##tag(T a, T b) { return b == 0 ? 0 : a / b; }                                 \
    TD_SCALAR T td_floor_div_##tag(T a, T b) { return floor##s(a / b); }                                     \
    TD_SCALAR T td_trunc_div_##tag(T a, T b) { return trunc##s(a / b); }                                     \
    TD_SCALAR T td_trunc_mod_##tag(T a, T b) { return fmod##s(a, b); }                                       \
    TD_SCALAR T td_sqdiff_##tag(T a, T b) { return (a - b) * (a - b); }                                      \
    TD_SCALAR T td_max_##tag(T a, T b) { return a >= b || a != a ? a : b; }                                  \
    TD_SCALAR T td_min_##tag(T a, T b) { return a <= b || a != a ? a : b; }                                  \
    TD_SCALAR T td_xlogy_##tag(T a, T b) { return a == 0 ? 0 : a * log##s(b); }                              \
    TD_SCALAR T td_xlog1py_##tag(T a, T b) { return a == 0 ? 0 : a * log1p##s(b); }                          \
    TD_SCALAR T td_xdivy_##tag(T a, T b) { return a == 0 ? 0 : a / b; }                                      \
    TD_SCALAR T td_pow_##tag(T a, T b) { return pow##s(a, b); }                                              \
    TD_SCALAR T td_atan2_##tag(T a, T b) { return atan2##s(a, b); }                                          \
    TD_SCALAR T td_next_after_##tag(T a, T b) { return nextafter##s(a, b); }                                 \
    TD_SCALAR T td_neg_##tag(T a) { return -a; }                                                             \
    TD_SCALAR T td_abs_##tag(T a) { return fabs##s(a); }                                                     \
    TD_SCALAR T td_square_##tag(T a) { return a * a; }                                                       \
    TD_SCALAR T td_inv_##tag(T a) { return 1 / a; }                                                          \
    TD_SCALAR T td_rsqrt_##tag(T a) { return 1 / sqrt##s(a); }                                               \
    TD_SCALAR T td_sign_##tag(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a; }                              \
    TD_SCALAR T td_relu_##tag(T a) { return a < 0 ? 0 : a; }                                                 \
    TD_SCALAR T td_relu6_##tag(T a) { return a < 0 ? 0 : a > 6 ? 6 : a; }                                    \
    TD_SCALAR T td_softsign_##tag(T a) { return a / (1 + fabs##s(a)); }
TD_FLOAT_TYPES(X)
#undef X

/* The remainder that has the sign of the divisor. */
#define X(tag, T, s)                                                                                         \
    TD_SCALAR T td_floor_mod_##tag(T a, T b)                                                                 \
    {                                                                                                        \
        T r = fmod##s(a, b);                                                                                 \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                     \
    }
TD_FLOAT_TYPES(X)
#undef X

/* ---- integers */
#define X(tag, T, U)                                                                                         \
    TD_SCALAR T td_add_##tag(T a, T b) { return (T)((U)a + (U)b); }                                          \
    TD_SCALAR T td_sub_##tag(T a, T b) { return (T)((U)a - (U)b); }                                          \
    TD_SCALAR T td_mul_##tag(T a, T b) { return (T)((U)a * (U)b); }                                          \
    TD_SCALAR T td_square_##tag(T a) { return td_mul_##tag(a, a); }                                          \
    TD_SCALAR T td_sqdiff_##tag(T a, T b) { return td_square_##tag(td_sub_##tag(a, b)); }                    \
    TD_SCALAR T td_max_##tag(T a, T b) { return a > b ? a : b; }                                             \
    TD_SCALAR T td_min_##tag(T a, T b) { return a < b ? a : b; }                                             \
    TD_SCALAR T td_relu_##tag(T a) { return a > 0 ? a : 0; }                                                 \
    TD_SCALAR T td_relu6_##tag(T a) { return a > 0 ? (a > 6 ? 6 : a) : 0; }                                  \
    TD_SCALAR T td_and_##tag(T a, T b) { return (T)(a & b); }                                                \
    TD_SCALAR T td_or_##tag(T a, T b) { return (T)(a | b); }                                                 \
    TD_SCALAR T td_xor_##tag(T a, T b) { return (T)(a ^ b); }                                                \
    TD_SCALAR T td_invert_##tag(T a) { return (T)~a; }
TD_INT_TYPES(X)
#undef X

/* Division rounds toward zero or down; x / -1 is -x: the most negative value wraps instead of trapping. */
#define X(tag, T, U)                                                                                         \
    TD_SCALAR T td_neg_##tag(T a) { return (T)(0 - (U)a); }                                                  \
    TD_SCALAR T td_abs_##tag(T a) { return a < 0 ? td_neg_##tag(a) : a; }                                    \
    TD_SCALAR T td_sign_##tag(T a) { return (T)((a > 0) - (a < 0)); }                                        \
    TD_SCALAR T td_trunc_div_##tag(T a, T b) { return b == -1 ? td_neg_##tag(a) : (T)(a / b); }              \
    TD_SCALAR T td_trunc_mod_##tag(T a, T b) { return b == -1 ? 0 : (T)(a % b); }                            \
    TD_SCALAR T td_floor_mod_##tag(T a, T b)                                                                 \
    {                                                                                                        \
        T r = td_trunc_mod_##tag(a, b);                                                                      \
        return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                                \
    }                                                                                                        \
    TD_SCALAR T td_floor_div_##tag(T a, T b)                                                                 \
    {                                                                                                        \
        T q = td_trunc_div_##tag(a, b);                                                                      \
        return td_trunc_mod_##tag(a, b) != 0 && (a < 0) != (b < 0) ? (T)(q - 1) : q;                         \
    }
TD_SIGNED_TYPES(X)
#undef X
#define X(tag, T, U)                                                                                         \
    TD_SCALAR T td_trunc_div_##tag(T a, T b) { return (T)(a / b); }                                          \
    TD_SCALAR T td_trunc_mod_##tag(T a, T b) { return (T)(a % b); }                                          \
    TD_SCALAR T td_floor_div_##tag(T a, T b) { return (T)(a / b); }                                          \
    TD_SCALAR T td_floor_mod_##tag(T a, T b) { return (T)(a % b); }
TD_UNSIGNED_TYPES(X)
#undef X

/* a^b by squaring, wrapping; b >= 0. */
#define X(tag, T, U)                                                                                         \
    TD_SCALAR T td_pow_##tag(T a, T b)                                                                       \
    {                                                                                                        \
        U r = 1, base = (U)a;                                                                                \
        for (uint64_t e = (uint64_t)b; e; e >>= 1) {                                                         \
            r = e & 1 ? r * base : r;                                                                        \
            base *= base;                                                                                    \
        }                                                                                                    \
        return (T)r;                                                                                         \
    }
TD_INT_TYPES(X)
#undef X

/* Shift counts are clamped to [0, bits - 1]; right shifts of signed types keep the sign. */
#define X(tag, T, U)                                                                                         \
    TD_SCALAR int td_shift_count_##tag(T n)                                                                  \
    {                                                                                                        \
        const int most = (int)(8 * sizeof(T)) - 1;                                                           \
        return n <= 0 ? 0 : (uint64_t)n > (uint64_t)most ? most : (int)n;                                    \
    }                                                                                                        \
    TD_SCALAR T td_shift_left_##tag(T a, T n) { return (T)((U)a << td_shift_count_##tag(n)); }               \
    TD_SCALAR T td_shift_right_##tag(T a, T n) { return (T)(a >> td_shift_count_##tag(n)); }
TD_INT_TYPES(X)
#undef X

/* clang-format on */
#endif
