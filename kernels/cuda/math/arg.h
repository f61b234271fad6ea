/* kernels/cuda/math/arg.h - launcher of arg.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_ARG_H
#define TD_KERNELS_CUDA_MATH_ARG_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [outer, n, inner], n > 0: y[o, i] = where x[o, .., i] is greatest, or least; the first of equals, and
 * never at a NaN where there is a number. y has elements of `bytes` bytes: 2, 4 or 8. */
struct td_cuda_arg {
    const void *x;
    void *y;
    int64_t outer, n, inner;
    int bytes;
    bool least;
};
int td_cuda_arg_of(enum td_cuda_type type, const struct td_cuda_arg *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
