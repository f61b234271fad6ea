/* kernels/sparse/ragged.c - ragged tensors made and taken apart: RaggedRange, RaggedGather,
 * RaggedTensorToSparse.
 *
 * A ragged tensor is `levels` row-split vectors and a dense tensor of values: rows of level k are items
 * [splits[r], splits[r + 1]) of level k + 1, the last level's items being rows of the values.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/sparse/ragged_grad.h"

#include <math.h>
#include <string.h>

static enum td_code fits_splits(const struct td_call *c, enum td_dtype t, int64_t n, struct td_err *err)
{
    TD_FAIL_IF(t == TD_INT32 && n > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: The total range size overflowed: %lld. Consider using int64 instead of int32 for "
               "row_splits_dtype.",
               TD_NODE_STR(c->node), (long long)n);
    return TD_OK;
}

/* ------------------------------------------------------------------ RaggedRange
 *
 * starts, limits, deltas: [n] or [] -> splits [n + 1], values */

static enum td_code range_infer(struct td_infer *c, struct td_err *err)
{
    int64_t n = 1;
    bool vector = false;
    for (int i = 0; i < 3; i++) {
        TD_FAIL_IF(c->in[i].rank > 1, err, INVALID_ARGUMENT,
                   "%s: %s must be a scalar or vector, got shape %s", TD_NODE_STR(c->node),
                   c->node->def->in[i].name, TD_SHAPE_STR(&c->in[i]));
        if (c->in[i].rank == 0) {
            continue;
        }
        int64_t d = c->in[i].rank < 0 ? -1 : c->in[i].dim[0];
        TD_FAIL_IF(vector && n >= 0 && d >= 0 && n != d, err, INVALID_ARGUMENT,
                   "%s: starts, limits, and deltas must have the same shape: %lld vs. %lld",
                   TD_NODE_STR(c->node), (long long)n, (long long)d);
        n = vector && n >= 0 ? n : d;
        vector = true;
    }
    c->out[0] = td_shape_vector(n < 0 ? -1 : n + 1);
    c->out[1] = td_shape_vector(-1);
    return TD_OK;
}

/* Number of values of one range; -1 when it is not countable. */
static int64_t int_range(int64_t start, int64_t limit, int64_t delta)
{
    if (delta > 0 ? limit <= start : limit >= start) {
        return 0;
    }
    uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    uint64_t n = span / step + (span % step != 0);
    return n > INT64_MAX / 2 ? -1 : (int64_t)n;
}

static int64_t float_range(double start, double limit, double delta)
{
    if (delta > 0 ? limit < start : limit > start) {
        return 0;
    }
    double n = ceil(fabs((limit - start) / delta));
    return n >= 0 && n < 4e18 ? (int64_t)n : -1;
}

static double real_at(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_FLOAT ? (double)TD_DATA(t, float)[i] : TD_DATA(t, double)[i];
}

static enum td_code range_size(const struct td_call *c, int64_t i, int64_t *n, struct td_err *err)
{
    const struct td_tensor *s = c->in[0], *l = c->in[1], *d = c->in[2];
    int64_t is = s->shape.rank ? i : 0, il = l->shape.rank ? i : 0, id = d->shape.rank ? i : 0;
    bool real = s->dtype == TD_FLOAT || s->dtype == TD_DOUBLE;
    TD_FAIL_IF(real ? real_at(d, id) == 0 : td_tensor_int(d, id) == 0, err, INVALID_ARGUMENT,
               "%s: Requires delta != 0, row %lld", TD_NODE_STR(c->node), (long long)i);
    *n = real ? float_range(real_at(s, is), real_at(l, il), real_at(d, id))
              : int_range(td_tensor_int(s, is), td_tensor_int(l, il), td_tensor_int(d, id));
    TD_FAIL_IF(*n < 0, err, INVALID_ARGUMENT, "%s: Requires ((limit - start) / delta) to fit int64, row %lld",
               TD_NODE_STR(c->node), (long long)i);
    return TD_OK;
}

static void range_fill(const struct td_call *c, int64_t i, struct td_tensor *y, int64_t at, int64_t n)
{
    const struct td_tensor *s = c->in[0], *d = c->in[2];
    int64_t is = s->shape.rank ? i : 0, id = d->shape.rank ? i : 0;
#define FILL(DTYPE, type, sum)                                                                               \
    case DTYPE: {                                                                                            \
        type v = TD_DATA(s, type)[is], step = TD_DATA(d, type)[id];                                          \
        for (int64_t k = 0; k < n; k++, v = (type)((sum)v + (sum)step)) {                                    \
            TD_DATA(y, type)[at + k] = v;                                                                    \
        }                                                                                                    \
        break;                                                                                               \
    }
    switch (y->dtype) {
        FILL(TD_INT32, int32_t, uint32_t)
        FILL(TD_INT64, int64_t, uint64_t)
        FILL(TD_FLOAT, float, float)
        FILL(TD_DOUBLE, double, double)
    default:
        break;
    }
#undef FILL
}

