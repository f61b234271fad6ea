/* kernels/nn/data_format.c - DataFormatDimMap and DataFormatVecPermute: the axes and sizes of one data format
 * in another.
 *
 *   DimMap      x [any shape], axes of src_format            -> the same axes as dst_format numbers them
 *   VecPermute  x [n] or [n, 2], a number (or pair) an axis  -> the same numbers in dst_format's order
 *
 * A format has 4 or 5 letters, "NHWC", "NCDHW". A vector of two fewer is of the spatial axes D, H, W alone.
 * Graphs that went through a layout optimizer have these ops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/graph/graph.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"

enum { LETTERS = 5 };

/* The letters of an attribute, spatial ones alone where asked for; their number, 0 when they do not fit. */
static int letters_of(const struct td_node *n, const char *attr, bool spatial, char out[LETTERS])
{
    const struct td_bytes s = td_attr_bytes(n, attr);
    int k = 0;
    for (size_t i = 0; i < s.len && s.len <= LETTERS; i++) {
        if (!spatial || memchr("DHW", s.p[i], 3)) {
            out[k++] = s.p[i];
        }
    }
    return k;
}

/* place[i]: where letter i of attribute `from` stands in attribute `to`. */
static enum td_code places(const struct td_node *n, const char *from, const char *to, bool spatial,
                           int place[LETTERS], int *count, struct td_err *err)
{
    char a[LETTERS], b[LETTERS];
    const int na = letters_of(n, from, spatial, a), nb = letters_of(n, to, spatial, b);
    uint32_t seen = 0;
    for (int i = 0; i < na && na == nb; i++) {
        const char *hit = memchr(b, a[i], (size_t)nb);
        place[i] = hit ? (int)(hit - b) : 0;
        seen |= hit ? 1u << place[i] : 0;
    }
    TD_FAIL_IF(na == 0 || na != nb || seen != (1u << na) - 1, err, INVALID_ARGUMENT,
               "%s: Destination and source format must determine a permutation, got %s and %s",
               TD_NODE_STR(n), td_attr_str(n, to), td_attr_str(n, from));
    *count = na;
    return TD_OK;
}

static enum td_code check_formats(const struct td_node *n, struct td_err *err)
{
    static const char *const attrs[2] = {"src_format", "dst_format"};
    int place[LETTERS], count;
    for (int i = 0; i < 2; i++) {
        const size_t len = td_attr_bytes(n, attrs[i]).len;
        TD_FAIL_IF(len != 4 && len != 5, err, INVALID_ARGUMENT,
                   "%s: %s format must be of length 4 or 5, received %s = %s", TD_NODE_STR(n),
                   i == 0 ? "Source" : "Destination", attrs[i], td_attr_str(n, attrs[i]));
    }
    return places(n, "src_format", "dst_format", false, place, &count, err);
}

/* ------------------------------------------------------------------ DataFormatDimMap */

static enum td_code dim_map_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(check_formats(c->node, err));
    return td_infer_same(c, err);
}

/* What is no axis counts as the last one, as in TensorFlow. */
static enum td_code dim_map_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    int place[LETTERS], count;
    struct td_tensor *y;
    TD_TRY(places(c->node, "src_format", "dst_format", false, place, &count, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        int64_t axis = td_tensor_int(x, i);
        axis = axis < -count || axis >= count ? count - 1 : axis < 0 ? axis + count : axis;
        td_tensor_set_int(y, i, place[axis]);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ DataFormatVecPermute */

static enum td_code permute_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    const int full = (int)td_attr_bytes(c->node, "src_format").len;
    TD_TRY(check_formats(c->node, err));
    TD_FAIL_IF(x->rank >= 0 && x->rank != 1 && x->rank != 2, err, INVALID_ARGUMENT,
               "%s: input must be a vector or 2D tensor, but got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(x));
    if (x->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(x->dim[0] >= 0 && x->dim[0] != full && x->dim[0] != full - 2, err, INVALID_ARGUMENT,
               "%s: input must be of size %d or %d, but got shape %s", TD_NODE_STR(c->node), full - 2, full,
               TD_SHAPE_STR(x));
    TD_FAIL_IF(x->rank == 2 && x->dim[1] >= 0 && x->dim[1] != 2, err, INVALID_ARGUMENT,
               "%s: Second dimension of 2D input must be of size 2, but got shape %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(x));
    return td_infer_same(c, err);
}

static enum td_code permute_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const bool spatial = x->shape.dim[0] < (int64_t)td_attr_bytes(c->node, "src_format").len;
    int place[LETTERS], count;
    struct td_tensor *y;
    TD_TRY(places(c->node, "src_format", "dst_format", spatial, place, &count, err));
    TD_FAIL_IF(count != x->shape.dim[0], err, INVALID_ARGUMENT,
               "%s: %d spatial axes in %s, the input is of shape %s", TD_NODE_STR(c->node), count,
               td_attr_str(c->node, "src_format"), TD_SHAPE_STR(&x->shape));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const size_t row = td_dtype_size(x->dtype) * (x->shape.rank == 2 ? 2 : 1);
    for (int i = 0; i < count; i++) {
        memcpy((char *)y->data + (size_t)place[i] * row, (const char *)x->data + (size_t)i * row, row);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define FORMAT_ROW(opname, infer_fn, fn)                                                                     \
    {                                                                                                        \
        .name = opname,                                                                                      \
        .sig = "(x:T) -> (y:T) {T:type=int32; src_format:string='NHWC'; "                                    \
               "dst_format:string='NCHW'}",                                                                  \
        .infer = infer_fn, .kernels = TD_KERNEL("data_format.cpu", fn, {"T", TD_SET_INDEX})                  \
    }

const struct td_op td_ops_data_format[] = {
    FORMAT_ROW("DataFormatDimMap", dim_map_infer, dim_map_run),
    FORMAT_ROW("DataFormatVecPermute", permute_infer, permute_run),
    {.name = NULL},
};
