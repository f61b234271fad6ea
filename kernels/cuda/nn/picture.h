/* kernels/cuda/nn/picture.h - launchers of picture.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_PICTURE_H
#define TD_KERNELS_CUDA_NN_PICTURE_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y [pixels, 3], computed in float; by: a float on the device, for those that shift or scale. */
enum td_cuda_colour { TD_CUDA_TO_HSV, TD_CUDA_TO_RGB, TD_CUDA_SHIFT_HUE, TD_CUDA_SCALE_SATURATION };
int td_cuda_colours(enum td_cuda_type type, enum td_cuda_colour what, const void *x, const void *by, void *y,
                    int64_t pixels, struct td_cuda_stream *stream);

/* x, y [images, cells, channels], mean [images, channels], all float: y = (x - mean) * factor + mean, and
 * where least is not NULL within least and most. These and factor: a float on the device each. */
struct td_cuda_contrast {
    int64_t images, cells, channels;
    const void *x, *mean, *factor, *least, *most;
    void *y;
};
int td_cuda_contrast_of(const struct td_cuda_contrast *s, struct td_cuda_stream *stream);

/* Boxes [n, 4] in parts of an image, of images [.., rows, columns, channels] of which index [n] says, as
 * crops [n, crop_rows, crop_columns, channels]. What is outside of the image is `outside`. Crops are
 * float. */
struct td_cuda_crop {
    int64_t n, rows, columns, channels, crop_rows, crop_columns, images;
    const void *boxes, *index; /* float, int32 */
    float outside;
    bool nearest;
};
int td_cuda_crop_to(enum td_cuda_type type, const struct td_cuda_crop *s, const void *x, void *y,
                    struct td_cuda_stream *stream);
/* The gradients of the images, and of the boxes as if they were cut bilinearly. */
int td_cuda_crop_image(enum td_cuda_type type, const struct td_cuda_crop *s, const void *dy, void *dx,
                       struct td_cuda_stream *stream);
int td_cuda_crop_boxes(enum td_cuda_type type, const struct td_cuda_crop *s, const void *x, const void *dy,
                       void *dboxes, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
