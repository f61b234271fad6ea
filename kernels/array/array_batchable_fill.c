/* kernels/array/array_batchable_fill.c - rules (kernels/array/array_batchable.h) of ops that repeat, or
 * choose by index.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array/array_batchable.h"

/* ------------------------------------------------------------------ repeating */

/* Nothing but the number of rows decides on the output: all rows are equal, if there are rows. */
static bool equal_rows(struct td_batchable_step *s, int value, int size)
{
    if (s->in[value].kind != TD_VALUE_CONST || s->in[size].kind > TD_VALUE_SIZE) {
        return td_batchable_no(s, "its input %d or %d differs by row", value, size);
    }
    return td_batchable_put(s, 0, td_batchable_growing(s, 0), 1, 0);
}

bool td_batchable_broadcast_to(struct td_batchable_step *s)
{
    if (s->in[0].kind != TD_VALUE_ROW) {
        return equal_rows(s, 0, 1);
    }
    return s->in[1].kind <= TD_VALUE_SIZE
               ? td_batchable_as_input(
                     s, 0, 0, td_batchable_out_shape(s, 0, 0)->rank - td_batchable_rank(s, 0) + s->in[0].axis)
               : td_batchable_no(s, "the rows decide on its shape");
}

bool td_batchable_tile(struct td_batchable_step *s)
{
    if (s->in[0].kind != TD_VALUE_ROW) {
        return equal_rows(s, 0, 1);
    }
    return s->in[1].kind <= TD_VALUE_SIZE ? td_batchable_as_input(s, 0, 0, s->in[0].axis)
                                          : td_batchable_no(s, "the rows decide on its shape");
}

bool td_batchable_fill(struct td_batchable_step *s)
{
    return equal_rows(s, 1, 0);
}

bool td_batchable_like(struct td_batchable_step *s)
{
    if (s->in[0].kind == TD_VALUE_ROW) {
        return td_batchable_as_input(s, 0, 0, s->in[0].axis);
    }
    if (s->in[0].kind <= TD_VALUE_CONST) {
        s->out[0].kind = s->in[0].kind;
        return true;
    }
    return td_batchable_put(s, 0, td_batchable_growing(s, 0), 1, 0);
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
