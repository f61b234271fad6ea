/* kernels/data/dataset_window.c - datasets whose elements are made of several of the input's, or chosen among
 * several inputs.
 *
 *   WindowDataset              datasets of `size` elements, one a component, `stride` apart, one each `shift`
 *   PaddedBatchDataset, V2     batches whose elements are padded to one shape
 *   RebatchDatasetV2           rows of batches in batches of other sizes, which take turns
 *   DirectedInterleaveDataset  the next element of the input that a dataset of indices names
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/data/dataset.h"
#include "kernels/ops.h"
#include "kernels/cpu/strided.h"

/* ------------------------------------------------------------------ kept elements */

static enum td_code next_kept(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out, bool *end,
                              struct td_err *err)
{
    (void)c;
    (void)err;
    const int width = it->ds->n_out;
    *end = it->at >= it->ds->cardinality;
    for (int k = 0; k < width && !*end; k++) {
        td_tensor_ref(&out[k], &it->ds->arg[it->at * width + k]);
    }
    it->at++;
    return TD_OK;
}

enum td_code td_dataset_of_elements(const struct td_tensor *items, int64_t n, int64_t stride, int width,
                                    int k, struct td_dataset **out, struct td_err *err)
{
    const int wide = k == TD_DATASET_ALL ? width : 1, from = k == TD_DATASET_ALL ? 0 : k;
    int64_t total;
    TD_FAIL_IF(!td_i64_mul(n, wide, &total) || total > INT32_MAX - 1, err, RESOURCE_EXHAUSTED,
               "a dataset of %lld kept elements", (long long)n);
    TD_TRY(td_dataset_new(next_kept, wide, 0, (int)total, out, err));
    (*out)->cardinality = n;
    for (int64_t i = 0; i < n; i++) {
        for (int j = 0; j < wide; j++) {
            const struct td_tensor *t = &items[i * stride * width + from + j];
            int depth = (*out)->nest.depth;
            enum td_code rc = td_tensor_list_nest(t, &depth, err);
            if (rc) {
                td_obj_unref(&(*out)->nest.obj);
                return rc;
            }
            (*out)->nest.depth = depth;
            td_tensor_ref(&(*out)->arg[i * wide + j], t);
        }
    }
    return TD_OK;
}

/* Drops the first n buffered elements. */
static void drop(struct td_dataset_iter *it, int64_t n)
{
    const int width = it->ds->n_out;
    td_dataset_clear(it->buffer + it->front * width, n * width);
    it->front += n;
    it->n_buffered -= n;
    it->front = it->n_buffered == 0 ? 0 : it->front;
}

/* ------------------------------------------------------------------ windows */

enum { SIZE, SHIFT, STRIDE, DROP }; /* numbers of a WindowDataset */

static int64_t reach(const struct td_dataset *ds)
{
    int64_t n;
    return td_i64_mul(ds->number[SIZE] - 1, ds->number[STRIDE], &n) && td_i64_add(n, 1, &n) ? n : INT64_MAX;
}

static enum td_code put_window(const struct td_dataset_iter *it, int64_t n, struct td_tensor *out,
                               struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    const struct td_shape scalar = td_shape_scalar();
    for (int k = 0; k < ds->n_out; k++) {
        struct td_dataset *window;
        TD_TRY(td_dataset_of_elements(it->buffer + it->front * ds->n_out, n, ds->number[STRIDE], ds->n_out, k,
                                      &window, err));
        enum td_code rc = td_tensor_new(&out[k], TD_VARIANT, &scalar, err);
        if (rc) {
            td_obj_unref(&window->nest.obj);
            return rc;
        }
        td_tensor_set_obj(&out[k], 0, &window->nest.obj);
    }
    return TD_OK;
}

static enum td_code next_window(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                bool *end, struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    const int64_t want = reach(ds);
    TD_TRY(td_dataset_buffer_fill(c, it, want, &it->at, err)); /* at: capacity of the buffer */
    *end = it->n_buffered == 0 || (ds->number[DROP] && it->n_buffered < want);
    if (*end) {
        return TD_OK;
    }
    TD_TRY(put_window(it, 1 + (it->n_buffered - 1) / ds->number[STRIDE], out, err));
    int64_t past = ds->number[SHIFT] - it->n_buffered;
    drop(it, past >= 0 ? it->n_buffered : ds->number[SHIFT]);
    for (bool over = false; past > 0 && !over; past--) { /* elements that no window holds */
        TD_TRY(td_dataset_buffer_fill(c, it, 1, &it->at, err));
        over = it->n_buffered == 0;
        drop(it, it->n_buffered);
    }
    return TD_OK;
}

