/* kernels/sparse/sparse_dense.c - sparse and dense tensors together: SparseToDense, SparseTensorDenseMatMul,
 * SparseTensorDenseAdd, SparseDenseCwise{Add,Mul,Div}, SparseMatMul.
 *
 * All of them walk the entries of the sparse operand one by one and touch the dense one where its index says;
 * each index is checked before it is used. A product adds v times a row of b to a row of the output, with a
 * loop of its own for float and double; half and bfloat16 add up in a float copy that is rounded once at the
 * end, and the other dtypes go element by element through td_elem_apply().
 *
 * SparseMatMul has two dense operands; zeros of the first are skipped, and it is plain loops otherwise.
 *
 * Threads: the run's; no helpers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/cpu/elem.h"
#include "kernels/linalg/matmul_grad.h"
#include "kernels/ops.h"
#include "kernels/sparse/sparse_coo.h"
#include "kernels/sparse/sparse_grad.h"

#include <string.h>

static char *elem_at(const struct td_tensor *t, int64_t i)
{
    return (char *)t->data + (size_t)i * td_dtype_size(t->dtype);
}

/* ------------------------------------------------------------------ SparseToDense
 *
 * sparse_indices [n, r], [n] or []  output_shape [r]  sparse_values [n] or []  default_value [] ->
 * output_shape */

