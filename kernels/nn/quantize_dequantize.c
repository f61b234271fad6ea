/* kernels/nn/quantize_dequantize.c - QuantizeAndDequantize, V2 to V4, and the gradient of V4.
 *
 *   input [any shape] of T, input_min, input_max (scalars; [d] with attribute axis)
 *                                                                        ->  output [same shape] of T
 *
 * Symmetric levels k * inverse_scale with k in [-2^(b-1), 2^(b-1) - 1] (narrow_range: without the lowest;
 * unsigned: [0, 2^b - 1]). The scale is the largest with which both ends of the range are representable; the
 * other end is moved to its level. Without range_given the range is that of the input (of each slice along
 * axis), and nothing is clamped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

#include <float.h>
#include <math.h>

struct levels {
    double min_level, max_level;
    bool clamp, half_up;
};

static enum td_code make_levels(const struct td_node *n, int64_t bits, struct levels *l, struct td_err *err)
{
    bool is_signed = td_attr_bool(n, "signed_input");
    TD_FAIL_IF(bits < 1 || bits >= (is_signed ? 62 : 63), err, INVALID_ARGUMENT,
               "%s: num_bits is out of range: %lld with signed_input_ %d", TD_NODE_STR(n), (long long)bits,
               is_signed);
    double half = ldexp(1, (int)bits - 1);
    l->max_level = is_signed ? half - 1 : 2 * half - 1;
    l->min_level = !is_signed ? 0 : td_attr_bool(n, "narrow_range") ? 1 - half : -half;
    l->clamp = td_attr_bool(n, "range_given");
    l->half_up = strcmp(td_attr_str(n, "round_mode"), "HALF_UP") == 0;
    return TD_OK;
}

/* Computed in T, as TensorFlow does: which of two levels a value falls on may hang on one rounding. */
#define STAMP(tag, T, suffix, most)                                                                          \
    static void slice_##tag(const struct levels *l, const T *x, T *y, int64_t n, T min, T max)               \
    {                                                                                                        \
        T low = (T)l->min_level, high = (T)l->max_level;                                                     \
        T from_min = low * min > 0 ? low / min : most, from_max = high * max > 0 ? high / max : most;        \
        bool use_min = from_min < from_max;                                                                  \
        T scale = use_min ? from_min : from_max, inverse = use_min ? min / low : max / high;                 \
        min = use_min ? min : low * inverse;                                                                 \
        max = use_min ? high * inverse : max;                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T v = x[i];                                                                                      \
            v = l->clamp && max < v ? max : v;                                                               \
            v = l->clamp && v < min ? min : v;                                                               \
            v *= scale;                                                                                      \
            y[i] = (l->half_up ? floor##suffix(v + (T)0.5) : rint##suffix(v)) * inverse;                     \
        }                                                                                                    \
    }
STAMP(f32, float, f, FLT_MAX)
STAMP(f64, double, , DBL_MAX)

static double number(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_FLOAT ? (double)TD_DATA(t, const float)[i] : TD_DATA(t, const double)[i];
}

/* ------------------------------------------------------------------ slices along an axis */

/* The tensor as [outer, depth, inner]: slice k is x[:, k, :]. Without an axis depth is 1. */
struct slices {
    int64_t outer, depth, inner;
};

static struct slices make_slices(const struct td_shape *s, int64_t axis)
{
    if (axis < 0) {
        return (struct slices){1, 1, td_shape_count(s)};
    }
    return (struct slices){td_shape_range(s, 0, (int)axis), s->dim[axis],
                           td_shape_range(s, (int)axis + 1, s->rank)};
}

static enum td_code check_axis(const struct td_node *n, const struct td_shape *in, struct td_err *err)
{
    int64_t axis = td_attr_int(n, "axis");
    TD_FAIL_IF(axis < -1, err, INVALID_ARGUMENT, "%s: Axis must be at least -1. Found %lld", TD_NODE_STR(n),
               (long long)axis);
    TD_FAIL_IF(in->rank >= 0 && axis >= in->rank, err, INVALID_ARGUMENT,
               "%s: Shape must be at least rank %llu but is rank %d", TD_NODE_STR(n),
               (unsigned long long)axis + 1, in->rank);
    return TD_OK;
}

