/* kernels/linalg.c - decompositions and solvers of (batches of) matrices; the only file that calls LAPACK.
 *
 *     input [.., M, N]   ->   factors, inverse, determinant, solution, eigenvalues
 *
 * Every matrix is computed in complex double, whatever its type: real data stay real through all of these
 * algorithms, float results are better than in float, and there is one body a op. LU, Cholesky and triangular
 * solves are loops of our own; QR, SVD and eigenvalues are LAPACK's (column-major: matrices are turned on the
 * way in and out). Results of an op whose factors are unique up to sign may differ in sign from other
 * libraries.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/blas.h"
#include "kernels/ops.h"
#include "kernels/widen.h"

typedef double _Complex zc;
static_assert(sizeof(zc) == sizeof(lapack_complex_double), "LAPACK's complex numbers are C's");

/* ------------------------------------------------------------------ in and out */

static void load(zc *y, const struct td_tensor *t, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double v;
        if (t->dtype == TD_COMPLEX64) {
            y[i] = TD_DATA(t, float _Complex)[from + i];
        } else if (t->dtype == TD_COMPLEX128) {
            y[i] = TD_DATA(t, zc)[from + i];
        } else {
            td_widen_doubles(&v, (const char *)t->data + (size_t)(from + i) * td_dtype_size(t->dtype),
                             t->dtype, 1);
            y[i] = v;
        }
    }
}

static void store(struct td_tensor *t, int64_t from, const zc *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == TD_COMPLEX64) {
            TD_DATA(t, float _Complex)[from + i] = (float _Complex)x[i];
        } else if (t->dtype == TD_COMPLEX128) {
            TD_DATA(t, zc)[from + i] = x[i];
        } else {
            double v = creal(x[i]);
            td_narrow_doubles((char *)t->data + (size_t)(from + i) * td_dtype_size(t->dtype), &v, t->dtype,
                              1);
        }
    }
}

static enum td_code room(struct td_call *c, int64_t n, size_t size, void *out, struct td_err *err)
{
    size_t bytes;
    TD_FAIL_IF(!td_size_mul((size_t)n, size, &bytes), err, RESOURCE_EXHAUSTED,
               "%s: %lld cells do not fit memory", TD_NODE_STR(c->node), (long long)n);
    return td_scratch(c, bytes, (void **)out, err);
}

/* y [n,m] = x [m,n] turned, conjugated when `adjoint`. */
static void turn(zc *y, const zc *x, int64_t m, int64_t n, bool adjoint)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            y[j * m + i] = adjoint ? conj(x[i * n + j]) : x[i * n + j];
        }
    }
}

static bool all_finite(const zc *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(creal(x[i])) || !isfinite(cimag(x[i]))) {
            return false;
        }
    }
    return true;
}

static void fill(zc *x, int64_t n, double v)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = v;
    }
}

/* c [m,n] = a [m,k] * b [k,n] */
static void multiply(zc *c, const zc *a, const zc *b, int64_t m, int64_t k, int64_t n)
{
    fill(c, m * n, 0);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t p = 0; p < k; p++) {
            for (int64_t j = 0; j < n; j++) {
                c[i * n + j] += a[i * k + p] * b[p * n + j];
            }
        }
    }
}

/* ------------------------------------------------------------------ shapes */

static int64_t rows_of(const struct td_shape *s)
{
    return s->rank < 2 ? -1 : s->dim[s->rank - 2];
}
static int64_t cols_of(const struct td_shape *s)
{
    return s->rank < 2 ? -1 : s->dim[s->rank - 1];
}

static enum td_code want_matrix(const struct td_infer *c, int i, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank < 2, err, INVALID_ARGUMENT,
               "%s: Input tensor %d must have rank >= 2, got %d", TD_NODE_STR(c->node), i, c->in[i].rank);
    return TD_OK;
}

static enum td_code want_square(const struct td_infer *c, int i, const char *text, struct td_err *err)
{
    TD_TRY(want_matrix(c, i, err));
    int64_t m = rows_of(&c->in[i]), n = cols_of(&c->in[i]);
    TD_FAIL_IF(m >= 0 && n >= 0 && m != n, err, INVALID_ARGUMENT, "%s: %s Shape is %s", TD_NODE_STR(c->node),
               text, TD_SHAPE_STR(&c->in[i]));
    /* LAPACK counts in 32 bits */
    TD_FAIL_IF(m > INT32_MAX || n > INT32_MAX, err, INVALID_ARGUMENT, "%s: matrix of shape %s is too large",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[i]));
    return TD_OK;
}

