/* kernels/nn/norm.c - batch normalisation and its gradient.
 *
 *     x [N,..,C]   scale, offset, mean, variance [C]   ->   y [N,..,C]
 *
 * FusedBatchNorm runs channels last; channels-first input is walked plane by plane instead of being permuted.
 * Statistics are summed in double. Inference is y = x * a + b with a and b worked out once a channel. half
 * and bfloat16 tensors are widened, statistics are always float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/fused/fused_stage.h"
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/nn/norm_batchable.h"
#include "kernels/nn/norm_grad.h"
#include "kernels/nn/norm_loops.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu/window.h"

/* ------------------------------------------------------------------ FusedBatchNorm */

static const char *norm_format(const struct td_node *n)
{
    return td_attr_str(n, "data_format");
}

static struct td_batch_norm norm_of(const struct td_node *n, const struct td_shape *x)
{
    int channel = td_data_layout_of(norm_format(n), x->rank).channel;
    return (struct td_batch_norm){.outer = td_shape_range(x, 0, channel),
                                  .channels = x->dim[channel],
                                  .inner = td_shape_range(x, channel + 1, x->rank),
                                  .epsilon = (float)td_attr_float(n, "epsilon"),
                                  .training = td_attr_bool(n, "is_training")};
}

static enum td_code norm_rank(const struct td_infer *c, int i, struct td_err *err)
{
    const struct td_shape *x = &c->in[i];
    bool v3 = strstr(c->node->op_name, "V3") != NULL;
    TD_FAIL_IF(x->rank >= 0 && x->rank != 4 && !(v3 && x->rank == 5), err, INVALID_ARGUMENT,
               "%s: input must be 4-dimensional%s: %s", TD_NODE_STR(c->node), v3 ? " or 5-dimensional" : "",
               TD_SHAPE_STR(x));
    return TD_OK;
}

/* Input i must be a vector; of `channels` elements unless `may_be_empty` and it has none. Refines *channels.
 */
static enum td_code norm_vector(const struct td_infer *c, int i, const char *what, bool may_be_empty,
                                int64_t *channels, struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    TD_FAIL_IF(s->rank >= 0 && s->rank != 1, err, INVALID_ARGUMENT, "%s: %s must be 1-dimensional: %s",
               TD_NODE_STR(c->node), what, TD_SHAPE_STR(s));
    if (s->rank < 0 || s->dim[0] < 0 || (may_be_empty && s->dim[0] == 0)) {
        return TD_OK;
    }
    TD_FAIL_IF(*channels >= 0 && *channels != s->dim[0], err, INVALID_ARGUMENT,
               "%s: %s must have the same number of elements as the channels of x, got %lld and %lld",
               TD_NODE_STR(c->node), what, (long long)s->dim[0], (long long)*channels);
    *channels = s->dim[0];
    return TD_OK;
}

static enum td_code norm_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_TRY(norm_rank(c, 0, err));
    int64_t channels = x->rank < 0 ? -1 : x->dim[td_data_layout_of(norm_format(c->node), x->rank).channel];
    bool training = td_attr_bool(c->node, "is_training");
    bool empty_ok = training && td_attr_float(c->node, "exponential_avg_factor") == 1.0;
    TD_TRY(norm_vector(c, 1, "scale", false, &channels, err));
    TD_TRY(norm_vector(c, 2, "offset", false, &channels, err));
    TD_TRY(norm_vector(c, 3, "mean", empty_ok, &channels, err));
    TD_TRY(norm_vector(c, 4, "variance", empty_ok, &channels, err));
    c->out[0] = *x;
    for (int i = 1; i < 5; i++) {
        c->out[i] = td_shape_vector(channels);
    }
    if (c->n_out == 6) {
        c->out[5] = td_shape_scalar();
    }
    return TD_OK;
}

struct norm_out {
    float *mean, *variance, *saved_mean, *saved_variance;
};

