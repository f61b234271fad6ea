/* kernels/nn/quantized_range.c - levels of quantized numbers over another range, and what needs one common
 * range.
 *
 *   Requantize                  32-bit levels -> 8-bit ones over a given range
 *   RequantizationRange         the range that 32-bit levels really span
 *   QuantizeDownAndShrinkRange  both
 *   QuantizedConcat             parts over ranges of their own -> one range that holds them all
 *   QuantizedAdd, QuantizedMul  8-bit levels, broadcast -> 32-bit ones
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "core/graph/graph.h"
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/nn/quantized.h"
#include "kernels/cpu/strided.h"

/* ------------------------------------------------------------------ other ranges */

/* From 32 bits to 8 unsigned ones TensorFlow counts in fixed point, with this many bits behind it. */
enum { POINT = 16 };

static int64_t fixed(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; /* as x86 converts */
}

static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void requantize_fixed(const struct td_tensor *x, float min, float max, struct td_tensor *y,
                             float to_min, float to_max)
{
    const float range = max - min, to_range = to_max - to_min;
    const float per_step = to_range == 0 ? 0 : (float)(255.0 / (double)to_range);
    const float middle = (float)((double)(min + max) / 2.0);
    const double one = 1 << POINT;
    const int64_t scale = to_range == 0 ? 0 : fixed(255.0 * one * (double)range / (double)to_range);
    const int64_t low = to_range == 0 ? 0 : fixed(one * ((double)to_min * 255.0) / (double)to_range);
    const int64_t shift = add(
        add(fixed((double)(middle * per_step * (float)one)), (int64_t)(0 - (uint64_t)low)), 1 << (POINT - 1));
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        const int64_t v = (int64_t)((uint64_t)TD_DATA(x, const int32_t)[i] * (uint64_t)scale) >> 32;
        const int64_t level = add(v, shift) >> POINT;
        TD_DATA(y, uint8_t)[i] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
    }
}

/* Input 0 over the range inputs 1 and 2 becomes y over [min, max]. */
static void requantize_all(const struct td_call *c, struct td_tensor *y, float min, float max)
{
    const struct td_tensor *x = c->in[0];
    const float from = td_quantized_float(c, 1), to = td_quantized_float(c, 2);
    if (y->dtype == TD_QUINT8) {
        requantize_fixed(x, from, to, y, min, max);
        return;
    }
    const struct td_requantizer q = td_requantizer_make(x->dtype, from, to, y->dtype, min, max);
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        td_tensor_set_int(y, i, td_requantizer_level(&q, td_quantized_get(x, i)));
    }
}

static enum td_code requantize_run(struct td_call *c, struct td_err *err)
{
    const float min = td_quantized_float(c, 3), max = td_quantized_float(c, 4);
    struct td_tensor *y;
    TD_FAIL_IF(!(min <= 0), err, INVALID_ARGUMENT, "%s: requested_output_min must be <= 0, but got %g",
               TD_NODE_STR(c->node), (double)min);
    TD_FAIL_IF(!(max >= min), err, INVALID_ARGUMENT,
               "%s: requested_output_max must be >= requested_output_min, but got %g and %g",
               TD_NODE_STR(c->node), (double)max, (double)min);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_quantized_out_range(c, min, max, err));
    requantize_all(c, y, min, max);
    return TD_OK;
}

/* What the levels of input 0 span; the least is at most 0. */
static void used_range(const struct td_call *c, float *min, float *max)
{
    const struct td_tensor *x = c->in[0];
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        const int32_t v = td_quantized_get(x, i);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    const float from = td_quantized_float(c, 1), to = td_quantized_float(c, 2);
    *min = td_quantized_value(x->dtype, low, from, to);
    *min = *min < 0 ? *min : 0;
    *max = td_quantized_value(x->dtype, high, from, to);
}

static enum td_code range_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 1, 0, err));
    TD_TRY(td_infer_rank(c, 2, 0, err));
    c->out[0] = c->out[1] = td_shape_scalar();
    return TD_OK;
}

