/* kernels/sparse/sparse_math.c - arithmetic between sparse tensors and along their axes: SparseAdd,
 * SparseAddGrad, SparseSparseMaximum/Minimum, SparseReduce{Sum,Max}{,Sparse}, SparseSoftmax.
 *
 * The binary ops merge two index lists that are in row-major order. The reductions sort their entries by the
 * axes kept and combine each run of equal ones; they take indices out of their axes, as TensorFlow does,
 * where the result has a place for them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/cpu/elem.h"
#include "kernels/ops.h"
#include "kernels/sparse/sparse_coo.h"
#include "kernels/sparse/sparse_grad.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *elem_at(const struct td_tensor *t, int64_t i)
{
    return (char *)t->data + (size_t)i * td_dtype_size(t->dtype);
}

/* ------------------------------------------------------------------ merging two */

struct merge {
    struct td_coo a, b;
    int64_t i, j;
};

/* Which side has the next index: -1 a, 1 b, 0 both; 2 at the end. */
static int merge_next(const struct merge *m)
{
    if (m->i == m->a.n || m->j == m->b.n) {
        return m->i < m->a.n ? -1 : m->j < m->b.n ? 1 : 2;
    }
    return td_coo_compare(m->a.ix + m->i * m->a.rank, m->b.ix + m->j * m->b.rank, m->a.rank);
}

static enum td_code pair_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    TD_TRY(td_coo_infer(c, 3, 4, 5, err));
    TD_FAIL_IF(!td_shape_compatible(&c->in[2], &c->in[5]), err, INVALID_ARGUMENT,
               "%s: Ranks of input tensors must match, but saw ranks: %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]), TD_SHAPE_STR(&c->in[5]));
    if (c->n_in > 6) {
        TD_FAIL_IF(c->in[6].rank > 0, err, INVALID_ARGUMENT,
                   "%s: The magnitude threshold must be a scalar: got shape %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(&c->in[6]));
        c->out[2] = c->in[2];
    }
    c->out[0] = td_shape_matrix(-1, c->in[2].rank == 1 ? c->in[2].dim[0] : -1);
    c->out[1] = td_shape_vector(-1);
    return TD_OK;
}

static enum td_code pair_view(const struct td_call *c, struct merge *m, struct td_err *err)
{
    *m = (struct merge){0};
    TD_TRY(td_coo_view(c, 0, 2, &m->a, err));
    TD_TRY(td_coo_view(c, 3, 5, &m->b, err));
    for (int d = 0; d < m->a.rank; d++) {
        TD_FAIL_IF(m->a.dim[d] != m->b.dim[d], err, INVALID_ARGUMENT,
                   "%s: Operands' shapes do not match: got %lld and %lld for dimension %d",
                   TD_NODE_STR(c->node), (long long)m->a.dim[d], (long long)m->b.dim[d], d);
    }
    return TD_OK;
}

/* Value of the next index into v (an absent side counts as zero), moving on. *row is its index. */
static void merge_take(const struct td_call *c, struct merge *m, int side, enum td_elem_op op, void *v,
                       const int64_t **row)
{
    const struct td_tensor *x = c->in[1], *y = c->in[4];
    char zero[16] = {0};
    const void *a = side <= 0 ? elem_at(x, m->i) : zero, *b = side >= 0 ? elem_at(y, m->j) : zero;
    td_elem_apply(x->dtype, op, v, a, b);
    *row = side <= 0 ? m->a.ix + m->i * m->a.rank : m->b.ix + m->j * m->b.rank;
    m->i += side <= 0;
    m->j += side >= 0;
}

/* Walks the union; writes where out is given. Sums of both sides that do not reach thresh in magnitude, NaN
 * among them, are dropped. Returns the number kept. */
static int64_t merge_all(const struct td_call *c, struct merge m, enum td_elem_op op, double thresh,
                         struct td_tensor *ix, struct td_tensor *values)
{
    int64_t n = 0;
    int side;
    while ((side = merge_next(&m)) != 2) {
        _Alignas(16) char v[16];
        const int64_t *row;
        merge_take(c, &m, side, op, v, &row);
        if (side == 0 && op == TD_ELEM_ADD && !(thresh <= td_elem_abs(c->in[1]->dtype, v))) {
            continue;
        }
        if (ix) {
            if (m.a.rank) {
                memcpy(TD_DATA(ix, int64_t) + n * m.a.rank, row, (size_t)m.a.rank * 8);
            }
            memcpy(elem_at(values, n), v, td_dtype_size(values->dtype));
        }
        n++;
    }
    return n;
}

static enum td_code pair_run(struct td_call *c, enum td_elem_op op, double thresh, struct td_err *err)
{
    struct merge m;
    struct td_tensor *ix, *values;
    TD_TRY(pair_view(c, &m, err));
    int64_t n = merge_all(c, m, op, thresh, NULL, NULL);
    TD_TRY(td_out(c, 0, &(struct td_shape){2, {n, m.a.rank}}, &ix, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {n}}, &values, err));
    merge_all(c, m, op, thresh, ix, values);
    return TD_OK;
}

