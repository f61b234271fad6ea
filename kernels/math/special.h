/* kernels/math/special.h - special functions in double precision that the C library does not have.
 *
 * Pure functions of their arguments, safe on any thread, defined for every double including infinities and
 * NaN; the number of steps is bounded whatever the arguments are. Accurate to a few units in the last place
 * except near zeros and where the comment says otherwise. At poles and outside domains they answer as
 * TensorFlow does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_SPECIAL_H
#define TD_KERNELS_MATH_SPECIAL_H

double td_special_lgamma(double x);         /* log |Gamma(x)|, without the C library's global sign */
double td_special_digamma(double x);        /* NaN at 0, -1, -2, .. */
double td_special_erfinv(double x);         /* inverse of erf on [-1, 1] */
double td_special_ndtri(double p);          /* quantile of the normal distribution on [0, 1] */
double td_special_zeta(double x, double q); /* Hurwitz: sum over k >= 0 of (q + k)^-x, x > 1 */
double td_special_polygamma(double n, double x);
double td_special_betainc(double a, double b, double x); /* regularized incomplete beta function */

/* Regularized incomplete gamma functions P(a, x) and Q = 1 - P; about 1e-13 relative, less for a beyond 1e4.
 * Where the logarithm of Gamma(a) is above `most`, the largest number of the dtype, both are steps at a that
 * are 0 at x == a (TensorFlow's rule). */
double td_special_igamma(double a, double x, double most);
double td_special_igammac(double a, double x, double most);
double td_special_igamma_grad_a(double a, double x); /* dP / da */
/* dx / da at constant P: -(dP/da) / (dP/dx); 0 where x^a exp(-x) / Gamma(a) is below `least`, the smallest
 * normal number of the dtype (TensorFlow's rule). */
double td_special_gamma_sample_grad(double a, double x, double least);

/* Modified Bessel functions; the `e` ones are scaled by exp(-|x|) (I) or exp(x) (K). */
double td_special_i0(double x);
double td_special_i0e(double x);
double td_special_i1(double x);
double td_special_i1e(double x);
double td_special_k0(double x);
double td_special_k0e(double x);
double td_special_k1(double x);
double td_special_k1e(double x);
/* The C library's, but NaN at infinities, and of the second kind -infinity for every x <= 0. */
double td_special_j0(double x);
double td_special_j1(double x);
double td_special_y0(double x);
double td_special_y1(double x);

double td_special_dawson(double x);      /* exp(-x^2) times the integral of exp(t^2) from 0 to x */
double td_special_expint(double x);      /* Ei(x), x >= 0 */
double td_special_fresnel_cos(double x); /* integral of cos(pi t^2 / 2) from 0 to x */
double td_special_fresnel_sin(double x);
double td_special_spence(double x); /* integral of log t / (1 - t) from 1 to x, x >= 0 */

#endif
