/* kernels/linalg/linalg_function.c - functions of square matrices: MatrixSquareRoot, MatrixLogarithm,
 * MatrixExponential.
 *
 *     input [.., N, N]   ->   the principal root or logarithm, or e to the matrix, [.., N, N]
 *
 * The root is the limit of the iteration  y, z <- (y + z^-1) / 2, (z + y^-1) / 2  from (a, 1), which
 * doubles its digits a step. The logarithm takes roots until what is left is near 1, sums the series of
 * log((1 + w) / (1 - w)) there, and doubles as often. The exponential of a matrix halved until its rows'
 * sums are small is a quotient of two polynomials (Pade's), squared as often. A matrix without such a
 * value (an eigenvalue on the negative axis, or a singular one for the logarithm) comes out as NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/ops.h"
#include "core/base/work.h"
#include "kernels/linalg/linalg_solve_grad.h"
#include "kernels/linalg/zmatrix.h"

enum { ROOT_STEPS = 60, MOST_ROOTS = 60, TERMS = 14, DEGREE = 8 };
static const double NEAR = 0.1;

static enum td_code square_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_zmatrix_want_square(c, 0, "Input matrix must be square.", err));
    c->out[0] = c->in[0];
    return TD_OK;
}

/* Matrices of one size to compute with. */
struct bench {
    int64_t n;
    td_zc *a, *y, *z, *one, *lu, *s, *t;
    int64_t *p;
};

static enum td_code bench_room(struct td_call *c, int64_t n, struct bench *w, struct td_err *err)
{
    td_zc **rooms[] = {&w->a, &w->y, &w->z, &w->one, &w->lu, &w->s, &w->t};
    w->n = n;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        TD_TRY(td_zmatrix_room(c, n * n, sizeof(td_zc), rooms[i], err));
    }
    TD_TRY(td_zmatrix_room(c, n, sizeof *w->p, &w->p, err));
    td_zmatrix_fill(w->one, n * n, 0);
    for (int64_t i = 0; i < n; i++) {
        w->one[i * n + i] = 1;
    }
    return TD_OK;
}

static void copy(td_zc *to, const td_zc *from, int64_t n)
{
    memcpy(to, from, (size_t)(n * n) * sizeof *to);
}

/* Whether the run shall end: to be asked before so many products of matrices. */
static bool is_over(const struct bench *w, int64_t products)
{
    return td_work_spent(products * w->n * w->n * w->n);
}

/* to = a^-1 b; false when a is singular. */
static bool divide(struct bench *w, const td_zc *a, const td_zc *b, td_zc *to)
{
    double sign;
    copy(w->lu, a, w->n);
    bool whole = td_zmatrix_lu(w->lu, w->n, w->p, &sign);
    td_zmatrix_solve_lu(w->lu, w->p, b, to, w->n, w->n);
    return whole;
}

static double largest(const td_zc *x, const td_zc *minus, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n * n; i++) {
        most = fmax(most, cabs(x[i] - (minus ? minus[i] : 0)));
    }
    return most;
}

/* a becomes its principal root; false when there is none. */
static bool root(struct bench *w, td_zc *a)
{
    int64_t n = w->n;
    double moved = INFINITY;
    copy(w->y, a, n);
    copy(w->z, w->one, n);
    for (int step = 0; step < ROOT_STEPS && moved > 1e-15 && !is_over(w, 4); step++) {
        if (!divide(w, w->z, w->one, w->s) || !divide(w, w->y, w->one, w->t)) {
            return false;
        }
        for (int64_t i = 0; i < n * n; i++) {
            w->s[i] = (w->y[i] + w->s[i]) / 2;
            w->z[i] = (w->z[i] + w->t[i]) / 2;
        }
        double size = largest(w->s, NULL, n), change = largest(w->s, w->y, n) / fmax(size, 1e-300);
        copy(w->y, w->s, n);
        if (change >= moved && change < 1e-10) { /* rounding is all that moves it */
            break;
        }
        moved = change;
    }
    copy(a, w->y, n);
    return moved < 1e-6 && td_zmatrix_finite(a, n * n);
}

/* a becomes 2 w (1 + w^2/3 + w^4/5 ...) for w = (a + 1)^-1 (a - 1). */
static bool log_near_one(struct bench *w, td_zc *a)
{
    int64_t n = w->n;
    for (int64_t i = 0; i < n * n; i++) {
        w->s[i] = a[i] - w->one[i];
        a[i] += w->one[i];
    }
    if (!divide(w, a, w->s, w->y)) {
        return false;
    }
    td_zmatrix_multiply(w->z, w->y, w->y, n, n, n);
    td_zmatrix_fill(w->s, n * n, 0);
    for (int k = TERMS; k >= 0; k--) { /* s = s w^2 + 1 / (2 k + 1) */
        td_zmatrix_multiply(w->t, w->s, w->z, n, n, n);
        for (int64_t i = 0; i < n * n; i++) {
            w->s[i] = w->t[i] + w->one[i] / (2 * k + 1);
        }
    }
    td_zmatrix_multiply(a, w->y, w->s, n, n, n);
    for (int64_t i = 0; i < n * n; i++) {
        a[i] *= 2;
    }
    return true;
}

