/* proto/hlo_graph/hlo_slice.c - slices at constant and at computed places, updates of them, padding.
 *
 * A dynamic slice that would reach outside is moved inside, as StableHLO has it; TensorFlow's Slice refuses. Padding
 * between elements goes by a further axis of size 1 that is padded; padding by less than nothing cuts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_slice.h"

#include "proto/hlo_graph/hlo_rules.h"

static bool fits(struct td_hlo_frame *f, const struct td_hlo_op *op, int n)
{
    if (op->n_in < n || op->n_out < 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands, wants %d", op->n_in, n);
    }
    return f->e.rc == TD_OK;
}

void td_hlo_slice(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 1)) {
        return;
    }
    const struct td_shape *s = td_hlo_shape(op->in[0]);
    const int64_t *from = td_hlo_ints_of(f, op, "start_indices", s->rank, 0);
    const int64_t *to = td_hlo_ints_of(f, op, "limit_indices", s->rank, 0);
    const int64_t *step = td_hlo_ints_of(f, op, "strides", s->rank, 1);
    const struct td_value x = td_hlo_in(f, op, 0);
    int64_t whole_from = 0, whole_to = 0;
    if (f->e.rc) {
        return;
    }
    for (int i = 0; i < s->rank; i++) {
        if (from[i] < 0 || to[i] < from[i] || step[i] < 1) {
            td_hlo_fail(f, TD_INVALID_ARGUMENT, "axis %d: from %lld to %lld by %lld", i, (long long)from[i],
                        (long long)to[i], (long long)step[i]);
            return;
        }
        whole_from |= from[i] == 0 ? (int64_t)1 << i : 0;
        whole_to |= to[i] == s->dim[i] ? (int64_t)1 << i : 0;
    }
    td_hlo_put(f, op, 0,
               s->rank == 0 ? x
                            : td_emit(&f->e, "StridedSlice",
                                      TD_IN(x, td_hlo_i32s(f, from, s->rank), td_hlo_i32s(f, to, s->rank),
                                            td_hlo_i32s(f, step, s->rank)),
                                      TD_ATTRS(TD_ATTR_OF_INT("begin_mask", whole_from),
                                               TD_ATTR_OF_INT("end_mask", whole_to))));
}

/* start, limit and strides are int vectors that are computed. */
void td_hlo_real_dynamic_slice(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 4)) {
        return;
    }
    struct td_value in[4] = {td_hlo_in(f, op, 0)};
    for (int i = 1; i < 4; i++) {
        in[i] = td_hlo_cast(f, td_hlo_in(f, op, i), TD_INT32);
    }
    td_hlo_put(f, op, 0, td_emit(&f->e, "StridedSlice", in, 4, TD_NO_ATTRS));
}

/* ------------------------------------------------------------------ at computed places */

/* The operands from `at` on, a scalar an axis, as one int32 vector, moved so that a block of `size` (int32s) from there
 * lies in op->in[0]. */
static struct td_value starts(struct td_hlo_frame *f, const struct td_hlo_op *op, int at, struct td_value size)
{
    const int rank = td_hlo_shape(op->in[0])->rank;
    struct td_value v[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        v[i] = td_hlo_cast(f, td_hlo_in(f, op, at + i), TD_INT32);
    }
    const struct td_value most = td_hlo_2(f, "Sub", td_hlo_dims(f, op->in[0]), size);
    const struct td_value asked = td_hlo_pack(f, v, rank, 0);
    return td_hlo_2(f, "Maximum", td_hlo_2(f, "Minimum", asked, most), td_hlo_i32(f, 0));
}

/* A slice of one index along one axis, whole along the others: the axis, or -1. */
static int one_along(const struct td_shape *s, const int64_t *size)
{
    int axis = -1;
    for (int i = 0; i < s->rank; i++) {
        if (size[i] == s->dim[i] && s->dim[i] >= 0) {
            continue;
        }
        if (axis >= 0 || size[i] != 1) {
            return -1;
        }
        axis = i;
    }
    return axis;
}

void td_hlo_dynamic_slice(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 1) || !fits(f, op, 1 + td_hlo_shape(op->in[0])->rank)) {
        return;
    }
    const struct td_shape *s = td_hlo_shape(op->in[0]);
    const int64_t *size = td_hlo_ints_of(f, op, "slice_sizes", s->rank, 0);
    const struct td_value x = td_hlo_in(f, op, 0);
    if (f->e.rc || s->rank == 0) {
        td_hlo_put(f, op, 0, x);
        return;
    }
    const int axis = one_along(s, size);
    if (axis >= 0) { /* a step's slice of a loop: as TensorFlow's loops read one */
        const struct td_value most = td_hlo_2(f, "Sub", td_hlo_dim(f, op->in[0], axis), td_hlo_i32(f, 1));
        const struct td_value asked = td_hlo_cast(f, td_hlo_in(f, op, 1 + axis), TD_INT32);
        const struct td_value at = td_hlo_2(f, "Maximum", td_hlo_2(f, "Minimum", asked, most), td_hlo_i32(f, 0));
        const struct td_value one = td_hlo_3(f, "GatherV2", x, at, td_hlo_i32(f, axis));
        td_hlo_put(f, op, 0, td_hlo_2(f, "ExpandDims", one, td_hlo_i32(f, axis)));
        return;
    }
    const struct td_value sizes = td_hlo_i32s(f, size, s->rank);
    td_hlo_put(f, op, 0, td_hlo_3(f, "Slice", x, starts(f, op, 1, sizes), sizes));
}

