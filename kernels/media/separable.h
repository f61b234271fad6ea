/* kernels/media/separable.h - separable resampling of images: every output row is a weighted sum of source
 * rows, every cell of it a weighted sum of that row's cells.
 *
 *     images [N,H,W,C]   ->   [N,H',W',C]
 *
 * Which source rows and columns, and with what weights, are tables made once a call. A row is summed down
 * first, as TensorFlow does it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_SEPARABLE_H
#define TD_KERNELS_MEDIA_SEPARABLE_H

#include "core/graph/graph.h"

/* Output o of one axis reads cells at[o * most + k] with weight[o * most + k], k < count[o] <= most. */
struct td_separable_axis {
    int64_t in, out, most;
    int64_t *at, *count;
    float *weight;
};

struct td_separable {
    struct td_separable_axis row, col;
    int64_t images, channels;
    double scale; /* of the result */
};

/* Tables in scratch for out outputs of at most `most` taps; they are not filled in. */
TD_MUST enum td_code td_separable_axis_new(struct td_call *c, int64_t in, int64_t out, int64_t most,
                                           struct td_separable_axis *a, struct td_err *err);

/* With sums in float, and in double. */
TD_MUST enum td_code td_separable_float(struct td_call *c, const struct td_separable *b, const float *x,
                                        float *y, struct td_err *err);
TD_MUST enum td_code td_separable_double(struct td_call *c, const struct td_separable *b, const float *x,
                                         float *y, struct td_err *err);

/* Two taps an output (both always counted, weight[1] the second's), interpolated as a + (b - a) * weight
 * along the row first: in TensorFlow's order of operations, equal to the last bit on constant images. */
TD_MUST enum td_code td_separable_lerp(struct td_call *c, const struct td_separable *b, const float *x,
                                       float *y, struct td_err *err);

#endif
