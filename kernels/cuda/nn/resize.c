/* kernels/cuda/nn/resize.c - rows of the resizes, ScaleAndTranslate, and their gradients. Sizes, scales and
 * translations come on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/resize.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"

/* ------------------------------------------------------------------ resizes */

static enum td_cuda_taps taps_of(const struct td_node *n)
{
    return strstr(n->op_name, "Bicubic") != NULL ? TD_CUDA_CUBIC
           : strstr(n->op_name, "Area") != NULL  ? TD_CUDA_AREA
                                                 : TD_CUDA_LINEAR;
}

static struct td_cuda_resize_axis axis_of(const struct td_node *n, enum td_cuda_taps taps, int64_t in,
                                          int64_t out)
{
    const bool align = td_attr_bool(n, "align_corners");
    struct td_cuda_resize_axis a = {.in = in,
                                    .out = out,
                                    .scale = align && out > 1 ? (float)(in - 1) / (float)(out - 1)
                                                              : (float)in / (float)out,
                                    .half = taps != TD_CUDA_AREA && td_attr_bool(n, "half_pixel_centers"),
                                    .align = align};
    if (taps == TD_CUDA_AREA) {
        a.scale = a.scale == 0 ? 1 / (float)out : a.scale; /* align_corners of one cell */
        const float most = ceilf(a.scale) + 2;
        a.most = most < (float)in + 2 ? (int64_t)most : in + 2;
    } else {
        a.most = taps == TD_CUDA_CUBIC ? 4 : 2;
    }
    return a;
}

/* Between images of these shapes, forwards. */
static struct td_cuda_resize resize_of(const struct td_node *n, const struct td_shape *in,
                                       const struct td_shape *out)
{
    struct td_cuda_resize s = {.taps = taps_of(n), .images = in->dim[0], .channels = in->dim[3], .scale = 1};
    for (int a = 0; a < 2; a++) {
        s.axis[a] = axis_of(n, s.taps, in->dim[1 + a], out->dim[1 + a]);
        s.scale /= s.taps == TD_CUDA_AREA ? (double)s.axis[a].scale : 1;
    }
    return s;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const bool grad = strstr(q->node->op_name, "Grad") != NULL;
    const struct td_cuda_resize s =
        resize_of(q->node, grad ? &q->out[0] : &q->in[0], grad ? &q->in[0] : &q->out[0]);
    (void)err;
    o->workspace_bytes = td_shape_count(&q->out[0]) == 0 ? 0 : td_cuda_resize_work(&s);
    return TD_OK;
}

static enum td_code forwards(struct td_call *c, const struct td_cuda_resize *s, struct td_tensor *y,
                             struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    return td_tensor_count(y) == 0
               ? TD_OK
               : td_cuda_launched(c,
                                  td_cuda_resize_to(td_cuda_type_of(x->dtype), s, x->data, y->data,
                                                    c->workspace, td_cuda_stream_of(c)),
                                  err);
}

static enum td_code backwards(struct td_call *c, const struct td_cuda_resize *s, struct td_tensor *dx,
                              struct td_err *err)
{
    return td_tensor_count(dx) == 0
               ? TD_OK
               : td_cuda_launched(c,
                                  td_cuda_resize_grad(td_cuda_type_of(dx->dtype), s, c->in[0]->data, dx->data,
                                                      c->workspace, td_cuda_stream_of(c)),
                                  err);
}

static enum td_code run_resize(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_resize s = resize_of(c->node, &c->in[0]->shape, &y->shape);
    return forwards(c, &s, y, err);
}

static enum td_code run_resize_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_cuda_resize s = resize_of(c->node, &dx->shape, &c->in[0]->shape);
    return backwards(c, &s, dx, err);
}

/* ------------------------------------------------------------------ the nearest cell */

