/* kernels/cuda/nn/picture.c - rows of colours, contrast, CropAndResize and its gradients.
 *
 * Boxes, and of which image each is, come on the host (host_in of the ops' rows): what is out of range is an
 * error, and found before anything is queued. From there they are sent into the workspace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/picture.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/math/reduce.h"
#include "kernels/cuda/rows.h"

/* ------------------------------------------------------------------ colours */

static enum td_code colours(struct td_call *c, enum td_cuda_colour what, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return td_cuda_launched(c,
                            td_cuda_colours(td_cuda_type_of(x->dtype), what, x->data,
                                            c->n_in > 1 ? c->in[1]->data : NULL, y->data,
                                            td_tensor_count(y) / 3, td_cuda_stream_of(c)),
                            err);
}

static enum td_code run_to_hsv(struct td_call *c, struct td_err *err)
{
    return colours(c, TD_CUDA_TO_HSV, err);
}
static enum td_code run_to_rgb(struct td_call *c, struct td_err *err)
{
    return colours(c, TD_CUDA_TO_RGB, err);
}
static enum td_code run_hue(struct td_call *c, struct td_err *err)
{
    return colours(c, TD_CUDA_SHIFT_HUE, err);
}
static enum td_code run_saturation(struct td_call *c, struct td_err *err)
{
    return colours(c, TD_CUDA_SCALE_SATURATION, err);
}

/* ------------------------------------------------------------------ contrast */

static struct td_cuda_contrast contrast_of(const struct td_shape *x)
{
    return (struct td_cuda_contrast){.images = td_shape_range(x, 0, x->rank - 3),
                                     .cells = x->dim[x->rank - 3] * x->dim[x->rank - 2],
                                     .channels = x->dim[x->rank - 1]};
}

static enum td_code prepare_contrast(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    const struct td_cuda_contrast s = contrast_of(&q->in[0]);
    (void)err;
    o->workspace_bytes = td_shape_count(&q->in[0]) == 0 ? 0 : (size_t)(s.images * s.channels) * sizeof(float);
    return TD_OK;
}

static enum td_code run_contrast(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_contrast s = contrast_of(&c->in[0]->shape);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    struct td_cuda_axes axes = {
        .n_kept = s.images * s.channels, .n_folded = s.cells, .rows = s.channels == 1};
    (void)td_cuda_steps_add(&axes.kept, s.channels, 1, 0);
    (void)td_cuda_steps_add(&axes.kept, s.images, s.cells * s.channels, 0);
    (void)td_cuda_steps_add(&axes.folded, s.cells, s.channels, 0);
    TD_TRY(td_cuda_launched(c,
                            td_cuda_reduce(TD_CUDA_MEAN, TD_CUDA_FLOAT, &axes, c->in[0]->data, c->workspace,
                                           td_cuda_stream_of(c)),
                            err));
    s.x = c->in[0]->data;
    s.mean = c->workspace;
    s.factor = c->in[1]->data;
    s.least = c->n_in == 4 ? c->in[2]->data : NULL;
    s.most = c->n_in == 4 ? c->in[3]->data : NULL;
    s.y = y->data;
    return td_cuda_launched(c, td_cuda_contrast_of(&s, td_cuda_stream_of(c)), err);
}

/* ------------------------------------------------------------------ crops */

enum { BOX_BYTES = 4 * sizeof(float) + sizeof(int32_t) };

static int first_of(const struct td_node *n)
{
    return strcmp(n->op_name, "CropAndResizeGradBoxes") == 0 ? 2 : 1;
}

static enum td_code prepare_crop(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                 struct td_err *err)
{
    (void)err;
    o->workspace_bytes = (size_t)q->in[first_of(q->node)].dim[0] * BOX_BYTES;
    return TD_OK;
}

