/* kernels/math/segment.c - reductions over rows that share a segment number.
 *
 *   SegmentX           data [n, I..]  ids [n] sorted         ->  [last id + 1, I..]; empty ones: 0 (Prod 1)
 *   UnsortedSegmentX   data [J.., I..]  ids [J..] any order  ->  [num_segments, I..]; negative ids go;
 *                      empty segments: 0, 1, the lowest (Max) or the highest (Min) value
 *
 * Rows are combined in order. Segments picked by index are segment_sparse.c's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "kernels/cpu/array_types.h"
#include "kernels/cpu/combine.h"
#include "kernels/array/nd_index.h"
#include "kernels/ops.h"
#include "kernels/math/segment_grad.h"
#include "kernels/cpu/strided.h"

/* ------------------------------------------------------------------ sorted segments */

static enum td_code segment_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *data = &c->in[0], *ids = &c->in[1];
    TD_FAIL_IF(data->rank == 0, err, INVALID_ARGUMENT, "%s: input must be at least rank 1",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(ids->rank >= 0 && ids->rank != 1, err, INVALID_ARGUMENT,
               "%s: segment_ids should be a vector, not %s.", TD_NODE_STR(c->node), TD_SHAPE_STR(ids));
    TD_FAIL_IF(data->rank > 0 && ids->rank == 1 && data->dim[0] >= 0 && ids->dim[0] >= 0 &&
                   data->dim[0] != ids->dim[0],
               err, INVALID_ARGUMENT, "%s: segment_ids should be the same size as dimension 0 of input.",
               TD_NODE_STR(c->node));
    const int64_t n = c->value[1] != NULL ? td_tensor_count(c->value[1]) : -1;
    const int64_t last = n > 0 ? td_tensor_int(c->value[1], n - 1) : -1;
    const bool known =
        n >= 0 && last >= -1 && last < INT64_MAX; /* else refused when it runs, as wrong ids are */
    return data->rank < 0 ? TD_OK : td_infer_rows(c->node, data, 1, known ? last + 1 : -1, &c->out[0], err);
}

static enum td_code check_sorted(const struct td_call *c, const struct td_tensor *ids, struct td_err *err)
{
    const int64_t n = td_tensor_count(ids), rows = n > 0 ? td_tensor_int(ids, n - 1) + 1 : 0;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = td_tensor_int(ids, i);
        TD_FAIL_IF(
            id < 0, err, INVALID_ARGUMENT,
            "%s: Segment id %lld out of range [0, %lld), possibly because 'segment_ids' input is not sorted.",
            TD_NODE_STR(c->node), (long long)id, (long long)rows);
        TD_FAIL_IF(id < last, err, INVALID_ARGUMENT, "%s: segment ids are not increasing: %lld after %lld",
                   TD_NODE_STR(c->node), (long long)id, (long long)last);
        last = id;
    }
    TD_FAIL_IF(last == INT64_MAX, err, INVALID_ARGUMENT, "%s: segment id %lld is too large",
               TD_NODE_STR(c->node), (long long)last);
    return TD_OK;
}

#define DIVIDE(dt, T, expr)                                                                                  \
    case dt:                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T x = ((const T *)row)[i];                                                                 \
            ((T *)row)[i] = (expr);                                                                          \
        }                                                                                                    \
        break;

/* Integers truncate. */
static void divide_row(enum td_dtype dtype, void *row, int64_t n, int64_t by)
{
    switch (dtype) {
        DIVIDE(TD_FLOAT, float, x / (float)by)
        DIVIDE(TD_DOUBLE, double, x / (double)by)
        DIVIDE(TD_HALF, td_half, td_float_to_half(td_half_to_float(x) / (float)by))
        DIVIDE(TD_BFLOAT16, td_bf16, td_float_to_bf16(td_bf16_to_float(x) / (float)by))
        DIVIDE(TD_COMPLEX64, td_c64, ((td_c64){x.re / (float)by, x.im / (float)by}))
        DIVIDE(TD_COMPLEX128, td_c128, ((td_c128){x.re / (double)by, x.im / (double)by}))
        DIVIDE(TD_INT8, int8_t, (int8_t)(x / by))
        DIVIDE(TD_INT16, int16_t, (int16_t)(x / by))
        DIVIDE(TD_INT32, int32_t, (int32_t)(x / by))
        DIVIDE(TD_INT64, int64_t, x / by)
        DIVIDE(TD_UINT8, uint8_t, (uint8_t)(x / by))
        DIVIDE(TD_UINT16, uint16_t, (uint16_t)(x / by))
        DIVIDE(TD_UINT32, uint32_t, (uint32_t)(x / by))
        DIVIDE(TD_UINT64, uint64_t, x / (uint64_t)by)
    default:
        break;
    }
}

