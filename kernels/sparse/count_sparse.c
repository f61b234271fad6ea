/* kernels/sparse/count_sparse.c - DenseCountSparseOutput and its sparse and ragged kin: counts as a sparse
 * tensor.
 *
 *   values [n] or [rows, n] (Dense), + indices, dense_shape (Sparse), + splits (Ragged),
 *   weights (like values, or empty)
 *     ->  output_indices [m, 1 or 2] of int64, output_values [m] of output_type, output_dense_shape [1 or 2]
 *
 * Every value becomes a record (row, value, position); sorted, equal neighbours are one output entry, and the
 * entries are in row-major order. Values at or above maxlength (when >= 0) are left out. The dense shape's
 * last dim is maxlength, or else the larger of the greatest value + 1 and minlength. Negative values are
 * INVALID_ARGUMENT.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"

#include <stdlib.h>

struct record {
    int64_t row, value, at;
};

static int by_row_value(const void *pa, const void *pb)
{
    const struct record *a = pa, *b = pb;
    if (a->row != b->row) {
        return a->row < b->row ? -1 : 1;
    }
    if (a->value != b->value) {
        return a->value < b->value ? -1 : 1;
    }
    return (a->at > b->at) - (a->at < b->at);
}

/* out[at] = 0, then += weight i (1 without weights; stays 1 when only occurrence counts). */
static void put_count(struct td_tensor *out, int64_t at, const struct td_tensor *weights, int64_t i,
                      bool fresh, bool binary)
{
    switch (out->dtype) {
#define X(DTYPE, T, tag)                                                                                     \
    case DTYPE: {                                                                                            \
        T w = binary || weights == NULL ? 1 : TD_DATA(weights, const T)[i], *to = TD_DATA(out, T) + at;      \
        *to = fresh ? w : binary ? 1 : td_add_##tag(*to, w);                                                 \
        return;                                                                                              \
    }
        X(TD_FLOAT, float, f32)
        X(TD_DOUBLE, double, f64)
        X(TD_INT32, int32_t, i32)
    default:
        X(TD_INT64, int64_t, i64)
#undef X
    }
}

struct counting {
    const struct td_tensor *values, *weights; /* weights NULL: all 1 */
    int64_t n, rows;                          /* rows < 0: one row, and outputs without a row coordinate */
    struct record *records;                   /* n, .row set by the op */
};

static enum td_code counting_make(struct td_call *c, int i_values, int i_weights, struct counting *k,
                                  struct td_err *err)
{
    k->values = c->in[i_values];
    k->n = td_tensor_count(k->values);
    const struct td_tensor *w = c->in[i_weights];
    k->weights = td_tensor_count(w) ? w : NULL;
    TD_FAIL_IF(k->weights != NULL && !td_shape_equal(&w->shape, &k->values->shape), err, INVALID_ARGUMENT,
               "%s: Weights and values must have the same shape. Weights and data must have the same shape. "
               "Weight shape: %s; values shape: %s; data shape: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&w->shape), TD_SHAPE_STR(&k->values->shape),
               TD_SHAPE_STR(&k->values->shape));
    size_t bytes;
    void *p;
    TD_FAIL_IF(!td_size_mul((size_t)k->n, sizeof(struct record), &bytes), err, RESOURCE_EXHAUSTED,
               "%s: %lld values are too many", TD_NODE_STR(c->node), (long long)k->n);
    TD_TRY(td_scratch(c, bytes + 1, &p, err));
    k->records = p;
    return TD_OK;
}

/* Fills in the values; drops records beyond maxlength, sorts the rest. *out_size: the dense shape's last dim.
 */
static enum td_code counting_sort(struct td_call *c, struct counting *k, int64_t *out_size,
                                  struct td_err *err)
{
    int64_t max_length = td_attr_int(c->node, "maxlength"), min_length = td_attr_int(c->node, "minlength");
    int64_t most = 0, kept = 0;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t v = td_tensor_int(k->values, i);
        TD_FAIL_IF(v < 0, err, INVALID_ARGUMENT,
                   "%s: Input values must all be non-negative; element %lld is %lld", TD_NODE_STR(c->node),
                   (long long)i, (long long)v);
        if (max_length < 0 || v < max_length) {
            most = v > most ? v : most;
            k->records[kept++] = (struct record){k->records[i].row, v, i};
        }
    }
    k->n = kept;
    if (kept > 1) {
        qsort(k->records, (size_t)kept, sizeof(struct record), by_row_value);
    }
    most = most == INT64_MAX ? most : most + 1;
    *out_size = max_length >= 0 ? max_length : most > min_length ? most : min_length;
    return TD_OK;
}

