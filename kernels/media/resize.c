/* kernels/media/resize.c - ResizeBilinear, ResizeNearestNeighbor, ResizeBicubic, ResizeArea, and their
 * gradients.
 *
 *     images [N,H,W,C], size [2]   ->   [N,H',W',C]
 *
 * An output row or column reads a few source rows with weights; those are tables (struct td_separable_axis)
 * made once a call, and separable.c does the rest. Gradients of bilinear and bicubic are one loop backwards.
 * Nearest copies cells. The source coordinate of output o is o * scale (legacy), or (o + 0.5) * scale - 0.5
 * (half_pixel_centers), with scale = in / out, or (in - 1) / (out - 1) with align_corners; all in float, as
 * TensorFlow has it.
 *
 * Bicubic weights come from a table of 1024 steps, a = -0.5 with half pixel centers (renormalised at the
 * border) and -0.75 without.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/media/separable.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"

/* ------------------------------------------------------------------ shapes */

static enum td_code check_flags(const struct td_node *n, struct td_err *err)
{
    TD_FAIL_IF(td_attr_bool(n, "half_pixel_centers") && td_attr_bool(n, "align_corners"), err,
               INVALID_ARGUMENT, "%s: If half_pixel_centers is True, align_corners must be False.",
               TD_NODE_STR(n));
    return TD_OK;
}

/* The two elements of the size input; -1 while unknown. */
static enum td_code size_value(const struct td_infer *c, int i, int64_t hw[2], struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    hw[0] = hw[1] = -1;
    TD_FAIL_IF(s->rank >= 0 && s->rank != 1, err, INVALID_ARGUMENT, "%s: shape_t must be 1-dimensional%s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 2, err, INVALID_ARGUMENT,
               "%s: shape_t must have two elements%s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    for (int a = 0; a < 2 && c->value[i] != NULL; a++) {
        hw[a] = td_tensor_int(c->value[i], a);
        TD_FAIL_IF(hw[a] <= 0, err, INVALID_ARGUMENT, "%s: output dimensions must be positive, got %lld",
                   TD_NODE_STR(c->node), (long long)hw[a]);
    }
    return TD_OK;
}

static enum td_code check_image(const struct td_infer *c, int i, struct td_err *err)
{
    const struct td_shape *s = &c->in[i];
    TD_FAIL_IF(s->rank >= 0 && s->rank != 4, err, INVALID_ARGUMENT, "%s: input must be 4-dimensional%s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 4 && (s->dim[1] == 0 || s->dim[2] == 0), err, INVALID_ARGUMENT,
               "%s: input image must be of non-zero size, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 4 && s->dim[3] == 0, err, INVALID_ARGUMENT,
               "%s: image must have at least one channel, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    return TD_OK;
}

/* (images, size): also the gradient of the nearest neighbour, whose size is the original one. */
static enum td_code resize_infer(struct td_infer *c, struct td_err *err)
{
    int64_t hw[2];
    TD_TRY(check_flags(c->node, err));
    TD_TRY(check_image(c, 0, err));
    TD_TRY(size_value(c, 1, hw, err));
    bool known = c->in[0].rank == 4;
    c->out[0] = td_shape_of_rank(4);
    c->out[0].dim[0] = known ? c->in[0].dim[0] : -1;
    c->out[0].dim[1] = hw[0];
    c->out[0].dim[2] = hw[1];
    c->out[0].dim[3] = known ? c->in[0].dim[3] : -1;
    return TD_OK;
}

/* (grads, original_image) */
static enum td_code grad_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_flags(c->node, err));
    TD_TRY(check_image(c, 0, err));
    TD_TRY(check_image(c, 1, err));
    const struct td_shape *dy = &c->in[0], *x = &c->in[1];
    bool known = dy->rank == 4 && x->rank == 4;
    for (int d = 0; known && d < 4; d += 3) {
        TD_FAIL_IF(dy->dim[d] >= 0 && x->dim[d] >= 0 && dy->dim[d] != x->dim[d], err, INVALID_ARGUMENT,
                   "%s: grads %s and original_image %s must agree in batch and channels",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(dy), TD_SHAPE_STR(x));
    }
    c->out[0] = *x;
    return TD_OK;
}

