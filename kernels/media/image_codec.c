/* kernels/media/image_codec.c - pictures as bytes: DecodeJpeg, DecodePng, DecodeGif, DecodeBmp, DecodeImage,
 * DecodeAndCropJpeg, ExtractJpegShape, EncodeJpeg, EncodePng.
 *
 * The decoding ops look at the first bytes and mostly take each other's formats, as TensorFlow's do; they
 * differ in the shape they give: [h,w,c], or [frames,h,w,c] for DecodeGif and for animations in DecodeImage.
 * The codecs are in codec_*.c; here are attributes, shapes and the change of sample type:
 *
 *     uint8 -> uint16: times 256 (PNG: decoded as 16 bits)
 *           -> float: divided by 255 (PNG: 16 bits by 65535)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/media/picture.h"

enum format { JPEG, PNG, GIF, BMP, UNKNOWN };

static enum format format_of(const char *p, size_t n)
{
    if (n >= 3 && memcmp(p, "\xff\xd8\xff", 3) == 0) {
        return JPEG;
    }
    if (n >= 4 && memcmp(p, "\x89PNG", 4) == 0) {
        return PNG;
    }
    if (n >= 4 && memcmp(p, "GIF8", 4) == 0) {
        return GIF;
    }
    return n >= 2 && memcmp(p, "BM", 2) == 0 ? BMP : UNKNOWN;
}

static const char *const format_names[] = {"JPEG", "PNG", "GIF", "BMP"};
static const char *const format_ops[] = {"decode_jpeg", "decode_png", "decode_gif", "decode_bmp"};

static bool is_op(const struct td_node *n, const char *name)
{
    return strcmp(n->op_name, name) == 0;
}

/* ------------------------------------------------------------------ shapes and attributes */

/* What DecodeJpeg and DecodeAndCropJpeg ask of their attributes, whatever the bytes turn out to be. */
static enum td_code check_jpeg_attrs(const struct td_node *n, struct td_err *err)
{
    int64_t ratio = td_attr_int(n, "ratio");
    const char *dct = td_attr_str(n, "dct_method");
    TD_FAIL_IF(ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8, err, INVALID_ARGUMENT,
               "%s: ratio must be 1, 2, 4, or 8, got %lld", TD_NODE_STR(n), (long long)ratio);
    TD_FAIL_IF(dct[0] != '\0' && strcmp(dct, "INTEGER_FAST") != 0 && strcmp(dct, "INTEGER_ACCURATE") != 0,
               err, INVALID_ARGUMENT,
               "%s: dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}, got '%s'",
               TD_NODE_STR(n), dct);
    return TD_OK;
}

static enum td_code contents_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT, "%s: `contents` must be scalar but got shape%s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    if (is_op(c->node, "ExtractJpegShape")) {
        c->out[0] = td_shape_vector(3);
        return TD_OK;
    }
    int64_t channels = is_op(c->node, "DecodeGif") ? 0 : td_attr_int(c->node, "channels");
    TD_FAIL_IF(channels != 0 && channels != 1 && channels != 3 && channels != 4, err, INVALID_ARGUMENT,
               "%s: `channels` must be 0, 1, 3 or 4 but got %lld", TD_NODE_STR(c->node), (long long)channels);
    if (is_op(c->node, "DecodeJpeg") || is_op(c->node, "DecodeAndCropJpeg")) {
        TD_TRY(check_jpeg_attrs(c->node, err));
    }
    if (is_op(c->node, "DecodeAndCropJpeg")) {
        const struct td_shape *w = &c->in[1];
        TD_FAIL_IF((w->rank >= 0 && w->rank != 1) || (w->rank == 1 && w->dim[0] >= 0 && w->dim[0] != 4), err,
                   INVALID_ARGUMENT, "%s: crop_window must have 4 elements, got shape %s",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(w));
    }
    return TD_OK;
}

