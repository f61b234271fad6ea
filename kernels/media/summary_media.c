/* kernels/media/summary_media.c - ImageSummary, AudioSummary: pictures as PNG files, sounds as WAV files.
 *
 *   Summary{1: Value{1 tag, 4 Image{1 height, 2 width, 3 channels, 4 png}}}
 *   Summary{1: Value{1 tag, 6 Audio{1 rate, 2 channels, 3 frames, 4 wav, 5 "audio/wav"}}}
 *
 * One value for each of the first max_images pictures of a batch, tagged tag/image/0 and so on; tag/image
 * when there is at most one. Pictures that are no bytes are stretched to 0..255: all positive ones from 0 to
 * their maximum, others by their largest magnitude around 128. A pixel with a number that is not finite gets
 * bad_color.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/media/audio.h"
#include "kernels/ops.h"
#include "kernels/media/picture.h"
#include "kernels/media/summary.h"
#include "kernels/cpu/upcast.h"

enum { MOST_CHANNELS = 4, TAG_ROOM = 40 };

/* One picture or sound of the batch. */
struct medium {
    const char *kind; /* "image", "audio" */
    int field;        /* of Value */
    int64_t i;
    bool many;
};

/* "<tag>/image/3", or "<tag>/image" when there is but one; a block of the caller's. */
static enum td_code make_tag(const struct td_call *c, const struct medium *which, char **tag, size_t *len,
                             struct td_err *err)
{
    size_t n;
    const char *base = td_tensor_str(c->in[0], 0, &n);
    char *p = td_calloc(n + TAG_ROOM, 1);
    if (p == NULL) {
        return td_no_memory(err, n, "tag of a summary");
    }
    memcpy(p, base, n);
    int more = which->many ? snprintf(p + n, TAG_ROOM, "/%s/%lld", which->kind, (long long)which->i)
                           : snprintf(p + n, TAG_ROOM, "/%s", which->kind);
    *tag = p;
    *len = n + (size_t)more;
    return TD_OK;
}

static enum td_code put_number(struct td_sink *s, int field, int64_t v, struct td_err *err)
{
    if (v == 0) {
        return TD_OK; /* as serialized messages leave out zeros */
    }
    return td_put_int(s, (uint32_t)field, v, err);
}

/* Appends a Value with the message m. */
static enum td_code put_medium(const struct td_call *c, struct td_sink *s, const struct medium *which,
                               const struct td_sink *m, struct td_err *err)
{
    struct td_sink inner = {.limit = TD_SUMMARY_LIMIT};
    char *tag = NULL;
    size_t len = 0;
    TD_TRY(make_tag(c, which, &tag, &len, err));
    enum td_code rc = td_put_bytes(&inner, (uint32_t)which->field, m->p, m->n, err);
    if (rc == TD_OK) {
        rc = td_summary_value(s, tag, len, &inner, err);
    }
    td_sink_fini(&inner);
    td_free(tag);
    return rc;
}

/* ------------------------------------------------------------------ pictures */

static enum td_code image_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[1];
    int64_t depth = s->rank == 4 ? s->dim[3] : -1;
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_FAIL_IF((s->rank >= 0 && s->rank != 4) || (depth >= 0 && depth != 1 && depth != 3 && depth != 4), err,
               INVALID_ARGUMENT, "%s: Tensor must be 4-D with last dim 1, 3, or 4, not %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code bad_color(const struct td_node *n, int64_t depth, uint8_t color[MOST_CHANNELS],
                              struct td_err *err)
{
    static const uint8_t red[MOST_CHANNELS] = {255, 0, 0, 255};
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, "bad_color");
    memcpy(color, red, sizeof red);
    if (a == NULL || a->kind != TD_ATTR_TENSOR || a->n != 1) {
        return TD_OK;
    }
    const struct td_tensor *t = a->tensor;
    TD_FAIL_IF(t->dtype != TD_UINT8 || t->shape.rank != 1, err, INVALID_ARGUMENT,
               "%s: bad_color must be a vector of uint8, not %s of shape %s", TD_NODE_STR(n),
               td_dtype_name(t->dtype), TD_SHAPE_STR(&t->shape));
    TD_FAIL_IF(t->shape.dim[0] < depth, err, INVALID_ARGUMENT,
               "%s: expected depth <= bad_color.size, got depth = %lld, bad_color.size = %lld",
               TD_NODE_STR(n), (long long)depth, (long long)t->shape.dim[0]);
    memcpy(color, t->data, (size_t)depth);
    return TD_OK;
}