static enum td_code range_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *splits, *values;
    int64_t total = 0, n = 0;
    TD_TRY(td_out(c, 0, NULL, &splits, err));
    int64_t rows = splits->shape.dim[0] - 1;
    td_tensor_set_int(splits, 0, 0);
    for (int64_t i = 0; i < rows; i++) {
        TD_TRY(range_size(c, i, &n, err));
        TD_FAIL_IF(!td_i64_add(total, n, &total), err, INVALID_ARGUMENT,
                   "%s: The total range size overflowed", TD_NODE_STR(c->node));
        TD_TRY(fits_splits(c, splits->dtype, total, err));
        td_tensor_set_int(splits, i + 1, total);
    }
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {total}}, &values, err));
    for (int64_t i = 0; i < rows && !td_work_spent(4); i++) {
        int64_t from = td_tensor_int(splits, i);
        range_fill(c, i, values, from, td_tensor_int(splits, i + 1) - from);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ checks of splits */

/* splits of level k point into `items` items; `exact`: they start at 0 and end at items. */
static enum td_code check_splits(const struct td_call *c, const struct td_tensor *s, int64_t items,
                                 bool exact, struct td_err *err)
{
    int64_t n = td_tensor_count(s), last = n ? td_tensor_int(s, 0) : 0;
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: Split tensors must not be empty", TD_NODE_STR(c->node));
    TD_FAIL_IF(exact && last != 0, err, INVALID_ARGUMENT,
               "%s: First value of ragged splits must be 0, got %lld", TD_NODE_STR(c->node), (long long)last);
    TD_FAIL_IF(last < 0, err, INVALID_ARGUMENT, "%s: Ragged splits must be non-negative, got %lld",
               TD_NODE_STR(c->node), (long long)last);
    for (int64_t i = 1; i < n; i++) {
        int64_t v = td_tensor_int(s, i);
        TD_FAIL_IF(v < last, err, INVALID_ARGUMENT,
                   "%s: Ragged splits should be non decreasing, but %lld follows %lld", TD_NODE_STR(c->node),
                   (long long)v, (long long)last);
        last = v;
    }
    TD_FAIL_IF(exact ? last != items : last > items, err, INVALID_ARGUMENT,
               "%s: Final value of ragged splits must match the length the corresponding ragged array: %lld, "
               "have %lld "
               "items; splits must not point past values",
               TD_NODE_STR(c->node), (long long)last, (long long)items);
    return TD_OK;
}

/* Inputs [first, first + levels) are the splits; the values' rows are the innermost items. */
static enum td_code check_levels(const struct td_call *c, int levels, const struct td_tensor *values,
                                 bool exact, struct td_err *err)
{
    for (int k = 0; k < levels; k++) {
        int64_t items = k + 1 < levels ? td_tensor_count(c->in[k + 1]) - 1 : values->shape.dim[0];
        TD_TRY(check_splits(c, c->in[k], items, exact, err));
    }
    return TD_OK;
}

static enum td_code splits_infer(const struct td_infer *c, int levels, struct td_err *err)
{
    TD_FAIL_IF(levels < 1, err, INVALID_ARGUMENT, "%s: ragged rank %d, want at least 1", TD_NODE_STR(c->node),
               levels);
    for (int k = 0; k < levels; k++) {
        TD_TRY(td_infer_rank(c, k, 1, err));
    }
    return td_infer_min_rank(c, levels, 1, err);
}

/* ------------------------------------------------------------------ RaggedGather
 *
 * params splits P x [..], values [v, ...], indices [i0, i1, ...] -> splits (rank(indices) - 1 + P) x [..],
 * values */

static enum td_code gather_infer(struct td_infer *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "PARAMS_RAGGED_RANK"), out = c->n_out - 1;
    TD_TRY(splits_infer(c, levels, err));
    const struct td_shape *ix = &c->in[levels + 1];
    TD_FAIL_IF(ix->rank >= 0 && ix->rank - 1 + levels != out, err, INVALID_ARGUMENT,
               "%s: OUTPUT_RAGGED_RANK is %d, want rank of indices %d + ragged rank of params %d - 1",
               TD_NODE_STR(c->node), out, ix->rank, levels);
    for (int k = 0; k < out; k++) {
        c->out[k] = td_shape_vector(-1);
    }
    c->out[out] = c->in[levels];
    if (c->out[out].rank > 0) {
        c->out[out].dim[0] = -1;
    }
    return TD_OK;
}

