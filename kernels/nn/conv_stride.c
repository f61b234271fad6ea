/* kernels/nn/conv_stride.c - convolutions of two axes that make fewer pixels: the rule that
 * core/compile/pass_stride.c asks.
 *
 * A window that steps further sees the same pixels at each step it keeps, if it begins at the same place.
 * With padding SAME that place follows from the stride: for a stride of 1 it is known whatever the
 * image's size, and becomes explicit; for a longer one it depends on that size, and such a convolution
 * stays as it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/graph/attr.h"
#include "core/graph/emit.h"
#include "kernels/nn/conv_spec.h"

enum { RANK = 4, MAX_STRIDE = 1 << 10 };

/* What is looked at of a node. */
struct window {
    int64_t size[2], stride[2]; /* rows and columns; a size that is not known is -1 */
    bool single;                /* one pixel, and no padding */
    enum td_padding padding;
};

/* False: of other axes, dilated, channels first, or of strides that no image has. */
static bool window_of(const struct td_emitter *e, const struct td_node *n, struct window *w)
{
    int n_strides, n_dilations;
    const int64_t *strides = td_attr_ints(n, "strides", &n_strides),
                  *dilations = td_attr_ints(n, "dilations", &n_dilations);
    const struct td_shape *filter = td_emit_shape(e, n->in[1]);
    const struct td_data_layout l = td_conv_layout(n);
    if (td_conv_axes(n) != 2 || l.spatial != 1 || n_strides != RANK || filter->rank != RANK) {
        return false;
    }
    for (int i = 0; i < n_dilations; i++) {
        if (dilations[i] != 1) {
            return false;
        }
    }
    w->padding = td_window_padding(n);
    for (int i = 0; i < 2; i++) {
        w->size[i] = filter->dim[i];
        w->stride[i] = strides[1 + i];
    }
    w->single = w->padding != TD_PAD_EXPLICIT && w->size[0] == 1 && w->size[1] == 1;
    return w->stride[0] > 0 && w->stride[1] > 0 && w->stride[0] <= MAX_STRIDE && w->stride[1] <= MAX_STRIDE;
}

static bool single(const struct td_emitter *e, const struct td_node *n, int64_t by[2])
{
    struct window w;
    const bool ok = window_of(e, n, &w) && w.single;
    for (int i = 0; ok && i < 2; i++) {
        by[i] = w.stride[i];
    }
    return ok;
}

/* A depthwise one has one stride for both axes. */
static bool may(const struct td_emitter *e, const struct td_node *n, const int64_t by[2])
{
    struct window w;
    if (!window_of(e, n, &w) || by[0] != by[1] || w.stride[0] != w.stride[1]) {
        return false;
    }
    const bool sizes_known = w.size[0] > 0 && w.size[1] > 0;
    return w.single || w.padding != TD_PAD_SAME || (w.stride[0] == 1 && sizes_known);
}

static void set(struct td_emitter *e, struct td_node *n, const int64_t by[2], const int64_t given[2])
{
    struct window w;
    int64_t strides[RANK] = {1, 1, 1, 1}, pads[2 * RANK] = {0};
    if (!window_of(e, n, &w)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        strides[1 + i] = w.stride[i] * by[i] / given[i];
        pads[2 + 2 * i] = (w.size[i] - 1) / 2;
        pads[3 + 2 * i] = w.size[i] - 1 - pads[2 + 2 * i];
    }
    td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_INTS("strides", strides, RANK));
    if (w.padding == TD_PAD_SAME && !w.single) {
        td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_TEXT("padding", "EXPLICIT"));
        td_emit_attr(e, n, &(struct td_attr)TD_ATTR_OF_INTS("explicit_paddings", pads, 2 * RANK));
    }
}

static struct td_value thin(struct td_emitter *e, struct td_value image, const int64_t by[2])
{
    enum { EVERY_AXIS = 15 };
    static const int64_t none[RANK];
    const struct td_value ends = td_emit_ints(e, TD_INT32, none, RANK),
                          steps = td_emit_ints(e, TD_INT32, (const int64_t[]){1, by[0], by[1], 1}, RANK);
    return td_emit(
        e, "StridedSlice", TD_IN(image, ends, ends, steps),
        TD_ATTRS(TD_ATTR_OF_INT("begin_mask", EVERY_AXIS), TD_ATTR_OF_INT("end_mask", EVERY_AXIS)));
}

const struct td_stride_rule td_conv_stride = {.single = single, .may = may, .set = set, .thin = thin};
