/* kernels/linalg/matrix_formula.c - slices with an ellipsis in front, so that no rank need be known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/matrix_formula.h"

struct td_value td_f_dim(struct td_emitter *e, struct td_value x, int back)
{
    return td_f_expand(e, td_f_element(e, td_f_shape(e, x), -back), 0);
}

/* x[.., from:to] with `behind` whole axes after it. */
static struct td_value slice_axis(struct td_emitter *e, struct td_value x, struct td_value from,
                                  struct td_value to, int behind)
{
    const struct td_value zero = td_f_ints(e, 0), one = td_f_ints(e, 1);
    const int whole = behind > 0 ? 4 : 0, n = 2 + behind; /* the ellipsis, the axis, one behind */
    const bool from_first = from.node == NULL, to_last = to.node == NULL;
    const struct td_value begin[] = {zero, from_first ? zero : from, zero};
    const struct td_value end[] = {zero, to_last ? zero : to, zero}, step[] = {one, one, one};
    return td_emit(
        e, "StridedSlice",
        TD_IN(x, td_f_concat(e, begin, n, 0), td_f_concat(e, end, n, 0), td_f_concat(e, step, n, 0)),
        TD_ATTRS(TD_ATTR_OF_INT("ellipsis_mask", 1),
                 TD_ATTR_OF_INT("begin_mask", whole + (from_first ? 2 : 0)),
                 TD_ATTR_OF_INT("end_mask", whole + (to_last ? 2 : 0))));
}

struct td_value td_f_rows(struct td_emitter *e, struct td_value x, struct td_value from, struct td_value to)
{
    return slice_axis(e, x, from, to, 1);
}

struct td_value td_f_columns(struct td_emitter *e, struct td_value x, struct td_value from,
                             struct td_value to)
{
    return slice_axis(e, x, from, to, 0);
}

struct td_value td_f_scale_rows(struct td_emitter *e, struct td_value x, struct td_value s)
{
    return td_f_mul(e, x, td_f_expand(e, s, -1));
}

struct td_value td_f_scale_columns(struct td_emitter *e, struct td_value x, struct td_value s)
{
    return td_f_mul(e, x, td_f_expand(e, s, -2));
}

struct td_value td_f_identity(struct td_emitter *e, struct td_value x, struct td_value n)
{
    return td_f_1(e, "MatrixDiag", td_f_fill(e, n, td_f_number(e, x, 1)));
}

struct td_value td_f_lower(struct td_emitter *e, struct td_value x)
{
    return td_f_3(e, "MatrixBandPart", x, td_emit_int(e, TD_INT64, -1), td_emit_int(e, TD_INT64, 0));
}

struct td_value td_f_upper(struct td_emitter *e, struct td_value x)
{
    return td_f_3(e, "MatrixBandPart", x, td_emit_int(e, TD_INT64, 0), td_emit_int(e, TD_INT64, -1));
}

struct td_value td_f_scale_diagonal(struct td_emitter *e, struct td_value x, double by)
{
    return td_f_2(e, "MatrixSetDiag", x, td_f_scale(e, td_f_1(e, "MatrixDiagPart", x), by));
}

struct td_value td_f_triangular_solve(struct td_emitter *e, struct td_value a, struct td_value b, bool lower,
                                      bool adjoint)
{
    return td_emit(e, "MatrixTriangularSolve", TD_IN(a, b),
                   TD_ATTRS(TD_ATTR_OF_BOOL("lower", lower), TD_ATTR_OF_BOOL("adjoint", adjoint)));
}