static enum td_code to_dense_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *ix = &c->in[0], *values = &c->in[2];
    TD_FAIL_IF(ix->rank > 2, err, INVALID_ARGUMENT,
               "%s: sparse_indices should be a scalar, vector, or matrix, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(ix));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_FAIL_IF(values->rank > 1, err, INVALID_ARGUMENT,
               "%s: sparse_values must be a scalar or a vector, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(values));
    TD_FAIL_IF(c->in[3].rank > 0, err, INVALID_ARGUMENT, "%s: default_value should be a scalar, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[3]));
    int64_t n = ix->rank < 0 ? -1 : ix->rank == 0 ? 1 : ix->dim[0];
    TD_FAIL_IF(values->rank == 1 && n >= 0 && values->dim[0] >= 0 && values->dim[0] != n, err,
               INVALID_ARGUMENT, "%s: sparse_values has incorrect shape %s, should be [] or [%lld]",
               TD_NODE_STR(c->node), TD_SHAPE_STR(values), (long long)n);
    int64_t rank = ix->rank < 0 ? -1 : ix->rank == 2 ? ix->dim[1] : 1;
    TD_FAIL_IF(rank >= 0 && c->in[1].rank == 1 && c->in[1].dim[0] >= 0 && c->in[1].dim[0] != rank, err,
               INVALID_ARGUMENT, "%s: output_shape has incorrect number of elements: %lld should be: %lld",
               TD_NODE_STR(c->node), (long long)c->in[1].dim[0], (long long)rank);
    return td_infer_shape_value(c, 1, false, &c->out[0], err);
}

/* Rows of indices that address a dense tensor. */
struct places {
    const struct td_shape *shape; /* of the dense tensor */
    int64_t rank;                 /* indices a row */
    bool ascending;               /* each row must lie behind the one before */
    int64_t last;                 /* flat position of the row before; -1 before the first */
};

/* Flat position of index row i, checked against the shape and the row before. */
static enum td_code find_place(struct td_call *c, struct places *p, int64_t i, int64_t *at,
                               struct td_err *err)
{
    const struct td_shape *shape = p->shape;
    const int64_t rank = p->rank;
    char text[160];
    int64_t row[TD_MAX_RANK], flat = 0;
    bool in = true;
    for (int64_t d = 0; d < rank; d++) {
        row[d] = td_tensor_int(c->in[0], i * rank + d);
        in &= row[d] >= 0 && row[d] < shape->dim[d];
        flat = in ? flat * shape->dim[d] + row[d] : 0;
    }
    TD_FAIL_IF(!in, err, INVALID_ARGUMENT, "%s: indices[%lld] = %s is out of bounds: need 0 <= index < %s",
               TD_NODE_STR(c->node), (long long)i, td_coo_text(row, (int)rank, text, sizeof(text)),
               TD_SHAPE_STR(shape));
    TD_FAIL_IF(p->ascending && flat <= p->last, err, INVALID_ARGUMENT, "%s: indices[%lld] = %s is %s",
               TD_NODE_STR(c->node), (long long)i, td_coo_text(row, (int)rank, text, sizeof(text)),
               flat == p->last ? "repeated" : "out of order. Many sparse ops require sorted indices");
    p->last = *at = flat;
    return TD_OK;
}

static enum td_code to_dense_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *ix = c->in[0], *values = c->in[2];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = ix->shape.rank == 0 ? 1 : ix->shape.dim[0], rank = ix->shape.rank == 2 ? ix->shape.dim[1] : 1;
    struct places places = {
        .shape = &y->shape, .rank = rank, .ascending = td_attr_bool(c->node, "validate_indices"), .last = -1};
    int64_t at = 0;
    for (int64_t i = 0, count = td_tensor_count(y); i < count && !td_work_spent(4); i++) {
        td_elems_copy(y->dtype, elem_at(y, i), c->in[3]->data, 1);
    }
    for (int64_t i = 0; i < n && !td_work_spent(16); i++) {
        TD_TRY(find_place(c, &places, i, &at, err));
        td_elems_copy(y->dtype, elem_at(y, at), elem_at(values, values->shape.rank == 0 ? 0 : i), 1);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseTensorDenseMatMul
 *
 * a: sparse [m, k] (or its adjoint)  b [k, n] (or its adjoint)  ->  [m, n] */

static enum td_code matmul_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    const struct td_shape *b = &c->in[3];
    TD_FAIL_IF(b->rank >= 0 && b->rank != 2, err, INVALID_ARGUMENT, "%s: Tensor 'b' is not a matrix: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(b));
    TD_FAIL_IF(c->in[2].rank == 1 && c->in[2].dim[0] >= 0 && c->in[2].dim[0] != 2, err, INVALID_ARGUMENT,
               "%s: Tensor 'a_shape' must have 2 elements, has %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]));
    bool adj_a = td_attr_bool(c->node, "adjoint_a"), adj_b = td_attr_bool(c->node, "adjoint_b");
    c->out[0] = td_shape_matrix(-1, b->rank == 2 ? b->dim[adj_b ? 0 : 1] : -1);
    if (!c->value[2]) {
        return TD_OK;
    }
    const int64_t *a = c->value[2]->data;
    TD_FAIL_IF(a[0] < 0 || a[1] < 0, err, INVALID_ARGUMENT, "%s: a_shape [%lld,%lld], want no negative size",
               TD_NODE_STR(c->node), (long long)a[0], (long long)a[1]);
    int64_t inner = a[adj_a ? 0 : 1], k = b->rank == 2 ? b->dim[adj_b ? 1 : 0] : -1;
    TD_FAIL_IF(k >= 0 && k != inner, err, INVALID_ARGUMENT,
               "%s: Cannot multiply A and B because inner dimension does not match: %lld vs. %lld.  Did you "
               "forget a "
               "transpose?  Dimensions of A: [%lld, %lld).  Dimensions of B: %s",
               TD_NODE_STR(c->node), (long long)inner, (long long)k, (long long)a[0], (long long)a[1],
               TD_SHAPE_STR(b));
    c->out[0].dim[0] = a[adj_a ? 1 : 0];
    return TD_OK;
}

struct product {
    const struct td_tensor *ix, *a, *b;
    bool adj_a, adj_b;
    int64_t rows, inner, cols;
};

/* One row of y gets v times a row of b (or a column of its adjoint). */
#define AXPY(name, type, acc)                                                                                \
    static void axpy_##name(acc *y, acc v, const type *b, int64_t n, int64_t step)                           \
    {                                                                                                        \
        for (int64_t j = 0; j < n; j++) {                                                                    \
            y[j] += v * (acc)b[j * step];                                                                    \
        }                                                                                                    \
    }
AXPY(float, float, float)
AXPY(double, double, double)

static void axpy_any(enum td_dtype t, void *y, const void *v, bool conj_v, const void *b, bool conj_b,
                     int64_t n, int64_t step)
{
    size_t size = td_dtype_size(t);
    td_c128 product, x, w;
    memcpy(&x, v, size);
    for (int64_t j = 0; j < n; j++) {
        memcpy(&w, (const char *)b + (size_t)(j * step) * size, size);
        if (t == TD_COMPLEX64) {
            ((td_c64 *)&w)->im *= conj_b ? -1 : 1;
            ((td_c64 *)&x)->im *= conj_v && j == 0 ? -1 : 1;
        } else if (t == TD_COMPLEX128) {
            w.im *= conj_b ? -1 : 1;
            x.im *= conj_v && j == 0 ? -1 : 1;
        }
        td_elem_apply(t, TD_ELEM_MUL, &product, &x, &w);
        td_elem_apply(t, TD_ELEM_ADD, (char *)y + (size_t)j * size, (char *)y + (size_t)j * size, &product);
    }
}

/* half and bfloat16 add up in float; the whole product is rounded once, at the end. */
static void axpy_16(enum td_dtype t, float *y, uint16_t v, const uint16_t *b, int64_t n, int64_t step)
{
    float x = t == TD_HALF ? td_half_to_float((td_half){v}) : td_bf16_to_float((td_bf16){v});
    for (int64_t j = 0; j < n; j++) {
        uint16_t w = b[j * step];
        y[j] += x * (t == TD_HALF ? td_half_to_float((td_half){w}) : td_bf16_to_float((td_bf16){w}));
    }
}

static void add_row(const struct product *p, void *y, int64_t row, int64_t i, int64_t k)
{
    int64_t step = p->adj_b ? p->inner : 1;
    size_t size = td_dtype_size(p->a->dtype);
    const char *b = (const char *)p->b->data + (size_t)(p->adj_b ? k : k * p->cols) * size;
    const char *v = elem_at(p->a, i);
    switch (p->a->dtype) {
    case TD_FLOAT:
        axpy_float((float *)y + row * p->cols, *(const float *)v, (const float *)b, p->cols, step);
        break;
    case TD_DOUBLE:
        axpy_double((double *)y + row * p->cols, *(const double *)v, (const double *)b, p->cols, step);
        break;
    case TD_HALF:
    case TD_BFLOAT16:
        axpy_16(p->a->dtype, (float *)y + row * p->cols, *(const uint16_t *)v, (const uint16_t *)b, p->cols,
                step);
        break;
    default:
        axpy_any(p->a->dtype, (char *)y + (size_t)(row * p->cols) * size, v, p->adj_a, b, p->adj_b, p->cols,
                 step);
    }
}

static void round_16(enum td_dtype t, const float *sum, struct td_tensor *y)
{
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        TD_DATA(y, uint16_t)
        [i] = t == TD_HALF ? td_float_to_half(sum[i]).bits : td_float_to_bf16(sum[i]).bits;
    }
}

static enum td_code matmul_run(struct td_call *c, struct td_err *err)
{
    struct product p = {.ix = c->in[0], .a = c->in[1], .b = c->in[3]};
    p.adj_a = td_attr_bool(c->node, "adjoint_a");
    p.adj_b = td_attr_bool(c->node, "adjoint_b");
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    p.rows = y->shape.dim[0];
    p.cols = y->shape.dim[1];
    p.inner = p.b->shape.dim[p.adj_b ? 1 : 0];
    bool in_float = y->dtype == TD_HALF || y->dtype == TD_BFLOAT16;
    void *sum = y->data;
    size_t bytes = td_tensor_bytes(y) * (in_float ? 2 : 1);
    if (in_float) {
        TD_TRY(td_scratch(c, bytes + 1, &sum, err));
    }
    if (bytes) {
        memset(sum, 0, bytes);
    }
    /* of nothing, indices are not looked at */
    const bool empty = td_tensor_count(y) == 0 || td_tensor_count(p.b) == 0;
    for (int64_t i = 0, n = empty ? 0 : p.ix->shape.dim[0]; i < n && !td_work_spent(p.inner); i++) {
        int64_t m = td_tensor_int(p.ix, 2 * i + (p.adj_a ? 1 : 0)),
                k = td_tensor_int(p.ix, 2 * i + (p.adj_a ? 0 : 1));
        TD_FAIL_IF(k < 0 || k >= p.inner, err, INVALID_ARGUMENT,
                   "%s: k (%lld) from index[%lld,%d] out of bounds (>=%lld)", TD_NODE_STR(c->node),
                   (long long)k, (long long)i, p.adj_a ? 0 : 1, (long long)p.inner);
        TD_FAIL_IF(m < 0 || m >= p.rows, err, INVALID_ARGUMENT,
                   "%s: m (%lld) from index[%lld,%d] out of bounds (>=%lld)", TD_NODE_STR(c->node),
                   (long long)m, (long long)i, p.adj_a ? 1 : 0, (long long)p.rows);
        add_row(&p, sum, m, i, k);
    }
    if (in_float) {
        round_16(y->dtype, sum, y);
    }
    return TD_OK;
}

/* ------------------------------------------------------------ SparseTensorDenseAdd: b + a, shape of b */

static enum td_code add_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    c->out[0] = c->in[3];
    return TD_OK;
}

static enum td_code add_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t rank = c->in[0]->shape.dim[1], at = 0;
    bool same = rank == y->shape.rank;
    for (int d = 0; same && d < y->shape.rank; d++) {
        same = td_tensor_int(c->in[2], d) == y->shape.dim[d];
    }
    TD_FAIL_IF(
        !same, err, INVALID_ARGUMENT,
        "%s: Dimensions of the sparse operand and the dense one %s do not match (no broadcasting is done)",
        TD_NODE_STR(c->node), TD_SHAPE_STR(&y->shape));
    if (td_tensor_bytes(y)) {
        memcpy(y->data, c->in[3]->data, td_tensor_bytes(y));
    }
    struct places places = {.shape = &y->shape, .rank = rank};
    for (int64_t i = 0, n = c->in[0]->shape.dim[0]; i < n; i++) {
        TD_TRY(find_place(c, &places, i, &at, err));
        td_elem_apply(y->dtype, TD_ELEM_ADD, elem_at(y, at), elem_at(y, at), elem_at(c->in[1], i));
    }
    return TD_OK;
}

