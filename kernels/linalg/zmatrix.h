/* kernels/linalg/zmatrix.h - matrices of complex doubles and of doubles: what the linear algebra ops compute
 * with.
 *
 * td_zmatrix_ are of complex numbers, td_dmatrix_ the same of real ones. Row-major, dense, in scratch of the
 * call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_ZMATRIX_H
#define TD_KERNELS_LINALG_ZMATRIX_H

#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/graph/graph.h"

typedef double _Complex td_zc;

/* Elements [from, from + n) of t as complex doubles, and back (rounded; a real t takes the real part). */
void td_zmatrix_load(td_zc *y, const struct td_tensor *t, int64_t from, int64_t n);
void td_zmatrix_store(struct td_tensor *t, int64_t from, const td_zc *x, int64_t n);

/* Scratch for n cells of `size` bytes. */
TD_MUST enum td_code td_zmatrix_room(struct td_call *c, int64_t n, size_t size, void *out,
                                     struct td_err *err);

/* y [n,m] = x [m,n] transposed, conjugated when `adjoint`. */
void td_zmatrix_transpose(td_zc *y, const td_zc *x, int64_t m, int64_t n, bool adjoint);

/* c [m,n] = a [m,k] * b [k,n] */
void td_zmatrix_multiply(td_zc *c, const td_zc *a, const td_zc *b, int64_t m, int64_t k, int64_t n);
void td_zmatrix_fill(td_zc *x, int64_t n, double v);
bool td_zmatrix_finite(const td_zc *x, int64_t n);

/* Shapes: the last two dimensions (-1 while unknown), the number of matrices before them, and the batch
 * dimensions followed by up to two others. */
int64_t td_zmatrix_rows(const struct td_shape *s);
int64_t td_zmatrix_cols(const struct td_shape *s);
int64_t td_zmatrix_batch(const struct td_shape *s);
struct td_shape td_zmatrix_with_tail(const struct td_shape *s, int n_tail, int64_t a, int64_t b);

/* Checks for shape functions: input i has rank 2 or more; and is square, else INVALID_ARGUMENT starting with
 * text. */
TD_MUST enum td_code td_zmatrix_want(const struct td_infer *c, int i, struct td_err *err);
TD_MUST enum td_code td_zmatrix_want_square(const struct td_infer *c, int i, const char *text,
                                            struct td_err *err);

/* (matrix, rhs) with equal batch dimensions -> out[0]; the matrix `square`, or any rectangle for least
 * squares. */
TD_MUST enum td_code td_zmatrix_solve_shapes(struct td_infer *c, bool square, struct td_err *err);

/* out[0] = in[1]'s matrices for the broadcast batch of both inputs, whose ranks are known. */
TD_MUST enum td_code td_zmatrix_broadcast_batch(struct td_infer *c, struct td_err *err);
/* Which matrix of a batch of shape s serves matrix i of the broadcast batch of shape out. */
int64_t td_zmatrix_broadcast_at(const struct td_shape *s, const struct td_shape *out, int64_t i);

static inline td_zc td_zmatrix_number(double real, double imaginary)
{
    const double parts[2] = {real, imaginary};
    td_zc z;
    memcpy(&z, parts, sizeof z);
    return z;
}

/* a / b by the greater part of b: step by step what a device does (kernels/cuda/linalg/matrix.cuh), so that a
 * pivot is zero there where it is zero here. */
static inline td_zc td_zmatrix_quotient(td_zc a, td_zc b)
{
    const double p = creal(a), q = cimag(a), c = creal(b), d = cimag(b);
    if (fabs(c) < fabs(d)) {
        const double ratio = c / d, of = c * ratio + d;
        return td_zmatrix_number((p * ratio + q) / of, (q * ratio - p) / of);
    }
    const double ratio = d / c, of = d * ratio + c;
    return td_zmatrix_number((q * ratio + p) / of, (q - p * ratio) / of);
}

/* a [n,n] becomes L (unit diagonal, not stored) and U; row i of the result was row p[i]. *sign is the
 * permutation's. False when a pivot is zero or the first one NaN, which is what Eigen's smallest pivot tells;
 * the factors are complete all the same. */
bool td_zmatrix_lu(td_zc *a, int64_t n, int64_t *p, double *sign);

/* Lower factor of a hermitian a [n,n], of which the lower triangle is read. False when a is not positive
 * definite. */
bool td_zmatrix_cholesky(td_zc *a, int64_t n);

struct td_triangle {
    bool lower, adjoint, unit;
};

/* b [n,m] becomes the solution of op(a) x = b, a triangular [n,n]. */
void td_zmatrix_solve_triangle(const td_zc *a, td_zc *b, int64_t n, int64_t m, struct td_triangle t);
/* x [n,m] = the solution of a x = b for factors made by td_zmatrix_lu. */
void td_zmatrix_solve_lu(const td_zc *a, const int64_t *p, const td_zc *b, td_zc *x, int64_t n, int64_t m);

/* ------------------------------------------------------------------ the same of doubles */

void td_dmatrix_load(double *y, const struct td_tensor *t, int64_t from, int64_t n); /* t real */
void td_dmatrix_store(struct td_tensor *t, int64_t from, const double *x, int64_t n);
void td_dmatrix_transpose(double *y, const double *x, int64_t m, int64_t n, bool adjoint);
void td_dmatrix_multiply(double *c, const double *a, const double *b, int64_t m, int64_t k, int64_t n);
void td_dmatrix_fill(double *x, int64_t n, double v);
bool td_dmatrix_lu(double *a, int64_t n, int64_t *p, double *sign);
bool td_dmatrix_cholesky(double *a, int64_t n);
void td_dmatrix_solve_triangle(const double *a, double *b, int64_t n, int64_t m, struct td_triangle t);
void td_dmatrix_solve_lu(const double *a, const int64_t *p, const double *b, double *x, int64_t n, int64_t m);

#endif