/* ------------------------------------------------------------------ coordinates and weights */

enum { CUBIC_STEPS = 1024 };

struct map {
    int64_t in, out;
    float scale;
    bool half, align;
};

static struct map map_of(const struct td_node *n, int64_t in, int64_t out)
{
    bool align = td_attr_bool(n, "align_corners");
    float scale = align && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
    return (struct map){in, out, scale, td_attr_bool(n, "half_pixel_centers"), align};
}

static float source(const struct map *m, int64_t o)
{
    return m->half ? ((float)o + 0.5f) * m->scale - 0.5f : (float)o * m->scale;
}

static int64_t clamp(int64_t v, int64_t n)
{
    return v < 0 ? 0 : v >= n ? n - 1 : v;
}

static int64_t nearest(const struct map *m, int64_t o)
{
    float f = m->half ? floorf(((float)o + 0.5f) * m->scale)
                      : (m->align ? roundf((float)o * m->scale) : floorf((float)o * m->scale));
    return clamp((int64_t)f, m->in);
}

static void linear_taps(const struct map *m, struct td_separable_axis *t)
{
    for (int64_t o = 0; o < m->out; o++) {
        float f = source(m, o), low = floorf(f);
        t->count[o] = 2;
        t->at[2 * o] = clamp((int64_t)low, m->in);
        t->at[2 * o + 1] = clamp((int64_t)ceilf(f), m->in);
        t->weight[2 * o] = 1 - (f - low);
        t->weight[2 * o + 1] = f - low;
    }
}

/* Weight of a cell `x` cells away, x in [0, 2], in steps of 1 / CUBIC_STEPS. */
static float cubic(double a, int64_t step, bool outer)
{
    float x = (float)step / CUBIC_STEPS + (outer ? 1.0f : 0.0f), k = (float)a;
    return outer ? ((k * x - 5 * k) * x + 8 * k) * x - 4 * k : ((k + 2) * x - (k + 3)) * x * x + 1;
}

static void cubic_taps(const struct map *m, struct td_separable_axis *t)
{
    double a = m->half ? -0.5 : -0.75;
    for (int64_t o = 0; o < m->out; o++) {
        float f = source(m, o), low = floorf(f), sum = 0, *to = t->weight + 4 * o;
        int64_t step = lrintf((f - low) * CUBIC_STEPS);
        const float weight[4] = {cubic(a, step, true), cubic(a, step, false),
                                 cubic(a, CUBIC_STEPS - step, false), cubic(a, CUBIC_STEPS - step, true)};
        t->count[o] = 4;
        for (int i = 0; i < 4; i++) {
            int64_t wanted = (int64_t)low - 1 + i, at = clamp(wanted, m->in);
            t->at[4 * o + i] = at;
            to[i] = m->half && wanted != at ? 0 : weight[i];
            sum += to[i];
        }
        for (int i = 0; i < 4 && m->half && fabsf(sum) >= 1000 * FLT_MIN; i++) {
            to[i] /= sum;
        }
    }
}

