/* proto/hlo_graph/hlo_reduce.c - reductions along axes.
 *
 * By one operation: the op of TensorFlow's, and the initial value where it is not neutral. The larger
 * (smaller) of pairs of a number and its place along an axis: ArgMax (ArgMin). By any other body:
 * neighbours are joined by the body, applied to halves of the tensor at once, until one is left along the
 * axis: a tree, which StableHLO allows.
 *
 * Does not: ArgMax of NaNs as XLA has it (the first NaN wins there).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_body.h"
#include "proto/hlo_graph/hlo_rules.h"

static bool pairs(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    if (op->n_in < 2 || op->n_in % 2 != 0 || op->n_out != op->n_in / 2 || op->n_regions < 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "it has %d operands and %d results", op->n_in, op->n_out);
    }
    return f->e.rc == TD_OK;
}

static struct td_value over_axes(struct td_hlo_frame *f, const char *name, struct td_value x,
                                 const int64_t *axes, int n)
{
    return n == 0 ? x : td_hlo_2(f, name, x, td_hlo_i32s(f, axes, n));
}

/* ------------------------------------------------------------------ the place of the largest */

/* Whether the value counts along the axis from 0. */
static bool counts_along(const struct td_hlo_value *v, int64_t axis)
{
    for (int i = 0; i < 4 && v->op != NULL; i++) {
        const char *name = v->op->name;
        if (strcmp(name, "iota") == 0 || strcmp(name, "dynamic_iota") == 0) {
            return td_hlo_int(v->op, "iota_dimension", -1) == axis;
        }
        if (strcmp(name, "convert") != 0 && strcmp(name, "optimization_barrier") != 0) {
            break;
        }
        v = v->op->in[0];
    }
    return false;
}

/* 1: the body keeps the larger number and, of equal ones, the lower place; -1: the smaller; 0: neither. */
static int keeps(const struct td_hlo_op *op)
{
    const bool is_float = td_hlo_is_float(op->in[0]->type.dtype);
    static const struct {
        double a, b;
        int64_t ia, ib;
        int kept; /* of the larger */
    } asked[] = {{1, 2, 0, 1, 1}, {2, 1, 0, 1, 0}, {1, 2, 1, 0, 1},
                 {2, 1, 1, 0, 0}, {5, 5, 0, 1, 0}, {5, 5, 1, 0, 1}};
    int larger = 0, smaller = 0;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const struct td_hlo_scalar args[4] = {
            {.is_float = is_float, .f = asked[i].a, .i = (int64_t)asked[i].a},
            {.i = asked[i].ia},
            {.is_float = is_float, .f = asked[i].b, .i = (int64_t)asked[i].b},
            {.i = asked[i].ib}};
        struct td_hlo_scalar out[2];
        if (!td_hlo_evaluate(&op->regions[0], args, 4, out, 2)) {
            return 0;
        }
        const bool equal = asked[i].a == asked[i].b;
        larger += out[1].i == (asked[i].kept ? asked[i].ib : asked[i].ia);
        smaller += out[1].i == (asked[i].kept != !equal ? asked[i].ib : asked[i].ia);
    }
    return larger == 6 ? 1 : smaller == 6 ? -1 : 0;
}

/* The number that the search begins with loses to any. */
static bool begins_neutral(struct td_hlo_frame *f, const struct td_hlo_op *op, bool largest)
{
    const bool boolean = op->in[2]->type.dtype == TD_BOOL;
    const struct td_hlo_reducer r = {.from = largest   ? boolean ? TD_HLO_FROM_ZERO : TD_HLO_FROM_LEAST
                                             : boolean ? TD_HLO_FROM_ONE
                                                       : TD_HLO_FROM_MOST};
    return td_hlo_is_neutral(&r, td_hlo_in(f, op, 2));
}

static bool put_place(struct td_hlo_frame *f, const struct td_hlo_op *op, const int64_t *axes, int n)
{
    if (op->n_in != 4 || n != 1 || !counts_along(op->in[1], axes[0])) {
        return false;
    }
    const int way = keeps(op);
    const enum td_dtype t = op->out[1]->type.dtype, by = t == TD_INT64 ? TD_INT64 : TD_INT32;
    if (way == 0 || !td_hlo_is_integer(t)) {
        return false;
    }
    const struct td_value x = td_hlo_in(f, op, 0);
    if (!begins_neutral(f, op, way > 0)) {
        return false;
    }
    const struct td_value axis = td_hlo_i32s(f, axes, 1);
    const struct td_value at = td_emit(&f->e, way > 0 ? "ArgMax" : "ArgMin", TD_IN(x, td_hlo_i32(f, axes[0])),
                                       TD_ATTRS(TD_ATTR_OF_TYPE("output_type", by)));
    const bool boolean = td_dtype_of(x) == TD_BOOL;
    td_hlo_put(f, op, 0, td_hlo_2(f, boolean ? (way > 0 ? "Any" : "All") : way > 0 ? "Max" : "Min", x, axis));
    td_hlo_put(f, op, 1, td_hlo_cast(f, at, t));
    return true;
}

/* ------------------------------------------------------------------ any body */

