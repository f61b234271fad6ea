/* server/train/row_image.c - the codecs of kernels/media, which write where they are told to.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/row_image.h"

#include <string.h>

#include "core/base/mem.h"
#include "kernels/media/picture.h"

struct place {
    struct td_picture p;
    uint8_t *pixels;
};

static enum td_code place(void *ctx, const struct td_picture *p, void **pixels, struct td_err *err)
{
    struct place *to = ctx;
    TD_TRY(td_picture_check(p, err));
    to->p = *p;
    td_free(to->pixels);
    to->pixels = td_calloc((size_t)(p->height * p->width * p->channels), 1);
    *pixels = to->pixels;
    return to->pixels != NULL ? TD_OK : td_no_memory(err, (size_t)(p->height * p->width), "a picture");
}

static enum td_code decode(const void *bytes, size_t n, int64_t channels, struct place *to,
                           struct td_err *err)
{
    const struct td_jpeg_in jpeg = {
        .in = {.bytes = bytes,
               .len = n,
               .channels = channels > 0 ? (int)channels : 0,
               .place = place,
               .ctx = to},
        .ratio = 1,
        .fancy = true,
        .fraction = 1,
        .dct = "",
    };
    TD_FAIL_IF(channels > 4, err, INVALID_ARGUMENT, "a picture has at most 4 channels, the input %lld",
               (long long)channels);
    if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) {
        return td_jpeg_decode(&jpeg, err);
    }
    TD_FAIL_IF(n < 4 || memcmp(bytes, "\x89PNG", 4) != 0, err, INVALID_ARGUMENT,
               "b64 is neither a JPEG nor a PNG picture");
    return td_png_decode(&jpeg.in, false, err);
}

static void append(const struct place *from, struct td_gather *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = (float)from->pixels[i] * (1.0f / 255.0f);
        void *to = g->data + (g->n + i) * g->elem;
        if (g->dtype == TD_FLOAT) {
            *(float *)to = v;
        } else if (g->dtype == TD_DOUBLE) {
            *(double *)to = (double)v;
        } else if (g->dtype == TD_HALF) {
            *(td_half *)to = td_float_to_half(v);
        } else if (g->dtype == TD_BFLOAT16) {
            *(td_bf16 *)to = td_float_to_bf16(v);
        } else {
            *(uint8_t *)to = from->pixels[i];
        }
    }
    g->n += n;
}

enum td_code td_row_image_decode(const void *bytes, size_t n, int64_t channels, struct td_gather *g,
                                 struct td_shape *shape, struct td_err *err)
{
    struct place to = {.pixels = NULL};
    TD_FAIL_IF(g->dtype != TD_UINT8 && !td_dtype_in(g->dtype, TD_SET_FLOATS), err, INVALID_ARGUMENT,
               "b64 is for strings and pictures, the input is %s", td_dtype_name(g->dtype));
    enum td_code rc = decode(bytes, n, channels, &to, err);
    const size_t count = rc ? 0 : (size_t)(to.p.height * to.p.width * to.p.channels);
    rc = rc ? rc : td_gather_reserve(g, count, err);
    if (rc == TD_OK) {
        append(&to, g, count);
        *shape = td_shape_of_rank(3);
        shape->dim[0] = to.p.height;
        shape->dim[1] = to.p.width;
        shape->dim[2] = to.p.channels;
    }
    td_free(to.pixels);
    return rc;
}
