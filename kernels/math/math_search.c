/* kernels/math/math_search.c - where values lie: Bucketize, LowerBound, UpperBound, HistogramFixedWidth,
 * InTopK.
 *
 *   Bucketize: input [any shape] of T, attr boundaries (ascending)  ->  output [same shape] of int32
 *   BoostedTreesBucketize: N float vectors and N boundary vectors   ->  N int32 vectors, at most the last
 *                                                                       bucket
 *   LowerBound, UpperBound: sorted_inputs [B, N], values [B, M]     ->  output [B, M], insertion points
 *   HistogramFixedWidth: values, value_range [2], nbins             ->  out [nbins]; values outside go to the
 *                                                                       end bins
 *   InTopK: predictions [B, C] of float, targets [B]                ->  precision [B] of bool
 *
 * Lower bound: the first element not below the value; upper bound (and Bucketize): the first above it.
 * Comparisons with NaN are false, which puts it at 0 and at the end. InTopK is false for a target that is no
 * class and for rows whose better half cannot be told (a prediction that is not finite).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

#include <float.h>
#include <math.h>

/* ------------------------------------------------------------------ LowerBound, UpperBound */

/* First of n ascending elements that is not below v (lower) or is above v (upper). */
typedef int64_t bound_fn(const void *sorted, int64_t n, const void *values, int64_t i, bool upper);

#define BOUND(tag, T, load)                                                                                  \
    static int64_t bound_##tag(const void *sorted, int64_t n, const void *values, int64_t i, bool upper)     \
    {                                                                                                        \
        const T *s = sorted, v = ((const T *)values)[i];                                                     \
        int64_t low = 0;                                                                                     \
        while (n > 0) {                                                                                      \
            int64_t half = n / 2;                                                                            \
            bool right = upper ? !(load(v) < load(s[low + half])) : load(s[low + half]) < load(v);           \
            low += right ? half + 1 : 0;                                                                     \
            n = right ? n - half - 1 : half;                                                                 \
        }                                                                                                    \
        return low;                                                                                          \
    }
BOUND(f32, float, TD_AS_IS)
BOUND(f64, double, TD_AS_IS)
BOUND(f16, td_half, td_half_to_float)
BOUND(bf16, td_bf16, td_bf16_to_float)
BOUND(i8, int8_t, TD_AS_IS)
BOUND(i16, int16_t, TD_AS_IS)
BOUND(i32, int32_t, TD_AS_IS)
BOUND(i64, int64_t, TD_AS_IS)
BOUND(u8, uint8_t, TD_AS_IS)
BOUND(u16, uint16_t, TD_AS_IS)
BOUND(u32, uint32_t, TD_AS_IS)
BOUND(u64, uint64_t, TD_AS_IS)

static enum td_code infer_bound(struct td_infer *c, struct td_err *err)
{
    for (int i = 0; i < 2; i++) {
        TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank != 2, err, INVALID_ARGUMENT,
                   "%s: Shape must be rank 2 but is rank %d for `%s` argument", TD_NODE_STR(c->node),
                   c->in[i].rank, i == 0 ? "sorted_inputs" : "values");
    }
    if (c->in[0].rank == 2 && c->in[1].rank == 2) {
        int64_t a = c->in[0].dim[0], b = c->in[1].dim[0];
        TD_FAIL_IF(a >= 0 && b >= 0 && a != b, err, INVALID_ARGUMENT,
                   "%s: Leading dim_size of both tensors must match, have %lld and %lld",
                   TD_NODE_STR(c->node), (long long)a, (long long)b);
        TD_FAIL_IF(td_attr_type(c->node, "out_type") == TD_INT32 && c->in[0].dim[1] > INT32_MAX, err,
                   INVALID_ARGUMENT,
                   "%s: trailing dim_size must be less than INT_MAX for int32 output type, is %lld",
                   TD_NODE_STR(c->node), (long long)c->in[0].dim[1]);
    }
    return td_shape_merge(&c->in[1], &(struct td_shape){.rank = 2, .dim = {-1, -1}}, &c->out[0], err);
}

