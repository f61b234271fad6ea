/* kernels/math/special.c - gamma, beta and zeta functions, and inverses of the error function. Bessel
 * functions and the remaining integrals are in special_bessel.c.
 *
 * Formula numbers are those of the NIST Digital Library of Mathematical Functions (DLMF). Digamma and zeta
 * are summed until the argument is large, then end in their asymptotic series (DLMF 5.11.2;
 * Euler-Maclaurin, 2.10.1). The incomplete functions use the power series left of the mean and a continued
 * fraction right of it (8.11.4, 8.9.2; 8.17.22), evaluated by Lentz's method as modified by Thompson and
 * Barnett (J. Comput. Phys. 64, 1986). Derivatives by the parameter are carried along term by term. Inverses
 * start from Abramowitz-Stegun 26.2.23 and take Halley steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/special.h"

#include <math.h>
#include <stdbool.h>

#define PI 3.14159265358979323846
#define EPS 1.1e-16
#define TINY 1e-290 /* stands in for a zero denominator in Lentz's method */
/* Steps of a series or fraction. The incomplete gamma series at its mean needs about 9 sqrt(a): enough to a =
 * 1e8. */
#define MAX_STEPS 100000

/* B(2k) / (2k)! for k = 1 .. 12 */
static const double bernoulli_over_factorial[] = {
    8.3333333333333333e-2,  -1.3888888888888889e-3,  3.3068783068783069e-5,  -8.2671957671957672e-7,
    2.0876756987868099e-8,  -5.2841901386874932e-10, 1.3382536530684679e-11, -3.3896802963225829e-13,
    8.5860620562778446e-15, -2.1748686985580619e-16, 5.5090028283602295e-18, -1.3954464685812523e-19,
};

double td_special_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

double td_special_digamma(double x)
{
    if (x == INFINITY) {
        return x;
    }
    if (x <= 0) {
        /* reflection, DLMF 5.5.4 */
        return x == floor(x) ? NAN : td_special_digamma(1 - x) - PI / tan(PI * (x - floor(x)));
    }
    double y = 0;
    for (; x < 10; x++) {
        y -= 1 / x;
    }
    /* B(2k) / (2k) for k = 1 .. 7 */
    static const double c[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};
    double s = 0, r = 1 / (x * x);
    for (int k = 6; k >= 0; k--) {
        s = (s + c[k]) * r;
    }
    return y + log(x) - 0.5 / x - s;
}

/* ------------------------------------------------------------------ inverses */

