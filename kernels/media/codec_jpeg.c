/* kernels/media/codec_jpeg.c - JPEG pictures: the only file that calls libjpeg.
 *
 * libjpeg reports errors through a callback that must not return: it jumps back to where the codec started.
 * Between setjmp and the end nothing of ours is owned by a local variable that the jump would lose.
 *
 * The choices that decide pixels are TensorFlow's: grey or RGB only (CMYK is turned by hand), fancy
 * upsampling and the transform as the attributes say, quality with forced baseline tables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "kernels/media/picture.h"

bool td_picture_append(struct td_picture_out *o, const void *bytes, size_t len)
{
    if (len > o->cap - o->len) {
        size_t cap = o->cap < 4096 ? 4096 : o->cap;
        while (cap - o->len < len) {
            if (cap > SIZE_MAX / 2) {
                return false;
            }
            cap *= 2;
        }
        uint8_t *grown = td_realloc(o->data, cap, 1);
        if (grown == NULL) {
            return false;
        }
        o->data = grown;
        o->cap = cap;
    }
    if (len > 0) {
        memcpy(o->data + o->len, bytes, len);
    }
    o->len += len;
    return true;
}

enum td_code td_picture_check(const struct td_picture *p, struct td_err *err)
{
    TD_FAIL_IF(p->height <= 0 || p->width <= 0 || p->channels <= 0 || p->frames <= 0, err, INVALID_ARGUMENT,
               "Invalid image: %lld x %lld, %lld channels", (long long)p->width, (long long)p->height,
               (long long)p->channels);
    int64_t cells;
    bool fits = td_i64_mul(p->height, p->width, &cells) && td_i64_mul(cells, p->channels, &cells) &&
                td_i64_mul(cells, p->frames, &cells) && cells <= TD_PICTURE_MAX_CELLS;
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "Image too large: %lld x %lld, %lld channels, %lld frames",
               (long long)p->width, (long long)p->height, (long long)p->channels, (long long)p->frames);
    return TD_OK;
}

/* ------------------------------------------------------------------ errors */

struct failure {
    struct jpeg_error_mgr base;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
};

static void fail(j_common_ptr info)
{
    struct failure *f = (struct failure *)info->err;
    info->err->format_message(info, f->text);
    longjmp(f->back, 1);
}

static void say_nothing(j_common_ptr info)
{
    (void)info;
}

/* What a codec's end was. len: of the file; 0 when one is made. */
static enum td_code failure_error(const struct failure *f, const char *what, size_t len, struct td_err *err)
{
    if (f->base.msg_code == JERR_OUT_OF_MEMORY) {
        return td_fail(err, TD_RESOURCE_EXHAUSTED, "%s: no memory", what);
    }
    return len > 0 ? td_fail(err, TD_INVALID_ARGUMENT, "Invalid %s, data size %zu: %s", what, len, f->text)
                   : td_fail(err, TD_INTERNAL, "%s failed: %s", what, f->text);
}

/* What libjpeg takes for a picture, at most: some rows of samples, and where it goes over it more than once
 * all coefficients. It brings its own allocator, so this is charged before it begins. */
static size_t working_bytes(size_t height, size_t width, size_t channels, bool more_than_once)
{
    enum { TABLES = 256 << 10, ROWS = 64 };
    const size_t blocks = more_than_once ? (height / DCTSIZE + 2) * (width / DCTSIZE + 2) : 0;
    return TABLES + channels * (width * ROWS + blocks * sizeof(JBLOCK));
}

static void watch(struct failure *f)
{
    (void)jpeg_std_error(&f->base);
    f->base.error_exit = fail;
    f->base.output_message = say_nothing;
}

/* ------------------------------------------------------------------ reading from memory */

enum { MOST_AGAIN = 10 * 64 * 4 }; /* bytes that the blocks of one step may take, given one by one */

struct reader {
    struct jpeg_source_mgr base;
    const uint8_t *bytes, *again; /* again: what was given once more */
    int n_again;                  /* how often in a row */
    bool recover;
};

static void start(j_decompress_ptr d)
{
    (void)d;
}

/* Out of bytes, as TensorFlow has it. The library gives back the block that the file breaks off in, so bytes
 * are left then: it reads them once more, or stops before that block. With none left the end of image marker
 * that the file lacks is put in, or it is an error. */
