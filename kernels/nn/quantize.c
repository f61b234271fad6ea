/* kernels/nn/quantize.c - QuantizeV2 and Dequantize: floats to and from 8, 16 and 32 bit integers over a
 * range.
 *
 *   QuantizeV2: input [any shape] of float, min_range, max_range (scalars; [d] with attribute axis)
 *                 ->  output [same shape] of T, and the range that it really spans
 *   Dequantize: input of T, min_range, max_range  ->  output of float or bfloat16
 *
 *   MIN_COMBINED  level = (x - min) * steps / (max - min), moved down by half the steps for signed types
 *   MIN_FIRST     the same, but min is moved to a multiple of the step, so that 0 is exact
 *   SCALED        level = x * scale: the largest scale with which both ends are representable
 *
 * QuantizeV2 stretches the range to hold 0 and to be at least ensure_minimum_range wide. Arithmetic is in
 * float, as in TensorFlow, because a level may hang on one rounding. Quantized types are integers in memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/nn/quantized.h"
#include "kernels/cpu/vecmath.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum mode { MIN_COMBINED, MIN_FIRST, SCALED };

/* The lowest and the highest level, as floats are; half the number of levels of a type with a sign; how many
 * steps there are from the lowest to the highest, which of 32 bits is no float. */
struct type {
    float low, high, half;
    double steps;
};

static struct type type_of(enum td_dtype t)
{
    switch (t) {
    case TD_QUINT8:
        return (struct type){0, 255, 0, 255};
    case TD_QINT8:
        return (struct type){-128, 127, 128, 255};
    case TD_QUINT16:
        return (struct type){0, 65535, 0, 65535};
    case TD_QINT16:
        return (struct type){-32768, 32767, 32768, 65535};
    default:
        return (struct type){-0x1p31f, 0x1p31f, 0x1p31f, 0x1p32 - 1};
    }
}

static enum mode mode_of(const struct td_node *n)
{
    const char *s = td_attr_str(n, "mode");
    return strcmp(s, "SCALED") == 0 ? SCALED : strcmp(s, "MIN_FIRST") == 0 ? MIN_FIRST : MIN_COMBINED;
}

enum { CHUNK = 256 };

static float clamp(float v, float low, float high)
{
    v = high < v ? high : v;
    return v < low ? low : v;
}

/* ------------------------------------------------------------------ what both ops check */

/* Shape of a bound: one value a slice of input 0 along axis, a scalar where there is one slice. */
static enum td_code bound_shape(const struct td_infer *c, struct td_shape *bound, struct td_err *err)
{
    int64_t axis = td_attr_int(c->node, "axis");
    const struct td_shape *x = &c->in[0];
    TD_FAIL_IF(axis < -1, err, INVALID_ARGUMENT, "%s: axis must be at least -1, is %lld",
               TD_NODE_STR(c->node), (long long)axis);
    TD_FAIL_IF(x->rank >= 0 && axis >= x->rank, err, INVALID_ARGUMENT,
               "%s: axis must be less than input dimension(%d), is %lld", TD_NODE_STR(c->node), x->rank,
               (long long)axis);
    int64_t want = axis < 0 ? 1 : x->rank >= 0 ? x->dim[axis] : -1;
    TD_FAIL_IF(want >= 0 && want != 1 && mode_of(c->node) == MIN_FIRST, err, UNIMPLEMENTED,
               "%s: MIN_FIRST mode is not implemented with axis != -1", TD_NODE_STR(c->node));
    for (int i = 1; i < 3; i++) {
        int64_t n = td_shape_count(&c->in[i]);
        TD_FAIL_IF(want >= 0 && td_shape_known(&c->in[i]) && n != want, err, INVALID_ARGUMENT,
                   "%s: %s must have as many elements as input on the axis (%lld), got %lld, expected %lld",
                   TD_NODE_STR(c->node), i == 1 ? "min_range" : "max_range", (long long)axis, (long long)n,
                   (long long)want);
    }
    *bound = want == 1 ? td_shape_scalar() : want < 0 ? td_shape_unknown() : td_shape_vector(want);
    return TD_OK;
}

/* Slice k of [outer, depth, inner] starts at (o * depth + k) * inner. */
struct slices {
    int64_t outer, depth, inner;
};

static struct slices make_slices(const struct td_node *n, const struct td_shape *s)
{
    int64_t axis = td_attr_int(n, "axis");
    if (axis < 0) {
        return (struct slices){1, 1, td_shape_count(s)};
    }
    return (struct slices){td_shape_range(s, 0, (int)axis), s->dim[axis],
                           td_shape_range(s, (int)axis + 1, s->rank)};
}

