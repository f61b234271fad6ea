/* kernels/math/special_bessel.c - Bessel functions, and the integrals of Dawson, Fresnel, Ei and Spence
 * (special.h).
 *
 * I: the power series, whose terms are all positive, to x = 25, and the asymptotic one beyond
 * (DLMF 10.25.2, 10.40.1). K: by DLMF 10.32.9, exp(x) K_v(x) = integral of exp(-x (cosh t - 1)) cosh(v t)
 * over t >= 0, by the trapezoidal rule, which converges geometrically for such integrands (Trefethen and
 * Weideman, SIAM Review 56, 2014); the series 10.31.2 below x = 1. Dawson: Rybicki's sum (Computers in
 * Physics 3, 1989) with step 0.2. Fresnel: power series, then the continued fraction of the complementary
 * error function of a complex argument (DLMF 7.5.9, 7.9.1).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/special.h"

#include <complex.h>
#undef I
#include <math.h>

#define PI 3.14159265358979323846
#define EULER 0.57721566490153286061
#define EPS 1.1e-16

/* ------------------------------------------------------------------ I */

/* sum of (x/2)^(2k) / (k! (k+v)!), v = 0 or 1 */
static double i_series(double x, int v)
{
    double s = 1, term = 1, q = x * x / 4;
    for (int k = 1; k < 200 && term > EPS * s; k++) {
        term *= q / ((double)k * (k + v));
        s += term;
    }
    return s;
}

/* sqrt(2 pi x) exp(-x) I_v(x) for large x */
static double i_asymptotic(double x, int v)
{
    double s = 1, term = 1, mu = 4.0 * v * v;
    for (int k = 1; k < 60; k++) {
        double next = -term * (mu - (2 * k - 1) * (2 * k - 1)) / (8.0 * k * x);
        if (fabs(next) >= fabs(term) || fabs(next) < EPS * s) {
            break;
        }
        term = next;
        s += term;
    }
    return s;
}

static double i_scaled(double x, int v)
{
    double a = fabs(x), y;
    if (a > 25) {
        y = isinf(a) ? 0 : i_asymptotic(a, v) / (sqrt(2 * PI) * sqrt(a));
    } else {
        y = exp(-a) * i_series(a, v) * (v == 1 ? a / 2 : 1);
    }
    return v == 1 && x < 0 ? -y : y;
}

/* exp(|x|) in two factors: the function may be finite where exp(|x|) is not. */
static double i_plain(double x, int v)
{
    double half = exp(fabs(x) / 2);
    return i_scaled(x, v) * half * half;
}

double td_special_i0(double x)
{
    return i_plain(x, 0);
}
double td_special_i0e(double x)
{
    return i_scaled(x, 0);
}
double td_special_i1(double x)
{
    return i_plain(x, 1);
}
double td_special_i1e(double x)
{
    return i_scaled(x, 1);
}

/* ------------------------------------------------------------------ K */

/* K_0 and x K_1 for 0 < x < 1, without scaling */
static double k_series(double x, int v)
{
    double q = x * x / 4, log_part = log(x / 2) + EULER, term = 1, harmonic = 0, sum = 0;
    if (v == 0) {
        for (int k = 1; k < 40; k++) {
            term *= q / ((double)k * k);
            harmonic += 1.0 / k;
            sum += term * harmonic;
        }
        return sum - log_part * i_series(x, 0);
    }
    for (int k = 0; k < 40; k++) {
        term *= k == 0 ? 1 : q / ((double)k * (k + 1));
        sum += term * (harmonic + 0.5 / (k + 1)); /* (psi(k+1) + psi(k+2)) / 2 + Euler */
        harmonic += 1.0 / (k + 1);
    }
    return 1 / x + x / 2 * (log_part * i_series(x, 1) - sum);
}

static double k_integral(double x, int v)
{
    const double h = 1.0 / 16 / (x > 100 ? sqrt(x / 100) : 1); /* the integrand narrows as 1 / sqrt(x) */
    double sum = 0.5;
    for (int i = 1; i < 2000; i++) {
        double t = i * h, s = sinh(t / 2), exponent = 2 * x * s * s; /* x (cosh t - 1) */
        double term = exp(-exponent) * (v == 1 ? cosh(t) : 1);
        sum += term;
        if (term < EPS * sum) {
            break;
        }
    }
    return h * sum;
}

static double k_scaled(double x, int v)
{
    if (x != x) {
        return x;
    }
    if (x <= 0) {
        return INFINITY;
    }
    if (isinf(x)) {
        return 0;
    }
    return x < 1 ? exp(x) * k_series(x, v) : k_integral(x, v);
}

static double k_plain(double x, int v)
{
    if (x > 0 && x < 1) {
        return k_series(x, v);
    }
    return x > 800 ? 0 : k_scaled(x, v) * exp(-x);
}

double td_special_k0(double x)
{
    return k_plain(x, 0);
}
double td_special_k0e(double x)
{
    return k_scaled(x, 0);
}
double td_special_k1(double x)
{
    return k_plain(x, 1);
}
double td_special_k1e(double x)
{
    return k_scaled(x, 1);
}

