/* kernels/cuda/base/cells.h - where the cells of an image tensor lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_CELLS_H
#define TD_KERNELS_CUDA_BASE_CELLS_H

#include "kernels/cpu/window.h"
#include "kernels/cuda/base/conv_sizes.h"

/* Of a tensor of this shape and layout. */
struct td_cuda_cells td_cuda_cells_of(const struct td_shape *s, const struct td_data_layout *layout);
/* An axis of windows as kernels take it. */
struct td_cuda_axis td_cuda_axis_of(const struct td_window *w);

#endif
