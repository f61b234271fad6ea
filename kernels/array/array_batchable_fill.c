/* kernels/array/array_batchable_fill.c - rules (kernels/array/array_batchable.h) of ops that tell shapes as
 * numbers, repeat, or choose by index.
 *
 * The shape of something with rows is a vector of numbers, of which one follows from N; it is given as
 * expressions. An op that makes a tensor of such a shape makes rows, if just one element of the shape grows
 * with N and what it is filled from is the same for all rows, or has its rows at that axis. An op that
 * chooses may choose for each row among constants, or the same entries within each row, but never among the
 * rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_batchable.h"

#include "core/base/mem.h"

/* ------------------------------------------------------------------ shapes as numbers */

/* What is said of the shape of an input without rows: as much as of the input, but that numbers of N which
 * are followed have a shape that is the same for every N. */
static struct td_batchable_value of_shape(const struct td_batchable_value *x)
{
    const bool steady = x->kind == TD_VALUE_LIST || (x->kind == TD_VALUE_SIZE && x->sizes != NULL);
    return steady ? (struct td_batchable_value){.kind = TD_VALUE_CONST} : *x;
}

static struct td_affine dim_of_rows(const struct td_batchable_step *s, int i, int d)
{
    const struct td_affine rows = {.slope = td_batchable_per_row(s, i, d)};
    return d == s->in[i].axis ? rows : td_affine_const(s->in_shape[0][i].dim[d]);
}

bool td_batchable_shape(struct td_batchable_step *s)
{
    for (int i = 0; i < s->n_in; i++) {
        struct td_affine dim[TD_MAX_RANK];
        for (int d = 0; s->in[i].kind == TD_VALUE_ROW && d < td_batchable_rank(s, i); d++) {
            dim[d] = dim_of_rows(s, i, d);
        }
        if (s->in[i].kind != TD_VALUE_ROW) {
            s->out[i] = of_shape(&s->in[i]);
        } else if (!td_batchable_put_sizes(s, i, dim, td_batchable_rank(s, i))) {
            return td_batchable_no(s, "no memory");
        }
    }
    return true;
}

bool td_batchable_rank_of(struct td_batchable_step *s)
{
    s->out[0] = s->in[0].kind == TD_VALUE_ROW ? (struct td_batchable_value){.kind = TD_VALUE_CONST}
                                              : of_shape(&s->in[0]);
    return true;
}

bool td_batchable_size_of(struct td_batchable_step *s)
{
    struct td_affine all = td_affine_const(1);
    s->out[0] = of_shape(&s->in[0]);
    for (int d = 0; s->in[0].kind == TD_VALUE_ROW && d < td_batchable_rank(s, 0); d++) {
        if (!td_affine_mul(td_batchable_range(s), all, dim_of_rows(s, 0, d), &all)) {
            return td_batchable_no(s, "it has more elements than can be");
        }
    }
    return s->in[0].kind != TD_VALUE_ROW || td_batchable_put_sizes(s, 0, &all, 1) ||
           td_batchable_no(s, "no memory");
}

/* ------------------------------------------------------------------ repeating */

int td_batchable_growing(struct td_batchable_step *s, int i, int64_t n, int64_t *k)
{
    int axis = -1;
    for (int d = 0; d < n; d++) {
        struct td_affine x;
        if (!td_batchable_size(s, i, d, &x) || (x.slope != 0 && (x.base != 0 || x.slope < 0 || axis >= 0))) {
            (void)td_batchable_no(s, "element %d of its input %d is not followed, or no multiple of the rows",
                                  d, i);
            return -1;
        }
        axis = x.slope != 0 ? d : axis;
        *k = x.slope != 0 ? x.slope : *k;
    }
    if (axis < 0) {
        (void)td_batchable_no(s, "its output does not have the rows, and its input 0 does not differ by row");
    }
    return axis;
}

static int64_t vector_length(const struct td_batchable_step *s, int i)
{
    const struct td_shape *x = &s->in_shape[0][i];
    return x->rank == 1 && x->dim[0] >= 0 && x->dim[0] <= TD_MAX_RANK ? x->dim[0] : 0;
}

/* Dimension d of a shape of rank `rank` in input i, whose axes align with it from the right. */
static int64_t dim_under(const struct td_batchable_step *s, int i, int rank, int d)
{
    const struct td_shape *x = &s->in_shape[0][i];
    const int at = d - (rank - x->rank);
    return x->rank < 0 ? -1 : at < 0 ? 1 : x->dim[at];
}

