/* kernels/zmatrix.c - conversions, shapes and the classic algorithms of dense linear algebra, in complex
 * double.
 *
 * LU with partial pivoting, Cholesky, triangular systems: plain loops, rows innermost. Real data stay real
 * through all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/zmatrix.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/widen.h"

/* ------------------------------------------------------------------ in and out */

void td_zmatrix_load(td_zc *y, const struct td_tensor *t, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double v;
        if (t->dtype == TD_COMPLEX64) {
            y[i] = TD_DATA(t, float _Complex)[from + i];
        } else if (t->dtype == TD_COMPLEX128) {
            y[i] = TD_DATA(t, td_zc)[from + i];
        } else {
            td_widen_doubles(&v, (const char *)t->data + (size_t)(from + i) * td_dtype_size(t->dtype),
                             t->dtype, 1);
            y[i] = v;
        }
    }
}

void td_zmatrix_store(struct td_tensor *t, int64_t from, const td_zc *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == TD_COMPLEX64) {
            TD_DATA(t, float _Complex)[from + i] = (float _Complex)x[i];
        } else if (t->dtype == TD_COMPLEX128) {
            TD_DATA(t, td_zc)[from + i] = x[i];
        } else {
            double v = creal(x[i]);
            td_narrow_doubles((char *)t->data + (size_t)(from + i) * td_dtype_size(t->dtype), &v, t->dtype,
                              1);
        }
    }
}

enum td_code td_zmatrix_room(struct td_call *c, int64_t n, size_t size, void *out, struct td_err *err)
{
    size_t bytes;
    TD_FAIL_IF(!td_size_mul((size_t)n, size, &bytes), err, RESOURCE_EXHAUSTED,
               "%s: %lld cells do not fit memory", TD_NODE_STR(c->node), (long long)n);
    return td_scratch(c, bytes, (void **)out, err);
}

void td_zmatrix_turn(td_zc *y, const td_zc *x, int64_t m, int64_t n, bool adjoint)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            y[j * m + i] = adjoint ? conj(x[i * n + j]) : x[i * n + j];
        }
    }
}

bool td_zmatrix_finite(const td_zc *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(creal(x[i])) || !isfinite(cimag(x[i]))) {
            return false;
        }
    }
    return true;
}

void td_zmatrix_fill(td_zc *x, int64_t n, double v)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = v;
    }
}

void td_zmatrix_multiply(td_zc *c, const td_zc *a, const td_zc *b, int64_t m, int64_t k, int64_t n)
{
    td_zmatrix_fill(c, m * n, 0);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t p = 0; p < k; p++) {
            for (int64_t j = 0; j < n; j++) {
                c[i * n + j] += a[i * k + p] * b[p * n + j];
            }
        }
    }
}

/* ------------------------------------------------------------------ shapes */

int64_t td_zmatrix_rows(const struct td_shape *s)
{
    return s->rank < 2 ? -1 : s->dim[s->rank - 2];
}

int64_t td_zmatrix_cols(const struct td_shape *s)
{
    return s->rank < 2 ? -1 : s->dim[s->rank - 1];
}

int64_t td_zmatrix_batch(const struct td_shape *s)
{
    return td_shape_range(s, 0, s->rank - 2);
}

enum td_code td_zmatrix_want(const struct td_infer *c, int i, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank >= 0 && c->in[i].rank < 2, err, INVALID_ARGUMENT,
               "%s: Input tensor %d must have rank >= 2, got %d", TD_NODE_STR(c->node), i, c->in[i].rank);
    return TD_OK;
}

enum td_code td_zmatrix_want_square(const struct td_infer *c, int i, const char *text, struct td_err *err)
{
    TD_TRY(td_zmatrix_want(c, i, err));
    int64_t m = td_zmatrix_rows(&c->in[i]), n = td_zmatrix_cols(&c->in[i]);
    TD_FAIL_IF(m >= 0 && n >= 0 && m != n, err, INVALID_ARGUMENT, "%s: %s Shape is %s", TD_NODE_STR(c->node),
               text, TD_SHAPE_STR(&c->in[i]));
    /* LAPACK counts in 32 bits */
    TD_FAIL_IF(m > INT32_MAX || n > INT32_MAX, err, INVALID_ARGUMENT, "%s: matrix of shape %s is too large",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[i]));
    return TD_OK;
}

struct td_shape td_zmatrix_with_tail(const struct td_shape *s, int n_tail, int64_t a, int64_t b)
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

enum td_code td_zmatrix_solve_shapes(struct td_infer *c, bool square, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    if (square) {
        TD_TRY(td_zmatrix_want_square(c, 0, "First input (lhs) must be a square matrix.", err));
    }
    TD_TRY(td_zmatrix_want(c, 0, err));
    TD_TRY(td_zmatrix_want(c, 1, err));
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
    c->out[0] = td_zmatrix_with_tail(a, 2, td_zmatrix_cols(a), td_zmatrix_cols(b));
    return TD_OK;
}

/* ------------------------------------------------------------------ LU, Cholesky, triangular systems */

bool td_zmatrix_lu(td_zc *a, int64_t n, int64_t *p, double *sign)
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
            td_zc t = a[k * n + j];
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
            td_zc f = a[i * n + k] /= a[k * n + k];
            for (int64_t j = k + 1; j < n && f != 0; j++) {
                a[i * n + j] -= f * a[k * n + j];
            }
        }
    }
    return regular;
}

bool td_zmatrix_cholesky(td_zc *a, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            td_zc sum = a[i * n + j];
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

void td_zmatrix_solve_triangle(const td_zc *a, td_zc *b, int64_t n, int64_t m, struct td_triangle t)
{
    bool forward = t.lower != t.adjoint;
    for (int64_t step = 0; step < n; step++) {
        int64_t i = forward ? step : n - 1 - step;
        int64_t from = forward ? 0 : i + 1, to = forward ? i : n;
        for (int64_t k = from; k < to; k++) {
            td_zc f = t.adjoint ? conj(a[k * n + i]) : a[i * n + k];
            for (int64_t j = 0; j < m; j++) {
                b[i * m + j] -= f * b[k * m + j];
            }
        }
        td_zc d = t.unit ? 1 : t.adjoint ? conj(a[i * n + i]) : a[i * n + i];
        for (int64_t j = 0; j < m; j++) {
            b[i * m + j] /= d;
        }
    }
}

void td_zmatrix_solve_lu(const td_zc *a, const int64_t *p, const td_zc *b, td_zc *x, int64_t n, int64_t m)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(x + i * m, b + p[i] * m, (size_t)m * sizeof *x);
    }
    td_zmatrix_solve_triangle(a, x, n, m, (struct td_triangle){.lower = true, .unit = true});
    td_zmatrix_solve_triangle(a, x, n, m, (struct td_triangle){.lower = false});
}

int64_t td_zmatrix_broadcast_at(const struct td_shape *s, const struct td_shape *out, int64_t i)
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

enum td_code td_zmatrix_broadcast_batch(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    struct td_shape x = td_zmatrix_with_tail(a, 0, 0, 0), y = td_zmatrix_with_tail(b, 0, 0, 0), batch;
    struct td_err why = {0};
    TD_FAIL_IF(td_shape_broadcast(&x, &y, &batch, &why), err, INVALID_ARGUMENT,
               "%s: In[0] and In[1] must have compatible batch dimensions: %s vs. %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    if (batch.rank >= 0) {
        batch.dim[batch.rank] = td_zmatrix_rows(b);
        batch.dim[batch.rank + 1] = td_zmatrix_cols(b);
        batch.rank += 2;
        c->out[0] = batch;
    }
    return TD_OK;
}