static enum td_code bound_run(struct td_call *c, bool upper, struct td_err *err)
{
    static bound_fn *const fns[TD_DTYPE_END] = {TD_ROWS_FLOATS(bound), TD_ROWS_SIGNED(bound),
                                                TD_ROWS_UNSIGNED(bound)};
    const struct td_tensor *sorted = c->in[0], *values = c->in[1];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = sorted->shape.dim[1], m = values->shape.dim[1], count = td_tensor_count(y);
    size_t row_bytes = (size_t)n * td_dtype_size(sorted->dtype);
    for (int64_t i = 0; i < count && !td_work_spent(16); i++) {
        const char *row = n == 0 ? NULL : (const char *)sorted->data + (size_t)(i / m) * row_bytes;
        td_tensor_set_int(y, i, fns[sorted->dtype](row, n, values->data, i, upper));
    }
    return TD_OK;
}

static enum td_code lower_run(struct td_call *c, struct td_err *err)
{
    return bound_run(c, false, err);
}
static enum td_code upper_run(struct td_call *c, struct td_err *err)
{
    return bound_run(c, true, err);
}

/* ------------------------------------------------------------------ Bucketize */

static enum td_code infer_bucketize(struct td_infer *c, struct td_err *err)
{
    int n;
    const float *b = td_attr_floats(c->node, "boundaries", &n);
    for (int i = 1; i < n; i++) {
        TD_FAIL_IF(!(b[i - 1] <= b[i]), err, INVALID_ARGUMENT,
                   "%s: Expected sorted boundaries; %d is %g, %d is %g", TD_NODE_STR(c->node), i - 1,
                   (double)b[i - 1], i, (double)b[i]);
    }
    return td_infer_same(c, err);
}

/* Number of boundaries not above v, compared as float, or as double for doubles. */
static int32_t bucket_of(const struct td_tensor *x, int64_t i, const float *b, int n)
{
    double v = x->dtype == TD_FLOAT    ? (double)TD_DATA(x, const float)[i]
               : x->dtype == TD_DOUBLE ? TD_DATA(x, const double)[i]
                                       : (double)(float)td_tensor_int(x, i);
    int low = 0;
    while (n > 0) {
        int half = n / 2;
        bool right = !(v < (double)b[low + half]);
        low += right ? half + 1 : 0;
        n = right ? n - half - 1 : half;
    }
    return low;
}

static enum td_code bucketize_run(struct td_call *c, struct td_err *err)
{
    int n;
    const float *b = td_attr_floats(c->node, "boundaries", &n);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t count = td_tensor_count(y);
    for (int64_t i = 0; i < count && !td_work_spent(16); i++) {
        TD_DATA(y, int32_t)[i] = bucket_of(c->in[0], i, b, n);
    }
    return TD_OK;
}

static enum td_code infer_trees(struct td_infer *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        TD_TRY(td_infer_rank(c, c->n_out + i, 1, err));
        c->out[i] = c->in[i];
    }
    return TD_OK;
}

static enum td_code trees_run(struct td_call *c, struct td_err *err)
{
    for (int f = 0; f < c->n_out; f++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, f, NULL, &y, err));
        const struct td_tensor *x = c->in[f], *b = c->in[c->n_out + f];
        int64_t n = td_tensor_count(x), last = td_tensor_count(b) - 1;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = bound_f32(b->data, last + 1, x->data, i, false);
            TD_DATA(y, int32_t)[i] = (int32_t)(at > last ? (last < 0 ? 0 : last) : at);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ HistogramFixedWidth */