static enum td_code finish_window(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    static const char *const what[] = {"size", "shift", "stride"};
    for (int i = SIZE; i <= STRIDE; i++) {
        TD_FAIL_IF(ds->number[i] <= 0, err, INVALID_ARGUMENT,
                   "%s: Window %s must be greater than zero, is %lld", TD_NODE_STR(n), what[i],
                   (long long)ds->number[i]);
    }
    const int64_t all = ds->from[0]->cardinality, shift = ds->number[SHIFT], rest = all - reach(ds);
    if (all < 0) {
        ds->cardinality = all;
    } else if (ds->number[DROP]) {
        ds->cardinality = rest < 0 ? 0 : rest / shift + 1;
    } else {
        ds->cardinality = all / shift + (all % shift != 0);
    }
    return td_dataset_same_width(n, ds, err);
}

/* ------------------------------------------------------------------ padded batches */

/* Shape of component k of n elements, padded: what was asked for, the largest where that leaves it open. */
static enum td_code padded_shape(const struct td_dataset_iter *it, int64_t n, int k, struct td_shape *s,
                                 struct td_err *err)
{
    const int width = it->ds->n_out;
    const struct td_tensor *asked = &it->ds->arg[k];
    int64_t dims[TD_MAX_RANK];
    const int rank = (int)asked->shape.dim[0];
    for (int d = 0; d < rank; d++) {
        dims[d] = td_tensor_int(asked, d);
        int64_t most = dims[d] < 0 ? 0 : dims[d];
        for (int64_t i = 0; i < n; i++) {
            const struct td_shape *t = &it->buffer[i * width + k].shape;
            TD_FAIL_IF(t->rank != rank, err, INVALID_ARGUMENT,
                       "All elements in a batch must have the same rank as the padded shape for component%d: "
                       "expected "
                       "rank %d got element with rank %d",
                       k, rank, t->rank);
            TD_FAIL_IF(dims[d] >= 0 && t->dim[d] > dims[d], err, DATA_LOSS,
                       "Attempted to pad to a smaller size than the input element: %s to %lld on axis %d",
                       TD_SHAPE_STR(t), (long long)dims[d], d);
            most = t->dim[d] > most ? t->dim[d] : most;
        }
        dims[d] = most;
    }
    return td_shape_make(s, dims, rank, err);
}

static enum td_code stack_padded(const struct td_dataset_iter *it, int64_t n, int k, struct td_tensor *out,
                                 struct td_err *err)
{
    const int width = it->ds->n_out;
    const struct td_tensor *pad = &it->ds->arg[width + k];
    struct td_shape rows = td_shape_vector(n), one, shape;
    TD_TRY(padded_shape(it, n, k, &one, err));
    TD_TRY(td_shape_concat(&rows, &one, &shape, err));
    TD_TRY(td_tensor_new(out, pad->dtype, &shape, err));
    td_strided_fill(out->dtype, out->data, pad->data, td_tensor_count(out));
    const int64_t step = td_shape_count(&one);
    for (int64_t i = 0; i < n; i++) {
        const struct td_tensor *t = &it->buffer[i * width + k];
        struct td_strided w = {.rank = 0};
        TD_FAIL_IF(t->dtype != pad->dtype, err, INVALID_ARGUMENT,
                   "component %d of an element is of %s, its padding value of %s", k, td_dtype_name(t->dtype),
                   td_dtype_name(pad->dtype));
        for (int d = 0; d < one.rank; d++) {
            td_strided_push(&w, t->shape.dim[d], td_shape_range(&one, d + 1, one.rank),
                            td_shape_range(&t->shape, d + 1, one.rank));
        }
        if (td_tensor_count(t) > 0) {
            td_strided_copy(t->dtype, &w, (char *)out->data + (size_t)(i * step) * td_dtype_size(t->dtype),
                            t->data);
        }
    }
    return TD_OK;
}

