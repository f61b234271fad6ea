/* kernels/cuda/math/classes.h - launcher of classes.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MATH_CLASSES_H
#define TD_KERNELS_CUDA_MATH_CLASSES_H

#include "kernels/cuda/base/runtime.h"
#include "kernels/math/random_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [rows, draws] = classes drawn with the probabilities softmax(logits [rows, n]), n > 0, two words a draw;
 * n where no class has a weight. y: int64 (wide) or int32; sums: room for rows * n doubles. */
struct td_cuda_classes {
    const void *logits;
    void *y;
    double *sums;
    int64_t rows, n, draws;
    bool wide;
    struct td_philox g;
};
int td_cuda_draw_classes(enum td_cuda_type type, const struct td_cuda_classes *s,
                         struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
