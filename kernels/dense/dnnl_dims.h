/* kernels/dense/dnnl_dims.h - a convolution's sizes as oneDNN wants them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_DIMS_H
#define TD_KERNELS_CPU_DNNL_DIMS_H

#include <dnnl.h>

#include "kernels/dense/conv_loops.h"

/* Axes that oneDNN sees: the last two (or all three when the first is really used). */
struct td_dnnl_dims {
    int n_axes;
    dnnl_dims_t x, y, w, w_strides, strides, dilates, before, after;
    int w_rank;
};

void td_dnnl_dims_of(const struct td_conv *g, struct td_dnnl_dims *s);

#endif
