/* kernels/media/nms.c - non-maximum suppression: the best boxes that do not overlap too much.
 *
 *     boxes [N,4] (two opposite corners each), scores [N]   ->   indices of the boxes kept, best first
 *
 * Boxes are taken by falling score (equal scores: lower index first). A box is dropped when its overlap
 * (intersection over union) with a kept one exceeds iou_threshold. With soft_nms_sigma > 0 an overlap lowers
 * the score instead, and the box goes back to be taken again in its new place; a binary heap holds what is
 * left. CombinedNonMaxSuppression does this for each class and then ranks all classes' boxes together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"

struct candidate {
    float score;
    int32_t index, begin; /* kept boxes before begin have been compared already */
};

struct nms {
    const float *boxes; /* rows of 4, `stride` floats apart; NULL: overlaps are given */
    int64_t stride;
    const float *overlaps; /* [n,n] */
    int64_t n, limit;
    float iou, score, scale; /* scale: -0.5 / sigma, or 0 */
    bool half;               /* soft scores are computed in half, rounded step by step */
    struct candidate *heap, *kept;
    int64_t n_heap, n_kept;
};

/* As std::min and std::max treat NaN, which TensorFlow uses. */
static inline float lesser(float a, float b)
{
    return b < a ? b : a;
}
static inline float greater(float a, float b)
{
    return a < b ? b : a;
}

static float overlap(const struct nms *s, int64_t i, int64_t j)
{
    if (s->boxes == NULL) {
        return s->overlaps[i * s->n + j];
    }
    const float *a = s->boxes + i * s->stride, *b = s->boxes + j * s->stride;
    float a0 = lesser(a[0], a[2]), a1 = lesser(a[1], a[3]), a2 = greater(a[0], a[2]),
          a3 = greater(a[1], a[3]);
    float b0 = lesser(b[0], b[2]), b1 = lesser(b[1], b[3]), b2 = greater(b[0], b[2]),
          b3 = greater(b[1], b[3]);
    float area_a = (a2 - a0) * (a3 - a1), area_b = (b2 - b0) * (b3 - b1);
    if (area_a <= 0 || area_b <= 0) {
        return 0;
    }
    float h = greater(lesser(a2, b2) - greater(a0, b0), 0), w = greater(lesser(a3, b3) - greater(a1, b1), 0),
          both = h * w;
    return both / (area_a + area_b - both);
}

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->index < b->index);
}

static void push(struct nms *s, struct candidate c)
{
    int64_t i = s->n_heap++;
    while (i > 0 && before(&c, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = c;
}

static struct candidate pop(struct nms *s)
{
    struct candidate top = s->heap[0], last = s->heap[--s->n_heap];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
        if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child])) {
            child++;
        }
        if (!before(&s->heap[child], &last)) {
            break;
        }
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

static float rounded(const struct nms *s, float v)
{
    return s->half ? td_round_half(v) : v;
}

/* What is left of the candidate's score beside the boxes kept since it was last looked at; *dropped on a hard
 * overlap. */
static float weaken(const struct nms *s, const struct candidate *c, bool *dropped)
{
    float score = c->score;
    *dropped = false;
    for (int64_t j = s->n_kept - 1; j >= c->begin; j--) {
        float iou = rounded(s, overlap(s, c->index, s->kept[j].index));
        if (s->scale == 0 && iou > s->iou) {
            *dropped = true;
            return 0;
        }
        if (s->scale != 0) {
            score = rounded(s, score * rounded(s, expf(rounded(s, rounded(s, s->scale * iou) * iou))));
        }
        if (score <= s->score) {
            break;
        }
    }
    return score;
}

