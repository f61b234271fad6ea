/* kernels/media/codec_gif.c - GIF pictures: the only file that calls giflib.
 *
 * Frames are RGB and complete: what a frame does not cover, or leaves transparent, shows the frame before it
 * (black for the first). Frame disposal is not looked at, as in TensorFlow. Of a file cut short the frames
 * before the cut are good.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <gif_lib.h>

#include "core/base/foreign.h"
#include "kernels/media/picture.h"

struct reader {
    const uint8_t *bytes;
    size_t left;
};

static int take(GifFileType *gif, GifByteType *out, int n)
{
    struct reader *r = gif->UserData;
    size_t got = (size_t)n < r->left ? (size_t)n : r->left;
    memcpy(out, r->bytes, got);
    r->bytes += got;
    r->left -= got;
    return (int)got;
}

/* Paints frame k over `to`, which holds the frame before. */
static enum td_code paint(const GifFileType *gif, int k, const struct td_picture *p, uint8_t *to,
                          struct td_err *err)
{
    const SavedImage *image = &gif->SavedImages[k];
    const GifImageDesc *at = &image->ImageDesc;
    const ColorMapObject *map = at->ColorMap != NULL ? at->ColorMap : gif->SColorMap;
    TD_FAIL_IF(map == NULL, err, INVALID_ARGUMENT, "Invalid GIF data: missing color map for frame %d", k);
    GraphicsControlBlock control;
    int clear =
        DGifSavedExtensionToGCB((GifFileType *)gif, k, &control) == GIF_OK ? control.TransparentColor : -1;
    for (int i = 0; i < at->Height; i++) {
        for (int j = 0; j < at->Width; j++) {
            int64_t row = (int64_t)at->Top + i, col = (int64_t)at->Left + j;
            int colour = image->RasterBits[(size_t)i * (size_t)at->Width + (size_t)j];
            if (colour == clear || row < 0 || row >= p->height || col < 0 || col >= p->width) {
                continue;
            }
            TD_FAIL_IF(colour >= map->ColorCount, err, INVALID_ARGUMENT,
                       "Invalid GIF data: found color index %d outside of color map range %d", colour,
                       map->ColorCount);
            uint8_t *cell = to + (row * p->width + col) * 3;
            cell[0] = map->Colors[colour].Red;
            cell[1] = map->Colors[colour].Green;
            cell[2] = map->Colors[colour].Blue;
        }
    }
    return TD_OK;
}

/* Moves past a chain of data blocks, counted in *n; false when the file ends in it. */
static bool pass_blocks(const struct td_picture_in *in, size_t *at, size_t *n)
{
    while (*at < in->len && in->bytes[*at] != 0) {
        *at += (size_t)in->bytes[*at] + 1;
        *n += 1;
    }
    *at += 1;
    return *at <= in->len;
}

static size_t map_bytes(uint8_t flags)
{
    return (flags & 0x80) != 0 ? (size_t)6 << (flags & 7) : 0;
}

/* What the file's own structure says, before giflib allocates for it. */
struct layout {
    int whole;             /* images that end before the file does */
    int64_t pixels;        /* of all images */
    size_t images, blocks; /* that giflib keeps: of extensions, a few bytes of the file can be many of them */
};

/* What giflib takes for that: it brings its own allocator. */
static size_t working_bytes(const struct layout *l, size_t len)
{
    enum { DECODER = 64 << 10, IMAGE = 512, BLOCK = 96 };
    return DECODER + (size_t)l->pixels + l->images * IMAGE + l->blocks * BLOCK + len * 2;
}

static struct layout layout_of(const struct td_picture_in *in)
{
    struct layout found = {0};
    size_t at = in->len > 10 ? 13 + map_bytes(in->bytes[10]) : in->len;
    while (at < in->len) {
        uint8_t kind = in->bytes[at];
        if (kind == '!') {
            at += 2;
        } else if (kind == ',' && in->len - at > 9) {
            const uint8_t *size = in->bytes + at + 5;
            found.images++;
            found.pixels += (int64_t)(size[0] | size[1] << 8) * (size[2] | size[3] << 8);
            at += 11 + map_bytes(in->bytes[at + 9]);
        } else {
            break;
        }
        size_t blocks = 0;
        const bool whole = pass_blocks(in, &at, &blocks);
        found.blocks += kind == '!' ? blocks + 1 : 0;
        if (!whole) {
            break;
        }
        found.whole += kind == ',';
    }
    return found;
}

