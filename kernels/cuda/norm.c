/* kernels/cuda/norm.c - rows of FusedBatchNorm and its later versions, by given statistics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/norm.h"

#include <string.h>

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/rows.h"

static const char *refuse(const struct td_node *n)
{
    return td_attr_bool(n, "is_training") ? "statistics of the batch are the host's" : NULL;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->refusal = td_shape_count(&q->in[0]) == 0 ? "an empty batch" : NULL;
    return TD_OK;
}

/* Outputs 1 to 4 are the statistics that were given, twice; the sixth of V3 is a zero. */
static enum td_code give_statistics(struct td_call *c, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_tensor *t;
    for (int i = 1; i < 5; i++) {
        const struct td_tensor *from = c->in[i % 2 == 1 ? 3 : 4];
        struct td_cuda_steps steps = {0};
        TD_TRY(td_out(c, i, NULL, &t, err));
        (void)td_cuda_steps_add(&steps, td_tensor_count(t), 1, 1);
        TD_TRY(td_cuda_launched(c,
                                td_cuda_move(sizeof(float), &steps, from->data, t->data, td_tensor_count(t),
                                             td_cuda_stream_of(c)),
                                err));
    }
    if (c->n_out < 6) {
        return TD_OK;
    }
    TD_TRY(td_out(c, 5, NULL, &t, err));
    return td_cuda_launched(
        c, td_cuda_fill(sizeof(float), zero, t->data, td_tensor_count(t), td_cuda_stream_of(c)), err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    const int rank = x->shape.rank;
    const int channel = strncmp(td_attr_str(c->node, "data_format"), "NC", 2) == 0 ? 1 : rank - 1;
    const struct td_cuda_norm s = {.outer = td_shape_range(&x->shape, 0, channel),
                                   .channels = x->shape.dim[channel],
                                   .inner = td_shape_range(&x->shape, channel + 1, rank),
                                   .epsilon = (float)td_attr_float(c->node, "epsilon"),
                                   .scale = c->in[1]->data,
                                   .offset = c->in[2]->data,
                                   .mean = c->in[3]->data,
                                   .variance = c->in[4]->data};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_cuda_launched(
        c, td_cuda_norm_given(td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err));
    return give_statistics(c, err);
}

static const struct td_kernel rows[] = {
    {.name = "batch_norm.cuda",
     .device = TD_CUDA,
     .types = {{"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16)}, {"U", TD_BIT(TD_FLOAT)}},
     .library = TD_LIB_MODULE,
     .refuse = refuse,
     .prepare = prepare,
     .run = run},
    {.name = NULL}};
/* Of the first version, T is of the statistics, too. */
static const struct td_kernel first_rows[] = {{.name = "batch_norm.cuda",
                                               .device = TD_CUDA,
                                               .types = {{"T", TD_BIT(TD_FLOAT)}},
                                               .library = TD_LIB_MODULE,
                                               .refuse = refuse,
                                               .prepare = prepare,
                                               .run = run},
                                              {.name = NULL}};

const struct td_op_rows td_cuda_rows_norm[] = {
    {"FusedBatchNorm", first_rows}, {"FusedBatchNormV2", rows}, {"FusedBatchNormV3", rows}, {NULL, NULL}};
