/* kernels/sparse/sparse_rows.c - rows without values get one: SparseFillEmptyRows, RaggedFillEmptyRows and
 * their gradients.
 *
 * Both forms are the same walk over row ids: the sparse one takes them from column 0 of its indices. Values
 * keep their order within a row; rows come out in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/cpu/elem.h"
#include "kernels/ops.h"
#include "kernels/sparse/sparse_coo.h"
#include "kernels/sparse/sparse_grad.h"

#include <string.h>

struct rows {
    const int64_t *ix; /* n rows of `width`, the row id first */
    int64_t n, width, n_rows;
    const struct td_tensor *values, *def;
};

static enum td_code scalar_default(const struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[3].rank > 0, err, INVALID_ARGUMENT, "%s: default_value must be a scalar, saw: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[3]));
    return TD_OK;
}

static enum td_code fill_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_coo_infer(c, 0, 1, 2, err));
    TD_TRY(scalar_default(c, err));
    int64_t rank = c->in[2].rank == 1 ? c->in[2].dim[0] : c->in[0].rank == 2 ? c->in[0].dim[1] : -1;
    TD_FAIL_IF(rank == 0, err, INVALID_ARGUMENT, "%s: Dense shape cannot be empty.", TD_NODE_STR(c->node));
    c->out[0] = td_shape_matrix(-1, rank);
    c->out[1] = td_shape_vector(-1);
    c->out[2] = td_shape_vector(-1);
    c->out[3] = td_shape_vector(c->in[0].rank == 2 ? c->in[0].dim[0] : -1);
    return TD_OK;
}

static enum td_code ragged_fill_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 1, err));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_TRY(td_infer_rank(c, 2, 0, err));
    TD_TRY(scalar_default(c, err));
    TD_FAIL_IF(!td_shape_compatible(&c->in[0], &c->in[1]), err, INVALID_ARGUMENT,
               "%s: value_rowids %s and values %s must be of one length", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    c->out[0] = c->out[1] = c->out[2] = td_shape_vector(-1);
    c->out[3] = c->in[0];
    return TD_OK;
}

static void copy_value(struct td_tensor *y, int64_t to, const struct td_tensor *x, int64_t from)
{
    size_t size = td_dtype_size(y->dtype);
    td_elems_copy(y->dtype, (char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size,
                  1);
}

/* next[r]: where row r's values start in the output; *total of them. */
static enum td_code plan_rows(struct td_call *c, const struct rows *r, int64_t *next, td_bool *empty,
                              int64_t *total, struct td_err *err)
{
    memset(next, 0, (size_t)(r->n_rows + 1) * 8);
    for (int64_t i = 0; i < r->n; i++) {
        int64_t row = r->ix[i * r->width];
        TD_FAIL_IF(row < 0 || row >= r->n_rows, err, INVALID_ARGUMENT,
                   "%s: indices(%lld, 0) is invalid: %lld >= %lld", TD_NODE_STR(c->node), (long long)i,
                   (long long)row, (long long)r->n_rows);
        next[row]++;
    }
    *total = 0;
    for (int64_t row = 0; row < r->n_rows; row++) {
        int64_t n = next[row];
        empty[row] = n == 0;
        next[row] = *total;
        *total += n ? n : 1;
    }
    return TD_OK;
}

static enum td_code fill_rows(struct td_call *c, const struct rows *r, struct td_err *err)
{
    struct td_tensor *ix, *values, *empty, *map;
    void *next;
    int64_t total = 0;
    TD_FAIL_IF(r->n_rows < 0, err, INVALID_ARGUMENT, "%s: dense_shape[0] is %lld, want at least 0",
               TD_NODE_STR(c->node), (long long)r->n_rows);
    TD_FAIL_IF(r->n_rows == 0 && r->n > 0, err, INVALID_ARGUMENT,
               "%s: Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %lld",
               TD_NODE_STR(c->node), (long long)r->n);
    TD_TRY(td_out(c, 2, &(struct td_shape){1, {r->n_rows}}, &empty, err));
    TD_TRY(td_out(c, 3, NULL, &map, err));
    TD_TRY(td_scratch(c, (size_t)(r->n_rows + 1) * 8, &next, err));
    TD_TRY(plan_rows(c, r, next, empty->data, &total, err));
    bool sparse = c->in[0]->shape.rank == 2;
    TD_TRY(td_out(c, 0, &(struct td_shape){sparse ? 2 : 1, {total, r->width}}, &ix, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {total}}, &values, err));
    int64_t *out = ix->data, *at = next;
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (TD_DATA(empty, td_bool)[row]) {
            memset(out + at[row] * r->width, 0, (size_t)r->width * 8);
            out[at[row] * r->width] = row;
            copy_value(values, at[row], r->def, 0);
        }
    }
    for (int64_t i = 0; i < r->n; i++) {
        int64_t to = at[r->ix[i * r->width]]++;
        memcpy(out + to * r->width, r->ix + i * r->width, (size_t)r->width * 8);
        copy_value(values, to, r->values, i);
        TD_DATA(map, int64_t)[i] = to;
    }
    return TD_OK;
}

