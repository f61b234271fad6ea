/* kernels/nn/uniform_quantized.c - even grids of levels: the arithmetic, and the ops that take elements by
 * themselves.
 *
 *   UniformQuantize              floats     -> levels
 *   UniformDequantize            levels     -> floats
 *   UniformRequantize            levels     -> levels of another grid
 *   UniformQuantizedAdd          two grids  -> a third
 *   UniformQuantizedClipByValue  levels between two others
 *
 * A factor between grids is 31 bits and a shift, so that no float is met on the way; products are rounded
 * half up. TensorFlow's answers are matched bit by bit: floats that no int32 holds become the lowest one,
 * as the processor converts them.
 *
 * Does not: multiply (kernels/nn/uniform_dot.c, kernels/nn/uniform_conv.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/uniform_quantized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/graph/graph.h"
#include "kernels/nn/quantized.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ factors */

enum td_code td_rescale_make(const struct td_node *n, double factor, struct td_rescale *r, struct td_err *err)
{
    TD_FAIL_IF(!isfinite(factor) || factor <= 0, err, INVALID_ARGUMENT,
               "%s: double_multiplier must be a positive finite number. Given %g", TD_NODE_STR(n), factor);
    const int64_t one = (int64_t)1 << 31;
    int64_t fixed = (int64_t)round(frexp(factor, &r->shift) * (double)one);
    if (fixed == one) {
        fixed /= 2;
        r->shift++;
    }
    if (r->shift < -31) {
        fixed = r->shift = 0;
    }
    if (r->shift > 30) {
        r->shift = 30;
        fixed = one - 1;
    }
    r->multiplier = (int32_t)fixed;
    return TD_OK;
}

int32_t td_rescale_level(const struct td_rescale *r, int64_t v)
{
    const int down = 31 - r->shift;
    const uint64_t product = (uint64_t)v * (uint64_t)r->multiplier + ((uint64_t)1 << (down - 1));
    const int64_t level = (int64_t)product >> down;
    return (int32_t)(level < INT32_MIN ? INT32_MIN : level > INT32_MAX ? INT32_MAX : level);
}

enum td_code td_level_limits_of(const struct td_node *n, const char *prefix, struct td_level_limits *l,
                                struct td_err *err)
{
    int64_t v[2];
    for (int k = 0; k < 2; k++) {
        char name[64];
        snprintf(name, sizeof name, "%squantization_%s_val", prefix, k == 0 ? "min" : "max");
        v[k] = td_attr_int(n, name);
        TD_FAIL_IF(v[k] < INT32_MIN || v[k] > INT32_MAX, err, INVALID_ARGUMENT,
                   "%s: Attr %s has value %lld out of range for an int32", TD_NODE_STR(n), name,
                   (long long)v[k]);
    }
    *l = (struct td_level_limits){(int32_t)v[0], (int32_t)v[1]};
    return TD_OK;
}

/* ------------------------------------------------------------------ scales and zero points */

enum td_code td_scales_infer(const struct td_infer *c, const struct td_shape *data, int i, int64_t axis,
                             struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&c->in[i], &c->in[i + 1]), err, INVALID_ARGUMENT,
               "%s: scales and zero_points shape must be same, but given scales shape %s and zero_points "
               "shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[i]), TD_SHAPE_STR(&c->in[i + 1]));
    TD_FAIL_IF(axis < -1 || (data->rank >= 0 && axis >= data->rank), err, INVALID_ARGUMENT,
               "%s: quantization_axis must be -1 or in range [0, input.rank), but given %lld",
               TD_NODE_STR(c->node), (long long)axis);
    const int rank = axis < 0 ? 0 : 1;
    for (int k = i; k < i + 2; k++) {
        const struct td_shape *s = &c->in[k];
        const int64_t n = s->rank == 1 ? s->dim[0] : -1,
                      want = rank && data->rank >= 0 ? data->dim[axis] : -1;
        TD_FAIL_IF(
            (s->rank >= 0 && s->rank != rank) || (n >= 0 && want >= 0 && n != want), err, INVALID_ARGUMENT,
            "%s: scales and zero_points must be scalars if quantization_axis is -1, else of rank 1 and "
            "the size of that axis: axis %lld of %s, and shape %s",
            TD_NODE_STR(c->node), (long long)axis, TD_SHAPE_STR(data), TD_SHAPE_STR(s));
    }
    return TD_OK;
}

