/* kernels/linalg/linalg.c - QR, singular values, eigenvalues, least squares: the ops that call LAPACK (loaded
 * by kernels/dense/blas.c).
 *
 *     input [.., M, N]   ->   factors, values, vectors, solution
 *
 * Every matrix is computed in complex double (zmatrix.h), whatever its type: real data stay real through all
 * of these algorithms, and float results are better than in float. LAPACK is column-major: matrices are
 * transposed on the way in and out. Results that are unique up to sign may differ in sign from other
 * libraries.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/dense/blas.h"
#include "kernels/ops.h"
#include "kernels/linalg/linalg_grad.h"
#include "kernels/linalg/zmatrix.h"

static_assert(sizeof(td_zc) == sizeof(lapack_complex_double), "LAPACK's complex numbers are C's");

/* ------------------------------------------------------------------ shapes */

static int64_t lesser(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : a < b ? a : b;
}

static enum td_code qr_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want(c, 0, err));
    int64_t m = td_zmatrix_rows(&c->in[0]), n = td_zmatrix_cols(&c->in[0]);
    int64_t p = td_attr_bool(c->node, "full_matrices") ? m : lesser(m, n);
    c->out[0] = td_zmatrix_with_tail(&c->in[0], 2, m, p);
    c->out[1] = td_zmatrix_with_tail(&c->in[0], 2, p, n);
    return TD_OK;
}

static enum td_code svd_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want(c, 0, err));
    int64_t m = td_zmatrix_rows(&c->in[0]), n = td_zmatrix_cols(&c->in[0]), p = lesser(m, n);
    bool full = td_attr_bool(c->node, "full_matrices");
    c->out[0] = td_zmatrix_with_tail(&c->in[0], 1, p, 0);
    c->out[1] = c->out[2] = td_shape_scalar();
    if (td_attr_bool(c->node, "compute_uv")) {
        c->out[1] = td_zmatrix_with_tail(&c->in[0], 2, m, full ? m : p);
        c->out[2] = td_zmatrix_with_tail(&c->in[0], 2, n, full ? n : p);
    }
    return TD_OK;
}

static enum td_code eig_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = td_zmatrix_with_tail(&c->in[0], 1, td_zmatrix_rows(&c->in[0]), 0);
    c->out[1] = td_attr_bool(c->node, "compute_v") ? c->in[0] : td_shape_scalar();
    return TD_OK;
}

static enum td_code solve_ls_infer(struct td_infer *c, struct td_err *err)
{
    return td_zmatrix_solve_shapes(c, false, err);
}

/* ------------------------------------------------------------------ QR */

struct lapack {
    const struct td_blas *lib;
    td_zc *a, *work;
    double *rwork;
    lapack_int *iwork;
    lapack_int lwork;
};

struct qr {
    lapack_int m, n, p; /* of q [m,p] */
    td_zc *q, *tau;
    struct lapack l;
};

/* Householder vectors of l.a, a column-major [m,n]; then q [m,p] out of them. */
static enum td_code qr_one(const struct td_call *c, struct qr *d, struct td_err *err)
{
    struct lapack *l = &d->l;
    lapack_int info = 0, m = d->m, n = d->n, p = d->p, k = m < n ? m : n;
    l->lib->zgeqrf(&m, &n, l->a, &m, d->tau, l->work, &l->lwork, &info);
    TD_FAIL_IF(info != 0, err, INTERNAL, "%s: QR stopped with %d", TD_NODE_STR(c->node), (int)info);
    memset(d->q, 0, (size_t)m * (size_t)p * sizeof *d->q);
    memcpy(d->q, l->a, (size_t)m * (size_t)k * sizeof *d->q);
    l->lib->zungqr(&m, &p, &k, d->q, &m, d->tau, l->work, &l->lwork, &info);
    TD_FAIL_IF(info != 0, err, INTERNAL, "%s: QR stopped with %d", TD_NODE_STR(c->node), (int)info);
    return TD_OK;
}

