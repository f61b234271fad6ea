/* kernels/media/image.c - colours, boxes drawn on images, projective transforms.
 *
 *     images [.., 3] or [N,H,W,C]; colours are floats in [0, 1], hue in turns
 *
 * half and bfloat16 run in float; projective transforms of integer images in double, cut towards zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/media/image_grad.h"
#include "kernels/ops.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

/* ------------------------------------------------------------------ RGB and HSV */

static enum td_code rgb_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0];
    bool adjust = strncmp(c->node->op_name, "Adjust", 6) == 0;
    int least = adjust ? 3 : 1;
    TD_FAIL_IF(s->rank >= 0 && s->rank < least, err, INVALID_ARGUMENT,
               "%s: input must be at least %d-D, got shape %s", TD_NODE_STR(c->node), least, TD_SHAPE_STR(s));
    int64_t channels = s->rank > 0 ? s->dim[s->rank - 1] : -1;
    if (channels >= 0 && channels != 3) {
        return td_fail(err, adjust ? TD_INVALID_ARGUMENT : TD_FAILED_PRECONDITION,
                       "%s: input must have 3 channels but instead has %lld channels.", TD_NODE_STR(c->node),
                       (long long)channels);
    }
    if (adjust) {
        TD_TRY(td_infer_rank(c, 1, 0, err));
    }
    c->out[0] = *s;
    return TD_OK;
}

/* The larger and the smaller of two; the second when they do not compare. */
static float larger(float a, float b)
{
    return b < a ? a : b;
}

static float smaller(float a, float b)
{
    return a < b ? a : b;
}

static void to_hsv(const float *rgb, float *hsv)
{
    float r = rgb[0], g = rgb[1], b = rgb[2];
    float top = larger(larger(r, g), b), low = smaller(smaller(r, g), b), range = top - low, hue = 0;
    if (!(range <= 0)) {
        float unit = 1 / (6 * range);
        hue = r == top ? unit * (g - b) : g == top ? unit * (b - r) + 2.0f / 6 : unit * (r - g) + 4.0f / 6;
        hue += hue < 0 ? 1 : 0;
    }
    hsv[0] = hue;
    hsv[1] = top > 0 ? range / top : 0;
    hsv[2] = top;
}

