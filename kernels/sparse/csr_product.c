/* kernels/sparse/csr_product.c - products of sparse matrices in compressed rows (csr.h).
 *
 *   SparseMatrixMatMul         a sparse [M,K], b [K,N] -> [M,N], or [N,M]; batches of equal length
 *   SparseMatrixSparseMatMul   both sparse, and so is the product: an element for every pair that meets,
 *                              also where they sum to 0
 *
 * A row of a picks rows of b, which are added up by ascending k. a is transposed first where that is asked
 * for, and so is b where it is sparse; a dense b is read in the other order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/graph/graph.h"
#include "kernels/ops.h"
#include "kernels/sparse/csr.h"

#define X_TYPES(X)                                                                                           \
    X(TD_FLOAT, f32, float, )                                                                                \
    X(TD_DOUBLE, f64, double, )                                                                              \
    X(TD_COMPLEX64, c64, float _Complex, conjf) X(TD_COMPLEX128, c128, double _Complex, conj)

static enum td_code one_of(const struct td_node *n, const char *a, const char *b, struct td_err *err)
{
    TD_FAIL_IF(td_attr_bool(n, a) && td_attr_bool(n, b), err, INVALID_ARGUMENT,
               "%s: Only one of %s and %s can be true.", TD_NODE_STR(n), a, b);
    return TD_OK;
}

static enum td_code flags_of(const struct td_node *n, struct td_err *err)
{
    TD_TRY(one_of(n, "adjoint_a", "transpose_a", err));
    return one_of(n, "adjoint_b", "transpose_b", err);
}

/* Input i, 0 or 1, transposed as the attributes say. *own: the matrix that was made for that, the caller's;
 * NULL. */
static enum td_code operand(struct td_call *c, int i, enum td_dtype dtype, const struct td_csr **m,
                            struct td_csr **own, struct td_err *err)
{
    const bool conjugated = td_attr_bool(c->node, i == 0 ? "adjoint_a" : "adjoint_b");
    *own = NULL;
    TD_TRY(td_csr_in(c, i, dtype, m, err));
    if (conjugated || td_attr_bool(c->node, i == 0 ? "transpose_a" : "transpose_b")) {
        TD_TRY(td_csr_transpose(c, *m, conjugated, own, err));
        *m = *own;
    }
    return TD_OK;
}

static void drop(struct td_csr *own)
{
    td_obj_unref(own == NULL ? NULL : &own->obj);
}

/* ------------------------------------------------------------------ dense */

/* Elements of one matrix: row r, column c at r * row + c * col. */
struct view {
    int64_t rows, cols, row, col;
};

static struct view view_of(int64_t rows, int64_t cols, bool transposed)
{
    return transposed ? (struct view){cols, rows, 1, cols} : (struct view){rows, cols, cols, 1};
}

/* Row i of matrix k of a, times b, into y. */
#define X(dtype, tag, T, conjugate)                                                                          \
    static void row_##tag(const struct td_csr *a, int64_t from, int64_t to, const void *b_data,              \
                          const struct view *b, bool conj_b, void *y_data, int64_t y_step, bool conj_y)      \
    {                                                                                                        \
        const T *v = a->values.data, *x = b_data;                                                            \
        T *y = y_data;                                                                                       \
        for (int64_t j = 0; j < b->cols; j++) {                                                              \
            T sum = 0;                                                                                       \
            for (int64_t k = from; k < to; k++) {                                                            \
                const T with = x[a->col[k] * b->row + j * b->col];                                           \
                sum += v[k] * (conj_b ? conjugate(with) : with);                                             \
            }                                                                                                \
            y[j * y_step] = conj_y ? conjugate(sum) : sum;                                                   \
        }                                                                                                    \
    }
X_TYPES(X)
#undef X

typedef void row_fn(const struct td_csr *a, int64_t from, int64_t to, const void *b_data,
                    const struct view *b, bool conj_b, void *y_data, int64_t y_step, bool conj_y);

static row_fn *row_of(enum td_dtype dtype)
{
    switch (dtype) {
#define X(dtype, tag, T, conjugate)                                                                          \
    case dtype:                                                                                              \
        return row_##tag;
        X_TYPES(X)
#undef X
    default:
        return NULL; /* of no other type is there a kernel */
    }
}

static enum td_code fit(const struct td_node *n, const struct td_csr *a, int64_t batch, int rank,
                        int64_t inner, struct td_err *err)
{
    TD_FAIL_IF(rank != a->rank || batch != a->batch, err, INVALID_ARGUMENT,
               "%s: Ranks and batch sizes of a and b must match: %d and %d, %lld and %lld", TD_NODE_STR(n),
               a->rank, rank, (long long)a->batch, (long long)batch);
    TD_FAIL_IF(a->cols != inner, err, INVALID_ARGUMENT,
               "%s: Inner dimensions of A and B do not agree: %lld vs. %lld", TD_NODE_STR(n),
               (long long)a->cols, (long long)inner);
    return TD_OK;
}

