/* kernels/cuda/loss.c - rows of SoftmaxCrossEntropyWithLogits. With class numbers for labels (Sparse..) it
 * stays on the host: what is out of range there is an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/loss.h"

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->refusal = td_shape_equal(&q->in[0], &q->in[1]) ? NULL : "logits and labels of two shapes";
    return TD_OK;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *loss, *backprop;
    TD_TRY(td_out(c, 0, NULL, &loss, err));
    TD_TRY(td_out(c, 1, NULL, &backprop, err));
    const struct td_cuda_cross_entropy s = {.logits = c->in[0]->data,
                                            .labels = c->in[1]->data,
                                            .loss = loss->data,
                                            .backprop = backprop->data,
                                            .rows = c->in[0]->shape.dim[0],
                                            .n = c->in[0]->shape.dim[1]};
    return td_cuda_launched(
        c, td_cuda_cross_entropy_of(td_cuda_type_of(loss->dtype), &s, td_cuda_stream_of(c)), err);
}

static const struct td_kernel rows[] = {{.name = "loss.cuda",
                                         .device = TD_CUDA,
                                         .types = {{"T", TD_CUDA_FLOATS}},
                                         .library = TD_LIB_MODULE,
                                         .prepare = prepare,
                                         .run = run},
                                        {.name = NULL}};

const struct td_op_rows td_cuda_rows_loss[] = {{"SoftmaxCrossEntropyWithLogits", rows}, {NULL, NULL}};
