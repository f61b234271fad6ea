/* kernels/nn/norm_loops.c - batch normalisation channel by channel, rows of channels at a time.
 *
 * Where channels are the last axis a loop runs along them, with a sum, a factor and a shift for each in
 * arrays, which is vector code; else along the cells of one channel's plane. Sums are of doubles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "kernels/nn/norm_loops.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/vecmath.h"

/* y = (x - mean) * a + b, in this order: of a channel without variance the difference is exactly 0. */
TD_CLONES static void affine_loop(const struct td_batch_norm *s, const float *x, const float *restrict mean,
                                  const float *restrict a, const float *restrict b, float *y)
{
    /* the compiler cannot know that y does not hold *s */
    const int64_t channels = s->channels, inner = s->inner, outer = s->outer;
    for (int64_t o = 0; o < outer && inner == 1 && !td_work_spent(channels);
         o++, x += channels, y += channels) {
        TD_INDEPENDENT
        for (int64_t j = 0; j < channels; j++) {
            y[j] = (x[j] - mean[j]) * a[j] + b[j];
        }
    }
    for (int64_t o = 0; o < outer * channels && inner != 1 && !td_work_spent(inner);
         o++, x += inner, y += inner) {
        float m = a[o % channels], k = b[o % channels], mid = mean[o % channels];
        TD_INDEPENDENT
        for (int64_t i = 0; i < inner; i++) {
            y[i] = (x[i] - mid) * m + k;
        }
    }
}

/* td_norm_sums where channels are the last axis, and either z and both shifts are given or none. */
TD_CLONES static void channel_rows(const struct td_batch_norm *s, const float *x, const float *z,
                                   const double *shift, const double *shift_z, double *restrict sum)
{
    int64_t n = s->channels;
    for (int64_t o = 0; o < s->outer && !td_work_spent(n); o++) {
        const float *p = x + o * n;
        for (int64_t j = 0; j < n && z == NULL; j++) {
            sum[j] += p[j];
        }
        const float *q = z != NULL ? z + o * n : NULL;
        for (int64_t j = 0; j < n && z != NULL; j++) {
            sum[j] += (p[j] - shift[j]) * (q[j] - shift_z[j]);
        }
    }
}

/* sum[c] += (x - shift[c]) * (z - shift_z[c]) over all cells; z NULL stands for 1, the shifts may be NULL. */
void td_norm_sums(const struct td_batch_norm *s, const float *x, const float *z, const double *shift,
                  const double *shift_z, double *sum)
{
    memset(sum, 0, (size_t)s->channels * sizeof *sum);
    if (s->inner == 1 && (shift != NULL) == (z != NULL) && (shift_z != NULL) == (z != NULL)) {
        channel_rows(s, x, z, shift, shift_z, sum);
        return;
    }
    for (int64_t o = 0; o < s->outer && !td_work_spent(s->channels * s->inner); o++) {
        for (int64_t j = 0; j < s->channels; j++) {
            double dx = shift != NULL ? shift[j] : 0, dz = shift_z != NULL ? shift_z[j] : 0, part = 0;
            const float *p = x + (o * s->channels + j) * s->inner;
            const float *q = z != NULL ? z + (o * s->channels + j) * s->inner : NULL;
            for (int64_t i = 0; i < s->inner; i++) {
                part += (p[i] - dx) * (q != NULL ? q[i] - dz : 1);
            }
            sum[j] += part;
        }
    }
}

void td_norm_affine(const struct td_batch_norm *s, const float *x, const float *mean, const float *a,
                    const float *b, float *y)
{
    affine_loop(s, x, mean, a, b, y);
}

/* ------------------------------------------------------------------ backwards */

