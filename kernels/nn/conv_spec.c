/* kernels/nn/conv_spec.c - attributes and shapes of the convolution ops, checked once for forward and
 * gradients.
 *
 * Conv2D, Conv3D and their gradients, DepthwiseConv2dNative and its gradients, and Conv (any data format,
 * groups and several batch dimensions). Depthwise filters [kh,kw,C,M] are read as [kh,kw,1,C*M] with C
 * groups.
 *
 * Layouts that TensorFlow refuses on the CPU (NCHW, dilated depthwise) are served: a graph exported from a
 * GPU runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nn/conv_spec.h"

#include <string.h>

#include "core/base/mem.h"

static bool is_depthwise(const struct td_node *n)
{
    return strncmp(n->op_name, "Depthwise", 9) == 0;
}
static bool is_conv(const struct td_node *n)
{
    return strcmp(n->op_name, "Conv") == 0;
}

int td_conv_axes(const struct td_node *n)
{
    if (is_conv(n)) {
        int axes = td_attr_len(n, "strides") - 2;
        return axes < 1 ? 1 : axes > 3 ? 3 : axes;
    }
    return strncmp(n->op_name, "Conv3D", 6) == 0 ? 3 : 2;
}

struct td_data_layout td_conv_layout(const struct td_node *n)
{
    return td_data_layout_of(td_attr_str(n, "data_format"), td_conv_axes(n) + 2);
}

bool td_conv_empty(const struct td_conv *g)
{
    return g->batch == 0 || g->ic == 0 || g->oc == 0 || td_conv_in_cells(g) == 0 || td_conv_out_cells(g) == 0;
}

/* A list attribute with one entry a dimension: entries of batch and channel must be 1. */
static enum td_code per_axis(const struct td_node *n, const char *attr, int64_t out[3], struct td_err *err)
{
    struct td_data_layout l = td_conv_layout(n);
    int count, rank = l.n_spatial + 2;
    const int64_t *v = td_attr_ints(n, attr, &count);
    for (int i = 0; i < 3; i++) {
        out[i] = 1;
    }
    if (count == 0 && strcmp(attr, "dilations") == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(count != rank, err, INVALID_ARGUMENT,
               "%s: Sliding window %s field must specify %d dimensions, got %d", TD_NODE_STR(n), attr, rank,
               count);
    TD_FAIL_IF(v[0] != 1 || v[l.channel] != 1, err, UNIMPLEMENTED,
               "%s: Current implementation does not yet support %s in the batch and depth dimensions.",
               TD_NODE_STR(n), attr);
    for (int i = 0; i < l.n_spatial; i++) {
        out[3 - l.n_spatial + i] = v[l.spatial + i];
        TD_FAIL_IF(v[l.spatial + i] < 1, err, INVALID_ARGUMENT,
                   "%s: Sliding window %s should be larger than 0, got %lld", TD_NODE_STR(n), attr,
                   (long long)v[l.spatial + i]);
    }
    return TD_OK;
}

static enum td_code explicit_pads(const struct td_node *n, struct td_conv *g, struct td_err *err)
{
    struct td_data_layout l = td_conv_layout(n);
    int count, rank = l.n_spatial + 2;
    const int64_t *v = td_attr_ints(n, "explicit_paddings", &count);
    if (td_window_padding(n) != TD_PAD_EXPLICIT) {
        TD_FAIL_IF(count != 0, err, INVALID_ARGUMENT,
                   "%s: explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT",
                   TD_NODE_STR(n));
        return TD_OK;
    }
    TD_FAIL_IF(count != 2 * rank, err, INVALID_ARGUMENT,
               "%s: explicit_paddings attribute must contain %d values, but got: %d", TD_NODE_STR(n),
               2 * rank, count);
    TD_FAIL_IF(
        v[0] != 0 || v[1] != 0 || v[2 * l.channel] != 0 || v[2 * l.channel + 1] != 0, err, INVALID_ARGUMENT,
        "%s: Nonzero explicit padding in the batch or depth dimensions is not supported", TD_NODE_STR(n));
    for (int i = 0; i < l.n_spatial; i++) {
        g->axis[3 - l.n_spatial + i].before = v[2 * (l.spatial + i)];
        g->axis[3 - l.n_spatial + i].after = v[2 * (l.spatial + i) + 1];
    }
    return TD_OK;
}

static int64_t product(const struct td_shape *s, int from, int to)
{
    int64_t p = 1;
    for (int i = from; i < to; i++) {
        if (s->dim[i] < 0 || !td_i64_mul(p, s->dim[i], &p)) {
            return -1;
        }
    }
    return p;
}

/* Sizes that come from the input. `input` with several batch dimensions is read with those merged. */
static enum td_code from_input(const struct td_node *n, const struct td_shape *input, struct td_conv *g,
                               struct td_err *err)
{
    struct td_data_layout l = td_conv_layout(n);
    int64_t batches = is_conv(n) ? td_attr_int(n, "batch_dims") : 1;
    TD_FAIL_IF(batches < 1 || batches > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: batch_dims is %lld, want at least 1", TD_NODE_STR(n), (long long)batches);
    int extra = (int)batches - 1;
    if (input->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(input->rank != l.n_spatial + 2 + extra, err, INVALID_ARGUMENT,
               "%s: convolution input must be %d-dimensional: %s", TD_NODE_STR(n), l.n_spatial + 2 + extra,
               TD_SHAPE_STR(input));
    g->batch = product(input, 0, extra + 1);
    g->ic = input->dim[extra + l.channel];
    for (int i = 0; i < l.n_spatial; i++) {
        g->axis[3 - l.n_spatial + i].in = input->dim[extra + l.spatial + i];
    }
    return TD_OK;
}

/* Sizes that come from the filter; *depth is its input depth per group, as stored. */
static enum td_code from_filter(const struct td_node *n, const struct td_shape *f, struct td_conv *g,
                                int64_t *depth, struct td_err *err)
{
    int axes = td_conv_axes(n);
    *depth = -1;
    if (f->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(f->rank != axes + 2, err, INVALID_ARGUMENT, "%s: filter must be %d-dimensional: %s",
               TD_NODE_STR(n), axes + 2, TD_SHAPE_STR(f));
    TD_FAIL_IF(product(f, 0, f->rank) == 0 && f->dim[axes] == 0, err, INVALID_ARGUMENT,
               "%s: filter depth must be stricly positive, got 0", TD_NODE_STR(n));
    TD_FAIL_IF(product(f, 0, f->rank) == 0, err, INVALID_ARGUMENT,
               "%s: filter must not have zero elements (i.e. all dimensions must be non-zero), got %s",
               TD_NODE_STR(n), TD_SHAPE_STR(f));
    for (int i = 0; i < axes; i++) {
        g->axis[3 - axes + i].k = f->dim[i];
    }
    *depth = f->dim[axes];
    g->oc = is_depthwise(n) ? product(f, axes, axes + 2) : f->dim[axes + 1];
    return TD_OK;
}

static enum td_code group(const struct td_node *n, struct td_conv *g, int64_t depth, struct td_err *err)
{
    if (is_depthwise(n)) {
        TD_FAIL_IF(g->ic >= 0 && depth >= 0 && g->ic != depth, err, INVALID_ARGUMENT,
                   "%s: input and filter must have the same depth: %lld vs %lld", TD_NODE_STR(n),
                   (long long)g->ic, (long long)depth);
        g->groups = g->ic >= 0 ? g->ic : depth;
        g->ic = g->groups;
        return TD_OK;
    }
    if (g->ic < 0 || depth < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(g->ic % depth != 0, err, INVALID_ARGUMENT,
               "%s: input depth must be evenly divisible by filter depth: %lld vs %lld", TD_NODE_STR(n),
               (long long)g->ic, (long long)depth);
    g->groups = g->ic / depth;
    TD_FAIL_IF(g->groups == 0, err, INVALID_ARGUMENT,
               "%s: Number of groups must not be 0: input depth %lld, filter depth %lld", TD_NODE_STR(n),
               (long long)g->ic, (long long)depth);
    TD_FAIL_IF(g->oc >= 0 && g->oc % g->groups != 0, err, INVALID_ARGUMENT,
               "%s: output depth must be evenly divisible by number of groups: %lld vs %lld", TD_NODE_STR(n),
               (long long)g->oc, (long long)g->groups);
    return TD_OK;
}

/* Whether windows begin inside of the input where strides skip its end: td_window_skip. */
static bool begins_inside(const struct td_node *n, int axes)
{
    if (axes == 3) {
        return td_window_padding(n) == TD_PAD_SAME && strstr(n->op_name, "Backprop") == NULL;
    }
    return strcmp(n->op_name, "QuantizedConv2D") == 0;
}

enum td_code td_conv_spec(const struct td_node *n, const struct td_shape *input,
                          const struct td_shape *filter, struct td_conv *g, struct td_err *err)
{
    *g = (struct td_conv){.batch = -1, .ic = -1, .oc = -1, .groups = -1};
    int axes = td_conv_axes(n);
    int64_t strides[3], dilations[3], depth;
    TD_TRY(per_axis(n, "strides", strides, err));
    TD_TRY(per_axis(n, "dilations", dilations, err));
    TD_FAIL_IF(
        is_depthwise(n) && strides[1] != strides[2], err, INVALID_ARGUMENT,
        "%s: Current implementation only supports equal length strides in the row and column dimensions.",
        TD_NODE_STR(n));
    for (int i = 0; i < 3; i++) {
        bool used = i >= 3 - axes;
        g->axis[i] = (struct td_window){
            .in = used ? -1 : 1, .k = used ? -1 : 1, .stride = strides[i], .dilation = dilations[i]};
    }
    TD_TRY(explicit_pads(n, g, err));
    TD_TRY(from_input(n, input, g, err));
    TD_TRY(from_filter(n, filter, g, &depth, err));
    TD_TRY(group(n, g, depth, err));
    for (int i = 3 - axes; i < 3; i++) {
        TD_TRY(td_window_make(&g->axis[i], td_window_padding(n), n, err));
        if (begins_inside(n, axes)) {
            td_window_skip(&g->axis[i], td_window_padding(n));
        }
    }
    for (int i = 0; i < 3 - axes; i++) {
        g->axis[i].out = 1;
    }
    return TD_OK;
}

struct td_shape td_conv_out_shape(const struct td_node *n, const struct td_conv *g,
                                  const struct td_shape *input)
{
    struct td_data_layout l = td_conv_layout(n);
    int extra = input->rank > l.n_spatial + 2 ? input->rank - l.n_spatial - 2 : 0;
    struct td_shape s = td_shape_of_rank(l.n_spatial + 2 + extra);
    s.dim[0] = g->batch;
    for (int i = 0; i <= extra && input->rank > 0; i++) {
        s.dim[i] = input->dim[i];
    }
    s.dim[extra + l.channel] = g->oc;
    for (int i = 0; i < l.n_spatial; i++) {
        s.dim[extra + l.spatial + i] = g->axis[3 - l.n_spatial + i].out;
    }
    return s;
}