static enum td_code next_padded(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                bool *end, struct td_err *err)
{
    const int64_t size = it->ds->number[0];
    TD_TRY(td_dataset_buffer_fill(c, it, size, &it->at, err)); /* at: capacity of the buffer */
    const int64_t n = it->n_buffered;
    *end = n == 0 || (it->ds->number[1] && n < size);
    enum td_code rc = TD_OK;
    for (int k = 0; k < it->ds->n_out && !rc && !*end; k++) {
        rc = stack_padded(it, n, k, &out[k], err);
    }
    drop(it, n);
    return rc;
}

static enum td_code check_padding(const struct td_node *n, const struct td_dataset *ds, struct td_err *err)
{
    for (int k = 0; k < ds->n_out; k++) {
        const struct td_tensor *shape = &ds->arg[k], *value = &ds->arg[ds->n_out + k];
        TD_FAIL_IF(shape->dtype != TD_INT64 || shape->shape.rank != 1 ||
                       shape->shape.dim[0] > TD_MAX_RANK - 1,
                   err, INVALID_ARGUMENT,
                   "%s: All padded shapes must be vectors, of at most %d numbers, but number %d is %s",
                   TD_NODE_STR(n), TD_MAX_RANK - 1, k, TD_SHAPE_STR(&shape->shape));
        TD_FAIL_IF(value->shape.rank != 0, err, INVALID_ARGUMENT,
                   "%s: All padding values must be scalars; but at component `%d` input value of shape %s",
                   TD_NODE_STR(n), k, TD_SHAPE_STR(&value->shape));
    }
    return td_dataset_same_width(n, ds, err);
}

/* Inputs: the dataset, batch_size, N padded shapes, N padding values, drop_remainder in V2. */
static enum td_code fill_padded(struct td_call *c, struct td_dataset *ds, struct td_err *err)
{
    TD_TRY(td_dataset_keep_from(c, ds, err));
    for (int i = 0; i < ds->n_args; i++) {
        TD_TRY(td_keep(c, 2 + i, &ds->arg[i], err));
    }
    const int last = 2 + ds->n_args;
    TD_FAIL_IF(td_tensor_count(c->in[1]) != 1 || (last < c->n_in && td_tensor_count(c->in[last]) != 1), err,
               INVALID_ARGUMENT, "%s: batch_size and drop_remainder must be scalars", TD_NODE_STR(c->node));
    const int64_t all = ds->from[0]->cardinality, size = td_tensor_int(c->in[1], 0);
    ds->number[0] = size;
    ds->number[1] = last < c->n_in && TD_DATA(c->in[last], td_bool)[0];
    TD_FAIL_IF(size <= 0, err, INVALID_ARGUMENT, "%s: Batch size must be greater than zero, is %lld",
               TD_NODE_STR(c->node), (long long)size);
    ds->cardinality = all < 0 ? all : all / size + (all % size != 0 && !ds->number[1]);
    return check_padding(c->node, ds, err);
}

static enum td_code padded_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    const int n = td_attr_len(c->node, "Toutput_types");
    TD_FAIL_IF(td_attr_int(c->node, "N") != n, err, INVALID_ARGUMENT,
               "%s: %lld padded shapes for %d components", TD_NODE_STR(c->node),
               (long long)td_attr_int(c->node, "N"), n);
    TD_TRY(td_dataset_new(next_padded, n, 1, 2 * n, &ds, err));
    enum td_code rc = fill_padded(c, ds, err);
    if (rc) {
        td_obj_unref(&ds->nest.obj);
        return rc;
    }
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* ------------------------------------------------------------------ other batch sizes */

/* Rows of the batch under way are in own: an element; front counts those that went, at the batches that were
 * made. */
static void free_batch(void *own, int width)
{
    td_dataset_clear(own, width);
    td_free(own);
}

