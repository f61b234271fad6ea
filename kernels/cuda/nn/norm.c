/* kernels/cuda/nn/norm.c - rows of FusedBatchNorm and its later versions, and of their gradients; and of
 * BatchNormWithGlobalNormalization.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/norm.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/rows.h"

/* The vectors are the caller's to set. */
static struct td_cuda_norm describe(const struct td_node *n, const struct td_shape *x)
{
    const int channel = strncmp(td_attr_str(n, "data_format"), "NC", 2) == 0 ? 1 : x->rank - 1;
    return (struct td_cuda_norm){.outer = td_shape_range(x, 0, channel),
                                 .channels = x->dim[channel],
                                 .inner = td_shape_range(x, channel + 1, x->rank),
                                 .epsilon = (float)td_attr_float(n, "epsilon")};
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    (void)err;
    o->refusal = td_shape_count(&q->in[0]) == 0 ? "an empty batch" : NULL;
    if (o->refusal == NULL) {
        const struct td_cuda_norm s = describe(q->node, &q->in[0]);
        o->workspace_bytes = td_cuda_norm_work(&s);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ forwards */

/* Outputs 1 to 4 are the statistics that were given, twice. */
static enum td_code give_statistics(const struct td_call *c, struct td_tensor *const *out, struct td_err *err)
{
    for (int i = 1; i < 5; i++) {
        const struct td_tensor *from = c->in[i % 2 == 1 ? 3 : 4];
        struct td_cuda_steps steps = {0};
        const int64_t n = td_tensor_count(out[i]);
        (void)td_cuda_steps_add(&steps, n, 1, 1);
        TD_TRY(td_cuda_launched(
            c, td_cuda_move(sizeof(float), &steps, from->data, out[i]->data, n, td_cuda_stream_of(c)), err));
    }
    return TD_OK;
}

/* The sixth output of V3 is a zero. */
static enum td_code give_zero(struct td_call *c, struct td_err *err)
{
    static const unsigned char zero[16];
    struct td_tensor *t;
    if (c->n_out < 6) {
        return TD_OK;
    }
    TD_TRY(td_out(c, 5, NULL, &t, err));
    return td_cuda_launched(
        c, td_cuda_fill(sizeof(float), zero, t->data, td_tensor_count(t), td_cuda_stream_of(c)), err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[5];
    const struct td_tensor *x = c->in[0];
    struct td_cuda_norm s = describe(c->node, &x->shape);
    for (int i = 0; i < 5; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    TD_TRY(give_zero(c, err));
    s.scale = c->in[1]->data;
    s.offset = c->in[2]->data;
    s.mean = c->in[3]->data;
    s.variance = c->in[4]->data;
    const enum td_cuda_type type = td_cuda_type_of(x->dtype);
    if (!td_attr_bool(c->node, "is_training")) {
        TD_TRY(td_cuda_launched(c, td_cuda_norm_given(type, &s, x->data, out[0]->data, td_cuda_stream_of(c)),
                                err));
        return give_statistics(c, out, err);
    }
    const struct td_cuda_norm_out to = {.y = out[0]->data,
                                        .running_mean = out[1]->data,
                                        .running_variance = out[2]->data,
                                        .saved_mean = out[3]->data,
                                        .saved_variance = out[4]->data,
                                        .factor = (float)td_attr_float(c->node, "exponential_avg_factor")};
    return td_cuda_launched(c, td_cuda_norm_batch(type, &s, x->data, &to, c->workspace, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_global(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_norm s = {
        .outer = td_shape_range(x, 0, 3),
        .channels = x->dim[3],
        .inner = 1,
        .epsilon = (float)td_attr_float(c->node, "variance_epsilon"),
        .mean = c->in[1]->data,
        .variance = c->in[2]->data,
        .offset = c->in[3]->data,
        .scale = td_attr_bool(c->node, "scale_after_normalization") ? c->in[4]->data : NULL};
    return td_cuda_launched(
        c, td_cuda_norm_global(td_cuda_type_of(y->dtype), &s, c->in[0]->data, y->data, td_cuda_stream_of(c)),
        err);
}

/* ------------------------------------------------------------------ backwards */

/* Outputs 3 and 4 are empty. */
static enum td_code run_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[5];
    const struct td_tensor *dy = c->in[0], *x = c->in[1];
    struct td_cuda_norm s = describe(c->node, &x->shape);
    for (int i = 0; i < 5; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    s.scale = c->in[2]->data;
    s.mean = c->in[3]->data;
    s.variance = c->in[4]->data;
    const struct td_cuda_norm_grad g = {.dy = dy->data,
                                        .x = x->data,
                                        .dx = out[0]->data,
                                        .dscale = out[1]->data,
                                        .doffset = out[2]->data,
                                        .training = td_attr_bool(c->node, "is_training")};
    return td_cuda_launched(
        c, td_cuda_norm_backward(td_cuda_type_of(x->dtype), &s, &g, c->workspace, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ the table */

#define NORM_TYPES (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
/* Of the first version, T is of the statistics, too. */
#define ROWS(tag, fn, ...) ROWS_OF(tag, fn, prepare, __VA_ARGS__)
#define ROWS_OF(tag, fn, ready, ...)                                                                         \
    TD_CUDA_ROWS(rows_##tag, "batch_norm.cuda", .types = {__VA_ARGS__}, .prepare = ready, .run = fn);
ROWS(first, run, {"T", TD_BIT(TD_FLOAT)})
ROWS(later, run, {"T", NORM_TYPES}, {"U", TD_BIT(TD_FLOAT)})
ROWS(first_grad, run_grad, {"T", TD_BIT(TD_FLOAT)})
ROWS(later_grad, run_grad, {"T", NORM_TYPES}, {"U", TD_BIT(TD_FLOAT)})
ROWS_OF(global, run_global, NULL, {"T", TD_CUDA_FLOATS})

const struct td_op_rows td_cuda_rows_norm[] = {{"FusedBatchNorm", rows_first},
                                               {"FusedBatchNormV2", rows_later},
                                               {"FusedBatchNormV3", rows_later},
                                               {"FusedBatchNormGrad", rows_first_grad},
                                               {"FusedBatchNormGradV2", rows_later_grad},
                                               {"FusedBatchNormGradV3", rows_later_grad},
                                               {"BatchNormWithGlobalNormalization", rows_global},
                                               {NULL, NULL}};
