/* kernels/cuda/sparse/fill_rows.c - rows of SparseFillEmptyRows and RaggedFillEmptyRows.
 *
 *   count   entries are sorted by row, stably; rows without one are marked, and ranked
 *   run     entries and empty rows are put at their places
 *
 * How many rows there are comes on the host; an entry of none of them is refused in the host's words.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/sparse/fill_rows.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const int64_t n = q->in[0].dim[0];
    const struct td_tensor *dims = q->value[2];
    (void)err;
    if (n == 0 || dims == NULL || td_tensor_count(dims) == 0 || td_tensor_int(dims, 0) <= 0) {
        o->refusal = "there are no entries, or rows";
    } else if (n >= INT32_MAX / 2 || td_tensor_int(dims, 0) >= INT32_MAX / 2) {
        o->refusal = "more entries than 32 bits count";
    } else {
        const int64_t rows = td_tensor_int(dims, 0);
        o->workspace_bytes =
            td_cuda_sort_bytes(n) + td_cuda_ranks_bytes(rows) + (size_t)(n + rows) * sizeof(int32_t);
    }
    return TD_OK;
}

/* sort: of the entries, as it was before or behind the run. */
static struct td_cuda_fill_rows rows_of(const struct td_call *c, const struct td_cuda_sort *sort)
{
    const struct td_tensor *indices = c->in[0];
    const int64_t n = indices->shape.dim[0], rows = td_tensor_int(c->in[2], 0);
    char *const ranks = (char *)c->workspace + td_cuda_sort_bytes(n);
    return (struct td_cuda_fill_rows){.indices = indices->data,
                                      .n = n,
                                      .width = indices->shape.rank == 2 ? indices->shape.dim[1] : 1,
                                      .rows = rows,
                                      .keys = sort->keys,
                                      .order = sort->order,
                                      .ranks = td_cuda_ranks_in(ranks, rows),
                                      .from = (int32_t *)(void *)(ranks + td_cuda_ranks_bytes(rows)),
                                      .values = c->in[1]->data,
                                      .absent = c->in[3]->data};
}

static int one(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_cuda_sort sort = td_cuda_sort_in(c->workspace, c->in[0]->shape.dim[0]);
    struct td_cuda_fill_rows s = rows_of(c, &sort);
    int error = td_cuda_fill_rows_keys(&s, sort.keys, c->fault, stream);
    error = error != 0 ? error : td_cuda_sort_run(&sort, (int32_t)s.rows, stream);
    s.keys = sort.keys;
    error = error != 0 ? error : td_cuda_fill_rows_mark(&s, stream);
    return td_cuda_launched(c, error != 0 ? error : td_cuda_ranks_run(&s.ranks, c->counts, stream), err);
}

static enum td_code shapes(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                           struct td_err *err)
{
    const struct td_shape *indices = &c->in[0]->shape;
    const int64_t all = indices->dim[0] + counts[0];
    (void)err;
    out[0] = *indices;
    out[0].dim[0] = all;
    out[1] = td_shape_vector(all);
    out[2] = td_shape_vector(td_tensor_int(c->in[2], 0));
    out[3] = td_shape_vector(indices->dim[0]);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct td_cuda_sort sort =
        td_cuda_sort_done(c->workspace, c->in[0]->shape.dim[0], (int32_t)td_tensor_int(c->in[2], 0));
    struct td_cuda_fill_rows s = rows_of(c, &sort);
    struct td_tensor *y[4];
    for (int i = 0; i < 4; i++) {
        TD_TRY(td_out(c, i, NULL, &y[i], err));
    }
    s.to = y[0]->data;
    s.y = y[1]->data;
    s.empty = y[2]->data;
    s.map = y[3]->data;
    return td_cuda_launched(
        c,
        td_cuda_fill_rows_tell(&s, td_tensor_count(y[1]), td_dtype_size(y[1]->dtype), td_cuda_stream_of(c)),
        err);
}

static const struct td_kernel_sized sized = {one, count, shapes};
TD_CUDA_ROWS(rows_fill, "fill_rows.cuda", .types = {{"T", TD_CUDA_EQUALS}}, .judged = 1, .prepare = prepare,
             .run = run, .sized = &sized);

const struct td_op_rows td_cuda_rows_fill_rows[] = {
    {"SparseFillEmptyRows", rows_fill}, {"RaggedFillEmptyRows", rows_fill}, {NULL, NULL}};
