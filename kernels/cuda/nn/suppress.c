/* kernels/cuda/nn/suppress.c - rows of NonMaxSuppression, its versions 2 to 5 and WithOverlaps, and of
 * CombinedNonMaxSuppression.
 *
 *   scores  --top-->  sorted, order  --suppress-->  kept
 *
 * How many are kept follows from the values, unless the result is padded: then nothing is waited for. Of
 * CombinedNonMaxSuppression each class of each image is a row, and the rows' scores are sorted once more.
 * Weakening scores in place of dropping boxes (soft_nms_sigma) is the host's, whose exponentials decide.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/suppress.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/math/top.h"
#include "kernels/cuda/rows.h"

enum { ROOM = 1 << 28, EACH = 4 }; /* bytes of workspace, at most; of a number in it */

/* Scalar i of those on the host; `absent` where the op has no such input. */
static float scalar(const struct td_tensor *const *in, int n_in, int i, float absent)
{
    return i >= n_in                 ? absent
           : in[i]->dtype == TD_HALF ? td_half_to_float(TD_DATA(in[i], const td_half)[0])
                                     : TD_DATA(in[i], const float)[0];
}

/* The host has words for it. */
static bool is_share(float iou)
{
    return iou >= 0 && iou <= 1;
}

/* Workspace of `rows` rows of n scores that are sorted, and of `padded` that are kept; 0: too much. */
static size_t room_of(int64_t rows, int64_t n, int64_t padded)
{
    size_t sorting;
    if (!td_cuda_top_workspace(rows, n, n, &sorting) || sorting > ROOM || rows * n > ROOM / EACH ||
        rows * padded > ROOM / EACH) {
        return 0;
    }
    return sorting + (size_t)(2 * rows * (n + padded) + rows) * EACH;
}

/* Lays out s in such a workspace; returns what is behind it. */
static void *lay(const struct td_call *c, enum td_cuda_type type, struct td_cuda_suppress *s)
{
    size_t sorting;
    (void)td_cuda_top_workspace(s->rows, s->n, s->n, &sorting);
    int32_t *const sorted = (int32_t *)(void *)((char *)c->workspace + sorting);
    int32_t *const order = sorted + s->rows * s->n;
    s->type = type;
    s->sorted = sorted;
    s->order = order;
    s->kept = order + s->rows * s->n;
    s->scores = s->kept + s->rows * s->padded;
    s->valid = s->kept + 2 * s->rows * s->padded;
    return s->valid + s->rows;
}

/* Sorts the scores [rows, n]. */
static int sort(const struct td_call *c, const void *scores, const struct td_cuda_suppress *s)
{
    const struct td_cuda_top top = {.x = scores,
                                    .values = (void *)s->sorted,
                                    .indices = (void *)s->order,
                                    .rows = s->rows,
                                    .n = s->n,
                                    .k = s->n,
                                    .index_bytes = EACH,
                                    .workspace = c->workspace};
    return td_cuda_top_of(s->type, &top, td_cuda_stream_of(c));
}

/* ------------------------------------------------------------------ NonMaxSuppression */

static bool pads(const struct td_node *n)
{
    return n->n_out >= 2 && td_attr_bool(n, "pad_to_max_output_size");
}

static const char *refuse_padded(const struct td_node *n)
{
    return pads(n) ? NULL : "its result is as long as values say";
}
static const char *refuse_sized(const struct td_node *n)
{
    return pads(n) ? "its result is padded" : NULL;
}

static bool is_plain(const struct td_kernel_query *q)
{
    return q->n_in < 6 || (q->value[5] != NULL && scalar(q->value, q->n_in, 5, 0) == 0);
}

