/* kernels/media/crop_resize.c - CropAndResize and its gradients.
 *
 *     image [N,H,W,C], boxes [B,4] in parts of the image, box_ind [B]  ->  [B,h,w,C]
 *
 * The gradient towards the image puts back with the weights of the forward pass. Results are float whatever
 * the image's type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/media/resample.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

static enum td_code check_boxes(const struct td_infer *c, int boxes, int index, struct td_err *err)
{
    const struct td_shape *b = &c->in[boxes], *i = &c->in[index];
    TD_FAIL_IF((b->rank >= 0 && b->rank != 2) || (b->rank == 2 && b->dim[1] >= 0 && b->dim[1] != 4), err,
               INVALID_ARGUMENT, "%s: boxes must be 2-D with 4 columns, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(b));
    TD_FAIL_IF((i->rank >= 0 && i->rank != 1) || (i->rank == 1 && b->rank == 2 && i->dim[0] >= 0 &&
                                                  b->dim[0] >= 0 && i->dim[0] != b->dim[0]),
               err, INVALID_ARGUMENT, "%s: box_index has incompatible shape %s for boxes %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(i), TD_SHAPE_STR(b));
    return TD_OK;
}

static enum td_code crop_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *s = &c->in[3];
    TD_TRY(td_resample_check_image(c, 0, err));
    TD_TRY(check_boxes(c, 1, 2, err));
    TD_FAIL_IF((s->rank >= 0 && s->rank != 1) || (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 2), err,
               INVALID_ARGUMENT, "%s: crop_size must have two elements, got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(s));
    c->out[0] = td_shape_of_rank(4);
    c->out[0].dim[0] = c->in[1].rank == 2 ? c->in[1].dim[0] : -1;
    c->out[0].dim[3] = x->rank == 4 ? x->dim[3] : -1;
    for (int a = 0; a < 2 && c->value[3] != NULL; a++) {
        c->out[0].dim[1 + a] = td_tensor_int(c->value[3], a);
        TD_FAIL_IF(c->out[0].dim[1 + a] <= 0, err, INVALID_ARGUMENT,
                   "%s: crop dimensions must be positive, got %lld", TD_NODE_STR(c->node),
                   (long long)c->out[0].dim[1 + a]);
    }
    return TD_OK;
}

static enum td_code crop_grads(const struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_resample_check_image(c, 0, err));
    const struct td_shape *g = &c->in[0],
                          *b = &c->in[strcmp(c->node->op_name, "CropAndResizeGradBoxes") == 0 ? 2 : 1];
    TD_FAIL_IF(g->rank == 4 && b->rank == 2 && g->dim[0] >= 0 && b->dim[0] >= 0 && g->dim[0] != b->dim[0],
               err, INVALID_ARGUMENT, "%s: boxes and grads have incompatible shape: %s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(b), TD_SHAPE_STR(g));
    return TD_OK;
}

static enum td_code crop_image_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(crop_grads(c, err));
    TD_TRY(check_boxes(c, 1, 2, err));
    struct td_shape s;
    TD_TRY(td_infer_shape_value(c, 3, false, &s, err));
    TD_FAIL_IF(s.rank >= 0 && s.rank != 4, err, INVALID_ARGUMENT,
               "%s: image_size must have 4 elements, got %d", TD_NODE_STR(c->node), s.rank);
    c->out[0] = s.rank < 0 ? td_shape_of_rank(4) : s;
    TD_FAIL_IF(td_shape_known(&c->out[0]) && c->in[0].rank == 4 && c->in[0].dim[3] >= 0 &&
                   c->in[0].dim[3] != s.dim[3],
               err, INVALID_ARGUMENT, "%s: image_size %s and grads %s are incompatible", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&s), TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(td_shape_known(&c->out[0]) && (s.dim[1] <= 0 || s.dim[2] <= 0), err, INVALID_ARGUMENT,
               "%s: image dimensions must be positive, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&s));
    return TD_OK;
}

static enum td_code crop_boxes_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(crop_grads(c, err));
    TD_TRY(td_resample_check_image(c, 1, err));
    TD_TRY(check_boxes(c, 2, 3, err));
    TD_FAIL_IF(c->in[0].rank == 4 && c->in[1].rank == 4 && c->in[0].dim[3] >= 0 && c->in[1].dim[3] >= 0 &&
                   c->in[0].dim[3] != c->in[1].dim[3],
               err, INVALID_ARGUMENT, "%s: image, grads depth differ: %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[0]));
    c->out[0] = c->in[2];
    return TD_OK;
}

static enum td_code check_index(const struct td_call *c, const struct td_tensor *index, int64_t batch,
                                struct td_err *err)
{
    for (int64_t i = 0; i < td_tensor_count(index); i++) {
        int64_t v = td_tensor_int(index, i);
        TD_FAIL_IF(v < 0 || v >= batch, err, OUT_OF_RANGE,
                   "%s: box_index has values outside [0, batch_size): %lld of %lld", TD_NODE_STR(c->node),
                   (long long)v, (long long)batch);
    }
    return TD_OK;
}

/* Crops of one image size: where output o of an axis of `crop` cells reads from an axis of `n`. */
struct crop_axis {
    float from, step;
    int64_t n;
};

