/* kernels/cpu/window.c - output sizes and paddings of sliding windows, and the change between data formats.
 *
 * SAME: out = ceil(in / stride), the padding split with the odd cell at the end. VALID: out = floor((in -
 * span) / stride)
 * + 1. EXPLICIT: VALID of the padded axis. span = (k - 1) * dilation + 1. All products are checked: the
 * attributes come from a model file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/window.h"

#include <string.h>

#include "core/base/mem.h"

enum td_padding td_window_padding(const struct td_node *n)
{
    const char *p = td_attr_str(n, "padding");
    if (strcmp(p, "SAME") == 0) {
        return TD_PAD_SAME;
    }
    return strcmp(p, "EXPLICIT") == 0 ? TD_PAD_EXPLICIT : TD_PAD_VALID;
}

static enum td_code check(const struct td_window *w, enum td_padding padding, const struct td_node *n,
                          struct td_err *err)
{
    const int64_t big =
        INT32_MAX; /* larger sizes along one axis are no windows any more, and products stay in int64 */
    TD_FAIL_IF(w->stride < 1, err, INVALID_ARGUMENT, "%s: Stride must be > 0, but got %lld", TD_NODE_STR(n),
               (long long)w->stride);
    TD_FAIL_IF(w->dilation < 1, err, INVALID_ARGUMENT, "%s: Dilation rate must be > 0, but got %lld",
               TD_NODE_STR(n), (long long)w->dilation);
    TD_FAIL_IF(w->stride > big || w->dilation > big || w->k > big || w->in > INT64_MAX / 4, err,
               INVALID_ARGUMENT,
               "%s: window of %lld, stride %lld, dilation %lld over %lld cells is too large", TD_NODE_STR(n),
               (long long)w->k, (long long)w->stride, (long long)w->dilation, (long long)w->in);
    TD_FAIL_IF(padding == TD_PAD_EXPLICIT &&
                   (w->before < 0 || w->after < 0 || w->before > big || w->after > big),
               err, INVALID_ARGUMENT,
               "%s: All elements of explicit_paddings must be nonnegative, but got %lld and %lld",
               TD_NODE_STR(n), (long long)w->before, (long long)w->after);
    return TD_OK;
}

enum td_code td_window_make(struct td_window *w, enum td_padding padding, const struct td_node *n,
                            struct td_err *err)
{
    TD_TRY(check(w, padding, n, err));
    w->out = -1;
    if (padding != TD_PAD_EXPLICIT) {
        w->before = w->after = 0;
    }
    if (w->in < 0 || (w->k < 0 && padding != TD_PAD_SAME)) {
        return TD_OK;
    }
    if (padding == TD_PAD_SAME) {
        w->out = w->in / w->stride + (w->in % w->stride != 0);
        if (w->k < 0) {
            return TD_OK;
        }
        int64_t need = (w->out - 1) * w->stride + (w->k - 1) * w->dilation + 1 - w->in;
        need = need > 0 && w->out > 0 ? need : 0;
        w->before = need / 2;
        w->after = need - need / 2;
        return TD_OK;
    }
    int64_t span = (w->k - 1) * w->dilation + 1;
    TD_FAIL_IF(w->in > 0 && w->in + w->before + w->after < span, err, INVALID_ARGUMENT,
               "%s: Negative dimension size caused by subtracting %lld from %lld: the window does not fit "
               "into its input",
               TD_NODE_STR(n), (long long)span, (long long)w->in);
    w->out = (w->in + w->before + w->after - span + w->stride) /
             w->stride; /* towards zero, as TensorFlow has it */
    TD_FAIL_IF(
        w->out < 0, err, INVALID_ARGUMENT,
        "%s: Computed output size would be negative: %lld [input_size: %lld, effective_filter_size: %lld, "
        "stride: %lld]",
        TD_NODE_STR(n), (long long)w->out, (long long)w->in, (long long)span, (long long)w->stride);
    return TD_OK;
}

void td_window_skip(struct td_window *w, enum td_padding padding)
{
    if (w->in > 0 && w->k > 0 && w->out > 0) {
        int64_t need = (w->out - 1) * w->stride + (w->k - 1) * w->dilation + 1 - w->in;
        if (need < 0) {
            w->before = padding == TD_PAD_VALID ? (need + 1) / 2 : need / 2;
            w->after = need - need / 2;
        }
    }
}

void td_window_taps(const struct td_window *w, int64_t o, int64_t *from, int64_t *to)
{
    int64_t start = o * w->stride - w->before;
    *from = start < 0 ? (-start + w->dilation - 1) / w->dilation : 0;
    int64_t end = start >= w->in ? 0 : (w->in - start + w->dilation - 1) / w->dilation;
    *to = end < w->k ? end : w->k;
    if (*to < *from) {
        *to = *from;
    }
}

void td_window_having(const struct td_window *w, int64_t t, int64_t *from, int64_t *to)
{
    const int64_t lead = w->before - t * w->dilation; /* o * stride >= lead */
    const int64_t end = w->in + lead;                 /* o * stride < end */
    *from = lead > 0 ? (lead + w->stride - 1) / w->stride : 0;
    *to = end > 0 ? (end + w->stride - 1) / w->stride : 0;
    *to = *to > w->out ? w->out : *to;
    *from = *from > *to ? *to : *from;
}

struct td_data_layout td_data_layout_of(const char *data_format, int rank)
{
    bool first = strcmp(data_format, "NCHW") == 0 || strcmp(data_format, "NCDHW") == 0 ||
                 strcmp(data_format, "CHANNELS_FIRST") == 0;
    return (struct td_data_layout){.channel = first ? 1 : rank - 1,
                                   .spatial = first ? 2 : 1,
                                   .n_spatial = rank - 2,
                                   .channels_first = first};
}

#define SWAP_CELLS(ctype)                                                                                    \
    for (int64_t r = r0; r < r1; r++) {                                                                      \
        for (int64_t c = c0; c < c1; c++) {                                                                  \
            ((ctype *)y)[c * rows + r] = ((const ctype *)x)[r * cols + c];                                   \
        }                                                                                                    \
    }

struct cell16 {
    uint64_t a, b;
};

static void swap_block(void *y, const void *x, int64_t rows, int64_t cols, size_t size, const int64_t *box)
{
    int64_t r0 = box[0], r1 = box[1], c0 = box[2], c1 = box[3];
    switch (size) {
    case 1:
        SWAP_CELLS(uint8_t) break;
    case 2:
        SWAP_CELLS(uint16_t) break;
    case 4:
        SWAP_CELLS(uint32_t) break;
    case 8:
        SWAP_CELLS(uint64_t) break;
    default:
        SWAP_CELLS(struct cell16) break;
    }
}

void td_layout_swap(void *y, const void *x, int64_t batch, int64_t rows, int64_t cols, size_t size)
{
    const int64_t edge = 32; /* two tiles of 32 x 32 cells fit the first cache */
    size_t image = (size_t)rows * (size_t)cols * size;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t r = 0; r < rows; r += edge) {
            for (int64_t c = 0; c < cols; c += edge) {
                int64_t box[4] = {r, r + edge < rows ? r + edge : rows, c, c + edge < cols ? c + edge : cols};
                swap_block((char *)y + (size_t)b * image, (const char *)x + (size_t)b * image, rows, cols,
                           size, box);
            }
        }
    }
}
