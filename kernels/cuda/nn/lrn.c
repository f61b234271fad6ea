/* kernels/cuda/nn/lrn.c - rows of LRN and LRNGrad.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/lrn.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static struct td_cuda_lrn describe(const struct td_node *n, const struct td_shape *x)
{
    const int64_t depth = x->dim[3], radius = td_attr_int(n, "depth_radius");
    return (struct td_cuda_lrn){.rows = td_shape_range(x, 0, 3),
                                .depth = depth,
                                .radius = radius < 0       ? -1
                                          : radius > depth ? depth
                                                           : radius,
                                .bias = td_attr_float(n, "bias"),
                                .alpha = td_attr_float(n, "alpha"),
                                .beta = td_attr_float(n, "beta")};
}

static enum td_code prepare_grad(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    o->workspace_bytes = (size_t)td_shape_count(&q->in[0]) * sizeof(double);
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_lrn s = describe(c->node, &y->shape);
    return td_cuda_launched(
        c, td_cuda_lrn_to(td_cuda_type_of(y->dtype), &s, c->in[0]->data, y->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_cuda_lrn s = describe(c->node, &dx->shape);
    const struct td_cuda_lrn_grad g = {
        .dy = c->in[0]->data, .x = c->in[1]->data, .y = c->in[2]->data, .dx = dx->data, .work = c->workspace};
    return td_cuda_launched(c, td_cuda_lrn_back(td_cuda_type_of(dx->dtype), &s, &g, td_cuda_stream_of(c)),
                            err);
}

#define LRN_TYPES (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
TD_CUDA_ROWS(rows, "lrn.cuda", .types = {{"T", LRN_TYPES}}, .run = run);
TD_CUDA_ROWS(rows_grad, "lrn.cuda", .types = {{"T", LRN_TYPES}}, .prepare = prepare_grad, .run = run_grad);

const struct td_op_rows td_cuda_rows_lrn[] = {{"LRN", rows}, {"LRNGrad", rows_grad}, {NULL, NULL}};