/* NaN stays. */
static float clip01(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

/* Of the full colour of that hue: red, green, blue. */
static void shades(float hue, float shade[3])
{
    const float sixths = hue * 6;
    shade[0] = clip01(fabsf(sixths - 3) - 1);
    shade[1] = clip01(2 - fabsf(sixths - 2));
    shade[2] = clip01(2 - fabsf(sixths - 4));
}

static void to_rgb(const float *hsv, float *rgb)
{
    float s = hsv[1], v = hsv[2], shade[3];
    shades(hsv[0], shade);
    for (int i = 0; i < 3; i++) {
        rgb[i] = (1 - s + s * shade[i]) * v;
    }
}

static void plain_to_hsv(const float *x, float *y, float unused)
{
    (void)unused;
    to_hsv(x, y);
}

static void plain_to_rgb(const float *x, float *y, float unused)
{
    (void)unused;
    to_rgb(x, y);
}

/* Between the least and the greatest of the three, which stay: a saturation would lose them where the
 * greatest is not above 0. */
static void shift_hue(const float *x, float *y, float delta)
{
    float hsv[3], shade[3];
    const float low = smaller(smaller(x[0], x[1]), x[2]);
    to_hsv(x, hsv);
    shades(hsv[0] + delta - floorf(hsv[0] + delta), shade);
    for (int i = 0; i < 3; i++) {
        y[i] = low + (hsv[2] - low) * shade[i];
    }
}

static void scale_saturation(const float *x, float *y, float scale)
{
    float hsv[3];
    to_hsv(x, hsv);
    hsv[1] = clip01(hsv[1] * scale);
    to_rgb(hsv, y);
}

static enum td_code each_colour(struct td_call *c, void (*fn)(const float *x, float *y, float by),
                                struct td_err *err)
{
    struct td_tensor *y;
    const float *x, *by;
    float *to, factor = 0;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(td_upcast_room(c, y, &to, err));
    if (c->n_in > 1) {
        TD_TRY(td_upcast(c, c->in[1], &by, err));
        factor = by[0];
    }
    if (y->dtype ==
        TD_DOUBLE) { /* colours need no more than a float's digits, but the output type must be kept */
        for (int64_t i = 0; i < td_tensor_count(y); i += 3) {
            float out[3];
            fn(x + i, out, factor);
            for (int k = 0; k < 3; k++) {
                TD_DATA(y, double)[i + k] = out[k];
            }
        }
        return TD_OK;
    }
    for (int64_t i = 0; i < td_tensor_count(y); i += 3) {
        fn(x + i, to + i, factor);
    }
    td_downcast(y, to);
    return TD_OK;
}

static enum td_code rgb_to_hsv_run(struct td_call *c, struct td_err *err)
{
    return each_colour(c, plain_to_hsv, err);
}
static enum td_code hsv_to_rgb_run(struct td_call *c, struct td_err *err)
{
    return each_colour(c, plain_to_rgb, err);
}
static enum td_code hue_run(struct td_call *c, struct td_err *err)
{
    return each_colour(c, shift_hue, err);
}
static enum td_code saturation_run(struct td_call *c, struct td_err *err)
{
    return each_colour(c, scale_saturation, err);
}

/* ------------------------------------------------------------------ contrast */

static enum td_code contrast_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank < 3, err, INVALID_ARGUMENT,
               "%s: input must be at least 3-D, got shape %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    for (int i = 1; i < c->n_in; i++) {
        TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: contrast_factor must be scalar: %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[i]));
    }
    c->out[0] = c->in[0];
    return TD_OK;
}

/* Sums of n numbers by their place modulo `period`. */
TD_CLONES static void periodic_sums(const float *x, int64_t n, int64_t period, double *restrict sum)
{
    memset(sum, 0, (size_t)period * sizeof *sum);
    for (; n > 0; n -= period, x += period) {
        int64_t most = n < period ? n : period;
        for (int64_t i = 0; i < most; i++) {
            sum[i] += x[i];
        }
    }
}

/* y = (x - mean) * factor + mean, the means by place modulo `period`. */
TD_CLONES static void periodic_contrast(const float *x, int64_t n, int64_t period, const float *mean,
                                        float factor, float *restrict y)
{
    for (; n > 0; n -= period, x += period, y += period) {
        int64_t most = n < period ? n : period;
        for (int64_t i = 0; i < most; i++) {
            y[i] = (x[i] - mean[i]) * factor + mean[i];
        }
    }
}

/* (x - mean of its channel) * factor + mean; the old op also clips. Few channels are counted in long periods.
 */