/* Crops of shape `crops` from images of shape `images`; the boxes are sent. */
static enum td_code send_boxes(const struct td_call *c, const struct td_shape *images,
                               const struct td_shape *crops, struct td_cuda_crop *s, struct td_err *err)
{
    const int first = first_of(c->node);
    const struct td_tensor *boxes = c->in[first], *index = c->in[first + 1];
    for (int64_t i = 0; i < td_tensor_count(index); i++) {
        const int64_t v = td_tensor_int(index, i);
        TD_FAIL_IF(v < 0 || v >= images->dim[0], err, OUT_OF_RANGE,
                   "%s: box_index has values outside [0, batch_size): %lld of %lld", TD_NODE_STR(c->node),
                   (long long)v, (long long)images->dim[0]);
    }
    float *const to = c->workspace;
    *s = (struct td_cuda_crop){.n = crops->dim[0],
                               .rows = images->dim[1],
                               .columns = images->dim[2],
                               .channels = images->dim[3],
                               .crop_rows = crops->dim[1],
                               .crop_columns = crops->dim[2],
                               .images = images->dim[0],
                               .boxes = to,
                               .index = to + 4 * crops->dim[0],
                               .nearest = strcmp(td_attr_str(c->node, "method"), "nearest") == 0};
    TD_TRY(td_cuda_send(c, boxes, to, err));
    return td_cuda_send(c, index, to + 4 * crops->dim[0], err);
}

static enum td_code run_crop(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_crop s;
    const struct td_tensor *x = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(send_boxes(c, &x->shape, &y->shape, &s, err));
    for (int64_t i = 0; i < td_tensor_count(c->in[1]); i++) {
        TD_FAIL_IF(!isfinite(TD_DATA(c->in[1], float)[i]), err, INVALID_ARGUMENT,
                   "%s: Boxes contains at least one element that is not finite: number %lld is %g",
                   TD_NODE_STR(c->node), (long long)i, (double)TD_DATA(c->in[1], float)[i]);
    }
    s.outside = (float)td_attr_float(c->node, "extrapolation_value");
    return td_cuda_launched(
        c, td_cuda_crop_to(td_cuda_type_of(x->dtype), &s, x->data, y->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_crop_image(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_cuda_crop s;
    const struct td_tensor *dy = c->in[0];
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    TD_TRY(send_boxes(c, &dx->shape, &dy->shape, &s, err));
    return td_cuda_launched(
        c, td_cuda_crop_image(td_cuda_type_of(dx->dtype), &s, dy->data, dx->data, td_cuda_stream_of(c)), err);
}

static enum td_code run_crop_boxes(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dboxes;
    struct td_cuda_crop s;
    const struct td_tensor *dy = c->in[0], *x = c->in[1];
    TD_TRY(td_out(c, 0, NULL, &dboxes, err));
    TD_TRY(send_boxes(c, &x->shape, &dy->shape, &s, err));
    return td_cuda_launched(c,
                            td_cuda_crop_boxes(td_cuda_type_of(x->dtype), &s, x->data, dy->data, dboxes->data,
                                               td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ the table */

#define ROWS(tag, ready, set)                                                                                \
    TD_CUDA_ROWS(rows_##tag, "picture.cuda", .types = {{"T", set}}, .prepare = ready, .run = run_##tag);
/* delta and scale are float whatever T is. */
#define ADJUSTED (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF))
ROWS(to_hsv, NULL, TD_CUDA_FLOATS)
ROWS(to_rgb, NULL, TD_CUDA_FLOATS)
ROWS(hue, NULL, ADJUSTED)
ROWS(saturation, NULL, ADJUSTED)
ROWS(contrast, prepare_contrast, TD_BIT(TD_FLOAT))
ROWS(crop, prepare_crop, TD_CUDA_NUMBERS)
ROWS(crop_image, prepare_crop, TD_CUDA_WIDE | TD_BIT(TD_HALF))
ROWS(crop_boxes, prepare_crop, TD_CUDA_NUMBERS)

const struct td_op_rows td_cuda_rows_picture[] = {{"RGBToHSV", rows_to_hsv},
                                                  {"HSVToRGB", rows_to_rgb},
                                                  {"AdjustHue", rows_hue},
                                                  {"AdjustSaturation", rows_saturation},
                                                  {"AdjustContrast", rows_contrast},
                                                  {"AdjustContrastv2", rows_contrast},
                                                  {"CropAndResize", rows_crop},
                                                  {"CropAndResizeGradImage", rows_crop_image},
                                                  {"CropAndResizeGradBoxes", rows_crop_boxes},
                                                  {NULL, NULL}};
