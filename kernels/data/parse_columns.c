/* kernels/data/parse_columns.c - cells of features into output tensors, in two passes: count, then copy.
 *
 * td_parse_read finds every (example, key) once and lays the spans out row by row in scratch. Counting tells
 * the outputs' shapes, and checks dtypes and bytes on the way; so copying only fails for memory. Sparse
 * outputs also get their indices, ragged ones their splits; dense ones of a fixed shape need no counting
 * pass, those of a variable length are padded with the default to the longest row.
 *
 * Errors are TensorFlow's and name example and key. Does not: read attributes of the ops
 * (kernels/data/parse_example.c, parse_sequence.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/parse_columns.h"

#include "core/base/mem.h"
#include "core/base/work.h"

#include <stdio.h>
#include <string.h>

enum td_code td_parse_read(const struct td_parse *p, uint32_t field, const struct td_bytes *keys, int n,
                           struct td_example_span **found, struct td_err *err)
{
    struct td_example_keys k;
    void *slots, *cells;
    size_t bytes;
    if (!td_size_mul((size_t)p->rows * sizeof(**found), (size_t)n, &bytes)) {
        return td_no_memory(err, SIZE_MAX, "the features of a batch");
    }
    TD_TRY(td_scratch(p->c, (size_t)td_example_slots(n) * sizeof(int32_t), &slots, err));
    TD_TRY(td_scratch(p->c, bytes + 1, &cells, err));
    td_example_keys_init(&k, keys, n, slots);
    *found = cells;
    for (int64_t i = 0; i < p->rows; i++) {
        size_t len;
        const char *s = td_tensor_str(p->serialized, i, &len);
        char where[200];
        TD_FAIL_IF(!td_example_map(s, len, field, &k, *found + i * n), err, INVALID_ARGUMENT,
                   "Could not parse example input, value of %zu bytes is no tf.Example (%s of %s)", len,
                   td_parse_where(p, (struct td_bytes){"", 0}, i, where, sizeof(where)),
                   TD_NODE_STR(p->c->node));
    }
    return TD_OK;
}

char *td_parse_where(const struct td_parse *p, struct td_bytes key, int64_t i, char *buf, size_t bytes)
{
    const char *name = "<unknown>";
    size_t n;
    if (p->names && i < td_tensor_count(p->names)) {
        name = td_tensor_str(p->names, i, &n);
    }
    snprintf(buf, bytes, "Name: %.60s, Key: %.100s, Index: %lld", name, key.p, (long long)i);
    return buf;
}

enum td_code td_parse_count(const struct td_parse *p, const struct td_cells *k, int64_t row,
                            struct td_example_span cell, int64_t *n, bool *absent, struct td_err *err)
{
    char where[200];
    enum td_dtype type = TD_DTYPE_NONE;
    bool ok = td_example_type(cell, &type);
    *n = 0;
    *absent = type == TD_DTYPE_NONE;
    if (ok && *absent) {
        return TD_OK;
    }
    TD_FAIL_IF(ok && type != k->dtype, err, INVALID_ARGUMENT,
               "%s.  Data types don't match. Data type: %s but expected type: %s",
               td_parse_where(p, k->key, row, where, sizeof(where)), td_dtype_name(type),
               td_dtype_name(k->dtype));
    *n = ok ? td_example_count(cell) : -1;
    TD_FAIL_IF(*n < 0, err, INVALID_ARGUMENT, "%s.  Can't parse serialized Example.",
               td_parse_where(p, k->key, row, where, sizeof(where)));
    return TD_OK;
}

/* Values of all rows, and the longest row. */
static enum td_code count_rows(const struct td_parse *p, const struct td_cells *k, int64_t *total,
                               int64_t *longest, struct td_err *err)
{
    *total = *longest = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        int64_t n;
        bool absent;
        TD_TRY(td_parse_count(p, k, i, k->cell[i * k->stride], &n, &absent, err));
        *total += n;
        *longest = n > *longest ? n : *longest;
    }
    return TD_OK;
}

