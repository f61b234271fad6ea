/* kernels/cuda/sparse/reorder.c - rows of SparseReorder: the order of the entries, then they are picked by
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/reorder.h"

#include "kernels/cuda/array/gather.h"
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

static enum td_code pick(const struct td_call *c, const struct td_tensor *x, size_t bytes,
                         const int32_t *order, const struct td_tensor *y, struct td_err *err)
{
    const int64_t n = x->shape.dim[0];
    const struct td_cuda_gather_axis s = {.batches = 1, .outer = 1, .dim = n, .n = n};
    const struct td_cuda_slices slices = {
        .x = x->data, .y = y->data, .bytes = bytes, .indices = {.at = order, .type = TD_CUDA_INDEX_32}};
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
    TD_TRY(pick(c, indices, (size_t)s.tuples.depth * sizeof(int64_t), s.order, to, err));
    return pick(c, c->in[1], td_dtype_size(values->dtype), s.order, values, err);
}

static const struct td_kernel rows[] = {{.name = "reorder.cuda",
                                         .device = TD_CUDA,
                                         .types = {{"T", TD_SET_PLAIN}},
                                         .library = TD_LIB_MODULE,
                                         .judged = 1,
                                         .prepare = prepare,
                                         .run = run},
                                        {.name = NULL}};

const struct td_op_rows td_cuda_rows_reorder[] = {{"SparseReorder", rows}, {NULL, NULL}};