enum td_code td_scales_positive(const struct td_call *c, int i, struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    for (int64_t k = 0, n = td_tensor_count(t); k < n; k++) {
        TD_FAIL_IF(!(TD_DATA(t, const float)[k] > 0), err, INVALID_ARGUMENT,
                   "%s: scales elements must be all positive: element %lld of input %d is %g",
                   TD_NODE_STR(c->node), (long long)k, i, (double)TD_DATA(t, const float)[k]);
    }
    return TD_OK;
}

/* A tensor as [outer, n, inner], n along axis: 1 for -1; no rows at all where it has no elements. */
struct slices {
    int64_t outer, n, inner;
};

static struct slices slices_of(const struct td_shape *s, int64_t axis)
{
    const int64_t count = td_shape_count(s);
    if (axis < 0 || count == 0) {
        return (struct slices){count > 0, 1, count};
    }
    return (struct slices){td_shape_range(s, 0, (int)axis), s->dim[axis],
                           td_shape_range(s, (int)axis + 1, s->rank)};
}

/* ------------------------------------------------------------------ floats */

/* What int32 has no room for becomes its lowest value, as x86 converts. */
static int32_t to_int32(float v)
{
    return v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : INT32_MIN;
}

int32_t td_uniform_level(float x, float inverse, int32_t zero, const struct td_level_limits *l)
{
    return td_level_limit(l, td_level_add(to_int32(floorf(x * inverse + 0.5f)), zero));
}

/* The zero point between -128 and 127 that errs least. */
static int32_t nearest_zero(double least, double most, double scale)
{
    const double from_least = -128 - least / scale, from_most = 127 - most / scale;
    const double v = 128 + fabs(least / scale) < 127 + fabs(most / scale) ? from_least : from_most;
    return isnan(v) ? 0 : v <= -128 ? -128 : v >= 127 ? 127 : (int32_t)round(v); /* NaN: of infinite floats */
}

void td_uniform_by_range(const float *x, int64_t n, int32_t *centred, float *scale)
{
    static const struct td_level_limits byte = {-128, 127};
    float least = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    const double span = (double)most - (double)least;
    const float inverse = span != 0 ? (float)(255 / span) : 0;
    *scale = (float)(span / 255);
    if (*scale == 0 || !isfinite(inverse)) {
        memset(centred, 0, (size_t)n * sizeof *centred);
        *scale = 1;
        return;
    }
    const int32_t zero = nearest_zero(least, most, *scale);
    for (int64_t i = 0; i < n; i++) {
        centred[i] = td_uniform_level(x[i], inverse, zero, &byte) - zero;
    }
}

static enum td_code one_grid_infer(struct td_infer *c, struct td_err *err)
{
    struct td_level_limits l;
    TD_TRY(td_level_limits_of(c->node, "", &l, err));
    TD_TRY(td_scales_infer(c, &c->in[0], 1, td_attr_int(c->node, "quantization_axis"), err));
    return td_infer_same(c, err);
}

