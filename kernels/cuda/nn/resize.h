/* kernels/cuda/nn/resize.h - launchers of resize.cu; each returns CUDA's error number.
 *
 *   x [images, rows.in, columns.in, channels]  ->  y [images, rows.out, columns.out, channels]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_RESIZE_H
#define TD_KERNELS_CUDA_NN_RESIZE_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an output reads the cells of an axis: two of them, four, all that it covers, or those that a function
 * of the distance weighs (td_cuda_kernel). */
enum td_cuda_taps { TD_CUDA_LINEAR, TD_CUDA_CUBIC, TD_CUDA_AREA, TD_CUDA_SAMPLED };
enum td_cuda_kernel {
    TD_CUDA_LANCZOS,
    TD_CUDA_GAUSSIAN,
    TD_CUDA_BOX,
    TD_CUDA_TRIANGLE,
    TD_CUDA_KEYS,
    TD_CUDA_MITCHELL
};

/* SAMPLED: output o lies at (o + 0.5) * scale + shift, and reaches radius * reach cells from there. Of others
 * it is o * scale, or with half (o + 0.5) * scale - 0.5; align: the nearest is found by rounding. */
struct td_cuda_resize_axis {
    int64_t in, out, most; /* cells that an output reads */
    float scale, shift, reach, radius;
    bool half, align;
};
struct td_cuda_resize {
    enum td_cuda_taps taps;
    enum td_cuda_kernel kernel;
    int64_t images, channels;
    struct td_cuda_resize_axis axis[2];
    double scale; /* of the result */
};

/* Bytes of tables that the others have for work. */
size_t td_cuda_resize_work(const struct td_cuda_resize *s);
/* y is float. AREA is summed in double. */
int td_cuda_resize_to(enum td_cuda_type type, const struct td_cuda_resize *s, const void *x, void *y,
                      void *work, struct td_cuda_stream *stream);
/* The gradient of x, of this type, from that of y, which is float; of LINEAR, CUBIC and SAMPLED. */
int td_cuda_resize_grad(enum td_cuda_type type, const struct td_cuda_resize *s, const void *dy, void *dx,
                        void *work, struct td_cuda_stream *stream);

/* The nearest cell, elements being so many bytes; and the gradient of x, of the same type as that of y. */
int td_cuda_nearest(size_t bytes, const struct td_cuda_resize *s, const void *x, void *y,
                    struct td_cuda_stream *stream);
int td_cuda_nearest_grad(enum td_cuda_type type, const struct td_cuda_resize *s, const void *dy, void *dx,
                         struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