/* The bounds must be scalars, or hold one value a slice. */
static enum td_code check_bounds(const struct td_infer *c, int first, struct td_err *err)
{
    int64_t axis = td_attr_int(c->node, "axis");
    for (int i = first; i < first + 2; i++) {
        const char *name = i == first ? "input_min" : "input_max";
        TD_FAIL_IF(axis < 0 && c->in[i].rank > 0, err, INVALID_ARGUMENT,
                   "%s: %s must be a scalar, has shape %s", TD_NODE_STR(c->node), name,
                   TD_SHAPE_STR(&c->in[i]));
        if (axis >= 0 && td_shape_known(&c->in[0]) && td_shape_known(&c->in[i])) {
            TD_FAIL_IF(td_shape_count(&c->in[i]) != c->in[0].dim[axis], err, INVALID_ARGUMENT,
                       "%s: %s has shape %s, want %lld elements: the input's size along axis %lld",
                       TD_NODE_STR(c->node), name, TD_SHAPE_STR(&c->in[i]), (long long)c->in[0].dim[axis],
                       (long long)axis);
        }
    }
    return TD_OK;
}

static enum td_code infer_qdq(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_axis(c->node, &c->in[0], err));
    if (td_attr_bool(c->node, "range_given")) {
        TD_TRY(check_bounds(c, 1, err));
    }
    return td_infer_same(c, err);
}

/* ------------------------------------------------------------------ kernels */

struct bounds {
    double min, max;
};

static struct bounds bounds_of_slice(const struct td_tensor *x, const struct slices *s, int64_t k)
{
    struct bounds b = {INFINITY, -INFINITY};
    for (int64_t o = 0; o < s->outer && !td_work_spent(4 * s->inner); o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            double v = number(x, (o * s->depth + k) * s->inner + i);
            b.min = v < b.min ? v : b.min;
            b.max = v > b.max ? v : b.max;
        }
    }
    return b;
}

static enum td_code qdq_slices(struct td_call *c, const struct levels *l, const struct bounds *given,
                               int64_t axis, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct slices s = make_slices(&x->shape, axis);
    for (int64_t k = 0; k < (td_tensor_count(x) ? s.depth : 0); k++) {
        struct bounds b = given != NULL ? *given
                          : l->clamp    ? (struct bounds){number(c->in[1], k), number(c->in[2], k)}
                                        : bounds_of_slice(x, &s, k);
        TD_FAIL_IF(b.min > b.max && l->clamp, err, INVALID_ARGUMENT,
                   "%s: Invalid range: input_min %g > input_max %g", TD_NODE_STR(c->node), b.min, b.max);
        for (int64_t o = 0; o < s.outer && !td_work_spent(4 * s.inner); o++) {
            int64_t at = (o * s.depth + k) * s.inner;
            if (x->dtype == TD_FLOAT) {
                slice_f32(l, TD_DATA(x, const float) + at, TD_DATA(y, float) + at, s.inner, (float)b.min,
                          (float)b.max);
            } else {
                slice_f64(l, TD_DATA(x, const double) + at, TD_DATA(y, double) + at, s.inner, b.min, b.max);
            }
        }
    }
    return TD_OK;
}

static enum td_code v1_run(struct td_call *c, struct td_err *err)
{
    struct levels l;
    TD_TRY(make_levels(c->node, td_attr_int(c->node, "num_bits"), &l, err));
    struct bounds b = {td_attr_float(c->node, "input_min"), td_attr_float(c->node, "input_max")};
    return qdq_slices(c, &l, l.clamp ? &b : NULL, -1, err);
}

static enum td_code v2_run(struct td_call *c, struct td_err *err)
{
    struct levels l;
    TD_TRY(make_levels(c->node, td_attr_int(c->node, "num_bits"), &l, err));
    return qdq_slices(c, &l, NULL, td_attr_int(c->node, "axis"), err);
}

static enum td_code v3_run(struct td_call *c, struct td_err *err)
{
    struct levels l;
    TD_FAIL_IF(td_tensor_count(c->in[3]) != 1, err, INVALID_ARGUMENT,
               "%s: num_bits must be a scalar, has shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[3]->shape));
    TD_TRY(make_levels(c->node, td_tensor_int(c->in[3], 0), &l, err));
    return qdq_slices(c, &l, NULL, td_attr_int(c->node, "axis"), err);
}

static enum td_code infer_v4_grad(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_axis(c->node, &c->in[1], err));
    TD_TRY(td_infer_equal_shapes(c, err));
    int64_t axis = td_attr_int(c->node, "axis");
    struct td_shape bound =
        axis < 0 ? td_shape_scalar() : td_shape_vector(c->in[1].rank >= 0 ? c->in[1].dim[axis] : -1);
    for (int i = 2; i < 4; i++) {
        TD_FAIL_IF(!td_shape_compatible(&c->in[i], &bound), err, INVALID_ARGUMENT,
                   "%s: %s has shape %s, want %s", TD_NODE_STR(c->node), i == 2 ? "input_min" : "input_max",
                   TD_SHAPE_STR(&c->in[i]), TD_SHAPE_STR(&bound));
        c->out[i - 1] = bound;
    }
    return TD_OK;
}