static enum td_code fill_run(struct td_call *c, struct td_err *err)
{
    struct rows r = {.ix = c->in[0]->data,
                     .n = c->in[0]->shape.dim[0],
                     .width = c->in[0]->shape.dim[1],
                     .n_rows = TD_DATA(c->in[2], int64_t)[0],
                     .values = c->in[1],
                     .def = c->in[3]};
    return fill_rows(c, &r, err);
}

static enum td_code ragged_fill_run(struct td_call *c, struct td_err *err)
{
    struct rows r = {.ix = c->in[0]->data,
                     .n = c->in[0]->shape.dim[0],
                     .width = 1,
                     .n_rows = TD_DATA(c->in[2], int64_t)[0],
                     .values = c->in[1],
                     .def = c->in[3]};
    return fill_rows(c, &r, err);
}

/* ------------------------------------------------------------ gradients: reverse_index_map [n], grad [m] */

static enum td_code grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 1, err));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    c->out[0] = c->in[0];
    c->out[1] = td_shape_scalar();
    return TD_OK;
}

static enum td_code grad_run(struct td_call *c, struct td_err *err)
{
    const int64_t *map = c->in[0]->data;
    const struct td_tensor *g = c->in[1];
    int64_t n = c->in[0]->shape.dim[0], m = g->shape.dim[0];
    size_t size = td_dtype_size(g->dtype);
    struct td_tensor *values, *def;
    void *seen;
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &def, err));
    TD_TRY(td_scratch(c, (size_t)m + 1, &seen, err));
    memset(seen, 0, (size_t)m + 1);
    memset(def->data, 0, size);
    for (int64_t i = 0; i < n; i++) {
        TD_FAIL_IF(map[i] < 0 || map[i] >= m, err, INVALID_ARGUMENT,
                   "%s: Elements in reverse index must be in [0, %lld) but got %lld", TD_NODE_STR(c->node),
                   (long long)m, (long long)map[i]);
        copy_value(values, i, g, map[i]);
        ((char *)seen)[map[i]] = 1;
    }
    for (int64_t i = 0; i < m; i++) {
        if (!((char *)seen)[i]) {
            td_elem_apply(g->dtype, TD_ELEM_ADD, def->data, def->data,
                          (const char *)g->data + (size_t)i * size);
        }
    }
    return TD_OK;
}

#define VALUES (TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_SET_OBJECTS)

const struct td_op td_ops_sparse_rows[] = {
    {.name = "SparseFillEmptyRows",
     .sig = "(indices:int64, values:T, dense_shape:int64, default_value:T) -> (output_indices:int64, "
            "output_values:T, "
            "empty_row_indicator:bool, reverse_index_map:int64) {T:type}",
     .host_in = 4,
     .infer = fill_infer,
     .kernels = TD_KERNEL("sparse_rows.cpu", fill_run, {"T", VALUES}),
     .grad = td_sparse_fill_rows_grad},
    {.name = "SparseFillEmptyRowsGrad",
     .sig = "(reverse_index_map:int64, grad_values:T) -> (d_values:T, d_default_value:T) {T:type}",
     .infer = grad_infer,
     .kernels = TD_KERNEL("sparse_rows.cpu", grad_run, {"T", TD_SET_NUMBERS})},
    {.name = "RaggedFillEmptyRows",
     .sig = "(value_rowids:int64, values:T, nrows:int64, default_value:T) -> (output_value_rowids:int64, "
            "output_values:T, empty_row_indicator:bool, reverse_index_map:int64) {T:type}",
     .host_in = 4,
     .infer = ragged_fill_infer,
     .kernels = TD_KERNEL("sparse_rows.cpu", ragged_fill_run, {"T", VALUES}),
     .grad = td_sparse_fill_ragged_rows_grad},
    {.name = "RaggedFillEmptyRowsGrad",
     .sig = "(reverse_index_map:int64, grad_values:T) -> (d_values:T, d_default_value:T) {T:type}",
     .infer = grad_infer,
     .kernels = TD_KERNEL("sparse_rows.cpu", grad_run, {"T", TD_SET_NUMBERS})},
    {.name = NULL},
};