/* The number of frames that have all their pixels. What giflib kept of one cut short holds memory it never
 * wrote. */
static int complete_frames(const GifFileType *gif, int whole, bool slurped)
{
    int n = gif->ImageCount;
    if (!slurped && gif->Error == D_GIF_ERR_READ_FAILED) {
        n = whole < n ? whole : n;
    } else if (!slurped && (gif->Error == D_GIF_ERR_EOF_TOO_SOON || gif->Error == D_GIF_ERR_IMAGE_DEFECT ||
                            gif->Error == D_GIF_ERR_DATA_TOO_BIG)) {
        n--;
    }
    while (n > 0 && gif->SavedImages[n - 1].RasterBits == NULL) {
        n--;
    }
    return n;
}

/* The picture of `count` frames: as large as the largest of them, whatever the file says of its screen. */
static struct td_picture canvas_of(const GifFileType *gif, int count)
{
    struct td_picture p = {.frames = count, .channels = 3};
    for (int k = 0; k < count; k++) {
        const GifImageDesc *at = &gif->SavedImages[k].ImageDesc;
        p.height = at->Height > p.height ? at->Height : p.height;
        p.width = at->Width > p.width ? at->Width : p.width;
    }
    return p;
}

static enum td_code decode(GifFileType *gif, const struct td_picture_in *in, int whole, bool first_only,
                           struct td_err *err)
{
    bool slurped = DGifSlurp(gif) == GIF_OK;
    TD_FAIL_IF(!slurped && gif->ImageCount <= 0, err, INVALID_ARGUMENT, "Invalid GIF data (size %zu), %s",
               in->len, GifErrorString(gif->Error));
    TD_FAIL_IF(gif->ImageCount <= 0 || gif->SavedImages == NULL, err, INVALID_ARGUMENT,
               "Invalid GIF data (size %zu), gif file does not contain any image", in->len);
    int complete = complete_frames(gif, whole, slurped);
    TD_FAIL_IF(complete == 0, err, INVALID_ARGUMENT, "Invalid GIF data (size %zu), no frame is complete",
               in->len);
    struct td_picture canvas = canvas_of(gif, complete);
    int count = first_only ? 1 : complete;
    canvas.frames = count;
    TD_TRY(td_picture_check(&canvas, err));
    void *pixels;
    TD_TRY(in->place(in->ctx, &canvas, &pixels, err));
    size_t frame = (size_t)(canvas.height * canvas.width * 3);
    memset(pixels, 0, frame);
    for (int k = 0; k < count; k++) {
        uint8_t *to = (uint8_t *)pixels + (size_t)k * frame;
        if (k > 0) {
            memcpy(to, to - frame, frame);
        }
        TD_TRY(paint(gif, k, &canvas, to, err));
    }
    return TD_OK;
}

enum td_code td_gif_decode(const struct td_picture_in *in, bool first_only, struct td_err *err)
{
    struct reader r = {in->bytes, in->len};
    struct td_foreign memory = {0};
    int why = 0;
    const struct layout layout = layout_of(in);
    TD_FAIL_IF(layout.pixels > TD_PICTURE_MAX_CELLS / 3, err, INVALID_ARGUMENT,
               "Image too large: the GIF's frames have %lld pixels", (long long)layout.pixels);
    TD_TRY(td_foreign_take(&memory, working_bytes(&layout, in->len), "decoding a GIF", err));
    GifFileType *gif = DGifOpen(&r, take, &why);
    enum td_code rc = gif == NULL ? td_fail(err, TD_INVALID_ARGUMENT,
                                            "Invalid GIF data (size %zu), could not open gif file: %s",
                                            in->len, GifErrorString(why))
                                  : decode(gif, in, layout.whole, first_only, err);
    if (gif != NULL) {
        (void)DGifCloseFile(gif, &why);
    }
    td_foreign_give(&memory);
    return rc;
}