/* Quantile of p in (0, 1/2]. */
static double lower_quantile(double p)
{
    double t = sqrt(-2 * log(p));
    double x =
        (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
    for (int i = 0; i < 3; i++) {
        double u = (0.5 * erfc(-x / sqrt(2.0)) - p) * sqrt(2 * PI) * exp(x * x / 2);
        x -= u / (1 + x * u / 2);
    }
    return x;
}

double td_special_ndtri(double p)
{
    if (!(p >= 0 && p <= 1)) {
        return NAN;
    }
    if (p == 0 || p == 1) {
        return p == 0 ? -INFINITY : INFINITY;
    }
    return p <= 0.5 ? lower_quantile(p) : -lower_quantile(1 - p);
}

double td_special_erfinv(double x)
{
    double a = fabs(x);
    if (!(a < 1)) {
        return a == 1 ? copysign(INFINITY, x) : NAN;
    }
    if (a > 0.5) {
        return copysign(lower_quantile((1 - a) / 2) / sqrt(2.0), x);
    }
    double y = x * (sqrt(PI) / 2) * (1 + PI / 12 * x * x);
    for (int i = 0; i < 3; i++) {
        double u = (erf(y) - x) * (sqrt(PI) / 2) * exp(y * y);
        y -= u / (1 + y * u);
    }
    return y;
}

/* ------------------------------------------------------------------ zeta */

double td_special_zeta(double x, double q)
{
    if (x == 1) {
        return INFINITY;
    }
    if (!(x > 1) || q != q) {
        return NAN;
    }
    if (q <= 0) {
        if (q == floor(q)) {
            return isinf(x) || fmod(x, 2) == 0 ? INFINITY : NAN;
        }
        if (x != floor(x) || q < -MAX_STEPS) {
            return NAN; /* powers of negative numbers */
        }
    }
    double sum = 0;
    for (double from = 10 + x / 2; q < from; q++) { /* the asymptotic part wants q of the order of x */
        double term = pow(q, -x);
        sum += term;
        if (q > 0 && !(term > EPS * EPS * fabs(sum))) { /* also of a sum that is 0, infinite or no number */
            return sum;
        }
    }
    if (isinf(q) || isinf(x)) {
        return sum;
    }
    double power = pow(q, -x), rising = x / q;
    sum += power * (q / (x - 1) + 0.5);
    for (int k = 0; k < 12; k++) {
        double term = bernoulli_over_factorial[k] * rising * power;
        sum += term;
        if (fabs(term) < EPS * fabs(sum)) {
            break;
        }
        rising *= (x + 2 * k + 1) * (x + 2 * k + 2) / (q * q);
    }
    return sum;
}

double td_special_polygamma(double n, double x)
{
    if (!(n >= 0) || n != floor(n)) {
        return NAN;
    }
    if (n == 0) {
        return td_special_digamma(x);
    }
    double sign = fmod(n, 2) == 0 ? -1 : 1;
    return sign * exp(td_special_lgamma(n + 1)) * td_special_zeta(n + 1, x);
}

/* ------------------------------------------------------------------ incomplete gamma */

struct dual {
    double v, d;
}; /* a value and its derivative by a */

/* sum of x^n / ((a+1) .. (a+n)), n >= 0; P = x^a exp(-x) / Gamma(a+1) times it */
static struct dual gamma_series(double a, double x)
{
    struct dual s = {1, 0};
    double term = 1, harmonic = 0; /* harmonic: -(d term / da) / term */
    for (int n = 1; n < MAX_STEPS; n++) {
        term *= x / (a + n);
        harmonic += 1 / (a + n);
        s.v += term;
        s.d -= term * harmonic;
        if (term * (1 + harmonic) < EPS * s.v) {
            break;
        }
    }
    return s;
}

/* Q = x^a exp(-x) / Gamma(a) times this fraction: 1/(x+1-a- (1-a)/(x+3-a- 2(2-a)/(x+5-a- ..))) */
static struct dual gamma_fraction(double a, double x)
{
    struct dual b = {x + 1 - a, -1}, c = {1 / TINY, 0}, d = {1 / b.v, 1 / (b.v * b.v)}, h = d;
    for (int n = 1; n < MAX_STEPS; n++) {
        struct dual num = {-n * (n - a), n};
        b.v += 2;
        struct dual den = {num.v * d.v + b.v, num.d * d.v + num.v * d.d + b.d};
        den.v = den.v == 0 ? TINY : den.v;
        struct dual next = {b.v + num.v / c.v, b.d + (num.d - num.v * c.d / c.v) / c.v};
        c = next;
        c.v = c.v == 0 ? TINY : c.v;
        d = (struct dual){1 / den.v, -den.d / (den.v * den.v)};
        struct dual step = {c.v * d.v, c.d * d.v + c.v * d.d};
        h = (struct dual){h.v * step.v, h.d * step.v + h.v * step.d};
        if (fabs(step.v - 1) < 2 * EPS && fabs(step.d) * fabs(h.v) <= 4 * EPS * fabs(h.d)) {
            break;
        }
    }
    return h;
}

/* x^a exp(-x) / Gamma(a), a > 0, 0 < x < inf */
static double gamma_density(double a, double x)
{
    if (a < 100) {
        return exp(a * log(x) - x - td_special_lgamma(a));
    }
    /* Stirling's series: the large terms cancel before they are rounded */
    double u = (x - a) / a, stirling = (1.0 / 12 - 1.0 / (360 * a * a) + 1.0 / (1260 * a * a * a * a)) / a;
    return sqrt(a / (2 * PI)) * exp(a * (log1p(u) - u) - stirling);
}

static bool gamma_domain(double a, double x)
{
    return a > 0 && x >= 0;
}
static bool left_of_mean(double a, double x)
{
    return x < 1 || x < a + 1;
}

#define LARGE_A 1e10
/* Q for a beyond LARGE_A, the leading term of DLMF 8.12.4; its relative error is of the order of a^(-1/2). */
static double gamma_upper_large(double a, double x)
{
    double u = (x - a) / a, square = a * (u - log1p(u));
    return 0.5 * erfc(copysign(sqrt(square > 0 ? square : 0), u));
}

double td_special_igamma(double a, double x, double most)
{
    if (x == 0) { /* TensorFlow looks at x first: also for an a that has no integral */
        return 0;
    }
    if (!gamma_domain(a, x)) {
        return NAN;
    }
    if (isinf(a) || isinf(x)) {
        return isinf(a) ? 0 : 1;
    }
    if (a > LARGE_A) {
        return td_special_lgamma(a) > most ? x > a : 1 - gamma_upper_large(a, x);
    }
    if (left_of_mean(a, x)) {
        return gamma_density(a, x) / a * gamma_series(a, x).v;
    }
    return 1 - gamma_density(a, x) * gamma_fraction(a, x).v;
}

double td_special_igammac(double a, double x, double most)
{
    if (!gamma_domain(a, x)) {
        return NAN;
    }
    if (isinf(a) || isinf(x)) {
        return isinf(x) ? 0 : 1;
    }
    if (a > LARGE_A) {
        return td_special_lgamma(a) > most ? x < a : gamma_upper_large(a, x);
    }
    if (x == 0 || left_of_mean(a, x)) {
        return 1 - td_special_igamma(a, x, most);
    }
    return gamma_density(a, x) * gamma_fraction(a, x).v;
}

/* -(dP/da) divided by x^a exp(-x) / Gamma(a) */
static double relative_grad(double a, double x)
{
    if (left_of_mean(a, x)) {
        struct dual s = gamma_series(a, x);
        return -(s.v * (log(x) - td_special_digamma(a + 1)) + s.d) / a;
    }
    struct dual h = gamma_fraction(a, x);
    return h.v * (log(x) - td_special_digamma(a)) + h.d;
}

double td_special_igamma_grad_a(double a, double x)
{
    if (x == 0 && a >= 0) {
        return 0;
    }
    if (!gamma_domain(a, x)) {
        return NAN;
    }
    return isinf(a) || isinf(x) ? 0 : -gamma_density(a, x) * relative_grad(a, x);
}

double td_special_gamma_sample_grad(double a, double x, double least)
{
    if (!gamma_domain(a, x)) {
        return NAN;
    }
    if (x == 0 || isinf(a) || isinf(x) || a * log(x) - x - td_special_lgamma(a) < log(least)) {
        return 0;
    }
    return x * relative_grad(a, x);
}

/* ------------------------------------------------------------------ incomplete beta */

/* DLMF 8.17.22, for x below (a + 1) / (a + b + 2) */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (d == 0 ? TINY : d);
    double h = d;
    for (int m = 1; m < MAX_STEPS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (d == 0 ? TINY : d);
        c = c == 0 ? TINY : c;
        h *= d * c;
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (d == 0 ? TINY : d);
        c = c == 0 ? TINY : c;
        h *= d * c;
        if (fabs(d * c - 1) < 2 * EPS) {
            break;
        }
    }
    return h;
}

double td_special_betainc(double a, double b, double x)
{
    if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) {
        return NAN;
    }
    if (x == 0 || x == 1) {
        return x;
    }
    double front = exp(td_special_lgamma(a + b) - td_special_lgamma(a) - td_special_lgamma(b) + a * log(x) +
                       b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) {
        return front * beta_fraction(a, b, x) / a;
    }
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}
