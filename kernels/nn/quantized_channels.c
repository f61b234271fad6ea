/* kernels/nn/quantized_channels.c - 32-bit levels of images, one range a channel, as Intel's int8 graphs
 * have them.
 *
 *   RequantizationRangePerChannel  input [N,H,W,C], ranges [C]  ->  the range that the levels reach, at most
 *                                  clip_value_max
 *   RequantizePerChannel           the same levels over a requested range, in 8 bits; rounded to even
 *
 * A range is as far to both sides as its farther end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "core/graph/graph.h"
#include "kernels/nn/quantized.h"
#include "kernels/ops.h"

static float reach(const struct td_call *c, int64_t channel)
{
    const float low = TD_DATA(c->in[1], const float)[channel], high = TD_DATA(c->in[2], const float)[channel];
    return fmaxf(fabsf(low), fabsf(high));
}

/* Inputs 1 and 2: a number a channel of input 0. */
static enum td_code channels_infer(const struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_TRY(td_infer_rank(c, 0, 4, err));
    for (int i = 1; i < 3; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        const int64_t n = c->in[i].rank == 1 ? c->in[i].dim[0] : -1, want = x->rank == 4 ? x->dim[3] : -1;
        TD_FAIL_IF(n >= 0 && want >= 0 && n != want, err, INVALID_ARGUMENT,
                   "%s: input %d must have an element for each of %lld channels, has %lld",
                   TD_NODE_STR(c->node), i, (long long)want, (long long)n);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the range */

static enum td_code range_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(channels_infer(c, err));
    TD_FAIL_IF(td_shape_count(&c->in[0]) == 0, err, INVALID_ARGUMENT, "%s: input must not be empty",
               TD_NODE_STR(c->node));
    c->out[0] = c->out[1] = td_shape_scalar();
    return TD_OK;
}

static enum td_code range_run(struct td_call *c, struct td_err *err)
{
    const int32_t *x = c->in[0]->data;
    const int64_t n = td_tensor_count(c->in[0]), channels = c->in[0]->shape.dim[3];
    const float clip = (float)td_attr_float(c->node, "clip_value_max");
    struct td_tensor *min, *max;
    float most = FLT_MIN;
    bool negative = false;
    for (int64_t i = 0; i < n; i++) {
        const float level = (float)(x[i] < 0 ? -(int64_t)x[i] : x[i]);
        most = fmaxf(most, reach(c, i % channels) * level / 0x1p31f);
        negative = negative || x[i] < 0;
    }
    most = most > clip ? clip : most;
    TD_TRY(td_out(c, 0, NULL, &min, err));
    TD_TRY(td_out(c, 1, NULL, &max, err));
    TD_DATA(min, float)[0] = negative ? -most : 0;
    TD_DATA(max, float)[0] = most;
    return TD_OK;
}

/* ------------------------------------------------------------------ 8 bits */

static enum td_code requantize_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(channels_infer(c, err));
    TD_TRY(td_infer_rank(c, 3, 0, err));
    TD_TRY(td_infer_rank(c, 4, 0, err));
    c->out[1] = c->out[2] = td_shape_scalar();
    return td_infer_same(c, err);
}

static enum td_code requantize_run(struct td_call *c, struct td_err *err)
{
    const int32_t *x = c->in[0]->data;
    const int64_t n = td_tensor_count(c->in[0]), channels = c->in[0]->shape.dim[3];
    const float to_min = td_quantized_float(c, 3), to_max = td_quantized_float(c, 4);
    const bool is_signed = td_attr_type(c->node, "out_type") == TD_QINT8;
    const float wanted = fmaxf(fabsf(to_min), fabsf(to_max));
    const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    struct td_tensor *y;
    TD_FAIL_IF(is_signed && !(to_min < 0), err, INVALID_ARGUMENT,
               "%s: If out_type is QINT8, requested_output_max must be non negative, got %g",
               TD_NODE_STR(c->node), (double)to_min);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_quantized_out_range(c, to_min, to_max, err));
    for (int64_t i = 0; i < n; i++) {
        const float scale = (is_signed ? 127.0f : 255.0f) * (reach(c, i % channels) / wanted / 0x1p31f);
        const float v = (float)x[i] * scale, held = v < high ? (v > low ? v : low) : high;
        td_tensor_set_int(y, i, (int64_t)nearbyintf(isnan(v) ? low : held));
    }
    return TD_OK;
}

const struct td_op td_ops_quantized_channels[] = {
    {.name = "RequantizationRangePerChannel",
     .sig = "(input:T, input_min:float, input_max:float) -> (output_min:float, output_max:float) "
            "{T:type=qint32; "
            "clip_value_max:float}",
     .infer = range_infer,
     .kernels = TD_KERNEL("quantized.cpu", range_run, {"T", TD_BIT(TD_QINT32)})},
    {.name = "RequantizePerChannel",
     .sig = "(input:T, input_min:float, input_max:float, requested_output_min:float, "
            "requested_output_max:float) -> (output:out_type, output_min:float, output_max:float) "
            "{T:type=qint32; out_type:type=quint8}",
     .infer = requantize_infer,
     .kernels = TD_KERNEL("quantized.cpu", requantize_run, {"T", TD_BIT(TD_QINT32)},
                          {"out_type", TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT8)})},
    {.name = NULL},
};
