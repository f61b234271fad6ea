/* kernels/cuda/math/bins.c - rows of Bincount, DenseBincount and HistogramFixedWidth.
 *
 *   counts     of integers, by atomic additions, then y's type
 *   weights    values -> keys -> sorted -> each bin takes its weights in order (combine.h)
 *
 * Values below zero, and ranges and numbers that are none, are refused as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/bins.h"

#include "kernels/cuda/array/move.h"
#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static bool offers(const struct td_kernel_query *q, struct td_kernel_offer *o)
{
    const int64_t n = td_shape_count(&q->in[0]), bins = td_shape_count(&q->out[0]);
    o->refusal = n == 0 || bins == 0                   ? "nothing is counted"
                 : n >= INT32_MAX || bins >= INT32_MAX ? "more bins than 32 bits count"
                                                       : NULL;
    return o->refusal == NULL;
}

static enum td_code deliver(const struct td_call *c, int error, bool binary, const struct td_tensor *y,
                            struct td_err *err)
{
    const enum td_cuda_type type = td_cuda_type_of(y->dtype);
    return td_cuda_launched(c,
                            error != 0 ? error
                                       : td_cuda_counts_to(type, c->workspace, binary, y->data,
                                                           td_tensor_count(y), td_cuda_stream_of(c)),
                            err);
}

static int clear(const struct td_call *c, int64_t bins)
{
    static const unsigned char zero[16];
    return td_cuda_fill(sizeof(int32_t), zero, c->workspace, bins, td_cuda_stream_of(c));
}

/* ------------------------------------------------------------------ Bincount, DenseBincount */

static bool is_binary(const struct td_node *n)
{
    return td_attr_bool(n, "binary_output");
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    if (offers(q, o)) {
        const bool weighs = td_shape_count(&q->in[2]) > 0 && !is_binary(q->node);
        o->workspace_bytes = weighs ? td_cuda_sort_bytes(td_shape_count(&q->in[0]))
                                    : (size_t)td_shape_count(&q->out[0]) * sizeof(int32_t);
    }
    return TD_OK;
}

static enum td_code add_weights(const struct td_call *c, const struct td_cuda_bins *b,
                                const struct td_tensor *y, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, b->n);
    const int32_t most = (int32_t)td_tensor_count(y);
    TD_TRY(td_cuda_zero(c, y, err));
    int error = td_cuda_bin_keys(b, most, sort.keys, stream);
    error = error != 0 ? error : td_cuda_sort_run(&sort, most, stream);
    const struct td_cuda_combining s = {.keys = sort.keys,
                                        .order = sort.order,
                                        .n = b->n,
                                        .outer = 1,
                                        .dim = most,
                                        .per = b->n,
                                        .inner = 1,
                                        .sources = b->n,
                                        .most = most,
                                        .from_y = true,
                                        .rounds = true};
    return td_cuda_launched(c,
                            error != 0 ? error
                                       : td_cuda_combine(TD_CUDA_ADD, td_cuda_type_of(y->dtype), &s,
                                                         c->in[2]->data, y->data, stream),
                            err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(c->in[0]);
    const struct td_cuda_bins s = {.values = td_cuda_indices_of(c->in[0]),
                                   .n = n,
                                   .length = y->shape.rank == 2 ? c->in[0]->shape.dim[1] : n,
                                   .size = y->shape.dim[y->shape.rank - 1],
                                   .fault = c->fault};
    if (td_tensor_count(c->in[2]) > 0 && !is_binary(c->node)) {
        return add_weights(c, &s, y, err);
    }
    const int error = clear(c, td_tensor_count(y));
    return deliver(c, error != 0 ? error : td_cuda_bin_counts(&s, c->workspace, td_cuda_stream_of(c)),
                   is_binary(c->node), y, err);
}

/* ------------------------------------------------------------------ HistogramFixedWidth */

static enum td_code prepare_histogram(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                      struct td_err *err)
{
    (void)err;
    o->workspace_bytes = offers(q, o) ? (size_t)td_shape_count(&q->out[0]) * sizeof(int32_t) : 0;
    return TD_OK;
}

static enum td_code run_histogram(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_histogram s = {.x = c->in[0]->data,
                                        .range = c->in[1]->data,
                                        .n = td_tensor_count(c->in[0]),
                                        .bins = td_tensor_count(y),
                                        .fault = c->fault};
    const int error = clear(c, s.bins);
    return deliver(c,
                   error != 0 ? error
                              : td_cuda_histogram_counts(td_cuda_type_of(c->in[0]->dtype), &s, c->workspace,
                                                         td_cuda_stream_of(c)),
                   false, y, err);
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_ROWS(rows, "bins.cuda", .types = {{"T", TD_CUDA_NATIVE}, {"Tidx", TD_SET_INDEX}}, .judged = 1,
             .prepare = prepare, .run = run);
TD_CUDA_ROWS(rows_flat, "bins.cuda", .types = {{"T", TD_CUDA_NATIVE}}, .judged = 1, .prepare = prepare,
             .run = run);
TD_CUDA_ROWS(rows_histogram, "bins.cuda", .types = {{"T", TD_CUDA_NATIVE}, {"dtype", TD_SET_INDEX}},
             .judged = 3, .prepare = prepare_histogram, .run = run_histogram);

const struct td_op_rows td_cuda_rows_bins[] = {
    {"Bincount", rows_flat}, {"DenseBincount", rows}, {"HistogramFixedWidth", rows_histogram}, {NULL, NULL}};
