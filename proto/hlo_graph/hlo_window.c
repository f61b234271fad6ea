/* proto/hlo_graph/hlo_window.c - reductions of windows that slide over a tensor, and the way back of a
 * maximum's.
 *
 *   maximum, sum of windows over rows and columns of images    MaxPool, AvgPool times the window's size
 *   along one axis, all that came before                       Cumsum, Cumprod
 *   everything else                                            axis by axis: strided slices of the padded
 *                                                              tensor joined by the body, one for
 *                                                              each place of the window
 *
 * Padding is put in before, of what changes nothing, as XLA has it, which leaves out what is not there; of
 * the initial value where the body is more than one operation.
 *
 * Does not: several operands; windows of more than TD_HLO_MAX_UNROLL places along an axis.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_body.h"
#include "proto/hlo_graph/hlo_rules.h"
#include "proto/hlo_graph/hlo_slice.h"

struct windows {
    int rank;
    const int64_t *size, *stride, *holes, *between; /* between the tensor's elements: 1: none */
    int64_t low[TD_MAX_RANK], high[TD_MAX_RANK];
    const struct td_shape *shape; /* of the tensor */
};

static bool read_windows(struct td_hlo_frame *f, const struct td_hlo_op *op, struct windows *w)
{
    w->shape = td_hlo_shape(op->in[0]);
    w->rank = w->shape->rank;
    w->size = td_hlo_ints_of(f, op, "window_dimensions", w->rank, 1);
    w->stride = td_hlo_ints_of(f, op, "window_strides", w->rank, 1);
    w->holes = td_hlo_ints_of(f, op, "window_dilations", w->rank, 1);
    w->between = td_hlo_ints_of(f, op, "base_dilations", w->rank, 1);
    const int64_t *pad = td_hlo_ints_of(f, op, "padding", 2 * w->rank, 0);
    for (int i = 0; f->e.rc == TD_OK && i < w->rank; i++) {
        w->low[i] = pad[2 * i];
        w->high[i] = pad[2 * i + 1];
        if (w->size[i] < 1 || w->stride[i] < 1 || w->holes[i] < 1 || w->between[i] < 1 ||
            w->size[i] > INT32_MAX || w->stride[i] > INT32_MAX || w->holes[i] > INT32_MAX) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "sizes, strides and dilations of windows begin at 1");
        }
    }
    return f->e.rc == TD_OK;
}

static bool is_trivial(const struct windows *w, int axis)
{
    return w->size[axis] == 1 && w->stride[axis] == 1 && w->low[axis] == 0 && w->high[axis] == 0 &&
           w->between[axis] == 1;
}

static bool has_between(const struct windows *w)
{
    for (int i = 0; i < w->rank; i++) {
        if (w->between[i] != 1) {
            return true;
        }
    }
    return false;
}

static struct td_value padded(struct td_hlo_frame *f, struct td_value x, struct td_value init,
                              const struct windows *w)
{
    int64_t between[TD_MAX_RANK];
    for (int i = 0; i < w->rank; i++) {
        between[i] = w->between[i] - 1;
    }
    const struct td_hlo_padding p = {.rank = w->rank, .low = w->low, .high = w->high, .between = between};
    return td_hlo_padded(f, x, init, &p);
}

/* ------------------------------------------------------------------ images */

/* Rows and columns of images, the batch in front: where the channels are; -1: these are not such windows. */
static int channels_of(const struct windows *w)
{
    if (w->rank != 4 || !is_trivial(w, 0) || has_between(w) || w->holes[1] + w->holes[2] + w->holes[3] != 3) {
        return -1;
    }
    return is_trivial(w, 3) ? 3 : is_trivial(w, 1) ? 1 : -1;
}

static struct td_value to_last(struct td_hlo_frame *f, struct td_value x, int channels)
{
    const int64_t perm[4] = {0, 2, 3, 1};
    return channels == 3 ? x : td_hlo_transpose(f, x, perm, 4);
}