static enum td_code quantize_run(struct td_call *c, struct td_err *err)
{
    const struct slices s = slices_of(&c->in[0]->shape, td_attr_int(c->node, "quantization_axis"));
    const float *x = c->in[0]->data;
    struct td_level_limits l;
    struct td_tensor *y;
    TD_TRY(td_level_limits_of(c->node, "", &l, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t at = 0, row = 0; row < s.outer * s.n; row++) {
        const float inverse = 1.0f / td_scale_at(c, 1, row % s.n);
        const int32_t zero = td_zero_at(c, 2, row % s.n);
        for (int64_t i = 0; i < s.inner; i++, at++) {
            td_tensor_set_int(y, at, td_uniform_level(x[at], inverse, zero, &l));
        }
    }
    return TD_OK;
}

static enum td_code dequantize_run(struct td_call *c, struct td_err *err)
{
    const struct slices s = slices_of(&c->in[0]->shape, td_attr_int(c->node, "quantization_axis"));
    struct td_tensor *y;
    TD_TRY(td_scales_positive(c, 1, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t at = 0, row = 0; row < s.outer * s.n; row++) {
        const float scale = td_scale_at(c, 1, row % s.n);
        const int32_t zero = td_zero_at(c, 2, row % s.n);
        for (int64_t i = 0; i < s.inner; i++, at++) {
            TD_DATA(y, float)[at] = (float)td_level_sub(td_quantized_get(c->in[0], at), zero) * scale;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ from grid to grid */

/* TensorFlow's 32-bit levels go into a function of one element, and come out of it, by way of a float;
 * what is then no int32 becomes the lowest one. */
static int32_t by_float(int32_t level)
{
    return to_int32((float)level);
}

/* Levels of input i, whose grid is inputs `from` and `from + 1`, on that of scales `to`; either has one
 * scale, or one an index of the axis. They are handed to put, each with its number along the axis. */
struct move {
    int i, from, to;
    int64_t axis; /* -1: both grids have one scale */
};
typedef void put_fn(void *ctx, int64_t at, int64_t k, int32_t level);

static enum td_code move_levels(struct td_call *c, const struct move *m, put_fn *put, void *ctx,
                                struct td_err *err)
{
    const struct slices s = slices_of(&c->in[m->i]->shape, m->axis);
    for (int64_t at = 0, row = 0; row < s.outer * s.n; row++) {
        struct td_rescale r;
        const int64_t k = row % s.n;
        const int32_t zero = td_zero_at(c, m->from + 1, k);
        TD_TRY(
            td_rescale_make(c->node, (double)td_scale_at(c, m->from, k) / td_scale_at(c, m->to, k), &r, err));
        for (int64_t i = 0; i < s.inner; i++, at++) {
            put(ctx, at, k,
                td_rescale_level(&r, (int64_t)by_float(td_quantized_get(c->in[m->i], at)) - zero));
        }
    }
    return TD_OK;
}

static enum td_code requantize_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t from = td_attr_int(c->node, "input_quantization_axis");
    const int64_t to = td_attr_int(c->node, "output_quantization_axis");
    struct td_level_limits l;
    TD_TRY(td_level_limits_of(c->node, "output_", &l, err));
    TD_FAIL_IF(from >= 0 && to >= 0 && from != to, err, INVALID_ARGUMENT,
               "%s: If input and output is both per-axis quantized, the quantization axis must be same.",
               TD_NODE_STR(c->node));
    TD_TRY(td_scales_infer(c, &c->in[0], 1, from, err));
    TD_TRY(td_scales_infer(c, &c->in[0], 3, to, err));
    return td_infer_same(c, err);
}

struct requantized {
    struct td_call *c;
    struct td_tensor *y;
    struct td_level_limits limits;
};

static void put_requantized(void *ctx, int64_t at, int64_t k, int32_t level)
{
    const struct requantized *r = ctx;
    td_tensor_set_int(r->y, at, td_level_limit(&r->limits, td_level_add(level, td_zero_at(r->c, 4, k))));
}

static enum td_code requantize_run(struct td_call *c, struct td_err *err)
{
    const int64_t from = td_attr_int(c->node, "input_quantization_axis");
    const int64_t to = td_attr_int(c->node, "output_quantization_axis");
    struct requantized r = {.c = c};
    TD_TRY(td_level_limits_of(c->node, "output_", &r.limits, err));
    TD_TRY(td_scales_positive(c, 1, err));
    TD_TRY(td_scales_positive(c, 3, err));
    TD_TRY(td_out(c, 0, NULL, &r.y, err));
    return move_levels(c, &(struct move){0, 1, 3, from >= 0 ? from : to}, put_requantized, &r, err);
}

/* ------------------------------------------------------------------ sums */

static const char *const side_axis[] = {"lhs_quantization_axis", "rhs_quantization_axis"};

/* An axis of an operand and that of the sum lie as far from the end. A sum of many scales wants operands
 * that have the axis: of one scale they would need as many levels an element. */
static enum td_code sum_axis(const struct td_infer *c, int i, const struct td_shape *sum, struct td_err *err)
{
    const int64_t own = td_attr_int(c->node, side_axis[i]);
    const int64_t to = td_attr_int(c->node, "output_quantization_axis");
    TD_FAIL_IF(to >= 0 && own < 0, err, INVALID_ARGUMENT,
               "%s: the sum is quantized along axis %lld, and its operand %d along none",
               TD_NODE_STR(c->node), (long long)to, i);
    TD_FAIL_IF(own >= 0 && to >= 0 && c->in[i].rank >= 0 && sum->rank >= 0 &&
                   c->in[i].rank - own != sum->rank - to,
               err, INVALID_ARGUMENT,
               "%s: If %s and output is both per-axis quantized, the quantization axis must match.",
               TD_NODE_STR(c->node), i == 0 ? "lhs" : "rhs");
    return TD_OK;
}

static enum td_code add_infer(struct td_infer *c, struct td_err *err)
{
    struct td_level_limits l;
    struct td_shape sum;
    TD_TRY(td_level_limits_of(c->node, "output_", &l, err));
    TD_TRY(td_shape_broadcast(&c->in[0], &c->in[1], &sum, err));
    for (int i = 0; i < 2; i++) {
        TD_TRY(td_scales_infer(c, &c->in[i], 2 + 2 * i, td_attr_int(c->node, side_axis[i]), err));
    }
    TD_TRY(td_scales_infer(c, &sum, 6, td_attr_int(c->node, "output_quantization_axis"), err));
    for (int i = 0; i < 2; i++) {
        TD_TRY(sum_axis(c, i, &sum, err));
        const int64_t own = td_attr_int(c->node, side_axis[i]);
        const int64_t to = td_attr_int(c->node, "output_quantization_axis");
        const bool both = own >= 0 && to >= 0 && c->in[i].rank > own && sum.rank > to;
        const int64_t n = both ? c->in[i].dim[own] : -1, m = both ? sum.dim[to] : -1;
        TD_FAIL_IF(n >= 0 && m >= 0 && n != m, err, INVALID_ARGUMENT,
                   "%s: operand %d of shape %s is spread along the axis that its scales lie on",
                   TD_NODE_STR(c->node), i, TD_SHAPE_STR(&c->in[i]));
    }
    c->out[0] = sum;
    return TD_OK;
}

static void put_addend(void *ctx, int64_t at, int64_t k, int32_t level)
{
    (void)k;
    ((int32_t *)ctx)[at] = by_float(level);
}

static enum td_code add_run(struct td_call *c, struct td_err *err)
{
    const int64_t to = td_attr_int(c->node, "output_quantization_axis");
    struct td_level_limits l;
    struct td_tensor *y;
    void *part[2];
    TD_TRY(td_level_limits_of(c->node, "output_", &l, err));
    for (int i = 2; i < 8; i += 2) {
        TD_TRY(td_scales_positive(c, i, err));
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int i = 0; i < 2; i++) {
        const struct move m = {i, 2 + 2 * i, 6, td_attr_int(c->node, side_axis[i])};
        TD_TRY(td_scratch(c, (size_t)td_tensor_count(c->in[i]) * sizeof(int32_t), &part[i], err));
        TD_TRY(move_levels(c, &m, put_addend, part[i], err));
    }
    const struct slices s = slices_of(&y->shape, to);
    for (int64_t at = 0, n = td_tensor_count(y); at < n; at++) {
        const int32_t a = ((int32_t *)part[0])[td_shape_spread_index(&c->in[0]->shape, &y->shape, at)];
        const int32_t b = ((int32_t *)part[1])[td_shape_spread_index(&c->in[1]->shape, &y->shape, at)];
        const int32_t zero = td_zero_at(c, 7, at / s.inner % s.n);
        TD_DATA(y, int32_t)[at] = td_level_limit(&l, td_level_add(td_level_add(a, b), zero));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ clipping */

static enum td_code clip_infer(struct td_infer *c, struct td_err *err)
{
    const int64_t axis = td_attr_int(c->node, "quantization_axis");
    TD_TRY(td_scales_infer(c, &c->in[0], 1, axis, err));
    TD_TRY(td_scales_infer(c, &c->in[0], 3, axis, err));
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &c->in[3]), err, INVALID_ARGUMENT,
               "%s: Input min shape must be same as scales/zero_points: %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[3]));
    return td_infer_same(c, err);
}

static enum td_code clip_run(struct td_call *c, struct td_err *err)
{
    const struct slices s = slices_of(&c->in[0]->shape, td_attr_int(c->node, "quantization_axis"));
    const int32_t *x = c->in[0]->data;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t at = 0, row = 0; row < s.outer * s.n; row++) {
        const int32_t low = td_zero_at(c, 1, row % s.n), high = td_zero_at(c, 2, row % s.n);
        for (int64_t i = 0; i < s.inner; i++, at++) {
            const int32_t v = x[at] > low ? x[at] : low;
            TD_DATA(y, int32_t)[at] = v < high ? v : high;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define LIMITS(prefix) prefix "quantization_min_val:int; " prefix "quantization_max_val:int"
#define AXIS(prefix) prefix "quantization_axis:int=-1"
#define KERNEL(fn, ...) TD_KERNEL("uniform_quantized.cpu", fn, __VA_ARGS__)

const struct td_op td_ops_uniform_quantized[] = {
    {.name = "UniformQuantize",
     .sig = "(input:Tin, scales:float, zero_points:int32) -> (output:Tout) {Tin:type; Tout:type; " AXIS(
         "") "; " LIMITS("") "}",
     .infer = one_grid_infer,
     .kernels = KERNEL(quantize_run, {"Tin", TD_BIT(TD_FLOAT)},
                       {"Tout", TD_BIT(TD_QINT8) | TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT32)})},
    {.name = "UniformDequantize",
     .sig = "(input:Tin, scales:float, zero_points:int32) -> (output:Tout) {Tin:type; Tout:type; " AXIS(
         "") "; " LIMITS("") "}",
     .infer = one_grid_infer,
     .kernels = KERNEL(dequantize_run, {"Tin", TD_BIT(TD_QINT8) | TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT32)},
                       {"Tout", TD_BIT(TD_FLOAT)})},
    {.name = "UniformRequantize",
     .sig = "(input:Tin, input_scales:float, input_zero_points:int32, output_scales:float, "
            "output_zero_points:int32) -> (output:Tout) {Tin:type; Tout:type; " AXIS("input_") "; " LIMITS(
                "input_") "; " AXIS("output_") "; " LIMITS("output_") "}",
     .infer = requantize_infer,
     .kernels =
         KERNEL(requantize_run, {"Tin", TD_BIT(TD_QINT8) | TD_BIT(TD_QINT32)}, {"Tout", TD_BIT(TD_QINT8)})},
    {.name = "UniformQuantizedAdd",
     .sig = "(lhs:T, rhs:T, lhs_scales:float, lhs_zero_points:int32, rhs_scales:float, "
            "rhs_zero_points:int32, output_scales:float, output_zero_points:int32) -> (output:T) "
            "{" AXIS("lhs_") "; " LIMITS("lhs_") "; " AXIS("rhs_") "; " LIMITS("rhs_") "; " AXIS(
                "output_") "; " LIMITS("output_") "; T:type}",
     .infer = add_infer,
     .kernels = KERNEL(add_run, {"T", TD_BIT(TD_QINT32)})},
    {.name = "UniformQuantizedClipByValue",
     .sig = "(operand:T, min:T, max:T, scales:float, zero_points:int32) -> (output:T) {T:type; " AXIS(
         "") "; " LIMITS("") "}",
     .infer = clip_infer,
     .kernels = KERNEL(clip_run, {"T", TD_BIT(TD_QINT32)})},
    {.name = NULL},
};