/* Splits of the axes of indices: all rows of an axis have one length. */
static enum td_code gather_dense_axes(struct td_call *c, const struct td_tensor *ix, struct td_err *err)
{
    for (int d = 0; d + 1 < ix->shape.rank; d++) {
        struct td_tensor *s;
        int64_t rows = td_shape_range(&ix->shape, 0, d + 1);
        TD_TRY(td_out(c, d, &(struct td_shape){1, {rows + 1}}, &s, err));
        TD_TRY(fits_splits(c, s->dtype, rows * ix->shape.dim[d + 1], err));
        for (int64_t r = 0; r <= rows; r++) {
            td_tensor_set_int(s, r, r * ix->shape.dim[d + 1]);
        }
    }
    return TD_OK;
}

/* Items at level `level` below all gathered rows. */
static int64_t gather_count(const struct td_call *c, const struct td_tensor *ix, int level)
{
    int64_t n = 0;
    for (int64_t i = 0, count = td_tensor_count(ix); i < count; i++) {
        int64_t from = td_tensor_int(ix, i), to = from + 1;
        for (int k = 0; k < level; k++) {
            from = td_tensor_int(c->in[k], from);
            to = td_tensor_int(c->in[k], to);
        }
        n += to - from;
    }
    return n;
}

static enum td_code gather_splits(struct td_call *c, const struct td_tensor *ix, int level,
                                  struct td_err *err)
{
    struct td_tensor *s;
    int64_t rows = gather_count(c, ix, level), at = 0, sum = 0;
    TD_TRY(td_out(c, ix->shape.rank - 1 + level, &(struct td_shape){1, {rows + 1}}, &s, err));
    TD_TRY(fits_splits(c, s->dtype, gather_count(c, ix, level + 1), err));
    td_tensor_set_int(s, at++, 0);
    for (int64_t i = 0, count = td_tensor_count(ix); i < count; i++) {
        int64_t from = td_tensor_int(ix, i), to = from + 1;
        for (int k = 0; k < level; k++) {
            from = td_tensor_int(c->in[k], from);
            to = td_tensor_int(c->in[k], to);
        }
        for (int64_t r = from; r < to; r++) {
            sum += td_tensor_int(c->in[level], r + 1) - td_tensor_int(c->in[level], r);
            td_tensor_set_int(s, at++, sum);
        }
    }
    return TD_OK;
}

static enum td_code gather_values(struct td_call *c, const struct td_tensor *ix, int levels,
                                  struct td_err *err)
{
    const struct td_tensor *x = c->in[levels];
    struct td_shape shape = x->shape;
    struct td_tensor *y;
    shape.dim[0] = gather_count(c, ix, levels);
    TD_TRY(td_out(c, c->n_out - 1, &shape, &y, err));
    int64_t width = td_shape_range(&shape, 1, shape.rank), at = 0;
    size_t row = (size_t)width * td_dtype_size(x->dtype);
    for (int64_t i = 0, count = td_tensor_count(ix); i < count; i++) {
        int64_t from = td_tensor_int(ix, i), to = from + 1;
        for (int k = 0; k < levels; k++) {
            from = td_tensor_int(c->in[k], from);
            to = td_tensor_int(c->in[k], to);
        }
        if (to > from && width) {
            td_elems_copy(x->dtype, (char *)y->data + (size_t)at * row, (char *)x->data + (size_t)from * row,
                          (to - from) * width);
        }
        at += to - from;
    }
    return TD_OK;
}

static enum td_code gather_run(struct td_call *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "PARAMS_RAGGED_RANK");
    const struct td_tensor *ix = c->in[levels + 1];
    int64_t rows = td_tensor_count(c->in[0]) - 1;
    TD_TRY(check_levels(c, levels, c->in[levels], false, err));
    for (int64_t i = 0, n = td_tensor_count(ix); i < n; i++) {
        int64_t v = td_tensor_int(ix, i);
        TD_FAIL_IF(v < 0 || v >= rows, err, INVALID_ARGUMENT, "%s: indices[%lld] = %lld is not in [0, %lld)",
                   TD_NODE_STR(c->node), (long long)i, (long long)v, (long long)rows);
    }
    TD_TRY(gather_dense_axes(c, ix, err));
    for (int level = ix->shape.rank == 0; level < levels; level++) { /* a scalar index drops its own level */
        TD_TRY(gather_splits(c, ix, level, err));
    }
    return gather_values(c, ix, levels, err);
}

/* ------------------------------------------------------------------ RaggedTensorToSparse
 *
 * splits R x [..], values [v, inner...] -> indices [n, R + rank(values)], values [n], shape */

