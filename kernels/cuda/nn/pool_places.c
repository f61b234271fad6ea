/* kernels/cuda/nn/pool_places.c - rows of the gradients of pools that were told where maxima are:
 * MaxPoolGradWithArgmax adds to those places, MaxPoolGradGradWithArgmax picks from them.
 *
 *   places -> keys -> sorted -> each place takes its gradients in order (combine.h)
 *
 * A place that is none is refused as on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cuda/array/gather.h"
#include "kernels/cuda/base/combine.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/sort.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const int64_t n = td_shape_count(&q->in[2]), most = td_shape_count(&q->in[0]);
    (void)err;
    o->refusal = n == 0 || most == 0                   ? "nothing is pooled"
                 : n >= INT32_MAX || most >= INT32_MAX ? "more places than 32 bits count"
                                                       : NULL;
    o->workspace_bytes = o->refusal == NULL ? td_cuda_sort_bytes(n) : 0;
    return TD_OK;
}

/* Places count from the first image, or each from its own. */
static int64_t batches_of(const struct td_call *c)
{
    return td_attr_bool(c->node, "include_batch_in_index") ? 1 : c->in[0]->shape.dim[0];
}

static enum td_code run_add(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(td_cuda_zero(c, dx, err));
    struct td_cuda_keys k = {.kind = TD_CUDA_AXIS,
                             .indices = td_cuda_indices_of(c->in[2]),
                             .n = td_tensor_count(c->in[2]),
                             .batches = batches_of(c),
                             .most = (int32_t)td_tensor_count(dx),
                             .fault = c->fault};
    k.dim = k.most / k.batches;
    struct td_cuda_sort sort;
    const int error = td_cuda_keys_sort(&k, c->workspace, &sort, stream);
    const struct td_cuda_combining s = {.keys = sort.keys,
                                        .order = sort.order,
                                        .n = k.n,
                                        .outer = 1,
                                        .dim = k.most,
                                        .per = k.n,
                                        .inner = 1,
                                        .sources = k.n,
                                        .most = k.most};
    return td_cuda_launched(c,
                            error != 0 ? error
                                       : td_cuda_combine(TD_CUDA_ADD, td_cuda_type_of(dx->dtype), &s,
                                                         c->in[1]->data, dx->data, stream),
                            err);
}

static enum td_code run_pick(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t batches = batches_of(c);
    const struct td_cuda_gather_axis s = {.batches = batches,
                                          .outer = 1,
                                          .dim = td_tensor_count(c->in[1]) / batches,
                                          .n = td_tensor_count(y) / batches};
    const struct td_cuda_slices slices = {.x = c->in[1]->data,
                                          .y = y->data,
                                          .bytes = td_dtype_size(y->dtype),
                                          .indices = td_cuda_indices_of(c->in[2]),
                                          .fault = c->fault};
    return td_cuda_launched(c, td_cuda_gather_along(&s, &slices, td_cuda_stream_of(c)), err);
}

TD_CUDA_ROWS(rows_add, "pool.cuda", .types = {{"T", TD_CUDA_NUMBERS}, {"Targmax", TD_SET_INDEX}}, .judged = 4,
             .prepare = prepare, .run = run_add);
TD_CUDA_ROWS(rows_pick, "pool.cuda", .types = {{"T", TD_CUDA_REALS}, {"Targmax", TD_SET_INDEX}}, .judged = 4,
             .prepare = prepare, .run = run_pick);

const struct td_op_rows td_cuda_rows_pool_places[] = {
    {"MaxPoolGradWithArgmax", rows_add}, {"MaxPoolGradGradWithArgmax", rows_pick}, {NULL, NULL}};