static enum td_code infer_histogram(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t bins;
    struct td_shape two = td_shape_vector(2);
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &two), err, INVALID_ARGUMENT,
               "%s: value_range should be a vector of 2 elements, has shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    TD_FAIL_IF(c->in[2].rank > 0, err, INVALID_ARGUMENT, "%s: nbins should be a scalar, has shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[2]));
    TD_TRY(td_infer_int_value(c, 2, &known, &bins, err));
    TD_FAIL_IF(known && bins <= 0, err, INVALID_ARGUMENT,
               "%s: nbins should be a positive number, but got '%lld'", TD_NODE_STR(c->node),
               (long long)bins);
    c->out[0] = td_shape_vector(known ? bins : -1);
    return TD_OK;
}

/* The bins of n floats; false when one is NaN. */
TD_CLONES static bool bins_of(const float *x, int64_t n, double low, double step, double bins,
                              int32_t *restrict bin)
{
    int32_t numbers = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], above = (double)(float)((v > low ? v : low) - low), at = above / step;
        bin[i] = (int32_t)(at < bins ? at : bins - 1);
        numbers += x[i] == x[i];
    }
    return numbers == n;
}

static enum td_code histogram_floats(struct td_call *c, double low, double step, int64_t bins, int32_t *count,
                                     struct td_err *err)
{
    enum { CHUNK = 256 };
    int32_t bin[CHUNK];
    const float *x = c->in[0]->data;
    for (int64_t i = 0, n = td_tensor_count(c->in[0]); i < n && !td_work_spent(CHUNK); i += CHUNK) {
        int64_t most = n - i < CHUNK ? n - i : CHUNK;
        TD_FAIL_IF(!bins_of(x + i, most, low, step, (double)bins, bin), err, INVALID_ARGUMENT,
                   "%s: Histogram values must not contain NaN; one of elements %lld to %lld is",
                   TD_NODE_STR(c->node), (long long)i, (long long)(i + most - 1));
        for (int64_t k = 0; k < most; k++) {
            count[bin[k]]++;
        }
    }
    return TD_OK;
}

static enum td_code histogram_run(struct td_call *c, struct td_err *err)
{
    double low = td_upcast_at(c->in[1], 0), high = td_upcast_at(c->in[1], 1);
    TD_FAIL_IF(!(low < high), err, INVALID_ARGUMENT,
               "%s: value_range should satisfy value_range[0] < value_range[1], but got '[%g, %g]'",
               TD_NODE_STR(c->node), low, high);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    memset(y->data, 0, td_tensor_bytes(y));
    int64_t bins = td_tensor_count(y), n = td_tensor_count(c->in[0]);
    double step = (high - low) / (double)bins;
    if (c->in[0]->dtype == TD_FLOAT && y->dtype == TD_INT32 && bins < INT32_MAX) {
        return histogram_floats(c, low, step, bins, TD_DATA(y, int32_t), err);
    }
    for (int64_t i = 0; i < n; i++) {
        double v = td_upcast_at(c->in[0], i);
        TD_FAIL_IF(v != v, err, INVALID_ARGUMENT,
                   "%s: Histogram values must not contain NaN; element %lld is", TD_NODE_STR(c->node),
                   (long long)i);
        double above = (v > low ? v : low) - low;
        above = c->in[0]->dtype == TD_FLOAT ? (double)(float)above : above; /* TensorFlow subtracts in T */
        double at = above / step;
        int64_t bin = at < (double)bins ? (int64_t)at : bins - 1;
        td_tensor_set_int(y, bin, td_tensor_int(y, bin) + 1);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ InTopK */

static enum td_code infer_in_top(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank != 2, err, INVALID_ARGUMENT,
               "%s: predictions must be 2-dimensional, have shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
               "%s: targets must be 1-dimensional, have shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    TD_FAIL_IF(c->n_in > 2 && c->in[2].rank > 0, err, INVALID_ARGUMENT, "%s: k must be 0-D, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[2]));
    struct td_shape rows = td_shape_vector(c->in[0].rank == 2 ? c->in[0].dim[0] : -1);
    TD_FAIL_IF(!td_shape_compatible(&rows, &c->in[1]), err, INVALID_ARGUMENT,
               "%s: First dimension of predictions %lld must match length of targets %lld",
               TD_NODE_STR(c->node), (long long)rows.dim[0], (long long)c->in[1].dim[0]);
    return td_shape_merge(&rows, &c->in[1], &c->out[0], err);
}

