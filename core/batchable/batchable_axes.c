/* core/batchable/batchable_axes.c - where rows go when an op contracts, moves, splits or joins axes.
 *
 * Each rule finds the axis that the rows have in the output; td_rows_put then checks it against the shapes
 * that the op's own shape function gave at each number of rows, so that what is cut off or repeated shows
 * there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_axes.h"

#include <string.h>

#include "core/graph/graph.h"

static int rank_of(const struct td_batchable_step *s, int i)
{
    return s->in_shape[0][i].rank;
}

/* ------------------------------------------------------------------ products */

bool td_rows_matmul(struct td_batchable_step *s)
{
    int side = s->in[0].kind == TD_ROWS_ROW ? 0 : 1;
    bool transposed = td_attr_bool(s->node, side == 0 ? "transpose_a" : "transpose_b");
    if (!td_rows_alone(s, side)) {
        return false;
    }
    if ((s->in[side].axis == 1) != (transposed != (side == 1)) || (side == 1 && s->n_in > 2)) {
        return td_rows_no(s, "it sums over the rows");
    }
    return td_rows_as_input(s, 0, side, side);
}

/* x [.., M, K]  y [.., K, P]: the leading axes broadcast from the right. */
static bool matmul_leading(struct td_batchable_step *s, int side)
{
    int other = 1 - side, back = rank_of(s, side) - 1 - s->in[side].axis;
    if (s->in[other].kind == TD_ROWS_ROW) {
        if (!td_rows_same_rows(s, side, other) || rank_of(s, other) - 1 - s->in[other].axis != back) {
            return td_rows_no(s, "the rows of its inputs are not aligned");
        }
    } else if (s->in[other].kind != TD_ROWS_CONST || td_rows_spans(s, other, back)) {
        return td_rows_no(s, "its input %d has a matrix for each row", other);
    }
    return td_rows_as_input(s, 0, side, td_rows_out_shape(s, 0, 0)->rank - 1 - back);
}

bool td_rows_batch_matmul(struct td_batchable_step *s)
{
    int side = s->in[0].kind == TD_ROWS_ROW ? 0 : 1;
    if (s->in[side].kind != TD_ROWS_ROW || s->n_in != 2) {
        return td_rows_no(s, "neither input has the rows alone");
    }
    if (s->in[side].axis < rank_of(s, side) - 2) {
        return matmul_leading(s, side);
    }
    bool transposed = td_attr_bool(s->node, side == 0 ? "adj_x" : "adj_y");
    bool last = s->in[side].axis == rank_of(s, side) - 1;
    if (!td_rows_alone(s, side)) {
        return false;
    }
    if (last != (transposed != (side == 1))) {
        return td_rows_no(s, "it sums over the rows");
    }
    return td_rows_as_input(s, 0, side, td_rows_out_shape(s, 0, 0)->rank - 2 + side);
}

/* ------------------------------------------------------------------ Einsum */

enum { MAX_TERM = 64, ELLIPSIS = 256 };

struct term {
    char label[MAX_TERM];
    int n, dots;
}; /* labels without the dots; dots: labels before "...", -1 without */

static const char *read_term(const char *p, struct term *t)
{
    *t = (struct term){.dots = -1};
    for (; *p != 0 && *p != ',' && *p != '-'; p++) {
        if (*p == '.') {
            t->dots = t->n;
        } else if (*p != ' ' && t->n < MAX_TERM) {
            t->label[t->n++] = *p;
        }
    }
    return *p == ',' ? p + 1 : p;
}

/* What axis `axis` of a tensor of that rank is called: a letter, or ELLIPSIS + its distance from the end of
 * "...". */
static int label_at(const struct term *t, int rank, int axis)
{
    int dotted = t->dots < 0 ? 0 : rank - t->n;
    if (dotted < 0 || axis < 0 || axis >= t->n + dotted) {
        return -1;
    }
    if (t->dots < 0 || axis < t->dots) {
        return t->label[axis];
    }
    return axis < t->dots + dotted ? ELLIPSIS + t->dots + dotted - 1 - axis : t->label[axis - dotted];
}

