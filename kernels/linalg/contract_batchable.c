/* kernels/linalg/contract_batchable.c - where rows go through MatMul, BatchMatMul and Einsum.
 *
 * A product keeps rows apart when they run along an axis that stays, and mixes them when it sums over that
 * axis. For matrices the axis is found by counting, for leading axes from the right, as they broadcast. For
 * Einsum it is the letter, or the place in "...", that names the axis: all inputs with rows must call it the
 * same, and the result must have it.
 *
 * Does not: parse equations for the kernel (kernels/linalg/einsum_equation.c): only labels are read here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/contract_batchable.h"

/* ------------------------------------------------------------------ products */

bool td_batchable_matmul(struct td_batchable_step *s)
{
    int side = s->in[0].kind == TD_VALUE_ROW ? 0 : 1;
    bool transposed = td_attr_bool(s->node, side == 0 ? "transpose_a" : "transpose_b");
    if (!td_batchable_alone(s, side)) {
        return false;
    }
    if ((s->in[side].axis == 1) != (transposed != (side == 1)) || (side == 1 && s->n_in > 2)) {
        return td_batchable_no(s, "it sums over the rows");
    }
    return td_batchable_as_input(s, 0, side, side);
}

/* x [.., M, K]  y [.., K, P]: the leading axes broadcast from the right. */
static bool matmul_leading(struct td_batchable_step *s, int side)
{
    int other = 1 - side, back = td_batchable_rank(s, side) - 1 - s->in[side].axis;
    if (s->in[other].kind == TD_VALUE_ROW) {
        if (!td_batchable_same_rows(s, side, other) ||
            td_batchable_rank(s, other) - 1 - s->in[other].axis != back) {
            return td_batchable_no(s, "the rows of its inputs are not aligned");
        }
    } else if (s->in[other].kind != TD_VALUE_CONST || td_batchable_spans(s, other, back)) {
        return td_batchable_no(s, "its input %d has a matrix for each row", other);
    }
    return td_batchable_as_input(s, 0, side, td_batchable_out_shape(s, 0, 0)->rank - 1 - back);
}

bool td_batchable_batch_matmul(struct td_batchable_step *s)
{
    int side = s->in[0].kind == TD_VALUE_ROW ? 0 : 1;
    if (s->in[side].kind != TD_VALUE_ROW || s->n_in != 2) {
        return td_batchable_no(s, "neither input has the rows alone");
    }
    if (s->in[side].axis < td_batchable_rank(s, side) - 2) {
        return matmul_leading(s, side);
    }
    bool transposed = td_attr_bool(s->node, side == 0 ? "adj_x" : "adj_y");
    bool last = s->in[side].axis == td_batchable_rank(s, side) - 1;
    if (!td_batchable_alone(s, side)) {
        return false;
    }
    if (last != (transposed != (side == 1))) {
        return td_batchable_no(s, "it sums over the rows");
    }
    return td_batchable_as_input(s, 0, side, td_batchable_out_shape(s, 0, 0)->rank - 2 + side);
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
    if (s->in[i].kind == TD_VALUE_ROW) {
        int name = label_at(t, td_batchable_rank(s, i), s->in[i].axis);
        if (*first >= 0 && (name != *label || !td_batchable_same_rows(s, *first, i))) {
            return td_batchable_no(s, "the rows of its inputs %d and %d go by different letters", *first, i);
        }
        *first = *first < 0 ? i : *first;
        *label = name;
        return name >= 0 || td_batchable_no(s, "its equation does not fit its input %d", i);
    }
    return s->in[i].kind == TD_VALUE_CONST ||
           td_batchable_no(s, "its input %d follows from the number of rows", i);
}

bool td_batchable_einsum(struct td_batchable_step *s)
{
    enum { MAX_INPUTS = 8 };
    struct term term[MAX_INPUTS], result;
    const char *p = td_attr_str(s->node, "equation");
    int label = -1, first = -1;
    for (int i = 0; i < s->n_in; i++) {
        if (i == MAX_INPUTS) {
            return td_batchable_no(s, "it has more than %d inputs", MAX_INPUTS);
        }
        p = read_term(p, &term[i]);
        if (!einsum_input(s, &term[i], i, &label, &first)) {
            return false;
        }
    }
    for (int i = 0; i < s->n_in; i++) {
        int a = axis_called(&term[i], td_batchable_rank(s, i), label);
        if (s->in[i].kind == TD_VALUE_CONST && a >= 0 && s->in_shape[0][i].dim[a] != 1) {
            return td_batchable_no(s, "its input %d has constants for each row", i);
        }
    }
    if (p[0] != '-' || p[1] != '>') {
        return td_batchable_no(s, "its equation names no output");
    }
    read_term(p + 2, &result);
    int to = axis_called(&result, td_batchable_out_shape(s, 0, 0)->rank, label);
    return to >= 0 ? td_batchable_as_input(s, 0, first, to) : td_batchable_no(s, "it sums over the rows");
}