static enum td_code add_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *shape;
    const struct td_tensor *t = c->in[6];
    double thresh = t->dtype == TD_FLOAT    ? (double)TD_DATA(t, float)[0]
                    : t->dtype == TD_DOUBLE ? TD_DATA(t, double)[0]
                                            : (double)td_tensor_int(t, 0);
    TD_TRY(pair_run(c, TD_ELEM_ADD, thresh, err));
    TD_TRY(td_out(c, 2, NULL, &shape, err));
    if (td_tensor_bytes(shape)) {
        memcpy(shape->data, c->in[2]->data, td_tensor_bytes(shape));
    }
    return TD_OK;
}

/* Unlike a sum, these look at every index. */
static enum td_code extreme_run(struct td_call *c, enum td_elem_op op, struct td_err *err)
{
    struct merge m;
    TD_TRY(pair_view(c, &m, err));
    TD_TRY(td_coo_check_bounds(c, &m.a, err));
    TD_TRY(td_coo_check_bounds(c, &m.b, err));
    return pair_run(c, op, 0, err);
}

static enum td_code maximum_run(struct td_call *c, struct td_err *err)
{
    return extreme_run(c, TD_ELEM_MAX, err);
}

static enum td_code minimum_run(struct td_call *c, struct td_err *err)
{
    return extreme_run(c, TD_ELEM_MIN, err);
}

/* ------------------------------------------------------------------ SparseAddGrad
 *
 * grad [s] for sum_indices [s, r] -> grads of a [n] and b [m]: each index looks its sum up, 0 where it was
 * dropped */

static enum td_code add_grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 1, err));
    int64_t rank = -1;
    for (int i = 1; i < 4; i++) {
        TD_TRY(td_infer_rank(c, i, 2, err));
        int64_t r = c->in[i].rank == 2 ? c->in[i].dim[1] : -1;
        TD_FAIL_IF(r >= 0 && rank >= 0 && r != rank, err, INVALID_ARGUMENT,
                   "%s: The densified operands should have the same ndims: %lld vs. %lld",
                   TD_NODE_STR(c->node), (long long)rank, (long long)r);
        rank = r >= 0 ? r : rank;
    }
    int64_t n = c->in[0].rank == 1 ? c->in[0].dim[0] : -1, s = c->in[3].rank == 2 ? c->in[3].dim[0] : -1;
    TD_FAIL_IF(n >= 0 && s >= 0 && n != s, err, INVALID_ARGUMENT,
               "%s: # elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): "
               "got %lld and "
               "%lld",
               TD_NODE_STR(c->node), (long long)n, (long long)s);
    c->out[0] = td_shape_vector(c->in[1].rank == 2 ? c->in[1].dim[0] : -1);
    c->out[1] = td_shape_vector(c->in[2].rank == 2 ? c->in[2].dim[0] : -1);
    return TD_OK;
}

/* One operand of the sum, as far as it was walked. */
struct addend {
    const struct td_tensor *indices;
    struct td_tensor *grad;
    int64_t i, n;
};