enum { RUN = 1 << 20 };

/* Fewer than k classes are more probable than the target, and that can be told. */
TD_CLONES static bool in_top(const float *p, int64_t classes, int64_t target, int64_t k)
{
    if (target < 0 || target >= classes || !isfinite(p[target])) {
        return false;
    }
    int64_t better = 0;
    for (int64_t from = 0; from < classes;
         from += RUN) { /* counted in 32 bits, which lanes of floats match */
        int64_t n = classes - from < RUN ? classes - from : RUN;
        int32_t above = 0, finite = 0;
        for (int64_t i = from; i < from + n; i++) {
            above += p[i] > p[target];
            finite += fabsf(p[i]) <= FLT_MAX;
        }
        if (finite < n) {
            return false;
        }
        better += above;
    }
    return better < k;
}

static enum td_code in_top_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *p = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t rows = p->shape.dim[0], classes = p->shape.dim[1];
    int64_t k = c->n_in > 2 ? td_tensor_int(c->in[2], 0) : td_attr_int(c->node, "k");
    for (int64_t r = 0; r < rows && !td_work_spent(classes); r++) {
        TD_DATA(y, td_bool)
        [r] = in_top(TD_DATA(p, const float) + r * classes, classes, td_tensor_int(c->in[1], r), k);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define SET_BUCKETS (TD_SET_INDEX | TD_SET_F32_F64)
#define ROW_BOUND(op_name, fn)                                                                               \
    {                                                                                                        \
        .name = op_name,                                                                                     \
        .sig = "(sorted_inputs:T, values:T) -> (output:out_type) {T:type; out_type:type=int32}",             \
        .batchable = TD_BATCHABLE(td_batchable_keys), .infer = infer_bound,                                  \
        .kernels = TD_KERNEL("math_search.cpu", fn, {"T", TD_SET_REALS}, {"out_type", TD_SET_INDEX})         \
    }

const struct td_op td_ops_math_search[] = {
    ROW_BOUND("LowerBound", lower_run),
    ROW_BOUND("UpperBound", upper_run),
    {.name = "Bucketize",
     .sig = "(input:T) -> (output:int32) {T:type; boundaries:list(float)}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = infer_bucketize,
     .kernels = TD_KERNEL("math_search.cpu", bucketize_run, {"T", SET_BUCKETS})},
    {.name = "BoostedTreesBucketize",
     .sig = "(float_values:num_features*float, bucket_boundaries:num_features*float) -> "
            "(buckets:num_features*int32) "
            "{num_features:int}",
     .infer = infer_trees,
     .kernels = TD_KERNEL("math_search.cpu", trees_run, {NULL, 0})},
    {.name = "HistogramFixedWidth",
     .sig = "(values:T, value_range:T, nbins:int32) -> (out:dtype) {T:type; dtype:type=int32}",
     .host_in = 1u << 2,
     .infer = infer_histogram,
     .kernels = TD_KERNEL("math_search.cpu", histogram_run, {"T", SET_BUCKETS}, {"dtype", TD_SET_INDEX})},
    {.name = "InTopK",
     .sig = "(predictions:float, targets:T) -> (precision:bool) {k:int; T:type=int32}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = infer_in_top,
     .kernels = TD_KERNEL("math_search.cpu", in_top_run, {"T", TD_SET_INDEX})},
    {.name = "InTopKV2",
     .sig = "(predictions:float, targets:T, k:T) -> (precision:bool) {T:type=int32}",
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = infer_in_top,
     .kernels = TD_KERNEL("math_search.cpu", in_top_run, {"T", TD_SET_INDEX})},
    {.name = NULL},
};