/* sum[c] += dy, and sum_x[c] += dy * (x - mean[c]), where channels are the last axis. */
TD_CLONES static void gradient_rows(const struct td_batch_norm *s, const struct td_norm_grad *g,
                                    double *restrict sum, double *restrict sum_x)
{
    const int64_t n = s->channels, outer = s->outer;
    const float *restrict mean = g->mean, *restrict dy = g->dy, *restrict x = g->x;
    for (int64_t o = 0; o < outer && !td_work_spent(n); o++, dy += n, x += n) {
        TD_INDEPENDENT
        for (int64_t j = 0; j < n; j++) {
            sum[j] += (double)dy[j];
            sum_x[j] += (double)(dy[j] * (x[j] - mean[j]));
        }
    }
}

static void gradient_sums(const struct td_batch_norm *s, const struct td_norm_grad *g, double *sum,
                          double *sum_x)
{
    memset(sum, 0, (size_t)s->channels * sizeof *sum);
    memset(sum_x, 0, (size_t)s->channels * sizeof *sum_x);
    if (s->inner == 1) {
        gradient_rows(s, g, sum, sum_x);
        return;
    }
    for (int64_t k = 0; k < s->outer * s->channels && !td_work_spent(s->inner); k++) {
        const int64_t j = k % s->channels;
        double part = 0, part_x = 0;
        for (int64_t i = k * s->inner; i < (k + 1) * s->inner; i++) {
            part += (double)g->dy[i];
            part_x += (double)g->dy[i] * ((double)g->x[i] - (double)g->mean[j]);
        }
        sum[j] += part;
        sum_x[j] += part_x;
    }
}

/* dx = k0 * dy + k1 * (x - mean) + k2, the k's a channel. */
TD_CLONES static void combine(const struct td_batch_norm *s, const struct td_norm_grad *g,
                              const float *restrict k0, const float *restrict k1, const float *restrict k2)
{
    const int64_t channels = s->channels, inner = s->inner, outer = s->outer;
    const float *restrict mean = g->mean, *dy = g->dy, *x = g->x;
    float *dx = g->dx;
    for (int64_t o = 0; o < outer && inner == 1 && !td_work_spent(channels);
         o++, dy += channels, x += channels, dx += channels) {
        TD_INDEPENDENT
        for (int64_t j = 0; j < channels; j++) {
            dx[j] = k0[j] * dy[j] + k1[j] * (x[j] - mean[j]) + k2[j];
        }
    }
    for (int64_t o = 0; o < outer * channels && inner != 1 && !td_work_spent(inner);
         o++, dy += inner, x += inner, dx += inner) {
        const int64_t j = o % channels;
        const float a = k0[j], b = k1[j], shift = k2[j], mid = mean[j];
        TD_INDEPENDENT
        for (int64_t i = 0; i < inner; i++) {
            dx[i] = a * dy[i] + b * (x[i] - mid) + shift;
        }
    }
}

void td_norm_backward(const struct td_batch_norm *s, const struct td_norm_grad *g, double *work)
{
    double *sum = work, *sum_x = work + s->channels;
    float *k0 = (float *)(sum_x + s->channels), *k1 = k0 + s->channels, *k2 = k1 + s->channels;
    const double n = (double)(s->outer * s->inner);
    if (n == 0) { /* the mean and variance of no cells are NaN, which would make dscale NaN as well */
        memset(g->doffset, 0, (size_t)s->channels * sizeof *g->doffset);
        memset(g->dscale, 0, (size_t)s->channels * sizeof *g->dscale);
        return;
    }
    gradient_sums(s, g, sum, sum_x);
    for (int64_t j = 0; j < s->channels; j++) {
        const double r = 1 / sqrt((double)g->variance[j] + s->epsilon);
        g->doffset[j] = (float)sum[j];
        g->dscale[j] = (float)(sum_x[j] * r);
        k0[j] = (float)(g->scale[j] * r);
        k1[j] = s->training ? (float)(-g->scale[j] * r * r * r * sum_x[j] / n) : 0;
        k2[j] = s->training ? (float)(-g->scale[j] * r * sum[j] / n) : 0;
    }
    combine(s, g, k0, k1, k2);
}
