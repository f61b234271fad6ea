/* kernels/linalg/linalg_band.c - matrices of few diagonals: TridiagonalSolve, TridiagonalMatMul,
 * BandedTriangularSolve.
 *
 *     TridiagonalSolve       diagonals [.., 3, M]  rhs [.., M, K]                    ->  x [.., M, K]
 *     TridiagonalMatMul      super, main, sub [.., 1, M]  rhs [.., M, K]             ->  product [.., M, K]
 *     BandedTriangularSolve  bands [.., B, M]  rhs [.., M, K], batches broadcast     ->  x [.., M, K]
 *
 * Row i of the tridiagonal matrix holds sub[i], main[i], super[i] at columns i - 1, i, i + 1; the first of
 * sub and the last of super are not read. Bands lie from the main diagonal down when lower (bands[d][i] is at
 * column i - d), else from the outermost one down to the main one, which is the last (bands[B - 1 - d][i] is
 * at column i + d). Computed in complex double, as zmatrix.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/ops.h"
#include "kernels/linalg/linalg_solve_grad.h"
#include "kernels/linalg/zmatrix.h"

/* ------------------------------------------------------------------ shapes */

/* Input i is [.., rows, M] where input `rhs` is [.., M, K], batches being equal. */
static enum td_code want_diagonals(const struct td_infer *c, int i, int64_t rows, int rhs, struct td_err *err)
{
    const struct td_shape *d = &c->in[i], *b = &c->in[rhs];
    TD_TRY(td_zmatrix_want(c, i, err));
    TD_TRY(td_zmatrix_want(c, rhs, err));
    if (d->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(td_zmatrix_rows(d) >= 0 && td_zmatrix_rows(d) != rows, err, INVALID_ARGUMENT,
               "%s: Expected diagonals of %lld rows, got %s", TD_NODE_STR(c->node), (long long)rows,
               TD_SHAPE_STR(d));
    struct td_shape want = *b;
    if (want.rank == d->rank) {
        want.dim[want.rank - 1] = td_zmatrix_rows(b);
        want.dim[want.rank - 2] = rows;
    }
    TD_FAIL_IF(!td_shape_compatible(d, &want), err, INVALID_ARGUMENT,
               "%s: Expected the same batch and left-hand side columns as right-hand side rows: %s and %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(d), TD_SHAPE_STR(b));
    return TD_OK;
}

static enum td_code tridiagonal_infer(struct td_infer *c, struct td_err *err)
{
    bool solve = c->n_in == 2;
    for (int i = 0; i < c->n_in - 1; i++) {
        TD_TRY(want_diagonals(c, i, solve ? 3 : 1, c->n_in - 1, err));
    }
    c->out[0] = c->in[c->n_in - 1];
    return TD_OK;
}

static enum td_code banded_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *a = &c->in[0], *b = &c->in[1];
    TD_TRY(td_zmatrix_want(c, 0, err));
    TD_TRY(td_zmatrix_want(c, 1, err));
    if (a->rank < 0 || b->rank < 0) {
        return TD_OK;
    }
    for (int i = 0; i < 2; i++) {
        TD_FAIL_IF(td_shape_known(&c->in[i]) && td_shape_count(&c->in[i]) == 0, err, INVALID_ARGUMENT,
                   "%s: In[%d] must not be an empty tensor: %s", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(&c->in[i]));
    }
    int64_t bands = td_zmatrix_rows(a), n = td_zmatrix_cols(a);
    TD_FAIL_IF(bands == 0 || (n >= 0 && bands > n), err, INVALID_ARGUMENT,
               "%s: number of bands must be from 1 to the number of columns, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(a));
    TD_FAIL_IF(n >= 0 && td_zmatrix_rows(b) >= 0 && n != td_zmatrix_rows(b), err, INVALID_ARGUMENT,
               "%s: In[0] mismatch In[1] shape: %lld vs. %lld: %s %s", TD_NODE_STR(c->node), (long long)n,
               (long long)td_zmatrix_rows(b), TD_SHAPE_STR(a), TD_SHAPE_STR(b));
    return td_zmatrix_broadcast_batch(c, err);
}

/* ------------------------------------------------------------------ tridiagonal */

/* The matrix while it is eliminated: row i holds main[i] at column i, then up[i] and far[i]. */
struct three {
    td_zc *sub, *main, *up, *up2;
    int64_t n;
};

static enum td_code three_room(struct td_call *c, int64_t n, struct three *t, struct td_err *err)
{
    t->n = n;
    TD_TRY(td_zmatrix_room(c, n, sizeof(td_zc), &t->sub, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof(td_zc), &t->main, err));
    TD_TRY(td_zmatrix_room(c, n, sizeof(td_zc), &t->up, err));
    return td_zmatrix_room(c, n, sizeof(td_zc), &t->up2, err);
}

static void swap(td_zc *a, td_zc *b)
{
    td_zc t = *a;
    *a = *b;
    *b = t;
}

/* Exchanges row i, which begins with main[i], and row i + 1, which begins with sub[i + 1]. */
static void swap_rows(struct three *t, td_zc *x, int64_t m, int64_t i)
{
    swap(&t->main[i], &t->sub[i + 1]);
    swap(&t->up[i], &t->main[i + 1]);
    t->up2[i] = i + 2 < t->n ? t->up[i + 1] : 0;
    if (i + 2 < t->n) {
        t->up[i + 1] = 0;
    }
    for (int64_t k = 0; k < m; k++) {
        swap(&x[i * m + k], &x[(i + 1) * m + k]);
    }
}

/* x [n,m] becomes the solution; false when a pivot is zero. */
static bool tridiagonal_solve(struct three *t, td_zc *x, int64_t m, bool pivots)
{
    for (int64_t i = 0; i < t->n; i++) {
        t->up2[i] = 0;
        bool last = i + 1 == t->n;
        if (pivots && !last && cabs(t->sub[i + 1]) > cabs(t->main[i])) {
            swap_rows(t, x, m, i);
        }
        if (t->main[i] == 0) {
            return false;
        }
        if (last) {
            break;
        }
        td_zc f = td_zmatrix_quotient(t->sub[i + 1], t->main[i]);
        t->main[i + 1] -= f * t->up[i];
        t->up[i + 1] -= f * t->up2[i];
        for (int64_t k = 0; k < m; k++) {
            x[(i + 1) * m + k] -= f * x[i * m + k];
        }
    }
    for (int64_t i = t->n - 1; i >= 0; i--) {
        for (int64_t k = 0; k < m; k++) {
            td_zc v = x[i * m + k];
            v -= i + 1 < t->n ? t->up[i] * x[(i + 1) * m + k] : 0;
            v -= i + 2 < t->n ? t->up2[i] * x[(i + 2) * m + k] : 0;
            x[i * m + k] = v / t->main[i];
        }
    }
    return true;
}

static enum td_code tridiagonal_solve_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct three t;
    td_zc *x;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_zmatrix_rows(&y->shape), m = td_zmatrix_cols(&y->shape);
    bool pivots = td_attr_bool(c->node, "partial_pivoting");
    TD_FAIL_IF(td_attr_bool(c->node, "perturb_singular"), err, UNIMPLEMENTED,
               "%s: perturb_singular=true is not supported", TD_NODE_STR(c->node));
    TD_TRY(three_room(c, n, &t, err));
    TD_TRY(td_zmatrix_room(c, n * m, sizeof *x, &x, err));
    for (int64_t b = 0, count = n * m == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_zmatrix_load(t.up, c->in[0], b * 3 * n, n);
        td_zmatrix_load(t.main, c->in[0], (b * 3 + 1) * n, n);
        td_zmatrix_load(t.sub, c->in[0], (b * 3 + 2) * n, n);
        t.up[n - 1] = 0;
        td_zmatrix_load(x, c->in[1], b * n * m, n * m);
        TD_FAIL_IF(!tridiagonal_solve(&t, x, m, pivots), err, INVALID_ARGUMENT, "%s: %s",
                   TD_NODE_STR(c->node),
                   pivots ? "The matrix is not invertible."
                          : "The first pivot is zero: partial pivoting would help");
        td_zmatrix_store(y, b * n * m, x, n * m);
    }
    return TD_OK;
}

static enum td_code tridiagonal_product_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct three t;
    td_zc *x, *out;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t n = td_zmatrix_rows(&y->shape), m = td_zmatrix_cols(&y->shape);
    TD_TRY(three_room(c, n, &t, err));
    TD_TRY(td_zmatrix_room(c, n * m, sizeof *x, &x, err));
    TD_TRY(td_zmatrix_room(c, n * m, sizeof *x, &out, err));
    for (int64_t b = 0, count = n * m == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        td_zmatrix_load(t.up, c->in[0], b * n, n);
        td_zmatrix_load(t.main, c->in[1], b * n, n);
        td_zmatrix_load(t.sub, c->in[2], b * n, n);
        td_zmatrix_load(x, c->in[3], b * n * m, n * m);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k < m; k++) {
                td_zc v = t.main[i] * x[i * m + k];
                v += i > 0 ? t.sub[i] * x[(i - 1) * m + k] : 0;
                v += i + 1 < n ? t.up[i] * x[(i + 1) * m + k] : 0;
                out[i * m + k] = v;
            }
        }
        td_zmatrix_store(y, b * n * m, out, n * m);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ bands */