enum td_code td_parse_sparse(const struct td_parse *p, const struct td_cells *k, int out_indices,
                             int out_values, int out_shape, struct td_err *err)
{
    struct td_tensor *indices, *values, *shape;
    int64_t total, longest, at = 0;
    int rank = p->single ? 1 : 2;
    TD_TRY(count_rows(p, k, &total, &longest, err));
    TD_TRY(td_out(p->c, out_indices, &(struct td_shape){2, {total, rank}}, &indices, err));
    TD_TRY(td_out(p->c, out_values, &(struct td_shape){1, {total}}, &values, err));
    TD_TRY(td_out(p->c, out_shape, &(struct td_shape){1, {rank}}, &shape, err));
    TD_DATA(shape, int64_t)[0] = p->rows;
    TD_DATA(shape, int64_t)[rank - 1] = longest;
    for (int64_t i = 0; i < p->rows && !td_work_spent(64); i++) {
        struct td_example_span cell = k->cell[i * k->stride];
        int64_t n;
        bool absent;
        TD_TRY(td_parse_count(p, k, i, cell, &n, &absent, err));
        TD_TRY(absent ? TD_OK : td_example_copy(cell, values, at, err));
        for (int64_t j = 0; j < n; j++, at++) {
            TD_DATA(indices, int64_t)[at * rank] = i;
            TD_DATA(indices, int64_t)[at * rank + rank - 1] = j;
        }
    }
    return TD_OK;
}

