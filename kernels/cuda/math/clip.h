/* kernels/cuda/math/clip.h - launchers of clip.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_CLIP_H
#define TD_KERNELS_CUDA_MATH_CLIP_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = max(min(x[i], high), low); a bound that is NaN does not bound, a NaN in x stays. low and high have
 * an element for each of x's, or one (step 0). */
struct td_cuda_clip {
    const void *x, *low, *high;
    void *y;
    int64_t n;
    int low_step, high_step;
};
int td_cuda_clip_of(enum td_cuda_type type, const struct td_cuda_clip *s, struct td_cuda_stream *stream);

/* y[i] = |a[i] - b[i]| < tolerance, of floats or doubles. */
int td_cuda_near(enum td_cuda_type type, const void *a, const void *b, bool *y, int64_t n, float tolerance,
                 struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
