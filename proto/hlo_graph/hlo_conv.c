/* proto/hlo_graph/hlo_conv.c - convolutions of one to three spatial dimensions.
 *
 *     image [batch, space.., features]   filter [space.., features / groups, out]
 *     ->   [batch, space.., out]
 *
 * is what TensorFlow's ops take; other layouts are transposed to it and back, and the engine moves such
 * transposes together. One spatial dimension becomes two. A group a feature is DepthwiseConv2dNative. Holes
 * between the image's elements (lhs_dilation, of transposed convolutions) are padded in before.
 *
 * Groups of the batch (in gradients of grouped convolutions) become groups of features: group g of the
 * images is moved beside the features of the others, [G * n, space.., f] to [n, space.., G * f].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_rules.h"
#include "proto/hlo_graph/hlo_slice.h"

enum { MOST_SPACE = 3 };

struct conv {
    int n; /* spatial dimensions */
    int64_t image[MOST_SPACE + 2], filter[MOST_SPACE + 2],
        out[MOST_SPACE + 2];                                  /* axes in TensorFlow's order */
    const int64_t *stride, *pad, *image_holes, *filter_holes; /* pad: low, high of each */
    int64_t groups, features; /* of features, or of the batch; features of the image */
    bool of_batch;
    struct td_value x, w;
};

/* One of the three layouts: the axes that the attributes name, in TensorFlow's order. */
static void read_layout(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *const names[3],
                        bool space_first, int64_t *axes)
{
    const int rank = td_hlo_shape(op->in[0])->rank;
    int n;
    const int64_t *space = td_hlo_axes(f, op, names[1], MOST_SPACE + 2, &n);
    uint32_t seen = 0;
    const int64_t first = td_hlo_int(op, names[0], -1), last = td_hlo_int(op, names[2], -1);
    if (f->e.rc || n < 1 || n > MOST_SPACE || n != rank - 2) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "%d spatial dimensions", n);
        return;
    }
    for (int i = 0; i < n; i++) {
        axes[i + !space_first] = space[i];
    }
    axes[space_first ? n : 0] = first;
    axes[n + 1] = last;
    for (int i = 0; i < n + 2; i++) {
        if (axes[i] < 0 || axes[i] >= n + 2 || (seen >> axes[i] & 1)) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "%s: its dimension numbers are no order of the axes",
                        names[1]);
            return;
        }
        seen |= 1u << axes[i];
    }
}

static bool read_conv(struct td_hlo_frame *f, const struct td_hlo_op *op, struct conv *c)
{
    static const char *const image[] = {"input_batch_dimension", "input_spatial_dimensions",
                                        "input_feature_dimension"};
    static const char *const filter[] = {"kernel_input_feature_dimension", "kernel_spatial_dimensions",
                                         "kernel_output_feature_dimension"};
    static const char *const out[] = {"output_batch_dimension", "output_spatial_dimensions",
                                      "output_feature_dimension"};
    if (op->n_in != 2 || op->n_out != 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants 2", op->n_in);
        return false;
    }
    const int rank = td_hlo_shape(op->in[0])->rank;
    c->n = rank - 2;
    if (c->n < 1 || c->n > MOST_SPACE || td_hlo_shape(op->in[1])->rank != rank ||
        td_hlo_shape(op->out[0])->rank != rank) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "%d spatial dimensions", c->n);
        return false;
    }
    read_layout(f, op, image, false, c->image);
    read_layout(f, op, filter, true, c->filter);
    read_layout(f, op, out, false, c->out);
    c->stride = td_hlo_ints_of(f, op, "window_strides", c->n, 1);
    c->pad = td_hlo_ints_of(f, op, "padding", 2 * c->n, 0);
    c->image_holes = td_hlo_ints_of(f, op, "lhs_dilation", c->n, 1);
    c->filter_holes = td_hlo_ints_of(f, op, "rhs_dilation", c->n, 1);
    c->groups = td_hlo_int(op, "feature_group_count", 1);
    c->of_batch = td_hlo_int(op, "batch_group_count", 1) > 1;
    if (c->of_batch && c->groups != 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "groups of both the batch and the features");
    }
    c->groups = c->of_batch ? td_hlo_int(op, "batch_group_count", 1) : c->groups;
    c->features = f->e.rc ? 0 : td_hlo_shape(op->in[0])->dim[c->image[c->n + 1]];
    for (int i = 0; f->e.rc == TD_OK && i < c->n; i++) {
        if (c->stride[i] < 1 || c->image_holes[i] < 1 || c->filter_holes[i] < 1) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "strides and dilations begin at 1");
        }
    }
    return f->e.rc == TD_OK;
}