static enum td_code dense_product(struct td_call *c, const struct td_csr *a, struct td_err *err)
{
    const struct td_node *n = c->node;
    const struct td_tensor *b = c->in[1];
    const int rank = b->shape.rank;
    const size_t size = td_dtype_size(b->dtype);
    const bool adjoint = td_attr_bool(n, "adjoint_b");
    const struct view of_b =
        view_of(b->shape.dim[rank - 2], b->shape.dim[rank - 1], adjoint || td_attr_bool(n, "transpose_b"));
    TD_TRY(fit(n, a, rank == 3 ? b->shape.dim[0] : 1, rank, of_b.rows, err));
    const bool across = td_attr_bool(n, "transpose_output"), conj_y = td_attr_bool(n, "conjugate_output");
    struct td_shape shape = b->shape;
    shape.dim[rank - 2] = across ? of_b.cols : a->rows;
    shape.dim[rank - 1] = across ? a->rows : of_b.cols;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, &shape, &y, err));
    const int64_t b_size = of_b.rows * of_b.cols, y_size = a->rows * of_b.cols;
    for (int64_t k = 0; td_tensor_count(y) > 0 && k < a->batch; k++) {
        for (int64_t i = 0, from, to; i < a->rows; i++) {
            td_csr_row(a, k, i, &from, &to);
            if (td_work_spent((to - from + 1) * of_b.cols)) {
                return td_stop_error(c, err);
            }
            const int64_t at = k * y_size + (across ? i : i * of_b.cols);
            row_of(b->dtype)(a, from, to, (const char *)b->data + (size_t)(k * b_size) * size, &of_b, adjoint,
                             (char *)y->data + (size_t)at * size, across ? a->rows : 1, conj_y);
        }
    }
    return TD_OK;
}

static enum td_code dense_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(flags_of(c->node, err));
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_FAIL_IF(c->in[1].rank >= 0 && c->in[1].rank != 2 && c->in[1].rank != 3, err, INVALID_ARGUMENT,
               "%s: Only tensors with ranks 2 or 3 are supported: b has shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]));
    return TD_OK;
}

static enum td_code dense_run(struct td_call *c, struct td_err *err)
{
    const struct td_csr *a;
    struct td_csr *own;
    TD_TRY(operand(c, 0, td_attr_type(c->node, "T"), &a, &own, err));
    const enum td_code rc = dense_product(c, a, err);
    drop(own);
    return rc;
}

/* ------------------------------------------------------------------ sparse */

/* The columns of a row of a product, as they are met: seen[j] is the row's number where j was. */
struct columns {
    int64_t *seen;
    int32_t *list;
    int64_t n, row, pairs; /* pairs: of values that met */
};

