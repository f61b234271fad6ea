/* server/train/row_batch.c - the lists of row_cells.h as the tensors of a batch.
 *
 * Rows of one size are a batch as they lie. Others must be padded, to the longest of the batch or to what the
 * signature fixes: each row is then copied into its corner of the batch, whose elements are all the padding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "server/train/row_cells.h"

void td_batch_clear(struct td_batch *b)
{
    for (int i = 0; i < b->n; i++) {
        td_tensor_clear(&b->tensor[i]);
    }
    td_free(b->tensor);
    *b = (struct td_batch){0};
}

/* [rows, dims of a row] */
static enum td_code batch_shape(int64_t rows, const struct td_shape *row, struct td_shape *out,
                                struct td_err *err)
{
    const struct td_shape first = td_shape_vector(rows);
    return td_shape_concat(&first, row, out, err);
}

/* The shape that all rows have, or that holds each of them; *bad: a row that is not of the first one's. */
static bool common_shape(const struct td_row_cells *c, const struct td_row_cell *cell, struct td_shape *out,
                         int64_t *bad)
{
    if (c->rows == 0 || cell->fixed) {
        *out = cell->row;
        return true;
    }
    *out = cell->shape[0];
    for (int64_t i = 1; i < c->rows; i++) {
        const struct td_shape *s = &cell->shape[i];
        if (cell->field->pad != NULL && s->rank == out->rank) {
            for (int k = 0; k < s->rank; k++) {
                out->dim[k] = s->dim[k] > out->dim[k] ? s->dim[k] : out->dim[k];
            }
        } else if (!td_shape_equal(s, out)) {
            *bad = i;
            return false;
        }
    }
    for (int k = 0; cell->field->pad != NULL && k < cell->row.rank && k < out->rank; k++) {
        out->dim[k] = cell->row.dim[k] >= 0 ? cell->row.dim[k] : out->dim[k];
    }
    return true;
}

/* Elements of a row of shape from to the corner of one of shape to. */
static void copy_corner(enum td_dtype dtype, char *dst, const struct td_shape *to, const char *src,
                        const struct td_shape *from)
{
    const size_t elem = td_dtype_size(dtype);
    const int last = from->rank - 1;
    int64_t at[TD_MAX_RANK] = {0};
    if (td_shape_count(from) == 0 || from->rank == 0) {
        td_elems_copy(dtype, dst, src, td_shape_count(from));
        return;
    }
    for (int axis = 0; axis >= 0;) {
        int64_t place = 0;
        for (int k = 0; k < from->rank; k++) {
            place = place * to->dim[k] + at[k];
        }
        td_elems_copy(dtype, dst + (size_t)place * elem, src, from->dim[last]);
        src += (size_t)from->dim[last] * elem;
        for (axis = last - 1; axis >= 0 && ++at[axis] == from->dim[axis]; axis--) {
            at[axis] = 0;
        }
    }
}

static enum td_code take_padded(struct td_row_cells *c, struct td_row_cell *cell, const struct td_shape *row,
                                struct td_tensor *out, struct td_err *err)
{
    const size_t elem = cell->g.elem, count = (size_t)td_shape_count(row);
    const char *src = cell->g.data;
    struct td_shape shape;
    TD_TRY(batch_shape(c->rows, row, &shape, err));
    TD_TRY(td_tensor_new(out, cell->field->dtype, &shape, err));
    char *dst = out->data;
    for (size_t i = 0; i < count && c->rows > 0; i++) {
        td_elems_copy(out->dtype, dst + i * elem, cell->pad, 1);
    }
    for (int64_t i = 1; i < c->rows; i++) {
        td_elems_copy(out->dtype, dst + (size_t)i * count * elem, dst, (int64_t)count);
    }
    for (int64_t i = 0; i < c->rows; i++) {
        copy_corner(out->dtype, dst + (size_t)i * count * elem, row, src, &cell->shape[i]);
        src += (size_t)td_shape_count(&cell->shape[i]) * elem;
    }
    td_gather_cut(&cell->g, 0);
    return TD_OK;
}

/* An input of rank 0: what all rows say. */
static enum td_code take_same(struct td_row_cells *c, struct td_row_cell *cell, struct td_tensor *out,
                              int64_t *bad, struct td_err *err)
{
    const struct td_shape shape = td_shape_scalar(), all = td_shape_vector(c->rows);
    struct td_tensor t, first, row;
    bool same = true;
    TD_TRY(td_gather_take(&cell->g, &all, &t, err));
    td_tensor_rows(&first, &t, 0, 1);
    for (int64_t i = 1; i < c->rows && same; i++) {
        size_t n, m;
        td_tensor_rows(&row, &t, i, i + 1);
        const char *a = t.dtype == TD_STRING ? td_tensor_str(&first, 0, &n) : NULL;
        const char *b = t.dtype == TD_STRING ? td_tensor_str(&row, 0, &m) : NULL;
        same = a != NULL ? n == m && memcmp(a, b, n) == 0 : td_tensor_same(&first, &row);
        *bad = i;
        td_tensor_clear(&row);
    }
    td_tensor_clear(&t);
    first.shape = shape;
    *out = first;
    TD_FAIL_IF(!same, err, INVALID_ARGUMENT,
               "input %s is one value for the whole batch, and not that of its first row", cell->field->name);
    return TD_OK;
}

static enum td_code take_field(struct td_row_cells *c, struct td_row_cell *cell, struct td_tensor *out,
                               int64_t *bad, struct td_err *err)
{
    struct td_shape row, shape;
    char who[160];
    if (cell->field->shape.rank == 0 && c->rows > 0) {
        return take_same(c, cell, out, bad, err);
    }
    if (!common_shape(c, cell, &row, bad)) {
        TD_FAIL(err, INVALID_ARGUMENT, "%s is of shape %s, other rows of its batch of %s%s",
                td_row_cells_who(cell->field, who), TD_SHAPE_STR(&cell->shape[*bad]),
                TD_SHAPE_STR(&cell->shape[0]),
                cell->field->kind == TD_ROW_INPUT ? " (tensord.padding makes rows equally long)" : "");
    }
    for (int k = 0; c->rows == 0 && k < row.rank; k++) {
        row.dim[k] = row.dim[k] < 0 ? 0 : row.dim[k];
    }
    row.rank = row.rank < 0 ? 0 : row.rank;
    if (cell->field->pad != NULL) {
        return take_padded(c, cell, &row, out, err);
    }
    TD_TRY(batch_shape(c->rows, &row, &shape, err));
    return td_gather_take(&cell->g, &shape, out, err);
}

enum td_code td_row_cells_take(struct td_row_cells *c, struct td_batch *out, int64_t *bad, struct td_err *err)
{
    *bad = -1;
    *out = (struct td_batch){.rows = c->rows, .n = c->n};
    out->tensor = td_calloc((size_t)c->n + 1, sizeof *out->tensor);
    if (out->tensor == NULL) {
        out->n = 0;
        return td_no_memory(err, (size_t)c->n * sizeof *out->tensor, "a batch");
    }
    enum td_code rc = TD_OK;
    for (int i = 0; i < c->n && rc == TD_OK; i++) {
        rc = take_field(c, &c->cell[i], &out->tensor[i], bad, err);
    }
    c->rows = 0;
    if (rc) {
        td_row_cells_drop(c);
        td_batch_clear(out);
    }
    return rc;
}
