/* proto/hlo_graph/hlo_slice.c - slices at constant and at computed places, updates of them, padding.
 *
 * A dynamic slice that would reach outside is moved inside, as StableHLO has it; TensorFlow's Slice
 * refuses. Padding between elements goes by a further axis of size 1 that is padded; padding by less than
 * nothing cuts.
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

/* ------------------------------------------------------------------ at computed places */

/* The operands from `at` on, a scalar an axis, as one int32 vector, moved so that a block of `size`
 * (int32s) from there lies in op->in[0]. */
static struct td_value starts(struct td_hlo_frame *f, const struct td_hlo_op *op, int at,
                              struct td_value size)
{
    const int rank = td_hlo_shape(op->in[0])->rank;
    struct td_value v[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        v[i] = td_hlo_index(f, td_hlo_in(f, op, at + i));
    }
    const struct td_value most = td_hlo_2(f, "Sub", td_hlo_dims(f, op->in[0]), size);
    const struct td_value asked = td_hlo_pack(f, v, rank, 0);
    return td_hlo_2(f, "Maximum", td_hlo_2(f, "Minimum", asked, most), td_hlo_i32(f, 0));
}

/* x along the axis from the first element to `to`, an int32. */
static struct td_value from_first(struct td_hlo_frame *f, struct td_value x, int axis, struct td_value to)
{
    struct td_value end[TD_MAX_RANK];
    int64_t begin[TD_MAX_RANK] = {0}, step[TD_MAX_RANK];
    for (int i = 0; i <= axis; i++) {
        step[i] = 1;
        end[i] = i == axis ? to : td_hlo_i32(f, 0);
    }
    const int64_t others = ((int64_t)1 << axis) - 1;
    return td_emit(&f->e, "StridedSlice",
                   TD_IN(x, td_hlo_i32s(f, begin, axis + 1), td_hlo_pack(f, end, axis + 1, 0),
                         td_hlo_i32s(f, step, axis + 1)),
                   TD_ATTRS(TD_ATTR_OF_INT("begin_mask", others | (int64_t)1 << axis),
                            TD_ATTR_OF_INT("end_mask", others)));
}

/* The one index along the axis that `asked` names, moved inside; the axis stays. */
static struct td_value at_one(struct td_hlo_frame *f, const struct td_hlo_value *x,
                              const struct td_hlo_value *asked, int axis)
{
    const int64_t none = 0;
    const struct td_value most = td_hlo_2(f, "Sub", td_hlo_dim(f, x, axis), td_hlo_i32(f, 1));
    struct td_value at = td_hlo_index(f, td_hlo_whole(f, asked));
    at = td_hlo_shape(asked)->rank == 0 ? at : td_hlo_reshape(f, at, &none, 0);
    at = td_hlo_2(f, "Maximum", td_hlo_2(f, "Minimum", at, most), td_hlo_i32(f, 0));
    const struct td_value one = td_hlo_3(f, "GatherV2", td_hlo_whole(f, x), at, td_hlo_i32(f, axis));
    return td_hlo_2(f, "ExpandDims", one, td_hlo_i32(f, axis));
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
        td_hlo_put(f, op, 0, at_one(f, op->in[0], op->in[1 + axis], axis));
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
        at[i] = td_hlo_index(f, td_hlo_in(f, op, 2 + i));
    }
    td_hlo_put(f, op, 0, td_hlo_3(f, "XlaDynamicUpdateSlice", x, update, td_hlo_pack(f, at, rank, 0)));
}

/* ------------------------------------------------------------------ of computed size */

/* Element i of a vector that is scalars put together; NULL: it is made otherwise. */
static const struct td_hlo_value *element(const struct td_hlo_value *v, int i)
{
    const struct td_hlo_op *op = v->op;
    if (op == NULL || strcmp(op->name, "concatenate") != 0 || i >= op->n_in) {
        return NULL;
    }
    const struct td_hlo_op *part = op->in[i]->op;
    const bool wraps = part != NULL && part->n_in == 1 && td_hlo_shape(part->in[0])->rank == 0 &&
                       (strcmp(part->name, "reshape") == 0 || strcmp(part->name, "broadcast_in_dim") == 0);
    return wraps ? part->in[0] : td_shape_count(td_hlo_shape(op->in[i])) == 1 ? op->in[i] : NULL;
}

