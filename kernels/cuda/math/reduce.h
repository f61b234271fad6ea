/* kernels/cuda/math/reduce.h - launcher of reduce.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_REDUCE_H
#define TD_KERNELS_CUDA_MATH_REDUCE_H

#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_reduce {
    TD_CUDA_SUM,
    TD_CUDA_MEAN,
    TD_CUDA_PROD,
    TD_CUDA_MAX,
    TD_CUDA_MIN,
    TD_CUDA_NORM,         /* the root of the sum of squares */
    TD_CUDA_HALF_SQUARES, /* half the sum of squares */
    TD_CUDA_ALL_OF,
    TD_CUDA_ANY_OF
};

/* An input's dims, those that stay and those that are folded; of the steps `a` counts. */
struct td_cuda_axes {
    struct td_cuda_steps kept, folded;
    int64_t n_kept, n_folded; /* elements: of the output; that make one of them */
    bool rows;                /* the innermost dim is folded */
};
/* y[i] = op over the n_folded elements that belong to i. Sums of floats are made in double, of integers in 64
 * bits that wrap. */
int td_cuda_reduce(enum td_cuda_reduce op, enum td_cuda_type type, const struct td_cuda_axes *axes,
                   const void *x, void *y, struct td_cuda_stream *stream);
/* The same for the integers of 8 and 16 bits, and those without a sign. */
int td_cuda_reduce_rare(enum td_cuda_reduce op, enum td_cuda_type type, const struct td_cuda_axes *axes,
                        const void *x, void *y, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
