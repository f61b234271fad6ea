/* kernels/sparse/sparse_layout.c - sparse tensors moved about: SparseReshape, SparseReorder, SparseConcat,
 * SparseSlice, SparseSliceGrad, SparseSplit.
 *
 * Values are copied and never computed with; the work is in the indices. A reshape goes through the row-major
 * position of each index. Reorder and concat sort by td_coo_sort(), concat over all its inputs together.
 * Slices and splits walk the entries twice: to count those inside, as the outputs' sizes are not known
 * before, and to copy them. The gradient of a slice walks both index lists at once, as they are in the same
 * order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/sparse/sparse_coo.h"
#include "kernels/sparse/sparse_grad.h"

#include <string.h>

/* Copies value `from` of x to value `to` of y. */
static void copy_value(struct td_tensor *y, int64_t to, const struct td_tensor *x, int64_t from)
{
    size_t size = td_dtype_size(y->dtype);
    td_elems_copy(y->dtype, (char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size,
                  1);
}

/* ------------------------------------------------------------------ SparseReshape
 *
 * input_indices [n, r], input_shape [r], new_shape [q] -> [n, q], [q] */

static enum td_code reshape_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 2, err));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_TRY(td_infer_rank(c, 2, 1, err));
    const struct td_shape *ix = &c->in[0];
    int64_t rank = c->in[2].rank == 1 ? c->in[2].dim[0] : -1;
    TD_FAIL_IF(ix->rank == 2 && c->in[1].rank == 1 && ix->dim[1] >= 0 && c->in[1].dim[0] >= 0 &&
                   ix->dim[1] != c->in[1].dim[0],
               err, INVALID_ARGUMENT,
               "%s: Input tensor rank must match input shape length: indices %s, shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(ix), TD_SHAPE_STR(&c->in[1]));
    c->out[0] = td_shape_matrix(ix->rank == 2 ? ix->dim[0] : -1, rank);
    c->out[1] = td_shape_vector(rank);
    return TD_OK;
}

static enum td_code dense_size(const struct td_node *n, const int64_t *dim, int64_t rank, int64_t *size,
                               struct td_err *err)
{
    *size = 1;
    for (int64_t d = 0; d < rank; d++) {
        TD_FAIL_IF(dim[d] < 0 || !td_i64_mul(*size, dim[d], size), err, INVALID_ARGUMENT,
                   "%s: dense shape has dimension %lld, or more elements than int64 counts", TD_NODE_STR(n),
                   (long long)dim[d]);
    }
    return TD_OK;
}

/* Target shape with its -1 worked out. */
static enum td_code resolve_shape(const struct td_call *c, int64_t size, int64_t *dim, struct td_err *err)
{
    const int64_t *want = TD_DATA(c->in[2], const int64_t);
    int64_t rank = c->in[2]->shape.dim[0], product = 1, unknown = -1;
    for (int64_t d = 0; d < rank; d++) {
        dim[d] = want[d];
        if (want[d] == -1) {
            TD_FAIL_IF(unknown >= 0, err, INVALID_ARGUMENT,
                       "%s: only one output dimension may be -1, not both %lld and %lld",
                       TD_NODE_STR(c->node), (long long)unknown, (long long)d);
            unknown = d;
            continue;
        }
        TD_FAIL_IF(want[d] < 0, err, INVALID_ARGUMENT, "%s: size %lld must be non-negative, not %lld",
                   TD_NODE_STR(c->node), (long long)d, (long long)want[d]);
        TD_FAIL_IF(!td_i64_mul(product, want[d], &product), err, INVALID_ARGUMENT,
                   "%s: the new shape has more elements than int64 counts", TD_NODE_STR(c->node));
    }
    if (unknown >= 0) {
        TD_FAIL_IF(
            product == 0, err, INVALID_ARGUMENT,
            "%s: reshape cannot infer the missing input size for an empty tensor unless all specified input "
            "sizes are non-zero",
            TD_NODE_STR(c->node));
        dim[unknown] = size / product;
        product *= dim[unknown];
    }
    TD_FAIL_IF(
        product != size, err, INVALID_ARGUMENT,
        "%s: Input to reshape is a SparseTensor with %lld dense values, but the requested shape has %lld",
        TD_NODE_STR(c->node), (long long)size, (long long)product);
    return TD_OK;
}

/* Row-major position of one index and back. Out of bounds it is arithmetic all the same, as in TensorFlow:
 * only the first coordinate can leave its dimension. */