static struct crop_axis crop_axis(float lo, float hi, int64_t n, int64_t crop)
{
    if (crop > 1) {
        return (struct crop_axis){lo * (float)(n - 1), (hi - lo) * (float)(n - 1) / (float)(crop - 1), n};
    }
    return (struct crop_axis){0.5f * (lo + hi) * (float)(n - 1), 0, n};
}

/* False when the place lies outside the image. */
static bool crop_place(const struct crop_axis *a, int64_t o, float *at)
{
    *at = a->from + (float)o * a->step;
    return *at >= 0 && *at <= (float)(a->n - 1);
}

/* The (up to) four cells around (y, x) of an image and their weights; nearest has one. */
struct corners {
    int n;
    int64_t cell[4];
    float weight[4];
    float ly, lx;
};

static void corners_of(float y, float x, int64_t width, bool nearest, struct corners *k)
{
    if (nearest) {
        *k = (struct corners){
            .n = 1, .cell = {(int64_t)roundf(y) * width + (int64_t)roundf(x)}, .weight = {1}};
        return;
    }
    int64_t top = (int64_t)floorf(y), bottom = (int64_t)ceilf(y), left = (int64_t)floorf(x),
            right = (int64_t)ceilf(x);
    float ly = y - (float)top, lx = x - (float)left;
    *k = (struct corners){
        .n = 4,
        .cell = {top * width + left, top * width + right, bottom * width + left, bottom * width + right},
        .weight = {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx},
        .ly = ly,
        .lx = lx};
}

struct crop {
    int64_t boxes, h, w, ch, in_h, in_w;
    const float *box;
    const struct td_tensor *index;
    bool nearest;
};

/* Crops of shape `crops` from images of shape `images`; inputs first and first + 1 are the boxes and whose
 * image each is cut from. */
static struct crop crop_of(const struct td_call *c, const struct td_shape *images,
                           const struct td_shape *crops, int first)
{
    return (struct crop){.boxes = crops->dim[0],
                         .h = crops->dim[1],
                         .w = crops->dim[2],
                         .ch = images->dim[3],
                         .in_h = images->dim[1],
                         .in_w = images->dim[2],
                         .box = c->in[first]->data,
                         .index = c->in[first + 1],
                         .nearest = strcmp(td_attr_str(c->node, "method"), "nearest") == 0};
}

/* Calls fn for every output cell of every box, with corners NULL where the box hangs outside. */
static enum td_code each_crop(struct td_call *c, const struct crop *s,
                              void (*fn)(void *ctx, const struct crop *s, int64_t box, int64_t cell,
                                         const struct corners *k),
                              void *ctx, struct td_err *err)
{
    for (int64_t b = 0; b < s->boxes; b++) {
        const float *box = s->box + 4 * b;
        struct crop_axis rows = crop_axis(box[0], box[2], s->in_h, s->h),
                         cols = crop_axis(box[1], box[3], s->in_w, s->w);
        for (int64_t i = 0; i < s->h; i++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            for (int64_t j = 0; j < s->w; j++) {
                float y, x;
                struct corners k;
                bool inside = crop_place(&rows, i, &y) && crop_place(&cols, j, &x);
                if (inside) {
                    corners_of(y, x, s->in_w, s->nearest, &k);
                }
                fn(ctx, s, b, (b * s->h + i) * s->w + j, inside ? &k : NULL);
            }
        }
    }
    return TD_OK;
}