static void offer(const struct td_kernel_query *q, int64_t padded, struct td_kernel_offer *o)
{
    const int64_t n = q->in[1].dim[0];
    o->refusal = n == 0 || padded == 0 ? "there are no boxes"
                 : n >= INT32_MAX      ? "too many boxes"
                 : !is_plain(q)        ? "scores are weakened"
                 : q->n_in == 3 && !is_share((float)td_attr_float(q->node, "iou_threshold"))
                     ? "no such overlap"
                     : NULL;
    o->workspace_bytes = o->refusal == NULL ? room_of(1, n, padded) : 0;
    o->refusal = o->refusal == NULL && o->workspace_bytes == 0 ? "too many boxes" : o->refusal;
}

static enum td_code prepare_padded(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    (void)err;
    if (td_shape_known(&q->out[0])) {
        offer(q, q->out[0].dim[0], o);
    } else {
        o->refusal = "a length that is not known before";
    }
    return TD_OK;
}

static int64_t limit_of(const struct td_tensor *const *in, const struct td_shape *scores)
{
    const int64_t limit = td_tensor_int(in[2], 0);
    return limit < scores->dim[0] ? limit : scores->dim[0];
}

static enum td_code prepare_sized(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    (void)err;
    if (q->value[2] != NULL) {
        offer(q, limit_of(q->value, &q->in[1]), o);
    } else {
        o->refusal = "a length that is not known before";
    }
    return TD_OK;
}

/* padded: entries of kept and scores. */
static struct td_cuda_suppress boxes_of(const struct td_call *c, int64_t padded)
{
    const bool squares = strcmp(c->node->op_name, "NonMaxSuppressionWithOverlaps") == 0;
    struct td_cuda_suppress s = {.boxes = squares ? NULL : c->in[0]->data,
                                 .overlaps = squares ? c->in[0]->data : NULL,
                                 .rows = 1,
                                 .n = c->in[1]->shape.dim[0],
                                 .classes = 1,
                                 .each = 1,
                                 .most = c->n_in == 3 ? (float)td_attr_float(c->node, "iou_threshold")
                                                      : scalar(c->in, c->n_in, 3, 0),
                                 .least = scalar(c->in, c->n_in, 4, -INFINITY),
                                 .limit = limit_of(c->in, &c->in[1]->shape),
                                 .padded = padded};
    (void)lay(c, td_cuda_type_of(c->in[1]->dtype), &s);
    return s;
}

static enum td_code suppress(const struct td_call *c, struct td_cuda_suppress *s, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    int error = sort(c, c->in[1]->data, s);
    if (error == 0 && s->overlaps == NULL && !is_share(s->most)) {
        error = td_cuda_refuse_call(c->fault, stream);
        s->limit = 0;
    }
    return td_cuda_launched(c, error != 0 ? error : td_cuda_suppress_boxes(s, stream), err);
}

static enum td_code run_padded(struct td_call *c, struct td_err *err)
{
    struct td_tensor *indices, *scores = NULL, *valid;
    TD_TRY(td_out(c, 0, NULL, &indices, err));
    TD_TRY(c->n_out == 3 ? td_out(c, 1, NULL, &scores, err) : TD_OK);
    TD_TRY(td_out(c, c->n_out - 1, NULL, &valid, err));
    struct td_cuda_suppress s = boxes_of(c, td_tensor_count(indices));
    s.kept = indices->data;
    s.scores = scores != NULL ? scores->data : NULL;
    s.valid = valid->data;
    return suppress(c, &s, err);
}

static int one(const struct td_node *n)
{
    (void)n;
    return 1;
}

static enum td_code count_sized(struct td_call *c, struct td_err *err)
{
    struct td_cuda_suppress s = boxes_of(c, limit_of(c->in, &c->in[1]->shape));
    s.counts = c->counts;
    return suppress(c, &s, err);
}

static enum td_code shapes_sized(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                                 struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out; i++) {
        out[i] = i > 0 && i + 1 == c->n_out ? td_shape_scalar() : td_shape_vector(counts[0]);
    }
    return TD_OK;
}

