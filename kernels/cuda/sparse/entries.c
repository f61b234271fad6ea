/* kernels/cuda/sparse/entries.c - rows of SparseToDense, SparseTensorDenseAdd, SparseDenseCwise*, and of the
 * gradients of SparseFillEmptyRows and RaggedFillEmptyRows.
 *
 *   dense results   indices -> keys -> sorted -> each element takes its entries in order (combine.h)
 *
 * Indices outside and what does not fit together are refused as on the host, whose shapes they have. Tensors
 * without entries stay there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/entries.h"

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static enum td_code refused(const struct td_call *c, struct td_err *err)
{
    return td_cuda_launched(c, td_cuda_refuse_call(c->fault, td_cuda_stream_of(c)), err);
}

/* n entries, each of one of `most` elements. */
static bool offers(int64_t n, int64_t most, struct td_kernel_offer *o)
{
    o->refusal = n == 0 || most == 0                   ? "there are no entries"
                 : n >= INT32_MAX || most >= INT32_MAX ? "more elements than 32 bits count"
                                                       : NULL;
    return o->refusal == NULL;
}

/* ------------------------------------------------------------------ SparseToDense, SparseTensorDenseAdd */

/* A vector or a scalar names elements of a vector. */
static int64_t entries_of(const struct td_shape *indices)
{
    return indices->rank == 0 ? 1 : indices->dim[0];
}

static enum td_code prepare_to_dense(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    const int64_t n = entries_of(&q->in[0]);
    (void)err;
    if (offers(n, td_shape_count(&q->out[0]), o)) {
        o->refusal = q->out[0].rank == 0 ? "of no axes" : NULL;
        const size_t value = td_dtype_size(td_attr_type(q->node, "T"));
        o->workspace_bytes = td_cuda_sort_bytes(n) + (q->in[2].rank == 0 ? (size_t)n * value + 16 : 0);
    }
    return TD_OK;
}

static struct td_cuda_keys keys_of(const struct td_call *c, const struct td_tensor *y)
{
    struct td_cuda_keys k = {.kind = TD_CUDA_TUPLES,
                             .indices = td_cuda_indices_of(c->in[0]),
                             .n = entries_of(&c->in[0]->shape),
                             .most = (int32_t)td_tensor_count(y),
                             .fault = c->fault};
    td_cuda_tuples_of(&y->shape, y->shape.rank, &k.tuples);
    return k;
}

static struct td_cuda_combining combining_of(const struct td_cuda_keys *k, const struct td_cuda_sort *sort)
{
    return (struct td_cuda_combining){.keys = sort->keys,
                                      .order = sort->order,
                                      .n = k->n,
                                      .outer = 1,
                                      .dim = k->most,
                                      .per = k->n,
                                      .inner = 1,
                                      .sources = k->n,
                                      .most = k->most,
                                      .from_y = true,
                                      .rounds = true};
}

/* `to`: n times the one value. */
static int repeat(const struct td_call *c, const struct td_tensor *value, void *to, int64_t n)
{
    struct td_cuda_steps steps = {0};
    (void)td_cuda_steps_add(&steps, n, 0, 1);
    return td_cuda_move(td_dtype_size(value->dtype), &steps, value->data, to, n, td_cuda_stream_of(c));
}

static enum td_code run_to_dense(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_tensor *values = c->in[2];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const size_t size = td_dtype_size(y->dtype);
    const struct td_cuda_keys k = keys_of(c, y);
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, k.n);
    const uintptr_t behind = (uintptr_t)c->workspace + td_cuda_sort_bytes(k.n);
    void *const room = (void *)((behind + 15) / 16 * 16); /* NOLINT(performance-no-int-to-ptr) */
    int error = repeat(c, c->in[3], y->data, td_tensor_count(y));
    error = error != 0 || values->shape.rank > 0 ? error : repeat(c, values, room, k.n);
    error = error != 0 ? error : td_cuda_keys_make(&k, sort.keys, stream);
    if (error == 0 && td_attr_bool(c->node, "validate_indices")) {
        error = td_cuda_must_ascend(sort.keys, k.n, c->fault, stream);
    }
    error = error != 0 ? error : td_cuda_sort_run(&sort, k.most, stream);
    const struct td_cuda_combining s = combining_of(&k, &sort);
    return td_cuda_launched(
        c,
        error != 0 ? error
                   : td_cuda_put(&s, size, values->shape.rank > 0 ? values->data : room, y->data, stream),
        err);
}

static enum td_code prepare_add(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    const int64_t n = q->in[0].dim[0];
    (void)err;
    o->workspace_bytes = offers(n, td_shape_count(&q->out[0]), o) ? td_cuda_sort_bytes(n) : 0;
    return TD_OK;
}

static bool is_of_shape(int64_t rank, const struct td_tensor *dims, const struct td_shape *s)
{
    bool is = rank == s->rank;
    for (int d = 0; is && d < s->rank; d++) {
        is = td_tensor_int(dims, d) == s->dim[d];
    }
    return is;
}

static enum td_code run_add(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_copy_all(c, c->in[3], y, err));
    if (!is_of_shape(c->in[0]->shape.dim[1], c->in[2], &y->shape)) {
        return refused(c, err);
    }
    const struct td_cuda_keys k = keys_of(c, y);
    struct td_cuda_sort sort;
    const int error = td_cuda_keys_sort(&k, c->workspace, &sort, stream);
    const struct td_cuda_combining s = combining_of(&k, &sort);
    return td_cuda_launched(c,
                            error != 0 ? error
                                       : td_cuda_combine(TD_CUDA_ADD, td_cuda_type_of(y->dtype), &s,
                                                         c->in[1]->data, y->data, stream),
                            err);
}

/* ------------------------------------------------------------------ SparseDenseCwise* */

