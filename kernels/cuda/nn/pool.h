/* kernels/cuda/nn/pool.h - launchers of pool.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_POOL_H
#define TD_KERNELS_CUDA_NN_POOL_H

#include "kernels/cuda/nn/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [batch, in.., channels]  y [batch, out.., channels], in the order that the cells say. Cells outside of
 * the input do not count. */
struct td_cuda_pool {
    int64_t batch, channels;
    struct td_cuda_axis axis[3]; /* of dilation 1 */
    struct td_cuda_cells x, y;
    bool volume; /* it is a pool over three axes */
};

/* The greatest of each window, from the least finite number on; in a volume from -infinity, unless the window
 * reaches over the edge. */
int td_cuda_pool_max(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                     struct td_cuda_stream *stream);
/* The average; half and bfloat16 are added in their own type, but for volumes. */
int td_cuda_pool_average(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                         struct td_cuda_stream *stream);

/* The first place of the greatest of each window: the value to y, its number in x [batch, in.., channels]
 * less `image` times that of its image to at (INT32 or INT64); -1 less that where a window is empty. */
int td_cuda_pool_argmax(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, void *y,
                        enum td_cuda_type index, void *at, int64_t image, struct td_cuda_stream *stream);

/* The gradients of x. A maximum's goes to the first cell of its window that has it; in a volume to all that
 * are as near to it as 1e-5. work: an int32 for each of y; a volume has no need of it. */
struct td_cuda_pool_grad {
    const void *x, *y, *dy;
    void *dx, *work;
};
int td_cuda_pool_max_grad(enum td_cuda_type type, const struct td_cuda_pool *s,
                          const struct td_cuda_pool_grad *g, struct td_cuda_stream *stream);
int td_cuda_pool_average_grad(enum td_cuda_type type, const struct td_cuda_pool *s, const void *dy, void *dx,
                              struct td_cuda_stream *stream);
/* The gradient of max_grad by dy: of dx the cell that is the first in the window to have the value of y, or
 * 0. The result is `to`. */
int td_cuda_pool_pick(enum td_cuda_type type, const struct td_cuda_pool *s, const void *x, const void *y,
                      const void *dx, void *to, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