static enum td_code copy_out(struct td_call *c, int i, void *from, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, i, NULL, &y, err));
    struct td_tensor x = *y;
    x.data = from;
    return td_tensor_count(y) == 0 ? TD_OK : td_cuda_copy_all(c, &x, y, err);
}

static enum td_code run_sized(struct td_call *c, struct td_err *err)
{
    const struct td_cuda_suppress of = boxes_of(c, limit_of(c->in, &c->in[1]->shape));
    TD_TRY(copy_out(c, 0, of.kept, err));
    TD_TRY(c->n_out == 3 ? copy_out(c, 1, of.scores, err) : TD_OK);
    return c->n_out >= 2 ? copy_out(c, c->n_out - 1, of.valid, err) : TD_OK;
}

/* ------------------------------------------------------------------ CombinedNonMaxSuppression */

/* Classes of images, and what each keeps. */
static struct td_cuda_suppress classes_of(const struct td_shape *boxes, const struct td_shape *scores,
                                          const struct td_tensor *limit)
{
    const int64_t n = boxes->dim[1], most = limit == NULL ? n : td_tensor_int(limit, 0);
    struct td_cuda_suppress s = {.rows = boxes->dim[0] * scores->dim[2],
                                 .n = n,
                                 .classes = scores->dim[2],
                                 .each = boxes->dim[2],
                                 .limit = most < n ? most : n,
                                 .padded = most < n ? most : n,
                                 .rest = -INFINITY};
    return s;
}

/* How many of them an image may tell of, of `size` that are asked for. */
static int64_t taken_of(const struct td_cuda_suppress *s, int64_t size)
{
    return size < s->classes * s->padded ? size : s->classes * s->padded;
}

static enum td_code prepare_combined(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    (void)err;
    const struct td_cuda_suppress s = classes_of(&q->in[0], &q->in[1], q->value[2]);
    const int64_t size = q->out[1].dim[1];
    size_t again = 0;
    o->refusal = s.rows == 0 || s.n == 0 || s.padded <= 0 || size <= 0 ? "there are no boxes"
                 : q->value[2] == NULL                                 ? "a length that is not known before"
                 : room_of(s.rows, s.n, s.padded) == 0                 ? "too many boxes"
                                                                       : NULL;
    const int64_t images = q->in[0].dim[0], taken = taken_of(&s, size);
    if (o->refusal == NULL &&
        (!td_cuda_top_workspace(images, s.classes * s.padded, taken, &again) || again > ROOM)) {
        o->refusal = "too many boxes";
    }
    if (o->refusal == NULL) { /* the scores by rows; the best of all, behind room to sort them in */
        o->workspace_bytes = room_of(s.rows, s.n, s.padded) + (size_t)(s.rows * s.n) * EACH + again + 16 +
                             (size_t)(2 * images * taken) * EACH;
    }
    return TD_OK;
}

/* The best of what rows keep, and their places; `room` is behind what s has. */
static int rank(const struct td_call *c, const struct td_cuda_suppress *s, void *room,
                struct td_cuda_suppressed *out)
{
    size_t bytes;
    const int64_t images = c->in[0]->shape.dim[0], n = s->classes * s->padded;
    (void)td_cuda_top_workspace(images, n, out->taken, &bytes);
    char *const sorting = (char *)(((uintptr_t)room + 15) / 16 * 16); /* NOLINT(performance-no-int-to-ptr) */
    float *const best = (float *)(void *)(sorting + bytes);
    const struct td_cuda_top top = {.x = s->scores,
                                    .values = best,
                                    .indices = best + images * out->taken,
                                    .rows = images,
                                    .n = n,
                                    .k = out->taken,
                                    .index_bytes = EACH,
                                    .workspace = sorting};
    out->best = best;
    out->which = (const int32_t *)(void *)(best + images * out->taken);
    return td_cuda_top_of(TD_CUDA_FLOAT, &top, td_cuda_stream_of(c));
}