static boolean fill(j_decompress_ptr d)
{
    static const JOCTET end[2] = {0xFF, JPEG_EOI};
    struct reader *r = (struct reader *)d->src;
    const bool empty = r->base.bytes_in_buffer == 0;
    r->n_again = r->again == r->base.next_input_byte ? r->n_again + 1 : 0;
    r->again = r->base.next_input_byte;
    if (r->n_again > MOST_AGAIN) {
        ERREXIT(d, JERR_INPUT_EOF); /* in a marker it would never end */
    }
    if (empty && (!r->recover || r->base.next_input_byte == r->bytes || r->base.next_input_byte == end)) {
        ERREXIT(d, JERR_INPUT_EOF);
    }
    if (empty) {
        r->base.next_input_byte = end;
        r->base.bytes_in_buffer = sizeof end;
    }
    return r->recover ? TRUE : FALSE;
}

static void skip(j_decompress_ptr d, long n)
{
    struct reader *r = (struct reader *)d->src;
    if (n <= 0) {
        return;
    }
    n = (size_t)n > r->base.bytes_in_buffer ? (long)r->base.bytes_in_buffer : n;
    r->base.next_input_byte += n;
    r->base.bytes_in_buffer -= (size_t)n;
}

static void attach(j_decompress_ptr d, struct reader *r, const uint8_t *bytes, size_t len, bool recover)
{
    *r = (struct reader){.base = {.next_input_byte = bytes,
                                  .bytes_in_buffer = len,
                                  .init_source = start,
                                  .fill_input_buffer = fill,
                                  .skip_input_data = skip,
                                  .resync_to_restart = jpeg_resync_to_restart,
                                  .term_source = start},
                         .bytes = bytes,
                         .recover = recover};
    d->src = &r->base;
}

static void read_header(j_decompress_ptr d)
{
    if (jpeg_read_header(d, TRUE) != JPEG_HEADER_OK) {
        ERREXIT(d, JERR_INPUT_EOF);
    }
}

/* ------------------------------------------------------------------ decoding */

struct decoder {
    struct jpeg_decompress_struct d;
    struct failure f;
    struct reader r;
    struct td_foreign memory; /* libjpeg's */
};

static void configure(struct decoder *s, const struct td_jpeg_in *j)
{
    int channels = j->in.channels != 0 ? j->in.channels : s->d.num_components == 1 ? 1 : 3;
    bool cmyk = s->d.jpeg_color_space == JCS_CMYK || s->d.jpeg_color_space == JCS_YCCK;
    s->d.out_color_space = cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    s->d.do_fancy_upsampling = j->fancy ? TRUE : FALSE;
    s->d.scale_num = 1;
    s->d.scale_denom = (unsigned)j->ratio;
    s->d.dct_method =
        strcmp(j->dct, "INTEGER_ACCURATE") == 0 ? JDCT_ISLOW : JDCT_IFAST; /* fast unless asked */
}

/* One row of CMYK samples, as Adobe writes them (inverted) or not, to RGB or grey. */
static void from_cmyk(const struct decoder *s, const uint8_t *x, uint8_t *y, int64_t width, int channels)
{
    for (int64_t i = 0; i < width; i++, x += 4, y += channels) {
        int rgb[3];
        for (int k = 0; k < 3; k++) {
            rgb[k] = s->d.saw_Adobe_marker ? x[3] * x[k] / 255 : (255 - x[3]) * (255 - x[k]) / 255;
        }
        if (channels == 3) {
            y[0] = (uint8_t)rgb[0];
            y[1] = (uint8_t)rgb[1];
            y[2] = (uint8_t)rgb[2];
        } else {
            y[0] = (uint8_t)((rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114) / 1000);
        }
    }
}

/* Where the result goes: the whole picture, or the crop window of it. */
struct target {
    struct td_picture p;
    int64_t top, left;
    uint8_t *pixels;
};

/* Has the library decode the window alone, as TensorFlow does: chroma is then upsampled as if the picture
 * ended at the window's edges, which shows in its outer columns. A libjpeg without this decodes all and cuts.
 */
static void decode_window(struct decoder *s, struct target *t)
{
#ifdef LIBJPEG_TURBO_VERSION
    JDIMENSION left = (JDIMENSION)t->left, width = (JDIMENSION)t->p.width;
    jpeg_crop_scanline(&s->d, &left, &width); /* moves left to where a block begins */
    t->left -= left;
    (void)jpeg_skip_scanlines(&s->d, (JDIMENSION)t->top);
#else
    (void)s;
    (void)t;
#endif
}

