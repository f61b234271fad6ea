/* kernels/cuda/nn/suppress.h - launchers of suppress.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_SUPPRESS_H
#define TD_KERNELS_CUDA_NN_SUPPRESS_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of n boxes, each with the boxes in the order of their scores. Row r is class r % classes of image r /
 * classes, whose box i is at boxes + (image * n * each + i * each + class % each) * 4: `each` is the boxes
 * of a place, 1 or classes. */
struct td_cuda_suppress {
    enum td_cuda_type type; /* of boxes and scores: float or half */
    const void *boxes;
    const float *overlaps; /* [n, n], one row: instead of boxes; NULL: there are boxes */
    const void *sorted;    /* [rows, n]: scores, the greatest first, behind NaN */
    const int32_t *order;  /* [rows, n]: of which box each is */
    int64_t rows, n, classes, each;
    float most, least; /* boxes overlap more: the later one goes; scores that are no more: they go */
    int64_t limit;     /* of a row */
    int64_t padded;    /* entries of a row of kept and scores; those behind what is kept are 0 and `rest` */
    float rest;
    int32_t *kept;   /* [rows, padded] */
    void *scores;    /* [rows, padded]; NULL: nobody asks */
    int32_t *valid;  /* [rows]: how many are kept */
    int64_t *counts; /* [rows]: the same; NULL: nobody asks */
};
int td_cuda_suppress_boxes(const struct td_cuda_suppress *s, struct td_cuda_stream *stream);

/* scores [images, n, classes] -> rows [images, classes, n] */
int td_cuda_suppress_rows(const float *scores, int64_t images, int64_t n, int64_t classes, float *rows,
                          struct td_cuda_stream *stream);

/* What is left of an image's classes, the best `size` of all: `best` and `which` [images, size] are scores in
 * falling order, -infinity where there are no more, and their places among the image's classes * padded. */
struct td_cuda_suppressed {
    const float *boxes, *best;
    const int32_t *which, *kept;
    int64_t images, n, classes, each, padded;
    int64_t taken, size; /* entries of an image in best and which; in what follows, the rest being zeros */
    bool clips;          /* corners to [0, 1] */
    float *out_boxes, *out_scores, *out_classes;
    int32_t *valid; /* [images] */
};
int td_cuda_suppress_tell(const struct td_cuda_suppressed *s, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
