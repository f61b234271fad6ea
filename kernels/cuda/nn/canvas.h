/* kernels/cuda/nn/canvas.h - launchers of canvas.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_CANVAS_H
#define TD_KERNELS_CUDA_NN_CANVAS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y [images, rows, columns, channels], of float or half, and on each the outlines of `boxes` boxes
 * [images, boxes, 4], in parts of the image, a later one over an earlier one. colours [n_colours, width],
 * taken in turn; none: ten of our own, or white on one channel. */
struct td_cuda_drawing {
    int64_t images, rows, columns, channels, boxes, n_colours, width;
    const void *x, *box, *colour; /* box, colour: floats */
    void *y;
};
int td_cuda_draw(enum td_cuda_type type, const struct td_cuda_drawing *s, struct td_cuda_stream *stream);

/* y [images, out_rows, out_columns, channels] of x [images, rows, columns, channels]: cell (i, j) shows what
 * is at ((a j + b i + c) / w, (d j + e i + f) / w), w = g j + h i + 1, for transforms [1 or images, 8] a .. h
 * of floats. What is outside comes from the side that `fill` says, or is `outside`. */
enum td_cuda_fill_mode {
    TD_CUDA_FILL_CONSTANT,
    TD_CUDA_FILL_REFLECT,
    TD_CUDA_FILL_WRAP,
    TD_CUDA_FILL_NEAREST
};
struct td_cuda_projection {
    int64_t images, rows, columns, channels, out_rows, out_columns, transforms;
    const void *x, *transform;
    void *y;
    enum td_cuda_fill_mode fill;
    bool nearest;
    double outside;
};
int td_cuda_project(enum td_cuda_type type, const struct td_cuda_projection *s,
                    struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
