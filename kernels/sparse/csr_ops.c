/* kernels/sparse/csr_ops.c - sparse matrices in compressed rows (csr.h): made of and turned into other
 * tensors, transposed, taken apart. Their products: csr_product.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/graph/graph.h"
#include "kernels/ops.h"
#include "kernels/sparse/csr.h"
#include "kernels/sparse/sparse_coo.h"

/* ------------------------------------------------------------------ from indices and values */

static enum td_code scalar_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code matrix_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 0, err));
    return scalar_infer(c, err);
}

static enum td_code coo_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    const struct td_shape *shape = &c->in[2];
    TD_FAIL_IF(shape->rank == 1 && shape->dim[0] >= 0 && shape->dim[0] != 2 && shape->dim[0] != 3, err,
               INVALID_ARGUMENT, "%s: SparseTensor must have rank 2 or 3; but indices has rank: %lld",
               TD_NODE_STR(c->node), (long long)shape->dim[0]);
    return scalar_infer(c, err);
}

/* Matrix, row and column of an index. */
static void place(const struct td_coo *x, int64_t k, int64_t at[3])
{
    const int64_t *ix = x->ix + k * x->rank;
    at[0] = x->rank == 3 ? ix[0] : 0;
    at[1] = ix[x->rank - 2];
    at[2] = ix[x->rank - 1];
}

/* The matrix whose values lie at x, in order; they are the caller's to fill in. */
static enum td_code make(const struct td_call *c, const struct td_coo *x, enum td_dtype dtype,
                         struct td_csr **out, struct td_err *err)
{
    struct td_shape shape = {.rank = x->rank};
    memcpy(shape.dim, x->dim, (size_t)x->rank * sizeof *x->dim);
    TD_TRY(td_coo_check_bounds(c, x, err));
    TD_FAIL_IF(!td_coo_sorted(x), err, INVALID_ARGUMENT, "%s: indices are out of order",
               TD_NODE_STR(c->node));
    TD_TRY(td_csr_new(c->node, dtype, &shape, x->n, out, err));
    for (int64_t k = 0; k < x->n; k++) {
        int64_t at[3];
        place(x, k, at);
        (*out)->row[at[0] * ((*out)->rows + 1) + at[1] + 1]++;
        (*out)->col[k] = (int32_t)at[2];
    }
    td_csr_seal(*out);
    return TD_OK;
}

static enum td_code from_coo_run(struct td_call *c, struct td_err *err)
{
    struct td_coo x;
    struct td_csr *m;
    TD_TRY(td_coo_view(c, 0, 2, &x, err));
    TD_TRY(make(c, &x, c->in[1]->dtype, &m, err));
    td_elems_copy(c->in[1]->dtype, m->values.data, c->in[1]->data, x.n);
    return td_out_obj(c, 0, &m->obj, err);
}

static enum td_code from_dense_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *ix = &c->in[1];
    TD_FAIL_IF(x->rank >= 0 && x->rank != 2 && x->rank != 3, err, INVALID_ARGUMENT,
               "%s: dense input must have rank 2 or 3, has shape %s", TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    TD_FAIL_IF(x->rank >= 0 && ix->rank == 2 && ix->dim[1] >= 0 && ix->dim[1] != x->rank, err,
               INVALID_ARGUMENT, "%s: indices of shape %s do not name elements of a tensor of shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(ix), TD_SHAPE_STR(x));
    return scalar_infer(c, err);
}

/* Number of the element at an index. */
static int64_t element(const struct td_coo *x, int64_t k)
{
    int64_t at = 0;
    for (int d = 0; d < x->rank; d++) {
        at = at * x->dim[d] + x->ix[k * x->rank + d];
    }
    return at;
}

static enum td_code from_dense_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *dense = c->in[0], *indices = c->in[1];
    const struct td_coo x = {
        .ix = indices->data, .n = indices->shape.dim[0], .rank = dense->shape.rank, .dim = dense->shape.dim};
    const size_t size = td_dtype_size(dense->dtype);
    struct td_csr *m;
    TD_TRY(make(c, &x, dense->dtype, &m, err));
    for (int64_t k = 0; k < x.n; k++) {
        memcpy((char *)m->values.data + (size_t)k * size,
               (const char *)dense->data + (size_t)element(&x, k) * size, size);
    }
    return td_out_obj(c, 0, &m->obj, err);
}

/* ------------------------------------------------------------------ to other tensors */

/* Walks all values: of matrix b, row i. */
#define EACH_ROW(m, b, i, from, to)                                                                          \
    for (int64_t b = 0; b < (m)->batch; b++)                                                                 \
        for (int64_t i = 0, from, to; i < (m)->rows && (td_csr_row(m, b, i, &from, &to), true); i++)

