/* kernels/sparse/edit_distance.c - EditDistance: how many insertions, deletions and replacements lead from
 * one sequence to another.
 *
 *     hypothesis (indices [n,r], values [n], shape [r]), truth likewise
 *                                                            ->  distance [shape without its last axis]
 *
 * The last axis of each sparse operand holds sequences, the axes before it name them. Both lists are walked
 * in their row-major order at once; a sequence that one side lacks is empty there. With normalize, a distance
 * is divided by the length of the truth, which makes it infinite where there is no truth.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"
#include "kernels/sparse/sparse_coo.h"

/* One operand and the sequence [from, to) of it that is looked at. */
struct side {
    struct td_coo x;
    const struct td_tensor *values;
    int64_t from, to;
};

/* ------------------------------------------------------------------ shapes */

static enum td_code edit_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    TD_TRY(td_coo_infer(c, 3, 4, 5, err));
    TD_FAIL_IF(!td_shape_compatible(&c->in[2], &c->in[5]), err, INVALID_ARGUMENT,
               "%s: Expected truth and hypothesis to have matching ranks, but their shapes are: %s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[5]), TD_SHAPE_STR(&c->in[2]));
    TD_FAIL_IF(c->in[5].rank == 1 && c->in[5].dim[0] >= 0 && c->in[5].dim[0] < 2, err, INVALID_ARGUMENT,
               "%s: Input SparseTensors must have rank at least 2, but truth_shape rank is: %lld",
               TD_NODE_STR(c->node), (long long)c->in[5].dim[0]);
    return TD_OK;
}

static enum td_code result_shape(const struct td_call *c, const struct side *a, const struct side *b,
                                 struct td_shape *out, struct td_err *err)
{
    int64_t count = 1;
    out->rank = a->x.rank - 1;
    for (int d = 0; d < out->rank; d++) {
        out->dim[d] = a->x.dim[d] > b->x.dim[d] ? a->x.dim[d] : b->x.dim[d];
        TD_FAIL_IF(!td_i64_mul(count, out->dim[d], &count), err, INVALID_ARGUMENT,
                   "%s: the result has more elements than int64 counts", TD_NODE_STR(c->node));
    }
    TD_FAIL_IF(count == 0, err, INVALID_ARGUMENT, "%s: Got output shape %s which has 0 elements",
               TD_NODE_STR(c->node), TD_SHAPE_STR(out));
    return TD_OK;
}

/* ------------------------------------------------------------------ sequences */

/* Compares the names of two sequences. */
static int compare_names(const struct side *a, const struct side *b)
{
    if (a->from == a->x.n || b->from == b->x.n) {
        return a->from < a->x.n ? -1 : b->from < b->x.n;
    }
    return td_coo_compare(a->x.ix + a->from * a->x.rank, b->x.ix + b->from * b->x.rank, a->x.rank - 1);
}

static void find_end(struct side *s)
{
    const int64_t *name = s->x.ix + s->from * s->x.rank;
    s->to = s->from;
    while (s->to < s->x.n && td_coo_compare(name, s->x.ix + s->to * s->x.rank, s->x.rank - 1) == 0) {
        s->to++;
    }
}

static bool same_numbers(enum td_dtype dtype, const void *a, const void *b)
{
    switch (dtype) {
    case TD_HALF:
        return td_half_to_float(*(const td_half *)a) == td_half_to_float(*(const td_half *)b);
    case TD_BFLOAT16:
        return td_bf16_to_float(*(const td_bf16 *)a) == td_bf16_to_float(*(const td_bf16 *)b);
    case TD_FLOAT:
        return *(const float *)a == *(const float *)b;
    case TD_DOUBLE:
        return *(const double *)a == *(const double *)b;
    case TD_COMPLEX64:
        return same_numbers(TD_FLOAT, a, b) &&
               same_numbers(TD_FLOAT, (const float *)a + 1, (const float *)b + 1);
    case TD_COMPLEX128:
        return same_numbers(TD_DOUBLE, a, b) &&
               same_numbers(TD_DOUBLE, (const double *)a + 1, (const double *)b + 1);
    default:
        return memcmp(a, b, td_dtype_size(dtype)) == 0;
    }
}

