/* kernels/math/segment_sparse.c - segments of rows picked by index, without gathering them first.
 *
 *   SparseSegment{Sum,Mean,SqrtN}   data [n, I..]  indices [m]  ids [m] sorted  ->  [last id + 1, I..]
 *   ...WithNumSegments              -> [num_segments, I..];  rows without ids are 0
 *   ...Grad                     grad [s, I..]  ->  [output_dim0, I..]: y[indices[i]] += grad[ids[i]] * scale
 *   ...GradV2                       only the rows that indices name, in order of index, and those indices
 *
 * scale is 1, 1 / count or 1 / sqrt(count) of the segment. half and bfloat16 accumulate in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/array_types.h"
#include "kernels/cpu/combine.h"
#include "kernels/ops.h"
#include "kernels/math/segment_grad.h"
#include "kernels/cpu/strided.h"

enum scaling { SUM, MEAN, SQRT_N };

static double scale_of(enum scaling s, int64_t count)
{
    return s == SUM ? 1 : s == MEAN ? 1.0 / (double)count : 1.0 / sqrt((double)count);
}

static struct td_shape with_rows(const struct td_shape *s, int64_t rows)
{
    struct td_shape out = *s;
    out.dim[0] = rows;
    return out;
}

/* data (or grad) has rows; indices and segment_ids are vectors of one length; input 3 is a scalar, if
 * there. */
static enum td_code check_inputs(const struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank == 0, err, INVALID_ARGUMENT, "%s: Shape must be at least rank 1, got []",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 1, err, INVALID_ARGUMENT,
               "%s: indices should be a vector.", TD_NODE_STR(c->node));
    TD_FAIL_IF(c->in[2].rank >= 0 && c->in[2].rank != 1, err, INVALID_ARGUMENT,
               "%s: segment_ids should be a vector.", TD_NODE_STR(c->node));
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &c->in[2]), err, INVALID_ARGUMENT,
               "%s: segment_ids and indices should have same size.", TD_NODE_STR(c->node));
    TD_FAIL_IF(c->n_in > 3 && c->in[3].rank > 0, err, INVALID_ARGUMENT,
               "%s: input 3 should be a scalar, not shape %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[3]));
    return TD_OK;
}

/* ------------------------------------------------------------------ forward */

static enum td_code sparse_infer(struct td_infer *c, struct td_err *err)
{
    int64_t rows = -1;
    bool known = false;
    TD_TRY(check_inputs(c, err));
    if (c->n_in > 3) {
        TD_TRY(td_infer_int_value(c, 3, &known, &rows, err));
        TD_FAIL_IF(known && rows < 0, err, INVALID_ARGUMENT,
                   "%s: segment ids must be >= 0, num_segments is %lld", TD_NODE_STR(c->node),
                   (long long)rows);
    } else if (c->value[2] != NULL) {
        const int64_t m = td_tensor_count(c->value[2]);
        rows = m > 0 ? td_tensor_int(c->value[2], m - 1) : -1;
        known = rows >= -1 && rows < INT64_MAX; /* else refused when it runs, as wrong ids are */
        rows += known;
    }
    if (c->in[0].rank > 0) {
        c->out[0] = with_rows(&c->in[0], known ? rows : -1);
    }
    return TD_OK;
}