static bool logarithm(struct bench *w, td_zc *a)
{
    int roots = 0;
    while (largest(a, w->one, w->n) * (double)w->n > NEAR) {
        if (++roots > MOST_ROOTS || !root(w, a)) {
            return false;
        }
    }
    if (!log_near_one(w, a)) {
        return false;
    }
    for (int64_t i = 0; i < w->n * w->n; i++) {
        a[i] *= ldexp(1, roots);
    }
    return true;
}

/* The greatest sum of magnitudes along a row. */
static double widest_row(const td_zc *a, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += cabs(a[i * n + k]);
        }
        most = fmax(most, sum);
    }
    return most;
}

/* y = p(a), s = p(-a): the polynomial of degree DEGREE whose quotient p(a) / p(-a) is e^a where a is
 * small. */
static void pade(struct bench *w, const td_zc *a)
{
    const int64_t n = w->n;
    double factor = 1;
    copy(w->y, w->one, n);
    copy(w->s, w->one, n);
    copy(w->z, w->one, n); /* powers of a */
    for (int k = 1; k <= DEGREE && !is_over(w, 2); k++) {
        factor *= (double)(DEGREE - k + 1) / (k * (2 * DEGREE - k + 1));
        td_zmatrix_multiply(w->t, w->z, a, n, n, n);
        copy(w->z, w->t, n);
        for (int64_t i = 0; i < n * n; i++) {
            w->y[i] += factor * w->z[i];
            w->s[i] += (k % 2 == 0 ? factor : -factor) * w->z[i];
        }
    }
}

static bool exponential(struct bench *w, td_zc *a)
{
    const double size = widest_row(a, w->n);
    int halvings = 0;
    if (!isfinite(size)) {
        return false;
    }
    frexp(size, &halvings); /* size < 2^halvings */
    halvings = halvings < -1 ? 0 : halvings + 1;
    for (int64_t i = 0; i < w->n * w->n; i++) {
        a[i] *= ldexp(1, -halvings);
    }
    pade(w, a);
    if (!divide(w, w->s, w->y, a)) {
        return false;
    }
    for (int k = 0; k < halvings && !is_over(w, 2); k++) {
        td_zmatrix_multiply(w->t, a, a, w->n, w->n, w->n);
        copy(a, w->t, w->n);
    }
    return true;
}

static enum td_code each(struct td_call *c, bool (*function)(struct bench *w, td_zc *a), struct td_err *err)
{
    struct td_tensor *y;
    struct bench w;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_zmatrix_cols(&y->shape);
    TD_TRY(bench_room(c, n, &w, err));
    for (int64_t b = 0, count = n == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_zmatrix_load(w.a, c->in[0], b * n * n, n * n);
        if (!td_zmatrix_finite(w.a, n * n) || !function(&w, w.a)) {
            td_zmatrix_fill(w.a, n * n, NAN);
        }
        td_zmatrix_store(y, b * n * n, w.a, n * n);
    }
    return TD_OK;
}

static enum td_code root_run(struct td_call *c, struct td_err *err)
{
    return each(c, root, err);
}

static enum td_code logarithm_run(struct td_call *c, struct td_err *err)
{
    return each(c, logarithm, err);
}

static enum td_code exponential_run(struct td_call *c, struct td_err *err)
{
    return each(c, exponential, err);
}

const struct td_op td_ops_linalg_function[] = {
    {.name = "MatrixSquareRoot",
     .sig = "(input:T) -> (output:T) {T:type}",
     .permute = &td_permute_map2,
     .batchable = TD_BATCHABLE(td_batchable_map2),
     .infer = square_infer,
     .grad = td_matrix_square_root_grad,
     .kernels = TD_KERNEL("matrix_square_root.cpu", root_run,
                          {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX})},
    {.name = "MatrixLogarithm",
     .sig = "(input:T) -> (output:T) {T:type}",
     .permute = &td_permute_map2,
     .batchable = TD_BATCHABLE(td_batchable_map2),
     .infer = square_infer,
     .kernels = TD_KERNEL("matrix_logarithm.cpu", logarithm_run, {"T", TD_SET_COMPLEX})},
    {.name = "MatrixExponential",
     .sig = "(input:T) -> (output:T) {T:type}",
     .permute = &td_permute_map2,
     .batchable = TD_BATCHABLE(td_batchable_map2),
     .infer = square_infer,
     .kernels = TD_KERNEL("matrix_exponential.cpu", exponential_run,
                          {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX})},
    {.name = NULL},
};