static struct td_value from_last(struct td_hlo_frame *f, struct td_value x, int channels)
{
    const int64_t perm[4] = {0, 3, 1, 2};
    return channels == 3 ? x : td_hlo_transpose(f, x, perm, 4);
}

struct pool_attrs {
    int64_t size[4], stride[4];
};

static struct pool_attrs pool_attrs(const struct windows *w, int channels)
{
    const int row = channels == 3 ? 1 : 2;
    return (struct pool_attrs){{1, w->size[row], w->size[row + 1], 1},
                               {1, w->stride[row], w->stride[row + 1], 1}};
}

static struct td_value pool(struct td_hlo_frame *f, const char *name, struct td_value x, struct pool_attrs *a)
{
    return td_emit(&f->e, name, TD_IN(x),
                   TD_ATTRS(TD_ATTR_OF_INTS("ksize", a->size, 4), TD_ATTR_OF_INTS("strides", a->stride, 4),
                            TD_ATTR_OF_TEXT("padding", "VALID")));
}

static bool put_pool(struct td_hlo_frame *f, const struct td_hlo_op *op, const struct windows *w,
                     const struct td_hlo_reducer *r)
{
    const int channels = channels_of(w);
    const enum td_dtype t = op->out[0]->type.dtype;
    const struct td_value init = td_hlo_in(f, op, 1);
    const bool most = r != NULL && strcmp(r->over, "Max") == 0,
               sum = r != NULL && strcmp(r->over, "Sum") == 0;
    if (channels < 0 || !td_hlo_is_float(t) || !(most || sum) || !td_hlo_is_neutral(r, init)) {
        return false;
    }
    struct pool_attrs a = pool_attrs(w, channels);
    struct td_value y = to_last(f, padded(f, td_hlo_in(f, op, 0), init, w), channels);
    y = pool(f, most ? "MaxPool" : "AvgPool", y, &a);
    if (sum) {
        y = td_hlo_2(f, "Mul", y, td_hlo_number(f, t, (double)(a.size[1] * a.size[2])));
    }
    td_hlo_put(f, op, 0, from_last(f, y, channels));
    return true;
}

/* ------------------------------------------------------------------ all that came before */

static bool put_running(struct td_hlo_frame *f, const struct td_hlo_op *op, const struct windows *w,
                        const struct td_hlo_reducer *r)
{
    int axis = -1;
    for (int i = 0; i < w->rank; i++) {
        if (!is_trivial(w, i)) {
            if (axis >= 0) {
                return false;
            }
            axis = i;
        }
    }
    if (r == NULL || r->along == NULL || axis < 0 || has_between(w) || w->stride[axis] != 1 ||
        w->holes[axis] != 1 || w->size[axis] != w->shape->dim[axis]) {
        return false;
    }
    const int64_t before = w->size[axis] - 1;
    const bool back = w->low[axis] == 0 && w->high[axis] == before;
    if ((!back && !(w->low[axis] == before && w->high[axis] == 0)) ||
        !td_hlo_is_neutral(r, td_hlo_in(f, op, 1))) {
        return false;
    }
    td_hlo_put(f, op, 0,
               td_emit(&f->e, r->along, TD_IN(td_hlo_in(f, op, 0), td_hlo_i32(f, axis)),
                       TD_ATTRS(TD_ATTR_OF_BOOL("reverse", back))));
    return true;
}

/* ------------------------------------------------------------------ any */

static struct td_value joined(struct td_hlo_frame *f, const struct td_hlo_op *op,
                              const struct td_hlo_reducer *r, struct td_value x, struct td_value y)
{
    struct td_value out[1] = {td_no_value};
    if (r != NULL) {
        return td_hlo_2(f, r->two, x, y);
    }
    td_hlo_apply(f, &op->regions[0], (const struct td_value[]){x, y}, 2, out, 1);
    return out[0];
}