/* The batch's own statistics: mean, biased variance in saved_*, and what the op reports as running ones. */
static void batch_statistics(const struct td_call *c, const struct td_batch_norm *s, const float *x,
                             double *work, const struct norm_out *out)
{
    double *mean = work, *var = work + s->channels, n = (double)(s->outer * s->inner);
    float factor = (float)td_attr_float(c->node, "exponential_avg_factor");
    td_norm_sums(s, x, NULL, NULL, NULL, mean);
    for (int64_t j = 0; j < s->channels; j++) {
        mean[j] /= n;
    }
    td_norm_sums(s, x, x, mean, mean, var);
    const float *old_mean = c->in[3]->data, *old_var = c->in[4]->data;
    for (int64_t j = 0; j < s->channels; j++) {
        double v = var[j] / n, unbiased = n > 1 ? v * n / (n - 1) : v;
        out->saved_mean[j] = (float)mean[j];
        out->saved_variance[j] = (float)v;
        if (factor == 1.0f) {
            out->mean[j] = (float)mean[j];
            out->variance[j] = (float)unbiased;
        } else {
            out->mean[j] = (1 - factor) * old_mean[j] + factor * (float)mean[j];
            out->variance[j] = (1 - factor) * old_var[j] + factor * (float)unbiased;
        }
    }
}

static void given_statistics(const struct td_call *c, const struct td_batch_norm *s,
                             const struct norm_out *out)
{
    size_t bytes = (size_t)s->channels * sizeof(float);
    if (bytes > 0) {
        memcpy(out->mean, c->in[3]->data, bytes);
        memcpy(out->variance, c->in[4]->data, bytes);
        memcpy(out->saved_mean, c->in[3]->data, bytes);
        memcpy(out->saved_variance, c->in[4]->data, bytes);
    }
}

static enum td_code norm_outputs(struct td_call *c, struct td_tensor **y, struct norm_out *out,
                                 struct td_err *err)
{
    struct td_tensor *t[5];
    TD_TRY(td_out(c, 0, NULL, y, err));
    for (int i = 1; i < 5; i++) {
        TD_TRY(td_out(c, i, NULL, &t[i], err));
    }
    *out = (struct norm_out){t[1]->data, t[2]->data, t[3]->data, t[4]->data};
    if (c->n_out == 6) {
        TD_TRY(td_out(c, 5, NULL, &t[0], err));
        TD_DATA(t[0], float)[0] = 0;
    }
    return TD_OK;
}

static enum td_code norm_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct norm_out out;
    struct td_batch_norm s = norm_of(c->node, &c->in[0]->shape);
    TD_TRY(norm_outputs(c, &y, &out, err));
    const float *x, *scale = c->in[1]->data, *offset = c->in[2]->data;
    float *to;
    void *work;
    TD_TRY(td_scratch(c, (size_t)s.channels * 2 * sizeof(double), &work, err));
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(td_upcast_room(c, y, &to, err));
    if (s.outer * s.inner == 0) { /* TensorFlow answers NaN statistics for an empty batch */
        for (int64_t j = 0; j < s.channels; j++) {
            out.mean[j] = out.variance[j] = out.saved_mean[j] = out.saved_variance[j] = NAN;
        }
        return TD_OK;
    }
    if (s.training) {
        batch_statistics(c, &s, x, work, &out);
    } else {
        given_statistics(c, &s, &out);
    }
    float *a = work;
    for (int64_t j = 0; j < s.channels; j++) {
        a[j] = scale[j] / sqrtf(out.saved_variance[j] + s.epsilon);
    }
    td_norm_affine(&s, x, out.saved_mean, a, offset, to);
    td_downcast(y, to);
    return TD_OK;
}

/* ------------------------------------------------------------------ FusedBatchNormGrad */

static enum td_code norm_grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(norm_rank(c, 0, err));
    TD_TRY(norm_rank(c, 1, err));
    struct td_shape x;
    TD_FAIL_IF(!td_shape_compatible(&c->in[0], &c->in[1]), err, INVALID_ARGUMENT,
               "%s: x and y_backprop must have same shape, but x has shape %s and y_backprop has shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[0]));
    TD_TRY(td_shape_merge(&c->in[0], &c->in[1], &x, err));
    int64_t channels = x.rank < 0 ? -1 : x.dim[td_data_layout_of(norm_format(c->node), x.rank).channel];
    TD_TRY(norm_vector(c, 2, "scale", false, &channels, err));
    TD_TRY(norm_vector(c, 3, "reserve_space_1", false, &channels, err));
    TD_TRY(norm_vector(c, 4, "reserve_space_2", false, &channels, err));
    c->out[0] = x;
    c->out[1] = c->out[2] = td_shape_vector(channels);
    c->out[3] = c->out[4] = td_shape_vector(0);
    return TD_OK;
}