/* *row: the next row of the input's batches, its tensors the caller's. */
static enum td_code next_row(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *row, bool *end,
                             struct td_err *err)
{
    const int width = it->ds->n_out;
    struct td_tensor *batch = it->own;
    while (batch[0].shape.rank < 1 || it->front >= batch[0].shape.dim[0]) {
        td_dataset_clear(batch, width);
        memset(batch, 0, (size_t)width * sizeof *batch);
        TD_TRY(td_dataset_next(c, it->from[0], batch, end, err));
        it->front = 0;
        if (*end) {
            return TD_OK;
        }
        for (int k = 0; k < width; k++) {
            TD_FAIL_IF(batch[k].shape.rank < 1 || batch[k].shape.dim[0] != batch[0].shape.dim[0], err,
                       INVALID_ARGUMENT,
                       "Cannot rebatch component %d of shape %s: want rows, as many as component 0 has", k,
                       TD_SHAPE_STR(&batch[k].shape));
        }
    }
    for (int k = 0; k < width; k++) {
        td_dataset_row(&row[k], &batch[k], it->front);
    }
    it->front++;
    return TD_OK;
}

static enum td_code take_rows(struct td_call *c, struct td_dataset_iter *it, int64_t size,
                              struct td_tensor **rows, int64_t *n, struct td_err *err)
{
    const int width = it->ds->n_out;
    int64_t cap = 0;
    for (bool end = false; *n < size; (*n)++) {
        if (*n == cap) {
            cap = cap ? 2 * cap : 16;
            struct td_tensor *more = td_realloc(*rows, (size_t)cap * (size_t)width, sizeof *more);
            if (!more) {
                return td_no_memory(err, (size_t)cap * sizeof *more, "rows of a batch");
            }
            *rows = more;
        }
        memset(*rows + *n * width, 0, (size_t)width * sizeof **rows);
        TD_TRY(next_row(c, it, *rows + *n * width, &end, err));
        if (end) {
            return TD_OK;
        }
    }
    return TD_OK;
}

static enum td_code next_rebatch(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                 bool *end, struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    const int64_t size = td_tensor_int(&ds->arg[0], it->at % td_tensor_count(&ds->arg[0]));
    struct td_tensor *rows = NULL;
    int64_t n = 0;
    if (!it->own) {
        it->own_free = free_batch;
        it->own = td_calloc((size_t)ds->n_out, sizeof(struct td_tensor));
    }
    enum td_code rc = it->own ? take_rows(c, it, size, &rows, &n, err)
                              : td_no_memory(err, (size_t)ds->n_out * sizeof(struct td_tensor), "batch");
    *end = n == 0 || (ds->number[0] && n < size);
    for (int k = 0; k < ds->n_out && !rc && !*end; k++) {
        rc = td_dataset_stack(rows, n, ds->n_out, k, &out[k], err);
    }
    td_dataset_clear(rows, n * ds->n_out);
    td_free(rows);
    it->at++;
    return rc;
}

static enum td_code fill_rebatch(struct td_call *c, struct td_dataset *ds, struct td_err *err)
{
    const struct td_tensor *sizes = c->in[1];
    TD_TRY(td_dataset_keep_from(c, ds, err));
    TD_FAIL_IF(
        sizes->shape.rank > 1 || td_tensor_count(sizes) == 0 || ds->n_out == 0, err, INVALID_ARGUMENT,
        "%s: batch_sizes must be a scalar or a vector that is not empty, of a dataset with components, is %s",
        TD_NODE_STR(c->node), TD_SHAPE_STR(&sizes->shape));
    for (int64_t i = 0; i < td_tensor_count(sizes); i++) {
        TD_FAIL_IF(td_tensor_int(sizes, i) <= 0, err, INVALID_ARGUMENT,
                   "%s: batch_sizes must be > 0, has %lld", TD_NODE_STR(c->node),
                   (long long)td_tensor_int(sizes, i));
    }
    TD_FAIL_IF(td_tensor_count(c->in[2]) != 1, err, INVALID_ARGUMENT, "%s: drop_remainder must be a scalar",
               TD_NODE_STR(c->node));
    ds->number[0] = TD_DATA(c->in[2], td_bool)[0];
    TD_TRY(td_keep(c, 1, &ds->arg[0], err));
    return td_dataset_same_width(c->node, ds, err);
}