/* The oscillating ones are told from their phase, which infinity has not. */
double td_special_j0(double x)
{
    return isinf(x) ? NAN : j0(x);
}
double td_special_j1(double x)
{
    return isinf(x) ? NAN : j1(x);
}
double td_special_y0(double x)
{
    return x <= 0 ? -INFINITY : isinf(x) ? NAN : y0(x);
}
double td_special_y1(double x)
{
    return x <= 0 ? -INFINITY : isinf(x) ? NAN : y1(x);
}

/* ------------------------------------------------------------------ Dawson, Ei, Spence */

double td_special_dawson(double x)
{
    double a = fabs(x), r = x * x;
    if (a < 0.2) {
        /* x (1 - 2/3 x^2 (1 - 2/5 x^2 (1 - ..))) */
        double s = 1;
        for (int k = 12; k > 0; k--) {
            s = 1 - 2 * r / (2 * k + 1) * s;
        }
        return x * s;
    }
    if (!(a < 50)) {
        double q = 1 / (2 * r);
        return isinf(a) ? 0 : (1 + q * (1 + q * (3 + q * (15 + q * 105)))) / (2 * x);
    }
    const double h = 0.2;
    int middle = 2 * (int)(a / (2 * h)) + 1; /* the odd number next to x / h */
    double sum = 0;
    for (int n = middle - 34; n <= middle + 34; n += 2) {
        double t = a - n * h;
        sum += exp(-t * t) / n;
    }
    return copysign(sum / sqrt(PI), x);
}

double td_special_expint(double x)
{
    if (!(x >= 0) || isinf(x)) {
        return NAN;
    }
    if (x == 0) {
        return -INFINITY;
    }
    double sum = 0, term = 1;
    if (x <= 40) {
        for (int k = 1; k < 300; k++) {
            term *= x / k;
            sum += term / k;
            if (term < EPS * sum) {
                break;
            }
        }
        return EULER + log(x) + sum;
    }
    sum = 1;
    for (int k = 1; k < 100; k++) {
        double next = term * k / x;
        if (next >= term || next < EPS) {
            break;
        }
        term = next;
        sum += term;
    }
    double half = exp(x / 2); /* exp(x) may overflow before the quotient does */
    return half / x * sum * half;
}

/* sum of w^k / k^2, |w| <= 1/2 */
static double dilog_series(double w)
{
    double sum = 0, power = w;
    for (int k = 1; k < 60; k++) {
        sum += power / ((double)k * k);
        power *= w;
    }
    return sum;
}

/* Li2(1 - x): the argument is brought into [0, 1/2] (DLMF 25.12.3 to 25.12.6). */
double td_special_spence(double x)
{
    const double w = 1 - x;
    if (!(x >= 0) || isinf(x)) {
        return NAN;
    }
    if (w == 1) {
        return PI * PI / 6;
    }
    if (w > 0.5) {
        return PI * PI / 6 - log(w) * log(x) - dilog_series(x);
    }
    if (w >= 0) {
        return dilog_series(w);
    }
    if (w >= -1) {
        return -dilog_series(w / (w - 1)) - 0.5 * log(x) * log(x);
    }
    double l = log(-w), inner = td_special_spence(1 - 1 / w);
    return -PI * PI / 6 - 0.5 * l * l - inner;
}

/* ------------------------------------------------------------------ Fresnel */

/* C + i S of x in [0, 1.5]: terms (i pi x^2 / 2)^n x / (n! (2n+1)) */
static double complex fresnel_series(double x)
{
    double complex term = x, sum = x, q = __builtin_complex(0.0, PI / 2 * x * x);
    for (int n = 1; n < 60; n++) {
        term *= q / n;
        sum += term / (2 * n + 1);
    }
    return sum;
}

/* For x above 1.5: (1 + i) / 2 erf(sqrt(pi) (1 - i) x / 2), by the fraction of erfc */
static double complex fresnel_fraction(double x)
{
    double pix2 = PI * x * x;
    double complex b = __builtin_complex(1.0, -pix2), c = 1 / 1e-290, d = 1 / b, h = d;
    for (int n = 1; n < 2000; n++) {
        double num = -(2.0 * n - 1) * (2.0 * n);
        b += 4;
        d = 1 / (num * d + b);
        c = b + num / c;
        double complex step = c * d;
        h *= step;
        if (fabs(creal(step) - 1) + fabs(cimag(step)) < 2 * EPS) {
            break;
        }
    }
    h *= __builtin_complex(x, -x);
    double phase = fmod(x * x / 4, 1) * 2 * PI; /* pi x^2 / 2 */
    return __builtin_complex(0.5, 0.5) * (1 - __builtin_complex(cos(phase), sin(phase)) * h);
}

static double complex fresnel(double x)
{
    if (x != x) {
        return __builtin_complex(x, x);
    }
    double a = fabs(x);
    double complex y = a < 1.5   ? fresnel_series(a)
                       : a > 1e8 ? __builtin_complex(0.5, 0.5)
                                 : fresnel_fraction(a);
    return x < 0 ? -y : y;
}

double td_special_fresnel_cos(double x)
{
    return creal(fresnel(x));
}
double td_special_fresnel_sin(double x)
{
    return cimag(fresnel(x));
}
