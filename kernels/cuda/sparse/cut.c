/* kernels/cuda/sparse/cut.c - rows of SparseSlice, its gradient, and SparseSplit.
 *
 *   slice      count: entries within are marked, and ranked;  run: those that are write their indices, and
 * values
 *              are gathered
 *   split      count: entries are sorted by part, stably;  run: each part gathers its own
 *   gradient   zeros; then each entry of the slice looks for where it was
 *
 * Shape, start, size and axis come on the host: what cannot be is refused in the host's words.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/cut.h"

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/array/partition.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static const char *refusal_of(int64_t n, const struct td_shape *indices)
{
    return n == 0                            ? "there are no entries"
           : indices->dim[0] >= INT32_MAX    ? "more entries than 32 bits count"
           : indices->dim[1] < 1             ? "of no axes"
           : indices->dim[1] > TD_CUDA_DEPTH ? "more axes than a tensor has"
                                             : NULL;
}

/* y = those of n values that `from` names. */
static int gather(const struct td_tensor *values, int64_t n, const int32_t *from, const struct td_tensor *y,
                  struct td_cuda_stream *stream)
{
    const struct td_cuda_gather_axis axis = {.batches = 1, .outer = 1, .dim = n, .n = td_tensor_count(y)};
    const struct td_cuda_slices slices = {.x = values->data,
                                          .y = y->data,
                                          .bytes = td_dtype_size(y->dtype),
                                          .indices = {from, TD_CUDA_INDEX_32}};
    return td_cuda_gather_along(&axis, &slices, stream);
}

/* ------------------------------------------------------------------ SparseSlice */

static enum td_code prepare_slice(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    const int64_t n = q->in[0].dim[0];
    (void)err;
    o->refusal = refusal_of(n, &q->in[0]);
    o->workspace_bytes = o->refusal == NULL ? td_cuda_ranks_bytes(n) + (size_t)n * sizeof(int32_t) : 0;
    return TD_OK;
}

/* False: the host has words for it. */
static bool cut_of(const struct td_call *c, struct td_cuda_cut *s)
{
    const int64_t *shape = c->in[2]->data, *start = c->in[3]->data, *size = c->in[4]->data;
    int64_t count = 1;
    bool is = true;
    *s = (struct td_cuda_cut){.indices = c->in[0]->data,
                              .n = c->in[0]->shape.dim[0],
                              .size = {.depth = (int)c->in[0]->shape.dim[1]},
                              .ranks = td_cuda_ranks_in(c->workspace, c->in[0]->shape.dim[0])};
    for (int d = 0; is && d < s->size.depth; d++) {
        is = shape[d] >= 0 && td_i64_mul(count, shape[d], &count) && size[d] >= 0 &&
             start[d] >= -(INT64_C(1) << 61) && shape[d] <= INT64_C(1) << 61;
        const int64_t left = is && shape[d] > start[d] ? shape[d] - start[d] : 0;
        s->start[d] = start[d];
        s->size.dim[d] = size[d] < left ? size[d] : left;
    }
    return is;
}

static int one(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count_slice(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_cuda_cut s;
    if (!cut_of(c, &s)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, stream), err);
    }
    const int error = td_cuda_cut_mark(&s, stream);
    return td_cuda_launched(c, error != 0 ? error : td_cuda_ranks_run(&s.ranks, c->counts, stream), err);
}

static enum td_code shapes_slice(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                                 struct td_err *err)
{
    const int64_t rank = c->in[0]->shape.dim[1];
    (void)err;
    out[0] = td_shape_matrix(counts[0], rank);
    out[1] = td_shape_vector(counts[0]);
    out[2] = td_shape_vector(rank);
    return TD_OK;
}

static enum td_code run_slice(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_cuda_cut s;
    struct td_tensor *indices, *values, *shape;
    TD_TRY(td_out(c, 0, NULL, &indices, err));
    TD_TRY(td_out(c, 1, NULL, &values, err));
    TD_TRY(td_out(c, 2, NULL, &shape, err));
    (void)cut_of(c, &s); /* count has looked */
    int32_t *const from = (int32_t *)(void *)((char *)c->workspace + td_cuda_ranks_bytes(s.n));
    int error = td_cuda_cut_tell(&s, from, indices->data, shape->data, stream);
    error = error != 0 || td_tensor_count(values) == 0 ? error : gather(c->in[1], s.n, from, values, stream);
    return td_cuda_launched(c, error, err);
}

/* ------------------------------------------------------------------ SparseSplit */

static enum td_code prepare_split(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    const int64_t n = q->in[1].dim[0];
    (void)err;
    o->refusal = refusal_of(n, &q->in[1]);
    o->workspace_bytes = o->refusal == NULL ? td_cuda_sort_bytes(n) : 0;
    return TD_OK;
}