/* The windows along one axis of x, which is `long` there. */
static struct td_value along_axis(struct td_hlo_frame *f, const struct td_hlo_op *op, const struct windows *w,
                                  const struct td_hlo_reducer *r, struct td_value x, int axis)
{
    const int64_t made = td_hlo_shape(op->out[0])->dim[axis], step = w->stride[axis];
    struct td_value sum = td_no_value;
    if (made < 0 || made > INT32_MAX || w->size[axis] > TD_HLO_MAX_UNROLL) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "windows of %lld along axis %d", (long long)w->size[axis], axis);
    }
    for (int64_t i = 0; f->e.rc == TD_OK && i < w->size[axis]; i++) {
        const int64_t from = i * w->holes[axis], to = made == 0 ? from : from + (made - 1) * step + 1;
        const struct td_value part = td_hlo_cut(f, x, axis, from, to, step);
        sum = i == 0 ? part : joined(f, op, r, sum, part);
    }
    return sum;
}

void td_hlo_reduce_window(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct windows w;
    if (op->n_in != 2 || op->n_out != 1 || op->n_regions < 1 || op->regions[0].n_ops == 0 ||
        op->regions[0].ops[op->regions[0].n_ops - 1]->n_in != 1) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "several operands at once");
        return;
    }
    const struct td_hlo_reducer *r = td_hlo_reducer(&op->regions[0], op->in[0]->type.dtype);
    if (!read_windows(f, op, &w) || put_pool(f, op, &w, r) || put_running(f, op, &w, r)) {
        return;
    }
    const struct td_value init = td_hlo_in(f, op, 1);
    const struct td_value around = r == NULL ? init : td_hlo_neutral(f, r, op->in[0]->type.dtype);
    struct td_value x = padded(f, td_hlo_in(f, op, 0), around, &w);
    for (int i = 0; f->e.rc == TD_OK && i < w.rank; i++) {
        x = w.size[i] == 1 && w.stride[i] == 1 ? x : along_axis(f, op, &w, r, x, i);
    }
    td_hlo_put(f, op, 0, r != NULL && td_hlo_is_neutral(r, init) ? x : joined(f, op, r, init, x));
}

/* ------------------------------------------------------------------ the way back of a maximum */

void td_hlo_select_and_scatter(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct windows w;
    if (op->n_in != 3 || op->n_out != 1 || op->n_regions < 2 || !read_windows(f, op, &w)) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants 3", op->n_in);
        return;
    }
    const int channels = channels_of(&w);
    const struct td_hlo_op *by = op->regions[0].n_ops == 2 ? op->regions[0].ops[0] : NULL;
    const struct td_hlo_reducer *add = td_hlo_reducer(&op->regions[1], op->in[0]->type.dtype);
    const bool largest = by != NULL && strcmp(by->name, "compare") == 0 && by->n_in == 2 &&
                         op->regions[0].n_args == 2 && by->in[0] == op->regions[0].args[0] &&
                         td_hlo_text_is(by, "comparison_direction", "GE");
    if (channels < 0 || !largest || add == NULL || strcmp(add->over, "Sum") != 0 ||
        !td_hlo_is_neutral(add, td_hlo_in(f, op, 2))) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "anything but sums at the largest of an image's windows");
        return;
    }
    const enum td_dtype t = op->in[0]->type.dtype;
    struct pool_attrs a = pool_attrs(&w, channels);
    const struct td_value x =
        to_last(f, padded(f, td_hlo_in(f, op, 0), td_hlo_limit(f, t, true), &w), channels);
    const struct td_value source = to_last(f, td_hlo_in(f, op, 1), channels);
    const struct td_value y = pool(f, "MaxPool", x, &a);
    const struct td_value g =
        td_emit(&f->e, "MaxPoolGrad", TD_IN(x, y, source),
                TD_ATTRS(TD_ATTR_OF_INTS("ksize", a.size, 4), TD_ATTR_OF_INTS("strides", a.stride, 4),
                         TD_ATTR_OF_TEXT("padding", "VALID")));
    for (int i = 0; i < w.rank; i++) {
        w.low[i] = -w.low[i];
        w.high[i] = -w.high[i];
    }
    td_hlo_put(f, op, 0, padded(f, from_last(f, g, channels), td_hlo_zero(f, t), &w));
}
