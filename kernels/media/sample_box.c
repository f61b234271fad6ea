/* kernels/media/sample_box.c - SampleDistortedBoundingBox, V2 and Stateless: a random crop that shows enough
 * of some object.
 *
 *   image_size [3] = height, width, depth;  bounding_boxes [batch, n, 4] = y and x from, y and x to, in 0..1
 *     ->  begin [3], size [3] for a Slice, and the crop as a box [1, 1, 4]
 *
 * An attempt draws an aspect ratio, a size whose area is in area_range, and a place. The first crop that
 * covers min_object_covered of a box is taken; after max_attempts it is the whole image. Arithmetic is in
 * float, as in TensorFlow, and random numbers are used up in its order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/graph/graph.h"
#include "kernels/ops.h"
#include "kernels/math/random_fill.h"

struct box {
    int32_t x0, y0, x1, y1;
};

struct wish {
    int32_t width, height;
    float area[2], aspect[2], covered;
    const struct td_tensor *boxes;
};

/* ------------------------------------------------------------------ checks */

static enum td_code check_pair(const struct td_node *n, const char *attr, struct td_err *err)
{
    int count;
    const float *v = td_attr_floats(n, attr, &count);
    TD_FAIL_IF(count != 2, err, INVALID_ARGUMENT, "%s: %s must have 2 numbers, has %d", TD_NODE_STR(n), attr,
               count);
    TD_FAIL_IF(!(v[0] > 0 && v[1] > 0), err, INVALID_ARGUMENT, "%s: %s must be positive: [%g, %g]",
               TD_NODE_STR(n), attr, v[0], v[1]);
    return TD_OK;
}