static enum td_code norm_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx, *t[5];
    struct td_batch_norm s = norm_of(c->node, &c->in[1]->shape);
    struct td_norm_grad g = {.scale = c->in[2]->data, .mean = c->in[3]->data, .variance = c->in[4]->data};
    void *work;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    for (int i = 1; i < 5; i++) {
        TD_TRY(td_out(c, i, NULL, &t[i], err));
    }
    g.dscale = t[1]->data;
    g.doffset = t[2]->data;
    TD_TRY(td_scratch(c, (size_t)s.channels * TD_NORM_GRAD_WORK * sizeof(double), &work, err));
    TD_TRY(td_upcast(c, c->in[0], &g.dy, err));
    TD_TRY(td_upcast(c, c->in[1], &g.x, err));
    TD_TRY(td_upcast_room(c, dx, &g.dx, err));
    td_norm_backward(&s, &g, work);
    td_downcast(dx, g.dx);
    return TD_OK;
}

/* ------------------------------------------------------------------ BatchNormWithGlobalNormalization */

static enum td_code global_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_TRY(td_infer_rank(c, 0, 4, err));
    int64_t channels = x->rank < 0 ? -1 : x->dim[3];
    const char *const names[] = {"t", "m", "v", "beta", "gamma"};
    for (int i = 1; i < 5; i++) {
        TD_TRY(norm_vector(c, i, names[i], false, &channels, err));
    }
    c->out[0] = *x;
    return TD_OK;
}

static void global_f64(struct td_call *c, struct td_tensor *y)
{
    const double *t = TD_DATA(c->in[0], double), *m = TD_DATA(c->in[1], double),
                 *v = TD_DATA(c->in[2], double);
    const double *beta = TD_DATA(c->in[3], double), *gamma = TD_DATA(c->in[4], double);
    bool scaled = td_attr_bool(c->node, "scale_after_normalization");
    float eps = (float)td_attr_float(c->node, "variance_epsilon");
    for (int64_t i = 0, n = y->shape.dim[3]; i < td_tensor_count(y); i++) {
        int64_t j = i % n;
        double a = 1 / sqrt(v[j] + eps) * (scaled ? gamma[j] : 1);
        TD_DATA(y, double)[i] = (t[i] - m[j]) * a + beta[j];
    }
}

static enum td_code global_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (y->dtype == TD_DOUBLE) {
        global_f64(c, y);
        return TD_OK;
    }
    const float *in[5];
    float *to;
    for (int i = 0; i < 5; i++) {
        TD_TRY(td_upcast(c, c->in[i], &in[i], err));
    }
    int64_t n = y->shape.dim[3];
    void *work;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(float), &work, err));
    TD_TRY(td_scratch(c, (size_t)td_tensor_count(y) * sizeof(float), (void **)&to, err));
    float *a = work, eps = (float)td_attr_float(c->node, "variance_epsilon");
    for (int64_t j = 0; j < n; j++) {
        a[j] =
            1 / sqrtf(in[2][j] + eps) * (td_attr_bool(c->node, "scale_after_normalization") ? in[4][j] : 1);
    }
    struct td_batch_norm s = {.outer = td_shape_range(&y->shape, 0, 3), .channels = n, .inner = 1};
    td_norm_affine(&s, in[0], in[1], a, in[3], to);
    if (y->dtype == TD_FLOAT && td_tensor_count(y) > 0) {
        memcpy(y->data, to, (size_t)td_tensor_count(y) * sizeof *to);
    }
    td_downcast(y, to);
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_NORM (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))
#define FORMAT2 "data_format:string='NHWC' in ['NHWC','NCHW']"
#define FORMAT3 "data_format:string='NHWC' in ['NHWC','NCHW','NDHWC','NCDHW']"
#define EPSILON "epsilon:float=9.999999747378752e-05; "
#define FACTOR "exponential_avg_factor:float=1.0; "
#define NORM_ROW TD_KERNEL("batch_norm.cpu", norm_run, {"T", SET_NORM}, {"U", TD_BIT(TD_FLOAT)})
#define NORM_GRAD_ROW                                                                                        \
    TD_KERNEL("batch_norm_grad.cpu", norm_grad_run, {"T", SET_NORM}, {"U", TD_BIT(TD_FLOAT)})

