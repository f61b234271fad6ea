/* kernels/cuda/math/complex.cuh - complex numbers of two F, which have C's layout. Products and quotients
 * follow C's Annex G where infinities meet, as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_COMPLEX_CUH
#define TD_KERNELS_CUDA_MATH_COMPLEX_CUH

#include <cmath>

#include "kernels/cuda/base/launch.cuh"

template <class F> struct td_cuda_complex {
    F re, im;
    td_cuda_complex() = default;
    __device__ td_cuda_complex(F real, F imaginary = 0) : re(real), im(imaginary) {}
};

template <class F> __device__ bool operator==(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return a.re == b.re && a.im == b.im;
}
template <class F> __device__ bool operator!=(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return !(a == b);
}
template <class F> __device__ bool operator==(td_cuda_complex<F> a, int b)
{
    return a == td_cuda_complex<F>(static_cast<F>(b));
}
template <class F> __device__ td_cuda_complex<F> operator-(td_cuda_complex<F> a)
{
    return {-a.re, -a.im};
}
template <class F> __device__ td_cuda_complex<F> operator+(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return {a.re + b.re, a.im + b.im};
}
template <class F> __device__ td_cuda_complex<F> operator-(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return {a.re - b.re, a.im - b.im};
}

/* A part of a number that is infinite: 1 where it is, else 0; and 0 of one that is no number. */
template <class F> __device__ F td_cuda_boxed(F part)
{
    return copysign(isinf(part) ? F(1) : F(0), part);
}
template <class F> __device__ F td_cuda_without_nan(F part)
{
    return isnan(part) ? copysign(F(0), part) : part;
}
template <class F> __device__ bool td_cuda_is_infinite(td_cuda_complex<F> a)
{
    return isinf(a.re) || isinf(a.im);
}

/* Infinity times something, of which the plain formula says that both parts are no numbers. */
template <class F>
__device__ td_cuda_complex<F> td_cuda_infinite_product(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    const bool large = isinf(a.re * b.re) || isinf(a.im * b.im) || isinf(a.re * b.im) || isinf(a.im * b.re);
    const bool a_infinite = td_cuda_is_infinite(a), b_infinite = td_cuda_is_infinite(b);
    if (!a_infinite && !b_infinite && !large) {
        return {F(NAN), F(NAN)};
    }
    if (a_infinite) {
        a = {td_cuda_boxed(a.re), td_cuda_boxed(a.im)};
    }
    if (b_infinite) {
        b = {td_cuda_boxed(b.re), td_cuda_boxed(b.im)};
    }
    a = {td_cuda_without_nan(a.re), td_cuda_without_nan(a.im)};
    b = {td_cuda_without_nan(b.re), td_cuda_without_nan(b.im)};
    return {F(INFINITY) * (a.re * b.re - a.im * b.im), F(INFINITY) * (a.re * b.im + a.im * b.re)};
}

template <class F> __device__ td_cuda_complex<F> operator*(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    const td_cuda_complex<F> y = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    return isnan(y.re) && isnan(y.im) ? td_cuda_infinite_product(a, b) : y;
}

/* A quotient of which the plain formula says that both parts are no numbers. */
template <class F>
__device__ td_cuda_complex<F> td_cuda_infinite_quotient(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    const bool a_is_number = !isnan(a.re) || !isnan(a.im);
    if (b.re == 0 && b.im == 0 && a_is_number) {
        const F infinite = copysign(F(INFINITY), b.re);
        return {infinite * a.re, infinite * a.im};
    }
    if (td_cuda_is_infinite(a) && isfinite(b.re) && isfinite(b.im)) {
        a = {td_cuda_boxed(a.re), td_cuda_boxed(a.im)};
        return {F(INFINITY) * (a.re * b.re + a.im * b.im), F(INFINITY) * (a.im * b.re - a.re * b.im)};
    }
    if (td_cuda_is_infinite(b) && isfinite(a.re) && isfinite(a.im)) {
        b = {td_cuda_boxed(b.re), td_cuda_boxed(b.im)};
        return {F(0) * (a.re * b.re + a.im * b.im), F(0) * (a.im * b.re - a.re * b.im)};
    }
    return {F(NAN), F(NAN)};
}

/* Of floats in double, which no square of theirs leaves; of doubles by the greater part of the divisor. */
template <class F> __device__ td_cuda_complex<F> operator/(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    td_cuda_complex<F> y;
    if constexpr (sizeof(F) == 4) {
        const double c = b.re, d = b.im, of = c * c + d * d;
        y = {static_cast<F>((a.re * c + a.im * d) / of), static_cast<F>((a.im * c - a.re * d) / of)};
    } else if (fabs(b.re) < fabs(b.im)) {
        const F ratio = b.re / b.im, of = b.re * ratio + b.im;
        y = {(a.re * ratio + a.im) / of, (a.im * ratio - a.re) / of};
    } else {
        const F ratio = b.im / b.re, of = b.im * ratio + b.re;
        y = {(a.im * ratio + a.re) / of, (a.im - a.re * ratio) / of};
    }
    return isnan(y.re) && isnan(y.im) ? td_cuda_infinite_quotient(a, b) : y;
}

template <class F> __device__ td_cuda_complex<F> conjugate(td_cuda_complex<F> a)
{
    return {a.re, -a.im};
}
template <class F> __device__ F length(td_cuda_complex<F> a)
{
    return hypot(a.re, a.im);
}

/* Under the names that real numbers have (scalar.cuh). */
template <class F> __device__ td_cuda_complex<F> sum(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return a + b;
}
template <class F> __device__ td_cuda_complex<F> difference(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return a - b;
}
template <class F> __device__ td_cuda_complex<F> product(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return a * b;
}
template <class F> __device__ td_cuda_complex<F> quotient(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return a / b;
}
template <class F> __device__ td_cuda_complex<F> squared_distance(td_cuda_complex<F> a, td_cuda_complex<F> b)
{
    return (a - b) * conjugate(a - b);
}
template <class F> __device__ td_cuda_complex<F> negative(td_cuda_complex<F> a)
{
    return -a;
}
template <class F> __device__ td_cuda_complex<F> square(td_cuda_complex<F> a)
{
    return a * a;
}
template <class F> __device__ td_cuda_complex<F> sign(td_cuda_complex<F> a)
{
    const F n = length(a);
    return a == 0 ? a : td_cuda_complex<F>(a.re / n, a.im / n);
}

/* f(td_cuda_complex<..>()) for the type of that number. */
template <class F> int td_cuda_with_complex(int type, F f)
{
    return type == TD_CUDA_COMPLEX64    ? f(td_cuda_complex<float>())
           : type == TD_CUDA_COMPLEX128 ? f(td_cuda_complex<double>())
                                        : static_cast<int>(cudaErrorInvalidValue);
}

inline bool td_cuda_is_complex(int type)
{
    return type == TD_CUDA_COMPLEX64 || type == TD_CUDA_COMPLEX128;
}

#endif