static enum td_code v4_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[3];
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    for (int i = 1; i < 3; i++) {
        memset(out[i]->data, 0, td_tensor_count(out[i]) ? td_tensor_bytes(out[i]) : 0);
    }
    struct slices s = make_slices(&c->in[1]->shape, td_attr_int(c->node, "axis"));
    int64_t n = td_tensor_count(out[0]);
    size_t size = td_dtype_size(out[0]->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i / s.inner % s.depth;
        double v = number(c->in[1], i);
        bool inside = v >= number(c->in[2], k) && v <= number(c->in[3], k);
        memcpy((char *)out[0]->data + (size_t)i * size, (const char *)c->in[0]->data + (size_t)i * size,
               size);
        if (!inside) {
            memset((char *)out[0]->data + (size_t)i * size, 0, size);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients */

/* As if nothing had been rounded, nor cut off. */
static void straight_grad(struct td_grad *g)
{
    td_grad_pass_on(g, 0, 0);
}

static void v4_grad(struct td_grad *g)
{
    const struct td_value dx = td_f_as(
        g->e, "QuantizeAndDequantizeV4Grad",
        TD_IN(td_grad_at(g, 0), td_grad_in(g, 0), td_grad_in(g, 1), td_grad_in(g, 2)), g->node, "axis");
    for (int i = 0; i < 3; i++) {
        td_grad_give(g, i, td_f_port(dx, i));
    }
}

/* What passes inside of the range and nowhere else does so again; the gradients of the range are zeros. */
static void v4_grad_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_grad_at(g, 0), td_grad_in(g, 1), td_grad_in(g, 2), td_grad_in(g, 3)};
    td_grad_give(g, 0, td_f_as(g->e, "QuantizeAndDequantizeV4Grad", in, 4, g->node, "axis"));
    for (int i = 1; i < 4; i++) {
        if (td_grad_wants(g, i)) {
            td_grad_give(g, i, td_f_zeros_like(g->e, in[i]));
        }
    }
}

/* ------------------------------------------------------------------ the table */

#define ATTRS_V2                                                                                             \
    "{signed_input:bool=true; num_bits:int=8; range_given:bool=false; T:type; "                              \
    "round_mode:string='HALF_TO_EVEN' in "                                                                   \
    "['HALF_TO_EVEN','HALF_UP']; narrow_range:bool=false; axis:int=-1}"
#define KERNEL(fn) TD_KERNEL("quantize_dequantize.cpu", fn, {"T", TD_SET_F32_F64})

const struct td_op td_ops_quantize_dequantize[] = {
    {.name = "QuantizeAndDequantize",
     .sig = "(input:T) -> (output:T) {signed_input:bool=true; num_bits:int=8; range_given:bool=false; "
            "input_min:float=0.0; input_max:float=0.0; T:type}",
     .infer = td_infer_same,
     .kernels = KERNEL(v1_run),
     .grad = straight_grad},
    {.name = "QuantizeAndDequantizeV2",
     .sig = "(input:T, input_min:T, input_max:T) -> (output:T) " ATTRS_V2,
     .infer = infer_qdq,
     .kernels = KERNEL(v2_run),
     .grad = straight_grad},
    {.name = "QuantizeAndDequantizeV3",
     .sig = "(input:T, input_min:T, input_max:T, num_bits:int32) -> (output:T) {signed_input:bool=true; "
            "range_given:bool=true; T:type; narrow_range:bool=false; axis:int=-1}",
     .host_in = 8,
     .infer = infer_qdq,
     .kernels = KERNEL(v3_run),
     .grad = straight_grad},
    {.name = "QuantizeAndDequantizeV4",
     .sig = "(input:T, input_min:T, input_max:T) -> (output:T) " ATTRS_V2,
     .infer = infer_qdq,
     .kernels = KERNEL(v2_run),
     .grad = v4_grad},
    {.name = "QuantizeAndDequantizeV4Grad",
     .sig = "(gradients:T, input:T, input_min:T, input_max:T) -> (input_backprop:T, input_min_backprop:T, "
            "input_max_backprop:T) {T:type; axis:int=-1}",
     .infer = infer_v4_grad,
     .kernels = KERNEL(v4_grad_run),
     .grad = v4_grad_grad},
    {.name = NULL},
};