static void move_index(const int64_t *ix, const int64_t *from, int64_t r, int64_t *out, const int64_t *to,
                       int64_t q)
{
    uint64_t flat = 0;
    for (int64_t d = 0; d < r; d++) {
        flat = flat * (uint64_t)from[d] + (uint64_t)ix[d];
    }
    int64_t left = (int64_t)flat;
    for (int64_t d = q - 1; d > 0; d--) {
        out[d] = left % to[d];
        left /= to[d];
    }
    if (q > 0) {
        out[0] = left;
    }
}

static enum td_code reshape_run(struct td_call *c, struct td_err *err)
{
    const int64_t *ix = c->in[0]->data, *from = c->in[1]->data;
    int64_t n = c->in[0]->shape.dim[0], r = c->in[1]->shape.dim[0], q = c->in[2]->shape.dim[0], size;
    struct td_tensor *out, *shape;
    TD_TRY(dense_size(c->node, from, r, &size, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_out(c, 1, NULL, &shape, err));
    int64_t *to = shape->data, *y = out->data;
    TD_TRY(resolve_shape(c, size, to, err));
    TD_FAIL_IF(n > 0 && size == 0, err, INVALID_ARGUMENT,
               "%s: the input has %lld indices, but a dense shape of no elements", TD_NODE_STR(c->node),
               (long long)n);
    for (int64_t i = 0; i < n; i++) {
        move_index(ix + i * r, from, r, y + i * q, to, q);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseReorder */

static enum td_code reorder_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    c->out[0] = c->in[0];
    c->out[1] = c->in[1];
    return TD_OK;
}

static enum td_code reorder_run(struct td_call *c, struct td_err *err)
{
    struct td_coo x;
    struct td_tensor *ix, *values;
    void *order;
    TD_TRY(td_coo_view(c, 0, 2, &x, err));
    TD_TRY(td_out(c, 0, NULL, &ix, err));
    TD_TRY(td_out(c, 1, NULL, &values, err));
    TD_TRY(td_scratch(c, (size_t)x.n * 8 + 8, &order, err));
    td_coo_sort(&x, order);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t from = ((int64_t *)order)[i];
        if (x.rank) {
            memcpy(TD_DATA(ix, int64_t) + i * x.rank, x.ix + from * x.rank, (size_t)x.rank * 8);
        }
        copy_value(values, i, c->in[1], from);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseConcat
 *
 * indices N x [n_i, r], values N x [n_i], shapes N x [r] -> [sum n_i, r], [sum n_i], [r], in row-major order
 */

static enum td_code concat_infer(struct td_infer *c, struct td_err *err)
{
    int n = c->n_in / 3;
    int64_t rank = -1, total = 0;
    TD_FAIL_IF(n < 1, err, INVALID_ARGUMENT, "%s: N is 0, want at least 1", TD_NODE_STR(c->node));
    for (int i = 0; i < n; i++) {
        TD_TRY(td_coo_infer(c, i, n + i, 2 * n + i, err));
        total = total < 0 || c->in[i].rank != 2 || c->in[i].dim[0] < 0 ? -1 : total + c->in[i].dim[0];
        if (c->in[2 * n + i].rank == 1 && c->in[2 * n + i].dim[0] >= 0) {
            int64_t r = c->in[2 * n + i].dim[0];
            TD_FAIL_IF(rank >= 0 && r != rank, err, INVALID_ARGUMENT,
                       "%s: Ranks of all input tensors must match: expected %lld but got %lld at position %d",
                       TD_NODE_STR(c->node), (long long)rank, (long long)r, i);
            rank = r;
        }
    }
    int64_t axis = td_attr_int(c->node, "concat_dim");
    TD_FAIL_IF(rank >= 0 && (axis < -rank || axis >= rank), err, INVALID_ARGUMENT,
               "%s: Concat dimension must be in range [%lld, %lld), got %lld", TD_NODE_STR(c->node),
               (long long)-rank, (long long)rank, (long long)axis);
    c->out[0] = td_shape_matrix(total, rank);
    c->out[1] = td_shape_vector(total);
    c->out[2] = td_shape_vector(rank);
    return TD_OK;
}

static enum td_code concat_shape(struct td_call *c, int n, int axis, int rank, int64_t *dim,
                                 struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const int64_t *s = c->in[2 * n + i]->data;
        for (int d = 0; d < rank; d++) {
            TD_FAIL_IF(s[d] < 0, err, INVALID_ARGUMENT,
                       "%s: Input shapes must be non-negative: dim %d of shape %d is %lld",
                       TD_NODE_STR(c->node), d, i, (long long)s[d]);
            if (i == 0) {
                dim[d] = s[d];
            } else if (d == axis) {
                TD_FAIL_IF(!td_i64_add(dim[d], s[d], &dim[d]), err, INVALID_ARGUMENT,
                           "%s: the shapes add up to more than int64 counts", TD_NODE_STR(c->node));
            } else {
                TD_FAIL_IF(
                    dim[d] != s[d], err, INVALID_ARGUMENT,
                    "%s: Input shapes must match: expected %lld for dimension %d but got %lld at position %d",
                    TD_NODE_STR(c->node), (long long)dim[d], d, (long long)s[d], i);
            }
        }
    }
    return TD_OK;
}

/* All indices behind one another, moved along the axis, and for each the input and position it came from. */
static void concat_gather(struct td_call *c, int n, int axis, int rank, int64_t *ix, int64_t *source)
{
    int64_t at = 0, offset = 0;
    for (int i = 0; i < n; i++) {
        const int64_t *from = c->in[i]->data;
        for (int64_t k = 0; k < c->in[i]->shape.dim[0]; k++, at++) {
            for (int d = 0; d < rank; d++) {
                uint64_t v = (uint64_t)from[k * rank + d] + (d == axis ? (uint64_t)offset : 0);
                ix[at * rank + d] = (int64_t)v;
            }
            source[2 * at] = i;
            source[2 * at + 1] = k;
        }
        offset += TD_DATA(c->in[2 * n + i], int64_t)[axis];
    }
}

static enum td_code concat_run(struct td_call *c, struct td_err *err)
{
    int n = c->n_in / 3, rank = (int)c->in[2 * n]->shape.dim[0],
        axis = (int)td_attr_int(c->node, "concat_dim");
    int64_t total = 0;
    struct td_tensor *out_ix, *values, *shape;
    void *ix, *source, *order;
    axis += axis < 0 ? rank : 0;
    for (int i = 0; i < n; i++) {
        total += c->in[i]->shape.dim[0];
    }
    TD_TRY(td_out(c, 2, NULL, &shape, err));
    TD_TRY(concat_shape(c, n, axis, rank, shape->data, err));
    TD_TRY(td_out(c, 0, &(struct td_shape){2, {total, rank}}, &out_ix, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {total}}, &values, err));
    TD_TRY(td_scratch(c, (size_t)total * (size_t)rank * 8 + 8, &ix, err));
    TD_TRY(td_scratch(c, (size_t)total * 16 + 8, &source, err));
    TD_TRY(td_scratch(c, (size_t)total * 8 + 8, &order, err));
    concat_gather(c, n, axis, rank, ix, source);
    struct td_coo all = {.ix = ix, .n = total, .rank = rank, .dim = shape->data};
    td_coo_sort(&all, order);
    for (int64_t i = 0; i < total; i++) {
        int64_t from = ((int64_t *)order)[i];
        memcpy(TD_DATA(out_ix, int64_t) + i * rank, all.ix + from * rank, (size_t)rank * 8);
        copy_value(values, i, c->in[n + ((int64_t *)source)[2 * from]], ((int64_t *)source)[2 * from + 1]);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseSlice, SparseSliceGrad */

static enum td_code slice_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    for (int i = 3; i < 5; i++) {
        TD_TRY(td_infer_rank(c, i, 1, err));
        TD_FAIL_IF(!td_shape_compatible(&c->in[2], &c->in[i]), err, INVALID_ARGUMENT,
                   "%s: Expected %s to be a vector of length %s but got %s", TD_NODE_STR(c->node),
                   c->node->def->in[i].name, TD_SHAPE_STR(&c->in[2]), TD_SHAPE_STR(&c->in[i]));
    }
    int64_t rank = c->in[2].rank == 1 ? c->in[2].dim[0] : -1;
    c->out[0] = td_shape_matrix(-1, rank);
    c->out[1] = td_shape_vector(-1);
    c->out[2] = td_shape_vector(rank);
    return TD_OK;
}

static bool inside(const int64_t *row, const int64_t *start, const int64_t *size, int rank)
{
    for (int d = 0; d < rank; d++) {
        if (row[d] < start[d] || row[d] - start[d] >= size[d]) {
            return false;
        }
    }
    return true;
}

static enum td_code slice_run(struct td_call *c, struct td_err *err)
{
    struct td_coo x;
    struct td_tensor *ix, *values, *shape;
    const int64_t *start = c->in[3]->data, *size = c->in[4]->data;
    int64_t n = 0, at = 0;
    TD_TRY(td_coo_view(c, 0, 2, &x, err));
    TD_TRY(td_out(c, 2, NULL, &shape, err));
    int64_t *dim = shape->data;
    for (int d = 0; d < x.rank; d++) {
        TD_FAIL_IF(size[d] < 0 || start[d] < -(INT64_C(1) << 61) || x.dim[d] > INT64_C(1) << 61, err,
                   INVALID_ARGUMENT,
                   "%s: start %lld, size %lld in dimension %d, want size at least 0 and start in range",
                   TD_NODE_STR(c->node), (long long)start[d], (long long)size[d], d);
        int64_t left = x.dim[d] > start[d] ? x.dim[d] - start[d] : 0;
        dim[d] = size[d] < left ? size[d] : left;
    }
    for (int64_t i = 0; i < x.n; i++) {
        n += inside(x.ix + i * x.rank, start, dim, x.rank);
    }
    TD_TRY(td_out(c, 0, &(struct td_shape){2, {n, x.rank}}, &ix, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {n}}, &values, err));
    for (int64_t i = 0; i < x.n; i++) {
        if (!inside(x.ix + i * x.rank, start, dim, x.rank)) {
            continue;
        }
        for (int d = 0; d < x.rank; d++) {
            TD_DATA(ix, int64_t)[at * x.rank + d] = x.ix[i * x.rank + d] - start[d];
        }
        copy_value(values, at++, c->in[1], i);
    }
    return TD_OK;
}

static enum td_code slice_grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 1, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    TD_TRY(td_infer_rank(c, 2, 1, err));
    TD_TRY(td_infer_rank(c, 3, 2, err));
    const struct td_shape *in = &c->in[1], *out = &c->in[3];
    TD_FAIL_IF(in->rank == 2 && out->rank == 2 && in->dim[1] >= 0 && out->dim[1] >= 0 &&
                   in->dim[1] != out->dim[1],
               err, INVALID_ARGUMENT, "%s: The input and output should have the same ndims: got %s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(in), TD_SHAPE_STR(out));
    TD_FAIL_IF(in->rank == 2 && c->in[2].rank == 1 && in->dim[1] >= 0 && c->in[2].dim[0] >= 0 &&
                   in->dim[1] != c->in[2].dim[0],
               err, INVALID_ARGUMENT, "%s: Expected the length of input_start to be %lld, got %s",
               TD_NODE_STR(c->node), (long long)in->dim[1], TD_SHAPE_STR(&c->in[2]));
    TD_FAIL_IF(out->rank == 2 && c->in[0].rank == 1 && out->dim[0] >= 0 && c->in[0].dim[0] >= 0 &&
                   out->dim[0] != c->in[0].dim[0],
               err, INVALID_ARGUMENT,
               "%s: The number of gradient values should match output_indices: got %s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(out));
    c->out[0] = td_shape_vector(in->rank == 2 ? in->dim[0] : -1);
    return TD_OK;
}

static enum td_code slice_grad_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *in = c->in[1], *out = c->in[3];
    const int64_t *start = c->in[2]->data;
    int64_t n = in->shape.dim[0], m = out->shape.dim[0], rank = in->shape.dim[1], k = 0;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (n > 0) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    for (int64_t i = 0; i < n && k < m; i++) {
        bool same = true;
        for (int64_t d = 0; d < rank && same; d++) {
            same = (uint64_t)TD_DATA(in, int64_t)[i * rank + d] ==
                   (uint64_t)TD_DATA(out, int64_t)[k * rank + d] + (uint64_t)start[d];
        }
        if (same) {
            copy_value(y, i, c->in[0], k++);
        }
    }
    TD_FAIL_IF(k != m, err, INTERNAL, "%s: Elements of backprop_val_grad aren't all propagated: %lld of %lld",
               TD_NODE_STR(c->node), (long long)k, (long long)m);
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseSplit */

static enum td_code split_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_TRY(td_coo_infer(c, 1, 2, 3, err));
    int n = c->n_out / 3;
    TD_FAIL_IF(n < 1, err, INVALID_ARGUMENT, "%s: num_split is 0, want at least 1", TD_NODE_STR(c->node));
    int64_t rank = c->in[3].rank == 1 ? c->in[3].dim[0] : -1;
    for (int i = 0; i < n; i++) {
        c->out[i] = td_shape_matrix(-1, rank);
        c->out[n + i] = td_shape_vector(-1);
        c->out[2 * n + i] = td_shape_vector(rank);
    }
    return TD_OK;
}

/* The first dim % n parts are one longer. */
static int64_t part_start(int64_t dim, int64_t n, int64_t part)
{
    int64_t extra = dim % n;
    return part * (dim / n) + (part < extra ? part : extra);
}

static enum td_code split_part(struct td_call *c, const struct td_coo *x, int axis, int n, int part,
                               struct td_err *err)
{
    struct td_tensor *ix, *values, *shape;
    int64_t from = part_start(x->dim[axis], n, part), to = part_start(x->dim[axis], n, part + 1), count = 0,
            at = 0;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t v = x->ix[i * x->rank + axis];
        count += v >= from && v < to;
    }
    TD_TRY(td_out(c, part, &(struct td_shape){2, {count, x->rank}}, &ix, err));
    TD_TRY(td_out(c, n + part, &(struct td_shape){1, {count}}, &values, err));
    TD_TRY(td_out(c, 2 * n + part, NULL, &shape, err));
    memcpy(shape->data, x->dim, (size_t)x->rank * 8);
    TD_DATA(shape, int64_t)[axis] = to - from;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t v = x->ix[i * x->rank + axis];
        if (v >= from && v < to) {
            memcpy(TD_DATA(ix, int64_t) + at * x->rank, x->ix + i * x->rank, (size_t)x->rank * 8);
            TD_DATA(ix, int64_t)[at * x->rank + axis] = v - from;
            copy_value(values, at++, c->in[2], i);
        }
    }
    return TD_OK;
}