static enum td_code check_format(const struct td_node *n, enum format f, int64_t channels, struct td_err *err)
{
    TD_FAIL_IF(f == UNKNOWN, err, INVALID_ARGUMENT,
               "%s: Unknown image file format. One of JPEG, PNG, GIF, BMP required.", TD_NODE_STR(n));
    TD_FAIL_IF(is_op(n, "DecodeBmp") && f != BMP, err, INVALID_ARGUMENT,
               "%s: Trying to decode %s format using DecodeBmp op. Use `%s` or `decode_image` instead.",
               TD_NODE_STR(n), format_names[f], format_ops[f]);
    TD_FAIL_IF(f == BMP && !is_op(n, "DecodeBmp") && !is_op(n, "DecodeImage"), err, INVALID_ARGUMENT,
               "%s: Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` "
               "instead. Op used: %s",
               TD_NODE_STR(n), n->op_name);
    TD_FAIL_IF(is_op(n, "DecodeAndCropJpeg") && f != JPEG, err, INVALID_ARGUMENT,
               "%s: DecodeAndCropJpeg operation can run on JPEG only, but detected %s.", TD_NODE_STR(n),
               format_names[f]);
    TD_FAIL_IF(f == JPEG && channels == 4, err, INVALID_ARGUMENT, "%s: JPEG does not support 4 channels",
               TD_NODE_STR(n));
    TD_FAIL_IF(f == GIF && channels != 0 && channels != 3, err, INVALID_ARGUMENT,
               "%s: channels must be 0 or 3 for GIF, got %lld", TD_NODE_STR(n), (long long)channels);
    TD_FAIL_IF(f == BMP && channels == 1, err, INVALID_ARGUMENT,
               "%s: `channels` must be 0, 3 or 4 for BMP, but got %lld", TD_NODE_STR(n), (long long)channels);
    return TD_OK;
}

/* ------------------------------------------------------------------ decoding */

/* Where decoded samples go: straight into the output when the types agree. */
struct sink {
    struct td_call *c;
    enum format format;
    struct td_tensor *out;
    void *samples;
    bool wide;
};

static enum td_code place(void *ctx, const struct td_picture *p, void **pixels, struct td_err *err)
{
    struct sink *s = ctx;
    const struct td_node *n = s->c->node;
    bool animation = is_op(n, "DecodeImage") && s->format == GIF && td_attr_bool(n, "expand_animations");
    bool frames = is_op(n, "DecodeGif") || animation;
    TD_FAIL_IF(!frames && p->frames > 1, err, INVALID_ARGUMENT,
               "%s: Got %lld frames, but animated gifs can only be decoded by tf.io.decode_gif or "
               "tf.io.decode_image",
               TD_NODE_STR(n), (long long)p->frames);
    struct td_shape shape = {4, {p->frames, p->height, p->width, p->channels}};
    if (!frames) {
        shape = (struct td_shape){3, {p->height, p->width, p->channels}};
    }
    TD_TRY(td_out(s->c, 0, &shape, &s->out, err));
    s->wide = p->wide;
    s->samples = s->out->data;
    if (s->out->dtype != (p->wide ? TD_UINT16 : TD_UINT8)) {
        TD_TRY(td_scratch(s->c, (size_t)td_tensor_count(s->out) * (p->wide ? 2 : 1), &s->samples, err));
    }
    *pixels = s->samples;
    return TD_OK;
}

static void convert(const struct sink *s)
{
    int64_t n = td_tensor_count(s->out);
    if (s->samples == s->out->data) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = s->wide ? ((const uint16_t *)s->samples)[i] : ((const uint8_t *)s->samples)[i];
        if (s->out->dtype == TD_UINT16) {
            TD_DATA(s->out, uint16_t)[i] = (uint16_t)(v * 256);
        } else {
            TD_DATA(s->out, float)[i] = (float)v * (1.0f / (s->wide ? 65535.0f : 255.0f));
        }
    }
}

static enum td_code decode_jpeg(struct td_call *c, const struct td_picture_in *in, struct td_err *err)
{
    struct td_jpeg_in j = {.in = *in, .ratio = 1, .fancy = true, .fraction = 1, .dct = ""};
    const struct td_node *n = c->node;
    if (is_op(n, "DecodeJpeg") || is_op(n, "DecodeAndCropJpeg")) {
        j.ratio = (int)td_attr_int(n, "ratio");
        j.fancy = td_attr_bool(n, "fancy_upscaling");
        j.recover = td_attr_bool(n, "try_recover_truncated");
        j.fraction = td_attr_float(n, "acceptable_fraction");
        j.dct = td_attr_str(n, "dct_method");
    }
    j.crop = is_op(n, "DecodeAndCropJpeg");
    for (int i = 0; i < 4 && j.crop; i++) {
        j.window[i] = td_tensor_int(c->in[1], i);
    }
    return td_jpeg_decode(&j, err);
}

static enum td_code decode_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    size_t len;
    const char *bytes = td_tensor_str(c->in[0], 0, &len);
    int64_t channels = is_op(n, "DecodeGif") ? 3 : td_attr_int(n, "channels");
    struct sink s = {.c = c, .format = format_of(bytes, len)};
    TD_TRY(check_format(n, s.format, channels, err));
    struct td_picture_in in = {(const uint8_t *)bytes, len, (int)channels, place, &s};
    bool typed = is_op(n, "DecodePng") || is_op(n, "DecodeImage"),
         wide = typed && td_attr_type(n, "dtype") != TD_UINT8;
    bool still = is_op(n, "DecodeImage") && !td_attr_bool(n, "expand_animations");
    enum td_code rc;
    switch (s.format) {
    case JPEG:
        rc = decode_jpeg(c, &in, err);
        break;
    case PNG:
        rc = td_png_decode(&in, wide, err);
        break;
    case GIF:
        rc = td_gif_decode(&in, still, err);
        break;
    default:
        rc = td_bmp_decode(&in, err);
    }
    if (rc) {
        return td_err_wrap(err, "%s", TD_NODE_STR(n));
    }
    convert(&s);
    return TD_OK;
}

