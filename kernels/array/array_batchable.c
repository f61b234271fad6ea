/* kernels/array/array_batchable.c - where rows go when an op moves, splits or joins axes.
 *
 * A reshape is the general case: a row's elements lie in blocks of equal length, the same distance apart, and
 * must do so under the new shape too. What is left of the others is to count which axes come before that of
 * the rows. An op that may cut rows off, or move them against each other, says no unless what it takes is all
 * of them for every N of the range; sizes and ends that follow from N are compared as expressions
 * (core/batchable/batchable_rule.h).
 *
 * Does not: repeat or choose (kernels/array/array_batchable_fill.c), follow the numbers in shapes
 * (core/batchable/batchable_sizes.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_batchable.h"

#include "core/base/mem.h"

/* ------------------------------------------------------------------ other shapes of the same elements */

/* The shape that input 1 spells, for an input 0 of total * N elements: the same for every N but for one
 * dimension, `axis`, which is k * N. */
struct target {
    struct td_shape shape; /* 1 at axis */
    int axis;
    int64_t k;
};

/* Dimension d of the shape; -1 stands for what is left of the elements, and is noted in *rest. */
static bool target_dim(struct td_batchable_step *s, int d, struct target *t, int *rest)
{
    struct td_affine x;
    if (!td_batchable_size(s, 1, d, &x)) {
        return td_batchable_no(s, "its shape is not known before it runs, or not followed");
    }
    t->shape.dim[d] = 1;
    if (x.slope == 0 && x.base >= 0) {
        t->shape.dim[d] = x.base;
        return true;
    }
    if (x.slope == 0 && x.base == -1 && *rest < 0) {
        *rest = d;
        return true;
    }
    if (x.base != 0 || x.slope <= 0 || t->axis >= 0) {
        return td_batchable_no(s, "dimension %d of its shape is not the same for every number of rows", d);
    }
    t->axis = d;
    t->k = x.slope;
    return true;
}

/* The dimension that was left out: what all elements are of the others. */
static bool target_rest(struct td_batchable_step *s, int64_t total, int rest, struct target *t)
{
    int64_t others = td_shape_count(&t->shape), all;
    if (others < 1 || (t->axis >= 0 && !td_i64_mul(others, t->k, &others)) || total % others != 0) {
        return td_batchable_no(s, "its elements do not fill its shape for every number of rows");
    }
    if (rest >= 0 && t->axis < 0) {
        t->axis = rest;
        t->k = total / others;
    } else if (rest >= 0) {
        t->shape.dim[rest] = total / others;
    }
    return (t->axis >= 0 && td_i64_mul(td_shape_count(&t->shape), t->k, &all) && all == total) ||
           td_batchable_no(s, "its shape does not keep the rows");
}

static bool target_of(struct td_batchable_step *s, int64_t total, struct target *t)
{
    const struct td_shape *spec = &s->in_shape[0][1];
    int rest = -1;
    if (spec->rank != 1 || spec->dim[0] < 1 || spec->dim[0] > TD_MAX_RANK) {
        return td_batchable_no(s, "its shape is not known before it runs");
    }
    *t = (struct target){.shape = td_shape_of_rank((int)spec->dim[0]), .axis = -1};
    for (int d = 0; d < t->shape.rank; d++) {
        if (!target_dim(s, d, t, &rest)) {
            return false;
        }
    }
    return target_rest(s, total, rest, t);
}

/* Row n of the input is elements [(p*N + n) * inner, +inner) for each p < blocks: so they must be in the
 * output, whose growing axis has `before` entries' worth of dimensions in front: blocks = before * pre. */