static enum td_code run_combined(struct td_call *c, struct td_err *err)
{
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    const struct td_tensor *boxes = c->in[0], *scores = c->in[1];
    struct td_tensor *y[4];
    for (int i = 0; i < 4; i++) {
        TD_TRY(td_out(c, i, NULL, &y[i], err));
    }
    struct td_cuda_suppress s = classes_of(&boxes->shape, &scores->shape, c->in[2]);
    s.boxes = boxes->data;
    s.most = scalar(c->in, c->n_in, 4, 0);
    s.least = scalar(c->in, c->n_in, 5, 0);
    float *const rows = lay(c, TD_CUDA_FLOAT, &s);
    const int64_t images = boxes->shape.dim[0], size = y[1]->shape.dim[1];
    struct td_cuda_suppressed out = {.boxes = boxes->data,
                                     .kept = s.kept,
                                     .images = images,
                                     .n = s.n,
                                     .classes = s.classes,
                                     .each = s.each,
                                     .padded = s.padded,
                                     .taken = taken_of(&s, size),
                                     .size = size,
                                     .clips = td_attr_bool(c->node, "clip_boxes"),
                                     .out_boxes = y[0]->data,
                                     .out_scores = y[1]->data,
                                     .out_classes = y[2]->data,
                                     .valid = y[3]->data};
    if (!is_share(s.most)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, stream), err);
    }
    int error = td_cuda_suppress_rows(scores->data, images, s.n, s.classes, rows, stream);
    error = error != 0 ? error : sort(c, rows, &s);
    error = error != 0 ? error : td_cuda_suppress_boxes(&s, stream);
    error = error != 0 ? error : rank(c, &s, rows + s.rows * s.n, &out);
    return td_cuda_launched(c, error != 0 ? error : td_cuda_suppress_tell(&out, stream), err);
}

/* ------------------------------------------------------------------ rows */

static const struct td_kernel_sized sized = {one, count_sized, shapes_sized};

#define SCORES (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF))
#define PADDED(...)                                                                                          \
    TD_CUDA_ROW("suppress.cuda", .judged = 1 << 3, .refuse = refuse_padded, .prepare = prepare_padded,       \
                .run = run_padded, __VA_ARGS__)
#define SIZED(...)                                                                                           \
    TD_CUDA_ROW("suppress.cuda", .judged = 1 << 3, .refuse = refuse_sized, .prepare = prepare_sized,         \
                .run = run_sized, .sized = &sized, __VA_ARGS__)

static const struct td_kernel rows_of_floats[] = {SIZED(.types = {{0}}), {.name = NULL}};
static const struct td_kernel rows_three[] = {SIZED(.types = {{"T", SCORES}, {"T_threshold", SCORES}}),
                                              {.name = NULL}};
static const struct td_kernel rows_four[] = {PADDED(.types = {{"T", SCORES}, {"T_threshold", SCORES}}),
                                             SIZED(.types = {{"T", SCORES}, {"T_threshold", SCORES}}),
                                             {.name = NULL}};
static const struct td_kernel rows_five[] = {
    PADDED(.types = {{"T", SCORES}}), SIZED(.types = {{"T", SCORES}}), {.name = NULL}};
TD_CUDA_ROWS(rows_combined, "suppress.cuda", .judged = 1 << 4, .prepare = prepare_combined,
             .run = run_combined);

const struct td_op_rows td_cuda_rows_suppress[] = {
    {"NonMaxSuppression", rows_of_floats},        {"NonMaxSuppressionV2", rows_three},
    {"NonMaxSuppressionV3", rows_three},          {"NonMaxSuppressionV4", rows_four},
    {"NonMaxSuppressionV5", rows_five},           {"NonMaxSuppressionWithOverlaps", rows_of_floats},
    {"CombinedNonMaxSuppression", rows_combined}, {NULL, NULL}};
