/* kernels/linalg_solve.c - systems of equations: Cholesky, inverse, determinants, LU, solvers of square and
 * triangular systems.
 *
 *     input [.., N, N]   ->   factor, inverse, determinant, solution
 *
 * Every matrix of a batch is computed in complex double (zmatrix.h), whatever its type: one body an op.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/ops.h"
#include "kernels/zmatrix.h"

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

/* ------------------------------------------------------------------ ops on square matrices */

static enum td_code cholesky_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    td_zc *a;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_zmatrix_cols(&y->shape);
    TD_TRY(td_zmatrix_room(c, n * n, sizeof *a, &a, err));
    for (int64_t b = 0, count = td_zmatrix_batch(&y->shape); b < count && n > 0; b++) {
        td_zmatrix_load(a, c->in[0], b * n * n, n * n);
        if (!td_zmatrix_cholesky(a, n)) { /* as TensorFlow: no error, NaN */
            td_zmatrix_fill(a, n * n, NAN);
        }
        td_zmatrix_store(y, b * n * n, a, n * n);
    }
    return TD_OK;
}

/* The factors of matrix b of input 0 (or of its adjoint). */
static bool load_lu(struct td_call *c, int64_t b, int64_t n, bool adjoint, td_zc *a, td_zc *spare, int64_t *p,
                    double *sign)
{
    td_zmatrix_load(a, c->in[0], b * n * n, n * n);
    if (adjoint) {
        memcpy(spare, a, (size_t)(n * n) * sizeof *a);
        td_zmatrix_turn(a, spare, n, n, true);
    }
    return td_zmatrix_lu(a, n, p, sign);
}

static enum td_code solve_any(struct td_call *c, bool inverse, struct td_err *err)
{
    struct td_tensor *y;
    td_zc *a, *rhs, *x;
    int64_t *p;
    double sign;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_zmatrix_rows(&y->shape), m = td_zmatrix_cols(&y->shape), most = n > m ? n : m;
    TD_TRY(td_zmatrix_room(c, n * n, sizeof *a, &a, err));
    TD_TRY(td_zmatrix_room(c, n * most, sizeof *a, &rhs, err));
    TD_TRY(td_zmatrix_room(c, n * m, sizeof *a, &x, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof *p, &p, err));
    bool adjoint = td_attr_bool(c->node, "adjoint");
    for (int64_t b = 0, count = n * m == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_FAIL_IF(!load_lu(c, b, n, adjoint, a, rhs, p, &sign), err, INVALID_ARGUMENT,
                   "%s: Input%s is not invertible.", TD_NODE_STR(c->node), inverse ? "" : " matrix");
        if (inverse) {
            td_zmatrix_fill(rhs, n * n, 0);
            for (int64_t i = 0; i < n; i++) {
                rhs[i * n + i] = 1;
            }
        } else {
            td_zmatrix_load(rhs, c->in[1], b * n * m, n * m);
        }
        td_zmatrix_solve_lu(a, p, rhs, x, n, m);
        td_zmatrix_store(y, b * n * m, x, n * m);
    }
    return TD_OK;
}

static enum td_code inverse_run(struct td_call *c, struct td_err *err)
{
    return solve_any(c, true, err);
}
static enum td_code solve_run(struct td_call *c, struct td_err *err)
{
    return solve_any(c, false, err);
}

static enum td_code det_any(struct td_call *c, bool logarithm, struct td_err *err)
{
    struct td_tensor *y, *log_abs = NULL;
    td_zc *a;
    int64_t *p, n = td_zmatrix_cols(&c->in[0]->shape);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (logarithm) {
        TD_TRY(td_out(c, 1, NULL, &log_abs, err));
    }
    TD_TRY(td_zmatrix_room(c, n * n, sizeof *a, &a, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof *p, &p, err));
    for (int64_t b = 0; b < td_tensor_count(y); b++) {
        double sign, log_sum = 0;
        (void)load_lu(c, b, n, false, a, NULL, p, &sign);
        td_zc det = sign;
        for (int64_t i = 0; i < n; i++) {
            td_zc d = a[i * n + i];
            double size = cabs(d);
            log_sum += log(size);
            det *= !logarithm ? d : size > 0 ? d / size : 0;
        }
        td_zmatrix_store(y, b, &det, 1);
        if (logarithm) {
            td_zc v = log_sum;
            td_zmatrix_store(log_abs, b, &v, 1);
        }
    }
    return TD_OK;
}

static enum td_code det_run(struct td_call *c, struct td_err *err)
{
    return det_any(c, false, err);
}
static enum td_code log_det_run(struct td_call *c, struct td_err *err)
{
    return det_any(c, true, err);
}

