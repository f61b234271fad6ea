/* kernels/cuda/array/scatter.c - rows of ops that write slices by index: ScatterNd, ScatterNdNonAliasingAdd,
 * TensorScatter*, Inplace*, _GatherGrad and _PutAlongLast.
 *
 *   zeros or a copy of the tensor, then   indices -> keys -> sorted -> each slice takes its updates in order
 *
 * Scatters of nothing stay on the host, as its rules for them do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/base/sort.h"

/* ------------------------------------------------------------------ what fits */

/* n keys, each at most `most`. */
static void offer(struct td_kernel_offer *o, int64_t n, int64_t most)
{
    o->refusal = n == 0 || most == 0                   ? "nothing is written"
                 : n >= INT32_MAX || most >= INT32_MAX ? "more slices than 32 bits count"
                                                       : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_sort_bytes(n) : 0;
}

static bool empty(const struct td_kernel_query *q)
{
    bool is = td_shape_count(&q->out[0]) == 0;
    for (int i = 0; i < q->n_in; i++) {
        is = is || td_shape_count(&q->in[i]) == 0;
    }
    return is;
}

/* A vector of indices is a column. */
static int64_t depth_of(const struct td_shape *indices)
{
    return indices->rank > 1 ? indices->dim[indices->rank - 1] : 1;
}
static int64_t tuples_in(const struct td_shape *indices)
{
    return td_shape_range(indices, 0, indices->rank > 1 ? indices->rank - 1 : 1);
}

static void offer_tuples(const struct td_kernel_query *q, int at, struct td_kernel_offer *o)
{
    const struct td_shape *indices = &q->in[at];
    offer(o, empty(q) ? 0 : tuples_in(indices), td_shape_range(&q->out[0], 0, (int)depth_of(indices)));
}

static enum td_code prepare_scatter_nd(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                       struct td_err *err)
{
    (void)err;
    offer_tuples(q, 0, o);
    return TD_OK;
}

static enum td_code prepare_tensor(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    (void)err;
    offer_tuples(q, 1, o);
    return TD_OK;
}

static enum td_code prepare_rows(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    offer(o, empty(q) ? 0 : q->in[1].dim[0], q->out[0].rank > 0 ? q->out[0].dim[0] : 0);
    return TD_OK;
}

/* ------------------------------------------------------------------ writing */

/* Slices of y take those of `updates`, as keys say that are made of k. */
static enum td_code write(const struct td_call *c, struct td_cuda_keys *k, struct td_cuda_combining *s,
                          const struct td_tensor *updates, const struct td_tensor *y, const int *op,
                          struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_cuda_sort sort;
    int error = td_cuda_keys_sort(k, c->workspace, &sort, stream);
    s->keys = sort.keys;
    s->order = sort.order;
    s->n = k->n;
    s->sources = k->n;
    s->most = k->most;
    s->from_y = s->rounds = true;
    if (error == 0 && op == NULL) {
        error = td_cuda_put(s, (size_t)s->inner * td_dtype_size(y->dtype), updates->data, y->data, stream);
    } else if (error == 0) {
        error = td_cuda_combine((enum td_cuda_combine_op) * op, td_cuda_type_of(y->dtype), s, updates->data,
                                y->data, stream);
    }
    return td_cuda_launched(c, error, err);
}

/* op NULL: the last stays. */
static enum td_code scatter(struct td_call *c, int indices, const struct td_tensor *y, const int *op,
                            struct td_err *err)
{
    const struct td_shape *is = &c->in[indices]->shape;
    const int64_t depth = depth_of(is);
    struct td_cuda_keys k = {.kind = TD_CUDA_TUPLES,
                             .indices = td_cuda_indices_of(c->in[indices]),
                             .n = tuples_in(is),
                             .most = (int32_t)td_shape_range(&y->shape, 0, (int)depth),
                             .fault = td_cuda_ignores_bad(c->node) ? NULL : c->fault};
    td_cuda_tuples_of(&y->shape, depth, &k.tuples);
    struct td_cuda_combining s = {
        .outer = 1, .dim = k.most, .per = k.n, .inner = td_shape_range(&y->shape, (int)depth, y->shape.rank)};
    return write(c, &k, &s, c->in[indices + 1], y, op, err);
}