const struct td_op td_ops_norm[] = {
    {.name = "FusedBatchNorm",
     .sig = "(x:T, scale:T, offset:T, mean:T, variance:T) -> (y:T, batch_mean:T, batch_variance:T, "
            "reserve_space_1:T, "
            "reserve_space_2:T) {T:type; " EPSILON FACTOR FORMAT2 "; is_training:bool=true}",
     .permute = &td_permute_channels,
     .fuse = TD_FUSE_NORM,
     .batchable = TD_BATCHABLE(td_batchable_norm),
     .infer = norm_infer,
     .kernels = TD_KERNEL("batch_norm.cpu", norm_run, {"T", TD_BIT(TD_FLOAT)}),
     .grad = td_batch_norm_grad},
    {.name = "FusedBatchNormV2",
     .sig = "(x:T, scale:U, offset:U, mean:U, variance:U) -> (y:T, batch_mean:U, batch_variance:U, "
            "reserve_space_1:U, "
            "reserve_space_2:U) {T:type; U:type; " EPSILON FACTOR FORMAT2 "; is_training:bool=true}",
     .permute = &td_permute_channels,
     .fuse = TD_FUSE_NORM,
     .batchable = TD_BATCHABLE(td_batchable_norm),
     .infer = norm_infer,
     .kernels = NORM_ROW,
     .grad = td_batch_norm_grad},
    {.name = "FusedBatchNormV3",
     .sig = "(x:T, scale:U, offset:U, mean:U, variance:U) -> (y:T, batch_mean:U, batch_variance:U, "
            "reserve_space_1:U, "
            "reserve_space_2:U, reserve_space_3:U) {T:type; U:type; " EPSILON FACTOR FORMAT3
            "; is_training:bool=true}",
     .permute = &td_permute_channels,
     .fuse = TD_FUSE_NORM,
     .batchable = TD_BATCHABLE(td_batchable_norm),
     .infer = norm_infer,
     .kernels = NORM_ROW,
     .grad = td_batch_norm_grad},
    {.name = "FusedBatchNormGrad",
     .sig = "(y_backprop:T, x:T, scale:T, reserve_space_1:T, reserve_space_2:T) -> (x_backprop:T, "
            "scale_backprop:T, "
            "offset_backprop:T, reserve_space_3:T, reserve_space_4:T) {T:type; " EPSILON FORMAT2
            "; is_training:bool=true}",
     .batchable = TD_BATCHABLE(td_batchable_norm_grad),
     .infer = norm_grad_infer,
     .kernels = TD_KERNEL("batch_norm_grad.cpu", norm_grad_run, {"T", TD_BIT(TD_FLOAT)}),
     .grad = td_batch_norm_grad_grad},
    {.name = "FusedBatchNormGradV2",
     .sig = "(y_backprop:T, x:T, scale:float, reserve_space_1:U, reserve_space_2:U) -> (x_backprop:T, "
            "scale_backprop:U, "
            "offset_backprop:U, reserve_space_3:U, reserve_space_4:U) {T:type; U:type; " EPSILON FORMAT2
            "; is_training:bool=true}",
     .batchable = TD_BATCHABLE(td_batchable_norm_grad),
     .infer = norm_grad_infer,
     .kernels = NORM_GRAD_ROW,
     .grad = td_batch_norm_grad_grad},
    {.name = "FusedBatchNormGradV3",
     .sig =
         "(y_backprop:T, x:T, scale:float, reserve_space_1:U, reserve_space_2:U, reserve_space_3:U) -> "
         "(x_backprop:T, scale_backprop:U, offset_backprop:U, reserve_space_4:U, reserve_space_5:U) {T:type; "
         "U:type; " EPSILON FORMAT3 "; is_training:bool=true}",
     .batchable = TD_BATCHABLE(td_batchable_norm_grad),
     .infer = norm_grad_infer,
     .kernels = NORM_GRAD_ROW,
     .grad = td_batch_norm_grad_grad},
    {.name = "BatchNormWithGlobalNormalization",
     .sig = "(t:T, m:T, v:T, beta:T, gamma:T) -> (result:T) {T:type; variance_epsilon:float; "
            "scale_after_normalization:bool}",
     .infer = global_infer,
     .kernels = TD_KERNEL("batch_norm.cpu", global_run, {"T", SET_NORM | TD_BIT(TD_DOUBLE)}),
     .grad = td_global_batch_norm_grad},
    {.name = NULL},
};
