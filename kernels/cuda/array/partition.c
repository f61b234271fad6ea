/* kernels/cuda/array/partition.c - rows of DynamicPartition, DynamicStitch and ParallelDynamicStitch.
 *
 *   partition   count: the parts' numbers are sorted, stably;  run: each part gathers its rows
 *   stitch      count: the greatest index of all;  run: the tensors are put one after the other, of each the
 *               last row that goes to a place
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/partition.h"

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

enum { STITCHED = 32 }; /* tensors whose indices a row can judge */

static void offer(int64_t n, struct td_kernel_offer *o)
{
    o->refusal = n == 0 ? "there are no rows" : n >= INT32_MAX ? "more rows than 32 bits count" : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_sort_bytes(n) : 0;
}

/* Keys that name rows of a tensor of so many. */
static struct td_cuda_keys keys_of(const struct td_tensor *indices, int32_t rows, int32_t *fault)
{
    return (struct td_cuda_keys){.kind = TD_CUDA_TUPLES,
                                 .indices = td_cuda_indices_of(indices),
                                 .tuples = {.depth = 1, .dim = {rows}},
                                 .n = td_tensor_count(indices),
                                 .most = rows,
                                 .fault = fault};
}

/* [rows, axes of data behind those of the indices] */
static enum td_code shape_of(int64_t rows, const struct td_shape *data, const struct td_shape *indices,
                             struct td_shape *out, struct td_err *err)
{
    const int rank = data->rank - indices->rank + 1;
    TD_FAIL_IF(rank > TD_MAX_RANK, err, INVALID_ARGUMENT, "a result of %d axes, the most are %d", rank,
               TD_MAX_RANK);
    *out = td_shape_of_rank(rank);
    out->dim[0] = rows;
    for (int d = 1; d < rank; d++) {
        out->dim[d] = data->dim[indices->rank + d - 1];
    }
    return TD_OK;
}

static size_t row_bytes(const struct td_tensor *y)
{
    return (size_t)td_shape_range(&y->shape, 1, y->shape.rank) * td_dtype_size(y->dtype);
}

/* ------------------------------------------------------------------ DynamicPartition */

static enum td_code prepare_partition(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                      struct td_err *err)
{
    (void)err;
    offer(td_shape_count(&q->in[1]), o);
    return TD_OK;
}

static int parts_of(const struct td_node *n)
{
    return n->n_out;
}

static enum td_code count_partition(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_cuda_keys k = keys_of(c->in[1], c->n_out, c->fault);
    struct td_cuda_sort sort;
    const int error = td_cuda_keys_sort(&k, c->workspace, &sort, stream);
    return td_cuda_launched(
        c, error != 0 ? error : td_cuda_partition_count(sort.keys, k.n, c->n_out, c->counts, stream), err);
}

static enum td_code shapes_partition(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                                     struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(shape_of(counts[i], &c->in[0]->shape, &c->in[1]->shape, &out[i], err));
    }
    return TD_OK;
}

static enum td_code run_partition(struct td_call *c, struct td_err *err)
{
    const int64_t n = td_tensor_count(c->in[1]);
    const int32_t *order = td_cuda_sort_done(c->workspace, n, c->n_out).order;
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor *y;
        TD_TRY(td_out(c, i, NULL, &y, err));
        const struct td_cuda_gather_axis axis = {.batches = 1, .outer = 1, .dim = n, .n = y->shape.dim[0]};
        const struct td_cuda_slices slices = {
            .x = c->in[0]->data, .y = y->data, .bytes = row_bytes(y), .indices = {order, TD_CUDA_INDEX_32}};
        order += axis.n;
        if (td_tensor_count(y) > 0) {
            TD_TRY(td_cuda_launched(c, td_cuda_gather_along(&axis, &slices, td_cuda_stream_of(c)), err));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ DynamicStitch */

static enum td_code prepare_stitch(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    const int n = q->n_in / 2;
    int64_t most = 0;
    (void)err;
    for (int i = 0; i < n; i++) {
        most = td_shape_count(&q->in[i]) > most ? td_shape_count(&q->in[i]) : most;
    }
    offer(most, o);
    o->refusal = n > STITCHED ? "more than 32 tensors" : o->refusal;
    return TD_OK;
}

static int one(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count_stitch(struct td_call *c, struct td_err *err)
{
    int error = 0;
    for (int i = 0; error == 0 && i < c->n_in / 2; i++) {
        error = td_cuda_partition_rows(c->in[i]->data, td_tensor_count(c->in[i]), i == 0, c->counts, c->fault,
                                       td_cuda_stream_of(c));
    }
    return td_cuda_launched(c, error, err);
}

static enum td_code shapes_stitch(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                                  struct td_err *err)
{
    TD_FAIL_IF(counts[0] > INT32_MAX, err, RESOURCE_EXHAUSTED, "%s: %lld rows, more than 32 bits count",
               TD_NODE_STR(c->node), (long long)counts[0]);
    return shape_of(counts[0], &c->in[c->n_in / 2]->shape, &c->in[0]->shape, &out[0], err);
}

/* Rows of y that these indices name. */
static int put(const struct td_call *c, const struct td_tensor *indices, const struct td_tensor *data,
               const struct td_tensor *y)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_cuda_keys k = keys_of(indices, (int32_t)y->shape.dim[0], NULL);
    struct td_cuda_sort sort;
    const int error = td_cuda_keys_sort(&k, c->workspace, &sort, stream);
    const struct td_cuda_combining s = {.keys = sort.keys,
                                        .order = sort.order,
                                        .n = k.n,
                                        .outer = 1,
                                        .dim = k.most,
                                        .per = k.n,
                                        .inner = td_shape_range(&y->shape, 1, y->shape.rank),
                                        .sources = k.n,
                                        .most = k.most,
                                        .from_y = true,
                                        .rounds = true};
    return error != 0 ? error : td_cuda_put(&s, row_bytes(y), data->data, y->data, stream);
}

static enum td_code run_stitch(struct td_call *c, struct td_err *err)
{
    const int n = c->n_in / 2;
    struct td_tensor *y;
    int error = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(td_cuda_zero(c, y, err)); /* rows that nobody names */
    for (int i = 0; error == 0 && i < n; i++) {
        error = td_tensor_count(c->in[i]) > 0 ? put(c, c->in[i], c->in[n + i], y) : 0;
    }
    return td_cuda_launched(c, error, err);
}

/* ------------------------------------------------------------------ rows */

static const struct td_kernel_sized sized_partition = {parts_of, count_partition, shapes_partition};
static const struct td_kernel_sized sized_stitch = {one, count_stitch, shapes_stitch};

TD_CUDA_ROWS(rows_partition, "partition.cuda", .types = {{"T", TD_SET_PLAIN}}, .judged = 2,
             .prepare = prepare_partition, .run = run_partition, .sized = &sized_partition);
TD_CUDA_ROWS(rows_stitch, "partition.cuda", .types = {{"T", TD_SET_PLAIN}}, .judged = UINT32_MAX,
             .prepare = prepare_stitch, .run = run_stitch, .sized = &sized_stitch);

const struct td_op_rows td_cuda_rows_partition[] = {{"DynamicPartition", rows_partition},
                                                    {"DynamicStitch", rows_stitch},
                                                    {"ParallelDynamicStitch", rows_stitch},
                                                    {NULL, NULL}};