static enum td_code run_scatter_nd(struct td_call *c, struct td_err *err)
{
    const int op = TD_CUDA_ADD;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    return scatter(c, 0, y, &op, err);
}

static enum td_code run_tensor(struct td_call *c, const int *op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_copy_all(c, c->in[0], y, err));
    return scatter(c, 1, y, op, err);
}

static enum td_code run_rows(struct td_call *c, const int *op, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_copy_all(c, c->in[0], y, err));
    struct td_cuda_keys k = {.kind = TD_CUDA_ROUND,
                             .indices = td_cuda_indices_of(c->in[1]),
                             .n = c->in[1]->shape.dim[0],
                             .dim = y->shape.dim[0],
                             .most = (int32_t)y->shape.dim[0]};
    struct td_cuda_combining s = {
        .outer = 1, .dim = k.dim, .per = k.n, .inner = td_shape_range(&y->shape, 1, y->shape.rank)};
    return write(c, &k, &s, c->in[2], y, op, err);
}

/* ------------------------------------------------------------------ _GatherGrad */

/* Leading axes that y and the indices share. */
static int batches_of(const struct td_node *n, const struct td_shape *indices)
{
    const int64_t batch = td_attr_int(n, "batch_dims");
    return (int)(batch < 0 ? batch + indices->rank : batch);
}

static enum td_code prepare_gather_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                        struct td_err *err)
{
    const struct td_shape *y = &q->out[0], *indices = &q->in[1];
    int axis = 0;
    int64_t most = td_shape_count(y); /* at most, while the axis is not known */
    (void)err;
    if (q->value[3] != NULL && td_shape_axis(y->rank, td_tensor_int(q->value[3], 0), &axis)) {
        most = td_shape_range(y, 0, batches_of(q->node, indices)) * y->dim[axis];
    }
    offer(o, td_shape_count(y) == 0 || td_shape_count(&q->in[0]) == 0 ? 0 : td_shape_count(indices), most);
    return TD_OK;
}

static enum td_code run_gather_grad(struct td_call *c, struct td_err *err)
{
    const int op = TD_CUDA_ADD;
    const struct td_shape *indices = &c->in[1]->shape;
    const int batch = batches_of(c->node, indices);
    struct td_tensor *y;
    int axis = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    TD_FAIL_IF(!td_shape_axis(y->shape.rank, td_tensor_int(c->in[3], 0), &axis), err, INTERNAL,
               "%s: no such axis of %s", c->node->op_name, TD_SHAPE_STR(&y->shape));
    struct td_cuda_keys k = {.kind = TD_CUDA_AXIS,
                             .indices = td_cuda_indices_of(c->in[1]),
                             .n = td_shape_count(indices),
                             .batches = td_shape_range(&y->shape, 0, batch),
                             .dim = y->shape.dim[axis],
                             .fault = c->fault};
    k.most = (int32_t)(k.batches * k.dim);
    struct td_cuda_combining s = {.outer = td_shape_range(&y->shape, batch, axis),
                                  .dim = k.dim,
                                  .per = k.n / k.batches,
                                  .inner = td_shape_range(&y->shape, axis + 1, y->shape.rank)};
    return write(c, &k, &s, c->in[0], y, &op, err);
}

/* ------------------------------------------------------------------ _PutAlongLast */

static enum td_code prepare_put(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    (void)err;
    offer(o, td_shape_count(&q->in[0]), td_shape_count(&q->out[0]));
    return TD_OK;
}

