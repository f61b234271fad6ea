/* core/batchable/batchable_ready.c - the ready-made rules, and which one an op has.
 *
 * A rule looks for the axis that the rows have in the inputs, says no where the op works along it, and says
 * where it is in each output; td_batchable_as_input() checks that against the shapes at the probes. Rules
 * that differ by a number (how many last axes an op works along) are small functions around one, because a
 * row of an op holds a pointer.
 *
 * Holds no state. Does not: follow numbers of N, or place outputs of one op alone (its own file has that
 * rule).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"

bool td_batchable_same(struct td_batchable_step *s)
{
    for (int i = 0; i < s->n_in && i < s->n_out; i++) {
        td_batchable_pass_on(s, i, i);
    }
    return true;
}

/* ------------------------------------------------------------------ element by element */

/* Axes align from the right, so that is where they are counted from. */
bool td_batchable_broadcast(struct td_batchable_step *s)
{
    int first = -1, back = -1;
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_SIZE || s->in[i].kind == TD_VALUE_LIST) {
            const char *why = s->in[i].why != NULL ? s->in[i].why : "";
            return td_batchable_no(s, "its input %d follows from the number of rows%s%.120s", i,
                                   why[0] != 0 ? "; " : "", why);
        }
        if (s->in[i].kind != TD_VALUE_ROW) {
            continue;
        }
        int at = s->in_shape[0][i].rank - 1 - s->in[i].axis;
        if (first >= 0 && (at != back || !td_batchable_same_rows(s, first, i))) {
            return td_batchable_no(s, "the rows of its inputs %d and %d are not aligned", first, i);
        }
        first = first < 0 ? i : first;
        back = at;
    }
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_CONST && td_batchable_spans(s, i, back)) {
            return td_batchable_no(s, "its input %d has a constant for each row", i);
        }
    }
    for (int o = 0; o < s->n_out; o++) {
        if (first < 0 ||
            !td_batchable_as_input(s, o, first, td_batchable_out_shape(s, o, 0)->rank - 1 - back)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ one input of rows */

static bool map_over(struct td_batchable_step *s, int taken)
{
    if (!td_batchable_alone(s, 0)) {
        return false;
    }
    if (s->in[0].axis >= s->in_shape[0][0].rank - taken) {
        return td_batchable_no(s, "it works along the axis of the rows");
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_batchable_as_input(s, o, 0, s->in[0].axis)) {
            return false;
        }
    }
    return true;
}

bool td_batchable_map(struct td_batchable_step *s)
{
    return map_over(s, 0);
}

bool td_batchable_map1(struct td_batchable_step *s)
{
    return map_over(s, 1);
}

bool td_batchable_map2(struct td_batchable_step *s)
{
    return map_over(s, 2);
}

bool td_batchable_map3(struct td_batchable_step *s)
{
    return map_over(s, 3);
}

bool td_batchable_map_first(struct td_batchable_step *s)
{
    return (s->in[0].axis == 0 || td_batchable_no(s, "the rows are not its axis 0")) && map_over(s, 0);
}

bool td_batchable_all_first(struct td_batchable_step *s)
{
    int first = -1;
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_CONST) {
            continue;
        }
        if (s->in[i].kind != TD_VALUE_ROW || s->in[i].axis != 0 ||
            (first >= 0 && !td_batchable_same_rows(s, first, i))) {
            return td_batchable_no(s, "its input %d does not have the rows at axis 0", i);
        }
        first = first < 0 ? i : first;
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_batchable_as_input(s, o, first, 0)) {
            return false;
        }
    }
    return true;
}

bool td_batchable_sized(struct td_batchable_step *s, int sizes, int data)
{
    const int64_t n = s->in_shape[0][sizes].rank == 1 ? s->in_shape[0][sizes].dim[0] : 0;
    if (s->in[data].kind != TD_VALUE_ROW || s->in[data].axis != 0) {
        return td_batchable_no(s, "its input %d does not have the rows at axis 0", data);
    }
    for (int64_t d = 0; d < n; d++) {
        struct td_affine x;
        const bool known = td_batchable_size(s, sizes, d, &x);
        if (!known || (x.slope != 0 && (d > 0 || !td_affine_is(x, 0, td_batchable_per_row(s, data, 0))))) {
            return td_batchable_no(s, "size %lld of its output is not the same for every number of rows",
                                   (long long)d);
        }
    }
    return n > 0 && td_batchable_as_input(s, 0, data, 0);
}

/* ------------------------------------------------------------------ along given axes */

bool td_batchable_axes(struct td_batchable_step *s, uint32_t *axes)
{
    int at = s->n_in - 1;
    const struct td_tensor *t = td_batchable_known(s, at, 0);
    if (t == NULL) {
        return td_batchable_no(s, "its axes are not known before it runs");
    }
    *axes = 0;
    for (int64_t k = 0; k < td_tensor_count(t); k++) {
        int64_t v = 0;
        int axis;
        if (!td_batchable_int(s, at, k, &v) || !td_shape_axis(td_batchable_rank(s, 0), v, &axis)) {
            return td_batchable_no(s, "its axis %lld is not one of input 0", (long long)v);
        }
        *axes |= 1u << axis;
    }
    return true;
}

static bool spares_rows(struct td_batchable_step *s, uint32_t *axes)
{
    if (!td_batchable_alone(s, 0) || !td_batchable_axes(s, axes)) {
        return false;
    }
    return (*axes >> s->in[0].axis & 1) == 0 || td_batchable_no(s, "it works over all rows");
}

bool td_batchable_reduce(struct td_batchable_step *s)
{
    uint32_t axes;
    if (!spares_rows(s, &axes)) {
        return false;
    }
    bool keep = td_attr_bool(s->node, "keep_dims");
    int before = __builtin_popcount(axes & ((1u << s->in[0].axis) - 1));
    return td_batchable_as_input(s, 0, 0, s->in[0].axis - (keep ? 0 : before));
}

bool td_batchable_along(struct td_batchable_step *s)
{
    uint32_t axes;
    return spares_rows(s, &axes) && td_batchable_as_input(s, 0, 0, s->in[0].axis);
}

/* ------------------------------------------------------------------ state */

bool td_batchable_read(struct td_batchable_step *s)
{
    return td_batchable_consts(s, -1);
}

bool td_batchable_keys(struct td_batchable_step *s)
{
    if (!td_batchable_alone(s, 1)) {
        return false;
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!td_batchable_as_input(s, o, 1, s->in[1].axis)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ which rule */

const struct td_batchable_rule *td_batchable_rule_of(const struct td_op *op)
{
    static const struct td_batchable_rule elementwise = {.rows = td_batchable_broadcast};
    return op->batchable != NULL ? op->batchable : (op->flags & TD_OP_ELEMENTWISE) ? &elementwise : NULL;
}