static enum td_code contrast_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const float *x;
    double *sum;
    float *mean;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    const struct td_shape *s = &y->shape;
    int64_t channels = s->dim[s->rank - 1], cells = s->dim[s->rank - 2] * s->dim[s->rank - 3];
    float factor = TD_DATA(c->in[1], float)[0], *to = y->data;
    int64_t size = cells * channels, period = channels < 16 ? channels * 16 : channels;
    TD_TRY(td_scratch(c, (size_t)period * sizeof *sum, (void **)&sum, err));
    TD_TRY(td_scratch(c, (size_t)period * sizeof *mean, (void **)&mean, err));
    for (int64_t image = 0, n = td_tensor_count(y) == 0 ? 0 : td_shape_range(s, 0, s->rank - 3); image < n;
         image++, x += size, to += size) {
        periodic_sums(x, size, period, sum);
        for (int64_t i = channels; i < period; i++) {
            sum[i % channels] += sum[i];
        }
        for (int64_t i = 0; i < period; i++) {
            mean[i] = (float)(sum[i % channels] / (double)cells);
        }
        periodic_contrast(x, size, period, mean, factor, to);
        for (int64_t i = 0; i < size && c->n_in == 4; i++) {
            to[i] = fminf(fmaxf(to[i], TD_DATA(c->in[2], float)[0]), TD_DATA(c->in[3], float)[0]);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ DrawBoundingBoxes */

static enum td_code draw_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *b = &c->in[1];
    TD_FAIL_IF(x->rank >= 0 && x->rank != 4, err, INVALID_ARGUMENT,
               "%s: The rank of the images should be 4, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_FAIL_IF((b->rank >= 0 && b->rank != 3) || (b->rank == 3 && b->dim[2] >= 0 && b->dim[2] != 4), err,
               INVALID_ARGUMENT, "%s: The rank of the boxes tensor should be 3 with 4 columns, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(b));
    c->out[0] = *x;
    if (x->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(x->dim[0] >= 0 && b->dim[0] >= 0 && x->dim[0] != b->dim[0], err, INVALID_ARGUMENT,
               "%s: The batch sizes should be the same, got %s and %s", TD_NODE_STR(c->node), TD_SHAPE_STR(x),
               TD_SHAPE_STR(b));
    int64_t d = x->dim[3];
    TD_FAIL_IF(d >= 0 && d != 1 && d != 3 && d != 4, err, INVALID_ARGUMENT,
               "%s: Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), got %lld",
               TD_NODE_STR(c->node), (long long)d);
    if (c->n_in == 3) {
        const struct td_shape *k = &c->in[2];
        TD_FAIL_IF((k->rank >= 0 && k->rank != 2) ||
                       (k->rank == 2 && k->dim[0] > 0 && d >= 0 && k->dim[1] >= 0 && k->dim[1] < d),
                   err, INVALID_ARGUMENT, "%s: colors must be a 2-D matrix of at least %lld columns, got %s",
                   TD_NODE_STR(c->node), (long long)d, TD_SHAPE_STR(k));
    }
    return TD_OK;
}

static const float default_colours[10][4] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},    {1, 0, 0, 1},    {0, 1, 0, 1}, {0.5f, 0, 0.5f, 1},
    {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1},
};

struct canvas {
    float *x;
    int64_t h, w, d;
};

static void set_cell(const struct canvas *v, int64_t row, int64_t col, const float *colour)
{
    if (row >= 0 && row < v->h && col >= 0 && col < v->w) {
        for (int64_t k = 0; k < v->d; k++) {
            v->x[(row * v->w + col) * v->d + k] = colour[k];
        }
    }
}

/* Image coordinate of a relative one, safe against huge and NaN values. */
static int64_t coordinate(float v, int64_t n)
{
    float f = v * (float)(n - 1);
    return isnan(f) ? 0 : f < -1e9f ? -1000000000 : f > 1e9f ? 1000000000 : (int64_t)f;
}

static void draw_box(const struct canvas *v, const float *box, const float *colour)
{
    int64_t top = coordinate(box[0], v->h), left = coordinate(box[1], v->w);
    int64_t bottom = coordinate(box[2], v->h), right = coordinate(box[3], v->w);
    if (top > bottom || left > right || top >= v->h || bottom < 0 || left >= v->w || right < 0) {
        return;
    }
    for (int64_t j = left < 0 ? 0 : left; j <= right && j < v->w; j++) {
        set_cell(v, top, j, colour);
        set_cell(v, bottom, j, colour);
    }
    for (int64_t i = top < 0 ? 0 : top; i <= bottom && i < v->h; i++) {
        set_cell(v, i, left, colour);
        set_cell(v, i, right, colour);
    }
}

static enum td_code draw_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const float *x;
    float *to;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_upcast(c, c->in[0], &x, err));
    TD_TRY(td_upcast_room(c, y, &to, err));
    int64_t n = td_tensor_count(y), boxes = c->in[1]->shape.dim[1];
    if (n == 0) {
        return TD_OK;
    }
    memcpy(to, x, (size_t)n * sizeof *to);
    struct canvas v = {to, y->shape.dim[1], y->shape.dim[2], y->shape.dim[3]};
    const float white[4] = {1, 1, 1, 1};
    int64_t given = c->n_in == 3 ? c->in[2]->shape.dim[0] : 0;
    for (int64_t b = 0; b < y->shape.dim[0]; b++, v.x += v.h * v.w * v.d) {
        for (int64_t i = 0; i < boxes; i++) {
            const float *colour = given > 0 ? TD_DATA(c->in[2], float) + i % given * c->in[2]->shape.dim[1]
                                            : (v.d == 1 ? white : default_colours[i % 10]);
            draw_box(&v, TD_DATA(c->in[1], float) + (b * boxes + i) * 4, colour);
        }
    }
    td_downcast(y, to);
    return TD_OK;
}