/* Value of a segment without rows. */
static void fill_gap(enum td_combine_op op, enum td_dtype dtype, void *rows, int64_t n)
{
    if (op == TD_COMBINE_MUL) {
        td_combine_identity(op, dtype, rows, n);
    } else {
        td_strided_zero(dtype, rows, n);
    }
}

/* Rows first..last of halves summed as floats, as TensorFlow's sums of matrices are. acc: `inner` floats. */
static void sum_halves(const struct td_tensor *data, int64_t first, int64_t last, int64_t inner, float *acc,
                       void *row)
{
    const bool half = data->dtype == TD_HALF;
    memset(acc, 0, (size_t)inner * sizeof *acc);
    for (int64_t i = first * inner; i < (last + 1) * inner && !td_work_spent(inner); i += inner) {
        for (int64_t k = 0; k < inner; k++) {
            acc[k] += half ? td_half_to_float(TD_DATA(data, const td_half)[i + k])
                           : td_bf16_to_float(TD_DATA(data, const td_bf16)[i + k]);
        }
    }
    for (int64_t k = 0; k < inner; k++) {
        if (half) {
            ((td_half *)row)[k] = td_float_to_half(acc[k]);
        } else {
            ((td_bf16 *)row)[k] = td_float_to_bf16(acc[k]);
        }
    }
}