static enum td_code run_put(struct td_call *c, struct td_err *err)
{
    const struct td_shape *indices = &c->in[0]->shape;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_zero(c, y, err));
    struct td_cuda_keys k = {.kind = TD_CUDA_AXIS,
                             .indices = td_cuda_indices_of(c->in[0]),
                             .n = td_shape_count(indices),
                             .batches = td_shape_range(indices, 0, indices->rank - 1),
                             .dim = y->shape.dim[y->shape.rank - 1],
                             .most = (int32_t)td_tensor_count(y),
                             .fault = c->fault};
    struct td_cuda_combining s = {.outer = 1, .dim = k.most, .per = k.n, .inner = 1};
    return write(c, &k, &s, c->in[1], y, NULL, err);
}

/* ------------------------------------------------------------------ rows */

#define ROWS(op, set, attr, index, ready, which)                                                             \
    TD_CUDA_ROWS(rows_##op, "scatter.cuda", .types = {{"T", set}, {attr, index}}, .judged = which,           \
                 .refuse = td_cuda_refuses_policy, .prepare = ready, .run = run_##op);
#define WRITES(op, how, set, attr, ready, which, with)                                                       \
    static enum td_code run_##op(struct td_call *c, struct td_err *err)                                      \
    {                                                                                                        \
        const int combine = with;                                                                            \
        return how(c, combine < 0 ? NULL : &combine, err);                                                   \
    }                                                                                                        \
    ROWS(op, set, attr, TD_SET_INDEX, ready, which)
ROWS(scatter_nd, TD_CUDA_NUMBERS, "Tindices", TD_SET_INDEX, prepare_scatter_nd, 1)
WRITES(update, run_tensor, TD_SET_PLAIN, "Tindices", prepare_tensor, 2, -1)
WRITES(add, run_tensor, TD_CUDA_NUMBERS, "Tindices", prepare_tensor, 2, TD_CUDA_ADD)
WRITES(sub, run_tensor, TD_CUDA_NUMBERS, "Tindices", prepare_tensor, 2, TD_CUDA_SUBTRACT)
WRITES(max, run_tensor, TD_CUDA_NUMBERS, "Tindices", prepare_tensor, 2, TD_CUDA_GREATER)
WRITES(min, run_tensor, TD_CUDA_NUMBERS, "Tindices", prepare_tensor, 2, TD_CUDA_LESSER)
WRITES(rows_update, run_rows, TD_SET_PLAIN, NULL, prepare_rows, 0, -1)
WRITES(rows_add, run_rows, TD_CUDA_NUMBERS, NULL, prepare_rows, 0, TD_CUDA_ADD)
WRITES(rows_sub, run_rows, TD_CUDA_NUMBERS, NULL, prepare_rows, 0, TD_CUDA_SUBTRACT)
ROWS(put, TD_CUDA_FLOATS, "Tidx", TD_SET_INDEX | TD_BIT(TD_INT16), prepare_put, 1)
ROWS(gather_grad, TD_CUDA_NUMBERS, "Tindices", TD_SET_INDEX | TD_BIT(TD_INT16), prepare_gather_grad, 2)

const struct td_op_rows td_cuda_rows_scatter[] = {{"ScatterNd", rows_scatter_nd},
                                                  {"ScatterNdNonAliasingAdd", rows_add},
                                                  {"TensorScatterUpdate", rows_update},
                                                  {"TensorScatterAdd", rows_add},
                                                  {"TensorScatterSub", rows_sub},
                                                  {"TensorScatterMax", rows_max},
                                                  {"TensorScatterMin", rows_min},
                                                  {"InplaceUpdate", rows_rows_update},
                                                  {"InplaceAdd", rows_rows_add},
                                                  {"InplaceSub", rows_rows_sub},
                                                  {"_GatherGrad", rows_gather_grad},
                                                  {"_PutAlongLast", rows_put},
                                                  {NULL, NULL}};