/* a [n,n], from bands [n_bands, n]; false when the diagonal has a zero. */
static bool unfold(const td_zc *bands, int64_t n_bands, int64_t n, bool lower, td_zc *a)
{
    bool whole = true;
    td_zmatrix_fill(a, n * n, 0);
    for (int64_t d = 0; d < n_bands; d++) {
        const td_zc *band = bands + (lower ? d : n_bands - 1 - d) * n;
        for (int64_t i = lower ? d : 0; i < (lower ? n : n - d); i++) {
            a[i * n + (lower ? i - d : i + d)] = band[i];
            whole = whole && (d > 0 || band[i] != 0);
        }
    }
    return whole;
}

static enum td_code banded_solve_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    td_zc *bands, *a, *x;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_shape *s = &c->in[0]->shape;
    int64_t n = td_zmatrix_rows(&y->shape), m = td_zmatrix_cols(&y->shape), n_bands = td_zmatrix_rows(s);
    struct td_triangle t = {.lower = td_attr_bool(c->node, "lower"),
                            .adjoint = td_attr_bool(c->node, "adjoint")};
    TD_TRY(td_zmatrix_room(c, n_bands * n, sizeof *bands, &bands, err));
    TD_TRY(td_zmatrix_room(c, n * n, sizeof *a, &a, err));
    TD_TRY(td_zmatrix_room(c, n * m, sizeof *x, &x, err));
    for (int64_t b = 0, count = n * m == 0 ? 0 : td_zmatrix_batch(&y->shape); b < count; b++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        td_zmatrix_load(bands, c->in[0], td_zmatrix_broadcast_at(s, &y->shape, b) * n_bands * n, n_bands * n);
        td_zmatrix_load(x, c->in[1], td_zmatrix_broadcast_at(&c->in[1]->shape, &y->shape, b) * n * m, n * m);
        TD_FAIL_IF(!unfold(bands, n_bands, n, t.lower, a), err, INVALID_ARGUMENT,
                   "%s: Input matrix is not invertible.", TD_NODE_STR(c->node));
        td_zmatrix_solve_triangle(a, x, n, m, t);
        td_zmatrix_store(y, b * n * m, x, n * m);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

#define SET_LAPACK (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_COMPLEX)

const struct td_op td_ops_linalg_band[] = {
    {.name = "TridiagonalSolve",
     .sig = "(diagonals:T, rhs:T) -> (output:T) {partial_pivoting:bool=true; perturb_singular:bool=false; "
            "T:type}",
     .infer = tridiagonal_infer,
     .grad = td_tridiagonal_solve_grad,
     .kernels = TD_KERNEL("tridiagonal_solve.cpu", tridiagonal_solve_run, {"T", SET_LAPACK})},
    {.name = "TridiagonalMatMul",
     .sig = "(superdiag:T, maindiag:T, subdiag:T, rhs:T) -> (output:T) {T:type}",
     .infer = tridiagonal_infer,
     .grad = td_tridiagonal_matmul_grad,
     .kernels = TD_KERNEL("tridiagonal_matmul.cpu", tridiagonal_product_run, {"T", SET_LAPACK})},
    {.name = "BandedTriangularSolve",
     .sig = "(matrix:T, rhs:T) -> (output:T) {lower:bool=true; adjoint:bool=false; T:type}",
     .infer = banded_infer,
     .grad = td_banded_solve_grad,
     .kernels = TD_KERNEL("banded_triangular_solve.cpu", banded_solve_run, {"T", SET_LAPACK})},
    {.name = NULL},
};
