/* kernels/math/math_count.c - Bincount and its dense, ragged and sparse kin: how often each value occurs.
 *
 *   Bincount:       arr [any shape] of int32, size, weights (like arr, or empty: all 1)  ->  bins [size] of T
 *   DenseBincount:  input [n] or [rows, n]                                ->  output [size] or [rows, size]
 *   RaggedBincount: splits [rows + 1], values [n]                         ->  output [rows, size]
 *   SparseBincount: indices [n, rank], values [n], dense_shape [rank]
 *                                                ->  output [size] or [dense_shape[0], size]
 *
 * Values at or above `size` are left out. Negative ones are errors, but SparseBincount leaves them out. With
 * binary_output a value that occurs gives 1, whatever the weights say.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops.h"
#include "kernels/cpu/scalar.h"

/* ------------------------------------------------------------------ adding to a bin of any dtype */

struct bins {
    struct td_tensor *out;
    const struct td_tensor *weights; /* NULL: all 1 */
    int64_t size;
    bool binary;
};

static void bin_add(const struct bins *b, int64_t at, int64_t i)
{
    switch (b->out->dtype) {
#define X(DTYPE, T, tag)                                                                                     \
    case DTYPE: {                                                                                            \
        T w = b->weights == NULL ? 1 : TD_DATA(b->weights, const T)[i], *bin = TD_DATA(b->out, T) + at;      \
        *bin = b->binary ? 1 : td_add_##tag(*bin, w);                                                        \
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

/* Counts element i, of value v, in row `row`. */
static void bin_count(const struct bins *b, int64_t row, int64_t v, int64_t i)
{
    if (v >= 0 && v < b->size) {
        bin_add(b, row * b->size + v, i);
    }
}

/* ------------------------------------------------------------------ what the four ops check alike */

static enum td_code infer_size(struct td_infer *c, int i, int64_t *size, struct td_err *err)
{
    bool known;
    TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: size: Shape must be rank 0 but is rank %d",
               TD_NODE_STR(c->node), c->in[i].rank);
    TD_TRY(td_infer_int_value(c, i, &known, size, err));
    TD_FAIL_IF(known && *size < 0, err, INVALID_ARGUMENT, "%s: size (%lld) must be non-negative",
               TD_NODE_STR(c->node), (long long)*size);
    *size = known ? *size : -1;
    return TD_OK;
}

static enum td_code check_weights(const struct td_node *n, const struct td_shape *values,
                                  const struct td_shape *weights, bool count_only, struct td_err *err)
{
    int64_t nv = td_shape_count(values), nw = td_shape_count(weights);
    if (!td_shape_known(values) || !td_shape_known(weights) || nw == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(count_only ? nv != nw : !td_shape_equal(values, weights), err, INVALID_ARGUMENT,
               "%s: Input indices and weights must have the same size. `weights` must be the same shape as "
               "`arr` or a "
               "length-0 `Tensor`, in which case it acts as all weights equal to 1. Received %s for values "
               "of shape %s",
               TD_NODE_STR(n), TD_SHAPE_STR(weights), TD_SHAPE_STR(values));
    return TD_OK;
}

/* Zeroed output 0, and the weights unless they are empty. */
static enum td_code bins_make(struct td_call *c, int i_weights, bool binary, struct bins *b,
                              struct td_err *err)
{
    TD_TRY(td_out(c, 0, NULL, &b->out, err));
    b->size = b->out->shape.dim[b->out->shape.rank - 1];
    b->weights = td_tensor_count(c->in[i_weights]) ? c->in[i_weights] : NULL;
    b->binary = binary;
    if (td_tensor_count(b->out)) {
        memset(b->out->data, 0, td_tensor_bytes(b->out));
    }
    return TD_OK;
}

static enum td_code refuse_negative(const struct td_node *n, const struct td_tensor *values, const char *what,
                                    struct td_err *err)
{
    int64_t count = td_tensor_count(values);
    for (int64_t i = 0; i < count; i++) {
        TD_FAIL_IF(td_tensor_int(values, i) < 0, err, INVALID_ARGUMENT, "%s: %s: element %lld is %lld",
                   TD_NODE_STR(n), what, (long long)i, (long long)td_tensor_int(values, i));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Bincount, DenseBincount */

static enum td_code infer_flat(struct td_infer *c, struct td_err *err)
{
    int64_t size;
    TD_TRY(infer_size(c, 1, &size, err));
    TD_TRY(check_weights(c->node, &c->in[0], &c->in[2], true, err));
    c->out[0] = td_shape_vector(size);
    return TD_OK;
}

static enum td_code infer_dense(struct td_infer *c, struct td_err *err)
{
    int64_t size;
    TD_FAIL_IF(c->in[0].rank > 2, err, INVALID_ARGUMENT, "%s: Shape must be at most rank 2 but is rank %d",
               TD_NODE_STR(c->node), c->in[0].rank);
    TD_TRY(infer_size(c, 1, &size, err));
    TD_TRY(check_weights(c->node, &c->in[0], &c->in[2], false, err));
    if (c->in[0].rank >= 0) {
        c->out[0] = c->in[0].rank == 2 ? td_shape_matrix(c->in[0].dim[0], size) : td_shape_vector(size);
    }
    return TD_OK;
}

static enum td_code count_rows(struct td_call *c, bool binary, struct td_err *err)
{
    struct bins b;
    const struct td_tensor *x = c->in[0];
    TD_TRY(bins_make(c, 2, binary, &b, err));
    TD_TRY(refuse_negative(c->node, x, "Input arr must be non-negative!", err));
    int64_t n = td_tensor_count(x), row_length = b.out->shape.rank == 2 ? x->shape.dim[1] : n;
    for (int64_t i = 0; i < n && !td_work_spent(4); i++) {
        bin_count(&b, i / row_length, td_tensor_int(x, i), i);
    }
    return TD_OK;
}

static enum td_code flat_run(struct td_call *c, struct td_err *err)
{
    return count_rows(c, false, err);
}

static enum td_code dense_run(struct td_call *c, struct td_err *err)
{
    return count_rows(c, td_attr_bool(c->node, "binary_output"), err);
}

/* ------------------------------------------------------------------ RaggedBincount */

static enum td_code infer_ragged(struct td_infer *c, struct td_err *err)
{
    int64_t size;
    TD_TRY(td_infer_rank(c, 0, 1, err));
    TD_TRY(infer_size(c, 2, &size, err));
    TD_TRY(check_weights(c->node, &c->in[1], &c->in[3], false, err));
    int64_t splits = c->in[0].rank == 1 ? c->in[0].dim[0] : -1;
    TD_FAIL_IF(splits == 0, err, INVALID_ARGUMENT, "%s: Splits must be non-empty", TD_NODE_STR(c->node));
    c->out[0] = td_shape_matrix(splits < 0 ? -1 : splits - 1, size);
    return TD_OK;
}

static enum td_code ragged_run(struct td_call *c, struct td_err *err)
{
    struct bins b;
    const struct td_tensor *splits = c->in[0], *x = c->in[1];
    TD_TRY(bins_make(c, 3, td_attr_bool(c->node, "binary_output"), &b, err));
    int64_t rows = b.out->shape.dim[0], n = td_tensor_count(x);
    const int64_t *split = splits->data;
    TD_FAIL_IF(split[0] != 0, err, INVALID_ARGUMENT, "%s: Splits must start with 0, not with %lld",
               TD_NODE_STR(c->node), (long long)split[0]);
    TD_FAIL_IF(split[rows] != n, err, INVALID_ARGUMENT,
               "%s: Splits must end with the number of values, got %lld instead of %lld",
               TD_NODE_STR(c->node), (long long)split[rows], (long long)n);
    TD_TRY(refuse_negative(c->node, x, "Input must be non-negative", err));
    int64_t row = 0;
    for (int64_t i = 0; i < n; i++) {
        while (i >= split[row + 1]) { /* ends: the last split is n */
            row++;
        }
        bin_count(&b, row, td_tensor_int(x, i), i);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseBincount */

static enum td_code infer_sparse(struct td_infer *c, struct td_err *err)
{
    int64_t size;
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_TRY(td_infer_rank(c, 2, 1, err));
    TD_TRY(infer_size(c, 3, &size, err));
    TD_TRY(check_weights(c->node, &c->in[1], &c->in[4], true, err));
    int64_t rank = c->in[2].rank == 1 ? c->in[2].dim[0] : -1;
    if (c->in[0].rank == 2 && c->in[1].rank == 1) {
        int64_t rows = c->in[0].dim[0], n = c->in[1].dim[0], cols = c->in[0].dim[1];
        TD_FAIL_IF(rows >= 0 && n >= 0 && rows != n, err, INVALID_ARGUMENT,
                   "%s: Number of elements in indices (%lld) and values (%lld) do not match",
                   TD_NODE_STR(c->node), (long long)rows, (long long)n);
        TD_FAIL_IF(cols >= 0 && rank >= 0 && cols != rank, err, INVALID_ARGUMENT,
                   "%s: Index rank (%lld) and shape rank (%lld) do not match", TD_NODE_STR(c->node),
                   (long long)cols, (long long)rank);
    }
    TD_FAIL_IF(rank == 0, err, INVALID_ARGUMENT, "%s: dense_shape must name at least one dimension",
               TD_NODE_STR(c->node));
    if (rank == 1) {
        c->out[0] = td_shape_vector(size);
    } else if (rank > 1) {
        int64_t rows = c->value[2] == NULL ? -1 : td_tensor_int(c->value[2], 0);
        TD_FAIL_IF(rows < -1 || (c->value[2] != NULL && rows < 0), err, INVALID_ARGUMENT,
                   "%s: dense_shape[0] is %lld, want >= 0", TD_NODE_STR(c->node), (long long)rows);
        c->out[0] = td_shape_matrix(rows, size);
    }
    return TD_OK;
}

static enum td_code sparse_run(struct td_call *c, struct td_err *err)
{
    struct bins b;
    const struct td_tensor *at = c->in[0], *x = c->in[1], *dims = c->in[2];
    TD_TRY(bins_make(c, 4, td_attr_bool(c->node, "binary_output"), &b, err));
    int64_t n = td_tensor_count(x), rank = td_tensor_count(dims);
    if (rank == 1) { /* in rows, TensorFlow skips them */
        TD_TRY(refuse_negative(c->node, x, "Input arr must be non-negative!", err));
    }
    for (int64_t i = 0; i < n && !td_work_spent(8); i++) {
        for (int64_t d = 0; d < rank; d++) {
            int64_t coord = td_tensor_int(at, i * rank + d);
            TD_FAIL_IF(coord < 0 || coord >= td_tensor_int(dims, d), err, INVALID_ARGUMENT,
                       "%s: Sparse index tuple indices[%lld, :] is out of bounds: dimension %lld has %lld, "
                       "size %lld",
                       TD_NODE_STR(c->node), (long long)i, (long long)d, (long long)coord,
                       (long long)td_tensor_int(dims, d));
        }
        bin_count(&b, rank == 1 ? 0 : td_tensor_int(at, i * rank), td_tensor_int(x, i), i);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define SET_BINS (TD_SET_INDEX | TD_SET_F32_F64)

const struct td_op td_ops_math_count[] = {
    {.name = "Bincount",
     .sig = "(arr:int32, size:int32, weights:T) -> (bins:T) {T:type}",
     .host_in = 1u << 1,
     .infer = infer_flat,
     .kernels = TD_KERNEL("math_count.cpu", flat_run, {"T", SET_BINS})},
    {.name = "DenseBincount",
     .sig = "(input:Tidx, size:Tidx, weights:T) -> (output:T) {Tidx:type; T:type; binary_output:bool=false}",
     .host_in = 1u << 1,
     .infer = infer_dense,
     .kernels = TD_KERNEL("math_count.cpu", dense_run, {"Tidx", TD_SET_INDEX}, {"T", SET_BINS})},
    {.name = "RaggedBincount",
     .sig = "(splits:int64, values:Tidx, size:Tidx, weights:T) -> (output:T) {Tidx:type; T:type; "
            "binary_output:bool=false}",
     .host_in = 1u << 2,
     .infer = infer_ragged,
     .kernels = TD_KERNEL("math_count.cpu", ragged_run, {"Tidx", TD_SET_INDEX}, {"T", SET_BINS})},
    {.name = "SparseBincount",
     .sig = "(indices:int64, values:Tidx, dense_shape:int64, size:Tidx, weights:T) -> (output:T) {Tidx:type; "
            "T:type; "
            "binary_output:bool=false}",
     .host_in = 1u << 2 | 1u << 3,
     .infer = infer_sparse,
     .kernels = TD_KERNEL("math_count.cpu", sparse_run, {"Tidx", TD_SET_INDEX}, {"T", SET_BINS})},
    {.name = NULL},
};
