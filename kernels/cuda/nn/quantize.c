/* kernels/cuda/nn/quantize.c - rows of QuantizeAndDequantize, V2 to V4, and the gradient of V4; of QuantizeV2
 * and Dequantize.
 *
 * A range whose ends are the wrong way round is refused as on the host (core/run/device_faults.h); so is a
 * number of bits that does not go, which is on the host. Of nothing, nothing is looked at: the host's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/quantize.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/rows.h"

static int64_t axis_of(const struct td_node *n)
{
    return strcmp(n->op_name, "QuantizeAndDequantize") == 0 ? -1 : td_attr_int(n, "axis");
}

/* min: the input that has the least of each range, the next has the greatest; -1: none. */
static struct td_cuda_ranges ranges_of(const struct td_call *c, const struct td_shape *x, int min)
{
    const int64_t axis = axis_of(c->node);
    const bool whole = axis < 0;
    return (struct td_cuda_ranges){.outer = whole ? 1 : td_shape_range(x, 0, (int)axis),
                                   .depth = whole ? 1 : x->dim[axis],
                                   .inner =
                                       whole ? td_shape_count(x) : td_shape_range(x, (int)axis + 1, x->rank),
                                   .min = min < 0 ? NULL : c->in[min]->data,
                                   .max = min < 0 ? NULL : c->in[min + 1]->data,
                                   .work = c->workspace,
                                   .fault = c->fault};
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_call shapes = {.node = q->node};
    (void)err;
    o->refusal = td_shape_count(&q->out[0]) == 0 ? "nothing is rounded" : NULL;
    if (o->refusal == NULL) {
        const struct td_cuda_ranges s = ranges_of(&shapes, &q->out[0], -1);
        o->workspace_bytes = td_cuda_ranges_work(&s);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ QuantizeAndDequantize */

/* False: so many bits there are not. */
static bool rounding_of(const struct td_node *n, int64_t bits, struct td_cuda_rounding *r)
{
    const bool has_sign = td_attr_bool(n, "signed_input");
    const double half = ldexp(1, (int)bits - 1);
    *r = (struct td_cuda_rounding){.low = !has_sign                         ? 0
                                          : td_attr_bool(n, "narrow_range") ? 1 - half
                                                                            : -half,
                                   .high = has_sign ? half - 1 : 2 * half - 1,
                                   .given = td_attr_bool(n, "range_given"),
                                   .half_up = strcmp(td_attr_str(n, "round_mode"), "HALF_UP") == 0};
    return bits >= 1 && bits < (has_sign ? 62 : 63);
}

static enum td_code go(struct td_call *c, int64_t bits, bool by_attributes, struct td_err *err)
{
    struct td_cuda_rounding r;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (!rounding_of(c->node, bits, &r)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, td_cuda_stream_of(c)), err);
    }
    r.least = by_attributes ? td_attr_float(c->node, "input_min") : 0;
    r.most = by_attributes ? td_attr_float(c->node, "input_max") : 0;
    const struct td_cuda_ranges s = ranges_of(c, &y->shape, r.given && !by_attributes ? 1 : -1);
    return td_cuda_launched(c,
                            td_cuda_round_to_levels(td_cuda_type_of(y->dtype), &s, &r, c->in[0]->data,
                                                    y->data, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_first(struct td_call *c, struct td_err *err)
{
    return go(c, td_attr_int(c->node, "num_bits"), true, err);
}

static enum td_code run_second(struct td_call *c, struct td_err *err)
{
    return go(c, td_attr_int(c->node, "num_bits"), false, err);
}

static enum td_code prepare_third(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    TD_TRY(prepare(q, o, err));
    o->refusal = td_shape_count(&q->in[3]) != 1 ? "several numbers of bits" : o->refusal;
    return TD_OK;
}

static enum td_code run_third(struct td_call *c, struct td_err *err)
{
    return go(c, td_tensor_int(c->in[3], 0), false, err);
}

static enum td_code run_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[3];
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    TD_TRY(td_cuda_zero(c, out[1], err));
    TD_TRY(td_cuda_zero(c, out[2], err));
    const struct td_cuda_ranges s = ranges_of(c, &out[0]->shape, 2);
    return td_cuda_launched(c,
                            td_cuda_pass_in_range(td_cuda_type_of(out[0]->dtype), &s, c->in[0]->data,
                                                  c->in[1]->data, out[0]->data, td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ QuantizeV2, Dequantize */

static enum td_cuda_type integer_of(enum td_dtype t)
{
    return t == TD_QINT8     ? TD_CUDA_INT8
           : t == TD_QUINT8  ? TD_CUDA_UINT8
           : t == TD_QINT16  ? TD_CUDA_INT16
           : t == TD_QUINT16 ? TD_CUDA_UINT16
                             : TD_CUDA_INT32;
}

static struct td_cuda_levels levels_of(const struct td_node *n, enum td_dtype t)
{
    const char *mode = td_attr_str(n, "mode");
    const bool has_sign = t != TD_QUINT8 && t != TD_QUINT16;
    const float levels = t == TD_QINT8 || t == TD_QUINT8 ? 0x1p8F : t == TD_QINT32 ? 0x1p32F : 0x1p16F;
    return (struct td_cuda_levels){.mode = strcmp(mode, "SCALED") == 0      ? TD_CUDA_SCALED
                                           : strcmp(mode, "MIN_FIRST") == 0 ? TD_CUDA_MIN_FIRST
                                                                            : TD_CUDA_MIN_COMBINED,
                                   .low = has_sign ? -levels / 2 : 0,
                                   .high = (has_sign ? levels / 2 : levels) - 1, /* of 32 bits, rounded up */
                                   .half = has_sign ? levels / 2 : 0,
                                   .steps = (double)levels - 1,
                                   .skip = td_attr_bool(n, "narrow_range") ? 1 : 0,
                                   .to_even = strcmp(td_attr_str(n, "round_mode"), "HALF_TO_EVEN") == 0,
                                   .narrowest = (float)td_attr_float(n, "ensure_minimum_range")};
}

static enum td_code run_quantize(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[3];
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    const struct td_cuda_ranges s = ranges_of(c, &out[0]->shape, 1);
    const struct td_cuda_levels l = levels_of(c->node, out[0]->dtype);
    return td_cuda_launched(c,
                            td_cuda_quantize(integer_of(out[0]->dtype), &s, &l, c->in[0]->data, out[0]->data,
                                             out[1]->data, out[2]->data, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_dequantize(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_ranges s = ranges_of(c, &y->shape, 1);
    const struct td_cuda_levels l = levels_of(c->node, x->dtype);
    return td_cuda_launched(c,
                            td_cuda_dequantize(integer_of(x->dtype), &s, &l, x->data, y->data,
                                               y->dtype == TD_BFLOAT16, td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ rows */

#define ROWS(op, which, ready, ...)                                                                          \
    TD_CUDA_ROWS(rows_##op, "quantize.cuda", .types = {__VA_ARGS__}, .judged = which, .prepare = ready,      \
                 .run = run_##op);
ROWS(first, 1, prepare, {"T", TD_CUDA_WIDE})
ROWS(second, 6, prepare, {"T", TD_CUDA_WIDE})
ROWS(third, 6, prepare_third, {"T", TD_CUDA_WIDE})
ROWS(grad, 0, prepare, {"T", TD_CUDA_WIDE})
ROWS(quantize, 6, prepare, {"T", TD_SET_QUANTIZED})
ROWS(dequantize, 0, prepare, {"T", TD_SET_QUANTIZED}, {"dtype", TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16)})

const struct td_op_rows td_cuda_rows_quantize[] = {{"QuantizeAndDequantize", rows_first},
                                                   {"QuantizeAndDequantizeV2", rows_second},
                                                   {"QuantizeAndDequantizeV3", rows_third},
                                                   {"QuantizeAndDequantizeV4", rows_second},
                                                   {"QuantizeAndDequantizeV4Grad", rows_grad},
                                                   {"QuantizeV2", rows_quantize},
                                                   {"Dequantize", rows_dequantize},
                                                   {NULL, NULL}};