/* The axis of that name, -1 when there is none. */
static int axis_called(const struct term *t, int rank, int label)
{
    for (int a = 0; a < rank; a++) {
        if (label_at(t, rank, a) == label) {
            return a;
        }
    }
    return -1;
}

static bool einsum_input(struct td_batchable_step *s, const struct term *t, int i, int *label, int *first)
{
    if (s->in[i].kind == TD_ROWS_ROW) {
        int name = label_at(t, rank_of(s, i), s->in[i].axis);
        if (*first >= 0 && (name != *label || !td_rows_same_rows(s, *first, i))) {
            return td_rows_no(s, "the rows of its inputs %d and %d go by different letters", *first, i);
        }
        *first = *first < 0 ? i : *first;
        *label = name;
        return name >= 0 || td_rows_no(s, "its equation does not fit its input %d", i);
    }
    return s->in[i].kind == TD_ROWS_CONST || td_rows_no(s, "its input %d follows from the number of rows", i);
}

bool td_rows_einsum(struct td_batchable_step *s)
{
    enum { MAX_INPUTS = 8 };
    struct term term[MAX_INPUTS], result;
    const char *p = td_attr_str(s->node, "equation");
    int label = -1, first = -1;
    for (int i = 0; i < s->n_in; i++) {
        if (i == MAX_INPUTS) {
            return td_rows_no(s, "it has more than %d inputs", MAX_INPUTS);
        }
        p = read_term(p, &term[i]);
        if (!einsum_input(s, &term[i], i, &label, &first)) {
            return false;
        }
    }
    for (int i = 0; i < s->n_in; i++) {
        int a = axis_called(&term[i], rank_of(s, i), label);
        if (s->in[i].kind == TD_ROWS_CONST && a >= 0 && s->in_shape[0][i].dim[a] != 1) {
            return td_rows_no(s, "its input %d has constants for each row", i);
        }
    }
    if (p[0] != '-' || p[1] != '>') {
        return td_rows_no(s, "its equation names no output");
    }
    read_term(p + 2, &result);
    int to = axis_called(&result, td_rows_out_shape(s, 0, 0)->rank, label);
    return to >= 0 ? td_rows_as_input(s, 0, first, to) : td_rows_no(s, "it sums over the rows");
}

/* ------------------------------------------------------------------ along given axes */

/* Bit a for each axis a that the last input names. */
static bool named_axes(struct td_batchable_step *s, uint32_t *axes)
{
    int at = s->n_in - 1;
    const struct td_tensor *t = td_rows_value(s, at, 0);
    if (t == NULL) {
        return td_rows_no(s, "its axes are not known before it runs");
    }
    *axes = 0;
    for (int64_t k = 0; k < td_tensor_count(t); k++) {
        int64_t v = 0;
        int axis;
        if (!td_rows_int(s, at, k, &v) || !td_shape_axis(rank_of(s, 0), v, &axis)) {
            return td_rows_no(s, "its axis %lld is not one of input 0", (long long)v);
        }
        *axes |= 1u << axis;
    }
    return true;
}

static bool spares_rows(struct td_batchable_step *s, uint32_t *axes)
{
    if (!td_rows_alone(s, 0) || !named_axes(s, axes)) {
        return false;
    }
    return (*axes >> s->in[0].axis & 1) == 0 || td_rows_no(s, "it works over all rows");
}

bool td_rows_reduce(struct td_batchable_step *s)
{
    uint32_t axes;
    if (!spares_rows(s, &axes)) {
        return false;
    }
    bool keep = td_attr_bool(s->node, "keep_dims");
    int before = __builtin_popcount(axes & ((1u << s->in[0].axis) - 1));
    return td_rows_as_input(s, 0, 0, s->in[0].axis - (keep ? 0 : before));
}

bool td_rows_along(struct td_batchable_step *s)
{
    uint32_t axes;
    return spares_rows(s, &axes) && td_rows_as_input(s, 0, 0, s->in[0].axis);
}

/* ------------------------------------------------------------------ other shapes of the same elements */