/* The batch dimensions of s followed by up to two more; unknown when s is. */
static struct td_shape with_tail(const struct td_shape *s, int n_tail, int64_t a, int64_t b)
{
    struct td_shape out = *s;
    if (s->rank < 2) {
        return td_shape_unknown();
    }
    out.rank = s->rank - 2 + n_tail;
    int64_t tail[2] = {a, b};
    for (int i = 0; i < n_tail; i++) {
        out.dim[s->rank - 2 + i] = tail[i];
    }
    return out;
}

static enum td_code square_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code det_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(want_square(c, 0, "Input matrix must be square.", err));
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = with_tail(&c->in[0], 0, 0, 0);
    }
    return TD_OK;
}

/* (matrix, rhs) with equal batch dimensions; `square` or any rectangle for least squares. */
static enum td_code solve_shapes(struct td_infer *c, bool square, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    if (square) {
        TD_TRY(want_square(c, 0, "First input (lhs) must be a square matrix.", err));
    }
    TD_TRY(want_matrix(c, 0, err));
    TD_TRY(want_matrix(c, 1, err));
    if (a->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(a->rank != b->rank, err, INVALID_ARGUMENT,
               "%s: All input tensors must have the same rank. Shapes are %s and %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    for (int i = 0; i < a->rank - 1; i++) {
        TD_FAIL_IF(a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i], err, INVALID_ARGUMENT,
                   "%s: Input matrix and rhs are incompatible. Shapes are %s and %s", TD_NODE_STR(c->node),
                   TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    }
    c->out[0] = with_tail(a, 2, cols_of(a), cols_of(b));
    return TD_OK;
}

static enum td_code solve_infer(struct td_infer *c, struct td_err *err)
{
    return solve_shapes(c, true, err);
}
static enum td_code solve_ls_infer(struct td_infer *c, struct td_err *err)
{
    return solve_shapes(c, false, err);
}

static enum td_code triangular_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    TD_TRY(want_square(c, 0, "In[0] matrices in the last dimensions must be square.", err));
    TD_TRY(want_matrix(c, 1, err));
    if (a->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(cols_of(a) >= 0 && rows_of(b) >= 0 && cols_of(a) != rows_of(b), err, INVALID_ARGUMENT,
               "%s: In[0] mismatch In[1] shape: %lld vs. %lld: %s %s", TD_NODE_STR(c->node),
               (long long)cols_of(a), (long long)rows_of(b), TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    struct td_shape x = with_tail(a, 0, 0, 0), y = with_tail(b, 0, 0, 0), batch;
    struct td_err why = {0};
    TD_FAIL_IF(td_shape_broadcast(&x, &y, &batch, &why), err, INVALID_ARGUMENT,
               "%s: In[0] and In[1] must have compatible batch dimensions: %s vs. %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    if (batch.rank >= 0) {
        batch.dim[batch.rank] = rows_of(b);
        batch.dim[batch.rank + 1] = cols_of(b);
        batch.rank += 2;
        c->out[0] = batch;
    }
    return TD_OK;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : a < b ? a : b;
}

static enum td_code qr_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(want_matrix(c, 0, err));
    int64_t m = rows_of(&c->in[0]), n = cols_of(&c->in[0]);
    int64_t p = td_attr_bool(c->node, "full_matrices") ? m : lesser(m, n);
    c->out[0] = with_tail(&c->in[0], 2, m, p);
    c->out[1] = with_tail(&c->in[0], 2, p, n);
    return TD_OK;
}

static enum td_code svd_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(want_matrix(c, 0, err));
    int64_t m = rows_of(&c->in[0]), n = cols_of(&c->in[0]), p = lesser(m, n);
    bool full = td_attr_bool(c->node, "full_matrices");
    c->out[0] = with_tail(&c->in[0], 1, p, 0);
    c->out[1] = c->out[2] = td_shape_scalar();
    if (td_attr_bool(c->node, "compute_uv")) {
        c->out[1] = with_tail(&c->in[0], 2, m, full ? m : p);
        c->out[2] = with_tail(&c->in[0], 2, n, full ? n : p);
    }
    return TD_OK;
}

