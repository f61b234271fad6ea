/* kernels/cuda/base/cells.c - layouts and windows of the engine's as steps for kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cells.h"

#include "kernels/cuda/base/cuda_call.h"

struct td_cuda_cells td_cuda_cells_of(const struct td_shape *s, const struct td_data_layout *layout)
{
    int64_t step[TD_MAX_RANK];
    td_cuda_row_major(s, step);
    struct td_cuda_cells c = {.batch = step[0], .channel = step[layout->channel]};
    for (int a = 0; a < layout->n_spatial; a++) {
        c.axis[3 - layout->n_spatial + a] = step[layout->spatial + a];
    }
    return c;
}

struct td_cuda_axis td_cuda_axis_of(const struct td_window *w)
{
    return (struct td_cuda_axis){.in = w->in,
                                 .k = w->k,
                                 .stride = w->stride,
                                 .dilation = w->dilation,
                                 .out = w->out,
                                 .before = w->before};
}