static enum td_code rebatch_run(struct td_call *c, struct td_err *err)
{
    struct td_dataset *ds;
    TD_TRY(td_dataset_new(next_rebatch, td_attr_len(c->node, "output_types"), 1, 1, &ds, err));
    enum td_code rc = fill_rebatch(c, ds, err);
    if (rc) {
        td_obj_unref(&ds->nest.obj);
        return rc;
    }
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* ------------------------------------------------------------------ directed interleaving */

static enum td_code next_directed(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                  bool *end, struct td_err *err)
{
    const int n = it->ds->n_from - 1;
    for (;;) {
        struct td_tensor which = {0};
        TD_TRY(td_dataset_next(c, it->from[0], &which, end, err));
        if (*end) {
            return TD_OK;
        }
        const bool fits = which.dtype == TD_INT64 && td_tensor_count(&which) == 1;
        const int64_t i = fits ? td_tensor_int(&which, 0) : -1;
        td_tensor_clear(&which);
        TD_FAIL_IF(i < 0 || i >= n, err, INVALID_ARGUMENT, "Selector index out of range: %lld >= %d",
                   (long long)i, n);
        if (it->from[1 + i]->over) {
            continue;
        }
        TD_TRY(td_dataset_next(c, it->from[1 + i], out, end, err));
        if (!*end) {
            return TD_OK;
        }
        bool any = false;
        for (int k = 1; k <= n; k++) {
            any = any || !it->from[k]->over;
        }
        *end = it->ds->number[0] || !any;
        if (*end) {
            return TD_OK;
        }
    }
}

static enum td_code finish_directed(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    ds->number[0] = td_attr_bool(n, "stop_on_empty_dataset");
    TD_FAIL_IF(ds->n_from < 2 || ds->from[0]->n_out != 1, err, INVALID_ARGUMENT,
               "%s: The selector input must be a dataset of scalars, and there must be others",
               TD_NODE_STR(n));
    for (int i = 1; i < ds->n_from; i++) {
        TD_FAIL_IF(ds->from[i]->n_out != ds->n_out, err, INVALID_ARGUMENT,
                   "%s: input %d has %d components, output_types has %d", TD_NODE_STR(n), i,
                   ds->from[i]->n_out, ds->n_out);
        ds->cardinality =
            ds->from[i]->cardinality == TD_DATASET_INFINITE ? TD_DATASET_INFINITE : ds->cardinality;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

static enum td_code window_run(struct td_call *c, struct td_err *err)
{
    static const struct td_dataset_kind k = {1, false, next_window, finish_window};
    struct td_dataset *ds;
    TD_TRY(td_dataset_build(c, &k, &ds, err));
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

static enum td_code directed_run(struct td_call *c, struct td_err *err)
{
    static const struct td_dataset_kind k = {-1, false, next_directed, finish_directed};
    struct td_dataset *ds;
    TD_TRY(td_dataset_build(c, &k, &ds, err));
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

#define T_S "output_types:list(type); output_shapes:list(shape)"
#define META "; metadata:string=''"
#define PADDED "(input_dataset:variant, batch_size:int64, padded_shapes:N*int64, padding_values:Toutput_types"
#define ROW(opname, signature, fn)                                                                           \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_NO_FOLD, .infer = td_dataset_scalars, \
        .kernels = TD_KERNEL("dataset.cpu", fn)                                                              \
    }

const struct td_op td_ops_dataset_window[] = {
    ROW("WindowDataset",
        "(input_dataset:variant, size:int64, shift:int64, stride:int64, drop_remainder:bool) -> "
        "(handle:variant) {" T_S META "}",
        window_run),
    ROW("PaddedBatchDataset",
        PADDED ") -> (handle:variant) {Toutput_types:list(type); output_shapes:list(shape); N:int" META "}",
        padded_run),
    ROW("PaddedBatchDatasetV2",
        PADDED
        ", drop_remainder:bool) -> (handle:variant) {parallel_copy:bool=false; Toutput_types:list(type); "
        "output_shapes:list(shape); N:int" META "}",
        padded_run),
    ROW("RebatchDatasetV2",
        "(input_dataset:variant, batch_sizes:int64, drop_remainder:bool) -> (handle:variant) {" T_S "}",
        rebatch_run),
    ROW("DirectedInterleaveDataset",
        "(selector_input_dataset:variant, data_input_datasets:N*variant) -> (handle:variant) {" T_S
        "; N:int; stop_on_empty_dataset:bool=false}",
        directed_run),
    {.name = NULL},
};