/* Entry i gets the gradient of entry k of the sum when it is that one. False: it lies before k, and is not in
 * the sum. */
static bool meet(const struct td_call *c, struct addend *a, int64_t k)
{
    const int rank = (int)a->indices->shape.dim[1];
    const int64_t *row = TD_DATA(a->indices, const int64_t), *sum = TD_DATA(c->in[3], const int64_t);
    const int order = a->i < a->n ? td_coo_compare(row + a->i * rank, sum + k * rank, rank) : 1;
    if (order == 0) {
        memcpy(elem_at(a->grad, a->i), elem_at(c->in[0], k), td_dtype_size(a->grad->dtype));
    }
    a->i += order <= 0;
    return order >= 0;
}

/* Walked as the sum was made, so that entries out of order are met, too. */
static enum td_code add_grad_run(struct td_call *c, struct td_err *err)
{
    struct addend side[2];
    for (int o = 0; o < 2; o++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, o, NULL, &y, err));
        if (td_tensor_count(y) > 0) {
            memset(y->data, 0, (size_t)td_tensor_count(y) * td_dtype_size(y->dtype));
        }
        side[o] = (struct addend){.indices = c->in[o + 1], .grad = y, .n = td_tensor_count(y)};
    }
    for (int64_t k = 0, n = c->in[3]->shape.dim[0]; k < n;) {
        const bool a = meet(c, &side[0], k), b = meet(c, &side[1], k);
        k += a && b;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ reductions */

struct reduce {
    struct td_coo x;
    bool reduced[TD_MAX_RANK];
    int kept[TD_MAX_RANK], n_kept;
};

static enum td_code read_axes(const struct td_node *n, const struct td_tensor *axes, int rank,
                              struct reduce *r, struct td_err *err)
{
    for (int64_t i = 0, count = td_tensor_count(axes); i < count; i++) {
        int axis;
        TD_FAIL_IF(!td_shape_axis(rank, td_tensor_int(axes, i), &axis), err, INVALID_ARGUMENT,
                   "%s: Invalid reduction dimension %lld, for input with %d dimensions.", TD_NODE_STR(n),
                   (long long)td_tensor_int(axes, i), rank);
        r->reduced[axis] = true;
    }
    for (int d = 0; d < rank; d++) {
        if (!r->reduced[d]) {
            r->kept[r->n_kept++] = d;
        }
    }
    return TD_OK;
}

static enum td_code reduce_infer(struct td_infer *c, struct td_err *err)
{
    struct reduce r = {0};
    bool keep = td_attr_bool(c->node, "keep_dims");
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    TD_FAIL_IF(c->in[3].rank > 1, err, INVALID_ARGUMENT,
               "%s: Expected reduction_axes to be a scalar or a vector, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[3]));
    if (c->n_out == 3) {
        c->out[0] = td_shape_of_rank(2);
        c->out[1] = td_shape_vector(-1);
        c->out[2] = td_shape_vector(-1);
        return TD_OK;
    }
    struct td_shape s;
    TD_TRY(td_infer_shape_value(c, 2, false, &s, err));
    if (!c->value[3] || s.rank < 0) {
        return TD_OK;
    }
    TD_TRY(read_axes(c->node, c->value[3], s.rank, &r, err));
    c->out[0].rank = 0;
    for (int d = 0; d < s.rank; d++) {
        if (keep || !r.reduced[d]) {
            c->out[0].dim[c->out[0].rank++] = r.reduced[d] ? 1 : s.dim[d];
        }
    }
    return TD_OK;
}

static enum td_code reduce_view(const struct td_call *c, struct reduce *r, struct td_err *err)
{
    *r = (struct reduce){0};
    TD_TRY(td_coo_view(c, 0, 2, &r->x, err));
    return read_axes(c->node, c->in[3], r->x.rank, r, err);
}

/* Order of rows i and j by the axes kept. */
static int kept_compare(const struct reduce *r, int64_t i, int64_t j)
{
    for (int k = 0; k < r->n_kept; k++) {
        int64_t a = r->x.ix[i * r->x.rank + r->kept[k]], b = r->x.ix[j * r->x.rank + r->kept[k]];
        if (a != b) {
            return a < b ? -1 : 1;
        }
    }
    return 0;
}

static int order_kept(const void *a, const void *b, void *ctx)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int o = kept_compare(ctx, i, j);
    return o ? o : (i > j) - (i < j);
}

/* order: the rows' numbers, sorted by the axes kept, as they were otherwise. */
static enum td_code reduce_order(struct td_call *c, struct reduce *r, int64_t **order, struct td_err *err)
{
    void *scratch;
    bool sorted = true;
    TD_TRY(td_scratch(c, (size_t)r->x.n * sizeof(int64_t) + 1, &scratch, err));
    *order = scratch;
    for (int64_t i = 0; i < r->x.n; i++) {
        (*order)[i] = i;
        sorted = sorted && (i == 0 || kept_compare(r, i - 1, i) <= 0);
    }
    if (!sorted) {
        qsort_r(*order, (size_t)r->x.n, sizeof(int64_t), order_kept, r);
    }
    return TD_OK;
}

static bool starts_group(const struct reduce *r, const int64_t *order, int64_t i)
{
    return i == 0 || kept_compare(r, order[i - 1], order[i]) != 0;
}

/* Flat position of row i in the result. TensorFlow looks at this alone: an index out of its axis that still
 * lands inside is taken. */
static enum td_code kept_position(const struct td_call *c, const struct reduce *r, int64_t i, int64_t count,
                                  int64_t *at, struct td_err *err)
{
    bool fits = true;
    *at = 0;
    for (int k = 0; k < r->n_kept; k++) {
        fits = fits && td_i64_mul(*at, r->x.dim[r->kept[k]], at) &&
               td_i64_add(*at, r->x.ix[i * r->x.rank + r->kept[k]], at);
    }
    TD_FAIL_IF(
        !fits || *at < 0 || *at >= count, err, INVALID_ARGUMENT,
        "%s: row %lld of indices lands at %lld, want a position inside the %lld elements of the result",
        TD_NODE_STR(c->node), (long long)i, (long long)*at, (long long)count);
    return TD_OK;
}

/* A group that lands where an earlier one did replaces it, as indices out of their axes can. */
static enum td_code reduce_dense(struct td_call *c, enum td_elem_op op, struct td_err *err)
{
    struct reduce r;
    struct td_tensor *y;
    int64_t *order, at = 0;
    TD_TRY(reduce_view(c, &r, err));
    TD_TRY(reduce_order(c, &r, &order, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t count = td_tensor_count(y);
    if (count) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    for (int64_t i = 0; i < r.x.n; i++) {
        const char *v = elem_at(c->in[1], order[i]);
        if (starts_group(&r, order, i)) {
            TD_TRY(kept_position(c, &r, order[i], count, &at, err));
            memcpy(elem_at(y, at), v, td_dtype_size(y->dtype));
        } else {
            td_elem_apply(y->dtype, op, elem_at(y, at), elem_at(y, at), v);
        }
    }
    return TD_OK;
}

/* The kept part of index `from` as an index of the result. */
static void reduce_row(const struct reduce *r, bool keep, int64_t from, int64_t *row)
{
    memset(row, 0, (size_t)(keep ? r->x.rank : r->n_kept) * 8);
    for (int k = 0; k < r->n_kept; k++) {
        row[keep ? r->kept[k] : k] = r->x.ix[from * r->x.rank + r->kept[k]];
    }
}

static enum td_code reduce_shape(struct td_call *c, const struct reduce *r, bool keep, int rank,
                                 struct td_err *err)
{
    struct td_tensor *shape;
    TD_TRY(td_out(c, 2, &(struct td_shape){1, {rank}}, &shape, err));
    for (int d = 0; d < rank; d++) {
        int from = keep ? d : r->kept[d];
        TD_DATA(shape, int64_t)[d] = r->reduced[from] ? 1 : r->x.dim[from];
    }
    return TD_OK;
}

static enum td_code reduce_sparse(struct td_call *c, enum td_elem_op op, struct td_err *err)
{
    struct reduce r;
    struct td_tensor *ix, *values;
    bool keep = td_attr_bool(c->node, "keep_dims");
    int64_t *order, groups = 0, g = -1;
    TD_TRY(reduce_view(c, &r, err));
    TD_TRY(reduce_order(c, &r, &order, err));
    int rank = keep ? r.x.rank : r.n_kept;
    for (int64_t i = 0; i < r.x.n; i++) {
        groups += starts_group(&r, order, i);
    }
    TD_TRY(td_out(c, 0, &(struct td_shape){2, {groups, rank}}, &ix, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {groups}}, &values, err));
    TD_TRY(reduce_shape(c, &r, keep, rank, err));
    for (int64_t i = 0; i < r.x.n; i++) {
        const char *v = elem_at(c->in[1], order[i]);
        if (starts_group(&r, order, i)) {
            memcpy(elem_at(values, ++g), v, td_dtype_size(values->dtype));
            if (rank) {
                reduce_row(&r, keep, order[i], TD_DATA(ix, int64_t) + g * rank);
            }
        } else {
            td_elem_apply(values->dtype, op, elem_at(values, g), elem_at(values, g), v);
        }
    }
    return TD_OK;
}

static enum td_code sum_run(struct td_call *c, struct td_err *err)
{
    return reduce_dense(c, TD_ELEM_ADD, err);
}

static enum td_code max_run(struct td_call *c, struct td_err *err)
{
    return reduce_dense(c, TD_ELEM_MAX, err);
}

static enum td_code sum_sparse_run(struct td_call *c, struct td_err *err)
{
    return reduce_sparse(c, TD_ELEM_ADD, err);
}

static enum td_code max_sparse_run(struct td_call *c, struct td_err *err)
{
    return reduce_sparse(c, TD_ELEM_MAX, err);
}

/* ------------------------------------------------------------ SparseSoftmax: over the last axis of each
 * row */

static enum td_code softmax_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    TD_FAIL_IF(c->in[2].rank == 1 && c->in[2].dim[0] >= 0 && c->in[2].dim[0] < 2, err, INVALID_ARGUMENT,
               "%s: Input should be a SparseTensor of rank at least 2, got %lld", TD_NODE_STR(c->node),
               (long long)c->in[2].dim[0]);
    c->out[0] = c->in[1];
    return TD_OK;
}

static double softmax_in(const struct td_tensor *x, int64_t i)
{
    return x->dtype == TD_DOUBLE  ? TD_DATA(x, double)[i]
           : x->dtype == TD_FLOAT ? (double)TD_DATA(x, float)[i]
                                  : (double)td_half_to_float(TD_DATA(x, td_half)[i]);
}

/* y[from..to) of the values that lie at x[order[from..to)]. */
static void softmax_row(const struct td_tensor *x, const int64_t *order, struct td_tensor *y, int64_t from,
                        int64_t to)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = from; i < to; i++) {
        top = fmax(top, softmax_in(x, order[i]));
    }
    for (int64_t i = from; i < to; i++) {
        sum += exp(softmax_in(x, order[i]) - top);
    }
    for (int64_t i = from; i < to; i++) {
        double v = exp(softmax_in(x, order[i]) - top) / sum;
        if (x->dtype == TD_DOUBLE) {
            TD_DATA(y, double)[i] = v;
        } else if (x->dtype == TD_FLOAT) {
            TD_DATA(y, float)[i] = (float)v;
        } else {
            TD_DATA(y, td_half)[i] = td_float_to_half((float)v);
        }
    }
}

