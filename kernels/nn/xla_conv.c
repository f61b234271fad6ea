/* kernels/nn/xla_conv.c - XlaConv, XlaConvV2: convolutions whose axes lie anywhere, of one to three of
 * space.
 *
 *   lhs, rhs, window_strides [n], padding [n,2], lhs_dilation [n], rhs_dilation [n], feature_group_count
 *
 * dimension_numbers says which axis is what (the enum below). Where the small inputs are constants, as those
 * are who lower graphs make them, a node becomes Transposes around Conv2D or Conv3D when its graph is loaded
 * (core/graph/expand.h): channels last; one axis of space with another of size 1; a dilated or cut lhs by
 * XlaPad first. What is left, of integers, in groups of the batch, or with sizes that are known only when
 * it is run, is refused then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/expand.h"
#include "kernels/formula/formula.h"
#include "kernels/nn/xla_dims.h"
#include "kernels/ops.h"

/* Fields of the message, less 1. */
enum { W_IN = 2, W_OUT, W_SPACE = 5, X_BATCH, X_CHANNELS, Y_BATCH, Y_CHANNELS, X_SPACE, Y_SPACE, FIELDS };
enum { STRIDES = 2, PADDING, LHS_STEP, RHS_STEP, MOST_SPACE = 3 };

struct conv {
    int n; /* axes of space */
    int64_t x_perm[MOST_SPACE + 2], w_perm[MOST_SPACE + 2], y_perm[MOST_SPACE + 2];
    int64_t stride[MOST_SPACE], low[MOST_SPACE], high[MOST_SPACE], x_step[MOST_SPACE], w_step[MOST_SPACE];
};

/* ------------------------------------------------------------------ what the node says */

static int first(const struct td_axes *a)
{
    return a->n == 0 ? 0 : a->axis[a->n - 1];
}

/* The axes `before`, space, and `behind`, as one order of all. */
static bool order(int before, const struct td_axes *space, int behind, int behind_too, int64_t *perm)
{
    uint32_t seen = 0;
    int n = 0;
    if (before >= 0) {
        perm[n++] = before;
    }
    for (int i = 0; i < space->n; i++) {
        perm[n++] = space->axis[i];
    }
    perm[n++] = behind;
    if (behind_too >= 0) {
        perm[n++] = behind_too;
    }
    for (int i = 0; i < n; i++) {
        if (perm[i] >= n || (seen >> perm[i] & 1)) {
            return false;
        }
        seen |= (uint32_t)1 << perm[i];
    }
    return true;
}

static bool read_orders(const struct td_node *n, struct conv *g)
{
    struct td_axes a[FIELDS];
    struct td_err err = {0};
    int64_t perm[MOST_SPACE + 2];
    if (td_axes_read(n, FIELDS, a, &err) || a[X_SPACE].n < 1 || a[X_SPACE].n > MOST_SPACE ||
        a[W_SPACE].n != a[X_SPACE].n || a[Y_SPACE].n != a[X_SPACE].n) {
        return false;
    }
    g->n = a[X_SPACE].n;
    if (!order(first(&a[X_BATCH]), &a[X_SPACE], first(&a[X_CHANNELS]), -1, g->x_perm) ||
        !order(-1, &a[W_SPACE], first(&a[W_IN]), first(&a[W_OUT]), g->w_perm) ||
        !order(first(&a[Y_BATCH]), &a[Y_SPACE], first(&a[Y_CHANNELS]), -1, perm)) {
        return false;
    }
    for (int i = 0; i < g->n + 2; i++) { /* the way back */
        g->y_perm[perm[i]] = i;
    }
    return true;
}

/* Elements of a constant; false when it is none, or has another number of them. */
static bool numbers(struct td_value v, int count, int64_t *to)
{
    const struct td_tensor *t = td_known_value(v);
    if (t == NULL || td_tensor_count(t) != count || !td_dtype_in(t->dtype, TD_SET_INDEX)) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        to[i] = td_tensor_int(t, i);
        if (to[i] < INT32_MIN || to[i] > INT32_MAX) {
            return false;
        }
    }
    return true;
}

static bool read_window(const struct td_node *n, struct conv *g)
{
    int64_t pads[2 * MOST_SPACE];
    bool fine = numbers(n->in[STRIDES], g->n, g->stride) && numbers(n->in[PADDING], 2 * g->n, pads) &&
                numbers(n->in[LHS_STEP], g->n, g->x_step) && numbers(n->in[RHS_STEP], g->n, g->w_step);
    for (int i = 0; fine && i < g->n; i++) {
        g->low[i] = pads[2 * i];
        g->high[i] = pads[2 * i + 1];
        fine = g->stride[i] > 0 && g->x_step[i] > 0 && g->w_step[i] > 0;
    }
    return fine;
}

/* ------------------------------------------------------------------ as other nodes */

static struct td_value transposed(struct td_emitter *e, struct td_value x, const int64_t *perm, int n)
{
    return td_f_transpose(e, x, td_emit_ints(e, TD_INT32, perm, n));
}

/* Whether Conv2D can pad so by itself. */
static bool plain(const struct conv *g)
{
    bool is = g->n < 3;
    for (int i = 0; i < g->n; i++) {
        is = is && g->low[i] >= 0 && g->high[i] >= 0 && g->x_step[i] == 1;
    }
    return is;
}

