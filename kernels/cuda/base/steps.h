/* kernels/cuda/base/steps.h - how the elements of one tensor are read from one or two others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_STEPS_H
#define TD_KERNELS_CUDA_BASE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dims innermost first, steps in elements, 0 where an operand is repeated. */
enum { TD_CUDA_DIMS = 8 };
struct td_cuda_steps {
    int rank;
    int64_t dim[TD_CUDA_DIMS], a[TD_CUDA_DIMS], b[TD_CUDA_DIMS];
};

/* One dim more, outside of what is there (*s is zeroed before the first). Neighbours that both operands step
 * through alike become one. False: more dims than a kernel takes. */
bool td_cuda_steps_add(struct td_cuda_steps *s, int64_t dim, int64_t a, int64_t b);

#ifdef __cplusplus
}
#endif
#endif