struct crop_data {
    const float *x, *dy;
    float *y;
    float outside;
};

/* y = the bilinear mean of the four cells around k of image x, n channels. */
TD_CLONES static void crop_mix(const float *x, const struct corners *k, int64_t n, float *restrict y)
{
    const float *tl = x + k->cell[0] * n, *tr = x + k->cell[1] * n, *bl = x + k->cell[2] * n,
                *br = x + k->cell[3] * n;
    const float lx = k->lx, ly = k->ly;
    for (int64_t i = 0; i < n; i++) {
        float top = tl[i] + (tr[i] - tl[i]) * lx, bottom = bl[i] + (br[i] - bl[i]) * lx;
        y[i] = top + (bottom - top) * ly;
    }
}

static void crop_forward(void *ctx, const struct crop *s, int64_t box, int64_t cell, const struct corners *k)
{
    const struct crop_data *d = ctx;
    float *y = d->y + cell * s->ch;
    const float *x = d->x + td_tensor_int(s->index, box) * s->in_h * s->in_w * s->ch;
    if (k == NULL) {
        for (int64_t i = 0; i < s->ch; i++) {
            y[i] = d->outside;
        }
    } else if (k->n == 1) {
        memcpy(y, x + k->cell[0] * s->ch, (size_t)s->ch * sizeof *y);
    } else {
        crop_mix(x, k, s->ch, y);
    }
}

static void crop_to_image(void *ctx, const struct crop *s, int64_t box, int64_t cell, const struct corners *k)
{
    const struct crop_data *d = ctx;
    float *dx = d->y + td_tensor_int(s->index, box) * s->in_h * s->in_w * s->ch;
    for (int t = 0; k != NULL && t < k->n; t++) {
        td_resample_add(dx + k->cell[t] * s->ch, d->dy + cell * s->ch, k->weight[t], s->ch);
    }
}

/* d out / d (y, x) of a bilinear cell, carried to the box corners. */
static void crop_to_boxes(void *ctx, const struct crop *s, int64_t box, int64_t cell, const struct corners *k)
{
    const struct crop_data *d = ctx;
    if (k == NULL) {
        return;
    }
    const float *x = d->x + td_tensor_int(s->index, box) * s->in_h * s->in_w * s->ch,
                *dy = d->dy + cell * s->ch;
    float gy = 0, gx = 0, *out = d->y + 4 * box;
    for (int64_t i = 0; i < s->ch; i++) {
        float tl = x[k->cell[0] * s->ch + i], tr = x[k->cell[1] * s->ch + i];
        float bl = x[k->cell[2] * s->ch + i], br = x[k->cell[3] * s->ch + i];
        gy += dy[i] * ((1 - k->lx) * (bl - tl) + k->lx * (br - tr));
        gx += dy[i] * ((1 - k->ly) * (tr - tl) + k->ly * (br - bl));
    }
    gy *= (float)(s->in_h - 1);
    gx *= (float)(s->in_w - 1);
    int64_t i = cell / s->w % s->h, j = cell % s->w;
    float py = s->h > 1 ? (float)i / (float)(s->h - 1) : 0.5f,
          px = s->w > 1 ? (float)j / (float)(s->w - 1) : 0.5f;
    out[0] += gy * (1 - py);
    out[2] += gy * py;
    out[1] += gx * (1 - px);
    out[3] += gx * px;
}

static enum td_code crop_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct crop_data d = {.outside = (float)td_attr_float(c->node, "extrapolation_value")};
    const struct td_shape *in = &c->in[0]->shape;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(check_index(c, c->in[2], in->dim[0], err));
    for (int64_t i = 0; i < td_tensor_count(c->in[1]); i++) {
        TD_FAIL_IF(!isfinite(TD_DATA(c->in[1], float)[i]), err, INVALID_ARGUMENT,
                   "%s: Boxes contains at least one element that is not finite: number %lld is %g",
                   TD_NODE_STR(c->node), (long long)i, (double)TD_DATA(c->in[1], float)[i]);
    }
    TD_TRY(td_upcast(c, c->in[0], &d.x, err));
    d.y = y->data;
    const struct crop s = crop_of(c, in, &y->shape, 1);
    return each_crop(c, &s, crop_forward, &d, err);
}

