/* kernels/cuda/array/select.h - launcher of select.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_SELECT_H
#define TD_KERNELS_CUDA_ARRAY_SELECT_H

#include <stddef.h>

#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = condition ? t : e for n elements of 1, 2, 4, 8 or 16 bytes; `first` steps through condition and t,
 * `second` through e (its a). */
struct td_cuda_choice {
    struct td_cuda_steps first, second;
    const void *condition, *t, *e;
    void *y;
    int64_t n;
};
int td_cuda_select(size_t bytes, const struct td_cuda_choice *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
