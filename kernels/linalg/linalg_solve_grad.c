/* kernels/linalg/linalg_solve_grad.c - gradients of factors, inverses, determinants and solvers, by what the
 * forward op has found already: its output stands in the formulas wherever it can.
 *
 *   Y = A^-1            dA = -Y^H dY Y^H
 *   A X = B             dB: A^H dB = dX      dA = -dB X^H, of which a triangle or bands where A has no more
 *   A = L L^H           dA = sym(L^-H half_lower(L^H dL) L^-1)
 *   d = det A           dA = dd d A^-H
 *   R R = A             dA: R^T dA + dA R^T = dR, as one system of n^2 unknowns
 *
 * Where TensorFlow leaves out a conjugate (determinants, tridiagonal solvers, square roots of complex
 * matrices), so do these.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/linalg_solve_grad.h"

#include "kernels/linalg/matrix_formula.h"

/* ------------------------------------------------------------------ functions of one matrix */

struct td_value td_cholesky_formula(struct td_emitter *e, struct td_value l, struct td_value dl)
{
    const struct td_value lower = td_f_lower(e, td_f_batch_matmul(e, l, dl, true, false));
    const struct td_value left = td_f_triangular_solve(e, l, td_f_scale_diagonal(e, lower, 0.5), true, true);
    const struct td_value both = td_f_triangular_solve(e, l, td_f_adjoint(e, left), true, true);
    return td_f_scale(e, td_f_add(e, both, td_f_adjoint(e, both)), 0.5);
}

void td_cholesky_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_cholesky_formula(g->e, td_grad_out(g, 0), td_grad_at(g, 0)));
}

void td_matrix_inverse_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const bool adjoint = td_attr_bool(g->node, "adjoint");
    const struct td_value y = td_grad_out(g, 0);
    const struct td_value right = td_f_batch_matmul(e, td_grad_at(g, 0), y, adjoint, !adjoint);
    td_grad_give(g, 0, td_f_neg(e, td_f_batch_matmul(e, y, right, !adjoint, false)));
}

/* factor [..] times A^-H. */
static void give_inverse(struct td_grad *g, struct td_value factor)
{
    struct td_emitter *e = g->e;
    const struct td_value inverse =
        td_emit(e, "MatrixInverse", TD_IN(td_grad_in(g, 0)), TD_ATTRS(TD_ATTR_OF_BOOL("adjoint", true)));
    td_grad_give(g, 0, td_f_mul(e, td_f_expand(e, td_f_expand(e, factor, -1), -1), inverse));
}

void td_matrix_determinant_grad(struct td_grad *g)
{
    give_inverse(g, td_f_mul(g->e, td_grad_at(g, 0), td_grad_out(g, 0)));
}

/* Nothing goes by way of the sign. */
void td_log_matrix_determinant_grad(struct td_grad *g)
{
    if (td_grad_arrived(g, 1)) {
        give_inverse(g, td_grad_at(g, 1));
    }
}

/* The matrix [.., i k, j l] of all products that the equation makes of r and the identity. */
static struct td_value kronecker(struct td_emitter *e, struct td_value r, struct td_value identity,
                                 const char *equation, struct td_value shape)
{
    const struct td_value all =
        td_emit(e, "Einsum", TD_IN(r, identity),
                TD_ATTRS(TD_ATTR_OF_TEXT("equation", equation), TD_ATTR_OF_INT("N", 2)));
    return td_f_reshape(e, all, shape);
}

void td_matrix_square_root_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value r = td_grad_out(g, 0), n = td_f_dim(e, r, 1), unknowns = td_f_square(e, n);
    const struct td_value batch = td_f_but_last(e, td_f_shape(e, r), 2), identity = td_f_identity(e, r, n);
    const struct td_value square = td_f_concat(e, TD_IN(batch, unknowns, unknowns), 0);
    const struct td_value column = td_f_concat(e, TD_IN(batch, unknowns, td_f_ints(e, 1)), 0);
    const struct td_value left = kronecker(e, r, identity, "...ji,kl->...ikjl", square);
    const struct td_value right = kronecker(e, r, identity, "...kl,ij->...ikjl", square);
    const struct td_value dr = td_f_reshape(e, td_grad_at(g, 0), column);
    const struct td_value da = td_f_2(e, "MatrixSolve", td_f_add(e, left, right), dr);
    td_grad_give(g, 0, td_f_reshape_like(e, da, r));
}

/* ------------------------------------------------------------------ systems of equations */

/* The gradient by a dense A of op(A) X = B, where db is that by B. */
static struct td_value of_matrix(struct td_grad *g, struct td_value db)
{
    const struct td_value x = td_grad_out(g, 0);
    const bool adjoint = td_attr_bool(g->node, "adjoint");
    return td_f_neg(g->e, adjoint ? td_f_batch_matmul(g->e, x, db, false, true)
                                  : td_f_batch_matmul(g->e, db, x, false, true));
}

void td_matrix_solve_grad(struct td_grad *g)
{
    const bool adjoint = td_attr_bool(g->node, "adjoint");
    const struct td_value db = td_emit(g->e, "MatrixSolve", TD_IN(td_grad_in(g, 0), td_grad_at(g, 0)),
                                       TD_ATTRS(TD_ATTR_OF_BOOL("adjoint", !adjoint)));
    td_grad_give(g, 0, of_matrix(g, db));
    td_grad_give(g, 1, db);
}