static bool starts_entry(const struct counting *k, int64_t i)
{
    const struct record *r = &k->records[i];
    return i == 0 || r[-1].row != r->row || r[-1].value != r->value;
}

static enum td_code counting_write(struct td_call *c, const struct counting *k, int64_t out_size,
                                   struct td_err *err)
{
    int64_t m = 0, cols = k->rows < 0 ? 1 : 2;
    for (int64_t i = 0; i < k->n; i++) {
        m += starts_entry(k, i);
    }
    struct td_tensor *indices, *counts, *dims;
    struct td_shape matrix = td_shape_matrix(m, cols), vector = td_shape_vector(m),
                    pair = td_shape_vector(cols);
    TD_TRY(td_out(c, 0, &matrix, &indices, err));
    TD_TRY(td_out(c, 1, &vector, &counts, err));
    TD_TRY(td_out(c, 2, &pair, &dims, err));
    bool binary = td_attr_bool(c->node, "binary_output");
    int64_t at = -1;
    for (int64_t i = 0; i < k->n; i++) {
        const struct record *r = &k->records[i];
        bool fresh = starts_entry(k, i);
        at += fresh;
        if (fresh) {
            int64_t *index = TD_DATA(indices, int64_t) + at * cols;
            index[0] = r->row;
            index[cols - 1] = r->value;
        }
        put_count(counts, at, k->weights, r->at, fresh, binary);
    }
    TD_DATA(dims, int64_t)[0] = k->rows;
    TD_DATA(dims, int64_t)[cols - 1] = out_size;
    return TD_OK;
}

static enum td_code counting_finish(struct td_call *c, struct counting *k, struct td_err *err)
{
    int64_t out_size;
    TD_TRY(counting_sort(c, k, &out_size, err));
    return counting_write(c, k, out_size, err);
}

/* ------------------------------------------------------------------ the three ops */

static enum td_code infer_counts(struct td_infer *c, struct td_err *err)
{
    (void)err;
    c->out[0] = td_shape_of_rank(2);
    c->out[1] = td_shape_vector(-1);
    c->out[2] = td_shape_vector(-1);
    return TD_OK;
}

static enum td_code dense_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0]->shape;
    TD_FAIL_IF(s->rank < 1 || s->rank > 2, err, INVALID_ARGUMENT,
               "%s: Input must be a 1 or 2-dimensional tensor. Got: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 2 && s->dim[0] == 0, err, INVALID_ARGUMENT,
               "%s: Invalid input: Shapes dimension cannot be 0, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(s));
    struct counting k = {.rows = s->rank == 2 ? s->dim[0] : -1};
    TD_TRY(counting_make(c, 0, 1, &k, err));
    for (int64_t i = 0; i < k.n; i++) {
        k.records[i].row = s->rank == 2 ? i / s->dim[1] : 0;
    }
    return counting_finish(c, &k, err);
}