bool td_batchable_reshape(struct td_batchable_step *s)
{
    const struct td_shape *x = &s->in_shape[0][0];
    const int axis = s->in[0].axis;
    struct target t;
    if (s->in[0].kind != TD_VALUE_ROW) {
        return td_batchable_no(s, "its input 0 has no rows");
    }
    int64_t blocks, total;
    if (!td_i64_mul(td_shape_range(x, 0, axis), s->in[0].pre, &blocks) ||
        !td_i64_mul(td_shape_range(x, 0, axis), td_batchable_per_row(s, 0, axis), &total) ||
        !td_i64_mul(total, td_shape_range(x, axis + 1, x->rank), &total) || total < 1) {
        return td_batchable_no(s, "it has no elements, or more than can be");
    }
    if (!target_of(s, total, &t)) {
        return false;
    }
    const int64_t before = td_shape_range(&t.shape, 0, t.axis);
    if (blocks % before != 0) {
        return td_batchable_no(s, "it spreads a row over several places of its output %s",
                               TD_SHAPE_STR(td_batchable_out_shape(s, 0, 0)));
    }
    return td_batchable_put(s, 0, t.axis, blocks / before, t.k);
}

bool td_batchable_expand_dims(struct td_batchable_step *s)
{
    int64_t given;
    int axis;
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    if (!td_batchable_int(s, 1, 0, &given) || !td_shape_axis(td_batchable_rank(s, 0) + 1, given, &axis)) {
        return td_batchable_no(s, "its axis is not known before it runs");
    }
    return td_batchable_as_input(s, 0, 0, s->in[0].axis + (axis <= s->in[0].axis));
}

/* Which axes go: those named, or all of one entry. That of the rows has one entry for one row alone. */
bool td_batchable_squeeze(struct td_batchable_step *s)
{
    const struct td_shape *x = &s->in_shape[0][0];
    int n, before = 0;
    const int64_t *named = td_attr_ints(s->node, "squeeze_dims", &n);
    const int rows = s->in[0].axis;
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        int axis;
        if (!td_shape_axis(x->rank, named[i], &axis) || axis == rows) {
            return td_batchable_no(s, "it takes the axis of the rows away");
        }
        before += axis < rows;
    }
    for (int d = 0; n == 0 && d < rows; d++) {
        before += x->dim[d] == 1;
    }
    const struct td_affine spare = {.base = -1, .slope = td_batchable_per_row(s, 0, rows)};
    if (n == 0 && td_row_range_zero(td_batchable_range(s), spare)) {
        return td_batchable_no(s, "it takes the axis of a single row away");
    }
    return td_batchable_as_input(s, 0, 0, rows - before);
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

/* From the first of the rows on, as many as there are. */
bool td_batchable_slice(struct td_batchable_step *s)
{
    const int axis = s->in[0].axis, rank = td_batchable_rank(s, 0);
    struct td_affine from, size;
    if (s->in[0].kind != TD_VALUE_ROW || !td_batchable_size(s, 1, axis, &from) ||
        !td_batchable_size(s, 2, axis, &size)) {
        return td_batchable_no(s, "its input 0 has no rows, or what it takes is not followed");
    }
    if (!td_affine_is(from, 0, 0) ||
        (!td_affine_is(size, -1, 0) && !td_affine_is(size, 0, td_batchable_per_row(s, 0, axis)))) {
        return td_batchable_no(s, "it does not keep them all: some rows are cut off");
    }
    return steady_vector(s, 1, rank, axis) && steady_vector(s, 2, rank, axis) &&
           td_batchable_as_input(s, 0, 0, axis);
}

/* Where axis `rows` of what is sliced, of that rank, is in the slice, and which entry of the specification is
 * about it (-1: none). */
static bool strided_axis(struct td_batchable_step *s, int64_t n, int rank, int rows, int *to, int64_t *entry)
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
            int covered = rank - after - in;
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

/* Whether entry k of the specification, a slice of k*N entries, leaves none of them out for any N of the
 * range. */