static enum td_code split_run(struct td_call *c, struct td_err *err)
{
    struct td_coo x;
    int axis, n = c->n_out / 3;
    int64_t want = td_tensor_int(c->in[0], 0);
    TD_TRY(td_coo_view(c, 1, 3, &x, err));
    TD_FAIL_IF(!td_shape_axis(x.rank, want, &axis), err, INVALID_ARGUMENT,
               "%s: Input split_dim should be between -%d and %d (inclusive), got %lld", TD_NODE_STR(c->node),
               x.rank, x.rank - 1, (long long)want);
    TD_FAIL_IF(n < 1 || n > x.dim[axis], err, INVALID_ARGUMENT,
               "%s: Input num_split should be between 1 and the splitting dimension size (%lld), got %d",
               TD_NODE_STR(c->node), (long long)x.dim[axis], n);
    TD_TRY(td_coo_check_bounds(c, &x, err));
    for (int part = 0; part < n; part++) {
        TD_TRY(split_part(c, &x, axis, n, part, err));
    }
    return TD_OK;
}

#define VALUES (TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_SET_OBJECTS)

const struct td_op td_ops_sparse_layout[] = {
    {.name = "SparseReshape",
     .sig = "(input_indices:int64, input_shape:int64, new_shape:int64) -> (output_indices:int64, "
            "output_shape:int64) {}",
     .infer = reshape_infer,
     .kernels = TD_KERNEL("sparse_layout.cpu", reshape_run, {0})},
    {.name = "SparseReorder",
     .sig = "(input_indices:int64, input_values:T, input_shape:int64) -> (output_indices:int64, "
            "output_values:T) "
            "{T:type}",
     .host_in = 4,
     .infer = reorder_infer,
     .kernels = TD_KERNEL("sparse_layout.cpu", reorder_run, {"T", VALUES}),
     .grad = td_sparse_reorder_grad},
    {.name = "SparseConcat",
     .sig = "(indices:N*int64, values:N*T, shapes:N*int64) -> (output_indices:int64, output_values:T, "
            "output_shape:int64) {concat_dim:int; N:int; T:type}",
     .host_in = 4,
     .infer = concat_infer,
     .kernels = TD_KERNEL("sparse_layout.cpu", concat_run, {"T", VALUES}),
     .grad = td_not_differentiable},
    {.name = "SparseSlice",
     .sig = "(indices:int64, values:T, shape:int64, start:int64, size:int64) -> (output_indices:int64, "
            "output_values:T, output_shape:int64) {T:type}",
     .host_in = 28,
     .infer = slice_infer,
     .kernels = TD_KERNEL("sparse_layout.cpu", slice_run, {"T", VALUES}),
     .grad = td_sparse_slice_grad},
    {.name = "SparseSliceGrad",
     .sig = "(backprop_val_grad:T, input_indices:int64, input_start:int64, output_indices:int64) -> "
            "(val_grad:T) "
            "{T:type}",
     .infer = slice_grad_infer,
     .kernels = TD_KERNEL("sparse_layout.cpu", slice_grad_run, {"T", TD_SET_NUMBERS})},
    {.name = "SparseSplit",
     .sig = "(split_dim:int64, indices:int64, values:T, shape:int64) -> (output_indices:num_split*int64, "
            "output_values:num_split*T, output_shape:num_split*int64) {num_split:int; T:type}",
     .host_in = 9,
     .infer = split_infer,
     .kernels = TD_KERNEL("sparse_layout.cpu", split_run, {"T", VALUES})},
    {.name = NULL},
};