static enum td_code sparse_check(const struct td_call *c, struct td_err *err)
{
    const struct td_shape *at = &c->in[0]->shape, *values = &c->in[1]->shape, *dims = &c->in[2]->shape;
    TD_FAIL_IF(at->rank != 2, err, INVALID_ARGUMENT,
               "%s: Input indices must be a 2-dimensional tensor. Got: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(at));
    TD_FAIL_IF(values->rank != 1, err, INVALID_ARGUMENT, "%s: Input values must be a vector. Got: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(values));
    TD_FAIL_IF(dims->rank != 1 || dims->dim[0] == 0, err, INVALID_ARGUMENT,
               "%s: Input dense_shape must be a non-empty vector. Got: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(dims));
    TD_FAIL_IF(
        at->dim[0] != values->dim[0], err, INVALID_ARGUMENT,
        "%s: Number of values must match first dimension of indices. Got %lld values, indices shape: %s",
        TD_NODE_STR(c->node), (long long)values->dim[0], TD_SHAPE_STR(at));
    TD_FAIL_IF(at->dim[1] != dims->dim[0], err, INVALID_ARGUMENT,
               "%s: Number of dimensions must match second dimension of indices. Got %lld dimensions, "
               "indices shape: %s",
               TD_NODE_STR(c->node), (long long)dims->dim[0], TD_SHAPE_STR(at));
    return TD_OK;
}

static enum td_code sparse_run(struct td_call *c, struct td_err *err)
{
    TD_TRY(sparse_check(c, err));
    const int64_t *at = c->in[0]->data, *dim = c->in[2]->data;
    int64_t rank = td_tensor_count(c->in[2]);
    struct counting k = {.rows = rank == 1 ? -1 : dim[0]};
    TD_TRY(counting_make(c, 1, 3, &k, err));
    for (int64_t i = 0; i < k.n; i++) {
        for (int64_t d = 0; d < rank; d++) {
            TD_FAIL_IF(
                at[i * rank + d] < 0 || at[i * rank + d] >= dim[d], err, INVALID_ARGUMENT,
                "%s: Invalid index value at %lld: dimension %lld has value %lld which is not in [0, %lld)",
                TD_NODE_STR(c->node), (long long)i, (long long)d, (long long)at[i * rank + d],
                (long long)dim[d]);
        }
        k.records[i].row = rank == 1 ? 0 : at[i * rank];
    }
    return counting_finish(c, &k, err);
}

static enum td_code ragged_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *splits = c->in[0];
    int64_t rows = td_tensor_count(splits) - 1;
    TD_FAIL_IF(splits->shape.rank != 1 || rows < 1, err, INVALID_ARGUMENT,
               "%s: Must provide at least 2 elements for the splits argument, a vector; have shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&splits->shape));
    const int64_t *split = splits->data;
    struct counting k = {.rows = rows};
    TD_TRY(counting_make(c, 1, 2, &k, err));
    TD_FAIL_IF(split[0] != 0, err, INVALID_ARGUMENT, "%s: Splits must start with 0, not with %lld",
               TD_NODE_STR(c->node), (long long)split[0]);
    TD_FAIL_IF(split[rows] != k.n, err, INVALID_ARGUMENT,
               "%s: Splits must end with the number of values, got %lld instead of %lld",
               TD_NODE_STR(c->node), (long long)split[rows], (long long)k.n);
    int64_t row = 0;
    for (int64_t i = 0; i < k.n; i++) {
        while (i >= split[row + 1]) { /* ends: the last split is n */
            row++;
        }
        k.records[i].row = row;
    }
    return counting_finish(c, &k, err);
}

/* ------------------------------------------------------------------ the table */

#define ATTRS "{T:type; minlength:int=-1; maxlength:int=-1; binary_output:bool; output_type:type}"
#define OUTPUTS "(output_indices:int64, output_values:output_type, output_dense_shape:int64) "
#define KERNEL(fn)                                                                                           \
    TD_KERNEL("count_sparse.cpu", fn, {"T", TD_SET_INDEX}, {"output_type", TD_SET_INDEX | TD_SET_F32_F64})

const struct td_op td_ops_count_sparse[] = {
    {.name = "DenseCountSparseOutput",
     .sig = "(values:T, weights:output_type) -> " OUTPUTS ATTRS,
     .infer = infer_counts,
     .kernels = KERNEL(dense_run)},
    {.name = "SparseCountSparseOutput",
     .sig = "(indices:int64, values:T, dense_shape:int64, weights:output_type) -> " OUTPUTS ATTRS,
     .infer = infer_counts,
     .kernels = KERNEL(sparse_run)},
    {.name = "RaggedCountSparseOutput",
     .sig = "(splits:int64, values:T, weights:output_type) -> " OUTPUTS ATTRS,
     .infer = infer_counts,
     .kernels = KERNEL(ragged_run)},
    {.name = NULL},
};