/* ------------------------------------------------------------------ ImageProjectiveTransform */

static enum td_code project_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *t = &c->in[1], *s = &c->in[2];
    TD_FAIL_IF(x->rank >= 0 && x->rank != 4, err, INVALID_ARGUMENT, "%s: input images must be rank 4, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_FAIL_IF((t->rank >= 0 && t->rank != 2) || (t->rank == 2 && t->dim[1] >= 0 && t->dim[1] != 8) ||
                   (t->rank == 2 && x->rank == 4 && t->dim[0] >= 0 && x->dim[0] >= 0 && t->dim[0] != 1 &&
                    t->dim[0] != x->dim[0]),
               err, INVALID_ARGUMENT,
               "%s: input transforms should be num_images x 8 or 1 x 8, got %s for images %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(t), TD_SHAPE_STR(x));
    TD_FAIL_IF((s->rank >= 0 && s->rank != 1) || (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 2), err,
               INVALID_ARGUMENT, "%s: output shape must be two elements, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(s));
    const char *how = td_attr_str(c->node, "interpolation"), *fill = td_attr_str(c->node, "fill_mode");
    TD_FAIL_IF(strcmp(how, "NEAREST") != 0 && strcmp(how, "BILINEAR") != 0, err, INVALID_ARGUMENT,
               "%s: Invalid interpolation %s. Supported types: NEAREST, BILINEAR", TD_NODE_STR(c->node), how);
    TD_FAIL_IF(strcmp(fill, "REFLECT") != 0 && strcmp(fill, "WRAP") != 0 && strcmp(fill, "CONSTANT") != 0 &&
                   strcmp(fill, "NEAREST") != 0,
               err, INVALID_ARGUMENT,
               "%s: Invalid mode %s. Supported types: REFLECT, WRAP, CONSTANT, NEAREST", TD_NODE_STR(c->node),
               fill);
    c->out[0] = td_shape_of_rank(4);
    c->out[0].dim[0] = x->rank == 4 ? x->dim[0] : -1;
    c->out[0].dim[3] = x->rank == 4 ? x->dim[3] : -1;
    for (int i = 0; i < 2 && c->value[2] != NULL; i++) {
        c->out[0].dim[1 + i] = td_tensor_int(c->value[2], i);
        TD_FAIL_IF(c->out[0].dim[1 + i] <= 0, err, INVALID_ARGUMENT,
                   "%s: new height and width should be positive, got %lld", TD_NODE_STR(c->node),
                   (long long)c->out[0].dim[1 + i]);
    }
    return TD_OK;
}

/* A coordinate outside [0, n) brought back as the fill mode says. */
static float bring_back(char mode, float at, int64_t n)
{
    float len = (float)n, top = len - 1;
    if (mode == 'C' || !isfinite(at)) {
        return at;
    }
    if (mode == 'R' && (at < 0 || at > top)) {
        float twice = 2 * len;
        at -= twice * floorf(at / twice); /* in [0, 2n): the second half runs backwards */
        at = n <= 1 ? 0 : at >= len ? twice - at - 1 : at;
    } else if (mode == 'W' && at < 0) {
        at = n <= 1 ? 0 : at + len * (floorf(-at / top) + 1);
    } else if (mode == 'W' && at > top) {
        at = n <= 1 ? 0 : at - len * floorf(at / top);
    }
    return fminf(fmaxf(at, 0), top);
}

struct source {
    const double *x;
    int64_t h, w, d;
    double fill;
};

static double read_cell(const struct source *s, double row, double col, int64_t k)
{
    if (!(row >= 0 && row < (double)s->h && col >= 0 && col < (double)s->w)) {
        return s->fill;
    }
    return s->x[((int64_t)row * s->w + (int64_t)col) * s->d + k];
}

static double sample(const struct source *s, float row, float col, int64_t k, bool nearest)
{
    if (nearest) {
        return read_cell(s, roundf(row), roundf(col), k);
    }
    /* in float and in TensorFlow's order: integers are cut, so that a last bit would show */
    float top = floorf(row), left = floorf(col), bottom = top + 1, right = left + 1;
    float upper =
        (right - col) * (float)read_cell(s, top, left, k) + (col - left) * (float)read_cell(s, top, right, k);
    float lower = (right - col) * (float)read_cell(s, bottom, left, k) +
                  (col - left) * (float)read_cell(s, bottom, right, k);
    return (bottom - row) * upper + (row - top) * lower;
}

static void project_cell(const struct source *s, const float *t, int64_t i, int64_t j, char mode,
                         bool nearest, double *y)
{
    float x = (float)j, z = (float)i, by = t[6] * x + t[7] * z + 1;
    float col = by == 0 ? -1 : bring_back(mode, (t[0] * x + t[1] * z + t[2]) / by, s->w);
    float row = by == 0 ? -1 : bring_back(mode, (t[3] * x + t[4] * z + t[5]) / by, s->h);
    for (int64_t k = 0; k < s->d; k++) {
        y[k] = by == 0 ? s->fill : sample(s, row, col, k, nearest);
    }
}

static enum td_code project_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    void *wide, *cell;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_shape *in = &c->in[0]->shape, *out = &y->shape;
    int64_t n = td_tensor_count(c->in[0]);
    TD_TRY(td_scratch(c, (size_t)n * sizeof(double), &wide, err));
    TD_TRY(td_scratch(c, (size_t)in->dim[3] * sizeof(double), &cell, err));
    td_upcast_doubles(wide, c->in[0]->data, y->dtype, n);
    struct source s = {wide, in->dim[1], in->dim[2], in->dim[3], 0};
    if (c->n_in == 4) {
        TD_FAIL_IF(td_tensor_count(c->in[3]) != 1, err, INVALID_ARGUMENT,
                   "%s: fill_value must be a scalar, got %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(&c->in[3]->shape));
        s.fill = TD_DATA(c->in[3], float)[0];
    }
    bool nearest = strcmp(td_attr_str(c->node, "interpolation"), "NEAREST") == 0;
    char mode = td_attr_str(c->node, "fill_mode")[0];
    size_t bytes = (size_t)in->dim[3] * td_dtype_size(y->dtype);
    char *to = y->data;
    for (int64_t b = 0; b < out->dim[0]; b++, s.x += s.h * s.w * s.d) {
        const float *t = TD_DATA(c->in[1], float) + (c->in[1]->shape.dim[0] == 1 ? 0 : 8 * b);
        for (int64_t i = 0; i < out->dim[1]; i++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            for (int64_t j = 0; j < out->dim[2]; j++, to += bytes) {
                project_cell(&s, t, i, j, mode, nearest, cell);
                td_downcast_doubles(to, cell, y->dtype, s.d);
            }
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_PROJECT (TD_SET_FLOATS | TD_BIT(TD_UINT8) | TD_BIT(TD_INT32) | TD_BIT(TD_INT64))
#define SET_DRAW (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF))

const struct td_op td_ops_image[] = {
    {.name = "RGBToHSV",
     .sig = "(images:T) -> (output:T) {T:type=float}",
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = rgb_infer,
     .kernels = TD_KERNEL("rgb_to_hsv.cpu", rgb_to_hsv_run, {"T", TD_SET_FLOATS}),
     .grad = td_rgb_to_hsv_grad},
    {.name = "HSVToRGB",
     .sig = "(images:T) -> (output:T) {T:type=float}",
     .permute = &td_permute_map1,
     .batchable = TD_BATCHABLE(td_batchable_map1),
     .infer = rgb_infer,
     .kernels = TD_KERNEL("hsv_to_rgb.cpu", hsv_to_rgb_run, {"T", TD_SET_FLOATS}),
     .grad = td_not_differentiable},
    {.name = "AdjustHue",
     .sig = "(images:T, delta:float) -> (output:T) {T:type=float}",
     .permute = &td_permute_map3,
     .batchable = TD_BATCHABLE(td_batchable_map3),
     .infer = rgb_infer,
     .kernels = TD_KERNEL("adjust_hue.cpu", hue_run, {"T", SET_DRAW})},
    {.name = "AdjustSaturation",
     .sig = "(images:T, scale:float) -> (output:T) {T:type=float}",
     .permute = &td_permute_map3,
     .batchable = TD_BATCHABLE(td_batchable_map3),
     .infer = rgb_infer,
     .kernels = TD_KERNEL("adjust_saturation.cpu", saturation_run, {"T", SET_DRAW})},
    {.name = "AdjustContrastv2",
     .sig = "(images:T, contrast_factor:float) -> (output:T) {T:type=float}",
     .permute = &td_permute_map3,
     .batchable = TD_BATCHABLE(td_batchable_map3),
     .infer = contrast_infer,
     .kernels = TD_KERNEL("adjust_contrast.cpu", contrast_run, {"T", TD_BIT(TD_FLOAT)})},
    {.name = "AdjustContrast",
     .sig = "(images:T, contrast_factor:float, min_value:float, max_value:float) -> (output:float) {T:type}",
     .infer = contrast_infer,
     .kernels = TD_KERNEL("adjust_contrast.cpu", contrast_run, {"T", TD_SET_REALS})},
    {.name = "DrawBoundingBoxes",
     .sig = "(images:T, boxes:float) -> (output:T) {T:type=float}",
     .infer = draw_infer,
     .kernels = TD_KERNEL("draw_bounding_boxes.cpu", draw_run, {"T", SET_DRAW}),
     .grad = td_not_differentiable},
    {.name = "DrawBoundingBoxesV2",
     .sig = "(images:T, boxes:float, colors:float) -> (output:T) {T:type=float}",
     .infer = draw_infer,
     .kernels = TD_KERNEL("draw_bounding_boxes.cpu", draw_run, {"T", SET_DRAW})},
    {.name = "ImageProjectiveTransformV2",
     .sig = "(images:dtype, transforms:float, output_shape:int32) -> (transformed_images:dtype) {dtype:type; "
            "interpolation:string; fill_mode:string='CONSTANT'}",
     .host_in = 4,
     .infer = project_infer,
     .kernels = TD_KERNEL("projective_transform.cpu", project_run, {"dtype", SET_PROJECT}),
     .grad = td_project_grad},
    {.name = "ImageProjectiveTransformV3",
     .sig = "(images:dtype, transforms:float, output_shape:int32, fill_value:float) -> "
            "(transformed_images:dtype) "
            "{dtype:type; interpolation:string; fill_mode:string='CONSTANT'}",
     .host_in = 12,
     .infer = project_infer,
     .kernels = TD_KERNEL("projective_transform.cpu", project_run, {"dtype", SET_PROJECT}),
     .grad = td_project_grad},
    {.name = NULL},
};
