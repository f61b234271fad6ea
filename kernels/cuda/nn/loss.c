/* kernels/cuda/nn/loss.c - rows of SoftmaxCrossEntropyWithLogits, its sparse form, and L2Loss.
 *
 * Class numbers come on the host (host_in of the op's row): one that is out of range is an error, and found
 * before anything is queued. From there they are sent into the workspace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/loss.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

static enum td_code cross_entropy(struct td_call *c, const void *labels, enum td_cuda_type classes,
                                  struct td_err *err)
{
    struct td_tensor *loss, *backprop;
    TD_TRY(td_out(c, 0, NULL, &loss, err));
    TD_TRY(td_out(c, 1, NULL, &backprop, err));
    const struct td_cuda_cross_entropy s = {.logits = c->in[0]->data,
                                            .labels = labels,
                                            .loss = loss->data,
                                            .backprop = backprop->data,
                                            .rows = c->in[0]->shape.dim[0],
                                            .n = c->in[0]->shape.dim[1],
                                            .classes = classes};
    return td_cuda_launched(
        c, td_cuda_cross_entropy_of(td_cuda_type_of(loss->dtype), &s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ dense labels */

static enum td_code prepare_dense(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    (void)err;
    o->refusal = td_shape_equal(&q->in[0], &q->in[1]) ? NULL : "logits and labels of two shapes";
    return TD_OK;
}

static enum td_code run_dense(struct td_call *c, struct td_err *err)
{
    return cross_entropy(c, c->in[1]->data, TD_CUDA_NO_TYPE, err);
}

/* ------------------------------------------------------------------ class numbers */

static enum td_code prepare_sparse(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    (void)err;
    o->workspace_bytes = (size_t)td_shape_count(&q->in[1]) * td_dtype_size(td_attr_type(q->node, "Tlabels"));
    return TD_OK;
}

static enum td_code run_sparse(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *labels = c->in[1];
    const int64_t n = c->in[0]->shape.dim[1];
    for (int64_t i = 0; i < td_tensor_count(labels); i++) {
        const int64_t label = td_tensor_int(labels, i);
        TD_FAIL_IF(label < 0 || label >= n, err, INVALID_ARGUMENT,
                   "%s: Received a label value of %lld which is outside the valid range of [0, %lld). Label "
                   "index: %lld",
                   TD_NODE_STR(c->node), (long long)label, (long long)n, (long long)i);
    }
    TD_TRY(td_cuda_send(c, labels, c->workspace, err));
    return cross_entropy(c, c->workspace, td_cuda_type_of(labels->dtype), err);
}

/* ------------------------------------------------------------------ L2Loss */

static enum td_code prepare_l2(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->workspace_bytes = td_cuda_l2_work(td_shape_count(&q->in[0]));
    return TD_OK;
}

static enum td_code run_l2(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return td_cuda_launched(c,
                            td_cuda_l2(td_cuda_type_of(x->dtype), x->data, y->data, td_tensor_count(x),
                                       c->workspace, td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ the table */

TD_CUDA_ROWS(rows_dense, "loss.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare_dense,
             .run = run_dense);
TD_CUDA_ROWS(rows_sparse, "loss.cuda",
             .types = {{"T", TD_CUDA_FLOATS}, {"Tlabels", TD_BIT(TD_INT32) | TD_BIT(TD_INT64)}},
             .prepare = prepare_sparse, .run = run_sparse);
TD_CUDA_ROWS(rows_l2, "loss.cuda", .types = {{"T", TD_CUDA_FLOATS}}, .prepare = prepare_l2, .run = run_l2);

const struct td_op_rows td_cuda_rows_loss[] = {{"SoftmaxCrossEntropyWithLogits", rows_dense},
                                               {"SparseSoftmaxCrossEntropyWithLogits", rows_sparse},
                                               {"L2Loss", rows_l2},
                                               {NULL, NULL}};
