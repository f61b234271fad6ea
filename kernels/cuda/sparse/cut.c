/* kernels/cuda/sparse/cut.c - rows of SparseSlice and SparseSliceGrad.
 *
 *   slice      count: entries within are marked, and ranked;  run: those that are write their indices, and
 * values
 *              are gathered
 *   gradient   zeros; then each entry of the slice looks for where it was
 *
 * Shape, start and size of a slice come on the host: what cannot be is refused in the host's words.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/cut.h"

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/rows.h"

static const char *refusal_of(int64_t n, const struct td_shape *indices)
{
    return n == 0                            ? "there are no entries"
           : indices->dim[0] >= INT32_MAX    ? "more entries than 32 bits count"
           : indices->dim[1] < 1             ? "of no axes"
           : indices->dim[1] > TD_CUDA_DEPTH ? "more axes than a tensor has"
                                             : NULL;
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
    if (error == 0 && td_tensor_count(values) > 0) {
        const struct td_cuda_gather_axis axis = {
            .batches = 1, .outer = 1, .dim = s.n, .n = td_tensor_count(values)};
        const struct td_cuda_slices slices = {.x = c->in[1]->data,
                                              .y = values->data,
                                              .bytes = td_dtype_size(values->dtype),
                                              .indices = {from, TD_CUDA_INDEX_32}};
        error = td_cuda_gather_along(&axis, &slices, stream);
    }
    return td_cuda_launched(c, error, err);
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

static const struct td_kernel_sized sized_slice = {one, count_slice, shapes_slice};

TD_CUDA_ROWS(rows_slice, "cut.cuda", .types = {{"T", TD_SET_NUMBERS}}, .judged = 28, .prepare = prepare_slice,
             .run = run_slice, .sized = &sized_slice);
TD_CUDA_ROWS(rows_grad, "cut.cuda", .types = {{"T", TD_SET_NUMBERS}}, .judged = 14, .prepare = prepare_grad,
             .run = run_grad);

const struct td_op_rows td_cuda_rows_cut[] = {
    {"SparseSlice", rows_slice}, {"SparseSliceGrad", rows_grad}, {NULL, NULL}};
