/* kernels/media/picture.h - decoded pictures, and what the codecs share: where pixels go, and bytes that
 * grow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_PICTURE_H
#define TD_KERNELS_MEDIA_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum { TD_PICTURE_MAX_CELLS = 1 << 29 }; /* width * height * channels of the largest picture decoded */

/* Called once, when a decoder knows the size: *pixels is where to write rows of width * channels samples of 1
 * byte (2, native order, when `wide`). */
struct td_picture {
    int64_t frames, height, width, channels;
    bool wide;
};
typedef enum td_code td_picture_place_fn(void *ctx, const struct td_picture *p, void **pixels,
                                         struct td_err *err);

struct td_picture_in {
    const uint8_t *bytes;
    size_t len;
    int channels; /* wanted; 0: as in the file */
    td_picture_place_fn *place;
    void *ctx;
};

/* A growing block of bytes; freed with td_free(data). */
struct td_picture_out {
    uint8_t *data;
    size_t len, cap;
};
bool td_picture_append(struct td_picture_out *o, const void *bytes, size_t len); /* false without memory */

/* INVALID_ARGUMENT when a side is 0 or the picture has more than TD_PICTURE_MAX_CELLS samples. */
TD_MUST enum td_code td_picture_check(const struct td_picture *p, struct td_err *err);

/* ---- codec_jpeg.c */
struct td_jpeg_in {
    struct td_picture_in in;
    int ratio;           /* 1, 2, 4, 8: decode at a fraction of the size */
    bool fancy, recover; /* smooth chroma; a truncated file gives what it has */
    float fraction;      /* of the rows, that a file which breaks off must have all the same */
    const char *dct;     /* "", "INTEGER_FAST", "INTEGER_ACCURATE" */
    bool crop;
    int64_t window[4]; /* top, left, height, width */
};
TD_MUST enum td_code td_jpeg_decode(const struct td_jpeg_in *j, struct td_err *err);
TD_MUST enum td_code td_jpeg_size(const uint8_t *bytes, size_t len, struct td_picture *p, struct td_err *err);

struct td_jpeg_out {
    const uint8_t *pixels;
    int height, width, channels; /* 1 or 3 */
    int quality;
    bool progressive, optimize, downsample, centimetres;
    int x_density, y_density;
    const char *xmp;
    size_t xmp_len;
};
TD_MUST enum td_code td_jpeg_encode(const struct td_jpeg_out *j, struct td_picture_out *out,
                                    struct td_err *err);

/* ---- codec_png.c; wide: 16-bit samples */
TD_MUST enum td_code td_png_decode(const struct td_picture_in *in, bool wide, struct td_err *err);
TD_MUST enum td_code td_png_encode(const void *pixels, const struct td_picture *p, int compression,
                                   struct td_picture_out *out, struct td_err *err);

/* ---- codec_gif.c, codec_bmp.c */
TD_MUST enum td_code td_gif_decode(const struct td_picture_in *in, bool first_only, struct td_err *err);
TD_MUST enum td_code td_bmp_decode(const struct td_picture_in *in, struct td_err *err);

#endif