static bool is_zero(struct td_hlo_frame *f, const struct td_hlo_value *v)
{
    const struct td_tensor *t = td_known_value(td_hlo_part(f, v)->part);
    return t != NULL && td_hlo_is_integer(t->dtype) && td_tensor_count(t) == 1 && td_tensor_int(t, 0) == 0;
}

/* How JAX writes dynamic_slice where a size is not known: from = clamp(0, starts, ..), to = from + sizes. */
struct moved {
    const struct td_hlo_value *starts, *sizes;
};

static bool is_moved(const struct td_hlo_op *op, struct moved *m)
{
    const struct td_hlo_op *from = op->in[1]->op, *to = op->in[2]->op;
    if (from == NULL || to == NULL || strcmp(from->name, "clamp") != 0 || strcmp(to->name, "add") != 0 ||
        from->n_in != 3 || to->n_in != 2 || (to->in[0] != op->in[1] && to->in[1] != op->in[1])) {
        return false;
    }
    *m = (struct moved){from->in[1], to->in[to->in[0] == op->in[1]]};
    return true;
}

/* One index along one axis, and from the first on along all others: as a step of a loop reads its slice.
 * The axis is gathered first, which leaves little for the others. */
static bool put_one(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_shape *from = td_hlo_shape(op->in[0]), *to = td_hlo_shape(op->out[0]);
    struct moved m;
    int axis = -1;
    if (!is_moved(op, &m)) {
        return false;
    }
    for (int i = 0; i < to->rank; i++) {
        const struct td_hlo_value *start = element(m.starts, i);
        if (start == NULL) {
            return false;
        }
        if (is_zero(f, start)) {
            continue;
        }
        if (axis >= 0 || to->dim[i] != 1) {
            return false;
        }
        axis = i;
    }
    if (axis < 0 || f->e.rc) {
        return false;
    }
    struct td_value y = at_one(f, op->in[0], element(m.starts, axis), axis);
    for (int i = 0; i < to->rank; i++) {
        if (i != axis && (from->dim[i] < 0 || from->dim[i] != to->dim[i])) {
            const struct td_value sizes = td_hlo_cast(f, td_hlo_whole(f, m.sizes), TD_INT32);
            y = from_first(f, y, i, td_hlo_pick(f, sizes, i));
        }
    }
    td_hlo_put(f, op, 0, y);
    return true;
}

/* start, limit and strides are int vectors that are computed. */
void td_hlo_real_dynamic_slice(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (!fits(f, op, 4)) {
        return;
    }
    if (put_one(f, op)) {
        return;
    }
    struct td_value in[4] = {td_hlo_in(f, op, 0)};
    for (int i = 1; i < 4; i++) {
        in[i] = td_hlo_cast(f, td_hlo_in(f, op, i), TD_INT32);
    }
    td_hlo_put(f, op, 0, td_emit(&f->e, "StridedSlice", in, 4, TD_NO_ATTRS));
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
    const struct td_value padded =
        td_hlo_3(f, "PadV2", wide, td_hlo_reshape(f, td_hlo_i32s(f, pads, 2 * (rank + 1)), shape, 2), value);
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
            x = td_hlo_cut(f, x, i, p->low[i] < 0 ? -p->low[i] : 0,
                           p->high[i] < 0 ? p->high[i] : TD_HLO_TO_END, 1);
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
    bool none = a != NULL && strcmp(between->name, "constant") == 0 && a->raw.len > 0;
    for (size_t i = 0; none && i < a->raw.len; i++) {
        none = a->raw.p[i] == 0;
    }
    if (!none) {
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
