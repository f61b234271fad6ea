/* kernels/cuda/array/gather.c - rows of Gather, GatherV2 and GatherNd.
 *
 * An index that is not there is refused as on the host (core/run/device_faults.h). Gathers of nothing, which
 * are refused or not by rules of their own, stay there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/gather.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->refusal =
        td_shape_count(&q->out[0]) == 0 || td_shape_count(&q->in[0]) == 0 ? "nothing is gathered" : NULL;
    return TD_OK;
}

static struct td_cuda_slices slices_of(const struct td_call *c, const struct td_tensor *y, int64_t inner)
{
    return (struct td_cuda_slices){.x = c->in[0]->data,
                                   .y = y->data,
                                   .bytes = (size_t)inner * td_dtype_size(y->dtype),
                                   .indices = td_cuda_indices_of(c->in[1]),
                                   .fault = c->fault};
}

/* Shapes, axis and batch_dims are what infer has let pass. */
static enum td_code gather(struct td_call *c, int64_t axis, int64_t batch, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape, *indices = &c->in[1]->shape;
    struct td_tensor *y;
    int at = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(!td_shape_axis(x->rank, axis, &at), err, INTERNAL, "%s: axis %lld of %s", c->node->op_name,
               (long long)axis, TD_SHAPE_STR(x));
    const int batches = (int)(batch < 0 ? batch + indices->rank : batch);
    const struct td_cuda_gather_axis s = {.batches = td_shape_range(x, 0, batches),
                                          .outer = td_shape_range(x, batches, at),
                                          .dim = x->dim[at],
                                          .n = td_shape_range(indices, batches, indices->rank)};
    const struct td_cuda_slices slices = slices_of(c, y, td_shape_range(x, at + 1, x->rank));
    return td_cuda_launched(c, td_cuda_gather_along(&s, &slices, td_cuda_stream_of(c)), err);
}

static enum td_code run_gather(struct td_call *c, struct td_err *err)
{
    return gather(c, 0, 0, err);
}

static enum td_code run_gather_v2(struct td_call *c, struct td_err *err)
{
    return gather(c, td_tensor_int(c->in[2], 0), td_attr_int(c->node, "batch_dims"), err);
}

static enum td_code run_gather_nd(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape, *indices = &c->in[1]->shape;
    struct td_cuda_tuples tuples;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_cuda_tuples_of(x, indices->dim[indices->rank - 1], &tuples);
    struct td_cuda_slices slices = slices_of(c, y, td_shape_range(x, tuples.depth, x->rank));
    slices.fault = td_cuda_ignores_bad(c->node) ? NULL : slices.fault;
    return td_cuda_launched(c,
                            td_cuda_gather_nd(&tuples, td_shape_range(indices, 0, indices->rank - 1), &slices,
                                              td_cuda_stream_of(c)),
                            err);
}

#define INDEX (TD_SET_INDEX | TD_BIT(TD_INT16))
TD_CUDA_ROWS(rows_gather, "gather.cuda", .types = {{"Tparams", TD_SET_PLAIN}, {"Tindices", INDEX}},
             .judged = 2, .prepare = prepare, .run = run_gather);
TD_CUDA_ROWS(rows_gather_v2, "gather.cuda", .types = {{"Tparams", TD_SET_PLAIN}, {"Tindices", INDEX}},
             .judged = 2, .prepare = prepare, .run = run_gather_v2);
TD_CUDA_ROWS(rows_gather_nd, "gather.cuda", .types = {{"Tparams", TD_SET_PLAIN}, {"Tindices", INDEX}},
             .judged = 2, .refuse = td_cuda_refuses_policy, .prepare = prepare, .run = run_gather_nd);

const struct td_op_rows td_cuda_rows_gather[] = {
    {"Gather", rows_gather}, {"GatherV2", rows_gather_v2}, {"GatherNd", rows_gather_nd}, {NULL, NULL}};