enum td_code td_parse_ragged(const struct td_parse *p, const struct td_cells *k, int out_values,
                             int out_splits, struct td_err *err)
{
    struct td_tensor *values, *splits;
    int64_t total, longest, at = 0;
    TD_TRY(count_rows(p, k, &total, &longest, err));
    TD_TRY(td_out(p->c, out_values, &(struct td_shape){1, {total}}, &values, err));
    struct td_shape splits_shape = td_shape_vector(p->single ? 0 : p->rows + 1);
    splits_shape.rank = p->single && p->scalar_splits ? 0 : 1;
    TD_TRY(td_out(p->c, out_splits, &splits_shape, &splits, err));
    TD_FAIL_IF(splits->dtype == TD_INT32 && total > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: %lld values of feature %.100s, more than splits of type int32 can count",
               TD_NODE_STR(p->c->node), (long long)total, k->key.p);
    if (td_tensor_count(splits) > 0) {
        td_tensor_set_int(splits, 0, 0);
    }
    for (int64_t i = 0; i < p->rows && !td_work_spent(64); i++) {
        struct td_example_span cell = k->cell[i * k->stride];
        int64_t n;
        bool absent;
        TD_TRY(td_parse_count(p, k, i, cell, &n, &absent, err));
        TD_TRY(absent ? TD_OK : td_example_copy(cell, values, at, err));
        at += n;
        if (!p->single) {
            td_tensor_set_int(splits, i + 1, at);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ dense */

static void fill_elems(struct td_tensor *y, int64_t from, int64_t to, const struct td_tensor *def)
{
    size_t size = td_dtype_size(y->dtype);
    for (int64_t i = from; i < to; i++) {
        td_elems_copy(y->dtype, (char *)y->data + (size_t)i * size, def->data, 1);
    }
}

static enum td_code fixed_row(const struct td_parse *p, const struct td_cells *k,
                              const struct td_shape *shape, const struct td_tensor *def, struct td_tensor *y,
                              int64_t i, struct td_err *err)
{
    struct td_example_span cell = k->cell[i * k->stride];
    int64_t n, want = td_shape_count(shape);
    bool absent;
    char where[200];
    TD_TRY(td_parse_count(p, k, i, cell, &n, &absent, err));
    if (absent &&
        !(cell.p && p->scalar_splits)) { /* a sequence's feature without a list is one of no values */
        TD_FAIL_IF(td_tensor_count(def) == 0 && want > 0, err, INVALID_ARGUMENT,
                   "%s.  Feature: %.100s (data type: %s) is required but could not be found.",
                   td_parse_where(p, k->key, i, where, sizeof(where)), k->key.p, td_dtype_name(k->dtype));
        if (want > 0) {
            td_elems_copy(y->dtype, (char *)y->data + (size_t)(i * want) * td_dtype_size(y->dtype), def->data,
                          want);
        }
        return TD_OK;
    }
    TD_FAIL_IF(n != want, err, INVALID_ARGUMENT,
               "%s.  Number of %s values != expected.  Values size: %lld but output shape: %s",
               td_parse_where(p, k->key, i, where, sizeof(where)), td_dtype_name(k->dtype), (long long)n,
               TD_SHAPE_STR(shape));
    return n ? td_example_copy(cell, y, i * want, err) : TD_OK;
}

/* Rows of whole strides, padded with the default to the longest. */
static enum td_code variable_rows(const struct td_parse *p, const struct td_cells *k,
                                  const struct td_shape *shape, const struct td_tensor *def, int out,
                                  struct td_err *err)
{
    struct td_tensor *y;
    struct td_shape full = p->single ? td_shape_scalar() : td_shape_vector(p->rows), inner = *shape;
    int64_t total, longest, stride = td_shape_range(shape, 1, shape->rank), n;
    char where[200];
    bool absent;
    TD_TRY(count_rows(p, k, &total, &longest, err));
    for (int64_t i = 0; i < p->rows; i++) {
        TD_TRY(td_parse_count(p, k, i, k->cell[i * k->stride], &n, &absent, err));
        TD_FAIL_IF(stride == 0 ? n > 0 : n % stride != 0, err, INVALID_ARGUMENT,
                   "%s.  Number of %s values is not a multiple of stride length. Saw %lld values but output "
                   "shape is: %s",
                   td_parse_where(p, k->key, i, where, sizeof(where)), td_dtype_name(k->dtype), (long long)n,
                   TD_SHAPE_STR(shape));
    }
    inner.dim[0] = stride ? longest / stride : 0;
    TD_TRY(td_parse_dense_shape(&full, &inner, &full, err));
    TD_TRY(td_out(p->c, out, &full, &y, err));
    for (int64_t i = 0; i < p->rows; i++) {
        struct td_example_span cell = k->cell[i * k->stride];
        TD_TRY(td_parse_count(p, k, i, cell, &n, &absent, err));
        TD_TRY(absent ? TD_OK : td_example_copy(cell, y, i * longest, err));
        fill_elems(y, i * longest + n, (i + 1) * longest, def);
    }
    return TD_OK;
}

enum td_code td_parse_dense(const struct td_parse *p, const struct td_cells *k, const struct td_shape *shape,
                            const struct td_tensor *def, int out, struct td_err *err)
{
    if (shape->rank > 0 && shape->dim[0] < 0) {
        return variable_rows(p, k, shape, def, out, err);
    }
    struct td_shape full = p->single ? td_shape_scalar() : td_shape_vector(p->rows);
    struct td_tensor *y;
    TD_TRY(td_parse_dense_shape(&full, shape, &full, err));
    TD_TRY(td_out(p->c, out, &full, &y, err));
    for (int64_t i = 0; i < p->rows && !td_work_spent(64); i++) {
        TD_TRY(fixed_row(p, k, shape, def, y, i, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ checks */

enum td_code td_parse_check_type(const struct td_infer *c, enum td_dtype t, struct td_err *err)
{
    TD_FAIL_IF(t != TD_FLOAT && t != TD_INT64 && t != TD_STRING, err, INVALID_ARGUMENT,
               "%s: Received input dtype: %s, want float, int64 or string", TD_NODE_STR(c->node),
               td_dtype_name(t));
    return TD_OK;
}

enum td_code td_parse_check_splits(const struct td_infer *c, const char *attr, int n, struct td_err *err)
{
    int n_types;
    const enum td_dtype *types = td_attr_types(c->node, attr, &n_types);
    TD_FAIL_IF(n_types != n, err, INVALID_ARGUMENT, "%s: len(%s) is %d, there are %d ragged values",
               TD_NODE_STR(c->node), attr, n_types, n);
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(types[i] != TD_INT32 && types[i] != TD_INT64, err, INVALID_ARGUMENT,
                   "%s: %s[%d] is %s, want int32 or int64", TD_NODE_STR(c->node), attr, i,
                   td_dtype_name(types[i]));
    }
    return TD_OK;
}

enum td_code td_parse_check_dense(const struct td_infer *c, const struct td_shape *shape,
                                  const struct td_shape *def, struct td_err *err)
{
    bool unknown = shape->rank < 0;
    for (int d = 1; d < shape->rank; d++) {
        unknown |= shape->dim[d] < 0;
    }
    TD_FAIL_IF(unknown, err, INVALID_ARGUMENT,
               "%s: dense_shapes has unknown rank or unknown inner dimensions: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(shape));
    int64_t n = td_shape_count(def);
    if (shape->rank > 0 && shape->dim[0] < 0) {
        TD_FAIL_IF(n >= 0 && n != 1, err, INVALID_ARGUMENT,
                   "%s: dense_shape %s is a variable length shape, therefore def_value must contain a single "
                   "element "
                   "(\"the padding element\"). But its shape is: %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(shape), TD_SHAPE_STR(def));
        return TD_OK;
    }
    TD_FAIL_IF(n > 0 && !td_shape_equal(shape, def), err, INVALID_ARGUMENT,
               "%s: def_value.shape() == %s is not compatible with dense_shapes_ == %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(def), TD_SHAPE_STR(shape));
    return TD_OK;
}

enum td_code td_parse_dense_shape(const struct td_shape *batch, const struct td_shape *shape,
                                  struct td_shape *out, struct td_err *err)
{
    return td_shape_concat(batch, shape, out, err);
}