bool td_batchable_broadcast_to(struct td_batchable_step *s)
{
    const int n = (int)vector_length(s, 1);
    int64_t k = 0;
    const int axis = td_batchable_growing(s, 1, n, &k);
    if (axis < 0) {
        return false;
    }
    if (s->in[0].kind == TD_VALUE_ROW) {
        const bool same = n - td_batchable_rank(s, 0) + s->in[0].axis == axis &&
                          td_batchable_per_row(s, 0, s->in[0].axis) == k;
        return same ? td_batchable_as_input(s, 0, 0, axis)
                    : td_batchable_no(s, "its shape does not have the rows where its input has them");
    }
    if (s->in[0].kind != TD_VALUE_CONST || dim_under(s, 0, n, axis) != 1) {
        return td_batchable_no(s, "its input 0 has a constant for each row, or follows from their number");
    }
    return td_batchable_put(s, 0, axis, 1, k);
}

/* Of a constant all rows are equal: each is the constant's entries, as often as they are repeated a row. */
bool td_batchable_tile(struct td_batchable_step *s)
{
    int64_t k = 0, times;
    if (s->in[0].kind == TD_VALUE_ROW) {
        for (int d = 0; d < td_batchable_rank(s, 0); d++) {
            if (!td_batchable_int(s, 1, d, &times) || (d == s->in[0].axis && times != 1)) {
                return td_batchable_no(
                    s, "it repeats the rows, or how often is not the same for any number of them");
            }
        }
        return td_batchable_as_input(s, 0, 0, s->in[0].axis);
    }
    const int axis = td_batchable_growing(s, 1, vector_length(s, 1), &k);
    if (axis < 0 || s->in[0].kind != TD_VALUE_CONST) {
        return axis >= 0 && td_batchable_no(s, "its input 0 follows from the number of rows");
    }
    return td_i64_mul(k, dim_under(s, 0, td_batchable_rank(s, 0), axis), &k) && k > 0 &&
           td_batchable_put(s, 0, axis, 1, k);
}

bool td_batchable_fill(struct td_batchable_step *s)
{
    int64_t k = 0;
    const int axis = td_batchable_growing(s, 0, vector_length(s, 0), &k);
    if (axis < 0 || s->in[1].kind != TD_VALUE_CONST) {
        return axis >= 0 && td_batchable_no(s, "what it fills with is not the same for all rows");
    }
    return td_batchable_put(s, 0, axis, 1, k);
}

bool td_batchable_like(struct td_batchable_step *s)
{
    const struct td_batchable_value *x = &s->in[0];
    if (x->kind == TD_VALUE_ROW) {
        return td_batchable_as_input(s, 0, 0, x->axis);
    }
    if (x->kind == TD_VALUE_LIST) {
        return td_batchable_pass_on(s, 0, 0); /* of as many elements, each like the list's */
    }
    const bool steady = x->kind == TD_VALUE_CONST || (x->kind == TD_VALUE_SIZE && x->sizes != NULL);
    s->out[0] = steady ? (struct td_batchable_value){.kind = TD_VALUE_CONST} : *x;
    return true;
}

/* ------------------------------------------------------------------ choosing by index */

static bool gather_batched(struct td_batchable_step *s, int64_t batch_dims)
{
    if (!td_batchable_same_rows(s, 0, 1)) {
        return false;
    }
    if (s->in[0].axis >= batch_dims || s->in[1].axis != s->in[0].axis) {
        return td_batchable_no(s, "rows choose from other rows");
    }
    return td_batchable_as_input(s, 0, 0, s->in[0].axis);
}