/* Number of result rows; every index and id is looked at. */
static enum td_code check_ids(const struct td_call *c, int64_t *rows, struct td_err *err)
{
    const struct td_tensor *indices = c->in[1], *ids = c->in[2];
    const int64_t m = td_tensor_count(ids), limit = c->in[0]->shape.dim[0];
    const int64_t last = m > 0 ? td_tensor_int(ids, m - 1) : -1;
    *rows = c->n_in > 3 ? td_tensor_int(c->in[3], 0) : last + 1;
    TD_FAIL_IF(last == INT64_MAX || (c->n_in > 3 && last >= *rows), err, INVALID_ARGUMENT,
               "%s: segment ids must be < num_segments: %lld", TD_NODE_STR(c->node), (long long)last);
    int64_t before = 0;
    for (int64_t i = 0; i < m; i++) {
        const int64_t id = td_tensor_int(ids, i), at = td_tensor_int(indices, i);
        TD_FAIL_IF(
            id < 0, err, INVALID_ARGUMENT,
            "%s: Segment id %lld out of range [0, %lld), possibly because 'segment_ids' input is not sorted.",
            TD_NODE_STR(c->node), (long long)id, (long long)*rows);
        TD_FAIL_IF(id < before, err, INVALID_ARGUMENT, "%s: segment ids are not increasing: %lld after %lld",
                   TD_NODE_STR(c->node), (long long)id, (long long)before);
        TD_FAIL_IF(at < 0 || at >= limit, err, INVALID_ARGUMENT,
                   "%s: Bad: indices[%lld] == %lld out of range [0, %lld)", TD_NODE_STR(c->node),
                   (long long)i, (long long)at, (long long)limit);
        before = id;
    }
    return TD_OK;
}

/* One segment: indices [from, to) of `rows_of` summed into out, times scale. acc: `inner` floats. */
struct sum {
    const struct td_tensor *rows_of, *indices;
    int64_t inner;
    float *acc;
};

#define SUM_SMALL(name, T, up, down)                                                                         \
    static void name(const struct sum *s, int64_t from, int64_t to, float scale, T *out)                     \
    {                                                                                                        \
        memset(s->acc, 0, (size_t)s->inner * sizeof(float));                                                 \
        for (int64_t i = from; i < to; i++) {                                                                \
            const T *row = TD_DATA(s->rows_of, const T) + td_tensor_int(s->indices, i) * s->inner;           \
            for (int64_t k = 0; k < s->inner; k++) {                                                         \
                s->acc[k] += up(row[k]);                                                                     \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = 0; k < s->inner; k++) {                                                             \
            out[k] = down(s->acc[k] * scale);                                                                \
        }                                                                                                    \
    }
SUM_SMALL(sum_half, td_half, td_half_to_float, td_float_to_half)
SUM_SMALL(sum_bf16, td_bf16, td_bf16_to_float, td_float_to_bf16)

static void sum_segment(const struct sum *s, int64_t from, int64_t to, double scale, void *out)
{
    const enum td_dtype dtype = s->rows_of->dtype;
    if (dtype == TD_HALF || dtype == TD_BFLOAT16) {
        (dtype == TD_HALF ? sum_half(s, from, to, (float)scale, out)
                          : sum_bf16(s, from, to, (float)scale, out));
        return;
    }
    const int64_t size = s->inner * (int64_t)td_dtype_size(dtype);
    for (int64_t i = from; i < to; i++) {
        const char *row = (const char *)s->rows_of->data + td_tensor_int(s->indices, i) * size;
        td_combine_run(i == from ? TD_COMBINE_UPDATE : TD_COMBINE_ADD, dtype, out, row, s->inner, 1);
    }
    for (int64_t k = 0; scale != 1 && k < s->inner; k++) {
        if (dtype == TD_FLOAT) {
            ((float *)out)[k] *= (float)scale;
        } else {
            ((double *)out)[k] *= scale;
        }
    }
}

static enum td_code sparse_reduce(struct td_call *c, enum scaling scaling, struct td_err *err)
{
    const struct td_tensor *data = c->in[0], *ids = c->in[2];
    int64_t rows;
    TD_TRY(check_ids(c, &rows, err));
    const struct td_shape shape = with_rows(&data->shape, rows);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, &shape, &y, err));
    const int64_t m = td_tensor_count(ids);
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct sum s = {.rows_of = data, .indices = c->in[1], .inner = td_shape_range(&shape, 1, shape.rank)};
    void *acc;
    TD_TRY(td_scratch(c, (size_t)s.inner * sizeof(float), &acc, err));
    s.acc = acc;
    td_strided_zero(y->dtype, y->data, td_tensor_count(y));
    for (int64_t from = 0, to = 0; from < m; from = to) {
        const int64_t id = td_tensor_int(ids, from);
        while (to < m && td_tensor_int(ids, to) == id) {
            to++;
        }
        sum_segment(&s, from, to, scale_of(scaling, to - from),
                    (char *)y->data + id * s.inner * (int64_t)td_dtype_size(y->dtype));
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients */

static enum td_code grad_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t rows = -1;
    TD_TRY(check_inputs(c, err));
    TD_TRY(td_infer_int_value(c, 3, &known, &rows, err));
    TD_FAIL_IF(known && rows < 0, err, INVALID_ARGUMENT, "%s: output_dim0 must be >= 0, got %lld",
               TD_NODE_STR(c->node), (long long)rows);
    if (c->in[0].rank > 0) {
        c->out[0] = with_rows(&c->in[0], known && c->n_out == 1 ? rows : -1);
    }
    if (c->n_out > 1) {
        c->out[1] = td_shape_vector(-1);
    }
    return TD_OK;
}

