/* kernels/cuda/array/where.c - rows of Where.
 *
 *   count   marks -> ranks, and how many there are
 *   run     each that is marked writes its place at its rank
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/where.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* The bits of an element that make it other than zero: of a float that is flushed if it is denormal those of
 * its exponent, of the small ones, whose bits are looked at, all but the sign. */
static uint64_t mask_of(enum td_dtype t)
{
    switch (t) {
    case TD_FLOAT:
        return 0x7f800000u;
    case TD_COMPLEX64:
        return 0x7f8000007f800000u;
    case TD_DOUBLE:
    case TD_COMPLEX128:
        return 0x7ff0000000000000u;
    case TD_HALF:
    case TD_BFLOAT16:
        return 0x7fffu;
    default:
        return UINT64_MAX;
    }
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[0]);
    (void)err;
    o->refusal = n == 0           ? "there are no elements"
                 : n >= INT32_MAX ? "more elements than 32 bits count"
                                  : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_ranks_bytes(n) : 0;
    return TD_OK;
}

static int n_counts(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_cuda_ranks r = td_cuda_ranks_in(c->workspace, td_tensor_count(x));
    const int error =
        td_cuda_where_mark(x->data, td_dtype_size(x->dtype), mask_of(x->dtype), r.n, r.at, stream);
    return td_cuda_launched(c, error != 0 ? error : td_cuda_ranks_run(&r, c->counts, stream), err);
}

static enum td_code shapes(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                           struct td_err *err)
{
    (void)err;
    out[0] = td_shape_matrix(counts[0], c->in[0]->shape.rank);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_cuda_tuples of;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    td_cuda_tuples_of(&x->shape, x->shape.rank, &of);
    const struct td_cuda_ranks r = td_cuda_ranks_in(c->workspace, td_tensor_count(x));
    return td_cuda_launched(c, td_cuda_where_places(&r, &of, y->data, td_cuda_stream_of(c)), err);
}

static const struct td_kernel_sized sized = {n_counts, count, shapes};
TD_CUDA_ROWS(rows_where, "where.cuda", .types = {{"T", TD_CUDA_EQUALS}}, .prepare = prepare, .run = run,
             .sized = &sized);

const struct td_op_rows td_cuda_rows_where[] = {{"Where", rows_where}, {NULL, NULL}};