/* ------------------------------------------------------------------ the operands */

static void reverse_filter(struct td_hlo_frame *f, const struct td_hlo_op *op, struct conv *c)
{
    int n, n_reversed = 0;
    int64_t axes[MOST_SPACE];
    const int64_t *reversed = td_hlo_ints(f, op, "window_reversal", &n);
    for (int i = 0; reversed != NULL && i < n && i < c->n; i++) {
        if (reversed[i] != 0) {
            axes[n_reversed++] = i;
        }
    }
    c->w = n_reversed == 0 ? c->w : td_hlo_2(f, "ReverseV2", c->w, td_hlo_i32s(f, axes, n_reversed));
}

/* The image padded here where the op cannot: holes, cuts, three dimensions. *pad is what is left for the
 * op. */
static void pad_image(struct td_hlo_frame *f, struct conv *c, int64_t pad[2 * MOST_SPACE])
{
    int64_t low[MOST_SPACE + 2] = {0}, high[MOST_SPACE + 2] = {0}, between[MOST_SPACE + 2] = {0};
    bool here = c->n == 3;
    for (int i = 0; i < c->n; i++) {
        low[1 + i] = c->pad[2 * i];
        high[1 + i] = c->pad[2 * i + 1];
        between[1 + i] = c->image_holes[i] - 1;
        here |= low[1 + i] < 0 || high[1 + i] < 0 || between[1 + i] > 0;
    }
    for (int i = 0; i < 2 * c->n; i++) {
        pad[i] = here ? 0 : c->pad[i];
    }
    if (here) {
        const struct td_hlo_padding p = {.rank = c->n + 2, .low = low, .high = high, .between = between};
        c->x = td_hlo_padded(f, c->x, td_hlo_zero(f, td_dtype_of(c->x)), &p);
    }
}

/* Groups of images side by side, as groups of features. */
static void groups_to_features(struct td_hlo_frame *f, const struct td_hlo_op *op, struct conv *c)
{
    const struct td_shape *x = td_hlo_shape(op->in[0]);
    int64_t apart[MOST_SPACE + 3], perm[MOST_SPACE + 3], together[MOST_SPACE + 2];
    int unknown = 0; /* one, a reshape tells from the others */
    for (int i = 0; i < c->n + 2; i++) {
        unknown += x->dim[i] < 0;
    }
    const int64_t batch = x->dim[c->image[0]];
    if (unknown > 1 || batch < 0 || batch % c->groups != 0 ||
        (c->features >= 0 && !td_i64_mul(c->features, c->groups, &c->features))) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "groups of a batch of unknown size");
        return;
    }
    apart[0] = c->groups;
    apart[1] = together[0] = batch / c->groups;
    for (int i = 1; i < c->n + 2; i++) {
        apart[1 + i] = together[i] = x->dim[c->image[i]];
    }
    together[c->n + 1] = c->features;
    for (int i = 0; i <= c->n; i++) {
        perm[i] = i + 1;
    }
    perm[c->n + 1] = 0;
    perm[c->n + 2] = c->n + 2;
    c->x = td_hlo_transpose(f, td_hlo_reshape(f, c->x, apart, c->n + 3), perm, c->n + 3);
    c->x = td_hlo_reshape(f, c->x, together, c->n + 2);
}

/* ------------------------------------------------------------------ the ops */

/* Numbers along [batch, space.., features], of which space comes from v. */
static struct td_attr along(const char *name, const int64_t *v, int n, int64_t *room)
{
    room[0] = room[n + 1] = 1;
    memcpy(room + 1, v, (size_t)n * sizeof *room);
    return (struct td_attr){.name = name, .kind = TD_ATTR_INT, .is_list = true, .n = n + 2, .i = room};
}