/* A segment starts as a copy of its first row. */
static enum td_code segment_reduce(struct td_call *c, enum td_combine_op op, bool mean, struct td_err *err)
{
    const struct td_tensor *data = c->in[0], *ids = c->in[1];
    const int64_t n = td_tensor_count(ids), inner = td_shape_range(&data->shape, 1, data->shape.rank);
    const int64_t size = inner * (int64_t)td_dtype_size(data->dtype);
    struct td_shape shape;
    struct td_tensor *y;
    TD_TRY(check_sorted(c, ids, err));
    TD_TRY(td_infer_rows(c->node, &data->shape, 1, n > 0 ? td_tensor_int(ids, n - 1) + 1 : 0, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    const bool halves = op == TD_COMBINE_ADD && !mean && (y->dtype == TD_HALF || y->dtype == TD_BFLOAT16);
    void *acc;
    TD_TRY(td_scratch(c, halves ? (size_t)inner * sizeof(float) : 1, &acc, err));
    fill_gap(op, y->dtype, y->data, td_tensor_count(y));
    for (int64_t i = 0, first = 0; i < n; i++) {
        const int64_t id = td_tensor_int(ids, i);
        char *row = (char *)y->data + id * size;
        const char *from = (const char *)data->data + i * size;
        if (!halves) {
            td_combine_run(i == first ? TD_COMBINE_UPDATE : op, y->dtype, row, from, inner, 1);
        }
        if (i + 1 == n || td_tensor_int(ids, i + 1) != id) {
            if (halves) {
                sum_halves(data, first, i, inner, acc, row);
            }
            if (mean) {
                divide_row(y->dtype, row, inner, i + 1 - first);
            }
            first = i + 1;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ unsorted segments */

static enum td_code unsorted_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *data = &c->in[0], *ids = &c->in[1];
    bool known;
    int64_t rows = -1;
    TD_FAIL_IF(c->in[2].rank > 0, err, INVALID_ARGUMENT, "%s: num_segments should be a scalar, not shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[2]));
    TD_TRY(td_infer_int_value(c, 2, &known, &rows, err));
    TD_FAIL_IF(known && rows < 0, err, INVALID_ARGUMENT,
               "%s: Input num_segments == %lld must not be negative.", TD_NODE_STR(c->node), (long long)rows);
    if (data->rank < 0 || ids->rank < 0) {
        return TD_OK;
    }
    bool starts = ids->rank <= data->rank;
    for (int i = 0; starts && i < ids->rank; i++) {
        starts = data->dim[i] < 0 || ids->dim[i] < 0 || data->dim[i] == ids->dim[i];
    }
    TD_FAIL_IF(!starts, err, INVALID_ARGUMENT,
               "%s: data.shape = %s does not start with segment_ids.shape = %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(data), TD_SHAPE_STR(ids));
    return td_infer_rows(c->node, data, ids->rank, known ? rows : -1, &c->out[0], err);
}

static enum td_code bad_id(const struct td_call *c, int64_t i, int64_t rows, struct td_err *err)
{
    const struct td_tensor *ids = c->in[1];
    char where[TD_SHAPE_TEXT];
    TD_FAIL(err, INVALID_ARGUMENT, "%s: segment_ids%s = %lld is out of range [0, %lld)", TD_NODE_STR(c->node),
            td_nd_index_position(&ids->shape, i, where), (long long)td_tensor_int(ids, i), (long long)rows);
}

static enum td_code unsorted_reduce(struct td_call *c, enum td_combine_op op, struct td_err *err)
{
    const struct td_tensor *data = c->in[0], *ids = c->in[1];
    const int64_t n = td_tensor_count(ids),
                  inner = td_shape_range(&data->shape, ids->shape.rank, data->shape.rank);
    const int64_t size = inner * (int64_t)td_dtype_size(data->dtype);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t rows = y->shape.dim[0];
    td_combine_identity(op, y->dtype, y->data, td_tensor_count(y));
    for (int64_t i = 0; inner > 0 && i < n && !td_work_spent(inner + 4);
         i++) { /* of no elements TensorFlow looks at no ids */
        const int64_t id = td_tensor_int(ids, i);
        if (id >= rows) {
            return bad_id(c, i, rows, err);
        }
        if (id >= 0) {
            td_combine_run(op, y->dtype, (char *)y->data + id * size, (const char *)data->data + i * size,
                           inner, 1);
        }
    }
    return TD_OK;
}

#define SORTED(name, op, mean)                                                                               \
    static enum td_code segment_##name(struct td_call *c, struct td_err *err)                                \
    {                                                                                                        \
        return segment_reduce(c, op, mean, err);                                                             \
    }
#define UNSORTED(name, op)                                                                                   \
    static enum td_code unsorted_##name(struct td_call *c, struct td_err *err)                               \
    {                                                                                                        \
        return unsorted_reduce(c, op, err);                                                                  \
    }
SORTED(sum, TD_COMBINE_ADD, false)
SORTED(mean, TD_COMBINE_ADD, true)
SORTED(prod, TD_COMBINE_MUL, false)
SORTED(max, TD_COMBINE_MOST, false)
SORTED(min, TD_COMBINE_LEAST, false)
UNSORTED(sum, TD_COMBINE_ADD)
UNSORTED(prod, TD_COMBINE_MUL)
UNSORTED(max, TD_COMBINE_MOST)
UNSORTED(min, TD_COMBINE_LEAST)

#define SORTED_ROW(op, fn, set, gradient)                                                                    \
    {                                                                                                        \
        .name = op, .sig = "(data:T, segment_ids:Tindices) -> (output:T) {T:type; Tindices:type}",           \
        .infer = segment_infer, .grad = gradient,                                                            \
        .kernels = TD_KERNEL("segment.cpu", fn, {"T", set}, {"Tindices", TD_SET_INDEX})                      \
    }
#define UNSORTED_ROW(op, fn, set, gradient)                                                                  \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(data:T, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:T) {T:type; "           \
               "Tindices:type; "                                                                             \
               "Tnumsegments:type=int32}",                                                                   \
        .host_in = 4, .infer = unsorted_infer, .grad = gradient,                                             \
        .kernels = TD_KERNEL("unsorted_segment.cpu", fn, {"T", set},                                         \
                             {"Tindices", TD_SET_INDEX | TD_BIT(TD_INT16)}, {"Tnumsegments", TD_SET_INDEX})  \
    }

const struct td_op td_ops_segment[] = {
    SORTED_ROW("SegmentSum", segment_sum, TD_SET_NUMBERS, td_segment_sum_grad),
    SORTED_ROW("SegmentMean", segment_mean, TD_SET_NUMBERS, td_segment_mean_grad),
    SORTED_ROW("SegmentProd", segment_prod, TD_SET_NUMBERS, td_segment_prod_grad),
    SORTED_ROW("SegmentMax", segment_max, TD_SET_REALS, td_segment_extreme_grad),
    SORTED_ROW("SegmentMin", segment_min, TD_SET_REALS, td_segment_extreme_grad),
    UNSORTED_ROW("UnsortedSegmentSum", unsorted_sum, TD_SET_NUMBERS, td_unsorted_segment_sum_grad),
    UNSORTED_ROW("UnsortedSegmentProd", unsorted_prod, TD_SET_NUMBERS, td_unsorted_segment_prod_grad),
    UNSORTED_ROW("UnsortedSegmentMax", unsorted_max, TD_SET_REALS, td_unsorted_segment_extreme_grad),
    UNSORTED_ROW("UnsortedSegmentMin", unsorted_min, TD_SET_REALS, td_unsorted_segment_extreme_grad),
    {.name = NULL},
};