static enum td_code eig_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = with_tail(&c->in[0], 1, rows_of(&c->in[0]), 0);
    c->out[1] = td_attr_bool(c->node, "compute_v") ? c->in[0] : td_shape_scalar();
    return TD_OK;
}

static enum td_code lu_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = c->in[0];
    c->out[1] = with_tail(&c->in[0], 1, rows_of(&c->in[0]), 0);
    return TD_OK;
}

/* ------------------------------------------------------------------ LU, Cholesky, triangular systems */

/* a [n,n] becomes L (unit diagonal, not stored) and U; row i of the result was row p[i]. *sign is the
 * permutation's. False when a pivot is zero; the factors are complete all the same. */
static bool lu(zc *a, int64_t n, int64_t *p, double *sign)
{
    bool regular = true;
    *sign = 1;
    for (int64_t i = 0; i < n; i++) {
        p[i] = i;
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t top = k;
        for (int64_t i = k + 1; i < n; i++) {
            top = cabs(a[i * n + k]) > cabs(a[top * n + k]) ? i : top;
        }
        if (a[top * n + k] == 0) {
            regular = false;
            continue;
        }
        for (int64_t j = 0; j < n && top != k; j++) {
            zc t = a[k * n + j];
            a[k * n + j] = a[top * n + j];
            a[top * n + j] = t;
        }
        if (top != k) {
            int64_t t = p[k];
            p[k] = p[top];
            p[top] = t;
            *sign = -*sign;
        }
        for (int64_t i = k + 1; i < n; i++) {
            zc f = a[i * n + k] /= a[k * n + k];
            for (int64_t j = k + 1; j < n && f != 0; j++) {
                a[i * n + j] -= f * a[k * n + j];
            }
        }
    }
    return regular;
}

/* Lower factor of a hermitian a [n,n], of which the lower triangle is read. False when a is not positive
 * definite. */
static bool cholesky(zc *a, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            zc sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++) {
                sum -= a[i * n + k] * conj(a[j * n + k]);
            }
            if (i == j && !(creal(sum) > 0)) {
                return false;
            }
            a[i * n + j] = i == j ? sqrt(creal(sum)) : sum / a[j * n + j];
        }
        for (int64_t i = 0; i < j; i++) {
            a[i * n + j] = 0;
        }
    }
    return true;
}

struct triangle {
    bool lower, adjoint, unit;
};

/* b [n,m] becomes the solution of op(a) x = b, a triangular [n,n]. */
static void solve_triangle(const zc *a, zc *b, int64_t n, int64_t m, struct triangle t)
{
    bool forward = t.lower != t.adjoint;
    for (int64_t step = 0; step < n; step++) {
        int64_t i = forward ? step : n - 1 - step;
        int64_t from = forward ? 0 : i + 1, to = forward ? i : n;
        for (int64_t k = from; k < to; k++) {
            zc f = t.adjoint ? conj(a[k * n + i]) : a[i * n + k];
            for (int64_t j = 0; j < m; j++) {
                b[i * m + j] -= f * b[k * m + j];
            }
        }
        zc d = t.unit ? 1 : t.adjoint ? conj(a[i * n + i]) : a[i * n + i];
        for (int64_t j = 0; j < m; j++) {
            b[i * m + j] /= d;
        }
    }
}

/* x [n,m] = the solution of a x = b for factors made by lu. */
static void solve_lu(const zc *a, const int64_t *p, const zc *b, zc *x, int64_t n, int64_t m)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(x + i * m, b + p[i] * m, (size_t)m * sizeof *x);
    }
    solve_triangle(a, x, n, m, (struct triangle){.lower = true, .unit = true});
    solve_triangle(a, x, n, m, (struct triangle){.lower = false});
}

/* ------------------------------------------------------------------ ops on square matrices */

/* Number of matrices in a batch. */
static int64_t batch_of(const struct td_shape *s)
{
    return td_shape_range(s, 0, s->rank - 2);
}

static enum td_code cholesky_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    zc *a;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = cols_of(&y->shape);
    TD_TRY(room(c, n * n, sizeof *a, &a, err));
    for (int64_t b = 0, count = batch_of(&y->shape); b < count && n > 0; b++) {
        load(a, c->in[0], b * n * n, n * n);
        if (!cholesky(a, n)) { /* as TensorFlow: no error, NaN */
            fill(a, n * n, NAN);
        }
        store(y, b * n * n, a, n * n);
    }
    return TD_OK;
}