static enum td_code to_dense_run(struct td_call *c, struct td_err *err)
{
    const enum td_dtype dtype = td_attr_type(c->node, "type");
    const size_t size = td_dtype_size(dtype);
    const struct td_csr *m;
    struct td_tensor *y;
    TD_TRY(td_csr_in(c, 0, dtype, &m, err));
    const struct td_shape shape = td_csr_shape(m);
    TD_TRY(td_out(c, 0, &shape, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    memset(y->data, 0, td_tensor_bytes(y));
    EACH_ROW(m, b, i, from, to)
    {
        char *row = (char *)y->data + (size_t)((b * m->rows + i) * m->cols) * size;
        for (int64_t k = from; k < to; k++) {
            memcpy(row + (size_t)m->col[k] * size, (const char *)m->values.data + (size_t)k * size, size);
        }
    }
    return TD_OK;
}

static enum td_code to_coo_run(struct td_call *c, struct td_err *err)
{
    const enum td_dtype dtype = td_attr_type(c->node, "type");
    const struct td_csr *m;
    struct td_tensor *indices, *values, *dims;
    TD_TRY(td_csr_in(c, 0, dtype, &m, err));
    const struct td_shape shape = td_csr_shape(m), of_indices = td_shape_matrix(m->n, m->rank);
    const struct td_shape of_values = td_shape_vector(m->n), of_dims = td_shape_vector(m->rank);
    TD_TRY(td_out(c, 0, &of_indices, &indices, err));
    TD_TRY(td_out(c, 1, &of_values, &values, err));
    TD_TRY(td_out(c, 2, &of_dims, &dims, err));
    for (int d = 0; d < m->rank; d++) {
        TD_DATA(dims, int64_t)[d] = shape.dim[d];
    }
    td_elems_copy(dtype, values->data, m->values.data, m->n);
    int64_t *to_index = indices->data;
    EACH_ROW(m, b, i, from, to)
    {
        for (int64_t k = from; k < to; k++) {
            if (m->rank == 3) {
                *to_index++ = b;
            }
            *to_index++ = i;
            *to_index++ = m->col[k];
        }
    }
    return TD_OK;
}

static enum td_code parts_run(struct td_call *c, struct td_err *err)
{
    const enum td_dtype dtype = td_attr_type(c->node, "type");
    const int64_t b = td_tensor_int(c->in[1], 0);
    const struct td_csr *m;
    struct td_tensor *rows, *cols, *values;
    TD_TRY(td_csr_in(c, 0, dtype, &m, err));
    TD_FAIL_IF(b < 0 || b >= m->batch, err, INVALID_ARGUMENT, "%s: index (%lld) not in [0, %lld)",
               TD_NODE_STR(c->node), (long long)b, (long long)m->batch);
    const int64_t from = m->start[b], n = m->start[b + 1] - from;
    const struct td_shape of_rows = td_shape_vector(m->rows + 1), of_values = td_shape_vector(n);
    TD_TRY(td_out(c, 0, &of_rows, &rows, err));
    TD_TRY(td_out(c, 1, &of_values, &cols, err));
    TD_TRY(td_out(c, 2, &of_values, &values, err));
    memcpy(rows->data, m->row + b * (m->rows + 1), (size_t)(m->rows + 1) * sizeof *m->row);
    if (n > 0) {
        memcpy(cols->data, m->col + from, (size_t)n * sizeof *m->col);
        td_elems_copy(dtype, values->data, (const char *)m->values.data + (size_t)from * td_dtype_size(dtype),
                      n);
    }
    return TD_OK;
}

static enum td_code parts_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_TRY(td_infer_rank(c, 1, 0, err));
    for (int i = 0; i < 3; i++) {
        c->out[i] = td_shape_vector(-1);
    }
    return TD_OK;
}

static enum td_code count_run(struct td_call *c, struct td_err *err)
{
    const struct td_csr *m;
    struct td_tensor *y;
    TD_TRY(td_csr_in(c, 0, TD_DTYPE_NONE, &m, err));
    const struct td_shape shape = m->rank == 2 ? td_shape_scalar() : td_shape_vector(m->batch);
    TD_TRY(td_out(c, 0, &shape, &y, err));
    for (int64_t b = 0; b < m->batch; b++) {
        TD_DATA(y, int32_t)[b] = m->start[b + 1] - m->start[b];
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ transposition */

static enum td_code transpose_run(struct td_call *c, struct td_err *err)
{
    const struct td_csr *m;
    struct td_csr *t;
    TD_TRY(td_csr_in(c, 0, td_attr_type(c->node, "type"), &m, err));
    TD_TRY(td_csr_transpose(c, m, td_attr_bool(c->node, "conjugate"), &t, err));
    return td_out_obj(c, 0, &t->obj, err);
}

/* ------------------------------------------------------------------ the table */

#define SET (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)
#define KERNEL(fn, attr) TD_KERNEL("csr.cpu", fn, {attr, SET})

const struct td_op td_ops_csr_ops[] = {
    {.name = "SparseTensorToCSRSparseMatrix",
     .sig = "(indices:int64, values:T, dense_shape:int64) -> (sparse_matrix:variant) {T:type}",
     .host_in = 5,
     .infer = coo_infer,
     .kernels = KERNEL(from_coo_run, "T"),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = "DenseToCSRSparseMatrix",
     .sig = "(dense_input:T, indices:int64) -> (sparse_output:variant) {T:type}",
     .host_in = 2,
     .infer = from_dense_infer,
     .kernels = KERNEL(from_dense_run, "T"),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = "CSRSparseMatrixToDense",
     .sig = "(sparse_input:variant) -> (dense_output:type) {type:type}",
     .kernels = KERNEL(to_dense_run, "type"),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = "CSRSparseMatrixToSparseTensor",
     .sig = "(sparse_matrix:variant) -> (indices:int64, values:type, dense_shape:int64) {type:type}",
     .kernels = KERNEL(to_coo_run, "type"),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = "CSRSparseMatrixComponents",
     .sig = "(csr_sparse_matrix:variant, index:int32) -> (row_ptrs:int32, col_inds:int32, values:type) "
            "{type:type}",
     .host_in = 2,
     .infer = parts_infer,
     .kernels = KERNEL(parts_run, "type")},
    {.name = "SparseMatrixNNZ",
     .sig = "(sparse_matrix:variant) -> (nnz:int32) {}",
     .kernels = TD_KERNEL("csr.cpu", count_run, {NULL, 0})},
    {.name = "SparseMatrixTranspose",
     .sig = "(input:variant) -> (output:variant) {conjugate:bool=false; type:type}",
     .infer = matrix_infer,
     .kernels = KERNEL(transpose_run, "type"),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = NULL},
};