/* The tables of (h,w) -> (h2,w2), n_taps an output. */
static enum td_code make_separable(struct td_call *c, const struct td_shape *in, const struct td_shape *out,
                                   int n_taps, struct td_separable *b, struct td_err *err)
{
    *b = (struct td_separable){.images = out->dim[0], .channels = in->dim[3], .scale = 1};
    for (int a = 0; a < 2; a++) {
        struct td_separable_axis *t = a == 0 ? &b->row : &b->col;
        struct map m = map_of(c->node, in->dim[1 + a], out->dim[1 + a]);
        TD_TRY(td_separable_axis_new(c, m.in, m.out, n_taps, t, err));
        if (n_taps == 2) {
            linear_taps(&m, t);
        } else {
            cubic_taps(&m, t);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ bilinear and bicubic */

static enum td_code separable_run(struct td_call *c, int n, struct td_err *err)
{
    struct td_tensor *y;
    struct td_separable b;
    const float *x;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(make_separable(c, &c->in[0]->shape, &y->shape, n, &b, err));
    return n == 2 ? td_separable_lerp(c, &b, x, y->data, err) : td_separable_float(c, &b, x, y->data, err);
}

static enum td_code bilinear_run(struct td_call *c, struct td_err *err)
{
    return separable_run(c, 2, err);
}
static enum td_code bicubic_run(struct td_call *c, struct td_err *err)
{
    return separable_run(c, 4, err);
}

static enum td_code separable_grad_run(struct td_call *c, int n, struct td_err *err)
{
    struct td_tensor *dx;
    struct td_separable separable;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_shape *in = &dx->shape, *out = &c->in[0]->shape;
    int64_t total = td_tensor_count(dx), ch = in->dim[3];
    if (total == 0) {
        return TD_OK;
    }
    void *room;
    TD_TRY(td_scratch(c, (size_t)total * sizeof(double), &room, err));
    TD_TRY(make_separable(c, in, out, n, &separable, err));
    double *to = room;
    memset(to, 0, (size_t)total * sizeof *to);
    const float *dy = c->in[0]->data;
    for (int64_t b = 0; b < out->dim[0]; b++, to += in->dim[1] * in->dim[2] * ch) {
        for (int64_t cell = 0; cell < out->dim[1] * out->dim[2] && !td_work_spent(4 * ch); cell++, dy += ch) {
            int64_t row = cell / out->dim[2] * n, col = cell % out->dim[2] * n;
            for (int t = 0; t < n * n; t++) {
                double weight = (double)separable.row.weight[row + t / n] * separable.col.weight[col + t % n];
                double *at =
                    to + (separable.row.at[row + t / n] * in->dim[2] + separable.col.at[col + t % n]) * ch;
                for (int64_t k = 0; k < ch; k++) {
                    at[k] += weight * dy[k];
                }
            }
        }
    }
    td_downcast_doubles(dx->data, room, dx->dtype, total);
    return TD_OK;
}

static enum td_code bilinear_grad_run(struct td_call *c, struct td_err *err)
{
    return separable_grad_run(c, 2, err);
}
static enum td_code bicubic_grad_run(struct td_call *c, struct td_err *err)
{
    return separable_grad_run(c, 4, err);
}

/* ------------------------------------------------------------------ nearest */

static enum td_code nearest_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_shape *in = &c->in[0]->shape, *out = &y->shape;
    size_t cell = (size_t)in->dim[3] * td_dtype_size(y->dtype);
    void *room;
    TD_TRY(td_scratch(c, (size_t)out->dim[2] * sizeof(int64_t), &room, err));
    int64_t *column = room;
    struct map rows = map_of(c->node, in->dim[1], out->dim[1]),
               cols = map_of(c->node, in->dim[2], out->dim[2]);
    for (int64_t j = 0; j < out->dim[2]; j++) {
        column[j] = nearest(&cols, j);
    }
    char *to = y->data;
    for (int64_t b = 0; b < out->dim[0]; b++) {
        for (int64_t i = 0; i < out->dim[1] && !td_work_spent(8 * out->dim[2]); i++) {
            const char *row = (const char *)c->in[0]->data +
                              (size_t)((b * in->dim[1] + nearest(&rows, i)) * in->dim[2]) * cell;
            for (int64_t j = 0; j < out->dim[2]; j++, to += cell) {
                memcpy(to, row + (size_t)column[j] * cell, cell);
            }
        }
    }
    return TD_OK;
}

/* Sums in double: exact for every type but 64-bit integers beyond 2^53. */
static enum td_code nearest_grad_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *dx;
    TD_TRY(td_out(c, 0, NULL, &dx, err));
    const struct td_shape *in = &dx->shape, *out = &c->in[0]->shape;
    int64_t total = td_tensor_count(dx), n = td_tensor_count(c->in[0]), ch = in->dim[3];
    void *room, *wide;
    TD_TRY(td_scratch(c, (size_t)total * sizeof(double), &room, err));
    TD_TRY(td_scratch(c, (size_t)n * sizeof(double), &wide, err));
    if (total == 0) {
        return TD_OK;
    }
    double *to = room, *dy = wide;
    memset(to, 0, (size_t)total * sizeof *to);
    td_upcast_doubles(dy, c->in[0]->data, dx->dtype, n);
    struct map rows = map_of(c->node, in->dim[1], out->dim[1]),
               cols = map_of(c->node, in->dim[2], out->dim[2]);
    for (int64_t b = 0; b < out->dim[0]; b++) {
        for (int64_t i = 0; i < out->dim[1] && !td_work_spent(8 * out->dim[2]); i++) {
            double *row = to + (b * in->dim[1] + nearest(&rows, i)) * in->dim[2] * ch;
            for (int64_t j = 0; j < out->dim[2]; j++, dy += ch) {
                double *at = row + nearest(&cols, j) * ch;
                for (int64_t k = 0; k < ch; k++) {
                    at[k] += dy[k];
                }
            }
        }
    }
    td_downcast_doubles(dx->data, to, dx->dtype, total);
    return TD_OK;
}

/* ------------------------------------------------------------------ area */

/* How much of source cell i the interval [from, to) covers. */
static float coverage(int64_t i, float from, float to, float scale)
{
    float low = (float)i, high = low + 1;
    if (low < from) {
        return high > to ? scale : high - from;
    }
    return high > to ? to - low : 1.0f;
}

/* Output o covers [o * scale, (o + 1) * scale) of the source. */
static enum td_code area_axis(struct td_call *c, int64_t in, int64_t out, float scale,
                              struct td_separable_axis *a, struct td_err *err)
{
    float most = ceilf(scale) + 2; /* the last cells of a span past the end count for the last cell */
    TD_TRY(td_separable_axis_new(c, in, out, most < (float)in + 2 ? (int64_t)most : in + 2, a, err));
    for (int64_t o = 0; o < out; o++) {
        float from = (float)o * scale, to = (float)(o + 1) * scale;
        int64_t low = (int64_t)floorf(from), high = (int64_t)ceilf(to), n = 0;
        for (; n < high - low && n < a->most; n++) {
            a->at[o * a->most + n] = clamp(low + n, in);
            a->weight[o * a->most + n] = coverage(low + n, from, to, scale);
        }
        a->count[o] = n;
    }
    return TD_OK;
}

static enum td_code area_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const float *x;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(y) == 0) {
        return TD_OK;
    }
    const struct td_shape *in = &c->in[0]->shape, *out = &y->shape;
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    struct td_separable b = {.images = in->dim[0], .channels = in->dim[3], .scale = 1};
    for (int a = 0; a < 2; a++) {
        float scale = map_of(c->node, in->dim[1 + a], out->dim[1 + a]).scale;
        if (scale == 0) { /* align_corners of one cell */
            scale = 1 / (float)out->dim[1 + a];
        }
        b.scale /= scale;
        TD_TRY(area_axis(c, in->dim[1 + a], out->dim[1 + a], scale, a == 0 ? &b.row : &b.col, err));
    }
    return td_separable_double(c, &b, x, y->data, err);
}