/* The factors of matrix b of input 0 (or of its adjoint). */
static bool load_lu(struct td_call *c, int64_t b, int64_t n, bool adjoint, zc *a, zc *spare, int64_t *p,
                    double *sign)
{
    load(a, c->in[0], b * n * n, n * n);
    if (adjoint) {
        memcpy(spare, a, (size_t)(n * n) * sizeof *a);
        turn(a, spare, n, n, true);
    }
    return lu(a, n, p, sign);
}

static enum td_code solve_any(struct td_call *c, bool inverse, struct td_err *err)
{
    struct td_tensor *y;
    zc *a, *rhs, *x;
    int64_t *p;
    double sign;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = rows_of(&y->shape), m = cols_of(&y->shape), most = n > m ? n : m;
    TD_TRY(room(c, n * n, sizeof *a, &a, err));
    TD_TRY(room(c, n * most, sizeof *a, &rhs, err));
    TD_TRY(room(c, n * m, sizeof *a, &x, err));
    TD_TRY(room(c, n, sizeof *p, &p, err));
    bool adjoint = td_attr_bool(c->node, "adjoint");
    for (int64_t b = 0, count = n * m == 0 ? 0 : batch_of(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_FAIL_IF(!load_lu(c, b, n, adjoint, a, rhs, p, &sign), err, INVALID_ARGUMENT,
                   "%s: Input%s is not invertible.", TD_NODE_STR(c->node), inverse ? "" : " matrix");
        if (inverse) {
            fill(rhs, n * n, 0);
            for (int64_t i = 0; i < n; i++) {
                rhs[i * n + i] = 1;
            }
        } else {
            load(rhs, c->in[1], b * n * m, n * m);
        }
        solve_lu(a, p, rhs, x, n, m);
        store(y, b * n * m, x, n * m);
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
    zc *a;
    int64_t *p, n = cols_of(&c->in[0]->shape);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (logarithm) {
        TD_TRY(td_out(c, 1, NULL, &log_abs, err));
    }
    TD_TRY(room(c, n * n, sizeof *a, &a, err));
    TD_TRY(room(c, n, sizeof *p, &p, err));
    for (int64_t b = 0; b < td_tensor_count(y); b++) {
        double sign, log_sum = 0;
        (void)load_lu(c, b, n, false, a, NULL, p, &sign);
        zc det = sign;
        for (int64_t i = 0; i < n; i++) {
            zc d = a[i * n + i];
            double size = cabs(d);
            log_sum += log(size);
            det *= !logarithm ? d : size > 0 ? d / size : 0;
        }
        store(y, b, &det, 1);
        if (logarithm) {
            zc v = log_sum;
            store(log_abs, b, &v, 1);
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
    zc *a;
    int64_t *p;
    double sign;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_out(c, 1, NULL, &perm, err));
    int64_t n = cols_of(&y->shape);
    TD_TRY(room(c, n * n, sizeof *a, &a, err));
    TD_TRY(room(c, n, sizeof *p, &p, err));
    for (int64_t b = 0, count = n == 0 ? 0 : batch_of(&y->shape); b < count; b++) {
        TD_FAIL_IF(!load_lu(c, b, n, false, a, NULL, p, &sign), err, INVALID_ARGUMENT,
                   "%s: Input is not invertible.", TD_NODE_STR(c->node));
        store(y, b * n * n, a, n * n);
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

/* Which matrix of a batch of shape s serves matrix i of the broadcast batch of shape out. */
static int64_t broadcast_at(const struct td_shape *s, const struct td_shape *out, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = out->rank - 3, e = s->rank - 3; e >= 0; d--, e--) {
        int64_t index = i % out->dim[d];
        i /= out->dim[d];
        at += s->dim[e] == 1 ? 0 : index * step;
        step *= s->dim[e];
    }
    return at;
}

static enum td_code triangular_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    zc *a, *x;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = rows_of(&y->shape), m = cols_of(&y->shape);
    TD_TRY(room(c, n * n, sizeof *a, &a, err));
    TD_TRY(room(c, n * m, sizeof *x, &x, err));
    struct triangle t = {.lower = td_attr_bool(c->node, "lower"),
                         .adjoint = td_attr_bool(c->node, "adjoint")};
    for (int64_t b = 0, count = n * m == 0 ? 0 : batch_of(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        load(a, c->in[0], broadcast_at(&c->in[0]->shape, &y->shape, b) * n * n, n * n);
        load(x, c->in[1], broadcast_at(&c->in[1]->shape, &y->shape, b) * n * m, n * m);
        solve_triangle(a, x, n, m, t);
        store(y, b * n * m, x, n * m);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ QR */

struct lapack {
    const struct td_blas *lib;
    zc *a, *work;
    double *rwork;
    lapack_int *iwork;
    lapack_int lwork;
};

/* Householder vectors of a column-major [m,n]; then q [m,p] out of them. */
static enum td_code qr_one(const struct td_call *c, zc *a, zc *q, zc *tau, struct lapack *l, lapack_int m,
                           lapack_int n, lapack_int p, struct td_err *err)
{
    lapack_int info = 0, k = m < n ? m : n;
    l->lib->zgeqrf(&m, &n, a, &m, tau, l->work, &l->lwork, &info);
    TD_FAIL_IF(info != 0, err, INTERNAL, "%s: QR stopped with %d", TD_NODE_STR(c->node), (int)info);
    memset(q, 0, (size_t)m * (size_t)p * sizeof *q);
    memcpy(q, a, (size_t)m * (size_t)k * sizeof *q);
    l->lib->zungqr(&m, &p, &k, q, &m, tau, l->work, &l->lwork, &info);
    TD_FAIL_IF(info != 0, err, INTERNAL, "%s: QR stopped with %d", TD_NODE_STR(c->node), (int)info);
    return TD_OK;
}

static enum td_code qr_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *q, *r;
    TD_TRY(td_out(c, 0, NULL, &q, err));
    TD_TRY(td_out(c, 1, NULL, &r, err));
    int64_t m = rows_of(&c->in[0]->shape), n = cols_of(&c->in[0]->shape), p = cols_of(&q->shape);
    zc *x, *qc, *tau;
    struct lapack l = {.lwork = (lapack_int)((m > n ? m : n) * 32)};
    TD_TRY(td_blas_get(&l.lib, err));
    TD_TRY(room(c, m * n, sizeof(zc), &x, err));
    TD_TRY(room(c, m * n, sizeof(zc), &l.a, err));
    TD_TRY(room(c, 2 * m * p, sizeof(zc), &qc, err));
    TD_TRY(room(c, m + n, sizeof(zc), &tau, err));
    TD_TRY(room(c, l.lwork + 1, sizeof(zc), &l.work, err));
    for (int64_t b = 0, count = batch_of(&c->in[0]->shape); b < count && m * p > 0; b++) {
        load(x, c->in[0], b * m * n, m * n);
        turn(l.a, x, m, n, false);
        if (n > 0) {
            TD_TRY(qr_one(c, l.a, qc, tau, &l, (lapack_int)m, (lapack_int)n, (lapack_int)p, err));
        } else { /* full factor of nothing: the identity */
            fill(qc, m * p, 0);
            for (int64_t i = 0; i < p; i++) {
                qc[i * m + i] = 1;
            }
        }
        turn(qc + m * p, qc, p, m, false);
        store(q, b * m * p, qc + m * p, m * p);
        for (int64_t i = 0; i < p; i++) {
            for (int64_t j = 0; j < n; j++) {
                x[i * n + j] = j >= i ? l.a[j * m + i] : 0;
            }
        }
        store(r, b * p * n, x, p * n);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ SVD */

struct svd {
    int64_t m, n, p, uw, vw; /* columns of u and v kept */
    zc *x, *u, *vh;
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
    TD_TRY(room(c, m * n, sizeof(zc), &d->x, err));
    TD_TRY(room(c, m * n, sizeof(zc), &d->l.a, err));
    TD_TRY(room(c, 2 * m * m + 1, sizeof(zc), &d->u, err));
    TD_TRY(room(c, 2 * n * n + 1, sizeof(zc), &d->vh, err));
    TD_TRY(room(c, p + 1, sizeof(double), &d->s, err));
    TD_TRY(room(c, work, sizeof(zc), &d->l.work, err));
    TD_TRY(room(c, 7 * p * p + 2 * big * p + 7 * p + 1, sizeof(double), &d->l.rwork, err));
    return room(c, 8 * p + 1, sizeof(lapack_int), &d->l.iwork, err);
}

/* x [m,n] -> s, u (column-major [m,uw]), vh (column-major [vw,n]); NaN everywhere when x is not finite. */
static enum td_code svd_one(const struct td_call *c, struct svd *d, bool full, struct td_err *err)
{
    if (!all_finite(d->x, d->m * d->n)) {
        fill(d->u, d->m * d->uw, NAN);
        fill(d->vh, d->n * d->vw, NAN);
        for (int64_t i = 0; i < d->p; i++) {
            d->s[i] = NAN;
        }
        return TD_OK;
    }
    turn(d->l.a, d->x, d->m, d->n, false);
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
    struct svd d = {.m = rows_of(&c->in[0]->shape), .n = cols_of(&c->in[0]->shape)};
    TD_TRY(svd_room(c, &d, vectors, full, err));
    if (!vectors) {
        memset(u->data, 0, td_tensor_bytes(u));
        memset(v->data, 0, td_tensor_bytes(v));
    }
    for (int64_t b = 0, count = batch_of(&c->in[0]->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        load(d.x, c->in[0], b * d.m * d.n, d.m * d.n);
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
            zc value = d.s[i];
            store(s, b * d.p + i, &value, 1);
        }
        if (vectors) { /* u is column-major; v^H column-major is the conjugate of v row-major */
            zc *rows = d.u + d.m * d.m;
            turn(rows, d.u, d.uw, d.m, false);
            store(u, b * d.m * d.uw, rows, d.m * d.uw);
            for (int64_t i = 0; i < d.n * d.vw; i++) {
                d.vh[i] = conj(d.vh[i]);
            }
            store(v, b * d.n * d.vw, d.vh, d.n * d.vw);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ eigenvalues */

struct eig {
    int64_t n;
    zc *x, *values, *vectors;
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
    TD_TRY(room(c, n * n, sizeof(zc), &d->x, err));
    TD_TRY(room(c, n * n, sizeof(zc), &d->l.a, err));
    TD_TRY(room(c, n, sizeof(zc), &d->values, err));
    TD_TRY(room(c, n * n, sizeof(zc), &d->vectors, err));
    TD_TRY(room(c, n, sizeof(double), &d->w, err));
    TD_TRY(room(c, work, sizeof(zc), &d->l.work, err));
    TD_TRY(room(c, 2 * n * n + 5 * n + 1, sizeof(double), &d->l.rwork, err));
    return room(c, 5 * n + 3, sizeof(lapack_int), &d->l.iwork, err);
}

/* Hermitian x, lower triangle read: values ascending; vectors in the columns. */
static lapack_int eig_hermitian(struct eig *d, bool vectors)
{
    lapack_int n = (lapack_int)d->n, info = 0, lrwork = (lapack_int)(2 * d->n * d->n + 5 * d->n + 1);
    lapack_int liwork = (lapack_int)(5 * d->n + 3);
    turn(d->l.a, d->x, d->n, d->n, false);
    char job = vectors ? 'V' : 'N', uplo = 'L';
    d->l.lib->zheevd(&job, &uplo, &n, d->l.a, &n, d->w, d->l.work, &d->l.lwork, d->l.rwork, &lrwork,
                     d->l.iwork, &liwork, &info, 1, 1);
    for (int64_t i = 0; i < d->n; i++) {
        d->values[i] = d->w[i];
    }
    turn(d->vectors, d->l.a, d->n, d->n, false);
    return info;
}

static lapack_int eig_general(struct eig *d, bool vectors)
{
    lapack_int n = (lapack_int)d->n, info = 0, one = 1;
    zc none;
    turn(d->l.a, d->x, d->n, d->n, false);
    char left = 'N', right = vectors ? 'V' : 'N';
    d->l.lib->zgeev(&left, &right, &n, d->l.a, &n, d->values, &none, &one, d->x, &n, d->l.work, &d->l.lwork,
                    d->l.rwork, &info, 1, 1);
    turn(d->vectors, d->x, d->n, d->n, false);
    return info;
}

static enum td_code eig_any(struct td_call *c, bool hermitian, struct td_err *err)
{
    struct td_tensor *e, *v;
    TD_TRY(td_out(c, 0, NULL, &e, err));
    TD_TRY(td_out(c, 1, NULL, &v, err));
    bool vectors = td_attr_bool(c->node, "compute_v");
    struct eig d = {.n = cols_of(&c->in[0]->shape)};
    TD_TRY(eig_room(c, &d, err));
    if (!vectors) {
        memset(v->data, 0, td_tensor_bytes(v));
    }
    for (int64_t b = 0, n = d.n, count = n == 0 ? 0 : batch_of(&c->in[0]->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        load(d.x, c->in[0], b * n * n, n * n);
        bool done = all_finite(d.x, n * n) &&
                    (hermitian ? eig_hermitian(&d, vectors) : eig_general(&d, vectors)) == 0;
        TD_FAIL_IF(!done, err, INVALID_ARGUMENT,
                   "%s: %s eigen decomposition was not successful. The input might not be valid.",
                   TD_NODE_STR(c->node), hermitian ? "Self-adjoint" : "");
        store(e, b * n, d.values, n);
        if (vectors) {
            store(v, b * n * n, d.vectors, n * n);
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

/* x = (A^H A + l2 I)^-1 A^H b, or A^H (A A^H + l2 I)^-1 b for fewer rows than columns; false when not
 * definite. work holds 4 * max^2 + ... cells: the adjoint, the square, and products. */
static bool ls_normal(const zc *a, const zc *b, zc *x, int64_t m, int64_t n, int64_t k, double l2, zc *work)
{
    int64_t p = m < n ? m : n;
    zc *adjoint = work, *square = adjoint + m * n, *rhs = square + p * p;
    turn(adjoint, a, m, n, true);
    if (m >= n) {
        multiply(square, adjoint, a, n, m, n);
        multiply(rhs, adjoint, b, n, m, k);
    } else {
        multiply(square, a, adjoint, m, n, m);
        memcpy(rhs, b, (size_t)(m * k) * sizeof *rhs);
    }
    for (int64_t i = 0; i < p; i++) {
        square[i * p + i] += l2;
    }
    if (!cholesky(square, p)) {
        return false;
    }
    solve_triangle(square, rhs, p, k, (struct triangle){.lower = true});
    solve_triangle(square, rhs, p, k, (struct triangle){.lower = true, .adjoint = true});
    if (m >= n) {
        memcpy(x, rhs, (size_t)(n * k) * sizeof *x);
    } else {
        multiply(x, adjoint, rhs, n, m, k);
    }
    return true;
}

/* The solution of least norm, by singular values. */
static enum td_code ls_svd(struct td_call *c, struct svd *d, const zc *b, zc *x, int64_t k, double epsilon,
                           struct td_err *err)
{
    TD_TRY(svd_one(c, d, false, err));
    fill(x, d->n * k, 0);
    for (int64_t i = 0; i < d->p; i++) {
        if (!(d->s[i] > epsilon * d->s[0])) {
            break;
        }
        for (int64_t j = 0; j < k; j++) {
            zc sum = 0;
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
    int64_t m = rows_of(&c->in[0]->shape), n = cols_of(&c->in[0]->shape), k = cols_of(&y->shape),
            p = m < n ? m : n;
    struct svd d = {.m = m, .n = n};
    zc *rhs, *x, *work;
    bool fast = td_attr_bool(c->node, "fast");
    TD_TRY(room(c, m * k, sizeof(zc), &rhs, err));
    TD_TRY(room(c, n * k, sizeof(zc), &x, err));
    TD_TRY(room(c, m * n + p * p + p * k, sizeof(zc), &work, err));
    TD_TRY(svd_room(c, &d, true, false, err));
    bool single = c->in[0]->dtype == TD_FLOAT || c->in[0]->dtype == TD_COMPLEX64;
    for (int64_t b = 0, count = n * k == 0 ? 0 : batch_of(&y->shape); b < count; b++) {
        load(d.x, c->in[0], b * m * n, m * n);
        load(rhs, c->in[1], b * m * k, m * k);
        if (m == 0) {
            fill(x, n * k, 0);
        } else if (fast) {
            TD_FAIL_IF(
                !ls_normal(d.x, rhs, x, m, n, k, l2, work), err, INVALID_ARGUMENT,
                "%s: Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
                "larger l2_regularizer > 0.",
                TD_NODE_STR(c->node));
        } else {
            TD_TRY(ls_svd(c, &d, rhs, x, k, (single ? 1.2e-7 : 2.3e-16) * (double)p, err));
        }
        store(y, b * n * k, x, n * k);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_LAPACK (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)
#define SET_INVERSE (SET_LAPACK | TD_BIT(TD_HALF))
#define OP(op, signature, shape, fn, kernel_name, set)                                                       \
    {                                                                                                        \
        .name = op, .sig = signature, .infer = shape, .kernels = TD_KERNEL(kernel_name, fn, {"T", set})      \
    }
#define UNARY "(input:T) -> (output:T) {T:type}"
#define INVERSE "(input:T) -> (output:T) {adjoint:bool=false; T:type}"
#define LOWER_ADJOINT "(matrix:T, rhs:T) -> (output:T) {lower:bool=true; adjoint:bool=false; T:type}"
#define ADJOINT "(matrix:T, rhs:T) -> (output:T) {adjoint:bool=false; T:type}"
#define EIGH "(input:T) -> (e:T, v:T) {compute_v:bool=true; T:type}"
#define SVD "(input:T) -> (s:T, u:T, v:T) {compute_uv:bool=true; full_matrices:bool=false; T:type}"
#define LEAST "(matrix:T, rhs:T, l2_regularizer:double) -> (output:T) {T:type; fast:bool=true}"

const struct td_op td_ops_linalg[] = {
    OP("Cholesky", UNARY, square_infer, cholesky_run, "cholesky.cpu", SET_LAPACK),
    OP("BatchCholesky", UNARY, square_infer, cholesky_run, "cholesky.cpu", SET_LAPACK),
    OP("MatrixInverse", INVERSE, square_infer, inverse_run, "matrix_inverse.cpu", SET_INVERSE),
    OP("BatchMatrixInverse", INVERSE, square_infer, inverse_run, "matrix_inverse.cpu", SET_INVERSE),
    OP("MatrixDeterminant", UNARY, det_infer, det_run, "matrix_determinant.cpu", SET_LAPACK),
    OP("BatchMatrixDeterminant", UNARY, det_infer, det_run, "matrix_determinant.cpu", SET_LAPACK),
    OP("LogMatrixDeterminant", "(input:T) -> (sign:T, log_abs_determinant:T) {T:type}", det_infer,
       log_det_run, "matrix_determinant.cpu", SET_LAPACK),
    OP("MatrixSolve", ADJOINT, solve_infer, solve_run, "matrix_solve.cpu", SET_LAPACK),
    OP("BatchMatrixSolve", ADJOINT, solve_infer, solve_run, "matrix_solve.cpu", SET_LAPACK),
    OP("MatrixTriangularSolve", LOWER_ADJOINT, triangular_infer, triangular_run, "triangular_solve.cpu",
       SET_LAPACK),
    OP("BatchMatrixTriangularSolve", LOWER_ADJOINT, triangular_infer, triangular_run, "triangular_solve.cpu",
       SET_LAPACK),
    OP("Qr", "(input:T) -> (q:T, r:T) {full_matrices:bool=false; T:type}", qr_infer, qr_run, "qr.lapack",
       SET_INVERSE),
    OP("Svd", SVD, svd_infer, svd_run, "svd.lapack", SET_LAPACK),
    OP("BatchSvd", SVD, svd_infer, svd_run, "svd.lapack", SET_LAPACK),
    OP("SelfAdjointEigV2", EIGH, eig_infer, eigh_run, "self_adjoint_eig.lapack", SET_LAPACK),
    OP("BatchSelfAdjointEigV2", EIGH, eig_infer, eigh_run, "self_adjoint_eig.lapack", SET_LAPACK),
    OP("MatrixSolveLs", LEAST, solve_ls_infer, solve_ls_run, "matrix_solve_ls.cpu", SET_LAPACK),
    OP("BatchMatrixSolveLs", LEAST, solve_ls_infer, solve_ls_run, "matrix_solve_ls.cpu", SET_LAPACK),
    {.name = "Eig",
     .sig = "(input:T) -> (e:Tout, v:Tout) {compute_v:bool=true; T:type; Tout:type}",
     .infer = eig_infer,
     .kernels = TD_KERNEL("eig.lapack", eig_run, {"T", SET_LAPACK}, {"Tout", TD_SET_COMPLEX})},
    {.name = "Lu",
     .sig = "(input:T) -> (lu:T, p:output_idx_type) {T:type; output_idx_type:type=int32}",
     .infer = lu_infer,
     .kernels = TD_KERNEL("lu.cpu", lu_run, {"T", SET_LAPACK}, {"output_idx_type", TD_SET_INDEX})},
    {.name = NULL},
};