static bool takes_all(struct td_batchable_step *s, int64_t entry, struct td_affine all)
{
    struct td_row_range *r = td_batchable_range(s);
    struct td_affine from, to, d;
    int64_t stride;
    if (!td_batchable_int(s, 3, entry, &stride) || stride != 1) {
        return td_batchable_no(s, "it does not take the rows one by one");
    }
    if ((td_attr_int(s->node, "begin_mask") >> entry & 1) == 0) { /* 0, or at or below -all */
        if (!td_batchable_size(s, 1, entry, &from)) {
            return td_batchable_no(s, "where it begins is not followed");
        }
        const bool negative = td_row_range_negative(r, from);
        if (negative && !td_affine_add(r, from, all, &from)) {
            return td_batchable_no(s, "where it begins is not followed");
        }
        from.base -= from.base > INT64_MIN;
        if (!td_row_range_negative(r, from)) {
            return td_batchable_no(s, "it does not keep them all: the first rows are cut off");
        }
    }
    if ((td_attr_int(s->node, "end_mask") >> entry & 1) == 0) { /* at or past the end */
        if (!td_batchable_size(s, 2, entry, &to) || !td_affine_sub(r, to, all, &d)) {
            return td_batchable_no(s, "where it ends is not followed");
        }
        if (td_row_range_negative(r, d)) {
            return td_batchable_no(s, "it does not keep them all: the last rows are cut off");
        }
    }
    return true;
}

bool td_batchable_strided_slice(struct td_batchable_step *s)
{
    int64_t n = s->in_shape[0][1].rank == 1 ? s->in_shape[0][1].dim[0] : -1, entry;
    int to;
    if (s->in[0].kind != TD_VALUE_ROW || n < 0 || n > 31) {
        return td_batchable_no(s,
                               "its input 0 has no rows, or its specification is not known before it runs");
    }
    if (!strided_axis(s, n, td_batchable_rank(s, 0), s->in[0].axis, &to, &entry)) {
        return false;
    }
    const struct td_affine all = {.slope = td_batchable_per_row(s, 0, s->in[0].axis)};
    return (entry < 0 || takes_all(s, entry, all)) && steady_vector(s, 1, n, entry) &&
           steady_vector(s, 2, n, entry) && steady_vector(s, 3, n, -1) && td_batchable_as_input(s, 0, 0, to);
}

/* Zeros but for the slice, which has all rows where the shape has them. */
bool td_batchable_strided_slice_grad(struct td_batchable_step *s)
{
    const struct td_shape *shape = &s->in_shape[0][0], *spec = &s->in_shape[0][1];
    const int rank = shape->rank == 1 && shape->dim[0] <= TD_MAX_RANK ? (int)shape->dim[0] : -1;
    const int64_t n = spec->rank == 1 ? spec->dim[0] : -1;
    int64_t k = 0, entry;
    int to;
    if (rank < 0 || s->in[4].kind != TD_VALUE_ROW || n < 0 || n > 31) {
        return td_batchable_no(s, "its gradient has no rows, or its specification is not known");
    }
    const int rows = td_batchable_growing(s, 0, rank, &k);
    const struct td_affine all = {.slope = k};
    return rows >= 0 && strided_axis(s, n, rank, rows, &to, &entry) &&
           (to == s->in[4].axis || td_batchable_no(s, "its gradient has the rows elsewhere")) &&
           (entry < 0 || takes_all(s, entry, all)) && steady_vector(s, 1, n, entry) &&
           steady_vector(s, 2, n, entry) && steady_vector(s, 3, n, -1) &&
           td_batchable_as_input(s, 0, 4, rows);
}

/* Where each of the shapes begins along the axis of input 0. */
bool td_batchable_concat_offset(struct td_batchable_step *s)
{
    struct td_affine at[TD_MAX_RANK] = {{0}};
    const int64_t n = s->in_shape[0][1].rank == 1 ? s->in_shape[0][1].dim[0] : -1;
    int64_t given;
    int axis;
    if (n < 1 || n > TD_MAX_RANK || !td_batchable_int(s, 0, 0, &given) ||
        !td_shape_axis((int)n, given, &axis)) {
        return false;
    }
    for (int i = 0; i < s->n_out; i++) {
        struct td_affine size;
        if (!td_batchable_put_sizes(s, i, at, n) || !td_batchable_size(s, i + 1, axis, &size) ||
            !td_affine_add(td_batchable_range(s), at[axis], size, &at[axis])) {
            return false;
        }
    }
    return true;
}
