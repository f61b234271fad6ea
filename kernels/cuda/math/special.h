/* kernels/cuda/math/special.h - launchers of special.cu. Each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_SPECIAL_H
#define TD_KERNELS_CUDA_MATH_SPECIAL_H

#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_special_one {
#define ONE(op, types, f32, f64) TD_CUDA_##op,
#include "kernels/cuda/math/special.def"
    TD_CUDA_SPECIAL_OF_ONE
};
enum td_cuda_special_two {
#define TWO(op, f32, f64) TD_CUDA_##op,
#include "kernels/cuda/math/special.def"
    TD_CUDA_SPECIAL_OF_TWO
};

/* y[i] = op(x[i]) */
int td_cuda_special_of_one(enum td_cuda_special_one op, enum td_cuda_type type, const void *x, void *y,
                           int64_t n, struct td_cuda_stream *stream);
/* y[i] = op(a[..], b[..]) */
int td_cuda_special_of_two(enum td_cuda_special_two op, enum td_cuda_type type,
                           const struct td_cuda_steps *steps, const void *a, const void *b, void *y,
                           int64_t n, struct td_cuda_stream *stream);
/* y[i] = the regularized incomplete beta function of a, b, x, each of which has an element for each of y's,
 * or one (step 0). */
struct td_cuda_betainc {
    const void *in[3];
    int step[3];
    void *y;
    int64_t n;
};
int td_cuda_betainc_of(enum td_cuda_type type, const struct td_cuda_betainc *s,
                       struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