/* Checks indices and ids; count[s] is how many ids name segment s. */
static enum td_code count_ids(struct td_call *c, int64_t **count, struct td_err *err)
{
    const struct td_tensor *indices = c->in[1], *ids = c->in[2];
    const int64_t m = td_tensor_count(ids), segments = c->in[0]->shape.dim[0],
                  limit = td_tensor_int(c->in[3], 0);
    void *mem;
    TD_FAIL_IF(segments > INT32_MAX, err, INVALID_ARGUMENT, "%s: %lld segments are too many",
               TD_NODE_STR(c->node), (long long)segments);
    TD_TRY(td_scratch(c, (size_t)segments * sizeof(int64_t) + 1, &mem, err));
    *count = mem;
    memset(mem, 0, (size_t)segments * sizeof(int64_t));
    for (int64_t i = 0; i < m; i++) {
        const int64_t id = td_tensor_int(ids, i), at = td_tensor_int(indices, i);
        TD_FAIL_IF(id < 0 || id >= segments, err, INVALID_ARGUMENT,
                   "%s: Segment id %lld out of range [0, %lld).", TD_NODE_STR(c->node), (long long)id,
                   (long long)segments);
        TD_FAIL_IF(at < 0 || at >= limit, err, INVALID_ARGUMENT, "%s: Index %lld out of range [0, %lld).",
                   TD_NODE_STR(c->node), (long long)at, (long long)limit);
        (*count)[id]++;
    }
    return TD_OK;
}

/* Halves are summed as floats. */
#define ADD_SCALED(dt, T, D, expr)                                                                           \
    case dt: {                                                                                               \
        D *restrict d = dst;                                                                                 \
        const T *restrict s = src;                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            d[i] = (expr);                                                                                   \
        }                                                                                                    \
        break;                                                                                               \
    }

static void add_scaled(enum td_dtype dtype, void *dst, const void *src, int64_t n, double by)
{
    const float f = (float)by;
    switch (dtype) {
        ADD_SCALED(TD_FLOAT, float, float, d[i] + s[i] * f)
        ADD_SCALED(TD_DOUBLE, double, double, d[i] + s[i] * by)
        ADD_SCALED(TD_HALF, td_half, float, d[i] + td_half_to_float(s[i]) * f)
        ADD_SCALED(TD_BFLOAT16, td_bf16, float, d[i] + td_bf16_to_float(s[i]) * f)
    default:
        break;
    }
}

/* Adds every picked gradient row to its row of sums (y's data, or floats where it is of halves); sorted (n of
 * them) maps indices to rows, NULL: they are rows. */
static void add_rows(const struct td_call *c, enum scaling scaling, const int64_t *count,
                     const int64_t *sorted, int64_t n, bool small, char *sums)
{
    const struct td_tensor *grad = c->in[0];
    const int64_t m = td_tensor_count(c->in[2]), inner = td_shape_range(&grad->shape, 1, grad->shape.rank);
    const int64_t size = inner * (int64_t)td_dtype_size(grad->dtype);
    for (int64_t i = 0; i < m; i++) {
        const int64_t id = td_tensor_int(c->in[2], i);
        int64_t at = td_tensor_int(c->in[1], i);
        if (sorted != NULL) {
            int64_t low = 0, high = n - 1;
            while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if (sorted[middle] < at) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            at = low;
        }
        add_scaled(grad->dtype, sums + at * (small ? inner * (int64_t)sizeof(float) : size),
                   (const char *)grad->data + id * size, inner, scale_of(scaling, count[id]));
    }
}