static enum td_code range_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *min, *max;
    TD_TRY(td_out(c, 0, NULL, &min, err));
    TD_TRY(td_out(c, 1, NULL, &max, err));
    used_range(c, TD_DATA(min, float), TD_DATA(max, float));
    return TD_OK;
}

static enum td_code shrink_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    float min, max;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    used_range(c, &min, &max);
    TD_TRY(td_quantized_out_range(c, min, max, err));
    requantize_all(c, y, min, max);
    return TD_OK;
}

/* ------------------------------------------------------------------ concatenation */

/* Inputs: the axis, N parts, N least, N greatest values. */
static int parts_of(int n_in)
{
    return (n_in - 1) / 3;
}

static enum td_code concat_infer(struct td_infer *c, struct td_err *err)
{
    const int n = parts_of(c->n_in);
    bool known;
    int64_t asked;
    struct td_shape out = td_shape_unknown();
    TD_FAIL_IF(n < 2, err, INVALID_ARGUMENT, "%s: attribute N is %d, the least is 2", TD_NODE_STR(c->node),
               n);
    TD_TRY(td_quantized_infer_range(c, 1 + n, c->n_in, err));
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_TRY(td_infer_int_value(c, 0, &known, &asked, err));
    for (int i = 1; known && i <= n; i++) {
        struct td_shape part = c->in[i];
        if (part.rank < 0) {
            return TD_OK;
        }
        TD_FAIL_IF(asked < 0 || asked >= part.rank, err, INVALID_ARGUMENT,
                   "%s: ConcatOp : Expected concatenating dimensions in the range [0, %d), but got %lld",
                   TD_NODE_STR(c->node), part.rank, (long long)asked);
        const int64_t sum = out.rank > asked ? out.dim[asked] : 0, more = part.dim[asked];
        part.dim[asked] = -1;
        if (out.rank > asked) {
            out.dim[asked] = -1;
        }
        TD_FAIL_IF(!td_shape_compatible(&out, &part), err, INVALID_ARGUMENT,
                   "%s: ConcatOp : Dimensions of inputs should match: shape[0] = %s vs. shape[%d] = %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]), i - 1, TD_SHAPE_STR(&c->in[i]));
        TD_TRY(td_shape_merge(&out, &part, &out, err));
        if (sum < 0 || more < 0 || !td_i64_add(sum, more, &out.dim[asked])) {
            out.dim[asked] = -1;
        }
    }
    c->out[0] = out;
    return TD_OK;
}

/* Copies part i, a piece of `chunk` elements a row, into rows of `pitch` elements of y from `at` on. */
static void concat_part(const struct td_call *c, int i, const struct td_requantizer *q, struct td_tensor *y,
                        int64_t chunk, int64_t pitch, int64_t at)
{
    const struct td_tensor *x = c->in[1 + i];
    for (int64_t k = 0, n = td_tensor_count(x); k < n; k++) {
        const int32_t level = td_quantized_get(x, k);
        td_tensor_set_int(y, k / chunk * pitch + at + k % chunk, q ? td_requantizer_level(q, level) : level);
    }
}

static enum td_code concat_run(struct td_call *c, struct td_err *err)
{
    const int n = parts_of(c->n_in), axis = (int)td_tensor_int(c->in[0], 0);
    float min = FLT_MAX, max = -FLT_MAX;
    struct td_tensor *y;
    for (int i = 0; i < n; i++) {
        min = fminf(min, td_quantized_float(c, 1 + n + i));
        max = fmaxf(max, td_quantized_float(c, 1 + 2 * n + i));
    }
    if (c->in[1]->dtype == TD_QINT32) { /* signed levels: as far to both sides */
        max = fmaxf(fabsf(min), fabsf(max));
        min = -max;
    } else { /* one level is 0.0, where it does not lie above all */
        min = fminf(min, 0);
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_quantized_out_range(c, min, max, err));
    const int64_t inner = td_shape_range(&y->shape, axis + 1, y->shape.rank);
    int64_t at = 0;
    for (int i = 0; i < n && td_tensor_count(y) > 0; i++) {
        const float from = td_quantized_float(c, 1 + n + i), to = td_quantized_float(c, 1 + 2 * n + i);
        const struct td_requantizer q = td_requantizer_make(y->dtype, from, to, y->dtype, min, max);
        const int64_t chunk = c->in[1 + i]->shape.dim[axis];
        concat_part(c, i, from == min && to == max ? NULL : &q, y, chunk * inner, y->shape.dim[axis] * inner,
                    at * inner);
        at += chunk;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ sums and products of elements */

static enum td_code binary_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_quantized_infer_range(c, 2, 6, err));
    return td_infer_broadcast(c, err);
}

/* Levels of input i over the range inputs 2 + 2i and 3 + 2i, each made an int32 by a table of 256, spread to
 * y's shape in scratch. */
static enum td_code spread(struct td_call *c, int i, const int32_t table[256], const struct td_shape *to,
                           int32_t **out, struct td_err *err)
{
    const struct td_tensor *x = c->in[i];
    const int64_t n = td_tensor_count(x);
    struct td_strided w = {.rank = 0};
    void *own, *room;
    TD_TRY(td_scratch(c, (size_t)n * sizeof **out, &own, err));
    TD_TRY(td_scratch(c, (size_t)td_shape_count(to) * sizeof **out, &room, err));
    for (int64_t k = 0; k < n; k++) {
        ((int32_t *)own)[k] = table[TD_DATA(x, const uint8_t)[k]];
    }
    for (int d = 0; d < to->rank; d++) {
        const int own_d = d - (to->rank - x->shape.rank);
        const bool stays = own_d < 0 || x->shape.dim[own_d] == 1;
        td_strided_push(&w, to->dim[d], td_shape_range(to, d + 1, to->rank),
                        stays ? 0 : td_shape_range(&x->shape, own_d + 1, x->shape.rank));
    }
    td_strided_copy(TD_INT32, &w, room, own);
    *out = room;
    return TD_OK;
}

static enum td_code spread_both(struct td_call *c, int32_t table[2][256], struct td_tensor **y,
                                int32_t *out[2], struct td_err *err)
{
    TD_TRY(td_quantized_ordered(c, 2, err));
    TD_TRY(td_quantized_ordered(c, 4, err));
    TD_TRY(td_out(c, 0, NULL, y, err));
    for (int i = 0; i < 2; i++) {
        TD_TRY(spread(c, i, table[i], &(*y)->shape, &out[i], err));
    }
    return TD_OK;
}

/* Level k of input i over [-bound, bound], as TensorFlow finds it: by itself in the first input of one
 * element, else from levels 0 and 1, on a line. */
static int32_t level_in_sum(const struct td_call *c, int i, int64_t k, float bound)
{
    const float min = td_quantized_float(c, 2 + 2 * i), max = td_quantized_float(c, 3 + 2 * i);
    const enum td_dtype t = c->in[i]->dtype;
    if (td_tensor_count(c->in[i]) == 1 && (i == 0 || td_tensor_count(c->in[0]) != 1)) {
        return td_quantized_level_in(TD_QINT32, td_quantized_value(t, k, min, max), -bound, bound);
    }
    const int64_t zero = td_quantized_level(TD_QINT32, td_quantized_value(t, 0, min, max), -bound, bound);
    const int64_t one = td_quantized_level(TD_QINT32, td_quantized_value(t, 1, min, max), -bound, bound);
    const int64_t step = (int32_t)(uint32_t)((uint64_t)one - (uint64_t)zero);
    const int64_t v = (int64_t)((uint64_t)zero + (uint64_t)(k * step));
    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

static enum td_code add_run(struct td_call *c, struct td_err *err)
{
    int32_t table[2][256], *part[2];
    struct td_tensor *y;
    const float least = fminf(td_quantized_float(c, 2), td_quantized_float(c, 4));
    const float most = fmaxf(td_quantized_float(c, 3), td_quantized_float(c, 5));
    const float bound = fmaxf(fabsf(least), fabsf(most)) * (1 << 14);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 256; k++) {
            table[i][k] = level_in_sum(c, i, k, bound);
        }
    }
    TD_TRY(spread_both(c, table, &y, part, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        TD_DATA(y, int32_t)[i] = (int32_t)((uint32_t)part[0][i] + (uint32_t)part[1][i]);
    }
    return td_quantized_out_range(c, -bound, bound, err);
}

static enum td_code mul_run(struct td_call *c, struct td_err *err)
{
    int32_t table[2][256], *part[2];
    struct td_tensor *y;
    float min, max;
    for (int i = 0; i < 2; i++) {
        const uint64_t zero = (uint64_t)td_quantized_level(
            c->in[i]->dtype, 0, td_quantized_float(c, 2 + 2 * i), td_quantized_float(c, 3 + 2 * i));
        for (uint32_t k = 0; k < 256; k++) {
            table[i][k] = (int32_t)(k - (uint32_t)zero);
        }
    }
    TD_TRY(spread_both(c, table, &y, part, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        TD_DATA(y, int32_t)[i] = (int32_t)((uint32_t)part[0][i] * (uint32_t)part[1][i]);
    }
    td_quantized_product_range(c, 2, &min, &max);
    return td_quantized_out_range(c, min, max, err);
}

/* ------------------------------------------------------------------ the table */

#define FROM_32                                                                                              \
    {                                                                                                        \
        "Tinput", TD_BIT(TD_QINT32)                                                                          \
    }
#define BINARY_SIG                                                                                           \
    "(x:T1, y:T2, min_x:float, max_x:float, min_y:float, max_y:float) -> "                                   \
    "(z:Toutput, min_z:float, max_z:float) {T1:type; T2:type; Toutput:type=qint32}"
#define BINARY(opname, fn)                                                                                   \
    {                                                                                                        \
        .name = opname, .sig = BINARY_SIG, .infer = binary_infer,                                            \
        .kernels = TD_KERNEL("quantized.cpu", fn, {"T1", TD_BIT(TD_QUINT8)}, {"T2", TD_BIT(TD_QUINT8)},      \
                             {"Toutput", TD_BIT(TD_QINT32)})                                                 \
    }

const struct td_op td_ops_quantized_range[] = {
    {.name = "Requantize",
     .sig = "(input:Tinput, input_min:float, input_max:float, requested_output_min:float, "
            "requested_output_max:float) -> (output:out_type, output_min:float, output_max:float) "
            "{Tinput:type; out_type:type}",
     .infer = td_quantized_infer_same,
     .kernels = TD_KERNEL("quantized.cpu", requantize_run, FROM_32,
                          {"out_type", TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT8)})},
    {.name = "RequantizationRange",
     .sig = "(input:Tinput, input_min:float, input_max:float) -> (output_min:float, output_max:float) "
            "{Tinput:type}",
     .infer = range_infer,
     .kernels = TD_KERNEL("quantized.cpu", range_run, FROM_32)},
    {.name = "QuantizeDownAndShrinkRange",
     .sig = "(input:Tinput, input_min:float, input_max:float) -> "
            "(output:out_type, output_min:float, output_max:float) {Tinput:type; out_type:type}",
     .infer = td_quantized_infer_same,
     .kernels = TD_KERNEL("quantized.cpu", shrink_run, FROM_32, {"out_type", TD_BIT(TD_QUINT8)})},
    {.name = "QuantizedConcat",
     .sig = "(concat_dim:int32, values:N*T, input_mins:N*float, input_maxes:N*float) -> "
            "(output:T, output_min:float, output_max:float) {N:int; T:type}",
     .host_in = 1,
     .infer = concat_infer,
     .kernels = TD_KERNEL("quantized.cpu", concat_run, {"T", TD_BIT(TD_QUINT8) | TD_BIT(TD_QINT32)})},
    BINARY("QuantizedAdd", add_run),
    BINARY("QuantizedMul", mul_run),
    {.name = NULL},
};
