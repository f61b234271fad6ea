/* kernels/media/glimpse.c - ExtractGlimpse, ExtractGlimpseV2: one window of each image, which may hang over
 * its edge.
 *
 *     images [N,H,W,C]  size [2]  offsets [N,2] (y, x)   ->   windows [N,h,w,C]
 *
 * Offsets are pixels, or parts of the image when `normalized`. The first op always takes an offset for the
 * window's middle, counted from the image's corner or, in half steps, from its middle (`centered`). The
 * second takes it for the window's corner, unless both attributes are set. What lies outside is zero or
 * noise: uniform between the image's extremes, or normal with its mean and deviation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "kernels/ops.h"
#include "kernels/math/random_fill.h"

static enum td_code glimpse_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *at = &c->in[2];
    int64_t size[2] = {-1, -1};
    TD_FAIL_IF(x->rank >= 0 && x->rank != 4, err, INVALID_ARGUMENT,
               "%s: input must be 4-dimensional (batch_size, height, width, depth), got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_TRY(td_infer_rank(c, 1, 1, err));
    TD_FAIL_IF(c->in[1].rank == 1 && c->in[1].dim[0] >= 0 && c->in[1].dim[0] != 2, err, INVALID_ARGUMENT,
               "%s: size must have exactly 2 elements, got %lld", TD_NODE_STR(c->node),
               (long long)c->in[1].dim[0]);
    TD_FAIL_IF((at->rank >= 0 && at->rank != 2) || (at->rank == 2 && at->dim[1] >= 0 && at->dim[1] != 2), err,
               INVALID_ARGUMENT, "%s: offsets must be a matrix of (y, x) rows, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(at));
    TD_FAIL_IF(x->rank == 4 && at->rank == 2 && x->dim[0] >= 0 && at->dim[0] >= 0 && x->dim[0] != at->dim[0],
               err, INVALID_ARGUMENT, "%s: first dimension of offsets %s should be the batch's, %lld",
               TD_NODE_STR(c->node), TD_SHAPE_STR(at), (long long)x->dim[0]);
    for (int i = 0; i < 2 && c->value[1] != NULL; i++) {
        size[i] = td_tensor_int(c->value[1], i);
        TD_FAIL_IF(size[i] < 0, err, INVALID_ARGUMENT, "%s: glimpse size must not be negative, got %lld",
                   TD_NODE_STR(c->node), (long long)size[i]);
    }
    TD_FAIL_IF(
        td_attr_bool(c->node, "uniform_noise") && strcmp(td_attr_str(c->node, "noise"), "uniform") != 0, err,
        INVALID_ARGUMENT, "%s: The uniform_noise and noise could not be specified at the same time",
        TD_NODE_STR(c->node));
    c->out[0] = (struct td_shape){
        4, {x->rank == 4 ? x->dim[0] : -1, size[0], size[1], x->rank == 4 ? x->dim[3] : -1}};
    return TD_OK;
}

struct frame {
    bool corner, centered, normalized;
};

/* Where a window of `size` begins on an axis of length n. */
static int64_t start(const struct frame *f, float offset, int64_t n, int64_t size)
{
    float at = f->normalized ? offset * (float)n : offset;
    if (f->centered) {
        at = (f->corner ? at : at / 2) + (float)n / 2;
    }
    at -= f->corner ? 0 : (float)size / 2;
    return at > -1e9f && at < 1e9f ? (int64_t)at : INT32_MAX; /* NaN is nowhere */
}

/* Fills y with noise as the image of n floats has it. */
static enum td_code make_noise(struct td_call *c, struct td_tensor *y, bool normal, struct td_err *err)
{
    const float *x = c->in[0]->data;
    int64_t n = td_tensor_count(c->in[0]);
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    uint64_t key[3];
    TD_FAIL_IF(getrandom(key, sizeof key, 0) != sizeof key, err, INTERNAL,
               "%s: the system gives no random seed", TD_NODE_STR(c->node));
    TD_TRY(td_random_fill(c, normal ? TD_RANDOM_NORMAL : TD_RANDOM_UNIFORM,
                          td_philox_make(key[0], key[1], key[2]), y, err));
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    double mean = sum / (double)n, deviation = sqrt(fmax(squares / (double)n - mean * mean, 0));
    float *v = y->data;
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        v[i] = (float)(normal ? fmin(fmax(mean + deviation * v[i], low), high) : low + (high - low) * v[i]);
    }
    return TD_OK;
}

static enum td_code glimpse_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const char *noise = td_attr_str(c->node, "noise");
    bool v2 = strcmp(c->node->op_name, "ExtractGlimpseV2") == 0;
    struct frame f = {.centered = td_attr_bool(c->node, "centered"),
                      .normalized = td_attr_bool(c->node, "normalized")};
    f.corner = v2 && !(f.centered && f.normalized);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t *in = c->in[0]->shape.dim, *out = y->shape.dim;
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    memset(y->data, 0, td_tensor_bytes(y));
    if (strcmp(noise, "zero") != 0) {
        TD_TRY(make_noise(c, y, strcmp(noise, "gaussian") == 0, err));
    }
    for (int64_t b = 0; b < in[0]; b++) {
        const float *at = TD_DATA(c->in[2], float) + 2 * b;
        int64_t top = start(&f, at[0], in[1], out[1]), left = start(&f, at[1], in[2], out[2]);
        int64_t from = left < 0 ? -left : 0, to = in[2] - left < out[2] ? in[2] - left : out[2];
        for (int64_t i = 0; i < out[1] && from < to; i++) {
            int64_t row = top + i;
            if (row >= 0 && row < in[1]) {
                memcpy(TD_DATA(y, float) + ((b * out[1] + i) * out[2] + from) * out[3],
                       TD_DATA(c->in[0], float) + ((b * in[1] + row) * in[2] + left + from) * in[3],
                       (size_t)((to - from) * in[3]) * sizeof(float));
            }
        }
    }
    return TD_OK;
}

/* its_grad: TensorFlow says of the first that it has none, and nothing of the second. */
#define GLIMPSE(op, its_grad)                                                                                \
    {                                                                                                        \
        .name = op,                                                                                          \
        .sig = "(input:float, size:int32, offsets:float) -> (glimpse:float) {centered:bool=true; "           \
               "normalized:bool=true; uniform_noise:bool=true; noise:string='uniform'}",                     \
        .host_in = 2, .infer = glimpse_infer, .kernels = TD_KERNEL("glimpse.cpu", glimpse_run, {0}),         \
        .grad = its_grad                                                                                     \
    }

const struct td_op td_ops_glimpse[] = {
    GLIMPSE("ExtractGlimpse", td_not_differentiable),
    GLIMPSE("ExtractGlimpseV2", NULL),
    {.name = NULL},
};