/* Row n of the input is elements [(p*N + n) * inner, +inner) for each p < blocks: so they must be in the
 * output, whose growing axis has `before` entries' worth of dimensions in front: blocks = before * pre. */
bool td_rows_reshape(struct td_batchable_step *s)
{
    const struct td_shape *y = td_rows_out_shape(s, 0, 0);
    int axis = td_rows_growing(s, 0);
    if (s->in[0].kind != TD_ROWS_ROW) {
        return td_rows_no(s, "its input 0 has no rows");
    }
    if (axis < 0) {
        return td_rows_no(s, "its output does not keep the rows, or its shape is not known before it runs");
    }
    int64_t blocks = td_shape_range(&s->in_shape[0][0], 0, s->in[0].axis) * s->in[0].pre;
    int64_t before = 1;
    for (int d = 0; d < axis; d++) {
        before = y->dim[d] <= 0 || before > blocks ? 0 : before * y->dim[d];
    }
    if (before == 0 || blocks % before != 0) {
        return td_rows_no(s, "it spreads a row over several places of its output %s", TD_SHAPE_STR(y));
    }
    return td_rows_put(s, 0, axis, blocks / before, 0);
}

bool td_rows_transpose(struct td_batchable_step *s)
{
    for (int k = 0; k < rank_of(s, 0); k++) {
        int64_t from;
        if (!td_rows_int(s, 1, k, &from)) {
            return td_rows_no(s, "its permutation is not known before it runs");
        }
        if (from == s->in[0].axis) {
            return td_rows_alone(s, 0) && td_rows_as_input(s, 0, 0, k);
        }
    }
    return td_rows_no(s, "its permutation lacks the axis of the rows");
}

/* ------------------------------------------------------------------ joining and splitting */

/* Inputs [from, to) have the same rows at the same axis. */
static bool all_alike(struct td_batchable_step *s, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (s->in[i].kind != TD_ROWS_ROW) {
            return td_rows_no(s, "its input %d does not have the rows that others have", i);
        }
        if (!td_rows_same_rows(s, from, i)) {
            return false;
        }
        if (s->in[i].axis != s->in[from].axis) {
            return td_rows_no(s, "its inputs %d and %d have the rows at different axes", from, i);
        }
    }
    return true;
}

bool td_rows_concat(struct td_batchable_step *s)
{
    bool axis_first = rank_of(s, 0) == 0;
    int from = axis_first ? 1 : 0, to = axis_first ? s->n_in : s->n_in - 1, axis;
    int64_t given;
    if (!td_rows_int(s, axis_first ? 0 : s->n_in - 1, 0, &given)) {
        return td_rows_no(s, "its axis is not known before it runs");
    }
    if (!all_alike(s, from, to)) {
        return false;
    }
    if (!td_shape_axis(rank_of(s, from), given, &axis) || axis == s->in[from].axis) {
        return td_rows_no(s, "it joins along the axis of the rows");
    }
    return td_rows_as_input(s, 0, from, s->in[from].axis);
}

bool td_rows_pack(struct td_batchable_step *s)
{
    int axis;
    if (!all_alike(s, 0, s->n_in) || !td_shape_axis(rank_of(s, 0) + 1, td_attr_int(s->node, "axis"), &axis)) {
        return false;
    }
    return td_rows_as_input(s, 0, 0, s->in[0].axis + (axis <= s->in[0].axis));
}

static bool split_outputs(struct td_batchable_step *s, int value, int64_t given, bool axis_goes)
{
    int axis, rows = s->in[value].axis;
    if (!td_rows_alone(s, value)) {
        return false;
    }
    if (!td_shape_axis(rank_of(s, value), given, &axis) || axis == rows) {
        return td_rows_no(s, "it splits the rows from each other");
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_rows_as_input(s, o, value, rows - (axis_goes && axis < rows))) {
            return false;
        }
    }
    return true;
}

bool td_rows_unpack(struct td_batchable_step *s)
{
    return split_outputs(s, 0, td_attr_int(s->node, "axis"), true);
}

