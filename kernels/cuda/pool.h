/* kernels/cuda/pool.h - launchers of pool.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_POOL_H
#define TD_KERNELS_CUDA_POOL_H

#include "kernels/cuda/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [batch, in.., channels]  y [batch, out.., channels], in the order that the cells say. Cells outside of
 * the input do not count. */
struct td_cuda_pool {
    int64_t batch, channels;
    struct td_cuda_axis axis[3];
    struct td_cuda_cells x, y;
};
/* The greatest, from the least finite number on, or the average of each window. */
int td_cuda_pool_max(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                     struct td_cuda_stream *stream);
int td_cuda_pool_average(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                         struct td_cuda_stream *stream);
/* The gradients of x. A maximum's goes to the first cell of its window that has it. */
int td_cuda_pool_max_grad(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, const void *y,
                          const void *dy, void *dx, struct td_cuda_stream *stream);
int td_cuda_pool_average_grad(enum td_cuda_type type, const struct td_cuda_pool *s, const void *dy, void *dx,
                              struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