static enum td_code to_sparse_infer(struct td_infer *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "RAGGED_RANK");
    TD_TRY(splits_infer(c, levels, err));
    const struct td_shape *v = &c->in[levels];
    int64_t n = td_shape_count(v), rank = v->rank < 0 ? -1 : v->rank + levels;
    TD_FAIL_IF(rank > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: rank %lld, want at most %d",
               TD_NODE_STR(c->node), (long long)rank, TD_MAX_RANK);
    c->out[0] = td_shape_matrix(n, rank);
    c->out[1] = td_shape_vector(n);
    c->out[2] = td_shape_vector(rank);
    return TD_OK;
}

/* Column `level` of the rows' indices: position of each innermost row within its row of that level. row[k] is
 * the row of level k that holds item i; walked forward, since items come in order. */
static void sparse_row(const struct td_call *c, int levels, int64_t item, int64_t *row, int64_t *index)
{
    int64_t at = item;
    for (int k = levels - 1; k >= 0; k--) {
        while (td_tensor_int(c->in[k], row[k] + 1) <= at) {
            row[k]++;
        }
        index[k + 1] = at - td_tensor_int(c->in[k], row[k]);
        at = row[k];
    }
    index[0] = at;
}

static void sparse_shape(const struct td_call *c, int levels, const struct td_tensor *values, int64_t *dim)
{
    dim[0] = td_tensor_count(c->in[0]) - 1;
    for (int k = 0; k < levels; k++) {
        dim[k + 1] = 0;
        for (int64_t r = 0, n = td_tensor_count(c->in[k]) - 1; r < n; r++) {
            int64_t len = td_tensor_int(c->in[k], r + 1) - td_tensor_int(c->in[k], r);
            dim[k + 1] = len > dim[k + 1] ? len : dim[k + 1];
        }
    }
    for (int d = 1; d < values->shape.rank; d++) {
        dim[levels + d] = values->shape.dim[d];
    }
}

static enum td_code to_sparse_run(struct td_call *c, struct td_err *err)
{
    int levels = (int)td_attr_int(c->node, "RAGGED_RANK");
    const struct td_tensor *x = c->in[levels];
    struct td_tensor *ix, *values, *shape;
    TD_TRY(check_levels(c, levels, x, true, err));
    TD_TRY(td_out(c, 0, NULL, &ix, err));
    TD_TRY(td_out(c, 1, NULL, &values, err));
    TD_TRY(td_out(c, 2, NULL, &shape, err));
    sparse_shape(c, levels, x, shape->data);
    int64_t n = td_tensor_count(x), width = td_shape_range(&x->shape, 1, x->shape.rank),
            row[TD_MAX_RANK] = {0};
    int rank = levels + x->shape.rank;
    if (n > 0) {
        td_elems_copy(x->dtype, values->data, x->data, n);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t *out = TD_DATA(ix, int64_t) + i * rank, rest = i % width;
        sparse_row(c, levels, i / width, row, out);
        for (int d = x->shape.rank - 1; d > 0; d--) {
            out[levels + d] = rest % x->shape.dim[d];
            rest /= x->shape.dim[d];
        }
    }
    return TD_OK;
}

#define RANGE_TYPES (TD_SET_INDEX | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define VALUES (TD_SET_PLAIN | TD_BIT(TD_STRING))

const struct td_op td_ops_ragged[] = {
    {.name = "RaggedRange",
     .sig = "(starts:T, limits:T, deltas:T) -> (rt_nested_splits:Tsplits, rt_dense_values:T) {T:type=int32; "
            "Tsplits:type=int64}",
     .infer = range_infer,
     .kernels = TD_KERNEL("ragged.cpu", range_run, {"T", RANGE_TYPES}, {"Tsplits", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "RaggedGather",
     .sig = "(params_nested_splits:PARAMS_RAGGED_RANK*Tsplits, params_dense_values:Tvalues, "
            "indices:Tindices) -> "
            "(output_nested_splits:OUTPUT_RAGGED_RANK*Tsplits, output_dense_values:Tvalues) {Tvalues:type; "
            "Tindices:type; Tsplits:type=int64; PARAMS_RAGGED_RANK:int; OUTPUT_RAGGED_RANK:int}",
     .infer = gather_infer,
     .kernels = TD_KERNEL("ragged.cpu", gather_run, {"Tvalues", VALUES}, {"Tindices", TD_SET_INDEX},
                          {"Tsplits", TD_SET_INDEX}),
     .grad = td_ragged_gather_grad},
    {.name = "RaggedTensorToSparse",
     .sig = "(rt_nested_splits:RAGGED_RANK*Tsplits, rt_dense_values:T) -> (sparse_indices:int64, "
            "sparse_values:T, "
            "sparse_dense_shape:int64) {RAGGED_RANK:int; T:type; Tsplits:type=int64}",
     .infer = to_sparse_infer,
     .kernels = TD_KERNEL("ragged.cpu", to_sparse_run, {"Tsplits", TD_SET_INDEX}),
     .grad = td_ragged_to_sparse_grad},
    {.name = NULL},
};
