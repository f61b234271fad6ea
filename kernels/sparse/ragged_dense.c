/* kernels/sparse/ragged_dense.c - RaggedTensorToTensor: rows padded with a default, and cut, to one dense
 * shape.
 *
 *   shape [r] or scalar -1, values [v, inner...], default, row partitions  ->  [d0, d1, ..., inner...]
 *
 * Each level turns the output positions of its rows into those of their items; an item outside the wanted
 * shape gets -1 and so do all below it. Row partitions are FIRST_DIM_SIZE followed by VALUE_ROWIDS, or
 * ROW_SPLITS.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/sparse/ragged_grad.h"

#include <string.h>

enum part { FIRST_DIM_SIZE, VALUE_ROWIDS, ROW_SPLITS };

struct levels {
    const struct td_bytes *type;
    int n_parts, first; /* partitions; of these the first that is a level (1 behind FIRST_DIM_SIZE) */
    int n;              /* levels */
};

static bool is_part(struct td_bytes b, const char *name)
{
    return strcmp(b.p, name) == 0;
}

static enum td_code read_levels(const struct td_node *n, struct levels *l, struct td_err *err)
{
    *l = (struct levels){0};
    l->type = td_attr_strs(n, "row_partition_types", &l->n_parts);
    TD_FAIL_IF(l->n_parts < 1 || l->n_parts != td_attr_int(n, "num_row_partition_tensors"), err,
               INVALID_ARGUMENT, "%s: %d row_partition_types for %lld row partition tensors", TD_NODE_STR(n),
               l->n_parts, (long long)td_attr_int(n, "num_row_partition_tensors"));
    l->first = is_part(l->type[0], "FIRST_DIM_SIZE");
    l->n = l->n_parts - l->first;
    TD_FAIL_IF(!l->first && !is_part(l->type[0], "ROW_SPLITS"), err, INVALID_ARGUMENT,
               "%s: Cannot handle %s in first dimension.", TD_NODE_STR(n), l->type[0].p);
    for (int k = l->first; k < l->n_parts; k++) {
        TD_FAIL_IF(!is_part(l->type[k], "VALUE_ROWIDS") && !is_part(l->type[k], "ROW_SPLITS"), err,
                   INVALID_ARGUMENT, "%s: row partition type %.50s, want VALUE_ROWIDS or ROW_SPLITS",
                   TD_NODE_STR(n), l->type[k].p);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ shapes */

/* dims that the shape input asks for (-1: as needed) and the values' inner dims, of rank n + rank(values). */
static enum td_code wanted_shape(const struct td_node *node, const struct levels *l,
                                 const struct td_tensor *shape, const struct td_shape *values,
                                 struct td_shape *out, struct td_err *err)
{
    int rank = l->n + values->rank;
    TD_FAIL_IF(rank > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s: rank %d, want at most %d", TD_NODE_STR(node),
               rank, TD_MAX_RANK);
    *out = td_shape_of_rank(rank);
    for (int d = 1; d < values->rank; d++) {
        out->dim[l->n + d] = values->dim[d];
    }
    if (!shape) {
        return TD_OK;
    }
    if (shape->shape.rank == 0) {
        TD_FAIL_IF(td_tensor_int(shape, 0) != -1, err, INVALID_ARGUMENT,
                   "%s: shape is the scalar %lld, want a vector or -1", TD_NODE_STR(node),
                   (long long)td_tensor_int(shape, 0));
        return TD_OK;
    }
    TD_FAIL_IF(
        td_tensor_count(shape) != rank, err, INVALID_ARGUMENT,
        "%s: rt_input.shape and shape=%lld dims are incompatible: rt_input.rank = %d but shape.rank = %lld",
        TD_NODE_STR(node), (long long)td_tensor_count(shape), rank, (long long)td_tensor_count(shape));
    for (int d = 0; d < rank; d++) {
        int64_t v = td_tensor_int(shape, d);
        TD_FAIL_IF(v < -1, err, INVALID_ARGUMENT, "%s: Dimension %lld must be >= -1", TD_NODE_STR(node),
                   (long long)v);
        TD_FAIL_IF(
            v >= 0 && out->dim[d] >= 0 && v != out->dim[d], err, INVALID_ARGUMENT,
            "%s: rt_input.shape and shape are incompatible: rt_input.shape[%d] = %lld but shape[%d] = %lld",
            TD_NODE_STR(node), d, (long long)out->dim[d], d, (long long)v);
        out->dim[d] = v >= 0 ? v : out->dim[d];
    }
    return TD_OK;
}

/* The default must broadcast to the values' inner shape. */
static enum td_code check_default(const struct td_infer *c, struct td_err *err)
{
    const struct td_shape *def = &c->in[2], *values = &c->in[1];
    if (def->rank < 0 || values->rank < 0) {
        return TD_OK;
    }
    bool ok = def->rank < values->rank;
    for (int d = 0; ok && d < def->rank; d++) {
        int64_t a = def->dim[d], b = values->dim[values->rank - def->rank + d];
        ok = a < 0 || b < 0 || a == 1 || a == b;
    }
    TD_FAIL_IF(
        !ok, err, INVALID_ARGUMENT,
        "%s: default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible: default_value must "
        "broadcast to an inner value",
        TD_NODE_STR(c->node), TD_SHAPE_STR(def), TD_SHAPE_STR(values));
    return TD_OK;
}

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    struct levels l;
    TD_TRY(read_levels(c->node, &l, err));
    TD_FAIL_IF(c->in[0].rank > 1, err, INVALID_ARGUMENT,
               "%s: shape must be a vector or the scalar -1, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    TD_TRY(td_infer_min_rank(c, 1, 1, err));
    TD_TRY(check_default(c, err));
    for (int k = 0; k < l.n_parts; k++) {
        TD_TRY(td_infer_rank(c, 3 + k, k < l.first ? 0 : 1, err));
    }
    if (c->in[1].rank >= 0) {
        TD_TRY(wanted_shape(c->node, &l, c->value[0], &c->in[1], &c->out[0], err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ one level */

/* Items of a level of `rows` rows, and its longest row; checks the partition. */
static enum td_code measure(const struct td_call *c, const struct td_tensor *p, bool splits, int64_t rows,
                            int64_t *items, int64_t *longest, struct td_err *err)
{
    int64_t n = td_tensor_count(p), last = 0, run = 0;
    *longest = 0;
    *items = n;
    if (splits) {
        TD_FAIL_IF(n != rows + 1, err, INVALID_ARGUMENT,
                   "%s: row splits of %lld values for %lld rows, want one more", TD_NODE_STR(c->node),
                   (long long)n, (long long)rows);
        TD_FAIL_IF(td_tensor_int(p, 0) != 0, err, INVALID_ARGUMENT,
                   "%s: row splits must start with 0, got %lld", TD_NODE_STR(c->node),
                   (long long)td_tensor_int(p, 0));
    }
    for (int64_t i = splits; i < n; i++) {
        int64_t v = td_tensor_int(p, i);
        TD_FAIL_IF(v < last || (!splits && v >= rows), err, INVALID_ARGUMENT,
                   "%s: %s: %lld follows %lld, want ascending values%s", TD_NODE_STR(c->node),
                   splits ? "row splits" : "value_rowids", (long long)v, (long long)last,
                   splits ? "" : " below the number of rows");
        run = splits ? v - last : v == last ? run + 1 : 1;
        *longest = run > *longest ? run : *longest;
        last = v;
    }
    *items = splits ? last : n;
    return TD_OK;
}

/* at[items]: output positions of the items of rows whose positions are from[rows], in units of one item of
 * step. */
static void descend(const struct td_tensor *p, bool splits, const int64_t *from, int64_t *at, int64_t items,
                    int64_t width)
{
    int64_t row = 0, k = 0;
    for (int64_t i = 0; i < items; i++) {
        if (splits) {
            while (td_tensor_int(p, row + 1) <= i) {
                row++;
            }
            k = i - td_tensor_int(p, row);
        } else {
            int64_t id = td_tensor_int(p, i);
            k = i > 0 && id == row ? k + 1 : 0;
            row = id;
        }
        at[i] = from[row] < 0 || k >= width ? -1 : from[row] * width + k;
    }
}

/* ------------------------------------------------------------------ the whole */

struct walk {
    struct levels l;
    int64_t rows;               /* of level 0 */
    int64_t items[TD_MAX_RANK]; /* of each level */
};

static enum td_code measure_all(struct td_call *c, struct walk *w, struct td_shape *out, struct td_err *err)
{
    const struct td_tensor *first = c->in[3];
    w->rows = w->l.first ? td_tensor_int(first, 0) : td_tensor_count(first) - 1;
    TD_FAIL_IF(w->rows < 0, err, INVALID_ARGUMENT, "%s: first dimension %lld, want at least 0",
               TD_NODE_STR(c->node), (long long)w->rows);
    TD_FAIL_IF(w->l.n == 0 && w->rows != c->in[1]->shape.dim[0], err, INVALID_ARGUMENT,
               "%s: first dimension %lld of %lld values", TD_NODE_STR(c->node), (long long)w->rows,
               (long long)c->in[1]->shape.dim[0]);
    out->dim[0] = out->dim[0] < 0 ? w->rows : out->dim[0];
    int64_t rows = w->rows, longest;
    for (int k = 0; k < w->l.n; k++) {
        const struct td_tensor *p = c->in[3 + w->l.first + k];
        bool splits = is_part(w->l.type[w->l.first + k], "ROW_SPLITS");
        TD_TRY(measure(c, p, splits, rows, &w->items[k], &longest, err));
        rows = w->items[k];
        out->dim[k + 1] = out->dim[k + 1] < 0 ? longest : out->dim[k + 1];
    }
    TD_FAIL_IF(rows > c->in[1]->shape.dim[0], err, INVALID_ARGUMENT,
               "%s: the last row partition has %lld values, the values have %lld rows", TD_NODE_STR(c->node),
               (long long)rows, (long long)c->in[1]->shape.dim[0]);
    return TD_OK;
}

static enum td_code positions(struct td_call *c, const struct walk *w, const struct td_shape *out,
                              int64_t **result, struct td_err *err)
{
    void *p;
    TD_TRY(td_scratch(c, (size_t)w->rows * 8 + 8, &p, err));
    int64_t *from = p;
    for (int64_t i = 0; i < w->rows; i++) {
        from[i] = i < out->dim[0] ? i : -1;
    }
    for (int k = 0; k < w->l.n; k++) {
        TD_TRY(td_scratch(c, (size_t)w->items[k] * 8 + 8, &p, err));
        descend(c->in[3 + w->l.first + k], is_part(w->l.type[w->l.first + k], "ROW_SPLITS"), from, p,
                w->items[k], out->dim[k + 1]);
        from = p;
    }
    *result = from;
    return TD_OK;
}

/* Row r of y gets the default, broadcast to the inner shape. */
static void fill_default(const struct td_tensor *def, const struct td_shape *values, struct td_tensor *y,
                         int64_t r, int64_t width)
{
    size_t size = td_dtype_size(y->dtype);
    char *out = (char *)y->data + (size_t)(r * width) * size;
    for (int64_t i = 0; i < width; i++) {
        int64_t at = 0, step = 1, rest = i;
        for (int d = values->rank - 1, k = def->shape.rank - 1; k >= 0; d--, k--) {
            at += def->shape.dim[k] == 1 ? 0 : rest % values->dim[d] * step;
            rest /= values->dim[d];
            step *= def->shape.dim[k];
        }
        td_elems_copy(y->dtype, out + (size_t)i * size, (const char *)def->data + (size_t)at * size, 1);
    }
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *values = c->in[1];
    struct walk w = {0};
    struct td_shape shape;
    struct td_tensor *y;
    int64_t *at = NULL, next = 0;
    TD_TRY(read_levels(c->node, &w.l, err));
    TD_TRY(wanted_shape(c->node, &w.l, c->in[0], &values->shape, &shape, err));
    TD_TRY(measure_all(c, &w, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    TD_TRY(positions(c, &w, &shape, &at, err));
    int64_t width = td_shape_range(&values->shape, 1, values->shape.rank);
    int64_t rows = td_shape_range(&shape, 0, w.l.n + 1), n = w.l.n ? w.items[w.l.n - 1] : w.rows;
    size_t row = (size_t)width * td_dtype_size(y->dtype);
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    for (int64_t i = 0; i <= n; i++) {
        int64_t to = i < n ? at[i] : rows;
        for (; to >= 0 && next < to; next++) {
            fill_default(c->in[2], &values->shape, y, next, width);
        }
        if (i < n && to >= 0) {
            td_elems_copy(y->dtype, (char *)y->data + (size_t)to * row,
                          (const char *)values->data + (size_t)i * row, width);
            next = to + 1;
        }
    }
    return TD_OK;
}

const struct td_op td_ops_ragged_dense[] = {
    {.name = "RaggedTensorToTensor",
     .sig = "(shape:Tshape, values:T, default_value:T, "
            "row_partition_tensors:num_row_partition_tensors*Tindex) -> "
            "(result:T) {T:type; Tindex:type; Tshape:type; num_row_partition_tensors:int; "
            "row_partition_types:list(string)}",
     .host_in = 1,
     .infer = infer,
     .kernels = TD_KERNEL("ragged_dense.cpu", run, {"T", TD_SET_PLAIN | TD_BIT(TD_STRING)},
                          {"Tindex", TD_SET_INDEX}, {"Tshape", TD_SET_INDEX}),
     .grad = td_ragged_to_tensor_grad},
    {.name = NULL},
};
