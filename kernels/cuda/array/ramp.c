/* kernels/cuda/array/ramp.c - rows of LeakyRelu and LeakyReluGrad.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/array/ramp.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code leaky(struct td_call *c, const struct td_tensor *sign, const struct td_tensor *x,
                          struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return td_cuda_launched(c,
                            td_cuda_leaky(td_cuda_type_of(x->dtype), sign->data, x->data, y->data,
                                          td_tensor_count(y), (float)td_attr_float(c->node, "alpha"),
                                          td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_leaky(struct td_call *c, struct td_err *err)
{
    return leaky(c, c->in[0], c->in[0], err);
}

static enum td_code run_leaky_grad(struct td_call *c, struct td_err *err)
{
    return leaky(c, c->in[1], c->in[0], err);
}

TD_CUDA_ROWS(rows_leaky, "ramp.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .run = run_leaky);
TD_CUDA_ROWS(rows_leaky_grad, "ramp.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .run = run_leaky_grad);

const struct td_op_rows td_cuda_rows_ramp[] = {
    {"LeakyRelu", rows_leaky}, {"LeakyReluGrad", rows_leaky_grad}, {NULL, NULL}};