/* The values come out in the indices' row-major order, however they came in (as in TensorFlow). */
static enum td_code softmax_run(struct td_call *c, struct td_err *err)
{
    struct td_coo x;
    struct td_tensor *y;
    void *scratch;
    TD_TRY(td_coo_view(c, 0, 2, &x, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_scratch(c, (size_t)x.n * 8 + 8, &scratch, err));
    int64_t *order = scratch;
    td_coo_sort(&x, order);
    for (int64_t from = 0, to; from < x.n; from = to) {
        const int64_t *row = x.ix + order[from] * x.rank;
        to = from + 1;
        while (to < x.n && td_coo_compare(row, x.ix + order[to] * x.rank, x.rank - 1) == 0) {
            to++;
        }
        softmax_row(c->in[1], order, y, from, to);
    }
    return TD_OK;
}

#define ADD_TYPES                                                                                            \
    (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX | TD_BIT(TD_INT8) | TD_BIT(TD_INT16) |            \
     TD_SET_INDEX)
#define PAIR_SIG "(a_indices:int64, a_values:T, a_shape:int64, b_indices:int64, b_values:T, b_shape:int64"
#define REDUCE_SIG "(input_indices:int64, input_values:T, input_shape:int64, reduction_axes:int32) -> ("
#define DENSE_OUT "output:T) {keep_dims:bool=false; T:type}"
#define SPARSE_OUT "output_indices:int64, output_values:T, output_shape:int64) {keep_dims:bool=false; T:type}"
#define REDUCE(op, out, fn, set, gradient)                                                                   \
    {                                                                                                        \
        .name = op, .sig = REDUCE_SIG out, .host_in = 12, .infer = reduce_infer,                             \
        .kernels = TD_KERNEL("sparse_math.cpu", fn, {"T", set}), .grad = gradient                            \
    }

const struct td_op td_ops_sparse_math[] = {
    {.name = "SparseAdd",
     .sig = PAIR_SIG
     ", thresh:Treal) -> (sum_indices:int64, sum_values:T, sum_shape:int64) {T:type; Treal:type}",
     .infer = pair_infer,
     .kernels =
         TD_KERNEL("sparse_math.cpu", add_run, {"T", ADD_TYPES}, {"Treal", ADD_TYPES & ~TD_SET_COMPLEX}),
     .grad = td_sparse_add_grad},
    {.name = "SparseAddGrad",
     .sig = "(backprop_val_grad:T, a_indices:int64, b_indices:int64, sum_indices:int64) -> (a_val_grad:T, "
            "b_val_grad:T) {T:type}",
     .infer = add_grad_infer,
     .kernels = TD_KERNEL("sparse_math.cpu", add_grad_run, {"T", ADD_TYPES}),
     .grad = td_not_differentiable},
    {.name = "SparseSparseMaximum",
     .sig = PAIR_SIG ") -> (output_indices:int64, output_values:T) {T:type}",
     .infer = pair_infer,
     .kernels = TD_KERNEL("sparse_math.cpu", maximum_run, {"T", TD_SET_REALS}),
     .grad_missing = "TensorFlow registers one that says it is not implemented"},
    {.name = "SparseSparseMinimum",
     .sig = PAIR_SIG ") -> (output_indices:int64, output_values:T) {T:type}",
     .infer = pair_infer,
     .kernels = TD_KERNEL("sparse_math.cpu", minimum_run, {"T", TD_SET_REALS}),
     .grad_missing = "TensorFlow registers one that says it is not implemented"},
    REDUCE("SparseReduceSum", DENSE_OUT, sum_run, TD_SET_NUMBERS, td_sparse_reduce_sum_grad),
    REDUCE("SparseReduceMax", DENSE_OUT, max_run, TD_SET_REALS, NULL),
    REDUCE("SparseReduceSumSparse", SPARSE_OUT, sum_sparse_run, TD_SET_NUMBERS, NULL),
    REDUCE("SparseReduceMaxSparse", SPARSE_OUT, max_sparse_run, TD_SET_REALS, NULL),
    {.name = "SparseSoftmax",
     .sig = "(sp_indices:int64, sp_values:T, sp_shape:int64) -> (output:T) {T:type}",
     .infer = softmax_infer,
     .kernels = TD_KERNEL("sparse_math.cpu", softmax_run,
                          {"T", TD_BIT(TD_HALF) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)}),
     .grad = td_sparse_softmax_grad},
    {.name = NULL},
};