/* Fills kept[] (at most limit); scores, heap and kept are the caller's. */
static enum td_code suppress(struct td_call *c, struct nms *s, const float *scores, int64_t score_step,
                             struct td_err *err)
{
    s->n_heap = s->n_kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        float v = scores[i * score_step];
        if (v > s->score) {
            push(s, (struct candidate){v, (int32_t)i, 0});
        }
    }
    while (s->n_kept < s->limit && s->n_heap > 0) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        struct candidate next = pop(s);
        bool dropped;
        float score = weaken(s, &next, &dropped);
        if (dropped) {
            continue;
        }
        if (score == next.score) {
            s->kept[s->n_kept++] = next;
        } else if (score > s->score) {
            push(s, (struct candidate){score, next.index, (int32_t)s->n_kept});
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ NonMaxSuppression */

static bool is_overlaps(const struct td_node *n)
{
    return strcmp(n->op_name, "NonMaxSuppressionWithOverlaps") == 0;
}

static enum td_code nms_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *b = &c->in[0], *s = &c->in[1];
    bool square = is_overlaps(c->node), known;
    int64_t limit;
    TD_FAIL_IF(b->rank >= 0 && b->rank != 2, err, INVALID_ARGUMENT, "%s: %s must be 2-D, got %s",
               TD_NODE_STR(c->node), square ? "overlaps" : "boxes", TD_SHAPE_STR(b));
    TD_FAIL_IF(!square && b->rank == 2 && b->dim[1] >= 0 && b->dim[1] != 4, err, INVALID_ARGUMENT,
               "%s: boxes must have 4 columns, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(b));
    TD_FAIL_IF(square && b->rank == 2 && b->dim[0] >= 0 && b->dim[1] >= 0 && b->dim[0] != b->dim[1], err,
               INVALID_ARGUMENT, "%s: overlaps must be square, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(b));
    TD_FAIL_IF(s->rank >= 0 && s->rank != 1, err, INVALID_ARGUMENT, "%s: scores must be 1-D, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(b->rank == 2 && s->rank == 1 && b->dim[0] >= 0 && s->dim[0] >= 0 && b->dim[0] != s->dim[0],
               err, INVALID_ARGUMENT, "%s: scores has incompatible shape %s for boxes %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s), TD_SHAPE_STR(b));
    TD_FAIL_IF(b->rank == 2 && b->dim[0] > INT32_MAX, err, INVALID_ARGUMENT, "%s: too many boxes: %lld",
               TD_NODE_STR(c->node), (long long)b->dim[0]);
    for (int i = 2; i < c->n_in; i++) {
        TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be 0-D, got shape %s",
                   TD_NODE_STR(c->node),
                   i == 2   ? "max_output_size"
                   : i == 3 ? "iou_threshold"
                            : "score_threshold",
                   TD_SHAPE_STR(&c->in[i]));
    }
    TD_TRY(td_infer_int_value(c, 2, &known, &limit, err));
    bool pads = (c->n_out >= 2) && td_attr_bool(c->node, "pad_to_max_output_size");
    TD_FAIL_IF(known && limit < 0, err, INVALID_ARGUMENT,
               "%s: max_output_size must be non-negative, got %lld", TD_NODE_STR(c->node), (long long)limit);
    c->out[0] = pads && known ? td_shape_vector(limit) : td_shape_of_rank(1);
    if (c->n_out == 3) {
        c->out[1] = c->out[0];
    }
    if (c->n_out >= 2) {
        c->out[c->n_out - 1] = td_shape_scalar();
    }
    return TD_OK;
}

/* Scalar input i as a float; `absent` when the op has no such input. */
static float scalar(const struct td_call *c, int i, float absent)
{
    float v = absent;
    if (i < c->n_in) {
        td_upcast_elems(&v, c->in[i]->data, c->in[i]->dtype, 1);
    }
    return v;
}

static enum td_code nms_room(struct td_call *c, struct nms *s, struct td_err *err)
{
    void *heap, *kept;
    TD_TRY(td_scratch(c, (size_t)s->n * sizeof *s->heap, &heap, err));
    TD_TRY(td_scratch(c, (size_t)s->n * sizeof *s->kept, &kept, err));
    s->heap = heap;
    s->kept = kept;
    return TD_OK;
}

static enum td_code nms_outputs(struct td_call *c, const struct nms *s, int64_t limit, struct td_err *err)
{
    bool pads = c->n_out >= 2 && td_attr_bool(c->node, "pad_to_max_output_size");
    struct td_shape shape = td_shape_vector(pads ? limit : s->n_kept);
    struct td_tensor *indices, *scores = NULL, *valid;
    TD_TRY(td_out(c, 0, &shape, &indices, err));
    if (c->n_out == 3) {
        TD_TRY(td_out(c, 1, &shape, &scores, err));
    }
    for (int64_t i = 0; i < shape.dim[0]; i++) {
        double score = i < s->n_kept ? s->kept[i].score : 0;
        TD_DATA(indices, int32_t)[i] = i < s->n_kept ? s->kept[i].index : 0;
        if (scores != NULL) {
            td_downcast_doubles((char *)scores->data + (size_t)i * td_dtype_size(scores->dtype), &score,
                                scores->dtype, 1);
        }
    }
    if (c->n_out >= 2) {
        TD_TRY(td_out(c, c->n_out - 1, NULL, &valid, err));
        TD_DATA(valid, int32_t)[0] = (int32_t)s->n_kept;
    }
    return TD_OK;
}

static enum td_code nms_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    int64_t limit = td_tensor_int(c->in[2], 0);
    bool first = strcmp(n->op_name, "NonMaxSuppression") == 0;
    const float *boxes, *scores;
    TD_TRY(td_upcast(c, c->in[0], &boxes, err));
    TD_TRY(td_upcast(c, c->in[1], &scores, err));
    struct nms s = {.boxes = is_overlaps(n) ? NULL : boxes,
                    .stride = 4,
                    .overlaps = boxes,
                    .n = td_tensor_count(c->in[1])};
    s.iou = first ? (float)td_attr_float(n, "iou_threshold") : scalar(c, 3, 0.5f);
    s.score = scalar(c, 4, -INFINITY);
    float sigma = scalar(c, 5, 0);
    s.half = sigma > 0 && c->in[0]->dtype == TD_HALF;
    s.scale = sigma > 0 ? rounded(&s, -0.5f / sigma) : 0;
    s.limit = limit < s.n ? limit : s.n;
    TD_FAIL_IF(!is_overlaps(n) && !(s.iou >= 0 && s.iou <= 1), err, INVALID_ARGUMENT,
               "%s: iou_threshold must be in [0, 1], got %g", TD_NODE_STR(n), (double)s.iou);
    TD_FAIL_IF(!(sigma >= 0), err, INVALID_ARGUMENT, "%s: soft_nms_sigma must be non-negative, got %g",
               TD_NODE_STR(n), (double)sigma);
    TD_TRY(nms_room(c, &s, err));
    TD_TRY(suppress(c, &s, scores, 1, err));
    return nms_outputs(c, &s, limit, err);
}

/* ------------------------------------------------------------------ CombinedNonMaxSuppression */

/* boxes [B,N,q,4] with q == 1 or the number of classes, scores [B,N,classes] */
static enum td_code combined_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *b = &c->in[0], *s = &c->in[1];
    TD_FAIL_IF((b->rank >= 0 && b->rank != 4) || (b->rank == 4 && b->dim[3] >= 0 && b->dim[3] != 4), err,
               INVALID_ARGUMENT, "%s: boxes must be 4-D with 4 columns, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(b));
    TD_FAIL_IF(s->rank >= 0 && s->rank != 3, err, INVALID_ARGUMENT, "%s: scores must be 3-D, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    for (int i = 0; i < 2 && b->rank == 4 && s->rank == 3; i++) {
        TD_FAIL_IF(b->dim[i] >= 0 && s->dim[i] >= 0 && b->dim[i] != s->dim[i], err, INVALID_ARGUMENT,
                   "%s: boxes and scores must have same %s: %s and %s", TD_NODE_STR(c->node),
                   i == 0 ? "batch size" : "number of boxes", TD_SHAPE_STR(b), TD_SHAPE_STR(s));
    }
    TD_FAIL_IF(b->rank == 4 && s->rank == 3 && b->dim[2] >= 0 && s->dim[2] >= 0 && b->dim[2] != 1 &&
                   b->dim[2] != s->dim[2],
               err, INVALID_ARGUMENT,
               "%s: third dimension of boxes must be either 1 or equal to the number of classes: %s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(b), TD_SHAPE_STR(s));
    bool known[2];
    int64_t per_class, total, batch = b->rank == 4 ? b->dim[0] : -1, size = -1;
    TD_TRY(td_infer_int_value(c, 2, &known[0], &per_class, err));
    TD_TRY(td_infer_int_value(c, 3, &known[1], &total, err));
    TD_FAIL_IF(known[0] && per_class <= 0, err, INVALID_ARGUMENT,
               "%s: max_size_per_class must be positive, got %lld", TD_NODE_STR(c->node),
               (long long)per_class);
    TD_FAIL_IF(known[1] && total <= 0, err, INVALID_ARGUMENT, "%s: max_total_size must be > 0, got %lld",
               TD_NODE_STR(c->node), (long long)total);
    int64_t classes = s->rank == 3 ? s->dim[2] : -1;
    if (known[1] && !td_attr_bool(c->node, "pad_per_class")) {
        size = total;
    } else if (known[0] && known[1] && classes >= 0) {
        size = per_class * classes < total ? per_class * classes : total;
    }
    c->out[0] = td_shape_of_rank(3);
    c->out[0].dim[0] = batch;
    c->out[0].dim[1] = size;
    c->out[0].dim[2] = 4;
    c->out[1] = c->out[2] = td_shape_matrix(batch, size);
    c->out[3] = td_shape_vector(batch);
    return TD_OK;
}

struct result {
    float score;
    int32_t class_id, index;
    int64_t order;
};

static int by_score(const void *a, const void *b)
{
    const struct result *x = a, *y = b;
    if (x->score != y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

/* All classes of one image into results; returns how many. */
static enum td_code image_results(struct td_call *c, struct nms *s, int64_t image, struct result *results,
                                  int64_t *count, struct td_err *err)
{
    const struct td_shape *b = &c->in[0]->shape;
    int64_t classes = c->in[1]->shape.dim[2], q = b->dim[2];
    *count = 0;
    for (int64_t k = 0; k < classes; k++) {
        s->boxes = TD_DATA(c->in[0], float) + (image * s->n * q + (q == 1 ? 0 : k)) * 4;
        TD_TRY(suppress(c, s, TD_DATA(c->in[1], float) + image * s->n * classes + k, classes, err));
        for (int64_t i = 0; i < s->n_kept; i++, (*count)++) {
            results[*count] = (struct result){s->kept[i].score, (int32_t)k, s->kept[i].index, *count};
        }
    }
    qsort(results, (size_t)*count, sizeof *results, by_score);
    return TD_OK;
}

static enum td_code combined_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out[4];
    for (int i = 0; i < 4; i++) {
        TD_TRY(td_out(c, i, NULL, &out[i], err));
    }
    const struct td_shape *b = &c->in[0]->shape;
    int64_t classes = c->in[1]->shape.dim[2], q = b->dim[2], size = out[1]->shape.dim[1];
    struct nms s = {.stride = 4 * q, .n = b->dim[1], .iou = scalar(c, 4, 0), .score = scalar(c, 5, 0)};
    TD_FAIL_IF(!(s.iou >= 0 && s.iou <= 1), err, INVALID_ARGUMENT,
               "%s: iou_threshold must be in [0, 1], got %g", TD_NODE_STR(c->node), (double)s.iou);
    s.limit = td_tensor_int(c->in[2], 0) < s.n ? td_tensor_int(c->in[2], 0) : s.n;
    void *room;
    TD_TRY(nms_room(c, &s, err));
    TD_TRY(td_scratch(c, (size_t)(s.limit * classes) * sizeof(struct result), &room, err));
    struct result *results = room;
    bool clips = td_attr_bool(c->node, "clip_boxes");
    for (int64_t image = 0; image < b->dim[0]; image++) {
        int64_t count;
        TD_TRY(image_results(c, &s, image, results, &count, err));
        for (int64_t i = 0; i < size; i++) {
            int64_t at = image * size + i;
            bool used = i < count;
            int64_t box =
                used ? (image * s.n + results[i].index) * q + (q == 1 ? 0 : results[i].class_id) : 0;
            for (int k = 0; k < 4; k++) {
                float v = used ? TD_DATA(c->in[0], float)[box * 4 + k] : 0;
                TD_DATA(out[0], float)[at * 4 + k] = !clips ? v : v < 0 ? 0 : v > 1 ? 1 : v;
            }
            TD_DATA(out[1], float)[at] = used ? results[i].score : 0;
            TD_DATA(out[2], float)[at] = used ? (float)results[i].class_id : 0;
        }
        TD_DATA(out[3], int32_t)[image] = (int32_t)(count < size ? count : size);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_NMS (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF))
#define NMS_ROW TD_KERNEL("non_max_suppression.cpu", nms_run, {"T", SET_NMS}, {"T_threshold", SET_NMS})

const struct td_op td_ops_nms[] = {
    {.name = "NonMaxSuppression",
     .sig = "(boxes:float, scores:float, max_output_size:int32) -> (selected_indices:int32) "
            "{iou_threshold:float=0.5}",
     .host_in = 4,
     .infer = nms_infer,
     .kernels = TD_KERNEL("non_max_suppression.cpu", nms_run),
     .grad = td_not_differentiable},
    {.name = "NonMaxSuppressionV2",
     .sig =
         "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold) -> (selected_indices:int32) "
         "{T:type=float; T_threshold:type=float}",
     .host_in = 12,
     .infer = nms_infer,
     .kernels = NMS_ROW,
     .grad = td_not_differentiable},
    {.name = "NonMaxSuppressionV3",
     .sig = "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold, "
            "score_threshold:T_threshold) -> "
            "(selected_indices:int32) {T:type=float; T_threshold:type=float}",
     .host_in = 28,
     .infer = nms_infer,
     .kernels = NMS_ROW},
    {.name = "NonMaxSuppressionV4",
     .sig = "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold, "
            "score_threshold:T_threshold) -> "
            "(selected_indices:int32, valid_outputs:int32) {T:type=float; T_threshold:type=float; "
            "pad_to_max_output_size:bool=false}",
     .host_in = 28,
     .infer = nms_infer,
     .kernels = NMS_ROW},
    {.name = "NonMaxSuppressionV5",
     .sig = "(boxes:T, scores:T, max_output_size:int32, iou_threshold:T, score_threshold:T, "
            "soft_nms_sigma:T) -> "
            "(selected_indices:int32, selected_scores:T, valid_outputs:int32) {T:type=float; "
            "pad_to_max_output_size:bool=false}",
     .host_in = 60,
     .infer = nms_infer,
     .kernels = TD_KERNEL("non_max_suppression.cpu", nms_run, {"T", SET_NMS})},
    {.name = "NonMaxSuppressionWithOverlaps",
     .sig = "(overlaps:float, scores:float, max_output_size:int32, overlap_threshold:float, "
            "score_threshold:float) -> "
            "(selected_indices:int32) {}",
     .host_in = 28,
     .infer = nms_infer,
     .kernels = TD_KERNEL("non_max_suppression.cpu", nms_run),
     .grad = td_not_differentiable},
    {.name = "CombinedNonMaxSuppression",
     .sig = "(boxes:float, scores:float, max_output_size_per_class:int32, max_total_size:int32, "
            "iou_threshold:float, "
            "score_threshold:float) -> (nmsed_boxes:float, nmsed_scores:float, nmsed_classes:float, "
            "valid_detections:int32) {pad_per_class:bool=false; clip_boxes:bool=true}",
     .host_in = 60,
     .infer = combined_infer,
     .kernels = TD_KERNEL("combined_non_max_suppression.cpu", combined_run)},
    {.name = NULL},
};