static enum td_code jpeg_shape_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    size_t len;
    const char *bytes = td_tensor_str(c->in[0], 0, &len);
    struct td_picture p;
    TD_TRY(td_jpeg_size((const uint8_t *)bytes, len, &p, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t dims[3] = {p.height, p.width, p.channels};
    for (int i = 0; i < 3; i++) {
        if (y->dtype == TD_INT32) {
            TD_DATA(y, int32_t)[i] = (int32_t)dims[i];
        } else {
            TD_DATA(y, int64_t)[i] = dims[i];
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ encoding */

static enum td_code jpeg_out_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0];
    TD_FAIL_IF(s->rank >= 0 && s->rank != 3, err, INVALID_ARGUMENT, "%s: image must be 3-dimensional, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 3 && s->dim[2] >= 0 && s->dim[2] != 1 && s->dim[2] != 3, err, INVALID_ARGUMENT,
               "%s: image must have 1 or 3 channels, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(s->rank == 3 && (s->dim[0] > 65500 || s->dim[1] > 65500), err, INVALID_ARGUMENT,
               "%s: image %s is larger than a JPEG may be", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code jpeg_options(const struct td_call *c, struct td_jpeg_out *j, struct td_err *err)
{
    const struct td_node *n = c->node;
    bool plain = is_op(n, "EncodeJpegVariableQuality");
    int64_t quality = plain ? td_tensor_int(c->in[1], 0) : td_attr_int(n, "quality");
    TD_FAIL_IF(quality < 0 || quality > 100, err, INVALID_ARGUMENT,
               "%s: quality must be in [0,100], got %lld", TD_NODE_STR(n), (long long)quality);
    j->quality = (int)quality;
    j->downsample = true;
    j->x_density = j->y_density = 300;
    if (plain) {
        return TD_OK;
    }
    const char *format = td_attr_str(n, "format");
    int want = strcmp(format, "grayscale") == 0 ? 1 : strcmp(format, "rgb") == 0 ? 3 : j->channels;
    TD_FAIL_IF(want != j->channels, err, INVALID_ARGUMENT, "%s: format %s expects %d channels, got %s",
               TD_NODE_STR(n), format, want, TD_SHAPE_STR(&c->in[0]->shape));
    j->progressive = td_attr_bool(n, "progressive");
    j->optimize = td_attr_bool(n, "optimize_size");
    j->downsample = td_attr_bool(n, "chroma_downsampling");
    j->centimetres = strcmp(td_attr_str(n, "density_unit"), "cm") == 0;
    j->x_density = (int)td_attr_int(n, "x_density");
    j->y_density = (int)td_attr_int(n, "y_density");
    struct td_bytes xmp = td_attr_bytes(n, "xmp_metadata");
    j->xmp = xmp.p;
    j->xmp_len = xmp.len;
    return TD_OK;
}

static enum td_code jpeg_out_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_shape *s = &c->in[0]->shape;
    TD_FAIL_IF(td_tensor_count(c->in[0]) == 0, err, INTERNAL,
               "%s: JPEG encoding failed: image %s has no pixels", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    struct td_jpeg_out j = {.pixels = c->in[0]->data,
                            .height = (int)s->dim[0],
                            .width = (int)s->dim[1],
                            .channels = (int)s->dim[2]};
    TD_FAIL_IF(c->n_in == 2 && td_tensor_count(c->in[1]) != 1, err, INVALID_ARGUMENT,
               "%s: quality must be scalar: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]->shape));
    TD_TRY(jpeg_options(c, &j, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_picture_out out = {0};
    enum td_code rc = td_jpeg_encode(&j, &out, err);
    if (rc == TD_OK) {
        rc = td_tensor_set_str(y, 0, (const char *)out.data, out.len, err);
    }
    td_free(out.data);
    return rc;
}

static enum td_code png_out_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *s = &c->in[0];
    int64_t level = td_attr_int(c->node, "compression");
    TD_FAIL_IF(level < -1 || level > 9, err, INVALID_ARGUMENT,
               "%s: compression should be in [-1,9], got %lld", TD_NODE_STR(c->node), (long long)level);
    TD_FAIL_IF(s->rank >= 0 && s->rank < 3, err, INVALID_ARGUMENT,
               "%s: images must be at least 3-dimensional, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    if (s->rank < 0) {
        return TD_OK;
    }
    int64_t channels = s->dim[s->rank - 1];
    TD_FAIL_IF(channels == 0 || channels > 4, err, INVALID_ARGUMENT,
               "%s: image must have 1, 2, 3, or 4 channels, got %lld", TD_NODE_STR(c->node),
               (long long)channels);
    c->out[0] = *s;
    c->out[0].rank = s->rank - 3;
    return TD_OK;
}

static enum td_code png_out_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    const struct td_shape *s = &c->in[0]->shape;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_picture p = {1, s->dim[s->rank - 3], s->dim[s->rank - 2], s->dim[s->rank - 1],
                           c->in[0]->dtype == TD_UINT16};
    size_t image = (size_t)(p.height * p.width * p.channels) * td_dtype_size(c->in[0]->dtype);
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        TD_TRY(td_picture_check(&p, err));
        struct td_picture_out out = {0};
        enum td_code rc = td_png_encode((const char *)c->in[0]->data + (size_t)i * image, &p,
                                        (int)td_attr_int(c->node, "compression"), &out, err);
        if (rc == TD_OK) {
            rc = td_tensor_set_str(y, i, (const char *)out.data, out.len, err);
        }
        td_free(out.data);
        TD_TRY(rc);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define BYTES (TD_BIT(TD_UINT8) | TD_BIT(TD_UINT16))
#define JPEG_ATTRS                                                                                           \
    "{channels:int=0; ratio:int=1; fancy_upscaling:bool=true; try_recover_truncated:bool=false; "            \
    "acceptable_fraction:float=1.0; dct_method:string=''}"

const struct td_op td_ops_image_codec[] = {
    {.name = "DecodeJpeg",
     .sig = "(contents:string) -> (image:uint8) " JPEG_ATTRS,
     .infer = contents_infer,
     .kernels = TD_KERNEL("decode_image.cpu", decode_run)},
    {.name = "DecodeAndCropJpeg",
     .sig = "(contents:string, crop_window:int32) -> (image:uint8) " JPEG_ATTRS,
     .host_in = 2,
     .infer = contents_infer,
     .kernels = TD_KERNEL("decode_image.cpu", decode_run)},
    {.name = "DecodePng",
     .sig = "(contents:string) -> (image:dtype) {channels:int=0; dtype:type=uint8}",
     .infer = contents_infer,
     .kernels = TD_KERNEL("decode_image.cpu", decode_run, {"dtype", BYTES})},
    {.name = "DecodeGif",
     .sig = "(contents:string) -> (image:uint8) {}",
     .infer = contents_infer,
     .kernels = TD_KERNEL("decode_image.cpu", decode_run)},
    {.name = "DecodeBmp",
     .sig = "(contents:string) -> (image:uint8) {channels:int=0}",
     .infer = contents_infer,
     .kernels = TD_KERNEL("decode_image.cpu", decode_run)},
    {.name = "DecodeImage",
     .sig =
         "(contents:string) -> (image:dtype) {channels:int=0; dtype:type=uint8; expand_animations:bool=true}",
     .infer = contents_infer,
     .kernels = TD_KERNEL("decode_image.cpu", decode_run, {"dtype", BYTES | TD_BIT(TD_FLOAT)})},
    {.name = "ExtractJpegShape",
     .sig = "(contents:string) -> (image_shape:output_type) {output_type:type=int32}",
     .infer = contents_infer,
     .kernels = TD_KERNEL("jpeg_shape.cpu", jpeg_shape_run, {"output_type", TD_SET_INDEX})},
    {.name = "EncodeJpeg",
     .sig = "(image:uint8) -> (contents:string) {format:string='' in ['','grayscale','rgb']; quality:int=95; "
            "progressive:bool=false; optimize_size:bool=false; chroma_downsampling:bool=true; "
            "density_unit:string='in' in ['in','cm']; x_density:int=300; y_density:int=300; "
            "xmp_metadata:string=''}",
     .infer = jpeg_out_infer,
     .kernels = TD_KERNEL("encode_jpeg.cpu", jpeg_out_run)},
    {.name = "EncodeJpegVariableQuality",
     .sig = "(images:uint8, quality:int32) -> (contents:string) {}",
     .infer = jpeg_out_infer,
     .kernels = TD_KERNEL("encode_jpeg.cpu", jpeg_out_run)},
    {.name = "EncodePng",
     .sig = "(image:T) -> (contents:string) {compression:int=-1; T:type=uint8}",
     .infer = png_out_infer,
     .kernels = TD_KERNEL("encode_png.cpu", png_out_run, {"T", BYTES})},
    {.name = NULL},
};