bool td_rows_split(struct td_batchable_step *s)
{
    int64_t axis;
    bool even = s->n_in == 2; /* Split(axis, value); SplitV(value, sizes, axis) */
    if (!td_rows_int(s, even ? 0 : 2, 0, &axis)) {
        return td_rows_no(s, "its axis is not known before it runs");
    }
    return split_outputs(s, even, axis, false);
}

/* ------------------------------------------------------------------ slices */

/* Input i is a parameter that does not depend on rows; but for element `but`, not on their number either. */
static bool steady_vector(struct td_batchable_step *s, int i, int64_t n, int64_t but)
{
    for (int64_t k = 0; s->in[i].kind != TD_ROWS_CONST && k < n; k++) {
        int64_t ignored;
        if (s->in[i].kind != TD_ROWS_SIZE || (k != but && !td_rows_int(s, i, k, &ignored))) {
            return td_rows_no(s, "element %lld of its input %d is not the same for any number of rows",
                              (long long)k, i);
        }
    }
    return true;
}

/* A size that covers all rows shows in the output's shape. */
bool td_rows_slice(struct td_batchable_step *s)
{
    int axis = s->in[0].axis, rank = rank_of(s, 0);
    return s->in[0].kind == TD_ROWS_ROW && steady_vector(s, 1, rank, -1) && steady_vector(s, 2, rank, axis) &&
           td_rows_as_input(s, 0, 0, axis);
}

/* Where axis `rows` of the input is in the output, and which entry of the specification is about it (-1:
 * none). */
static bool strided_axis(struct td_batchable_step *s, int64_t n, int rows, int *to, int64_t *entry)
{
    uint32_t dots = (uint32_t)td_attr_int(s->node, "ellipsis_mask"),
             added = (uint32_t)td_attr_int(s->node, "new_axis_mask");
    uint32_t shrunk = (uint32_t)td_attr_int(s->node, "shrink_axis_mask");
    int in = 0, out = 0;
    *entry = -1;
    for (int64_t k = 0; k < n && in <= rows; k++) {
        uint32_t bit = 1u << k;
        if (dots & bit) {
            int after = 0;
            for (int64_t j = k + 1; j < n; j++) {
                after += (added >> j & 1) == 0;
            }
            int covered = rank_of(s, 0) - after - in;
            if (covered < 0 || rows < in + covered) {
                break;
            }
            in += covered;
            out += covered;
        } else if (added & bit) {
            out++;
        } else if (in == rows) {
            *entry = k;
            *to = out;
            return (shrunk & bit) == 0 || td_rows_no(s, "it takes one of the rows");
        } else {
            in++;
            out += (shrunk & bit) == 0;
        }
    }
    *to = out + rows - in;
    return true;
}

bool td_rows_strided(struct td_batchable_step *s)
{
    int64_t n = s->in_shape[0][1].rank == 1 ? s->in_shape[0][1].dim[0] : -1, entry, stride = 1;
    int to;
    if (s->in[0].kind != TD_ROWS_ROW || n < 0 || n > 31) {
        return td_rows_no(s, "its input 0 has no rows, or its specification is not known before it runs");
    }
    if (!strided_axis(s, n, s->in[0].axis, &to, &entry)) {
        return false;
    }
    if (entry >= 0 && (!td_rows_int(s, 3, entry, &stride) || stride != 1)) {
        return td_rows_no(s, "it does not take the rows one by one");
    }
    return steady_vector(s, 1, n, entry) && steady_vector(s, 2, n, entry) && steady_vector(s, 3, n, -1) &&
           td_rows_as_input(s, 0, 0, to);
}

/* ------------------------------------------------------------------ repeating */

/* Nothing but the number of rows decides on the output: all rows are equal, if there are rows. */
static bool equal_rows(struct td_batchable_step *s, int value, int size)
{
    if (s->in[value].kind != TD_ROWS_CONST || s->in[size].kind > TD_ROWS_SIZE) {
        return td_rows_no(s, "its input %d or %d differs by row", value, size);
    }
    return td_rows_put(s, 0, td_rows_growing(s, 0), 1, 0);
}