static void meet(struct columns *s, const struct td_csr *a, const struct td_csr *b, int64_t batch, int64_t i)
{
    int64_t from, to;
    s->n = s->pairs = 0;
    s->row++;
    td_csr_row(a, batch, i, &from, &to);
    for (int64_t k = from; k < to; k++) {
        int64_t first, last;
        td_csr_row(b, batch, a->col[k], &first, &last);
        s->pairs += last - first + 1;
        for (int64_t p = first; p < last; p++) {
            const int32_t j = b->col[p];
            if (s->seen[j] != s->row) {
                s->seen[j] = s->row;
                s->list[s->n++] = j;
            }
        }
    }
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Row i of matrix `batch`: sums by column, then those of the columns that were met, to y's values from
 * `at`. */
#define X(dtype, tag, T, conjugate)                                                                          \
    static void sparse_row_##tag(const struct td_csr *a, const struct td_csr *b, int64_t batch, int64_t i,   \
                                 void *sums, struct td_csr *y, int64_t at, int64_t n)                        \
    {                                                                                                        \
        T *sum = sums, *to_value = y->values.data;                                                           \
        int64_t from, to;                                                                                    \
        td_csr_row(a, batch, i, &from, &to);                                                                 \
        for (int64_t k = from; k < to; k++) {                                                                \
            int64_t first, last;                                                                             \
            td_csr_row(b, batch, a->col[k], &first, &last);                                                  \
            for (int64_t p = first; p < last; p++) {                                                         \
                sum[b->col[p]] += ((const T *)a->values.data)[k] * ((const T *)b->values.data)[p];           \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t k = at; k < at + n; k++) {                                                              \
            to_value[k] = sum[y->col[k]];                                                                    \
            sum[y->col[k]] = 0;                                                                              \
        }                                                                                                    \
    }
X_TYPES(X)
#undef X

static void sparse_row(const struct td_csr *a, const struct td_csr *b, int64_t batch, int64_t i, void *sums,
                       struct td_csr *y, int64_t at, int64_t n)
{
    switch (a->values.dtype) {
#define X(dtype, tag, T, conjugate)                                                                          \
    case dtype:                                                                                              \
        sparse_row_##tag(a, b, batch, i, sums, y, at, n);                                                    \
        return;
        X_TYPES(X)
#undef X
    default:
        return; /* of no other type is there a kernel */
    }
}

/* How many values the product has. */
static enum td_code count_product(struct td_call *c, const struct td_csr *a, const struct td_csr *b,
                                  struct columns *s, int64_t *n, struct td_err *err)
{
    *n = 0;
    for (int64_t k = 0; k < a->batch; k++) {
        for (int64_t i = 0; i < a->rows; i++) {
            meet(s, a, b, k, i);
            *n += s->n;
            if (td_work_spent(s->pairs + 8)) {
                return td_stop_error(c, err);
            }
        }
    }
    return TD_OK;
}

/* The rows of the product, y, whose start and rows are yet to be sealed. */
static enum td_code fill_product(struct td_call *c, const struct td_csr *a, const struct td_csr *b,
                                 struct columns *s, void *sums, struct td_csr *y, struct td_err *err)
{
    for (int64_t k = 0, at = 0; k < a->batch; k++) {
        for (int64_t i = 0; i < a->rows; i++) {
            meet(s, a, b, k, i);
            if (td_work_spent(2 * s->pairs + 8)) {
                return td_stop_error(c, err);
            }
            qsort(s->list, (size_t)s->n, sizeof *s->list, ascending);
            memcpy(y->col + at, s->list, (size_t)s->n * sizeof *s->list);
            y->row[k * (y->rows + 1) + i + 1] = (int32_t)s->n;
            sparse_row(a, b, k, i, sums, y, at, s->n);
            at += s->n;
        }
    }
    return TD_OK;
}

static enum td_code sparse_product(struct td_call *c, const struct td_csr *a, const struct td_csr *b,
                                   struct td_csr **out, struct td_err *err)
{
    struct columns s = {.row = 0};
    struct td_shape shape = td_csr_shape(a);
    void *seen, *list, *sums;
    int64_t n;
    TD_TRY(fit(c->node, a, b->batch, b->rank, b->rows, err));
    shape.dim[a->rank - 1] = b->cols;
    TD_TRY(td_scratch(c, (size_t)b->cols * sizeof *s.seen, &seen, err));
    TD_TRY(td_scratch(c, (size_t)b->cols * sizeof *s.list, &list, err));
    TD_TRY(td_scratch(c, (size_t)b->cols * td_dtype_size(a->values.dtype), &sums, err));
    memset(seen, 0, (size_t)b->cols * sizeof *s.seen);
    memset(sums, 0, (size_t)b->cols * td_dtype_size(a->values.dtype));
    s.seen = seen;
    s.list = list;
    TD_TRY(count_product(c, a, b, &s, &n, err));
    struct td_csr *y;
    TD_TRY(td_csr_new(c->node, a->values.dtype, &shape, n, &y, err));
    const enum td_code rc = fill_product(c, a, b, &s, sums, y, err);
    if (rc) {
        td_obj_unref(&y->obj);
        return rc;
    }
    td_csr_seal(y);
    *out = y;
    return TD_OK;
}

static enum td_code sparse_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(flags_of(c->node, err));
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_TRY(td_infer_rank(c, 1, 0, err));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code sparse_run(struct td_call *c, struct td_err *err)
{
    const enum td_dtype dtype = td_attr_type(c->node, "type");
    const struct td_csr *a, *b;
    struct td_csr *own_a, *own_b = NULL, *y = NULL;
    TD_TRY(operand(c, 0, dtype, &a, &own_a, err));
    enum td_code rc = operand(c, 1, dtype, &b, &own_b, err);
    rc = rc ? rc : sparse_product(c, a, b, &y, err);
    drop(own_a);
    drop(own_b);
    return rc ? rc : td_out_obj(c, 0, &y->obj, err);
}

/* ------------------------------------------------------------------ the table */

#define SET (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)
#define SIDES "transpose_a:bool=false; transpose_b:bool=false; adjoint_a:bool=false; adjoint_b:bool=false"

const struct td_op td_ops_csr_product[] = {
    {.name = "SparseMatrixMatMul",
     .sig = "(a:variant, b:T) -> (output:T) {T:type; " SIDES "; transpose_output:bool=false; "
            "conjugate_output:bool=false}",
     .infer = dense_infer,
     .kernels = TD_KERNEL("csr.cpu", dense_run, {"T", SET}),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = "SparseMatrixSparseMatMul",
     .sig = "(a:variant, b:variant) -> (c:variant) {type:type; " SIDES "}",
     .infer = sparse_infer,
     .kernels = TD_KERNEL("csr.cpu", sparse_run, {"type", SET}),
     .grad_missing = "gradients do not go through sparse matrices"},
    {.name = NULL},
};
