/* kernels/cuda/sparse/reorder.c - rows of SparseReorder and SparseConcat: the order of the entries, then they
 * are picked by it. What is concatenated lies behind one another in the workspace first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/reorder.h"

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const int64_t n = q->in[0].dim[0], rank = q->in[0].dim[1];
    (void)err;
    o->refusal = n == 0 || rank == 0    ? "there are no entries"
                 : n >= INT32_MAX       ? "more entries than 32 bits count"
                 : rank > TD_CUDA_DEPTH ? "more axes than a tensor has"
                                        : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_sort_bytes(n) + 2 * (size_t)n * sizeof(int32_t) : 0;
    return TD_OK;
}

/* False: no tensor has these dims. */
static bool sizes_of(const struct td_tensor *dims, struct td_cuda_tuples *out)
{
    int64_t count = 1;
    bool fits = true;
    out->depth = (int)td_tensor_count(dims);
    for (int d = 0; fits && d < out->depth; d++) {
        out->dim[d] = td_tensor_int(dims, d);
        fits = out->dim[d] >= 0 && td_i64_mul(count, out->dim[d], &count);
    }
    return fits;
}

static enum td_code pick(const struct td_call *c, const void *x, size_t bytes, const int32_t *order,
                         const struct td_tensor *y, struct td_err *err)
{
    const int64_t n = y->shape.dim[0];
    const struct td_cuda_gather_axis s = {.batches = 1, .outer = 1, .dim = n, .n = n};
    const struct td_cuda_slices slices = {
        .x = x, .y = y->data, .bytes = bytes, .indices = {.at = order, .type = TD_CUDA_INDEX_32}};
    return td_cuda_launched(c, td_cuda_gather_along(&s, &slices, td_cuda_stream_of(c)), err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_tensor *indices = c->in[0];
    struct td_tensor *to, *values;
    TD_TRY(td_out(c, 0, NULL, &to, err));
    TD_TRY(td_out(c, 1, NULL, &values, err));
    const int64_t n = indices->shape.dim[0];
    int32_t *const room = c->workspace;
    struct td_cuda_reordering s = {.indices = indices->data,
                                   .n = n,
                                   .order = room,
                                   .other = room + n,
                                   .sort = td_cuda_sort_in(room + 2 * n, n)};
    if (!sizes_of(c->in[2], &s.tuples)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, stream), err);
    }
    TD_TRY(td_cuda_launched(c, td_cuda_reorder(&s, stream), err));
    TD_TRY(pick(c, indices->data, (size_t)s.tuples.depth * sizeof(int64_t), s.order, to, err));
    return pick(c, c->in[1]->data, td_dtype_size(values->dtype), s.order, values, err);
}

/* ------------------------------------------------------------------ SparseConcat */

/* In the workspace: indices [n, rank], 16 bytes for each value, two orders, and what sorts want. */
static enum td_code prepare_concat(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    const int64_t n = q->out[0].dim[0], rank = q->out[0].dim[1];
    (void)err;
    o->refusal = n <= 0 || rank <= 0    ? "there are no entries"
                 : n >= INT32_MAX       ? "more entries than 32 bits count"
                 : rank > TD_CUDA_DEPTH ? "more axes than a tensor has"
                                        : NULL;
    o->workspace_bytes =
        o->refusal == NULL ? td_cuda_sort_bytes(n) + (size_t)n * (8 * (size_t)rank + 16 + 2 * sizeof(int32_t))
                           : 0;
    return TD_OK;
}

/* False: the shapes do not go together. */
static bool join_sizes(const struct td_call *c, int parts, int axis, struct td_cuda_tuples *out)
{
    bool fits = true;
    *out = (struct td_cuda_tuples){.depth = (int)td_tensor_count(c->in[2 * parts])};
    for (int i = 0; i < parts; i++) {
        for (int d = 0; fits && d < out->depth; d++) {
            const int64_t size = td_tensor_int(c->in[2 * parts + i], d);
            fits = size >= 0 && (i == 0 || d == axis || size == out->dim[d]);
            fits = fits && (d != axis || size <= INT64_MAX - out->dim[d]);
            out->dim[d] = d != axis ? size : fits ? out->dim[d] + size : 0;
        }
    }
    return fits;
}

/* All parts behind one another. */
static int join(const struct td_call *c, int parts, int axis, int rank, int64_t *indices, char *values)
{
    int64_t at = 0, offset = 0;
    int error = 0;
    for (int i = 0; i < parts && error == 0; i++) {
        const int64_t n = c->in[i]->shape.dim[0];
        const size_t size = td_dtype_size(c->in[parts + i]->dtype);
        struct td_cuda_steps steps = {0};
        (void)td_cuda_steps_add(&steps, n, 1, 1);
        error = td_cuda_shift_entries(c->in[i]->data, n, rank, axis, offset, indices + at * rank,
                                      td_cuda_stream_of(c));
        error = error != 0 ? error
                           : td_cuda_move(size, &steps, c->in[parts + i]->data, values + (size_t)at * size, n,
                                          td_cuda_stream_of(c));
        at += n;
        offset += td_tensor_int(c->in[2 * parts + i], axis);
    }
    return error;
}

static enum td_code run_concat(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const int parts = c->n_in / 3;
    struct td_tensor *out[3];
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    const int64_t n = out[0]->shape.dim[0], rank = out[0]->shape.dim[1];
    int axis = 0;
    (void)td_shape_axis((int)rank, td_attr_int(c->node, "concat_dim"), &axis);
    int64_t *const indices = c->workspace;
    char *const values = (char *)(indices + n * rank);
    int32_t *const room = (int32_t *)(values + 16 * n);
    struct td_cuda_reordering s = {.indices = indices,
                                   .n = n,
                                   .order = room,
                                   .other = room + n,
                                   .sort = td_cuda_sort_in(room + 2 * n, n)};
    if (!join_sizes(c, parts, axis, &s.tuples)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, stream), err);
    }
    int error = td_cuda_put_sizes(&s.tuples, out[2]->data, stream);
    error = error != 0 ? error : join(c, parts, axis, (int)rank, indices, values);
    TD_TRY(td_cuda_launched(c, error != 0 ? error : td_cuda_reorder(&s, stream), err));
    TD_TRY(pick(c, indices, (size_t)rank * sizeof(int64_t), s.order, out[0], err));
    return pick(c, values, td_dtype_size(out[1]->dtype), s.order, out[1], err);
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_ROWS(rows, "reorder.cuda", .types = {{"T", TD_SET_PLAIN}}, .judged = 1, .prepare = prepare,
             .run = run);
TD_CUDA_ROWS(rows_concat, "reorder.cuda", .types = {{"T", TD_SET_PLAIN}}, .judged = 1,
             .prepare = prepare_concat, .run = run_concat);

const struct td_op_rows td_cuda_rows_reorder[] = {
    {"SparseReorder", rows}, {"SparseConcat", rows_concat}, {NULL, NULL}};
