/* kernels/sparse/sparse_coo.c - checks, order and sorting of (indices, values, shape) triples, on borrowed
 * arrays.
 *
 * Shape functions check ranks and counts; kernels make a view and check what only data tell: sizes that are
 * negative or whose product overflows, and where the op asks for it every index. Sorting gives an order and
 * moves nothing: rows compare number by number, equal ones stay in their order, and rows that are in order
 * already are not sorted.
 *
 * Does not: change or allocate triples, look at values.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sparse/sparse_coo.h"

#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum td_code td_coo_infer(const struct td_infer *c, int i, int i_values, int i_shape, struct td_err *err)
{
    const struct td_shape *ix = &c->in[i], *values = &c->in[i_values], *shape = &c->in[i_shape];
    TD_FAIL_IF(ix->rank >= 0 && ix->rank != 2, err, INVALID_ARGUMENT,
               "%s: Input indices should be a matrix but received shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(ix));
    TD_FAIL_IF(values->rank >= 0 && values->rank != 1, err, INVALID_ARGUMENT,
               "%s: Input values should be a vector but received shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(values));
    TD_FAIL_IF(shape->rank >= 0 && shape->rank != 1, err, INVALID_ARGUMENT,
               "%s: Input shape should be a vector but received shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(shape));
    TD_FAIL_IF(ix->rank == 2 && values->rank == 1 && ix->dim[0] >= 0 && values->dim[0] >= 0 &&
                   ix->dim[0] != values->dim[0],
               err, INVALID_ARGUMENT, "%s: number of indices and of values must match: indices %s, values %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(ix), TD_SHAPE_STR(values));
    TD_FAIL_IF(ix->rank == 2 && shape->rank == 1 && ix->dim[1] >= 0 && shape->dim[0] >= 0 &&
                   ix->dim[1] != shape->dim[0],
               err, INVALID_ARGUMENT, "%s: index rank and shape rank do not match: indices %s, shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(ix), TD_SHAPE_STR(shape));
    return TD_OK;
}

enum td_code td_coo_view(const struct td_call *c, int i, int i_shape, struct td_coo *out, struct td_err *err)
{
    const struct td_tensor *ix = c->in[i], *shape = c->in[i_shape];
    *out = (struct td_coo){
        .ix = ix->data, .n = ix->shape.dim[0], .rank = (int)ix->shape.dim[1], .dim = shape->data};
    TD_FAIL_IF(ix->shape.dim[1] > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: sparse rank %lld, want at most %d",
               TD_NODE_STR(c->node), (long long)ix->shape.dim[1], TD_MAX_RANK);
    int64_t count = 1;
    for (int d = 0; d < out->rank; d++) {
        TD_FAIL_IF(out->dim[d] < 0, err, INVALID_ARGUMENT,
                   "%s: dense shape has dimension %lld, want at least 0", TD_NODE_STR(c->node),
                   (long long)out->dim[d]);
        TD_FAIL_IF(!td_i64_mul(count, out->dim[d], &count), err, INVALID_ARGUMENT,
                   "%s: the dense shape has more elements than int64 counts", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

enum td_code td_coo_check_bounds(const struct td_call *c, const struct td_coo *x, struct td_err *err)
{
    for (int64_t i = 0; i < x->n; i++) {
        for (int d = 0; d < x->rank; d++) {
            int64_t v = x->ix[i * x->rank + d];
            TD_FAIL_IF(v < 0 || v >= x->dim[d], err, INVALID_ARGUMENT,
                       "%s: indices[%lld,%d] = %lld is out of bounds: need 0 <= index < %lld",
                       TD_NODE_STR(c->node), (long long)i, d, (long long)v, (long long)x->dim[d]);
        }
    }
    return TD_OK;
}

int td_coo_compare(const int64_t *a, const int64_t *b, int rank)
{
    for (int d = 0; d < rank; d++) {
        if (a[d] != b[d]) {
            return a[d] < b[d] ? -1 : 1;
        }
    }
    return 0;
}

bool td_coo_sorted(const struct td_coo *x)
{
    for (int64_t i = 1; i < x->n; i++) {
        if (td_coo_compare(x->ix + (i - 1) * x->rank, x->ix + i * x->rank, x->rank) > 0) {
            return false;
        }
    }
    return true;
}

static int order_rows(const void *a, const void *b, void *ctx)
{
    const struct td_coo *x = ctx;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int o = td_coo_compare(x->ix + i * x->rank, x->ix + j * x->rank, x->rank);
    return o ? o : (i > j) - (i < j);
}

void td_coo_sort(const struct td_coo *x, int64_t *order)
{
    struct td_coo copy = *x;
    for (int64_t i = 0; i < x->n; i++) {
        order[i] = i;
    }
    if (!td_coo_sorted(x)) {
        qsort_r(order, (size_t)x->n, sizeof(*order), order_rows, &copy);
    }
}

char *td_coo_text(const int64_t *row, int rank, char *buf, size_t bytes)
{
    size_t at = 0;
    buf[0] = 0;
    for (int d = 0; d < rank && at < bytes; d++) {
        at += (size_t)snprintf(buf + at, bytes - at, "%s%lld", d ? "," : "[", (long long)row[d]);
    }
    if (at < bytes) {
        snprintf(buf + at, bytes - at, "%s", rank ? "]" : "[]");
    }
    return buf;
}