static enum td_code sample_infer(struct td_infer *c, struct td_err *err)
{
    int count;
    const struct td_shape *size = &c->in[0], *boxes = &c->in[1];
    TD_TRY(check_pair(c->node, "aspect_ratio_range", err));
    TD_TRY(check_pair(c->node, "area_range", err));
    const float *area = td_attr_floats(c->node, "area_range", &count);
    TD_FAIL_IF(area[0] > 1 || area[1] > 1, err, INVALID_ARGUMENT,
               "%s: Area range must be less then or equal to 1.0: [%g, %g]", TD_NODE_STR(c->node), area[0],
               area[1]);
    TD_FAIL_IF(td_attr_int(c->node, "max_attempts") <= 0, err, INVALID_ARGUMENT,
               "%s: Max attempts must be positive: %lld", TD_NODE_STR(c->node),
               (long long)td_attr_int(c->node, "max_attempts"));
    TD_FAIL_IF(size->rank >= 0 && (size->rank != 1 || (size->dim[0] >= 0 && size->dim[0] != 3)), err,
               INVALID_ARGUMENT, "%s: image_size must be 1-dimensional and contain 3 elements, is %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(size));
    TD_FAIL_IF(boxes->rank >= 0 && (boxes->rank != 3 || (boxes->dim[2] >= 0 && boxes->dim[2] != 4)), err,
               INVALID_ARGUMENT, "%s: input boxes must be 3-dimensional [batch, num_boxes, coords], is %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(boxes));
    if (c->n_in > 2) {
        TD_TRY(td_infer_rank(c, 2, 0, err));
    }
    const struct td_shape *seed = c->n_in > 3 ? &c->in[3] : NULL;
    TD_FAIL_IF(seed && seed->rank >= 0 && (seed->rank != 1 || (seed->dim[0] >= 0 && seed->dim[0] != 2)), err,
               INVALID_ARGUMENT, "%s: seed must have shape [2], not %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(seed));
    c->out[0] = c->out[1] = td_shape_vector(3);
    c->out[2] = td_shape_of_rank(3);
    c->out[2].dim[0] = c->out[2].dim[1] = 1;
    c->out[2].dim[2] = 4;
    return TD_OK;
}

static enum td_code read_wish(const struct td_call *c, struct wish *w, struct td_err *err)
{
    const struct td_node *n = c->node;
    const int64_t height = td_tensor_int(c->in[0], 0), width = td_tensor_int(c->in[0], 1);
    int count;
    TD_FAIL_IF(height < 0 || height >= INT32_MAX || width < 0 || width >= INT32_MAX, err, INVALID_ARGUMENT,
               "%s: image height and width cannot be >= int32 max, are %lld and %lld", TD_NODE_STR(n),
               (long long)height, (long long)width);
    *w = (struct wish){.width = (int32_t)width, .height = (int32_t)height, .boxes = c->in[1]};
    for (int i = 0; i < 2; i++) {
        w->area[i] = td_attr_floats(n, "area_range", &count)[i];
        w->aspect[i] = td_attr_floats(n, "aspect_ratio_range", &count)[i];
    }
    w->covered =
        c->n_in > 2 ? TD_DATA(c->in[2], const float)[0] : (float)td_attr_float(n, "min_object_covered");
    TD_FAIL_IF(!(w->covered >= 0), err, INVALID_ARGUMENT, "%s: Min object covered must be non-negative: %g",
               TD_NODE_STR(n), (double)w->covered);
    const int64_t numbers = td_tensor_count(w->boxes);
    for (int64_t i = 0; i < numbers; i++) {
        const float v = TD_DATA(w->boxes, const float)[i];
        TD_FAIL_IF(!(v >= 0 && v <= 1), err, INVALID_ARGUMENT,
                   "%s: All bounding box coordinates must be in [0.0, 1.0]: %g", TD_NODE_STR(n), (double)v);
    }
    TD_FAIL_IF(numbers == 0 && !td_attr_bool(n, "use_image_if_no_bounding_boxes"), err, INVALID_ARGUMENT,
               "%s: No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if "
               "you wish to "
               "not provide any bounding boxes.",
               TD_NODE_STR(n));
    return TD_OK;
}

/* ------------------------------------------------------------------ one attempt */

/* Any of n numbers alike. */
static int32_t uniform(struct td_philox_words *w, uint32_t n)
{
    if ((n & (n - 1)) == 0) {
        return (int32_t)(td_philox_word(w) & (n - 1));
    }
    const uint32_t too_low = UINT32_MAX % n + 1;
    uint32_t v;
    do {
        v = td_philox_word(w);
    } while (v < too_low);
    return (int32_t)(v % n);
}

static int32_t across(int32_t height, float aspect)
{
    return (int32_t)lrintf((float)height * aspect);
}

/* The height to draw from is in [*low, *high]. */
static void heights(const struct wish *w, float aspect, float least, float most, int32_t *low, int32_t *high)
{
    *low = (int32_t)lrintf(sqrtf(least / aspect));
    *high = (int32_t)lrintf(sqrtf(most / aspect));
    if (lrintf((float)*high * aspect) > w->width) { /* the tallest whose width fits */
        *high = (int32_t)(((double)w->width + 0.5 - (double)0.0000001f) / (double)aspect);
        *high -= lrintf((float)*high * aspect) > w->width;
    }
    *high = *high > w->height ? w->height : *high;
    *low = *low >= *high ? *high : *low;
}

static bool draw_crop(const struct wish *w, float aspect, struct td_philox_words *words, struct box *crop)
{
    if (!(aspect > 0) || w->width <= 0 || w->height <= 0 || w->area[0] > w->area[1]) {
        return false;
    }
    const float least = w->area[0] * (float)w->width * (float)w->height;
    const float most = w->area[1] * (float)w->width * (float)w->height;
    int32_t height, high;
    heights(w, aspect, least, most, &height, &high);
    if (height < high) {
        height += uniform(words, (uint32_t)(high - height) + 1);
    }
    int32_t width = across(height, aspect);
    float area = (float)((int64_t)width * height);
    if (area < least) { /* roundings: one more, one less */
        width = across(++height, aspect);
        area = (float)((int64_t)width * height);
    }
    if (area > most) {
        width = across(--height, aspect);
        area = (float)((int64_t)width * height);
    }
    if (area < least || area > most || width > w->width || height > w->height || width <= 0 || height <= 0) {
        return false;
    }
    crop->y0 = height < w->height ? uniform(words, (uint32_t)(w->height - height)) : 0;
    crop->x0 = width < w->width ? uniform(words, (uint32_t)(w->width - width)) : 0;
    crop->x1 = crop->x0 + width;
    crop->y1 = crop->y0 + height;
    return true;
}

static float area_of(struct box b)
{
    return b.x1 > b.x0 && b.y1 > b.y0 ? (float)((int64_t)(b.x1 - b.x0) * (b.y1 - b.y0)) : 0;
}

static bool covers(const struct wish *w, struct box crop)
{
    const struct box image = {0, 0, w->width, w->height};
    const int64_t boxes = td_tensor_count(w->boxes) / 4;
    for (int64_t i = 0; i < boxes || (i == 0 && boxes == 0); i++) {
        const float *v = boxes > 0 ? TD_DATA(w->boxes, const float) + 4 * i : NULL;
        const struct box b =
            v ? (struct box){(int32_t)(v[1] * (float)w->width), (int32_t)(v[0] * (float)w->height),
                             (int32_t)(v[3] * (float)w->width), (int32_t)(v[2] * (float)w->height)}
              : image;
        const struct box common = {crop.x0 > b.x0 ? crop.x0 : b.x0, crop.y0 > b.y0 ? crop.y0 : b.y0,
                                   crop.x1 < b.x1 ? crop.x1 : b.x1, crop.y1 < b.y1 ? crop.y1 : b.y1};
        if (area_of(b) >= 1 && area_of(common) / area_of(b) >= w->covered) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the ops */

static enum td_code put_crop(struct td_call *c, const struct wish *w, struct box crop, struct td_err *err)
{
    struct td_tensor *begin, *size, *box;
    const float height = (float)w->height, width = (float)w->width;
    TD_TRY(td_out(c, 0, NULL, &begin, err));
    TD_TRY(td_out(c, 1, NULL, &size, err));
    TD_TRY(td_out(c, 2, NULL, &box, err));
    const int64_t from[3] = {crop.y0, crop.x0, 0}, extent[3] = {crop.y1 - crop.y0, crop.x1 - crop.x0, -1};
    for (int i = 0; i < 3; i++) {
        td_tensor_set_int(begin, i, from[i]);
        td_tensor_set_int(size, i, extent[i]);
    }
    float *v = TD_DATA(box, float);
    v[0] = (float)crop.y0 / height;
    v[1] = (float)crop.x0 / width;
    v[2] = (float)crop.y1 / height;
    v[3] = (float)crop.x1 / width;
    return TD_OK;
}

static enum td_code sample(struct td_call *c, struct td_philox g, struct td_err *err)
{
    struct wish w;
    struct td_philox_words words = {.g = &g};
    struct box crop = {0};
    bool found = false;
    TD_TRY(read_wish(c, &w, err));
    for (int64_t i = 0, n = td_attr_int(c->node, "max_attempts"); i < n && !found; i++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        const float aspect =
            td_philox_float(td_philox_word(&words)) * (w.aspect[1] - w.aspect[0]) + w.aspect[0];
        found = draw_crop(&w, aspect, &words, &crop) && covers(&w, crop);
    }
    return put_crop(c, &w, found ? crop : (struct box){0, 0, w.width, w.height}, err);
}

static enum td_code stateful_run(struct td_call *c, struct td_err *err)
{
    struct td_philox g;
    TD_TRY(td_random_reserve(c, (uint64_t)td_attr_int(c->node, "max_attempts"), &g, err));
    return sample(c, g, err);
}

static enum td_code stateless_run(struct td_call *c, struct td_err *err)
{
    return sample(
        c, td_philox_from_seeds((uint64_t)td_tensor_int(c->in[3], 0), (uint64_t)td_tensor_int(c->in[3], 1)),
        err);
}

/* ------------------------------------------------------------------ the table */

#define INPUTS "(image_size:T, bounding_boxes:float"
#define OUTPUTS ") -> (begin:T, size:T, bboxes:float) {T:type; "
#define RANGES                                                                                               \
    "aspect_ratio_range:list(float)=[0.75,1.3300000429153442]; "                                             \
    "area_range:list(float)=[0.05000000074505806,1.0]; max_attempts:int=100; "                               \
    "use_image_if_no_bounding_boxes:bool=false}"
#define KERNEL(fn) TD_KERNEL("sample_box.cpu", fn, {"T", TD_SET_INTS})

const struct td_op td_ops_sample_box[] = {
    {.name = "SampleDistortedBoundingBox",
     .sig = INPUTS OUTPUTS "seed:int=0; seed2:int=0; min_object_covered:float=0.10000000149011612; " RANGES,
     .flags = TD_OP_STATEFUL,
     .infer = sample_infer,
     .kernels = KERNEL(stateful_run),
     .grad = td_not_differentiable},
    {.name = "SampleDistortedBoundingBoxV2",
     .sig = INPUTS ", min_object_covered:float" OUTPUTS "seed:int=0; seed2:int=0; " RANGES,
     .flags = TD_OP_STATEFUL,
     .infer = sample_infer,
     .kernels = KERNEL(stateful_run),
     .grad = td_not_differentiable},
    {.name = "StatelessSampleDistortedBoundingBox",
     .sig = INPUTS ", min_object_covered:float, seed:Tseed" OUTPUTS "Tseed:type; " RANGES,
     .infer = sample_infer,
     .kernels = KERNEL(stateless_run)},
    {.name = NULL},
};