static enum td_code lu_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y, *perm;
    td_zc *a;
    int64_t *p;
    double sign;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &perm, err));
    int64_t n = td_zmatrix_cols(&y->shape);
    TD_TRY(td_zmatrix_room(c, n * n, sizeof *a, &a, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof *p, &p, err));
    for (int64_t b = 0, count = n == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        TD_FAIL_IF(!load_lu(c, b, n, false, a, NULL, p, &sign), err, INVALID_ARGUMENT,
                   "%s: Input is not invertible.", TD_NODE_STR(c->node));
        td_zmatrix_store(y, b * n * n, a, n * n);
        for (int64_t i = 0; i < n; i++) {
            if (perm->dtype == TD_INT32) {
                TD_DATA(perm, int32_t)[b * n + i] = (int32_t)p[i];
            } else {
                TD_DATA(perm, int64_t)[b * n + i] = p[i];
            }
        }
    }
    return TD_OK;
}

static enum td_code triangular_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    td_zc *a, *x;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_zmatrix_rows(&y->shape), m = td_zmatrix_cols(&y->shape);
    TD_TRY(td_zmatrix_room(c, n * n, sizeof *a, &a, err));
    TD_TRY(td_zmatrix_room(c, n * m, sizeof *x, &x, err));
    struct td_triangle t = {.lower = td_attr_bool(c->node, "lower"),
                            .adjoint = td_attr_bool(c->node, "adjoint")};
    for (int64_t b = 0, count = n * m == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_zmatrix_load(a, c->in[0], td_zmatrix_broadcast_at(&c->in[0]->shape, &y->shape, b) * n * n, n * n);
        td_zmatrix_load(x, c->in[1], td_zmatrix_broadcast_at(&c->in[1]->shape, &y->shape, b) * n * m, n * m);
        td_zmatrix_solve_triangle(a, x, n, m, t);
        td_zmatrix_store(y, b * n * m, x, n * m);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_LAPACK (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)
#define SET_INVERSE (SET_LAPACK | TD_BIT(TD_HALF))
#define OP(op, signature, axes, shape, fn, kernel_name, set)                                                 \
    {                                                                                                        \
        .name = op, .sig = signature, .rows = axes, .infer = shape,                                          \
        .kernels = TD_KERNEL(kernel_name, fn, {"T", set})                                                    \
    }
#define UNARY "(input:T) -> (output:T) {T:type}"
#define INVERSE "(input:T) -> (output:T) {adjoint:bool=false; T:type}"
#define LOWER_ADJOINT "(matrix:T, rhs:T) -> (output:T) {lower:bool=true; adjoint:bool=false; T:type}"
#define ADJOINT "(matrix:T, rhs:T) -> (output:T) {adjoint:bool=false; T:type}"

const struct td_op td_ops_linalg_solve[] = {
    OP("Cholesky", UNARY, TD_ROWS_MAP2, square_infer, cholesky_run, "cholesky.cpu", SET_LAPACK),
    OP("BatchCholesky", UNARY, TD_ROWS_MAP2, square_infer, cholesky_run, "cholesky.cpu", SET_LAPACK),
    OP("MatrixInverse", INVERSE, TD_ROWS_MAP2, square_infer, inverse_run, "matrix_inverse.cpu", SET_INVERSE),
    OP("BatchMatrixInverse", INVERSE, TD_ROWS_MAP2, square_infer, inverse_run, "matrix_inverse.cpu",
       SET_INVERSE),
    OP("MatrixDeterminant", UNARY, TD_ROWS_MAP2, det_infer, det_run, "matrix_determinant.cpu", SET_LAPACK),
    OP("BatchMatrixDeterminant", UNARY, TD_ROWS_MAP2, det_infer, det_run, "matrix_determinant.cpu",
       SET_LAPACK),
    OP("LogMatrixDeterminant", "(input:T) -> (sign:T, log_abs_determinant:T) {T:type}", TD_ROWS_MAP2,
       det_infer, log_det_run, "matrix_determinant.cpu", SET_LAPACK),
    OP("MatrixSolve", ADJOINT, TD_ROWS_NONE, solve_infer, solve_run, "matrix_solve.cpu", SET_LAPACK),
    OP("BatchMatrixSolve", ADJOINT, TD_ROWS_NONE, solve_infer, solve_run, "matrix_solve.cpu", SET_LAPACK),
    OP("MatrixTriangularSolve", LOWER_ADJOINT, TD_ROWS_NONE, triangular_infer, triangular_run,
       "triangular_solve.cpu", SET_LAPACK),
    OP("BatchMatrixTriangularSolve", LOWER_ADJOINT, TD_ROWS_NONE, triangular_infer, triangular_run,
       "triangular_solve.cpu", SET_LAPACK),
    {.name = "Lu",
     .sig = "(input:T) -> (lu:T, p:output_idx_type) {T:type; output_idx_type:type=int32}",
     .infer = lu_infer,
     .kernels = TD_KERNEL("lu.cpu", lu_run, {"T", SET_LAPACK}, {"output_idx_type", TD_SET_INDEX})},
    {.name = NULL},
};
