/* kernels/math/fft_plan.h - what discrete Fourier transforms of one length need: factors and tables of roots
 * of unity.
 *
 * A length whose primes are small is done by passes, one a factor (4, 2, 3, 5, then other primes). Any other
 * is a convolution with a chirp (Bluestein), by transforms of a power of two, `inner`, of 2n - 1 points or
 * more:
 *
 *     X[k] = w[k] * sum over j of (x[j] w[j]) * conj(w[k - j]),     w[j] = exp(-i pi j^2 / n)
 *
 * A real transform of an even length is a complex one of half as many points, and a pass that takes both
 * apart.
 *
 * Plans of lengths that were used lately are kept, up to sixteen for the process; longer ones than 2^16
 * points are made anew. Threads: any; a plan is immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MATH_FFT_PLAN_H
#define TD_KERNELS_MATH_FFT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

#define TD_FFT_FACTORS 48

/* Tables come as floats and as doubles: f or d is set, by `wide`. */
struct td_fft_table {
    float *f;
    double *d;
};

struct td_fft_pass {
    int64_t radix, points;      /* this many of `radix` points each */
    struct td_fft_table re, im; /* roots: [radix - 1][points] */
};

struct td_fft {
    int64_t n;       /* points of the transform asked for */
    int64_t points;  /* of the complex transform: n, or n / 2 for a real one of even length */
    bool real, wide; /* wide: computed in double */
    int n_passes;    /* 0 with inner, or for one point */
    struct td_fft_pass pass[TD_FFT_FACTORS];
    struct td_fft_table half_re, half_im; /* points + 1: exp(-2 pi i k / n); when n is even and real */
    struct td_fft *inner;                 /* set: by convolution; always wide */
    double *chirp_re, *chirp_im;          /* points */
    double *filter_re,
        *filter_im; /* inner->points: transform of the conjugate chirp, divided by inner->points */
    int users;      /* guarded by the cache */
    bool cached;
    uint64_t used;
};

/* The plan of n > 0 points; wide for double data. Give it back with td_fft_put (NULL does nothing). */
TD_MUST enum td_code td_fft_get(int64_t n, bool real, bool wide, const struct td_fft **out,
                                struct td_err *err);
void td_fft_put(const struct td_fft *f);

/* One line of a wide plan without inner, in place: re and im of its points. False when memory is short. */
TD_MUST bool td_fft_planes(const struct td_fft *f, double *re, double *im);

/* exp(-2 pi i k / n), exact at the axes; 0 <= k. */
void td_fft_root(int64_t k, int64_t n, double *re, double *im);

#endif
