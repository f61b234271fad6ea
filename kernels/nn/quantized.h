/* kernels/nn/quantized.h - levels of quantized numbers and the floats that they stand for.
 *
 *   value = min + (level - lowest) * (max - min) / steps     where 0.0 must fall on a level
 *
 * The ops on levels (those of TensorFlow 1's quantized graphs) turn one into the other in two ways, which
 * differ in their rounding: one number at a time in double (td_quantized_level, td_quantized_value), and
 * whole tensors in float (struct td_requantizer). Both are here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_NN_QUANTIZED_H
#define TD_KERNELS_NN_QUANTIZED_H

#include "core/graph/op.h"

/* Lowest and highest level of a quantized type. */
int64_t td_quantized_lowest(enum td_dtype t);
int64_t td_quantized_highest(enum td_dtype t);
/* Element i of a quantized tensor. */
static inline int32_t td_quantized_get(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_QINT8:
        return TD_DATA(t, const int8_t)[i];
    case TD_QUINT8:
        return TD_DATA(t, const uint8_t)[i];
    case TD_QINT16:
        return TD_DATA(t, const int16_t)[i];
    case TD_QUINT16:
        return TD_DATA(t, const uint16_t)[i];
    default:
        return TD_DATA(t, const int32_t)[i];
    }
}

/* The level of x in type t over [min, max], which may be none of t's. */
int64_t td_quantized_level(enum td_dtype t, float x, float min, float max);
/* The same, as the nearest that t has. */
int32_t td_quantized_level_in(enum td_dtype t, float x, float min, float max);
float td_quantized_value(enum td_dtype t, int64_t level, float min, float max);
/* What one level more adds. */
float td_quantized_step(enum td_dtype t, float min, float max);

/* Levels of one type and range to those of another. */
struct td_requantizer {
    float start, step;             /* value = start + level * step */
    float scale, shift, low, high; /* level = round(value * scale) - shift, within [low, high] */
};
struct td_requantizer td_requantizer_make(enum td_dtype from, float min, float max, enum td_dtype to,
                                          float to_min, float to_max);
int32_t td_requantizer_level(const struct td_requantizer *q, int32_t level);

/* Shape functions: inputs [from, to) must be scalars; outputs 1 and 2, the range, are. */
TD_MUST enum td_code td_quantized_infer_range(struct td_infer *c, int from, int to, struct td_err *err);
/* Output 0 is shaped like input 0, inputs from 1 on are scalars. */
td_infer_fn td_quantized_infer_same;
/* The scalar float that input i is. */
float td_quantized_float(const struct td_call *c, int i);
/* Outputs 1 and 2. */
TD_MUST enum td_code td_quantized_out_range(struct td_call *c, float min, float max, struct td_err *err);
/* INVALID_ARGUMENT unless input i (a lower bound) is below input i + 1. */
TD_MUST enum td_code td_quantized_ordered(const struct td_call *c, int i, struct td_err *err);

/* Range of the products of two types' levels, as levels of qint32. */
void td_quantized_product_range(const struct td_call *c, int first, float *min, float *max);
/* Input i as int32s from which the level of 0.0 is taken, whose range is inputs `range` and `range + 1`. */
TD_MUST enum td_code td_quantized_centred(struct td_call *c, int i, int range, int32_t **out,
                                          struct td_err *err);

#endif
