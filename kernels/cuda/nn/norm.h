/* kernels/cuda/nn/norm.h - launchers of norm.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_NORM_H
#define TD_KERNELS_CUDA_NN_NORM_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y [outer, channels, inner]; the others [channels], floats whatever the type:
 * y = (x - mean) * scale / sqrt(variance + epsilon) + offset. */
struct td_cuda_norm {
    int64_t outer, channels, inner;
    float epsilon;
    const void *scale, *offset, *mean, *variance;
};
int td_cuda_norm_given(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x, void *y,
                       struct td_cuda_stream *stream);

/* The same where the others are of x's type, too; scale NULL: 1. */
int td_cuda_norm_global(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x, void *y,
                        struct td_cuda_stream *stream);

/* What sums over a channel's cells need, which are at least one: bytes. */
size_t td_cuda_norm_work(const struct td_cuda_norm *s);

/* By the statistics of the batch, which go to saved_mean and saved_variance; running_mean and
 * running_variance (its sum by a cell less) become old + factor * (new - old) of what s has, or new where
 * factor is 1: s is not read then. */
struct td_cuda_norm_out {
    void *y, *running_mean, *running_variance, *saved_mean, *saved_variance;
    float factor;
};
int td_cuda_norm_batch(enum td_cuda_type type, const struct td_cuda_norm *s, const void *x,
                       const struct td_cuda_norm_out *out, void *work, struct td_cuda_stream *stream);

/* With r = 1 / sqrt(variance + epsilon), n cells a channel and sums over them:
 *   doffset = sum(dy)   dscale = r sum(dy (x - mean))
 *   dx = scale r (dy - [training] (sum(dy) / n + (x - mean) r^2 sum(dy (x - mean)) / n)) */
struct td_cuda_norm_grad {
    const void *dy, *x;
    void *dx, *dscale, *doffset;
    bool training;
};
int td_cuda_norm_backward(enum td_cuda_type type, const struct td_cuda_norm *s,
                          const struct td_cuda_norm_grad *g, void *work, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