/* ------------------------------------------------------------------ gradients */

#define FLAGS "align_corners,half_pixel_centers"

/* The image itself says how large the gradient is. */
static void by_image(struct td_grad *g, const char *op)
{
    td_grad_give(g, 0, td_f_as(g->e, op, TD_IN(td_grad_at(g, 0), td_grad_in(g, 0)), g->node, FLAGS));
}

static void bilinear_grad(struct td_grad *g)
{
    if (td_grad_wants(g, 0)) {
        by_image(g, "ResizeBilinearGrad");
    }
}

/* Of a half's image TensorFlow has none. */
static void bicubic_grad(struct td_grad *g)
{
    const enum td_dtype t = td_dtype_of(td_grad_in(g, 0));
    if (t == TD_FLOAT || t == TD_DOUBLE) {
        by_image(g, "ResizeBicubicGrad");
    }
}

static void nearest_grad(struct td_grad *g)
{
    if (td_grad_wants(g, 0)) {
        const struct td_value size = td_f_part(g->e, td_f_shape(g->e, td_grad_in(g, 0)), 1, 2);
        td_grad_give(
            g, 0, td_f_as(g->e, "ResizeNearestNeighborGrad", TD_IN(td_grad_at(g, 0), size), g->node, FLAGS));
    }
}