static enum td_code crop_image_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_shape *in = &dx->shape;
    struct crop_data d = {.dy = c->in[0]->data};
    int64_t n = td_tensor_count(dx);
    void *room;
    TD_TRY(check_index(c, c->in[2], in->dim[0], err));
    TD_TRY(td_scratch(c, (size_t)n * sizeof(float), &room, err));
    if (n == 0) {
        return TD_OK;
    }
    memset(room, 0, (size_t)n * sizeof(float));
    d.y = room;
    const struct crop s = crop_of(c, in, &c->in[0]->shape, 1);
    TD_TRY(each_crop(c, &s, crop_to_image, &d, err));
    for (int64_t i = 0; i < n; i++) {
        double v = d.y[i];
        td_downcast_doubles((char *)dx->data + (size_t)i * td_dtype_size(dx->dtype), &v, dx->dtype, 1);
    }
    return TD_OK;
}

static enum td_code crop_boxes_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_shape *in = &c->in[1]->shape;
    struct crop_data d = {.dy = c->in[0]->data, .y = y->data};
    TD_TRY(check_index(c, c->in[3], in->dim[0], err));
    TD_TRY(td_upcast(c, c->in[1], &d.x, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    memset(y->data, 0, td_tensor_bytes(y));
    const struct crop s = crop_of(c, in, &c->in[0]->shape, 2);
    return each_crop(c, &s, crop_to_boxes, &d, err);
}

/* ------------------------------------------------------------------ gradients */

/* By the boxes as if the method were bilinear, as TensorFlow has it; values outside of the image count for
 * nothing. */
static void crop_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value image = td_grad_in(g, 0), boxes = td_grad_in(g, 1), of = td_grad_in(g, 2);
    const struct td_value dy = td_grad_at(g, 0);
    const enum td_dtype t = td_dtype_of(image);
    if (td_grad_wants(g, 0) && (t == TD_FLOAT || t == TD_DOUBLE || t == TD_HALF)) {
        td_grad_give(g, 0,
                     td_f_as(e, "CropAndResizeGradImage", TD_IN(dy, boxes, of, td_f_shape(e, image)), g->node,
                             "T,method"));
    }
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, td_emit(e, "CropAndResizeGradBoxes", TD_IN(dy, image, boxes, of), TD_NO_ATTRS));
    }
}

/* ------------------------------------------------------------------ table */

const struct td_op td_ops_crop_resize[] = {
    {.name = "CropAndResize",
     .sig = "(image:T, boxes:float, box_ind:int32, crop_size:int32) -> (crops:float) {T:type; "
            "method:string='bilinear' in ['bilinear','nearest']; extrapolation_value:float=0.0}",
     .host_in = 14, /* boxes too, where a device's kernel can check them */
     .infer = crop_infer,
     .kernels = TD_KERNEL("crop_and_resize.cpu", crop_run, {"T", TD_SET_REALS}),
     .grad = crop_grad},
    {.name = "CropAndResizeGradImage",
     .sig = "(grads:float, boxes:float, box_ind:int32, image_size:int32) -> (output:T) {T:type; "
            "method:string='bilinear' in ['bilinear','nearest']}",
     .host_in = 14,
     .infer = crop_image_infer,
     .kernels = TD_KERNEL("crop_and_resize_grad.cpu", crop_image_run,
                          {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_HALF)})},
    {.name = "CropAndResizeGradBoxes",
     .sig = "(grads:float, image:T, boxes:float, box_ind:int32) -> (output:float) {T:type; "
            "method:string='bilinear' in ['bilinear']}",
     .host_in = 12,
     .infer = crop_boxes_infer,
     .kernels = TD_KERNEL("crop_and_resize_grad.cpu", crop_boxes_run, {"T", TD_SET_REALS})},
    {.name = NULL},
};