bool td_rows_spread(struct td_batchable_step *s)
{
    if (s->in[0].kind != TD_ROWS_ROW) {
        return equal_rows(s, 0, 1);
    }
    return s->in[1].kind <= TD_ROWS_SIZE
               ? td_rows_as_input(s, 0, 0, td_rows_out_shape(s, 0, 0)->rank - rank_of(s, 0) + s->in[0].axis)
               : td_rows_no(s, "the rows decide on its shape");
}

bool td_rows_tile(struct td_batchable_step *s)
{
    if (s->in[0].kind != TD_ROWS_ROW) {
        return equal_rows(s, 0, 1);
    }
    return s->in[1].kind <= TD_ROWS_SIZE ? td_rows_as_input(s, 0, 0, s->in[0].axis)
                                         : td_rows_no(s, "the rows decide on its shape");
}

bool td_rows_fill(struct td_batchable_step *s)
{
    return equal_rows(s, 1, 0);
}

bool td_rows_like(struct td_batchable_step *s)
{
    if (s->in[0].kind == TD_ROWS_ROW) {
        return td_rows_as_input(s, 0, 0, s->in[0].axis);
    }
    if (s->in[0].kind <= TD_ROWS_CONST) {
        s->out[0].kind = s->in[0].kind;
        return true;
    }
    return td_rows_put(s, 0, td_rows_growing(s, 0), 1, 0);
}

/* ------------------------------------------------------------------ choosing by index */

static bool gather_batched(struct td_batchable_step *s, int64_t batch_dims)
{
    if (!td_rows_same_rows(s, 0, 1)) {
        return false;
    }
    if (s->in[0].axis >= batch_dims || s->in[1].axis != s->in[0].axis) {
        return td_rows_no(s, "rows choose from other rows");
    }
    return td_rows_as_input(s, 0, 0, s->in[0].axis);
}

bool td_rows_gather(struct td_batchable_step *s)
{
    int64_t given = 0, batch_dims = td_attr_int(s->node, "batch_dims");
    int axis = 0, n = rank_of(s, 1);
    batch_dims += batch_dims < 0 ? n : 0;
    if (s->n_in == 3 && (!td_rows_int(s, 2, 0, &given) || !td_shape_axis(rank_of(s, 0), given, &axis))) {
        return td_rows_no(s, "its axis is not known before it runs");
    }
    axis = s->n_in < 3 && batch_dims > 0 ? (int)batch_dims : axis;
    if (s->in[0].kind == TD_ROWS_ROW && s->in[1].kind == TD_ROWS_ROW) {
        return gather_batched(s, batch_dims);
    }
    if (s->in[0].kind == TD_ROWS_CONST) {
        return td_rows_alone(s, 1) && (batch_dims == 0 || td_rows_no(s, "it has constants for each row")) &&
               td_rows_as_input(s, 0, 1, axis + s->in[1].axis);
    }
    int from = s->in[0].axis;
    if (!td_rows_alone(s, 0)) {
        return false;
    }
    if (from == axis || from < batch_dims) {
        return td_rows_no(s, "it chooses among the rows");
    }
    return td_rows_as_input(s, 0, 0, from < axis ? from : from - 1 + n - (int)batch_dims);
}

bool td_rows_gather_nd(struct td_batchable_step *s)
{
    int n = rank_of(s, 1);
    if (s->in[0].kind == TD_ROWS_CONST) {
        return td_rows_alone(s, 1) &&
               (s->in[1].axis < n - 1 || td_rows_no(s, "an index is made of several rows")) &&
               td_rows_as_input(s, 0, 1, s->in[1].axis);
    }
    if (!td_rows_alone(s, 0) || n < 1) {
        return false;
    }
    int64_t depth = s->in_shape[0][1].dim[n - 1];
    if (depth < 0 || s->in[0].axis < depth) {
        return td_rows_no(s, "it chooses among the rows");
    }
    return td_rows_as_input(s, 0, 0, n - 1 + s->in[0].axis - (int)depth);
}

bool td_rows_one_hot(struct td_batchable_step *s)
{
    int64_t axis = td_attr_int(s->node, "axis");
    int from = s->in[0].axis;
    return td_rows_alone(s, 0) && td_rows_as_input(s, 0, 0, from + (axis >= 0 && axis <= from));
}
