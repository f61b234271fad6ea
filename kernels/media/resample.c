/* kernels/media/resample.c - ScaleAndTranslate and its gradient.
 *
 *     images [N,H,W,C]  ->  [N,H',W',C]     out(p) = kernel-weighted source around (p - t) / s
 *
 * The gradient puts back with the weights of the forward pass. Results are float whatever the image's type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/media/resample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/media/separable.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"

static const float PI = 3.14159265359f;

/* ------------------------------------------------------------------ sampling kernels; x >= 0 */

static float lanczos(float x, float radius)
{
    if (x > radius) {
        return 0;
    }
    return x <= 1e-3f ? 1 : radius * sinf(PI * x) * sinf(PI * x / radius) / (PI * PI * x * x);
}
static float lanczos1(float x)
{
    return lanczos(x, 1);
}
static float lanczos3(float x)
{
    return lanczos(x, 3);
}
static float lanczos5(float x)
{
    return lanczos(x, 5);
}
static float gaussian(float x)
{
    return x >= 1.5f ? 0 : expf(-x * x / (2 * 0.5f * 0.5f));
}
static float box(float x)
{
    return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0;
}
static float triangle(float x)
{
    return x < 1 ? 1 - x : 0;
}
static float keys_cubic(float x)
{
    if (x >= 2) {
        return 0;
    }
    return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
}
static float mitchell_cubic(float x)
{
    if (x >= 2) {
        return 0;
    }
    return x >= 1 ? ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9
                  : (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
}

static const struct kernel {
    const char *name;
    float radius;
    float (*weight)(float x);
} kernels[] = {
    {"lanczos1", 1, lanczos1},
    {"lanczos3", 3, lanczos3},
    {"lanczos5", 5, lanczos5},
    {"gaussian", 1.5f, gaussian},
    {"box", 1, box},
    {"triangle", 1, triangle},
    {"keyscubic", 2, keys_cubic},
    {"mitchellcubic", 2, mitchell_cubic},
};

static const struct kernel *kernel_of(const struct td_node *n)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (strcmp(kernels[i].name, td_attr_str(n, "kernel_type")) == 0) {
            return &kernels[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ ScaleAndTranslate */

static enum td_code check_pair(const struct td_infer *c, int i, const char *what, struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    TD_FAIL_IF((s->rank >= 0 && s->rank != 1) || (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 2), err,
               INVALID_ARGUMENT, "%s: %s must be 1-dimensional with two elements, got %s",
               TD_NODE_STR(c->node), what, TD_SHAPE_STR(s));
    return TD_OK;
}

enum td_code td_resample_check_image(const struct td_infer *c, int i, struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    TD_FAIL_IF(s->rank >= 0 && s->rank != 4, err, INVALID_ARGUMENT, "%s: input image must be 4-dimensional%s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 4 && (s->dim[1] == 0 || s->dim[2] == 0), err, INVALID_ARGUMENT,
               "%s: image dimensions must be positive, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    return TD_OK;
}

static enum td_code scale_infer(struct td_infer *c, struct td_err *err)
{
    bool grad = strcmp(c->node->op_name, "ScaleAndTranslateGrad") == 0;
    TD_FAIL_IF(kernel_of(c->node) == NULL, err, INVALID_ARGUMENT, "%s: Unrecognized kernel type: %s",
               TD_NODE_STR(c->node), td_attr_str(c->node, "kernel_type"));
    TD_TRY(td_resample_check_image(c, 0, err));
    TD_TRY(check_pair(c, 2, "scale", err));
    TD_TRY(check_pair(c, 3, "translation", err));
    const struct td_shape *x = &c->in[0];
    if (grad) {
        TD_TRY(td_resample_check_image(c, 1, err));
        c->out[0] = c->in[1];
        if (c->in[1].rank == 4 && x->rank == 4) {
            TD_FAIL_IF(!td_shape_compatible(&(struct td_shape){1, {x->dim[3]}},
                                            &(struct td_shape){1, {c->in[1].dim[3]}}) ||
                           (x->dim[0] >= 0 && c->in[1].dim[0] >= 0 && x->dim[0] != c->in[1].dim[0]),
                       err, INVALID_ARGUMENT,
                       "%s: grads %s and original_image %s must agree in batch and channels",
                       TD_NODE_STR(c->node), TD_SHAPE_STR(x), TD_SHAPE_STR(&c->in[1]));
        }
        return TD_OK;
    }
    TD_TRY(check_pair(c, 1, "output shape", err));
    c->out[0] = td_shape_of_rank(4);
    for (int a = 0; a < 2 && c->value[1] != NULL; a++) {
        c->out[0].dim[1 + a] = td_tensor_int(c->value[1], a);
        TD_FAIL_IF(c->out[0].dim[1 + a] <= 0, err, INVALID_ARGUMENT,
                   "%s: output dimensions must be positive, got %lld", TD_NODE_STR(c->node),
                   (long long)c->out[0].dim[1 + a]);
    }
    c->out[0].dim[0] = x->rank == 4 ? x->dim[0] : -1;
    c->out[0].dim[3] = x->rank == 4 ? x->dim[3] : -1;
    return TD_OK;
}

/* The shape function is not asked again where floats come with a run. */
static enum td_code check_scale(const struct td_call *c, struct td_err *err)
{
    for (int a = 0; a < 2; a++) {
        const float v = TD_DATA(c->in[2], float)[a];
        TD_FAIL_IF(!(v > 0), err, INVALID_ARGUMENT, "%s: Scale must be greater than zero, got %g",
                   TD_NODE_STR(c->node), (double)v);
    }
    return TD_OK;
}

static void span_weights(const struct kernel *k, float reach, float sample, int64_t o,
                         struct td_separable_axis *s)
{
    int64_t from = (int64_t)ceilf(sample - k->radius * reach - 0.5f), in = s->in;
    int64_t to = (int64_t)floorf(sample + k->radius * reach - 0.5f);
    from = from < 0 ? 0 : from >= in ? in - 1 : from;
    to = (to < 0 ? 0 : to >= in ? in - 1 : to) + 1;
    int64_t n = to - from < s->most ? to - from : s->most;
    float total = 0, *w = s->weight + o * s->most;
    for (int64_t i = 0; i < n; i++) {
        w[i] = k->weight(fabsf(((float)(from + i) + 0.5f - sample) / reach));
        total += w[i];
    }
    for (int64_t i = 0; i < n && fabsf(total) >= 1000 * FLT_MIN; i++) {
        w[i] *= 1 / total;
    }
    /* the span goes on to its full width with weights of zero: TensorFlow lets NaN and infinities there
     * through */
    int64_t all = in - from < s->most ? in - from : s->most;
    for (int64_t i = n; i < all; i++) {
        w[i] = 0;
    }
    for (int64_t i = 0; i < all; i++) {
        s->at[o * s->most + i] = from + i;
    }
    s->count[o] = fabsf(total) >= 1000 * FLT_MIN ? all : 0;
}

static enum td_code make_spans(struct td_call *c, int axis, int64_t in, int64_t out,
                               struct td_separable_axis *s, struct td_err *err)
{
    const struct kernel *k = kernel_of(c->node);
    float inverse = 1 / TD_DATA(c->in[2], float)[axis], shift = -inverse * TD_DATA(c->in[3], float)[axis];
    float reach = td_attr_bool(c->node, "antialias") && inverse > 1 ? inverse : 1;
    float width = 2 * ceilf(k->radius * reach) + 1;
    TD_TRY(td_separable_axis_new(c, in, out, width < (float)in ? (int64_t)width : in, s, err));
    for (int64_t o = 0; o < out; o++) {
        float sample = ((float)o + 0.5f) * inverse + shift;
        s->count[o] = 0;
        if (sample >= 0 && sample <= (float)in) { /* outside the image nothing is sampled */
            span_weights(k, reach, sample, o, s);
        }
    }
    return TD_OK;
}

/* to += weight * from, over n floats */
void td_resample_add(float *to, const float *from, float weight, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] += weight * from[i];
    }
}

/* The gradient of output cell (i, j) of an image goes to the cells it was made of, image dx. */
static void unsample_cell(const struct td_separable *s, float *dx, int64_t i, int64_t j, const float *dy)
{
    const int64_t *row = s->row.at + i * s->row.most, *col = s->col.at + j * s->col.most;
    for (int64_t a = 0; a < s->row.count[i]; a++) {
        for (int64_t b = 0; b < s->col.count[j]; b++) {
            float weight = s->row.weight[i * s->row.most + a] * s->col.weight[j * s->col.most + b];
            td_resample_add(dx + (row[a] * s->col.in + col[b]) * s->channels, dy, weight, s->channels);
        }
    }
}

static enum td_code unsample(struct td_call *c, const struct td_separable *s, const float *dy,
                             struct td_tensor *dx, struct td_err *err)
{
    float *to = dx->data;
    memset(to, 0, td_tensor_bytes(dx));
    for (int64_t b = 0; b < s->images; b++, to += s->row.in * s->col.in * s->channels) {
        for (int64_t i = 0; i < s->row.out; i++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            for (int64_t j = 0; j < s->col.out; j++, dy += s->channels) {
                unsample_cell(s, to, i, j, dy);
            }
        }
    }
    return TD_OK;
}

static enum td_code scale_any(struct td_call *c, bool grad, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(check_scale(c, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    const struct td_shape *in = grad ? &y->shape : &c->in[0]->shape,
                          *out = grad ? &c->in[0]->shape : &y->shape;
    const float *x;
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    struct td_separable s = {.images = out->dim[0], .channels = in->dim[3], .scale = 1};
    TD_TRY(make_spans(c, 0, in->dim[1], out->dim[1], &s.row, err));
    TD_TRY(make_spans(c, 1, in->dim[2], out->dim[2], &s.col, err));
    return grad ? unsample(c, &s, x, y, err) : td_separable_float(c, &s, x, y->data, err);
}

static enum td_code scale_run(struct td_call *c, struct td_err *err)
{
    return scale_any(c, false, err);
}
static enum td_code scale_grad_run(struct td_call *c, struct td_err *err)
{
    return scale_any(c, true, err);
}

/* ------------------------------------------------------------------ gradients */

static void scale_grad(struct td_grad *g)
{
    const struct td_value image = td_grad_in(g, 0);
    if (!td_grad_wants(g, 0)) {
        return;
    }
    if (td_dtype_of(image) != TD_FLOAT) {
        td_emit_fail(g->e, TD_UNIMPLEMENTED, "%s has a gradient by images of float alone, not of %s",
                     TD_NODE_STR(g->node), td_dtype_name(td_dtype_of(image)));
        return;
    }
    td_grad_give(g, 0,
                 td_f_as(g->e, "ScaleAndTranslateGrad",
                         TD_IN(td_grad_at(g, 0), image, td_grad_in(g, 2), td_grad_in(g, 3)), g->node,
                         "kernel_type,antialias"));
}

/* ------------------------------------------------------------------ table */

#define KERNEL_ATTRS "{T:type; kernel_type:string='lanczos3'; antialias:bool=true}"

const struct td_op td_ops_resample[] = {
    {.name = "ScaleAndTranslate",
     .sig = "(images:T, size:int32, scale:float, translation:float) -> (resized_images:float) " KERNEL_ATTRS,
     .host_in = 14,
     .infer = scale_infer,
     .kernels = TD_KERNEL("scale_and_translate.cpu", scale_run, {"T", TD_SET_REALS}),
     .grad = scale_grad},
    {.name = "ScaleAndTranslateGrad",
     .sig = "(grads:T, original_image:T, scale:float, translation:float) -> (output:T) " KERNEL_ATTRS,
     .host_in = 12,
     .infer = scale_infer,
     .kernels = TD_KERNEL("scale_and_translate_grad.cpu", scale_grad_run, {"T", TD_BIT(TD_FLOAT)})},
    {.name = NULL},
};
