/* kernels/media/codec_bmp.c - uncompressed BMP pictures of 8, 24 or 32 bits.
 *
 *     offset 10 int32: where the pixels start   18 int32: width   22 int32: height (negative: top row first)
 *     28 int16: bits a pixel                    rows padded to 4 bytes; samples in the order B G R [A]
 *
 * An 8-bit picture is taken as grey whatever its palette says, as TensorFlow does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/media/picture.h"

static int32_t int32_at(const uint8_t *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

/* A row of `from` channels a pixel to one of `to`: alpha is dropped, or added opaque; grey becomes three
 * times grey. */
static void copy_row(uint8_t *y, const uint8_t *x, int64_t width, int from, int to)
{
    for (int64_t i = 0; i < width; i++, x += from, y += to) {
        if (to == 1) {
            y[0] = x[0];
            continue;
        }
        y[0] = x[from == 1 ? 0 : 2];
        y[1] = x[from == 1 ? 0 : 1];
        y[2] = x[0];
        if (to == 4) {
            y[3] = from == 4 ? x[3] : 255;
        }
    }
}

enum td_code td_bmp_decode(const struct td_picture_in *in, struct td_err *err)
{
    TD_FAIL_IF(in->len < 32, err, INVALID_ARGUMENT,
               "Incomplete bmp content, requires at least 32 bytes, got %zu bytes", in->len);
    int64_t start = int32_at(in->bytes + 10), width = int32_at(in->bytes + 18),
            height = int32_at(in->bytes + 22);
    int bits = in->bytes[28] | in->bytes[29] << 8, file_channels = bits / 8;
    TD_FAIL_IF(file_channels != 1 && file_channels != 3 && file_channels != 4, err, INVALID_ARGUMENT,
               "Number of channels inherent in the image must be 1, 3 or 4, was %d", file_channels);
    int channels = in->channels != 0 ? in->channels : file_channels;
    TD_FAIL_IF(channels == 1 && file_channels != 1, err, INVALID_ARGUMENT,
               "channels attribute %d does not match bits per pixel from file %d", channels, bits);
    bool top_first = height < 0;
    struct td_picture p = {1, top_first ? -height : height, width, channels, false};
    TD_TRY(td_picture_check(&p, err));
    int64_t row = (p.width * file_channels + 3) / 4 * 4;
    TD_FAIL_IF(
        start < 0 || start + row * p.height != (int64_t)in->len, err, INVALID_ARGUMENT,
        "Input size should match (header_size + row_size * abs_height) but they differ by %lld: a file "
        "of %zu bytes, a header of %lld and %lld rows of %lld",
        (long long)((int64_t)in->len - start - row * p.height), in->len, (long long)start,
        (long long)p.height, (long long)row);
    void *pixels;
    TD_TRY(in->place(in->ctx, &p, &pixels, err));
    for (int64_t i = 0; i < p.height; i++) {
        int64_t from = top_first ? i : p.height - 1 - i;
        copy_row((uint8_t *)pixels + i * p.width * channels, in->bytes + start + from * row, p.width,
                 file_channels, channels);
    }
    return TD_OK;
}