/* x [batch, space.., channels], padded and spread. */
static struct td_value padded(struct td_emitter *e, const struct conv *g, struct td_value x)
{
    int64_t low[MOST_SPACE + 2] = {0}, high[MOST_SPACE + 2] = {0}, between[MOST_SPACE + 2] = {0};
    for (int i = 0; i < g->n; i++) {
        low[1 + i] = g->low[i];
        high[1 + i] = g->high[i];
        between[1 + i] = g->x_step[i] - 1;
    }
    return td_emit(e, "XlaPad",
                   TD_IN(x, td_f_number(e, x, 0), td_emit_ints(e, TD_INT32, low, g->n + 2),
                         td_emit_ints(e, TD_INT32, high, g->n + 2),
                         td_emit_ints(e, TD_INT32, between, g->n + 2)),
                   TD_NO_ATTRS);
}

/* Channels last: of one axis of space by one more in front of it. */
static struct td_value convolved(struct td_emitter *e, const struct conv *g, struct td_value x,
                                 struct td_value w)
{
    const bool pads = plain(g), line = g->n == 1;
    const int rank = line ? 4 : g->n + 2, from = line ? 2 : 1;
    int64_t strides[MOST_SPACE + 2] = {1, 1, 1, 1, 1}, steps[MOST_SPACE + 2] = {1, 1, 1, 1, 1},
                                 around[8] = {0};
    for (int i = 0; i < g->n; i++) {
        strides[from + i] = g->stride[i];
        steps[from + i] = g->w_step[i];
        if (pads) {
            around[2 * (from + i)] = g->low[i];
            around[2 * (from + i) + 1] = g->high[i];
        }
    }
    x = pads ? x : padded(e, g, x);
    x = line ? td_f_expand(e, x, 1) : x;
    w = line ? td_f_expand(e, w, 0) : w;
    if (g->n == 3) {
        return td_emit(e, "Conv3D", TD_IN(x, w),
                       TD_ATTRS(TD_ATTR_OF_INTS("strides", strides, rank),
                                TD_ATTR_OF_TEXT("padding", "VALID"),
                                TD_ATTR_OF_INTS("dilations", steps, rank)));
    }
    const struct td_value y = td_emit(
        e, "Conv2D", TD_IN(x, w),
        TD_ATTRS(TD_ATTR_OF_INTS("strides", strides, rank), TD_ATTR_OF_TEXT("padding", "EXPLICIT"),
                 TD_ATTR_OF_INTS("explicit_paddings", around, 8), TD_ATTR_OF_INTS("dilations", steps, rank)));
    return line
               ? td_emit(e, "Squeeze", TD_IN(y), TD_ATTRS(TD_ATTR_OF_INTS("squeeze_dims", (int64_t[]){1}, 1)))
               : y;
}

static void expand_conv(struct td_emitter *e, struct td_node *n)
{
    const enum td_dtype t = n->out_type[0];
    struct conv g = {.n = 0};
    if (!td_dtype_in(t, TD_SET_FLOATS) ||
        (td_is_op(n, "XlaConvV2") && td_attr_int(n, "batch_group_count") != 1) || !read_orders(n, &g) ||
        !read_window(n, &g)) {
        return;
    }
    const struct td_value x = transposed(e, td_f_cast(e, n->in[0], t), g.x_perm, g.n + 2);
    const struct td_value w = transposed(e, td_f_cast(e, n->in[1], t), g.w_perm, g.n + 2);
    const struct td_value y = convolved(e, &g, x, w);
    td_emit_again(e, n, td_op_find(e->ops, "Transpose"),
                  TD_IN(y, td_emit_ints(e, TD_INT32, g.y_perm, g.n + 2)), TD_NO_ATTRS);
}

static enum td_code refuse(struct td_call *c, struct td_err *err)
{
    return td_fail(
        err, TD_UNIMPLEMENTED,
        "%s: only convolutions of floats over one to three axes, whose strides, padding and dilations "
        "are constants, and in groups of features alone, are implemented",
        TD_NODE_STR(c->node));
}

/* ------------------------------------------------------------------ the table */

#define INPUTS                                                                                               \
    "window_strides:Tindices, padding:Tindices, lhs_dilation:Tindices, rhs_dilation:Tindices, "              \
    "feature_group_count:Tindices"

const struct td_op td_ops_xla_conv[] = {
    {.name = "XlaConv",
     .sig = "(lhs:T, rhs:T, " INPUTS ") -> (output:T) {T:type; Tindices:type; dimension_numbers:string; "
            "precision_config:string}",
     .expand = expand_conv,
     .kernels = TD_KERNEL("xla_conv.expanded", refuse, {"T", TD_SET_FLOATS})},
    {.name = "XlaConvV2",
     .sig = "(lhs:LhsT, rhs:RhsT, " INPUTS ") -> (output:preferred_element_type) {LhsT:type; RhsT:type; "
            "Tindices:type; dimension_numbers:string; precision_config:string; preferred_element_type:type; "
            "batch_group_count:int=1}",
     .expand = expand_conv,
     .kernels = TD_KERNEL("xla_conv.expanded", refuse, {"LhsT", TD_SET_FLOATS}, {"RhsT", TD_SET_FLOATS},
                          {"preferred_element_type", TD_SET_FLOATS})},
    {.name = NULL},
};