static enum td_code prepare_cwise(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    (void)err;
    (void)offers(q->in[0].dim[0], td_shape_count(&q->in[3]), o);
    o->refusal = q->in[0].dim[1] > TD_CUDA_DEPTH ? "more axes than a tensor has" : o->refusal;
    return TD_OK;
}

/* The steps of the dense tensor by the sparse one's axes. False: it does not fit there. */
static bool steps_of(const struct td_tensor *dims, const struct td_shape *dense, int64_t *step)
{
    const int rank = (int)td_tensor_count(dims), before = rank - dense->rank;
    int64_t each[TD_MAX_RANK], count = 1;
    bool fits = before >= 0;
    td_cuda_row_major(dense, each);
    for (int d = 0; fits && d < rank; d++) {
        const int64_t size = td_tensor_int(dims, d), has = d < before ? 1 : dense->dim[d - before];
        fits = size >= 0 && (has == 1 || has == size) && td_i64_mul(count, size, &count);
        step[d] = has == 1 ? 0 : each[d - before];
    }
    return fits;
}

static enum td_code cwise(struct td_call *c, enum td_cuda_entry_op op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_cuda_entries s = {.indices = c->in[0]->data,
                                .tuples = {.depth = (int)c->in[0]->shape.dim[1]},
                                .n = c->in[0]->shape.dim[0],
                                .values = c->in[1]->data,
                                .dense = c->in[3]->data,
                                .y = y->data,
                                .fault = c->fault};
    if (!steps_of(c->in[2], &c->in[3]->shape, s.step)) {
        return refused(c, err);
    }
    for (int d = 0; d < s.tuples.depth; d++) {
        s.tuples.dim[d] = td_tensor_int(c->in[2], d);
    }
    return td_cuda_launched(c, td_cuda_entries_with(op, td_cuda_type_of(y->dtype), &s, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_cwise_add(struct td_call *c, struct td_err *err)
{
    return cwise(c, TD_CUDA_ENTRY_ADD, err);
}
static enum td_code run_cwise_mul(struct td_call *c, struct td_err *err)
{
    return cwise(c, TD_CUDA_ENTRY_MULTIPLY, err);
}
static enum td_code run_cwise_div(struct td_call *c, struct td_err *err)
{
    return cwise(c, TD_CUDA_ENTRY_DIVIDE, err);
}

/* ------------------------------------------------------------------ *FillEmptyRowsGrad */

static enum td_code prepare_rows_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                      struct td_err *err)
{
    const int64_t m = q->in[1].dim[0];
    (void)err;
    o->workspace_bytes = offers(q->in[0].dim[0], m, o) ? td_cuda_sort_bytes(m) : 0;
    return TD_OK;
}

/* The default's gradient is the sum of those that no value has, in order. */
static enum td_code run_rows_grad(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_tensor *map = c->in[0], *g = c->in[1];
    const int64_t m = td_tensor_count(g);
    struct td_tensor *values, *rest;
    TD_TRY(td_out(c, 0, NULL, &values, err));
    TD_TRY(td_out(c, 1, NULL, &rest, err));
    TD_TRY(td_cuda_zero(c, rest, err));
    const struct td_cuda_gather_axis axis = {.batches = 1, .outer = 1, .dim = m, .n = td_tensor_count(map)};
    const struct td_cuda_slices slices = {.x = g->data,
                                          .y = values->data,
                                          .bytes = td_dtype_size(g->dtype),
                                          .indices = td_cuda_indices_of(map),
                                          .fault = c->fault};
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, m);
    const struct td_cuda_keys k = {.n = m, .most = 1};
    int error = td_cuda_gather_along(&axis, &slices, stream);
    error = error != 0 ? error : td_cuda_unnamed_keys(map->data, axis.n, m, sort.keys, c->fault, stream);
    error = error != 0 ? error : td_cuda_sort_run(&sort, 1, stream);
    const struct td_cuda_combining s = combining_of(&k, &sort);
    return td_cuda_launched(
        c,
        error != 0 ? error
                   : td_cuda_combine(TD_CUDA_ADD, td_cuda_type_of(g->dtype), &s, g->data, rest->data, stream),
        err);
}

/* ------------------------------------------------------------------ rows */

#define ROWS(op, which, ready, ...)                                                                          \
    TD_CUDA_ROWS(rows_##op, "entries.cuda", .types = {__VA_ARGS__}, .judged = which, .prepare = ready,       \
                 .run = run_##op);
ROWS(to_dense, 1, prepare_to_dense, {"T", TD_SET_PLAIN}, {"Tindices", TD_SET_INDEX})
ROWS(add, 1, prepare_add, {"T", TD_CUDA_NUMBERS}, {"Tindices", TD_SET_INDEX})
ROWS(cwise_add, 1, prepare_cwise, {"T", TD_CUDA_NUMBERS})
ROWS(cwise_mul, 1, prepare_cwise, {"T", TD_CUDA_NUMBERS})
ROWS(cwise_div, 9, prepare_cwise, {"T", TD_CUDA_NUMBERS})
ROWS(rows_grad, 1, prepare_rows_grad, {"T", TD_CUDA_NUMBERS})

const struct td_op_rows td_cuda_rows_entries[] = {{"SparseToDense", rows_to_dense},
                                                  {"SparseTensorDenseAdd", rows_add},
                                                  {"SparseDenseCwiseAdd", rows_cwise_add},
                                                  {"SparseDenseCwiseMul", rows_cwise_mul},
                                                  {"SparseDenseCwiseDiv", rows_cwise_div},
                                                  {"SparseFillEmptyRowsGrad", rows_rows_grad},
                                                  {"RaggedFillEmptyRowsGrad", rows_rows_grad},
                                                  {NULL, NULL}};