/* Element i rounded as the tensor's type has it; `as` brings a result back to that type. */
static double number(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_FLOAT  ? (double)TD_DATA(t, float)[i]
           : t->dtype == TD_HALF ? (double)td_half_to_float(TD_DATA(t, td_half)[i])
                                 : TD_DATA(t, double)[i];
}

static bool finite_pixel(const struct td_tensor *t, int64_t at, int64_t depth)
{
    bool finite = true;
    for (int64_t k = 0; finite && k < depth; k++) {
        finite = isfinite(number(t, at + k));
    }
    return finite;
}

/* v = x * scale + offset spreads the picture's finite pixels over 0..255. */
static void find_spread(const struct td_tensor *t, int64_t first, int64_t cells, int64_t depth, double *scale,
                        double *offset)
{
    float lo = INFINITY, hi = -INFINITY;
    for (int64_t at = first; at < first + cells * depth; at += depth) {
        for (int64_t k = 0; k < depth && finite_pixel(t, at, depth); k++) {
            float v = (float)number(t, at + k);
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
    }
    bool centred = lo < 0;
    float most = centred ? fmaxf(fabsf(lo), fabsf(hi)) : hi;
    float by = most < 1e-6f ? 0 : (centred ? 127.0f : 255.0f) / most;
    *scale = td_round_to(t->dtype, (double)by);
    *offset = centred ? 128 : 0;
}

static void make_bytes(const struct td_tensor *t, int64_t first, int64_t cells, int64_t depth,
                       const uint8_t *color, uint8_t *out)
{
    double scale, offset;
    if (t->dtype == TD_UINT8) {
        memcpy(out, TD_DATA(t, uint8_t) + first, (size_t)(cells * depth));
        return;
    }
    find_spread(t, first, cells, depth, &scale, &offset);
    for (int64_t i = 0; i < cells; i++) {
        bool good = finite_pixel(t, first + i * depth, depth);
        for (int64_t k = 0; k < depth; k++) {
            double x = number(t, first + i * depth + k);
            double v = good ? td_round_to(t->dtype, td_round_to(t->dtype, x * scale) + offset) : 0;
            out[i * depth + k] = good ? (uint8_t)(int)fmin(fmax(v, 0), 255) : color[k];
        }
    }
}

/* Image{..} */
static enum td_code image_message(const struct td_picture *p, const struct td_picture_out *png,
                                  struct td_sink *m, struct td_err *err)
{
    TD_TRY(put_number(m, 1, p->height, err));
    TD_TRY(put_number(m, 2, p->width, err));
    TD_TRY(put_number(m, 3, p->channels, err));
    return td_put_bytes(m, 4, png->data, png->len, err);
}

static enum td_code put_image(const struct td_call *c, struct td_sink *s, const struct medium *which,
                              const uint8_t *pixels, struct td_err *err)
{
    const struct td_shape *shape = &c->in[1]->shape;
    struct td_picture p = {
        .frames = 1, .height = shape->dim[1], .width = shape->dim[2], .channels = shape->dim[3]};
    struct td_picture_out png = {0};
    struct td_sink m = {.limit = TD_SUMMARY_LIMIT};
    TD_TRY(td_picture_check(&p, err));
    enum td_code rc = td_png_encode(pixels, &p, -1, &png, err);
    if (rc == TD_OK) {
        rc = image_message(&p, &png, &m, err);
    }
    if (rc == TD_OK) {
        rc = put_medium(c, s, which, &m, err);
    }
    td_free(png.data);
    td_sink_fini(&m);
    return rc;
}

static enum td_code image_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *t = c->in[1];
    int64_t batch = t->shape.dim[0], depth = t->shape.dim[3], cells = td_shape_range(&t->shape, 1, 3);
    int64_t most = td_attr_int(c->node, "max_images"), n = batch < most ? batch : most;
    uint8_t color[MOST_CHANNELS];
    void *pixels;
    TD_FAIL_IF(most <= 0, err, INVALID_ARGUMENT, "%s: max_images must be > 0, is %lld", TD_NODE_STR(c->node),
               (long long)most);
    TD_TRY(bad_color(c->node, depth, color, err));
    TD_TRY(td_scratch(c, (size_t)(cells * depth) + 1, &pixels, err));
    struct td_sink s = {.limit = TD_SUMMARY_LIMIT};
    enum td_code rc = TD_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        make_bytes(t, i * cells * depth, cells, depth, color, pixels);
        struct medium which = {.kind = "image", .field = 4, .i = i, .many = most > 1};
        rc = put_image(c, &s, &which, pixels, err);
    }
    return td_summary_out(c, &s, rc, err);
}

