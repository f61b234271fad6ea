/* kernels/media/codec_png.c - PNG pictures: the only file that calls libpng.
 *
 * Errors jump back to the setjmp of the call, as in codec_jpeg.c. Decoding gives 1 (grey), 2 (grey, alpha), 3
 * (RGB) or 4 (RGBA) channels of 8 or 16 bits; libpng does the conversions, but for 8-bit files asked for as
 * 16 bits, whose samples are repeated into both bytes afterwards.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "kernels/media/picture.h"

struct failure {
    char text[128];
    size_t not_had; /* bytes that there was no memory for; 0: none */
};

static void fail(png_structp png, png_const_charp message)
{
    struct failure *f = png_get_error_ptr(png);
    (void)snprintf(f->text, sizeof f->text, "%s", message);
    png_longjmp(png, 1);
}

static void warn(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* libpng keeps texts and profiles of a file, unpacked, until the end. */
static png_voidp get_memory(png_structp png, png_alloc_size_t bytes)
{
    struct failure *f = png_get_mem_ptr(png);
    void *p = td_foreign_alloc(bytes);
    if (p == NULL) {
        f->not_had = bytes;
    }
    return p;
}

static void free_memory(png_structp png, png_voidp p)
{
    (void)png;
    td_foreign_free(p);
}

/* ------------------------------------------------------------------ decoding */

struct reader {
    const uint8_t *bytes;
    size_t left;
};

static void take(png_structp png, png_bytep out, png_size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (n > r->left) {
        png_error(png, "More bytes requested to read than available");
    }
    memcpy(out, r->bytes, n);
    r->bytes += n;
    r->left -= n;
}

struct decoder {
    png_structp png;
    png_infop info;
    bool upcast; /* repeat 8-bit samples into 16 */
};

static int native_channels(struct decoder *d)
{
    bool clear = png_get_valid(d->png, d->info, PNG_INFO_tRNS) != 0;
    switch (png_get_color_type(d->png, d->info)) {
    case PNG_COLOR_TYPE_GRAY:
        return 1;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA:
        return 4;
    case PNG_COLOR_TYPE_PALETTE:
        return clear ? 4 : 3;
    default:
        return 3;
    }
}

/* Asks libpng for the wanted channels and bits. */
static void convert(struct decoder *d, int channels, bool wide)
{
    int type = png_get_color_type(d->png, d->info), bits = png_get_bit_depth(d->png, d->info);
    bool clear = png_get_valid(d->png, d->info, PNG_INFO_tRNS) != 0;
    bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0, colour = (type & PNG_COLOR_MASK_COLOR) != 0;
    bool want_alpha = channels == 2 || channels == 4, want_colour = channels >= 3;
    if (bits == 16 && !wide) {
        png_set_strip_16(d->png);
    }
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(d->png);
        alpha |= clear; /* libpng adds the palette's alpha on its own */
    }
    if (type == PNG_COLOR_TYPE_GRAY && bits < 8) {
        png_set_expand_gray_1_2_4_to_8(d->png);
    }
    if (clear && want_alpha) {
        png_set_tRNS_to_alpha(d->png);
        alpha = true;
    }
    if (alpha && !want_alpha) {
        png_set_strip_alpha(d->png);
    }
    if (want_colour && !colour) {
        png_set_gray_to_rgb(d->png);
    }
    if (!want_colour && colour) {
        png_set_rgb_to_gray(d->png, 1, 0.299, 0.587);
    }
    if (want_alpha && !alpha) {
        /* Opaque in the file's own bits, as TensorFlow fills it: 3 of 255 where the file has 2 bits. */
        png_set_add_alpha(d->png, (1U << bits) - 1, PNG_FILLER_AFTER);
    }
    if (wide && bits == 16) {
        png_set_swap(d->png); /* this machine is little-endian */
    }
    d->upcast = wide && bits < 16;
}

/* Rows of bytes to rows of 16-bit samples in place: from the end, so that nothing is overwritten unread. */
static void upcast(void *pixels, int64_t n)
{
    const uint8_t *x = pixels;
    uint16_t *y = pixels;
    for (int64_t i = n - 1; i >= 0; i--) {
        y[i] = (uint16_t)(x[i] * 257);
    }
}

