/* kernels/linalg/linalg_solve.c - systems of equations: Cholesky, inverse, determinants, LU, solvers of
 * square and triangular systems.
 *
 *     input [.., N, N]   ->   factor, inverse, determinant, solution
 *
 * Every matrix of a batch is computed in double or complex double (zmatrix.h): one body an op, compiled for
 * both.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/ops.h"
#include "kernels/linalg/linalg_solve_grad.h"
#include "kernels/linalg/zmatrix.h"

/* ------------------------------------------------------------------ shapes */

static enum td_code square_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code det_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want_square(c, 0, "Input matrix must be square.", err));
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = td_zmatrix_with_tail(&c->in[0], 0, 0, 0);
    }
    return TD_OK;
}

static enum td_code solve_infer(struct td_infer *c, struct td_err *err)
{
    return td_zmatrix_solve_shapes(c, true, err);
}

static enum td_code triangular_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    TD_TRY(td_zmatrix_want_square(c, 0, "In[0] matrices in the last dimensions must be square.", err));
    TD_TRY(td_zmatrix_want(c, 1, err));
    if (a->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(td_zmatrix_cols(a) >= 0 && td_zmatrix_rows(b) >= 0 && td_zmatrix_cols(a) != td_zmatrix_rows(b),
               err, INVALID_ARGUMENT, "%s: In[0] mismatch In[1] shape: %lld vs. %lld: %s %s",
               TD_NODE_STR(c->node), (long long)td_zmatrix_cols(a), (long long)td_zmatrix_rows(b),
               TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    return td_zmatrix_broadcast_batch(c, err);
}

static enum td_code lu_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = c->in[0];
    c->out[1] = td_zmatrix_with_tail(&c->in[0], 1, td_zmatrix_rows(&c->in[0]), 0);
    return TD_OK;
}

/* ------------------------------------------------------------------ running */

#define E td_zc
#define NAME(x) x##_complex
#define MATRIX(x) td_zmatrix_##x
#define SIZE(x) cabs(x)
#include "kernels/linalg/linalg_solve_plain.inc"
#undef E
#undef NAME
#undef MATRIX
#undef SIZE
#define E double
#define NAME(x) x##_real
#define MATRIX(x) td_dmatrix_##x
#define SIZE(x) fabs(x)
#include "kernels/linalg/linalg_solve_plain.inc"

#define EITHER(fn)                                                                                           \
    static enum td_code fn(struct td_call *c, struct td_err *err)                                            \
    {                                                                                                        \
        bool real = c->in[0]->dtype != TD_COMPLEX64 && c->in[0]->dtype != TD_COMPLEX128;                     \
        return real ? fn##_real(c, err) : fn##_complex(c, err);                                              \
    }
EITHER(cholesky_run)
EITHER(inverse_run)
EITHER(solve_run)
EITHER(det_run)
EITHER(log_det_run)
EITHER(lu_run)
EITHER(triangular_run)

/* ------------------------------------------------------------------ table */

#define SET_LAPACK (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)
#define SET_INVERSE (SET_LAPACK | TD_BIT(TD_HALF))
#define OP(op, signature, axes, shape, fn, kernel_name, set, gradient)                                       \
    {                                                                                                        \
        .name = op, .sig = signature, axes, .infer = shape,                                                  \
        .kernels = TD_KERNEL(kernel_name, fn, {"T", set}), .grad = gradient                                  \
    }
#define MAP2 .batchable = TD_BATCHABLE(td_batchable_map2), .permute = &td_permute_map2
#define NONE .batchable = NULL /* not known to keep rows apart */
#define UNARY "(input:T) -> (output:T) {T:type}"
#define INVERSE "(input:T) -> (output:T) {adjoint:bool=false; T:type}"
#define LOWER_ADJOINT "(matrix:T, rhs:T) -> (output:T) {lower:bool=true; adjoint:bool=false; T:type}"
#define ADJOINT "(matrix:T, rhs:T) -> (output:T) {adjoint:bool=false; T:type}"

const struct td_op td_ops_linalg_solve[] = {
    OP("Cholesky", UNARY, MAP2, square_infer, cholesky_run, "cholesky.cpu", SET_LAPACK, td_cholesky_grad),
    OP("BatchCholesky", UNARY, MAP2, square_infer, cholesky_run, "cholesky.cpu", SET_LAPACK,
       td_cholesky_grad),
    OP("MatrixInverse", INVERSE, MAP2, square_infer, inverse_run, "matrix_inverse.cpu", SET_INVERSE,
       td_matrix_inverse_grad),
    OP("BatchMatrixInverse", INVERSE, MAP2, square_infer, inverse_run, "matrix_inverse.cpu", SET_INVERSE,
       td_matrix_inverse_grad),
    OP("MatrixDeterminant", UNARY, MAP2, det_infer, det_run, "matrix_determinant.cpu", SET_LAPACK,
       td_matrix_determinant_grad),
    OP("BatchMatrixDeterminant", UNARY, MAP2, det_infer, det_run, "matrix_determinant.cpu", SET_LAPACK,
       td_matrix_determinant_grad),
    OP("LogMatrixDeterminant", "(input:T) -> (sign:T, log_abs_determinant:T) {T:type}", MAP2, det_infer,
       log_det_run, "matrix_determinant.cpu", SET_LAPACK, td_log_matrix_determinant_grad),
    OP("MatrixSolve", ADJOINT, NONE, solve_infer, solve_run, "matrix_solve.cpu", SET_LAPACK,
       td_matrix_solve_grad),
    OP("BatchMatrixSolve", ADJOINT, NONE, solve_infer, solve_run, "matrix_solve.cpu", SET_LAPACK,
       td_matrix_solve_grad),
    OP("MatrixTriangularSolve", LOWER_ADJOINT, NONE, triangular_infer, triangular_run, "triangular_solve.cpu",
       SET_LAPACK, td_triangular_solve_grad),
    OP("BatchMatrixTriangularSolve", LOWER_ADJOINT, NONE, triangular_infer, triangular_run,
       "triangular_solve.cpu", SET_LAPACK, td_triangular_solve_grad),
    {.name = "Lu",
     .sig = "(input:T) -> (lu:T, p:output_idx_type) {T:type; output_idx_type:type=int32}",
     .infer = lu_infer,
     .kernels = TD_KERNEL("lu.cpu", lu_run, {"T", SET_LAPACK}, {"output_idx_type", TD_SET_INDEX})},
    {.name = NULL},
};
