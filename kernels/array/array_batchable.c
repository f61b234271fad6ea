/* kernels/array/array_batchable.c - where rows go when an op moves, splits or joins axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_batchable.h"

/* ------------------------------------------------------------------ other shapes of the same elements */

/* Row n of the input is elements [(p*N + n) * inner, +inner) for each p < blocks: so they must be in the
 * output, whose growing axis has `before` entries' worth of dimensions in front: blocks = before * pre. */
bool td_batchable_reshape(struct td_batchable_step *s)
{
    const struct td_shape *y = td_batchable_out_shape(s, 0, 0);
    int axis = td_batchable_growing(s, 0);
    if (s->in[0].kind != TD_VALUE_ROW) {
        return td_batchable_no(s, "its input 0 has no rows");
    }
    if (axis < 0) {
        return td_batchable_no(s,
                               "its output does not keep the rows, or its shape is not known before it runs");
    }
    int64_t blocks = td_shape_range(&s->in_shape[0][0], 0, s->in[0].axis) * s->in[0].pre;
    int64_t before = 1;
    for (int d = 0; d < axis; d++) {
        before = y->dim[d] <= 0 || before > blocks ? 0 : before * y->dim[d];
    }
    if (before == 0 || blocks % before != 0) {
        return td_batchable_no(s, "it spreads a row over several places of its output %s", TD_SHAPE_STR(y));
    }
    return td_batchable_put(s, 0, axis, blocks / before, 0);
}

bool td_batchable_transpose(struct td_batchable_step *s)
{
    for (int k = 0; k < td_batchable_rank(s, 0); k++) {
        int64_t from;
        if (!td_batchable_int(s, 1, k, &from)) {
            return td_batchable_no(s, "its permutation is not known before it runs");
        }
        if (from == s->in[0].axis) {
            return td_batchable_alone(s, 0) && td_batchable_as_input(s, 0, 0, k);
        }
    }
    return td_batchable_no(s, "its permutation lacks the axis of the rows");
}

/* ------------------------------------------------------------------ joining and splitting */

/* Inputs [from, to) have the same rows at the same axis. */
static bool all_alike(struct td_batchable_step *s, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (s->in[i].kind != TD_VALUE_ROW) {
            return td_batchable_no(s, "its input %d does not have the rows that others have", i);
        }
        if (!td_batchable_same_rows(s, from, i)) {
            return false;
        }
        if (s->in[i].axis != s->in[from].axis) {
            return td_batchable_no(s, "its inputs %d and %d have the rows at different axes", from, i);
        }
    }
    return true;
}

bool td_batchable_concat(struct td_batchable_step *s)
{
    bool axis_first = td_batchable_rank(s, 0) == 0;
    int from = axis_first ? 1 : 0, to = axis_first ? s->n_in : s->n_in - 1, axis;
    int64_t given;
    if (!td_batchable_int(s, axis_first ? 0 : s->n_in - 1, 0, &given)) {
        return td_batchable_no(s, "its axis is not known before it runs");
    }
    if (!all_alike(s, from, to)) {
        return false;
    }
    if (!td_shape_axis(td_batchable_rank(s, from), given, &axis) || axis == s->in[from].axis) {
        return td_batchable_no(s, "it joins along the axis of the rows");
    }
    return td_batchable_as_input(s, 0, from, s->in[from].axis);
}

bool td_batchable_pack(struct td_batchable_step *s)
{
    int axis;
    if (!all_alike(s, 0, s->n_in) ||
        !td_shape_axis(td_batchable_rank(s, 0) + 1, td_attr_int(s->node, "axis"), &axis)) {
        return false;
    }
    return td_batchable_as_input(s, 0, 0, s->in[0].axis + (axis <= s->in[0].axis));
}

static bool split_outputs(struct td_batchable_step *s, int value, int64_t given, bool axis_goes)
{
    int axis, rows = s->in[value].axis;
    if (!td_batchable_alone(s, value)) {
        return false;
    }
    if (!td_shape_axis(td_batchable_rank(s, value), given, &axis) || axis == rows) {
        return td_batchable_no(s, "it splits the rows from each other");
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_batchable_as_input(s, o, value, rows - (axis_goes && axis < rows))) {
            return false;
        }
    }
    return true;
}

bool td_batchable_unpack(struct td_batchable_step *s)
{
    return split_outputs(s, 0, td_attr_int(s->node, "axis"), true);
}

bool td_batchable_split(struct td_batchable_step *s)
{
    int64_t axis;
    bool even = s->n_in == 2; /* Split(axis, value); SplitV(value, sizes, axis) */
    if (!td_batchable_int(s, even ? 0 : 2, 0, &axis)) {
        return td_batchable_no(s, "its axis is not known before it runs");
    }
    return split_outputs(s, even, axis, false);
}

/* ------------------------------------------------------------------ slices */

/* Input i is a parameter that does not depend on rows; but for element `but`, not on their number either. */
static bool steady_vector(struct td_batchable_step *s, int i, int64_t n, int64_t but)
{
    for (int64_t k = 0; s->in[i].kind != TD_VALUE_CONST && k < n; k++) {
        int64_t ignored;
        if (s->in[i].kind != TD_VALUE_SIZE || (k != but && !td_batchable_int(s, i, k, &ignored))) {
            return td_batchable_no(s, "element %lld of its input %d is not the same for any number of rows",
                                   (long long)k, i);
        }
    }
    return true;
}

/* A size that covers all rows shows in the output's shape. */
bool td_batchable_slice(struct td_batchable_step *s)
{
    int axis = s->in[0].axis, rank = td_batchable_rank(s, 0);
    return s->in[0].kind == TD_VALUE_ROW && steady_vector(s, 1, rank, -1) &&
           steady_vector(s, 2, rank, axis) && td_batchable_as_input(s, 0, 0, axis);
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
            int covered = td_batchable_rank(s, 0) - after - in;
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
            return (shrunk & bit) == 0 || td_batchable_no(s, "it takes one of the rows");
        } else {
            in++;
            out += (shrunk & bit) == 0;
        }
    }
    *to = out + rows - in;
    return true;
}

bool td_batchable_strided_slice(struct td_batchable_step *s)
{
    int64_t n = s->in_shape[0][1].rank == 1 ? s->in_shape[0][1].dim[0] : -1, entry, stride = 1;
    int to;
    if (s->in[0].kind != TD_VALUE_ROW || n < 0 || n > 31) {
        return td_batchable_no(s,
                               "its input 0 has no rows, or its specification is not known before it runs");
    }
    if (!strided_axis(s, n, s->in[0].axis, &to, &entry)) {
        return false;
    }
    if (entry >= 0 && (!td_batchable_int(s, 3, entry, &stride) || stride != 1)) {
        return td_batchable_no(s, "it does not take the rows one by one");
    }
    return steady_vector(s, 1, n, entry) && steady_vector(s, 2, n, entry) && steady_vector(s, 3, n, -1) &&
           td_batchable_as_input(s, 0, 0, to);
}
