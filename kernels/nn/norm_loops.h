/* kernels/nn/norm_loops.h - the loops of batch normalisation, forwards and backwards.
 *
 * Channels-last tensors have inner == 1; of others each plane of a channel is walked by itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_NORM_LOOPS_H
#define TD_KERNELS_NN_NORM_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

struct td_batch_norm {
    int64_t outer, channels, inner;
    float epsilon;
    bool training;
}; /* x [outer][channels][inner] */

/* y = (x - mean) * a + b, in this order: of a channel without variance the difference is exactly 0. */
void td_norm_affine(const struct td_batch_norm *s, const float *x, const float *mean, const float *a,
                    const float *b, float *y);
/* sum[c] = the sum of (x - shift[c]) * (z - shift_z[c]) over all cells; z NULL stands for 1, the shifts may
 * be NULL. */
void td_norm_sums(const struct td_batch_norm *s, const float *x, const float *z, const double *shift,
                  const double *shift_z, double *sum);

/* With r = 1 / sqrt(variance + epsilon), n cells a channel and sums over them (TensorFlow's reference):
 *   doffset = sum(dy)   dscale = r sum(dy (x - mean))
 *   dx = scale r (dy - [training] (sum(dy) / n + (x - mean) r^2 sum(dy (x - mean)) / n))
 * Of no cells doffset and dscale are zeros, whatever the variance. */
struct td_norm_grad {
    const float *dy, *x, *scale, *mean, *variance;
    float *dx, *dscale, *doffset;
};
enum { TD_NORM_GRAD_WORK = 4 }; /* doubles a channel */
void td_norm_backward(const struct td_batch_norm *s, const struct td_norm_grad *g, double *work);

#endif
