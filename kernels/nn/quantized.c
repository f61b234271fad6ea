/* kernels/nn/quantized.c - levels and values, one at a time and by the tensor, each rounded as TensorFlow
 * rounds it.
 *
 * One number goes through double: the range is spread over all levels of the type, and minimum and value are
 * rounded apart. A whole tensor goes through float with start, step, scale and shift worked out once (struct
 * td_requantizer). The two differ in the last level; which op uses which is TensorFlow's doing, and answers
 * must agree with it bit by bit. A double that no int64 holds becomes the lowest one, as the processor
 * converts it; sums of levels wrap.
 *
 * Holds no state. Does not: multiply (kernels/nn/quantized_layer.c), choose ranges
 * (kernels/nn/quantized_range.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/quantized.h"

#include <math.h>

#include "core/graph/graph.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ types */

int64_t td_quantized_lowest(enum td_dtype t)
{
    switch (t) {
    case TD_QINT8:
        return INT8_MIN;
    case TD_QINT16:
        return INT16_MIN;
    case TD_QINT32:
        return INT32_MIN;
    default:
        return 0;
    }
}

int64_t td_quantized_highest(enum td_dtype t)
{
    switch (t) {
    case TD_QINT8:
        return INT8_MAX;
    case TD_QUINT8:
        return UINT8_MAX;
    case TD_QINT16:
        return INT16_MAX;
    case TD_QUINT16:
        return UINT16_MAX;
    default:
        return INT32_MAX;
    }
}

static double steps_of(enum td_dtype t)
{
    return (double)(td_quantized_highest(t) - td_quantized_lowest(t)) + 1;
}

/* ------------------------------------------------------------------ one number */

/* A double outside of int64 becomes its lowest value, as x86 converts. */
static int64_t to_int64(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

int64_t td_quantized_level(enum td_dtype t, float x, float min, float max)
{
    const int64_t lowest = td_quantized_lowest(t);
    if (min == max) {
        return lowest;
    }
    const double steps = steps_of(t), scale = steps / ((double)(max - min) * (steps / (steps - 1)));
    const int64_t level = to_int64(round((double)x * scale) - round((double)min * scale));
    return (int64_t)((uint64_t)level + (uint64_t)lowest);
}

int32_t td_quantized_level_in(enum td_dtype t, float x, float min, float max)
{
    const int64_t low = td_quantized_lowest(t), high = td_quantized_highest(t);
    const int64_t level = td_quantized_level(t, x, min, max);
    return (int32_t)(level < low ? low : level > high ? high : level);
}

float td_quantized_value(enum td_dtype t, int64_t level, float min, float max)
{
    if (min == max) {
        return min;
    }
    const double steps = steps_of(t), step = (double)(max - min) * (steps / (steps - 1)) / steps;
    const double start = (double)(roundf(min / (float)step) * (float)step);
    return (float)(start + (double)(level - td_quantized_lowest(t)) * step);
}

float td_quantized_step(enum td_dtype t, float min, float max)
{
    return (max - min) / (float)(td_quantized_highest(t) - td_quantized_lowest(t));
}

/* ------------------------------------------------------------------ tensors */

struct td_requantizer td_requantizer_make(enum td_dtype from, float min, float max, enum td_dtype to,
                                          float to_min, float to_max)
{
    const float step = (float)((double)(max - min) / (steps_of(from) - 1));
    const float start = min == max ? min : roundf(min / step) * step;
    const float scale = to_min == to_max ? 0 : (float)((steps_of(to) - 1) / (double)(to_max - to_min));
    const float high = (float)td_quantized_highest(to);
    return (struct td_requantizer){.start = start - (float)td_quantized_lowest(from) * step,
                                   .step = step,
                                   .scale = scale,
                                   .shift = roundf(to_min * scale) - (float)td_quantized_lowest(to),
                                   .low = (float)td_quantized_lowest(to),
                                   .high = high > 0x1.fffffep30f ? 0x1.fffffep30f : high};
}

int32_t td_requantizer_level(const struct td_requantizer *q, int32_t level)
{
    float v = roundf((q->start + (float)level * q->step) * q->scale) - q->shift;
    v = v < q->low ? q->low : v;
    v = v > q->high ? q->high : v;
    return v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : INT32_MIN;
}

/* ------------------------------------------------------------------ what the ops share */

enum td_code td_quantized_infer_range(struct td_infer *c, int from, int to, struct td_err *err)
{
    for (int i = from; i < to; i++) {
        TD_TRY(td_infer_rank(c, i, 0, err));
    }
    c->out[1] = c->out[2] = td_shape_scalar();
    return TD_OK;
}

enum td_code td_quantized_infer_same(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_quantized_infer_range(c, 1, c->n_in, err));
    return td_infer_same(c, err);
}

float td_quantized_float(const struct td_call *c, int i)
{
    return TD_DATA(c->in[i], const float)[0];
}

enum td_code td_quantized_out_range(struct td_call *c, float min, float max, struct td_err *err)
{
    struct td_tensor *out_min, *out_max;
    TD_TRY(td_out(c, 1, NULL, &out_min, err));
    TD_TRY(td_out(c, 2, NULL, &out_max, err));
    TD_DATA(out_min, float)[0] = min;
    TD_DATA(out_max, float)[0] = max;
    return TD_OK;
}

enum td_code td_quantized_ordered(const struct td_call *c, int i, struct td_err *err)
{
    const float min = td_quantized_float(c, i), max = td_quantized_float(c, i + 1);
    TD_FAIL_IF(!(max > min), err, INVALID_ARGUMENT,
               "%s: input %d is the most of a range and must be larger than the least, input %d: %g and %g",
               TD_NODE_STR(c->node), i + 1, i, (double)max, (double)min);
    return TD_OK;
}

void td_quantized_product_range(const struct td_call *c, int first, float *min, float *max)
{
    const float a =
        td_quantized_step(c->in[0]->dtype, td_quantized_float(c, first), td_quantized_float(c, first + 1));
    const float b = td_quantized_step(c->in[1]->dtype, td_quantized_float(c, first + 2),
                                      td_quantized_float(c, first + 3));
    *min = a * b * (float)INT32_MIN;
    *max = a * b * (float)INT32_MAX;
}

enum td_code td_quantized_centred(struct td_call *c, int i, int range, int32_t **out, struct td_err *err)
{
    const struct td_tensor *x = c->in[i];
    const int64_t n = td_tensor_count(x);
    const uint32_t zero = (uint32_t)(uint64_t)td_quantized_level(x->dtype, 0, td_quantized_float(c, range),
                                                                 td_quantized_float(c, range + 1));
    void *room;
    TD_TRY(td_scratch(c, (size_t)n * sizeof **out, &room, err));
    *out = room;
    for (int64_t k = 0; k < n; k++) {
        (*out)[k] = (int32_t)((uint32_t)td_quantized_get(x, k) - zero);
    }
    return TD_OK;
}