static enum td_code fill_grad(struct td_call *c, enum scaling scaling, const int64_t *count,
                              const int64_t *sorted, int64_t n, struct td_tensor *y, struct td_err *err)
{
    const int64_t all = td_tensor_count(y);
    const bool small = y->dtype == TD_HALF || y->dtype == TD_BFLOAT16;
    void *sums = y->data;
    if (all == 0) {
        return TD_OK;
    }
    if (small) {
        TD_TRY(td_scratch(c, (size_t)all * sizeof(float), &sums, err));
    }
    td_strided_zero(small ? TD_FLOAT : y->dtype, sums, all);
    add_rows(c, scaling, count, sorted, n, small, sums);
    for (int64_t i = 0; small && i < all; i++) {
        const float v = ((const float *)sums)[i];
        if (y->dtype == TD_HALF) {
            TD_DATA(y, td_half)[i] = td_float_to_half(v);
        } else {
            TD_DATA(y, td_bf16)[i] = td_float_to_bf16(v);
        }
    }
    return TD_OK;
}

static enum td_code sparse_grad(struct td_call *c, enum scaling scaling, struct td_err *err)
{
    int64_t *count;
    struct td_tensor *y;
    TD_TRY(count_ids(c, &count, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return fill_grad(c, scaling, count, NULL, 0, y, err);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The distinct indices in order. */
static enum td_code distinct(struct td_call *c, int64_t **sorted, int64_t *n, struct td_err *err)
{
    const int64_t m = td_tensor_count(c->in[1]);
    void *mem;
    TD_TRY(td_scratch(c, (size_t)m * sizeof(int64_t) + 1, &mem, err));
    int64_t *v = mem;
    for (int64_t i = 0; i < m; i++) {
        v[i] = td_tensor_int(c->in[1], i);
    }
    qsort(v, (size_t)m, sizeof *v, compare);
    *n = 0;
    for (int64_t i = 0; i < m; i++) {
        if (i == 0 || v[i] != v[i - 1]) {
            v[(*n)++] = v[i];
        }
    }
    *sorted = v;
    return TD_OK;
}

static enum td_code sparse_grad_v2(struct td_call *c, enum scaling scaling, struct td_err *err)
{
    int64_t *count, *sorted, n;
    struct td_tensor *y, *idx;
    TD_TRY(count_ids(c, &count, err));
    TD_TRY(distinct(c, &sorted, &n, err));
    const struct td_shape shape = with_rows(&c->in[0]->shape, n), list = td_shape_vector(n);
    TD_TRY(td_out(c, 0, &shape, &y, err));
    TD_TRY(td_out(c, 1, &list, &idx, err));
    for (int64_t i = 0; i < n; i++) {
        if (idx->dtype == TD_INT64) {
            TD_DATA(idx, int64_t)[i] = sorted[i];
        } else {
            TD_DATA(idx, int32_t)[i] = (int32_t)sorted[i];
        }
    }
    return fill_grad(c, scaling, count, sorted, n, y, err);
}

#define KERNELS(name, scaling)                                                                               \
    static enum td_code name##_run(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return sparse_reduce(c, scaling, err);                                                               \
    }                                                                                                        \
    static enum td_code name##_grad_run(struct td_call *c, struct td_err *err)                               \
    {                                                                                                        \
        return sparse_grad(c, scaling, err);                                                                 \
    }                                                                                                        \
    static enum td_code name##_grad_v2_run(struct td_call *c, struct td_err *err)                            \
    {                                                                                                        \
        return sparse_grad_v2(c, scaling, err);                                                              \
    }
KERNELS(sum, SUM)
KERNELS(mean, MEAN)
KERNELS(sqrt_n, SQRT_N)

#define INDEX_TYPES                                                                                          \
    {"Tidx", TD_SET_INDEX},                                                                                  \
    {                                                                                                        \
        "Tsegmentids", TD_SET_INDEX                                                                          \
    }
#define REDUCE_ROW(op, fn, set, gradient)                                                                    \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(data:T, indices:Tidx, segment_ids:Tsegmentids) -> (output:T) {T:type; Tidx:type=int32; "    \
               "Tsegmentids:type=int32; sparse_gradient:bool=false}",                                        \
        .infer = sparse_infer, .grad = gradient,                                                             \
        .kernels = TD_KERNEL("sparse_segment.cpu", fn, {"T", set}, INDEX_TYPES)                              \
    }
#define REDUCE_N_ROW(op, fn, set, gradient)                                                                  \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(data:T, indices:Tidx, segment_ids:Tsegmentids, num_segments:Tnumsegments) -> (output:T) "   \
               "{T:type; Tidx:type=int32; Tnumsegments:type=int32; Tsegmentids:type=int32; "                 \
               "sparse_gradient:bool=false}",                                                                \
        .host_in = 8, .infer = sparse_infer, .grad = gradient,                                               \
        .kernels =                                                                                           \
            TD_KERNEL("sparse_segment.cpu", fn, {"T", set}, INDEX_TYPES, {"Tnumsegments", TD_SET_INDEX})     \
    }