bool td_batchable_gather(struct td_batchable_step *s)
{
    int64_t given = 0, batch_dims = td_attr_int(s->node, "batch_dims");
    int axis = 0, n = td_batchable_rank(s, 1);
    batch_dims += batch_dims < 0 ? n : 0;
    if (s->n_in == 3 &&
        (!td_batchable_int(s, 2, 0, &given) || !td_shape_axis(td_batchable_rank(s, 0), given, &axis))) {
        return td_batchable_no(s, "its axis is not known before it runs");
    }
    axis = s->n_in < 3 && batch_dims > 0 ? (int)batch_dims : axis;
    if (s->in[0].kind == TD_VALUE_ROW && s->in[1].kind == TD_VALUE_ROW) {
        return gather_batched(s, batch_dims);
    }
    if (s->in[0].kind == TD_VALUE_CONST) {
        return td_batchable_alone(s, 1) &&
               (batch_dims == 0 || td_batchable_no(s, "it has constants for each row")) &&
               td_batchable_as_input(s, 0, 1, axis + s->in[1].axis);
    }
    int from = s->in[0].axis;
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    if (from == axis || from < batch_dims) {
        return td_batchable_no(s, "it chooses among the rows");
    }
    return td_batchable_as_input(s, 0, 0, from < axis ? from : from - 1 + n - (int)batch_dims);
}

bool td_batchable_gather_nd(struct td_batchable_step *s)
{
    int n = td_batchable_rank(s, 1);
    if (s->in[0].kind == TD_VALUE_CONST) {
        return td_batchable_alone(s, 1) &&
               (s->in[1].axis < n - 1 || td_batchable_no(s, "an index is made of several rows")) &&
               td_batchable_as_input(s, 0, 1, s->in[1].axis);
    }
    if (!td_batchable_alone(s, 0) || n < 1) {
        return false;
    }
    int64_t depth = s->in_shape[0][1].dim[n - 1];
    if (depth < 0 || s->in[0].axis < depth) {
        return td_batchable_no(s, "it chooses among the rows");
    }
    return td_batchable_as_input(s, 0, 0, n - 1 + s->in[0].axis - (int)depth);
}

bool td_batchable_one_hot(struct td_batchable_step *s)
{
    int64_t axis = td_attr_int(s->node, "axis");
    int from = s->in[0].axis;
    return td_batchable_alone(s, 0) && td_batchable_as_input(s, 0, 0, from + (axis >= 0 && axis <= from));
}

/* dy [B.., O.., J.., I..], indices [B.., J..], shape, axis: rows keep their place among B, O and I. */
bool td_batchable_gather_grad(struct td_batchable_step *s)
{
    int64_t given, batch_dims = td_attr_int(s->node, "batch_dims"), k = 0;
    const int n = (int)vector_length(s, 2), from = s->in[0].axis;
    int axis;
    batch_dims += batch_dims < 0 ? td_batchable_rank(s, 1) : 0;
    if (!td_batchable_int(s, 3, 0, &given) || !td_shape_axis(n, given, &axis)) {
        return td_batchable_no(s, "its axis is not known before it runs");
    }
    const int n_index = td_batchable_rank(s, 1) - (int)batch_dims, to = td_batchable_growing(s, 2, n, &k);
    if (to < 0) {
        return false;
    }
    if (s->in[1].kind == TD_VALUE_ROW) {
        if (!td_batchable_same_rows(s, 0, 1)) {
            return false;
        }
        return from < batch_dims && s->in[1].axis == from && to == from
                   ? td_batchable_as_input(s, 0, 0, from)
                   : td_batchable_no(s, "it adds up what rows chose");
    }
    if (s->in[0].kind != TD_VALUE_ROW || s->in[1].kind != TD_VALUE_CONST || from < batch_dims) {
        return td_batchable_no(s, "it has constants for each row");
    }
    const int kept = from < axis ? from : from - n_index + 1;
    return (from < axis || from >= axis + n_index) && to == kept ? td_batchable_as_input(s, 0, 0, kept)
                                                                 : td_batchable_no(s, "it adds up the rows");
}

/* indices [J.., depth], updates [J.., I..], shape: the same places in each row. */
bool td_batchable_scatter_nd(struct td_batchable_step *s)
{
    const int n = td_batchable_rank(s, 0);
    int64_t k = 0;
    if (s->in[0].kind != TD_VALUE_CONST || s->in[1].kind != TD_VALUE_ROW || n < 2) {
        return td_batchable_no(s, "its places are not the same for all rows, or its updates have none");
    }
    const int64_t to = s->in_shape[0][0].dim[n - 1] + s->in[1].axis - (n - 1);
    if (s->in[1].axis < n - 1) {
        return td_batchable_no(s, "it adds up the rows");
    }
    const int axis = td_batchable_growing(s, 2, vector_length(s, 2), &k);
    return axis >= 0 &&
           (axis == to || td_batchable_no(s, "its shape does not have the rows where its updates have")) &&
           td_batchable_as_input(s, 0, 1, axis);
}