/* ------------------------------------------------------------ SparseDenseCwise*: values op dense,
 * broadcast */

static enum td_code cwise_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    c->out[0] = c->in[1];
    return TD_OK;
}

static enum td_code check_broadcast(const struct td_call *c, const struct td_coo *x, struct td_err *err)
{
    const struct td_shape *dense = &c->in[3]->shape;
    bool ok = x->rank >= dense->rank;
    for (int d = 0; ok && d < dense->rank; d++) {
        ok = dense->dim[d] == 1 || dense->dim[d] == x->dim[x->rank - dense->rank + d];
    }
    TD_FAIL_IF(!ok, err, INVALID_ARGUMENT,
               "%s: SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
               "sparse rank %d "
               "vs. dense %s",
               TD_NODE_STR(c->node), x->rank, TD_SHAPE_STR(dense));
    return TD_OK;
}

static enum td_code cwise(struct td_call *c, enum td_elem_op op, struct td_err *err)
{
    struct td_coo x;
    struct td_tensor *y;
    const struct td_shape *s = &c->in[3]->shape;
    TD_TRY(td_coo_view(c, 0, 2, &x, err));
    TD_TRY(td_coo_check_bounds(c, &x, err));
    TD_TRY(check_broadcast(c, &x, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0; i < x.n; i++) {
        int64_t at = 0;
        for (int d = 0; d < s->rank; d++) {
            int64_t v = x.ix[i * x.rank + x.rank - s->rank + d];
            at = at * s->dim[d] + (s->dim[d] == 1 ? 0 : v);
        }
        TD_FAIL_IF(!td_elem_apply(y->dtype, op, elem_at(y, i), elem_at(c->in[1], i), elem_at(c->in[3], at)),
                   err, INVALID_ARGUMENT, "%s: Integer division by zero", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

static enum td_code cwise_add_run(struct td_call *c, struct td_err *err)
{
    return cwise(c, TD_ELEM_ADD, err);
}

static enum td_code cwise_mul_run(struct td_call *c, struct td_err *err)
{
    return cwise(c, TD_ELEM_MUL, err);
}

static enum td_code cwise_div_run(struct td_call *c, struct td_err *err)
{
    return cwise(c, TD_ELEM_DIV, err);
}

/* ------------------------------------------------------------ SparseMatMul: dense operands with many zeros
 *
 * a [m, k]  b [k, n]  -> float [m, n]; either may be transposed, float or bfloat16 */

static enum td_code spmm_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    bool ta = td_attr_bool(c->node, "transpose_a"), tb = td_attr_bool(c->node, "transpose_b");
    int64_t ka = a->rank == 2 ? a->dim[ta ? 0 : 1] : -1, kb = b->rank == 2 ? b->dim[tb ? 1 : 0] : -1;
    TD_FAIL_IF(ka >= 0 && kb >= 0 && ka != kb, err, INVALID_ARGUMENT,
               "%s: Matrix size incompatible: a: %s, b: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(a),
               TD_SHAPE_STR(b));
    c->out[0] =
        td_shape_matrix(a->rank == 2 ? a->dim[ta ? 1 : 0] : -1, b->rank == 2 ? b->dim[tb ? 0 : 1] : -1);
    return TD_OK;
}

static float real_at(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_FLOAT ? TD_DATA(t, float)[i] : td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
}

static enum td_code spmm_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *a = c->in[0], *b = c->in[1];
    bool ta = td_attr_bool(c->node, "transpose_a"), tb = td_attr_bool(c->node, "transpose_b");
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t m = y->shape.dim[0], n = y->shape.dim[1], k = a->shape.dim[ta ? 0 : 1];
    float *out = y->data;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            out[i * n + j] = 0;
        }
        for (int64_t l = 0; l < k; l++) {
            float v = real_at(a, ta ? l * m + i : i * k + l);
            for (int64_t j = 0; v != 0 && j < n; j++) {
                out[i * n + j] += v * real_at(b, tb ? j * k + l : l * n + j);
            }
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

#define TO_DENSE_TYPES                                                                                       \
    (TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING) | TD_BIT(TD_QINT8) | TD_BIT(TD_QUINT8) |           \
     TD_BIT(TD_QINT16) | TD_BIT(TD_QUINT16))
#define MATMUL_TYPES (TD_SET_FLOATS | TD_SET_COMPLEX | TD_BIT(TD_INT32))
#define CWISE(op, fn, gradient)                                                                              \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(sp_indices:int64, sp_values:T, sp_shape:int64, dense:T) -> (output:T) {T:type}",            \
        .host_in = 4, .infer = cwise_infer,                                                                  \
        .kernels = TD_KERNEL("sparse_dense.cpu", fn, {"T", TD_SET_REALS}), .grad = gradient                  \
    }

const struct td_op td_ops_sparse_dense[] = {
    {.name = "SparseToDense",
     .sig = "(sparse_indices:Tindices, output_shape:Tindices, sparse_values:T, default_value:T) -> (dense:T) "
            "{validate_indices:bool=true; T:type; Tindices:type}",
     .host_in = 2,
     .infer = to_dense_infer,
     .kernels =
         TD_KERNEL("sparse_dense.cpu", to_dense_run, {"T", TO_DENSE_TYPES}, {"Tindices", TD_SET_INDEX}),
     .grad = td_sparse_to_dense_grad},
    {.name = "SparseTensorDenseMatMul",
     .sig =
         "(a_indices:Tindices, a_values:T, a_shape:int64, b:T) -> (product:T) {T:type; Tindices:type=int64; "
         "adjoint_a:bool=false; adjoint_b:bool=false}",
     .host_in = 4,
     .infer = matmul_infer,
     .kernels = TD_KERNEL("sparse_dense.cpu", matmul_run, {"T", MATMUL_TYPES}, {"Tindices", TD_SET_INDEX}),
     .grad = td_sparse_dense_matmul_grad},
    {.name = "SparseTensorDenseAdd",
     .sig = "(a_indices:Tindices, a_values:T, a_shape:Tindices, b:T) -> (output:T) {T:type; Tindices:type}",
     .host_in = 4,
     .infer = add_infer,
     .kernels = TD_KERNEL("sparse_dense.cpu", add_run, {"T", TD_SET_NUMBERS}, {"Tindices", TD_SET_INDEX}),
     .grad = td_sparse_dense_add_grad},
    CWISE("SparseDenseCwiseAdd", cwise_add_run, td_sparse_cwise_add_grad),
    CWISE("SparseDenseCwiseMul", cwise_mul_run, td_sparse_cwise_mul_grad),
    CWISE("SparseDenseCwiseDiv", cwise_div_run, td_sparse_cwise_div_grad),
    {.name = "SparseMatMul",
     .sig = "(a:Ta, b:Tb) -> (product:float) {transpose_a:bool=false; transpose_b:bool=false; "
            "a_is_sparse:bool=false; "
            "b_is_sparse:bool=false; Ta:type=float; Tb:type=float}",
     .infer = spmm_infer,
     .grad = td_matmul_grad,
     .kernels = TD_KERNEL("sparse_dense.cpu", spmm_run, {"Ta", TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16)},
                          {"Tb", TD_BIT(TD_FLOAT) | TD_BIT(TD_BFLOAT16)})},
    {.name = NULL},
};