/* ------------------------------------------------------------------ sounds */

static enum td_code audio_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[1];
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_FAIL_IF(s->rank >= 0 && s->rank != 2 && s->rank != 3, err, INVALID_ARGUMENT,
               "%s: Tensor must be 3-D or 2-D, got: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    if (c->n_in > 2) {
        TD_TRY(td_infer_rank(c, 2, 0, err));
    }
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

struct sound {
    int64_t frames, channels;
    float rate;
};

/* Audio{..} */
static enum td_code audio_message(const struct sound *sound, const uint8_t *wav, size_t wav_bytes,
                                  struct td_sink *m, struct td_err *err)
{
    TD_TRY(td_put_float(m, 1, sound->rate, err));
    TD_TRY(put_number(m, 2, sound->channels, err));
    TD_TRY(put_number(m, 3, sound->frames, err));
    TD_TRY(td_put_bytes(m, 4, wav, wav_bytes, err));
    return td_put_bytes(m, 5, "audio/wav", 9, err);
}

static enum td_code put_audio(const struct td_call *c, struct td_sink *s, const struct medium *which,
                              const struct sound *sound, uint8_t *wav, struct td_err *err)
{
    int64_t n = sound->frames * sound->channels, rate = lrintf(sound->rate);
    struct td_sink m = {.limit = TD_SUMMARY_LIMIT};
    td_wav_encode(TD_DATA(c->in[1], float) + which->i * n, n, sound->channels, rate > 0 ? rate : 1, wav);
    enum td_code rc = audio_message(sound, wav, td_wav_bytes(n), &m, err);
    if (rc == TD_OK) {
        rc = put_medium(c, s, which, &m, err);
    }
    td_sink_fini(&m);
    return rc;
}

static enum td_code audio_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *shape = &c->in[1]->shape;
    struct sound sound = {.frames = shape->dim[1],
                          .channels = shape->rank == 2 ? 1 : shape->dim[2],
                          .rate = c->n_in > 2 ? TD_DATA(c->in[2], float)[0]
                                              : (float)td_attr_float(c->node, "sample_rate")};
    int64_t most = td_attr_int(c->node, "max_outputs"), n = shape->dim[0] < most ? shape->dim[0] : most,
            samples;
    void *wav;
    TD_FAIL_IF(most <= 0, err, INVALID_ARGUMENT, "%s: max_outputs must be > 0, is %lld", TD_NODE_STR(c->node),
               (long long)most);
    TD_FAIL_IF(!(sound.rate > 0) || sound.rate > (float)(1u << 30), err, INVALID_ARGUMENT,
               "%s: sample_rate must be > 0, is %g", TD_NODE_STR(c->node), (double)sound.rate);
    TD_FAIL_IF(n > 0 && (sound.channels < 1 || sound.channels > 65535 || sound.frames < 1 ||
                         !td_i64_mul(sound.frames, sound.channels, &samples) || samples > INT32_MAX / 2 - 64),
               err, INVALID_ARGUMENT, "%s: audio %s does not fit a WAV file", TD_NODE_STR(c->node),
               TD_SHAPE_STR(shape));
    TD_TRY(td_scratch(c, td_wav_bytes(n > 0 ? sound.frames * sound.channels : 0), &wav, err));
    struct td_sink s = {.limit = TD_SUMMARY_LIMIT};
    enum td_code rc = TD_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        struct medium which = {.kind = "audio", .field = 6, .i = i, .many = most > 1};
        rc = put_audio(c, &s, &which, &sound, wav, err);
    }
    return td_summary_out(c, &s, rc, err);
}

/* ------------------------------------------------------------------ the table */

#define ROW(opname, signature, shapes, fn, ...)                                                              \
    {                                                                                                        \
        .name = opname, .sig = signature, .infer = shapes,                                                   \
        .kernels = TD_KERNEL("summary.cpu", fn, __VA_ARGS__), .grad = td_not_differentiable                  \
    }

const struct td_op td_ops_summary_media[] = {
    ROW("ImageSummary", "(tag:string, tensor:T) -> (summary:string) {max_images:int=3; T:type=float}",
        image_infer, image_run,
        {"T", TD_BIT(TD_UINT8) | TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_DOUBLE)}),
    ROW("AudioSummary",
        "(tag:string, tensor:float) -> (summary:string) {sample_rate:float; max_outputs:int=3}", audio_infer,
        audio_run),
    ROW("AudioSummaryV2",
        "(tag:string, tensor:float, sample_rate:float) -> (summary:string) {max_outputs:int=3}", audio_infer,
        audio_run),
    {.name = NULL},
};
