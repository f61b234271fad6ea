/* kernels/cuda/math/scan.h - launcher of scan.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_SCAN_H
#define TD_KERNELS_CUDA_MATH_SCAN_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_scan { TD_CUDA_RUNNING_SUM, TD_CUDA_RUNNING_PRODUCT, TD_CUDA_RUNNING_LOGSUM };

/* x, y [outer, n, inner]: y[o, k, i] folds x[o, 0..k, i], or ..k-1 (exclusive), or from the other end
 * (reverse), one by one, each step rounded to the type. */
struct td_cuda_running {
    const void *x;
    void *y;
    int64_t outer, n, inner;
    bool exclusive, reverse;
};
int td_cuda_scan_of(enum td_cuda_scan op, enum td_cuda_type type, const struct td_cuda_running *s,
                    struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