static enum td_code qr_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *q, *r;
    TD_TRY(td_out(c, 0, NULL, &q, err));
    TD_TRY(td_out(c, 1, NULL, &r, err));
    int64_t m = td_zmatrix_rows(&c->in[0]->shape), n = td_zmatrix_cols(&c->in[0]->shape),
            p = td_zmatrix_cols(&q->shape);
    td_zc *x;
    struct qr d = {.m = (lapack_int)m,
                   .n = (lapack_int)n,
                   .p = (lapack_int)p,
                   .l = {.lwork = (lapack_int)((m > n ? m : n) * 32)}};
    TD_TRY(td_blas_get(&d.l.lib, err));
    TD_TRY(td_zmatrix_room(c, m * n, sizeof(td_zc), &x, err));
    TD_TRY(td_zmatrix_room(c, m * n, sizeof(td_zc), &d.l.a, err));
    TD_TRY(td_zmatrix_room(c, 2 * m * p, sizeof(td_zc), &d.q, err));
    TD_TRY(td_zmatrix_room(c, m + n, sizeof(td_zc), &d.tau, err));
    TD_TRY(td_zmatrix_room(c, d.l.lwork + 1, sizeof(td_zc), &d.l.work, err));
    for (int64_t b = 0, count = td_zmatrix_batch(&c->in[0]->shape); b < count && m * p > 0; b++) {
        td_zmatrix_load(x, c->in[0], b * m * n, m * n);
        td_zmatrix_transpose(d.l.a, x, m, n, false);
        if (n > 0) {
            TD_TRY(qr_one(c, &d, err));
        } else { /* full factor of nothing: the identity */
            td_zmatrix_fill(d.q, m * p, 0);
            for (int64_t i = 0; i < p; i++) {
                d.q[i * m + i] = 1;
            }
        }
        td_zmatrix_transpose(d.q + m * p, d.q, p, m, false);
        td_zmatrix_store(q, b * m * p, d.q + m * p, m * p);
        for (int64_t i = 0; i < p; i++) {
            for (int64_t j = 0; j < n; j++) {
                x[i * n + j] = j >= i ? d.l.a[j * m + i] : 0;
            }
        }
        td_zmatrix_store(r, b * p * n, x, p * n);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SVD */

struct svd {
    int64_t m, n, p, uw, vw; /* columns of u and v kept */
    td_zc *x, *u, *vh;
    double *s;
    struct lapack l;
};

static enum td_code svd_room(struct td_call *c, struct svd *d, bool vectors, bool full, struct td_err *err)
{
    int64_t m = d->m, n = d->n, p = m < n ? m : n, big = m > n ? m : n;
    d->p = p;
    d->uw = !vectors ? 0 : full ? m : p;
    d->vw = !vectors ? 0 : full ? n : p;
    int64_t work = p * p + 2 * p + big + 64 * (m + n) + 2 * p * p;
    TD_FAIL_IF(work > INT32_MAX || big > INT32_MAX, err, INVALID_ARGUMENT,
               "%s: matrix [%lld,%lld] is too large", TD_NODE_STR(c->node), (long long)m, (long long)n);
    d->l.lwork = (lapack_int)work;
    TD_TRY(td_blas_get(&d->l.lib, err));
    TD_TRY(td_zmatrix_room(c, m * n, sizeof(td_zc), &d->x, err));
    TD_TRY(td_zmatrix_room(c, m * n, sizeof(td_zc), &d->l.a, err));
    TD_TRY(td_zmatrix_room(c, 2 * m * m + 1, sizeof(td_zc), &d->u, err));
    TD_TRY(td_zmatrix_room(c, 2 * n * n + 1, sizeof(td_zc), &d->vh, err));
    TD_TRY(td_zmatrix_room(c, p + 1, sizeof(double), &d->s, err));
    TD_TRY(td_zmatrix_room(c, work, sizeof(td_zc), &d->l.work, err));
    TD_TRY(td_zmatrix_room(c, 7 * p * p + 2 * big * p + 7 * p + 1, sizeof(double), &d->l.rwork, err));
    return td_zmatrix_room(c, 8 * p + 1, sizeof(lapack_int), &d->l.iwork, err);
}

/* x [m,n] -> s, u (column-major [m,uw]), vh (column-major [vw,n]); NaN everywhere when x is not finite. */
static enum td_code svd_one(const struct td_call *c, struct svd *d, bool full, struct td_err *err)
{
    if (!td_zmatrix_finite(d->x, d->m * d->n)) {
        td_zmatrix_fill(d->u, d->m * d->uw, NAN);
        td_zmatrix_fill(d->vh, d->n * d->vw, NAN);
        for (int64_t i = 0; i < d->p; i++) {
            d->s[i] = NAN;
        }
        return TD_OK;
    }
    td_zmatrix_transpose(d->l.a, d->x, d->m, d->n, false);
    lapack_int m = (lapack_int)d->m, n = (lapack_int)d->n, ldv = (lapack_int)(d->vw > 0 ? d->vw : 1),
               info = 0;
    char job = d->uw == 0 ? 'N' : full ? 'A' : 'S';
    d->l.lib->zgesdd(&job, &m, &n, d->l.a, &m, d->s, d->u, &m, d->vh, &ldv, d->l.work, &d->l.lwork,
                     d->l.rwork, d->l.iwork, &info, 1);
    TD_FAIL_IF(info != 0, err, INTERNAL, "%s: SVD did not converge (%d)", TD_NODE_STR(c->node), (int)info);
    return TD_OK;
}

static enum td_code svd_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *s, *u, *v;
    TD_TRY(td_out(c, 0, NULL, &s, err));
    TD_TRY(td_out(c, 1, NULL, &u, err));
    TD_TRY(td_out(c, 2, NULL, &v, err));
    bool vectors = td_attr_bool(c->node, "compute_uv"), full = td_attr_bool(c->node, "full_matrices");
    struct svd d = {.m = td_zmatrix_rows(&c->in[0]->shape), .n = td_zmatrix_cols(&c->in[0]->shape)};
    TD_TRY(svd_room(c, &d, vectors, full, err));
    if (!vectors) {
        memset(u->data, 0, td_tensor_bytes(u));
        memset(v->data, 0, td_tensor_bytes(v));
    }
    for (int64_t b = 0, count = td_zmatrix_batch(&c->in[0]->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_zmatrix_load(d.x, c->in[0], b * d.m * d.n, d.m * d.n);
        if (d.p > 0) {
            TD_TRY(svd_one(c, &d, full, err));
        } else { /* of an empty matrix: identities, where there is anything at all */
            for (int64_t i = 0; i < d.m * d.uw; i++) {
                d.u[i] = i % (d.m + 1) == 0;
            }
            for (int64_t i = 0; i < d.n * d.vw; i++) {
                d.vh[i] = i % (d.n + 1) == 0;
            }
        }
        for (int64_t i = 0; i < d.p; i++) {
            td_zc value = d.s[i];
            td_zmatrix_store(s, b * d.p + i, &value, 1);
        }
        if (vectors) { /* u is column-major; v^H column-major is the conjugate of v row-major */
            td_zc *rows = d.u + d.m * d.m;
            td_zmatrix_transpose(rows, d.u, d.uw, d.m, false);
            td_zmatrix_store(u, b * d.m * d.uw, rows, d.m * d.uw);
            for (int64_t i = 0; i < d.n * d.vw; i++) {
                d.vh[i] = conj(d.vh[i]);
            }
            td_zmatrix_store(v, b * d.n * d.vw, d.vh, d.n * d.vw);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ eigenvalues */

struct eig {
    int64_t n;
    td_zc *x, *values, *vectors;
    double *w;
    struct lapack l;
};

static enum td_code eig_room(struct td_call *c, struct eig *d, struct td_err *err)
{
    int64_t n = d->n, work = 2 * n * n + 66 * n + 1;
    TD_FAIL_IF(work > INT32_MAX, err, INVALID_ARGUMENT, "%s: matrix [%lld,%lld] is too large",
               TD_NODE_STR(c->node), (long long)n, (long long)n);
    d->l.lwork = (lapack_int)work;
    TD_TRY(td_blas_get(&d->l.lib, err));
    TD_TRY(td_zmatrix_room(c, n * n, sizeof(td_zc), &d->x, err));
    TD_TRY(td_zmatrix_room(c, n * n, sizeof(td_zc), &d->l.a, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof(td_zc), &d->values, err));
    TD_TRY(td_zmatrix_room(c, n * n, sizeof(td_zc), &d->vectors, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof(double), &d->w, err));
    TD_TRY(td_zmatrix_room(c, work, sizeof(td_zc), &d->l.work, err));
    TD_TRY(td_zmatrix_room(c, 2 * n * n + 5 * n + 1, sizeof(double), &d->l.rwork, err));
    return td_zmatrix_room(c, 5 * n + 3, sizeof(lapack_int), &d->l.iwork, err);
}

/* Hermitian x, lower triangle read: values ascending; vectors in the columns. */
static lapack_int eig_hermitian(struct eig *d, bool vectors)
{
    lapack_int n = (lapack_int)d->n, info = 0, lrwork = (lapack_int)(2 * d->n * d->n + 5 * d->n + 1);
    lapack_int liwork = (lapack_int)(5 * d->n + 3);
    td_zmatrix_transpose(d->l.a, d->x, d->n, d->n, false);
    char job = vectors ? 'V' : 'N', uplo = 'L';
    d->l.lib->zheevd(&job, &uplo, &n, d->l.a, &n, d->w, d->l.work, &d->l.lwork, d->l.rwork, &lrwork,
                     d->l.iwork, &liwork, &info, 1, 1);
    for (int64_t i = 0; i < d->n; i++) {
        d->values[i] = d->w[i];
    }
    td_zmatrix_transpose(d->vectors, d->l.a, d->n, d->n, false);
    return info;
}

static lapack_int eig_general(struct eig *d, bool vectors)
{
    lapack_int n = (lapack_int)d->n, info = 0, one = 1;
    td_zc none;
    td_zmatrix_transpose(d->l.a, d->x, d->n, d->n, false);
    char left = 'N', right = vectors ? 'V' : 'N';
    d->l.lib->zgeev(&left, &right, &n, d->l.a, &n, d->values, &none, &one, d->x, &n, d->l.work, &d->l.lwork,
                    d->l.rwork, &info, 1, 1);
    td_zmatrix_transpose(d->vectors, d->x, d->n, d->n, false);
    return info;
}

static enum td_code eig_any(struct td_call *c, bool hermitian, struct td_err *err)
{
    struct td_tensor *e, *v;
    TD_TRY(td_out(c, 0, NULL, &e, err));
    TD_TRY(td_out(c, 1, NULL, &v, err));
    bool vectors = td_attr_bool(c->node, "compute_v");
    struct eig d = {.n = td_zmatrix_cols(&c->in[0]->shape)};
    TD_TRY(eig_room(c, &d, err));
    if (!vectors) {
        memset(v->data, 0, td_tensor_bytes(v));
    }
    for (int64_t b = 0, n = d.n, count = n == 0 ? 0 : td_zmatrix_batch(&c->in[0]->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_zmatrix_load(d.x, c->in[0], b * n * n, n * n);
        bool done = td_zmatrix_finite(d.x, n * n) &&
                    (hermitian ? eig_hermitian(&d, vectors) : eig_general(&d, vectors)) == 0;
        TD_FAIL_IF(!done, err, INVALID_ARGUMENT,
                   "%s: %s eigen decomposition was not successful. The input might not be valid.",
                   TD_NODE_STR(c->node), hermitian ? "Self-adjoint" : "");
        td_zmatrix_store(e, b * n, d.values, n);
        if (vectors) {
            td_zmatrix_store(v, b * n * n, d.vectors, n * n);
        }
    }
    return TD_OK;
}

static enum td_code eigh_run(struct td_call *c, struct td_err *err)
{
    return eig_any(c, true, err);
}
static enum td_code eig_run(struct td_call *c, struct td_err *err)
{
    return eig_any(c, false, err);
}

/* ------------------------------------------------------------------ least squares */

struct least_squares {
    int64_t m, n, k;
    const td_zc *a, *b; /* [m,n] [m,k] */
    td_zc *x;           /* [n,k] */
    double l2;
    td_zc *work; /* the adjoint, the square, and products: m n + p^2 + p k cells, p the less of m and n */
};

/* x = (A^H A + l2 I)^-1 A^H b, or A^H (A A^H + l2 I)^-1 b for fewer rows than columns; false when not
 * definite. */
static bool ls_normal(const struct least_squares *s)
{
    const td_zc *a = s->a, *b = s->b;
    const int64_t m = s->m, n = s->n, k = s->k, p = m < n ? m : n;
    td_zc *x = s->x, *adjoint = s->work, *square = adjoint + m * n, *rhs = square + p * p;
    td_zmatrix_transpose(adjoint, a, m, n, true);
    if (m >= n) {
        td_zmatrix_multiply(square, adjoint, a, n, m, n);
        td_zmatrix_multiply(rhs, adjoint, b, n, m, k);
    } else {
        td_zmatrix_multiply(square, a, adjoint, m, n, m);
        memcpy(rhs, b, (size_t)(m * k) * sizeof *rhs);
    }
    for (int64_t i = 0; i < p; i++) {
        square[i * p + i] += s->l2;
    }
    if (!td_zmatrix_cholesky(square, p)) {
        return false;
    }
    td_zmatrix_solve_triangle(square, rhs, p, k, (struct td_triangle){.lower = true});
    td_zmatrix_solve_triangle(square, rhs, p, k, (struct td_triangle){.lower = true, .adjoint = true});
    if (m >= n) {
        memcpy(x, rhs, (size_t)(n * k) * sizeof *x);
    } else {
        td_zmatrix_multiply(x, adjoint, rhs, n, m, k);
    }
    return true;
}

/* The solution of least norm, by singular values. */
static enum td_code ls_svd(struct td_call *c, struct svd *d, const td_zc *b, td_zc *x, int64_t k,
                           double epsilon, struct td_err *err)
{
    TD_TRY(svd_one(c, d, false, err));
    td_zmatrix_fill(x, d->n * k, 0);
    for (int64_t i = 0; i < d->p; i++) {
        if (!(d->s[i] > epsilon * d->s[0])) {
            break;
        }
        for (int64_t j = 0; j < k; j++) {
            td_zc sum = 0;
            for (int64_t r = 0; r < d->m; r++) {
                sum += conj(d->u[i * d->m + r]) * b[r * k + j];
            }
            for (int64_t q = 0; q < d->n; q++) {
                x[q * k + j] += conj(d->vh[q * d->p + i]) * sum / d->s[i];
            }
        }
    }
    return TD_OK;
}

static enum td_code solve_ls_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_FAIL_IF(td_tensor_count(c->in[2]) != 1, err, INVALID_ARGUMENT,
               "%s: l2_regularizer must be a scalar, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[2]->shape));
    double l2 = TD_DATA(c->in[2], double)[0];
    TD_FAIL_IF(!(l2 >= 0), err, INVALID_ARGUMENT, "%s: l2_regularizer must be >= 0, got %g",
               TD_NODE_STR(c->node), l2);
    int64_t m = td_zmatrix_rows(&c->in[0]->shape), n = td_zmatrix_cols(&c->in[0]->shape),
            k = td_zmatrix_cols(&y->shape), p = m < n ? m : n;
    struct svd d = {.m = m, .n = n};
    td_zc *rhs, *x, *work;
    bool fast = td_attr_bool(c->node, "fast");
    TD_TRY(td_zmatrix_room(c, m * k, sizeof(td_zc), &rhs, err));
    TD_TRY(td_zmatrix_room(c, n * k, sizeof(td_zc), &x, err));
    TD_TRY(td_zmatrix_room(c, m * n + p * p + p * k, sizeof(td_zc), &work, err));
    TD_TRY(svd_room(c, &d, true, false, err));
    const struct least_squares s = {
        .m = m, .n = n, .k = k, .a = d.x, .b = rhs, .x = x, .l2 = l2, .work = work};
    bool single = c->in[0]->dtype == TD_FLOAT || c->in[0]->dtype == TD_COMPLEX64;
    for (int64_t b = 0, count = n * k == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        td_zmatrix_load(d.x, c->in[0], b * m * n, m * n);
        td_zmatrix_load(rhs, c->in[1], b * m * k, m * k);
        if (m == 0) {
            td_zmatrix_fill(x, n * k, 0);
        } else if (fast) {
            TD_FAIL_IF(
                !ls_normal(&s), err, INVALID_ARGUMENT,
                "%s: Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
                "larger l2_regularizer > 0.",
                TD_NODE_STR(c->node));
        } else {
            TD_TRY(ls_svd(c, &d, rhs, x, k, (single ? 1.2e-7 : 2.3e-16) * (double)p, err));
        }
        td_zmatrix_store(y, b * n * k, x, n * k);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_LAPACK (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)
#define SET_INVERSE (SET_LAPACK | TD_BIT(TD_HALF))
#define OP(op, signature, shape, fn, kernel_name, set, gradient)                                             \
    {                                                                                                        \
        .name = op, .sig = signature, .infer = shape, .kernels = TD_KERNEL(kernel_name, fn, {"T", set}),     \
        .grad = gradient                                                                                     \
    }
#define EIGH "(input:T) -> (e:T, v:T) {compute_v:bool=true; T:type}"
#define SVD "(input:T) -> (s:T, u:T, v:T) {compute_uv:bool=true; full_matrices:bool=false; T:type}"
#define LEAST "(matrix:T, rhs:T, l2_regularizer:double) -> (output:T) {T:type; fast:bool=true}"

const struct td_op td_ops_linalg[] = {
    OP("Qr", "(input:T) -> (q:T, r:T) {full_matrices:bool=false; T:type}", qr_infer, qr_run, "qr.lapack",
       SET_INVERSE, td_qr_grad),
    OP("Svd", SVD, svd_infer, svd_run, "svd.lapack", SET_LAPACK, td_svd_grad),
    OP("BatchSvd", SVD, svd_infer, svd_run, "svd.lapack", SET_LAPACK, td_svd_grad),
    OP("SelfAdjointEigV2", EIGH, eig_infer, eigh_run, "self_adjoint_eig.lapack", SET_LAPACK,
       td_self_adjoint_eig_grad),
    OP("BatchSelfAdjointEigV2", EIGH, eig_infer, eigh_run, "self_adjoint_eig.lapack", SET_LAPACK,
       td_self_adjoint_eig_grad),
    OP("MatrixSolveLs", LEAST, solve_ls_infer, solve_ls_run, "matrix_solve_ls.cpu", SET_LAPACK,
       td_matrix_solve_ls_grad),
    OP("BatchMatrixSolveLs", LEAST, solve_ls_infer, solve_ls_run, "matrix_solve_ls.cpu", SET_LAPACK,
       td_matrix_solve_ls_grad),
    {.name = "Eig",
     .sig = "(input:T) -> (e:Tout, v:Tout) {compute_v:bool=true; T:type; Tout:type}",
     .infer = eig_infer,
     .grad = td_eig_grad,
     .kernels = TD_KERNEL("eig.lapack", eig_run, {"T", SET_LAPACK}, {"Tout", TD_SET_COMPLEX})},
    {.name = NULL},
};
