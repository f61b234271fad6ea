/* kernels/linalg/zmatrix.c - conversions, shapes and the classic algorithms of dense linear algebra
 * (matrix_plain.inc: LU with partial pivoting, Cholesky, triangular systems), in complex double. Those of
 * doubles: dmatrix.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/zmatrix.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/cpu/upcast.h"

/* ------------------------------------------------------------------ in and out */

void td_zmatrix_load(td_zc *y, const struct td_tensor *t, int64_t from, int64_t n)
{
    if (t->dtype == TD_COMPLEX64) {
        for (int64_t i = 0; i < n; i++) {
            y[i] = TD_DATA(t, float _Complex)[from + i];
        }
    } else if (t->dtype == TD_COMPLEX128) {
        for (int64_t i = 0; i < n; i++) {
            y[i] = TD_DATA(t, td_zc)[from + i];
        }
    } else { /* reals into the second half of y's bytes, which turning the last of them into a complex one
                overwrites */
        double *real = (double *)y + n;
        td_dmatrix_load(real, t, from, n);
        for (int64_t i = 0; i < n; i++) {
            y[i] = real[i];
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
            td_dmatrix_store(t, from + i, &v, 1);
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

bool td_zmatrix_finite(const td_zc *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(creal(x[i])) || !isfinite(cimag(x[i]))) {
            return false;
        }
    }
    return true;
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

/* ------------------------------------------------------------------ algorithms */

#define E td_zc
#define NAME(x) td_zmatrix_##x
#define CONJ(x) conj(x)
#define SIZE(x) cabs(x)
#define REAL(x) creal(x)
#define OVER(x, y) td_zmatrix_quotient(x, y)
#include "kernels/linalg/matrix_plain.inc"