static struct td_value convolve_3d(struct td_hlo_frame *f, const struct conv *c)
{
    int64_t strides[MOST_SPACE + 2], holes[MOST_SPACE + 2];
    if (c->groups != 1) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "groups of features in three dimensions");
    }
    return td_emit(&f->e, "Conv3D", TD_IN(c->x, c->w),
                   TD_ATTRS(along("strides", c->stride, 3, strides), TD_ATTR_OF_TEXT("padding", "VALID"),
                            along("dilations", c->filter_holes, 3, holes)));
}

/* Whether every feature is a group of its own; the filter is then [h, w, features, multiple]. */
static bool is_depthwise(struct td_hlo_frame *f, const struct td_hlo_op *op, struct conv *c,
                         const int64_t *stride)
{
    const struct td_shape *w = td_hlo_shape(op->in[1]);
    const int64_t out = w->dim[c->filter[c->n + 1]], features = c->features;
    if (c->groups == 1 || c->groups != features || out % c->groups != 0 || stride[0] != stride[1]) {
        return false;
    }
    const int64_t shape[4] = {c->n == 1 ? 1 : w->dim[c->filter[0]], w->dim[c->filter[c->n - 1]], features,
                              out / features};
    c->w = td_hlo_reshape(f, c->w, shape, 4);
    return true;
}

static struct td_value convolve_2d(struct td_hlo_frame *f, const struct td_hlo_op *op, struct conv *c,
                                   const int64_t *pad)
{
    const bool flat = c->n == 1;
    const int64_t stride[2] = {c->stride[0], c->stride[flat ? 0 : 1]};
    const int64_t hole[2] = {flat ? 1 : c->filter_holes[0], c->filter_holes[flat ? 0 : 1]};
    int64_t pads[8] = {0}, strides[4], holes[4];
    bool any = false;
    for (int i = 0; i < 2 * c->n; i++) {
        pads[(flat ? 4 : 2) + i] = pad[i];
        any |= pad[i] != 0;
    }
    if (flat) {
        c->x = td_hlo_2(f, "ExpandDims", c->x, td_hlo_i32(f, 1));
        c->w = td_hlo_2(f, "ExpandDims", c->w, td_hlo_i32(f, 0));
    }
    const bool depthwise = is_depthwise(f, op, c, stride);
    const struct td_attr explicit_pads = TD_ATTR_OF_INTS("explicit_paddings", pads, any ? 8 : 0);
    const struct td_value y = td_emit(
        &f->e, depthwise ? "DepthwiseConv2dNative" : "Conv2D", TD_IN(c->x, c->w),
        TD_ATTRS(along("strides", stride, 2, strides), TD_ATTR_OF_TEXT("padding", any ? "EXPLICIT" : "VALID"),
                 explicit_pads, along("dilations", hole, 2, holes)));
    const int64_t height = 1;
    return flat ? td_emit(&f->e, "Squeeze", TD_IN(y),
                          TD_ATTRS(TD_ATTR_OF_INTS("squeeze_dims", (int64_t *)&height, 1)))
                : y;
}

void td_hlo_convolution(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct conv c = {.n = 0};
    int64_t pad[2 * MOST_SPACE], back[MOST_SPACE + 2] = {0};
    if (!read_conv(f, op, &c)) {
        return;
    }
    const enum td_dtype out = op->out[0]->type.dtype;
    c.x = td_hlo_transpose(f, td_hlo_cast(f, td_hlo_in(f, op, 0), out), c.image, c.n + 2);
    c.w = td_hlo_transpose(f, td_hlo_cast(f, td_hlo_in(f, op, 1), out), c.filter, c.n + 2);
    reverse_filter(f, op, &c);
    if (c.of_batch) {
        groups_to_features(f, op, &c);
    }
    pad_image(f, &c, pad);
    const struct td_value y = c.n == 3 ? convolve_3d(f, &c) : convolve_2d(f, op, &c, pad);
    for (int i = 0; i < c.n + 2; i++) {
        back[c.out[i]] = i;
    }
    td_hlo_put(f, op, 0, td_hlo_transpose(f, y, back, c.n + 2));
}