void td_triangular_solve_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const bool adjoint = td_attr_bool(g->node, "adjoint"), lower = td_attr_bool(g->node, "lower");
    const struct td_value a = td_grad_in(g, 0);
    const struct td_value db = td_f_triangular_solve(e, a, td_grad_at(g, 0), lower, !adjoint);
    const struct td_value da = of_matrix(g, db);
    td_grad_give(g, 0, td_f_sum_to(e, lower ? td_f_lower(e, da) : td_f_upper(e, da), a));
    td_grad_give(g, 1, td_f_sum_to(e, db, td_grad_in(g, 1)));
}

void td_banded_solve_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const bool adjoint = td_attr_bool(g->node, "adjoint"), lower = td_attr_bool(g->node, "lower");
    const struct td_value a = td_grad_in(g, 0), zero = td_f_ints(e, 0);
    const struct td_value db =
        td_emit(e, "BandedTriangularSolve", TD_IN(a, td_grad_at(g, 0)),
                TD_ATTRS(TD_ATTR_OF_BOOL("lower", lower), TD_ATTR_OF_BOOL("adjoint", !adjoint)));
    const struct td_value most = td_f_sub(e, td_f_dim(e, a, 2), td_f_ints(e, 1));
    const struct td_value bands =
        lower ? td_f_concat(e, TD_IN(td_f_neg(e, most), zero), 0) : td_f_concat(e, TD_IN(zero, most), 0);
    const struct td_value whole = of_matrix(g, db);
    const struct td_value da = td_emit(e, "MatrixDiagPartV3", TD_IN(whole, bands, td_f_number(e, a, 0)),
                                       TD_ATTRS(TD_ATTR_OF_TEXT("align", "LEFT_RIGHT")));
    /* a single diagonal has no axis of its own there */
    const struct td_value batch = td_f_but_last(e, td_f_shape(e, whole), 2);
    const struct td_value compact = td_f_concat(e, TD_IN(batch, td_f_dim(e, a, 2), td_f_dim(e, a, 1)), 0);
    td_grad_give(g, 0, td_f_sum_to(e, td_f_reshape(e, da, compact), a));
    td_grad_give(g, 1, td_f_sum_to(e, db, td_grad_in(g, 1)));
}

/* ------------------------------------------------------------------ three diagonals
 *
 * Compact diagonals [.., 3, n]: row 0 above the main one, without its last element, row 2 below, without its
 * first. */

/* Rows of x [.., n, k] moved towards the first one, and towards the last; zeros follow. */
static struct td_value shift_up(struct td_emitter *e, struct td_value x)
{
    const struct td_value one = td_f_ints(e, 1);
    const struct td_value zeros = td_f_zeros_like(e, td_f_rows(e, x, td_no_value, one));
    return td_f_concat(e, TD_IN(td_f_rows(e, x, one, td_no_value), zeros), -2);
}

static struct td_value shift_down(struct td_emitter *e, struct td_value x)
{
    const struct td_value zeros = td_f_zeros_like(e, td_f_rows(e, x, td_no_value, td_f_ints(e, 1)));
    return td_f_concat(e, TD_IN(zeros, td_f_rows(e, x, td_no_value, td_f_ints(e, -1))), -2);
}

/* Sum over the columns of x * y as a row [.., 1, n]. */
static struct td_value diagonal_of(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_expand(e, td_f_sum(e, td_f_mul(e, x, y), td_f_int(e, -1), false), -2);
}

void td_tridiagonal_matmul_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), x = td_f_conj(e, td_grad_in(g, 3));
    td_grad_give(g, 0, diagonal_of(e, shift_up(e, x), dy));
    td_grad_give(g, 1, diagonal_of(e, x, dy));
    td_grad_give(g, 2, diagonal_of(e, shift_down(e, x), dy));
    const struct td_value above = td_f_mul(e, td_f_adjoint(e, td_grad_in(g, 0)), dy);
    const struct td_value on = td_f_mul(e, td_f_adjoint(e, td_grad_in(g, 1)), dy);
    const struct td_value below = td_f_mul(e, td_f_adjoint(e, td_grad_in(g, 2)), dy);
    td_grad_give(g, 3, td_f_add(e, td_f_add(e, shift_down(e, above), on), shift_up(e, below)));
}

/* The compact diagonals of the transposed matrix. */
static struct td_value transposed(struct td_emitter *e, struct td_value diagonals)
{
    const struct td_value one = td_f_ints(e, 1), two = td_f_ints(e, 2);
    const struct td_value columns = td_f_swap(e, diagonals); /* [.., n, 3] */
    const struct td_value above = shift_up(e, td_f_columns(e, columns, two, td_no_value));
    const struct td_value below = shift_down(e, td_f_columns(e, columns, td_no_value, one));
    return td_f_swap(e, td_f_concat(e, TD_IN(above, td_f_columns(e, columns, one, two), below), -1));
}

void td_tridiagonal_solve_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value in[] = {transposed(e, td_grad_in(g, 0)), td_grad_at(g, 0)};
    const struct td_value db =
        td_f_as(e, "TridiagonalSolve", in, 2, g->node, "partial_pivoting,perturb_singular");
    const struct td_value x = td_grad_out(g, 0);
    const struct td_value rows[] = {diagonal_of(e, db, shift_up(e, x)), diagonal_of(e, db, x),
                                    diagonal_of(e, db, shift_down(e, x))};
    td_grad_give(g, 0, td_f_neg(e, td_f_concat(e, rows, 3, -2)));
    td_grad_give(g, 1, db);
}
