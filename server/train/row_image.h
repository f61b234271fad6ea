/* server/train/row_image.h - pictures in training files: JPEG or PNG bytes where an input takes numbers of
 * [height, width, channels].
 *
 * As TensorFlow's DecodeImage gives them: uint8 from 0 to 255, floats from 0 to 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_ROW_IMAGE_H
#define TD_SERVER_TRAIN_ROW_IMAGE_H

#include "proto/json/json_value.h"

/* Appends the picture's numbers to g, whose dtype is uint8 or a float; *shape is [height, width, channels].
 * channels: wanted, -1: as in the file. */
TD_MUST enum td_code td_row_image_decode(const void *bytes, size_t n, int64_t channels, struct td_gather *g,
                                         struct td_shape *shape, struct td_err *err);

#endif