static enum td_code aim(struct decoder *s, const struct td_jpeg_in *j, struct target *t, struct td_err *err)
{
    int channels = j->in.channels != 0 ? j->in.channels : s->d.num_components == 1 ? 1 : 3;
    int64_t h = s->d.output_height, w = s->d.output_width;
    t->p = (struct td_picture){.frames = 1, .height = h, .width = w, .channels = channels};
    TD_TRY(td_picture_check(&t->p, err));
    if (j->crop) {
        const int64_t *c = j->window;
        bool inside = c[0] >= 0 && c[1] >= 0 && c[2] > 0 && c[3] > 0 && c[0] <= h - c[2] && c[1] <= w - c[3];
        TD_FAIL_IF(
            !inside, err, INVALID_ARGUMENT,
            "Invalid JPEG data or crop window: [%lld,%lld,%lld,%lld] of a picture of %lld rows, %lld columns",
            (long long)c[0], (long long)c[1], (long long)c[2], (long long)c[3], (long long)h, (long long)w);
        t->top = c[0];
        t->left = c[1];
        t->p.height = c[2];
        t->p.width = c[3];
        decode_window(s, t);
    }
    void *pixels;
    TD_TRY(j->in.place(j->in.ctx, &t->p, &pixels, err));
    t->pixels = pixels;
    return TD_OK;
}

/* What the rows from `row` on are when the file has no more: the row above again in a recovered file, black
 * in another, where enough of the picture must be there. */
static void lack_rows(struct decoder *s, const struct td_jpeg_in *j, const struct target *t, int64_t row)
{
    const size_t row_bytes = (size_t)(t->p.width * t->p.channels);
    const float have = (float)s->d.output_scanline / (float)s->d.output_height;
    if (!j->recover && have < fminf(1, j->fraction)) {
        ERREXIT(&s->d, JERR_INPUT_EOF);
    }
    for (; row < t->p.height; row++) {
        uint8_t *to = t->pixels + (size_t)row * row_bytes;
        if (j->recover && row > 0) {
            memcpy(to, to - row_bytes, row_bytes);
        } else {
            memset(to, 0, row_bytes);
        }
    }
}

/* Rows of the picture until the window is done, or the file. */
static void read_rows(struct decoder *s, const struct td_jpeg_in *j, const struct target *t)
{
    int64_t row_bytes = t->p.width * t->p.channels;
    unsigned width = s->d.output_width * (unsigned)s->d.output_components;
    JSAMPARRAY line = s->d.mem->alloc_sarray((j_common_ptr)&s->d, JPOOL_IMAGE, width, 1);
    JSAMPARRAY transposed = s->d.mem->alloc_sarray((j_common_ptr)&s->d, JPOOL_IMAGE,
                                                   s->d.output_width * (unsigned)t->p.channels, 1);
    while ((int64_t)s->d.output_scanline < t->top + t->p.height) {
        int64_t row = (int64_t)s->d.output_scanline - t->top;
        if (jpeg_read_scanlines(&s->d, line, 1) == 0) {
            lack_rows(s, j, t, row > 0 ? row : 0);
            return;
        }
        uint8_t *from = line[0];
        if (s->d.out_color_space == JCS_CMYK) {
            from_cmyk(s, line[0], transposed[0], s->d.output_width, (int)t->p.channels);
            from = transposed[0];
        }
        if (row >= 0) {
            memcpy(t->pixels + row * row_bytes, from + t->left * t->p.channels, (size_t)row_bytes);
        }
    }
}

/* What follows the picture must be in order too, as for TensorFlow; not so behind the end of a file. */
static void finish_reading(struct decoder *s, const struct td_jpeg_in *j)
{
    if (j->crop || j->recover) {
        s->d.output_scanline = s->d.output_height;
    }
    if (s->d.output_scanline == s->d.output_height) {
        (void)jpeg_finish_decompress(&s->d);
    }
}

enum td_code td_jpeg_decode(const struct td_jpeg_in *j, struct td_err *err)
{
    struct decoder s = {0};
    struct target t = {0};
    watch(&s.f);
    s.d.err = &s.f.base;
    if (setjmp(s.f.back) != 0) {
        jpeg_destroy_decompress(&s.d);
        td_foreign_give(&s.memory);
        return failure_error(&s.f, "JPEG data or crop window", j->in.len, err);
    }
    jpeg_create_decompress(&s.d);
    attach(&s.d, &s.r, j->in.bytes, j->in.len, j->recover);
    read_header(&s.d);
    configure(&s, j);
    struct td_picture raw = {1, s.d.image_height, s.d.image_width, s.d.num_components, false};
    enum td_code rc = td_picture_check(&raw, err); /* before the library allocates for it */
    if (rc == TD_OK) {
        const bool more_than_once = jpeg_has_multiple_scans(&s.d);
        rc = td_foreign_take(
            &s.memory,
            working_bytes(s.d.image_height, s.d.image_width, (size_t)s.d.num_components, more_than_once),
            "decoding a JPEG", err);
    }
    if (rc == TD_OK) {
        if (!jpeg_start_decompress(&s.d)) {
            ERREXIT(&s.d, JERR_INPUT_EOF);
        }
        rc = aim(&s, j, &t, err);
    }
    if (rc == TD_OK) {
        read_rows(&s, j, &t);
        finish_reading(&s, j);
    }
    jpeg_abort_decompress(&s.d);
    jpeg_destroy_decompress(&s.d);
    td_foreign_give(&s.memory);
    return rc;
}