static enum td_code run_nearest(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_resize s = resize_of(c->node, &x->shape, &y->shape);
    return td_cuda_launched(
        c, td_cuda_nearest(td_dtype_size(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_nearest_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    const struct td_tensor *dy = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_cuda_resize s = resize_of(c->node, &dx->shape, &dy->shape);
    return td_cuda_launched(
        c, td_cuda_nearest_grad(td_cuda_type_of(dx->dtype), &s, dy->data, dx->data, td_cuda_stream_of(c)),
        err);
}

/* ------------------------------------------------------------------ ScaleAndTranslate */

static const struct kernel {
    const char *name;
    enum td_cuda_kernel kernel;
    float radius;
} kernels[] = {
    {"lanczos1", TD_CUDA_LANCZOS, 1}, {"lanczos3", TD_CUDA_LANCZOS, 3},
    {"lanczos5", TD_CUDA_LANCZOS, 5}, {"gaussian", TD_CUDA_GAUSSIAN, 1.5F},
    {"box", TD_CUDA_BOX, 1},          {"triangle", TD_CUDA_TRIANGLE, 1},
    {"keyscubic", TD_CUDA_KEYS, 2},   {"mitchellcubic", TD_CUDA_MITCHELL, 2},
};

static const struct kernel *kernel_of(const struct td_node *n)
{
    const struct kernel *k = kernels;
    while (strcmp(k->name, td_attr_str(n, "kernel_type")) != 0) { /* infer has looked for it */
        k++;
    }
    return k;
}

/* scale and shift: inputs 2 and 3 on the host; NULL: not known, and spans are as long as they may be. */
static struct td_cuda_resize sampling_of(const struct td_node *n, const struct td_shape *in,
                                         const struct td_shape *out, const struct td_tensor *scale,
                                         const struct td_tensor *shift)
{
    const struct kernel *k = kernel_of(n);
    struct td_cuda_resize s = {.taps = TD_CUDA_SAMPLED,
                               .kernel = k->kernel,
                               .images = in->dim[0],
                               .channels = in->dim[3],
                               .scale = 1};
    for (int a = 0; a < 2; a++) {
        struct td_cuda_resize_axis *x = &s.axis[a];
        *x = (struct td_cuda_resize_axis){
            .in = in->dim[1 + a], .out = out->dim[1 + a], .most = in->dim[1 + a], .radius = k->radius};
        if (scale != NULL && shift != NULL) {
            x->scale = 1 / TD_DATA(scale, float)[a];
            x->shift = -x->scale * TD_DATA(shift, float)[a];
            x->reach = td_attr_bool(n, "antialias") && x->scale > 1 ? x->scale : 1;
            const float width = 2 * ceilf(k->radius * x->reach) + 1;
            x->most = width < (float)x->in ? (int64_t)width : x->in;
        }
    }
    return s;
}

static enum td_code prepare_sampling(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    const bool grad = strstr(q->node->op_name, "Grad") != NULL;
    const struct td_cuda_resize s = sampling_of(q->node, grad ? &q->out[0] : &q->in[0],
                                                grad ? &q->in[0] : &q->out[0], q->value[2], q->value[3]);
    (void)err;
    o->workspace_bytes = td_shape_count(&q->out[0]) == 0 ? 0 : td_cuda_resize_work(&s);
    return TD_OK;
}

/* Floats are not judged by value before a run (core/run/bound_plan.h). */
static enum td_code check_scale(const struct td_call *c, struct td_err *err)
{
    for (int a = 0; a < 2; a++) {
        const float v = TD_DATA(c->in[2], float)[a];
        TD_FAIL_IF(!(v > 0), err, INVALID_ARGUMENT, "%s: Scale must be greater than zero, got %g",
                   TD_NODE_STR(c->node), (double)v);
    }
    return TD_OK;
}

static enum td_code run_sampling(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(check_scale(c, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_cuda_resize s = sampling_of(c->node, &c->in[0]->shape, &y->shape, c->in[2], c->in[3]);
    return forwards(c, &s, y, err);
}

static enum td_code run_sampling_grad(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    TD_TRY(check_scale(c, err));
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_cuda_resize s = sampling_of(c->node, &dx->shape, &c->in[0]->shape, c->in[2], c->in[3]);
    return backwards(c, &s, dx, err);
}

/* ------------------------------------------------------------------ the table */

#define ROWS(tag, ready, set)                                                                                \
    TD_CUDA_ROWS(rows_##tag, "resize.cuda", .types = {{"T", set}}, .prepare = ready, .run = run_##tag);
ROWS(resize, prepare, TD_CUDA_NUMBERS)
ROWS(resize_grad, prepare, TD_CUDA_FLOATS)
ROWS(nearest, NULL, TD_SET_REALS)
ROWS(nearest_grad, NULL, TD_CUDA_FLOATS)
ROWS(sampling, prepare_sampling, TD_CUDA_NUMBERS)
ROWS(sampling_grad, prepare_sampling, TD_BIT(TD_FLOAT))

const struct td_op_rows td_cuda_rows_resize[] = {{"ResizeBilinear", rows_resize},
                                                 {"ResizeBicubic", rows_resize},
                                                 {"ResizeArea", rows_resize},
                                                 {"ResizeNearestNeighbor", rows_nearest},
                                                 {"ResizeBilinearGrad", rows_resize_grad},
                                                 {"ResizeBicubicGrad", rows_resize_grad},
                                                 {"ResizeNearestNeighborGrad", rows_nearest_grad},
                                                 {"ScaleAndTranslate", rows_sampling},
                                                 {"ScaleAndTranslateGrad", rows_sampling_grad},
                                                 {NULL, NULL}};