#define GRAD_ROW(op, fn, gradient)                                                                           \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(grad:T, indices:Tidx, segment_ids:Tsegmentids, output_dim0:int32) -> (output:T) {T:type; "  \
               "Tidx:type=int32; Tsegmentids:type=int32}",                                                   \
        .host_in = 8, .infer = grad_infer, .grad = gradient,                                                 \
        .kernels = TD_KERNEL("sparse_segment_grad.cpu", fn, {"T", TD_SET_FLOATS}, INDEX_TYPES)               \
    }
#define GRAD_V2_ROW(op, fn)                                                                                  \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(grad:T, indices:Tidx, segment_ids:Tsegmentids, dense_output_dim0:int32) -> (output:T, "     \
               "sorted_unique_indices:Tidx) {T:type; Tidx:type=int32; Tsegmentids:type=int32}",              \
        .host_in = 8, .infer = grad_infer,                                                                   \
        .kernels = TD_KERNEL("sparse_segment_grad.cpu", fn, {"T", TD_SET_FLOATS}, INDEX_TYPES)               \
    }

const struct td_op td_ops_segment_sparse[] = {
    REDUCE_ROW("SparseSegmentSum", sum_run, TD_SET_REALS, td_sparse_segment_sum_grad),
    REDUCE_ROW("SparseSegmentMean", mean_run, TD_SET_FLOATS, td_sparse_segment_mean_grad),
    REDUCE_ROW("SparseSegmentSqrtN", sqrt_n_run, TD_SET_FLOATS, td_sparse_segment_sqrt_n_grad),
    REDUCE_N_ROW("SparseSegmentSumWithNumSegments", sum_run, TD_SET_REALS, td_sparse_segment_sum_grad),
    REDUCE_N_ROW("SparseSegmentMeanWithNumSegments", mean_run, TD_SET_FLOATS, td_sparse_segment_mean_grad),
    REDUCE_N_ROW("SparseSegmentSqrtNWithNumSegments", sqrt_n_run, TD_SET_FLOATS,
                 td_sparse_segment_sqrt_n_grad),
    GRAD_ROW("SparseSegmentSumGrad", sum_grad_run, td_sparse_segment_sum_grad_grad),
    GRAD_ROW("SparseSegmentMeanGrad", mean_grad_run, td_sparse_segment_mean_grad_grad),
    GRAD_ROW("SparseSegmentSqrtNGrad", sqrt_n_grad_run, td_sparse_segment_sqrt_n_grad_grad),
    GRAD_V2_ROW("SparseSegmentSumGradV2", sum_grad_v2_run),
    GRAD_V2_ROW("SparseSegmentMeanGradV2", mean_grad_v2_run),
    GRAD_V2_ROW("SparseSegmentSqrtNGradV2", sqrt_n_grad_v2_run),
    {.name = NULL},
};