/* ------------------------------------------------------------------ table */

#define BOTH "align_corners:bool=false; half_pixel_centers:bool=false}"
#define IMAGES                                                                                               \
    {                                                                                                        \
        "T", TD_SET_REALS                                                                                    \
    }

const struct td_op td_ops_resize[] = {
    {.name = "ResizeBilinear",
     .sig = "(images:T, size:int32) -> (resized_images:float) {T:type; " BOTH,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .host_in = 2,
     .infer = resize_infer,
     .kernels = TD_KERNEL("resize_bilinear.cpu", bilinear_run, IMAGES),
     .grad = bilinear_grad},
    {.name = "ResizeBilinearGrad",
     .sig = "(grads:float, original_image:T) -> (output:T) {T:type; " BOTH,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = grad_infer,
     .kernels = TD_KERNEL("resize_bilinear_grad.cpu", bilinear_grad_run, {"T", TD_SET_FLOATS}),
     .grad = td_not_differentiable},
    {.name = "ResizeNearestNeighbor",
     .sig = "(images:T, size:int32) -> (resized_images:T) {T:type; " BOTH,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .host_in = 2,
     .infer = resize_infer,
     .kernels = TD_KERNEL("resize_nearest.cpu", nearest_run, IMAGES),
     .grad = nearest_grad},
    {.name = "ResizeNearestNeighborGrad",
     .sig = "(grads:T, size:int32) -> (output:T) {T:type; " BOTH,
     .host_in = 2,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .infer = resize_infer,
     .kernels = TD_KERNEL("resize_nearest_grad.cpu", nearest_grad_run, IMAGES)},
    {.name = "ResizeBicubic",
     .sig = "(images:T, size:int32) -> (resized_images:float) {T:type; " BOTH,
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .host_in = 2,
     .infer = resize_infer,
     .kernels = TD_KERNEL("resize_bicubic.cpu", bicubic_run, IMAGES),
     .grad = bicubic_grad},
    {.name = "ResizeBicubicGrad",
     .sig = "(grads:float, original_image:T) -> (output:T) {T:type; " BOTH,
     .batchable = TD_BATCHABLE(td_batchable_all_first),
     .infer = grad_infer,
     .kernels =
         TD_KERNEL("resize_bicubic_grad.cpu", bicubic_grad_run, {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)})},
    {.name = "ResizeArea",
     .sig = "(images:T, size:int32) -> (resized_images:float) {T:type; align_corners:bool=false}",
     .flags = TD_OP_HEAVY,
     .batchable = TD_BATCHABLE(td_batchable_map_first),
     .host_in = 2,
     .infer = resize_infer,
     .kernels = TD_KERNEL("resize_area.cpu", area_run, IMAGES)},
    {.name = NULL},
};
