/* kernels/control/batch_one.c - Batch and Unbatch, by which graphs of TensorFlow 1 gather requests and take
 * them apart again. Here the server does that (server/sched): inside of a graph each run is a batch of its
 * own.
 *
 *   Batch     tensors of n rows  ->  the same, batch_index [[id, 0, n]], id
 *   Unbatch   batched [N,..], batch_index [k,3], id  ->  the rows that batch_index has for id
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/graph.h"
#include "kernels/control/pass_grad.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

enum { ID = 1 };

/* ------------------------------------------------------------------ Batch */

static enum td_code batch_infer(struct td_infer *c, struct td_err *err)
{
    int64_t rows = -1;
    const int64_t most = td_attr_int(c->node, "max_batch_size");
    for (int i = 0; i < c->n_in; i++) {
        TD_FAIL_IF(c->in[i].rank == 0, err, INVALID_ARGUMENT,
                   "%s: Batching input tensors must have at least one dimension", TD_NODE_STR(c->node));
        const int64_t n = c->in[i].rank > 0 ? c->in[i].dim[0] : -1;
        TD_FAIL_IF(
            n >= 0 && rows >= 0 && n != rows, err, INVALID_ARGUMENT,
            "%s: Batching input tensors supplied in a given op invocation must have equal 0th-dimension "
            "size",
            TD_NODE_STR(c->node));
        rows = n >= 0 ? n : rows;
        c->out[i] = c->in[i];
    }
    TD_FAIL_IF(rows > most, err, INVALID_ARGUMENT, "%s: its %lld rows are more than max_batch_size, %lld",
               TD_NODE_STR(c->node), (long long)rows, (long long)most);
    c->out[c->n_in] = td_shape_matrix(1, 3);
    c->out[c->n_in + 1] = td_shape_scalar();
    return TD_OK;
}

static enum td_code batch_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *index, *id;
    TD_TRY(td_out(c, c->n_in, NULL, &index, err));
    TD_TRY(td_out(c, c->n_in + 1, NULL, &id, err));
    TD_DATA(id, int64_t)[0] = TD_DATA(index, int64_t)[0] = ID;
    TD_DATA(index, int64_t)[1] = 0;
    TD_DATA(index, int64_t)[2] = c->n_in > 0 ? c->in[0]->shape.dim[0] : 0;
    for (int i = 0; i < c->n_in; i++) {
        struct td_tensor t;
        TD_TRY(td_keep(c, i, &t, err));
        td_out_move(c, i, &t);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Unbatch */

static enum td_code unbatch_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *index = &c->in[1];
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    TD_TRY(td_infer_rank(c, 1, 2, err));
    TD_TRY(td_infer_rank(c, 2, 0, err));
    TD_FAIL_IF(index->rank == 2 && index->dim[1] >= 0 && index->dim[1] != 3, err, INVALID_ARGUMENT,
               "%s: Wrong shape for index tensor. Expected 2nd dimension size to be 3; Got: %lld.",
               TD_NODE_STR(c->node), (long long)index->dim[1]);
    c->out[0] = c->in[0];
    if (c->out[0].rank > 0) {
        c->out[0].dim[0] = -1;
    }
    return TD_OK;
}

static enum td_code unbatch_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const int64_t *index = c->in[1]->data, id = TD_DATA(c->in[2], const int64_t)[0],
                  k = c->in[1]->shape.dim[0];
    int64_t row = 0;
    while (row < k && index[3 * row] != id) {
        row++;
    }
    TD_FAIL_IF(row == k, err, INVALID_ARGUMENT, "%s: batch_index has no rows of id %lld",
               TD_NODE_STR(c->node), (long long)id);
    const int64_t from = index[3 * row + 1], to = index[3 * row + 2];
    TD_FAIL_IF(from < 0 || to < from || to > x->shape.dim[0], err, INVALID_ARGUMENT,
               "%s: batch_index names rows %lld to %lld of %lld", TD_NODE_STR(c->node), (long long)from,
               (long long)to, (long long)x->shape.dim[0]);
    struct td_shape shape = x->shape;
    struct td_tensor *y;
    shape.dim[0] = to - from;
    TD_TRY(td_out(c, 0, &shape, &y, err));
    const size_t bytes = (size_t)(from * td_shape_range(&shape, 1, shape.rank)) * td_dtype_size(x->dtype);
    if (td_tensor_count(y) > 0) {
        td_elems_copy(x->dtype, y->data, (const char *)x->data + bytes, td_tensor_count(y));
    }
    return TD_OK;
}

/* Of a batch of one. */
static void unbatch_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_grad_at(g, 0));
}

#define NAMED "container:string=''; shared_name:string=''"

const struct td_op td_ops_batch_one[] = {
    {.name = "Batch",
     .sig = "(in_tensors:T) -> (batched_tensors:T, batch_index:int64, id:int64) {num_batch_threads:int; "
            "max_batch_size:int; max_enqueued_batches:int=10; batch_timeout_micros:int; "
            "allowed_batch_sizes:list(int)=[]; grad_timeout_micros:int; " NAMED
            "; batching_queue:string=''; T:list(type)}",
     .flags = TD_OP_KEEPS,
     .infer = batch_infer,
     .kernels = TD_KERNEL("batch_one.cpu", batch_run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = "Unbatch",
     .sig =
         "(batched_tensor:T, batch_index:int64, id:int64) -> (unbatched_tensor:T) {timeout_micros:int; " NAMED
         "; T:type}",
     .host_in = 6,
     .infer = unbatch_infer,
     .kernels = TD_KERNEL("batch_one.cpu", unbatch_run, {NULL, 0}),
     .grad = unbatch_grad},
    {.name = NULL},
};