void td_hlo_dynamic_update_slice(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 2) || !fits(f, op, 2 + td_hlo_shape(op->in[0])->rank)) {
        return;
    }
    const int rank = td_hlo_shape(op->in[0])->rank;
    const struct td_value x = td_hlo_in(f, op, 0), update = td_hlo_in(f, op, 1);
    if (f->e.rc == TD_OK && (rank == 0 || td_hlo_shape(op->in[1])->rank != rank)) {
        td_hlo_put(f, op, 0, update);
        return;
    }
    struct td_value at[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        at[i] = td_hlo_cast(f, td_hlo_in(f, op, 2 + i), TD_INT32);
    }
    td_hlo_put(f, op, 0, td_hlo_3(f, "XlaDynamicUpdateSlice", x, update, td_hlo_pack(f, at, rank, 0)));
}

/* ------------------------------------------------------------------ padding */

/* x with `between` copies of value behind each element along the axis but the last. */
static struct td_value pad_between(struct td_hlo_frame *f, struct td_value x, struct td_value value, int rank,
                                   int axis, int64_t between)
{
    struct td_value dims[TD_MAX_RANK];
    int64_t pads[2 * (TD_MAX_RANK + 1)] = {0};
    const int64_t shape[2] = {rank + 1, 2};
    const struct td_value had = td_hlo_1(f, "Shape", x);
    pads[2 * (axis + 1) + 1] = between;
    const struct td_value wide = td_hlo_2(f, "ExpandDims", x, td_hlo_i32(f, axis + 1));
    const struct td_value padded = td_hlo_3(
        f, "PadV2", wide, td_hlo_reshape(f, td_hlo_i32s(f, pads, 2 * (rank + 1)), shape, 2), value);
    for (int i = 0; i < rank; i++) {
        dims[i] = td_hlo_pick(f, had, i);
        dims[i] = i == axis ? td_hlo_2(f, "Mul", dims[i], td_hlo_i32(f, between + 1)) : dims[i];
    }
    const struct td_value flat = td_hlo_2(f, "Reshape", padded, td_hlo_pack(f, dims, rank, 0));
    return td_hlo_cut(f, flat, axis, 0, -between, 1);
}

struct td_value td_hlo_padded(struct td_hlo_frame *f, struct td_value x, struct td_value value,
                              const struct td_hlo_padding *p)
{
    int64_t pads[2 * TD_MAX_RANK];
    const int64_t shape[2] = {p->rank, 2};
    bool any = false;
    for (int i = 0; i < p->rank; i++) {
        if (p->between != NULL && p->between[i] > 0) {
            x = pad_between(f, x, value, p->rank, i, p->between[i]);
        }
        pads[2 * i] = p->low[i] > 0 ? p->low[i] : 0;
        pads[2 * i + 1] = p->high[i] > 0 ? p->high[i] : 0;
        any |= pads[2 * i] > 0 || pads[2 * i + 1] > 0;
    }
    if (any) {
        x = td_hlo_3(f, "PadV2", x, td_hlo_reshape(f, td_hlo_i32s(f, pads, 2 * p->rank), shape, 2), value);
    }
    for (int i = 0; i < p->rank; i++) {
        if (p->low[i] < 0 || p->high[i] < 0) {
            x = td_hlo_cut(f, x, i, p->low[i] < 0 ? -p->low[i] : 0, p->high[i] < 0 ? p->high[i] : TD_HLO_TO_END, 1);
        }
    }
    return x;
}

void td_hlo_pad(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 2)) {
        return;
    }
    const int rank = td_hlo_shape(op->in[0])->rank;
    const struct td_hlo_padding p = {.rank = rank,
                                     .low = td_hlo_ints_of(f, op, "edge_padding_low", rank, 0),
                                     .high = td_hlo_ints_of(f, op, "edge_padding_high", rank, 0),
                                     .between = td_hlo_ints_of(f, op, "interior_padding", rank, 0)};
    const struct td_value x = td_hlo_in(f, op, 0), value = td_hlo_in(f, op, 1);
    if (f->e.rc == TD_OK) {
        td_hlo_put(f, op, 0, td_hlo_padded(f, x, value, &p));
    }
}

/* Amounts are computed; those between elements must be none. */
void td_hlo_dynamic_pad(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 5)) {
        return;
    }
    const struct td_hlo_op *between = op->in[4]->op;
    const struct td_hlo_attr *a = between == NULL ? NULL : td_hlo_attr(between, "value");
    if (a == NULL || !a->splat || a->raw.len == 0 || a->raw.p[0] != 0) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "padding between elements that is not known to be none");
    }
    struct td_value side[2];
    for (int i = 0; i < 2; i++) {
        side[i] = td_hlo_cast(f, td_hlo_in(f, op, 2 + i), TD_INT32);
    }
    const struct td_value x = td_hlo_in(f, op, 0), value = td_hlo_in(f, op, 1);
    if (f->e.rc == TD_OK) {
        td_hlo_put(f, op, 0, td_hlo_3(f, "PadV2", x, td_hlo_pack(f, side, 2, 1), value));
    }
}