static enum td_code decode(struct decoder *d, const struct td_picture_in *in, bool wide, struct td_err *err)
{
    png_read_info(d->png, d->info);
    int channels = in->channels != 0 ? in->channels : native_channels(d);
    struct td_picture p = {.frames = 1,
                           .height = png_get_image_height(d->png, d->info),
                           .width = png_get_image_width(d->png, d->info),
                           .channels = channels,
                           .wide = wide};
    TD_TRY(td_picture_check(&p, err));
    convert(d, channels, wide);
    int passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    int64_t row = p.width * channels * (wide && !d->upcast ? 2 : 1);
    TD_FAIL_IF((int64_t)png_get_rowbytes(d->png, d->info) != row, err, INVALID_ARGUMENT,
               "Invalid PNG data, size %zu: rows of %zu bytes, want %lld", in->len,
               png_get_rowbytes(d->png, d->info), (long long)row);
    void *pixels;
    TD_TRY(in->place(in->ctx, &p, &pixels, err));
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t i = 0; i < p.height; i++) {
            png_read_row(d->png, (png_bytep)pixels + i * row, NULL);
        }
    }
    png_read_end(d->png, NULL);
    if (d->upcast) {
        upcast(pixels, p.height * row);
    }
    return TD_OK;
}

enum td_code td_png_decode(const struct td_picture_in *in, bool wide, struct td_err *err)
{
    struct failure f = {0};
    struct reader r = {in->bytes, in->len};
    struct decoder d = {
        .png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &f, fail, warn, &f, get_memory, free_memory)};
    d.info = d.png != NULL ? png_create_info_struct(d.png) : NULL;
    if (d.info == NULL) {
        png_destroy_read_struct(&d.png, NULL, NULL);
        return td_no_memory(err, f.not_had, "decoding a PNG");
    }
    if (setjmp(png_jmpbuf(d.png)) != 0) {
        png_destroy_read_struct(&d.png, &d.info, NULL);
        TD_TRY(f.not_had > 0 ? td_no_memory(err, f.not_had, "decoding a PNG") : TD_OK);
        return td_fail(err, TD_INVALID_ARGUMENT, "Invalid PNG data, size %zu: %s", in->len, f.text);
    }
    png_set_user_limits(d.png, 1 << 24, 1 << 24);
    png_set_read_fn(d.png, &r, take);
    enum td_code rc = decode(&d, in, wide, err);
    png_destroy_read_struct(&d.png, &d.info, NULL);
    return rc;
}

/* ------------------------------------------------------------------ encoding */

static void give(png_structp png, png_bytep bytes, png_size_t n)
{
    if (!td_picture_append(png_get_io_ptr(png), bytes, n)) {
        ((struct failure *)png_get_error_ptr(png))->not_had = n;
        png_error(png, "out of memory");
    }
}

static void flush(png_structp png)
{
    (void)png;
}

enum td_code td_png_encode(const void *pixels, const struct td_picture *p, int compression,
                           struct td_picture_out *out, struct td_err *err)
{
    static const int types[5] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
    struct failure f = {0};
    png_structp png =
        png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &f, fail, warn, &f, get_memory, free_memory);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    if (info == NULL) {
        png_destroy_write_struct(&png, NULL);
        return td_no_memory(err, f.not_had, "encoding a PNG");
    }
    if (setjmp(png_jmpbuf(png)) != 0) {
        png_destroy_write_struct(&png, &info);
        TD_TRY(f.not_had > 0 ? td_no_memory(err, f.not_had, "encoding a PNG") : TD_OK);
        return td_fail(err, TD_INTERNAL, "PNG encoding failed: %s", f.text);
    }
    png_set_write_fn(png, out, give, flush);
    if (compression >= 0) {
        png_set_compression_level(png, compression);
    }
    png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, p->wide ? 16 : 8,
                 types[p->channels], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (p->wide) {
        png_set_swap(png);
    }
    size_t row = (size_t)(p->width * p->channels) * (p->wide ? 2 : 1);
    for (int64_t i = 0; i < p->height; i++) {
        png_write_row(png, (png_const_bytep)pixels + (size_t)i * row);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return TD_OK;
}