/* ------------------------------------------------------------------ QuantizeV2 */

struct quantizer {
    enum mode mode;
    struct type type;
    bool to_even;
    float skip_lowest; /* 1: the lowest level is not used */
    float min, max, scale;
};

static enum td_code infer_quantize(struct td_infer *c, struct td_err *err)
{
    bool even = strcmp(td_attr_str(c->node, "round_mode"), "HALF_TO_EVEN") == 0;
    TD_FAIL_IF(even && mode_of(c->node) != SCALED, err, INVALID_ARGUMENT,
               "%s: Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '%s'.",
               TD_NODE_STR(c->node), td_attr_str(c->node, "mode"));
    TD_TRY(bound_shape(c, &c->out[1], err));
    c->out[2] = c->out[1];
    return td_infer_same(c, err);
}

/* Upcasts [min, max] to hold 0 and a least width, then finds the scale (and, SCALED, the range it gives). */
static void quantizer_fit(struct quantizer *q, float min, float max, float least)
{
    q->min = min < 0 ? min : 0;
    float size = fmaxf(1, fmaxf(fabsf(min), fabsf(max)));
    q->max = fmaxf(0, fmaxf(max, q->min + size * least));
    if (q->mode == SCALED) {
        float low = q->type.low + q->skip_lowest, high = q->type.high;
        float from_min = low * q->min > 0 ? low / q->min : FLT_MAX;
        float from_max = high * q->max > 0 ? high / q->max : FLT_MAX;
        q->scale = fminf(from_min, from_max);
        q->min = low / q->scale;
        q->max = high / q->scale;
    } else {
        q->scale = (float)(q->type.steps / (double)(q->max - q->min));
    }
}

TD_INLINE float quantize(const struct quantizer *q, float x)
{
    const struct type *t = &q->type;
    switch (q->mode) {
    case MIN_COMBINED:
        return roundf((clamp(x, q->min, q->max) - q->min) * q->scale - t->half);
    case MIN_FIRST:
        return clamp(roundf(x * q->scale) - (roundf(q->min * q->scale) - t->low), t->low,
                     t->high >= 0x1p31f ? 0x1.fffffep30f : t->high);
    default:
        x = clamp(x, q->min, q->max) * q->scale;
        return q->to_even ? rintf(x) : roundf(x);
    }
}

#define QUANTIZE_ALL(m, even)                                                                                \
    q.mode = m;                                                                                              \
    q.to_even = even;                                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        float v = quantize(&q, x[i]);                                                                        \
        level[i] = v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : INT32_MIN;                                    \
    }                                                                                                        \
    return;

/* The levels of n numbers: a loop a way of rounding, so that each is vector code. What fits no int32 becomes
 * its lowest value, as x86 converts. */
TD_CLONES static void quantize_all(const struct quantizer *of, const float *x, int64_t n,
                                   int32_t *restrict level)
{
    struct quantizer q = *of;
    if (q.mode == MIN_COMBINED) {
        QUANTIZE_ALL(MIN_COMBINED, false)
    } else if (q.mode == MIN_FIRST) {
        QUANTIZE_ALL(MIN_FIRST, false)
    } else if (q.to_even) {
        QUANTIZE_ALL(SCALED, true)
    }
    QUANTIZE_ALL(SCALED, false)
}

/* Elements [at, at + n) of x to those of y, a piece at a time. */
static void quantize_run_of(const struct quantizer *q, const struct td_tensor *x, struct td_tensor *y,
                            int64_t at, int64_t n)
{
    int32_t level[CHUNK];
    const size_t size = td_dtype_size(y->dtype);
    for (int64_t end = at + n; at < end && !td_work_spent(CHUNK); at += CHUNK) {
        int64_t most = end - at < CHUNK ? end - at : CHUNK;
        quantize_all(q, TD_DATA(x, const float) + at, most, level);
        for (int64_t i = 0; i < most && size == 1; i++) {
            TD_DATA(y, uint8_t)[at + i] = (uint8_t)level[i];
        }
        for (int64_t i = 0; i < most && size == 2; i++) {
            TD_DATA(y, uint16_t)[at + i] = (uint16_t)level[i];
        }
        if (size == 4) {
            memcpy(TD_DATA(y, int32_t) + at, level, (size_t)most * sizeof *level);
        }
    }
}