enum td_code td_jpeg_size(const uint8_t *bytes, size_t len, struct td_picture *p, struct td_err *err)
{
    struct decoder s = {0};
    watch(&s.f);
    s.d.err = &s.f.base;
    if (setjmp(s.f.back) != 0) {
        jpeg_destroy_decompress(&s.d);
        return failure_error(&s.f, "JPEG data", len, err);
    }
    jpeg_create_decompress(&s.d);
    attach(&s.d, &s.r, bytes, len, false);
    read_header(&s.d);
    *p = (struct td_picture){1, s.d.image_height, s.d.image_width, s.d.num_components, false};
    jpeg_destroy_decompress(&s.d);
    return TD_OK;
}

/* ------------------------------------------------------------------ encoding */

enum { BLOCK = 16 * 1024 };

struct writer {
    struct jpeg_destination_mgr base;
    struct td_picture_out *out;
    JOCTET block[BLOCK];
};

static void open_block(j_compress_ptr c)
{
    struct writer *w = (struct writer *)c->dest;
    w->base.next_output_byte = w->block;
    w->base.free_in_buffer = BLOCK;
}

static boolean flush(j_compress_ptr c)
{
    struct writer *w = (struct writer *)c->dest;
    if (!td_picture_append(w->out, w->block, BLOCK)) {
        ERREXIT1(c, JERR_OUT_OF_MEMORY, 0);
    }
    open_block(c);
    return TRUE;
}

static void finish(j_compress_ptr c)
{
    struct writer *w = (struct writer *)c->dest;
    if (!td_picture_append(w->out, w->block, BLOCK - w->base.free_in_buffer)) {
        ERREXIT1(c, JERR_OUT_OF_MEMORY, 0);
    }
}

static void set_options(j_compress_ptr c, const struct td_jpeg_out *j)
{
    c->image_width = (JDIMENSION)j->width;
    c->image_height = (JDIMENSION)j->height;
    c->input_components = j->channels;
    c->in_color_space = j->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    c->optimize_coding = j->optimize ? TRUE : FALSE;
    c->density_unit = j->centimetres ? 2 : 1;
    c->X_density = (UINT16)j->x_density;
    c->Y_density = (UINT16)j->y_density;
    jpeg_set_quality(c, j->quality, TRUE);
    if (j->progressive) {
        jpeg_simple_progression(c);
    }
    for (int i = 0; i < c->num_components && !j->downsample; i++) {
        c->comp_info[i].h_samp_factor = 1;
        c->comp_info[i].v_samp_factor = 1;
    }
}

enum td_code td_jpeg_encode(const struct td_jpeg_out *j, struct td_picture_out *out, struct td_err *err)
{
    static const char name[] = "http://ns.adobe.com/xap/1.0/"; /* with its NUL, the mark of an XMP segment */
    struct jpeg_compress_struct c = {0};
    struct failure f = {0};
    struct writer w = {
        .base = {.init_destination = open_block, .empty_output_buffer = flush, .term_destination = finish},
        .out = out};
    struct td_foreign memory = {0};
    TD_TRY(td_foreign_take(&memory,
                           working_bytes((size_t)j->height, (size_t)j->width, (size_t)j->channels,
                                         j->progressive || j->optimize),
                           "encoding a JPEG", err));
    watch(&f);
    c.err = &f.base;
    if (setjmp(f.back) != 0) {
        jpeg_destroy_compress(&c);
        td_foreign_give(&memory);
        return failure_error(&f, "JPEG encoding", 0, err);
    }
    jpeg_create_compress(&c);
    c.dest = &w.base;
    set_options(&c, j);
    jpeg_start_compress(&c, TRUE);
    if (j->xmp_len > 0 && j->xmp_len + sizeof name <= 65533) {
        jpeg_write_m_header(&c, JPEG_APP0 + 1, (unsigned)(j->xmp_len + sizeof name));
        for (size_t i = 0; i < sizeof name; i++) {
            jpeg_write_m_byte(&c, name[i]);
        }
        for (size_t i = 0; i < j->xmp_len; i++) {
            jpeg_write_m_byte(&c, (unsigned char)j->xmp[i]);
        }
    }
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)j->pixels + (size_t)c.next_scanline * (size_t)j->width * (size_t)j->channels;
        (void)jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    td_foreign_give(&memory);
    return TD_OK;
}