static bool same_element(const struct td_tensor *x, int64_t i, const struct td_tensor *y, int64_t j)
{
    size_t size = td_dtype_size(x->dtype);
    if (x->dtype == TD_STRING) {
        size_t n, m;
        const char *a = td_tensor_str(x, i, &n), *b = td_tensor_str(y, j, &m);
        return n == m && memcmp(a, b, n) == 0;
    }
    return same_numbers(x->dtype, (const char *)x->data + (size_t)i * size,
                        (const char *)y->data + (size_t)j * size);
}

/* Distance of the sequences of a and b. row: scratch for one row of the table of distances between their
 * beginnings, which is filled from the row above. */
static enum td_code distance(const struct td_call *c, const struct side *a, const struct side *b,
                             int64_t *row, int64_t *out, struct td_err *err)
{
    int64_t n = a->to - a->from, m = b->to - b->from;
    for (int64_t j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t corner = row[0];
        row[0] = i + 1;
        for (int64_t j = 0; j < m; j++) {
            int64_t replaced = corner + !same_element(a->values, a->from + i, b->values, b->from + j);
            int64_t less = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            corner = row[j + 1];
            row[j + 1] = replaced < less ? replaced : less;
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    *out = row[m];
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

/* Where the distance of the sequence that s is at belongs. */
static enum td_code position(const struct td_call *c, const struct side *s, const struct td_tensor *y,
                             int64_t *at, struct td_err *err)
{
    bool fits = true;
    *at = 0;
    for (int d = 0; d < y->shape.rank; d++) {
        fits = fits && td_i64_mul(*at, y->shape.dim[d], at) &&
               td_i64_add(*at, s->x.ix[s->from * s->x.rank + d], at);
    }
    TD_FAIL_IF(!fits || *at < 0 || *at >= td_tensor_count(y), err, INVALID_ARGUMENT,
               "%s: indices[%lld] lands at %lld, want a position inside the %lld elements of the result",
               TD_NODE_STR(c->node), (long long)s->from, (long long)*at, (long long)td_tensor_count(y));
    return TD_OK;
}

/* The next sequence of both sides. hyp, truth: at its beginning; are moved behind it. */
static enum td_code edit_next(const struct td_call *c, struct side *hyp, struct side *truth, int64_t *row,
                              struct td_tensor *y, struct td_err *err)
{
    int order = compare_names(hyp, truth);
    int64_t at = 0, d = 0;
    TD_TRY(position(c, order <= 0 ? hyp : truth, y, &at, err));
    hyp->to = hyp->from;
    truth->to = truth->from;
    if (order <= 0) {
        find_end(hyp);
    }
    if (order >= 0) {
        find_end(truth);
    }
    TD_TRY(distance(c, truth, hyp, row, &d, err));
    int64_t length = truth->to - truth->from;
    TD_DATA(y, float)
    [at] = !td_attr_bool(c->node, "normalize") ? (float)d : length ? (float)d / (float)length : INFINITY;
    hyp->from = hyp->to;
    truth->from = truth->to;
    return TD_OK;
}

static enum td_code edit_run(struct td_call *c, struct td_err *err)
{
    struct side hyp = {.values = c->in[1]}, truth = {.values = c->in[4]};
    struct td_shape shape;
    struct td_tensor *y;
    void *row;
    TD_TRY(td_coo_view(c, 0, 2, &hyp.x, err));
    TD_TRY(td_coo_view(c, 3, 5, &truth.x, err));
    TD_TRY(result_shape(c, &hyp, &truth, &shape, err));
    TD_TRY(td_scratch(c, ((size_t)hyp.x.n + 1) * sizeof(int64_t), &row, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    if (td_tensor_count(y)) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    while (hyp.from < hyp.x.n || truth.from < truth.x.n) {
        TD_TRY(edit_next(c, &hyp, &truth, row, y, err));
    }
    return TD_OK;
}

const struct td_op td_ops_edit_distance[] = {
    {.name = "EditDistance",
     .sig = "(hypothesis_indices:int64, hypothesis_values:T, hypothesis_shape:int64, truth_indices:int64, "
            "truth_values:T, truth_shape:int64) -> (output:float) {normalize:bool=true; T:type}",
     .infer = edit_infer,
     .kernels = TD_KERNEL("edit_distance.cpu", edit_run, {"T", TD_SET_COPYABLE}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