/* x[i], of which every second element along the first axis, `odd` or even, of the first 2 * pairs. */
static void split(struct td_hlo_frame *f, const struct td_value *x, int n, int64_t n_pairs,
                  struct td_value *args)
{
    for (int i = 0; i < n; i++) {
        args[i] = td_hlo_cut(f, x[i], 0, 0, 2 * n_pairs, 2);
        args[n + i] = td_hlo_cut(f, x[i], 0, 1, 2 * n_pairs, 2);
    }
}

/* The n tensors become one element each along their first axis, of size `size`. */
static void join(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_value *x, int n, int64_t size)
{
    struct td_value *args = td_hlo_room(f, 2 * (size_t)n, sizeof *args);
    struct td_value *made = td_hlo_room(f, (size_t)n, sizeof *made);
    while (f->e.rc == TD_OK && size > 1) {
        const int64_t half = size / 2;
        split(f, x, n, half, args);
        td_hlo_apply(f, &op->regions[0], args, 2 * n, made, n);
        for (int i = 0; f->e.rc == TD_OK && i < n; i++) {
            const struct td_value both[2] = {made[i], td_hlo_cut(f, x[i], 0, size - 1, size, 1)};
            x[i] = size % 2 == 0 ? made[i] : td_hlo_concat(f, both, 2, 0);
        }
        size = half + size % 2;
    }
}

static void reduce_axis(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_value *x, int rank,
                        int axis)
{
    const int n = op->n_out;
    const int64_t size = td_hlo_shape(op->in[0])->dim[axis], first = 0;
    int64_t perm[TD_MAX_RANK] = {axis};
    if (size < 1) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "its body is more than one operation, and axis %d is %s", axis,
                    size == 0 ? "empty" : "of unknown size");
        return;
    }
    for (int i = 0, at = 1; i < rank; i++) {
        if (i != axis) {
            perm[at++] = i;
        }
    }
    for (int i = 0; i < n; i++) {
        x[i] = td_hlo_transpose(f, x[i], perm, rank);
    }
    join(f, op, x, n, size);
    for (int i = 0; i < n; i++) {
        x[i] = td_emit(&f->e, "Squeeze", TD_IN(x[i]),
                       TD_ATTRS(TD_ATTR_OF_INTS("squeeze_dims", (int64_t *)&first, 1)));
    }
}

static void by_body(struct td_hlo_frame *f, const struct td_hlo_op *op, const int64_t *axes, int n_axes)
{
    const int n = op->n_out, rank = td_hlo_shape(op->in[0])->rank;
    struct td_value *x = td_hlo_room(f, 2 * (size_t)n, sizeof *x);
    struct td_value *made = td_hlo_room(f, (size_t)n, sizeof *made);
    for (int i = 0; f->e.rc == TD_OK && i < n; i++) {
        x[n + i] = td_hlo_in(f, op, i);
    }
    int left = rank;
    for (int axis = rank - 1; f->e.rc == TD_OK && axis >= 0;
         axis--) { /* the last first: those before stay in place */
        for (int k = 0; k < n_axes; k++) {
            if (axes[k] == axis) {
                reduce_axis(f, op, x + n, left--, axis);
            }
        }
    }
    for (int i = 0; f->e.rc == TD_OK && i < n; i++) {
        x[i] = td_hlo_in(f, op, n + i);
    }
    td_hlo_apply(f, &op->regions[0], x, 2 * n, made, n);
    for (int i = 0; f->e.rc == TD_OK && i < n; i++) {
        td_hlo_put(f, op, i, made[i]);
    }
}

/* ------------------------------------------------------------------ rules */

void td_hlo_reduce(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    int n;
    if (!pairs(f, op)) {
        return;
    }
    const int64_t *axes = td_hlo_axes(f, op, "dimensions", td_hlo_shape(op->in[0])->rank, &n);
    const struct td_hlo_reducer *r =
        op->n_in == 2 ? td_hlo_reducer(&op->regions[0], op->in[0]->type.dtype) : NULL;
    if (f->e.rc || (r == NULL && put_place(f, op, axes, n))) {
        return;
    }
    if (r == NULL) {
        by_body(f, op, axes, n);
        return;
    }
    struct td_value y = over_axes(f, r->over, td_hlo_in(f, op, 0), axes, n);
    const struct td_value init = td_hlo_in(f, op, 1);
    y = td_hlo_is_neutral(r, init) ? y : td_hlo_2(f, r->two, y, init);
    td_hlo_put(f, op, 0, y);
}

void td_hlo_map(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    struct td_value *x = td_hlo_room(f, (size_t)op->n_in, sizeof *x);
    struct td_value y[1] = {td_no_value};
    if (op->n_regions < 1 || op->regions[0].n_ops == 0 ||
        op->regions[0].ops[op->regions[0].n_ops - 1]->n_in != 1) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its body has no single result");
    }
    for (int i = 0; f->e.rc == TD_OK && i < op->n_in; i++) {
        x[i] = td_hlo_in(f, op, i);
    }
    if (f->e.rc == TD_OK) {
        td_hlo_apply(f, &op->regions[0], x, op->n_in, y, 1);
        td_hlo_put(f, op, 0, y[0]);
    }
}