/* False: the host has words for it. */
static bool parts_of(const struct td_call *c, struct td_cuda_parts *s)
{
    const int64_t *shape = c->in[3]->data, parts = c->n_out / 3;
    int64_t count = 1;
    *s = (struct td_cuda_parts){.indices = c->in[1]->data, .n = c->in[1]->shape.dim[0]};
    s->size.depth = (int)c->in[1]->shape.dim[1];
    bool is = td_shape_axis(s->size.depth, td_tensor_int(c->in[0], 0), &s->axis);
    for (int d = 0; is && d < s->size.depth; d++) {
        is = shape[d] >= 0 && td_i64_mul(count, shape[d], &count);
        s->size.dim[d] = shape[d];
    }
    is = is && parts <= shape[s->axis];
    s->each = is ? shape[s->axis] / parts : 1;
    s->longer = is ? shape[s->axis] % parts : 0;
    return is;
}

static int thirds(const struct td_node *n)
{
    return n->n_out / 3;
}

static enum td_code count_split(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const int parts = c->n_out / 3;
    struct td_cuda_parts s;
    if (!parts_of(c, &s)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, stream), err);
    }
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, s.n);
    int error = td_cuda_parts_keys(&s, sort.keys, c->fault, stream);
    error = error != 0 ? error : td_cuda_sort_run(&sort, parts, stream);
    return td_cuda_launched(
        c, error != 0 ? error : td_cuda_partition_count(sort.keys, s.n, parts, c->counts, stream), err);
}

static enum td_code shapes_split(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                                 struct td_err *err)
{
    const int parts = c->n_out / 3;
    const int64_t rank = c->in[1]->shape.dim[1];
    (void)err;
    for (int i = 0; i < parts; i++) {
        out[i] = td_shape_matrix(counts[i], rank);
        out[parts + i] = td_shape_vector(counts[i]);
        out[2 * parts + i] = td_shape_vector(rank);
    }
    return TD_OK;
}

static enum td_code run_split(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const int parts = c->n_out / 3;
    struct td_cuda_parts s;
    (void)parts_of(c, &s); /* count has looked */
    const int32_t *from = td_cuda_sort_done(c->workspace, s.n, parts).order;
    int64_t first = 0;
    for (int i = 0; i < parts; i++) {
        struct td_tensor *indices, *values, *shape;
        TD_TRY(td_out(c, i, NULL, &indices, err));
        TD_TRY(td_out(c, parts + i, NULL, &values, err));
        TD_TRY(td_out(c, 2 * parts + i, NULL, &shape, err));
        const int64_t n = td_tensor_count(values), length = s.each + (i < s.longer);
        int error = td_cuda_parts_tell(&s, from, n, first, length, indices->data, shape->data, stream);
        error = error != 0 || n == 0 ? error : gather(c->in[2], s.n, from, values, stream);
        TD_TRY(td_cuda_launched(c, error, err));
        first += length;
        from += n;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SparseSliceGrad */

static enum td_code prepare_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    const int64_t n = q->in[1].dim[0], m = q->in[0].dim[0];
    (void)err;
    o->refusal = refusal_of(n < m ? n : m, &q->in[1]);
    o->refusal = m >= INT32_MAX ? "more entries than 32 bits count" : o->refusal;
    o->workspace_bytes = o->refusal == NULL ? (size_t)(m + 1) * sizeof(int32_t) : 0;
    return TD_OK;
}

static enum td_code run_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    const struct td_cuda_cut_grad s = {.in = c->in[1]->data,
                                       .out = c->in[3]->data,
                                       .start = c->in[2]->data,
                                       .n = c->in[1]->shape.dim[0],
                                       .m = c->in[0]->shape.dim[0],
                                       .depth = (int)c->in[1]->shape.dim[1],
                                       .plain = c->workspace,
                                       .found = (int32_t *)c->workspace + 1,
                                       .values = c->in[0]->data,
                                       .y = y->data,
                                       .fault = c->fault};
    return td_cuda_launched(c, td_cuda_cut_grad_put(&s, td_dtype_size(y->dtype), td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ rows */

static const struct td_kernel_sized sized_split = {thirds, count_split, shapes_split};
static const struct td_kernel_sized sized_slice = {one, count_slice, shapes_slice};

TD_CUDA_ROWS(rows_slice, "cut.cuda", .types = {{"T", TD_SET_NUMBERS}}, .judged = 28, .prepare = prepare_slice,
             .run = run_slice, .sized = &sized_slice);
TD_CUDA_ROWS(rows_grad, "cut.cuda", .types = {{"T", TD_SET_NUMBERS}}, .judged = 14, .prepare = prepare_grad,
             .run = run_grad);

TD_CUDA_ROWS(rows_split, "cut.cuda", .types = {{"T", TD_CUDA_EQUALS}}, .judged = 11, .prepare = prepare_split,
             .run = run_split, .sized = &sized_split);

const struct td_op_rows td_cuda_rows_cut[] = {
    {"SparseSlice", rows_slice}, {"SparseSplit", rows_split}, {"SparseSliceGrad", rows_grad}, {NULL, NULL}};