static enum td_code quantize_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y, *out_min, *out_max;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &out_min, err));
    TD_TRY(td_out(c, 2, NULL, &out_max, err));
    struct quantizer q = {.mode = mode_of(c->node),
                          .type = type_of(y->dtype),
                          .to_even = strcmp(td_attr_str(c->node, "round_mode"), "HALF_TO_EVEN") == 0,
                          .skip_lowest = td_attr_bool(c->node, "narrow_range")};
    struct slices s = make_slices(c->node, &x->shape);
    for (int64_t k = 0; k < s.depth; k++) {
        float min = TD_DATA(c->in[1], float)[k], max = TD_DATA(c->in[2], float)[k];
        TD_FAIL_IF(!(min <= max), err, INVALID_ARGUMENT,
                   "%s: input_max_range must be larger than input_min_range, have %g and %g",
                   TD_NODE_STR(c->node), (double)max, (double)min);
        quantizer_fit(&q, min, max, (float)td_attr_float(c->node, "ensure_minimum_range"));
        TD_DATA(out_min, float)[k] = q.min;
        TD_DATA(out_max, float)[k] = q.max;
        for (int64_t o = 0; o < s.outer; o++) {
            quantize_run_of(&q, x, y, (o * s.depth + k) * s.inner, s.inner);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Dequantize */

static enum td_code infer_dequantize(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(td_attr_type(c->node, "dtype") == TD_BFLOAT16 && mode_of(c->node) != MIN_COMBINED, err,
               INVALID_ARGUMENT,
               "%s: When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '%s'",
               TD_NODE_STR(c->node), td_attr_str(c->node, "mode"));
    struct td_shape bound;
    TD_TRY(bound_shape(c, &bound, err));
    return td_infer_same(c, err);
}

struct line {
    float shift, slope, start;
}; /* (level + shift) * slope + start */

static struct line dequantizer(const struct td_node *n, enum td_dtype dtype, float min, float max)
{
    struct type t = type_of(dtype);
    float step = (max - min) / (t.high - t.low);
    float low = t.low + (td_attr_bool(n, "narrow_range") ? 1 : 0);
    switch (mode_of(n)) {
    case MIN_COMBINED:
        return (struct line){t.half, step, min};
    case MIN_FIRST:
        return (struct line){-t.low, step, max == min ? min : roundf(min / step) * step};
    default:
        return (struct line){0, low < 0 ? fmaxf(min / low, max / t.high) : max / t.high, 0};
    }
}

static enum td_code dequantize_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct slices s = make_slices(c->node, &x->shape);
    for (int64_t k = 0; k < s.depth; k++) {
        struct line l =
            dequantizer(c->node, x->dtype, TD_DATA(c->in[1], float)[k], TD_DATA(c->in[2], float)[k]);
        for (int64_t o = 0; o < s.outer && !td_work_spent(4 * s.inner); o++) {
            int64_t at = (o * s.depth + k) * s.inner;
            for (int64_t i = at; i < at + s.inner; i++) {
                float v = ((float)td_quantized_get(x, i) + l.shift) * l.slope + l.start;
                if (y->dtype == TD_FLOAT) {
                    TD_DATA(y, float)[i] = v;
                } else {
                    TD_DATA(y, td_bf16)[i] = td_float_to_bf16(v);
                }
            }
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

const struct td_op td_ops_quantize[] = {
    {.name = "QuantizeV2",
     .sig =
         "(input:float, min_range:float, max_range:float) -> (output:T, output_min:float, output_max:float) "
         "{T:type; mode:string='MIN_COMBINED' in ['MIN_COMBINED','MIN_FIRST','SCALED']; "
         "round_mode:string='HALF_AWAY_FROM_ZERO' in ['HALF_AWAY_FROM_ZERO','HALF_TO_EVEN']; "
         "narrow_range:bool=false; axis:int=-1; ensure_minimum_range:float=0.009999999776482582}",
     .infer = infer_quantize,
     .kernels = TD_KERNEL("quantize.cpu", quantize_run, {"T", TD_SET_QUANTIZED})},
    {.name = "Dequantize",
     .sig = "(input:T, min_range:float, max_range:float) -> (output:dtype) {T:type; "
            "mode:string='MIN_COMBINED' in ['MIN_COMBINED','MIN_FIRST','SCALED']; narrow_range:bool=false; "
            "axis:int=-1; dtype:type=float}",
     .infer = infer_dequantize,
     .kernels = TD_KERNEL("quantize.cpu", dequantize_run, {"T", TD_SET_QUANTIZED},
                          {"dtype", TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16)})},
    {.name = NULL},
};
