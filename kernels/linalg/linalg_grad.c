/* kernels/linalg/linalg_grad.c - gradients of decompositions and of least squares.
 *
 *   A = V diag(e) V^H      F_ij = 1 / (e_j - e_i) off the diagonal     dA = V (diag(de) + F * V^H dV) V^H
 *   A = U diag(s) V^H      the same with the squares of s for U and for V, and what leaves their spans
 *   A = Q R                a deep or square A; of a wide one the columns behind follow as Q dR
 *   min |A X - B|          by the normal equations, of whichever kind is the smaller
 *
 * Equal eigenvalues and zero singular values have no gradient by vectors: reciprocals are damped so that they
 * stay finite. What TensorFlow says of these ops holds: which triangle of a self-adjoint matrix counts, that
 * full bases of U and V differ by one vector at most, that least squares are fast ones.
 *
 * Does not: decide by shapes that are not known before the graph runs, but for least squares: there both
 * kinds are computed, one of them of an empty batch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/linalg_grad.h"

#include "kernels/linalg/matrix_formula.h"

/* x / (x^2 + tiny) */
static struct td_value damped_reciprocal(struct td_emitter *e, struct td_value x)
{
    const struct td_value square = td_f_add(e, td_f_square(e, x), td_f_number(e, x, 1e-20));
    return td_f_mul(e, x, td_f_1(e, "Reciprocal", square));
}

/* 1 / (v_j - v_i), zero where i = j. */
static struct td_value differences(struct td_emitter *e, struct td_value v)
{
    const struct td_value d = td_f_sub(e, td_f_expand(e, v, -2), td_f_expand(e, v, -1));
    return td_f_2(e, "MatrixSetDiag", damped_reciprocal(e, d), td_f_zeros_like(e, v));
}

static struct td_value plus_adjoint(struct td_emitter *e, struct td_value x)
{
    return td_f_add(e, x, td_f_adjoint(e, x));
}

static struct td_value minus_adjoint(struct td_emitter *e, struct td_value x)
{
    return td_f_sub(e, x, td_f_adjoint(e, x));
}

static struct td_value mm(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_f_batch_matmul(e, x, y, false, false);
}
static struct td_value mm_left(struct td_emitter *e, struct td_value x, struct td_value y) /* x^H y */
{
    return td_f_batch_matmul(e, x, y, true, false);
}
static struct td_value mm_right(struct td_emitter *e, struct td_value x, struct td_value y) /* x y^H */
{
    return td_f_batch_matmul(e, x, y, false, true);
}

static bool is_complex(struct td_value v)
{
    return td_dtype_in(td_dtype_of(v), TD_SET_COMPLEX);
}

/* What is known of rows and columns of the node's input 0; -1. */
static void known_sides(const struct td_grad *g, int64_t *m, int64_t *n)
{
    const struct td_shape *s = td_emit_shape(g->e, td_grad_in(g, 0));
    *m = s->rank < 2 ? -1 : s->dim[s->rank - 2];
    *n = s->rank < 2 ? -1 : s->dim[s->rank - 1];
}

/* ------------------------------------------------------------------ eigenvalues */

/* The eigenvectors: the node's own, or, where it has none, those of another node. */
static struct td_value vectors_of(struct td_grad *g)
{
    if (td_attr_bool(g->node, "compute_v")) {
        return td_grad_out(g, 1);
    }
    const int n_attrs = td_attr_find(g->node->attrs, g->node->n_attrs, "Tout") == NULL ? 1 : 2;
    const struct td_attr attrs[] = {TD_ATTR_OF_BOOL("compute_v", true),
                                    TD_ATTR_OF_TYPE("Tout", g->node->out_type[0])};
    return td_f_port(td_emit(g->e, g->node->op_name, TD_IN(td_grad_in(g, 0)), attrs, n_attrs), 1);
}

static bool vectors_arrived(const struct td_grad *g)
{
    return td_attr_bool(g->node, "compute_v") && td_grad_arrived(g, 1);
}

/* The lower triangle alone is read: what would go to the upper one goes there. */
void td_self_adjoint_eig_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value v = vectors_of(g), de = td_grad_at(g, 0);
    struct td_value right = td_f_scale_rows(e, td_f_adjoint(e, v), de);
    if (vectors_arrived(g)) {
        const struct td_value rotation =
            td_f_mul(e, differences(e, td_grad_out(g, 0)), mm_left(e, v, td_grad_at(g, 1)));
        right = td_f_add(e, right, mm_right(e, rotation, v));
    }
    const struct td_value lower = td_f_lower(e, plus_adjoint(e, mm(e, v, right)));
    td_grad_give(g, 0, td_f_scale_diagonal(e, lower, 0.5));
}

/* The real parts of the diagonal of a complex x, in its dtype. */
static struct td_value real_diagonal(struct td_emitter *e, struct td_value x)
{
    const enum td_dtype dtype = td_dtype_of(x);
    const struct td_value real =
        td_emit(e, "Real", TD_IN(td_f_1(e, "MatrixDiagPart", x)),
                TD_ATTRS(TD_ATTR_OF_TYPE("Tout", dtype == TD_COMPLEX64 ? TD_FLOAT : TD_DOUBLE)));
    return td_f_cast(e, real, dtype);
}

void td_eig_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value v = vectors_of(g), adjoint = td_f_adjoint(e, v), de = td_grad_at(g, 0);
    struct td_value right = td_f_scale_rows(e, adjoint, de);
    if (vectors_arrived(g)) {
        const struct td_value vdv = mm(e, adjoint, td_grad_at(g, 1));
        const struct td_value along = td_f_scale_columns(e, mm(e, adjoint, v), real_diagonal(e, vdv));
        const struct td_value f = td_f_conj(e, differences(e, td_grad_out(g, 0)));
        right = td_f_add(e, right, mm(e, td_f_mul(e, f, td_f_sub(e, vdv, along)), adjoint));
    }
    const struct td_value da = td_f_2(e, "MatrixSolve", adjoint, right);
    td_grad_give(g, 0, td_f_cast(e, da, td_dtype_of(td_grad_in(g, 0))));
}

/* ------------------------------------------------------------------ Q R */

/* x R^-H, R upper triangular. */
static struct td_value over_adjoint(struct td_emitter *e, struct td_value x, struct td_value r)
{
    return td_f_adjoint(e, td_f_triangular_solve(e, r, td_f_adjoint(e, x), false, false));
}

/* Q [.., m, k], R [.., k, k]. */
static struct td_value qr_of_deep(struct td_emitter *e, struct td_value q, struct td_value r,
                                  struct td_value dq, struct td_value dr)
{
    const struct td_value qdq = mm_left(e, q, dq), rdr = mm_right(e, r, dr);
    const struct td_value skew = td_f_add(e, minus_adjoint(e, qdq), minus_adjoint(e, rdr));
    const struct td_value inside = mm(e, q, td_f_add(e, dr, over_adjoint(e, td_f_lower(e, skew), r)));
    const struct td_value across = over_adjoint(e, td_f_sub(e, dq, mm(e, q, qdq)), r);
    const struct td_value da = td_f_add(e, inside, across);
    if (!is_complex(q)) {
        return da;
    }
    /* the diagonal of R is real: what would rotate it is taken out */
    const struct td_value m = td_f_1(e, "MatrixDiagPart", td_f_sub(e, rdr, td_f_adjoint(e, qdq)));
    const struct td_value phase = td_f_scale(e, td_f_sub(e, m, td_f_conj(e, m)), 0.5);
    return td_f_add(e, da, over_adjoint(e, td_f_scale_columns(e, q, td_f_conj(e, phase)), r));
}

void td_qr_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    int64_t m, n;
    known_sides(g, &m, &n);
    const struct td_value q = td_grad_out(g, 0), r = td_grad_out(g, 1);
    const struct td_value dq = td_grad_at(g, 0), dr = td_grad_at(g, 1);
    if (m > n && n >= 0 && td_attr_bool(g->node, "full_matrices")) {
        td_emit_fail(
            e, TD_UNIMPLEMENTED,
            "no gradient is defined for %s: of %lld rows and %lld columns, with full_matrices, want no "
            "more rows than columns",
            TD_NODE_STR(g->node), (long long)m, (long long)n);
        return;
    }
    if (m >= n && n >= 0) {
        td_grad_give(g, 0, qr_of_deep(e, q, r, dq, dr));
        return;
    }
    /* [X Y] = Q [U V]; Y and V are empty where A turns out not to be wide */
    const struct td_value k = td_f_dim(e, q, 1), dv = td_f_columns(e, dr, k, td_no_value);
    const struct td_value y = td_f_columns(e, td_grad_in(g, 0), k, td_no_value);
    const struct td_value dx =
        qr_of_deep(e, q, td_f_columns(e, r, td_no_value, k), td_f_add(e, dq, mm_right(e, y, dv)),
                   td_f_columns(e, dr, td_no_value, k));
    td_grad_give(g, 0, td_f_concat(e, TD_IN(dx, mm(e, q, dv)), -1));
}

/* ------------------------------------------------------------------ singular values */

struct svd { /* A = U diag(s) V^H, u and v the columns that have an s */
    struct td_value s, u, v, ds, du, dv;
    struct td_value rest_v, rest_dv; /* of a full basis: the other columns of V; none */
};

/* What moves v out of the span of its columns: (dv^H (I - v v^H)), less what stays among all columns. */
static struct td_value out_of_span(struct td_emitter *e, struct td_value v, struct td_value dv)
{
    return td_f_sub(e, td_f_adjoint(e, dv), mm_right(e, mm_left(e, dv, v), v));
}

/* A with no more rows than columns, or, `both`, of any shape with neither basis full. */
static struct td_value svd_of_wide(struct td_emitter *e, const struct svd *d, bool square, bool both)
{
    const struct td_value f = differences(e, td_f_square(e, d->s)), inverse = damped_reciprocal(e, d->s);
    const struct td_value vdv = mm_left(e, d->v, d->dv);
    const struct td_value fu = plus_adjoint(e, td_f_mul(e, f, mm_left(e, d->u, d->du)));
    const struct td_value fv = plus_adjoint(e, td_f_mul(e, f, vdv));
    struct td_value middle = td_f_add(e, td_f_scale_columns(e, fu, d->s), td_f_scale_rows(e, fv, d->s));
    middle = td_f_add(e, middle, td_f_1(e, "MatrixDiag", d->ds));
    if (is_complex(d->u)) {
        const struct td_value diagonal = td_f_1(e, "MatrixDiagPart", vdv);
        const struct td_value phase = td_f_scale(e, td_f_sub(e, td_f_conj(e, diagonal), diagonal), 0.5);
        middle = td_f_add(e, middle, td_f_1(e, "MatrixDiag", td_f_mul(e, inverse, phase)));
    }
    struct td_value right = mm_right(e, middle, d->v);
    if (!square) {
        struct td_value out = out_of_span(e, d->v, d->dv);
        if (d->rest_v.node != NULL) {
            out = td_f_sub(e, out, mm_right(e, mm_left(e, d->v, d->rest_dv), d->rest_v));
        }
        right = td_f_add(e, right, td_f_scale_rows(e, out, inverse));
    }
    struct td_value da = mm(e, d->u, right);
    if (both) {
        const struct td_value out = td_f_scale_rows(e, out_of_span(e, d->u, d->du), inverse);
        da = td_f_add(e, da, mm_right(e, td_f_adjoint(e, out), d->v));
    }
    return da;
}

static struct td_value svd_by_vectors(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    int64_t m, n;
    known_sides(g, &m, &n);
    const bool full = td_attr_bool(g->node, "full_matrices"), known = m >= 0 && n >= 0, tall = known && m > n;
    const int64_t beyond = tall ? m - n : n - m;
    if (full && (!known || beyond > 1)) {
        return td_emit_fail(
            e, TD_UNIMPLEMENTED,
            "no gradient is defined for %s: of %lld rows and %lld columns (-1: not known), with "
            "full_matrices, want numbers that differ by one at most",
            TD_NODE_STR(g->node), (long long)m, (long long)n);
    }
    const int u = tall ? 2 : 1, v = tall ? 1 : 2; /* of a tall A: A^H = V diag(s) U^H */
    struct svd d = {.s = td_grad_out(g, 0),
                    .u = td_grad_out(g, u),
                    .v = td_grad_out(g, v),
                    .ds = td_grad_at(g, 0),
                    .du = td_grad_at(g, u),
                    .dv = td_grad_at(g, v)};
    if (full && beyond == 1) {
        const struct td_value k = td_f_dim(e, d.s, 1);
        d.rest_v = td_f_columns(e, d.v, k, td_no_value);
        d.rest_dv = td_f_columns(e, d.dv, k, td_no_value);
        d.v = td_f_columns(e, d.v, td_no_value, k);
        d.dv = td_f_columns(e, d.dv, td_no_value, k);
    }
    if (!known && is_complex(d.u)) { /* what is imaginary there counts as it does in a tall A's adjoint */
        const struct td_value tall_at_run =
            td_f_2(e, "Greater", td_f_dim(e, td_grad_in(g, 0), 2), td_f_dim(e, td_grad_in(g, 0), 1));
        d.ds = td_f_where(e, tall_at_run, td_f_conj(e, d.ds), d.ds);
    }
    const struct td_value da = svd_of_wide(e, &d, known && m == n, !known);
    return tall ? td_f_adjoint(e, da) : da;
}

void td_svd_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const bool vectors = td_attr_bool(g->node, "compute_uv");
    if (vectors && (td_grad_arrived(g, 1) || td_grad_arrived(g, 2))) {
        td_grad_give(g, 0, svd_by_vectors(g));
        return;
    }
    struct td_value s = td_grad_out(g, 0);
    if (!vectors || td_attr_bool(g->node, "full_matrices")) {
        s = td_emit(e, "Svd", TD_IN(td_grad_in(g, 0)), TD_NO_ATTRS);
    }
    const struct td_value left = td_f_scale_columns(e, td_f_port(s, 1), td_grad_at(g, 0));
    td_grad_give(g, 0, mm_right(e, left, td_f_port(s, 2)));
}

/* ------------------------------------------------------------------ least squares */

struct least_squares {
    struct td_value a, b, x, dx, regularizer;
};

/* (a^H a + c I)^-1 b, or with a a^H. */
static struct td_value solve_gramian(struct td_emitter *e, struct td_value factor, struct td_value b)
{
    return td_f_triangular_solve(e, factor, td_f_triangular_solve(e, factor, b, true, false), true, true);
}

static struct td_value gramian_factor(struct td_emitter *e, const struct least_squares *s, bool first)
{
    const struct td_value gramian = td_f_batch_matmul(e, s->a, s->a, first, !first);
    const struct td_value c = td_f_cast(e, s->regularizer, td_dtype_of(s->a));
    const struct td_value more = td_f_mul(e, c, td_f_identity(e, s->a, td_f_dim(e, s->a, first ? 1 : 2)));
    return td_f_1(e, "Cholesky", td_f_add(e, gramian, more));
}

static void over_determined(struct td_emitter *e, const struct least_squares *s, struct td_value *da,
                            struct td_value *db)
{
    const struct td_value z = solve_gramian(e, gramian_factor(e, s, true), s->dx);
    const struct td_value xz = mm_right(e, s->x, z);
    *da = td_f_sub(e, mm_right(e, s->b, z), mm(e, s->a, td_f_add(e, xz, td_f_swap(e, xz))));
    *db = mm(e, s->a, z);
}

static void under_determined(struct td_emitter *e, const struct least_squares *s, struct td_value *da,
                             struct td_value *db)
{
    const struct td_value factor = gramian_factor(e, s, false), z = solve_gramian(e, factor, s->b);
    *db = solve_gramian(e, factor, mm(e, s->a, s->dx));
    const struct td_value out = td_f_sub(e, s->dx, mm_left(e, s->a, *db));
    *da = td_f_sub(e, mm_right(e, z, out), mm(e, *db, mm_left(e, z, s->a)));
}

/* The first `count` matrices, which is all or none, of x, which is a batch of `all`. */
static struct td_value all_or_none(struct td_emitter *e, struct td_value x, struct td_value all,
                                   struct td_value count)
{
    const struct td_value sides = td_f_last(e, td_f_shape(e, x), 2);
    const struct td_value matrices = td_f_reshape(e, x, td_f_concat(e, TD_IN(all, sides), 0));
    return td_f_slice(e, matrices, td_f_ints(e, 0, 0, 0), td_f_concat(e, TD_IN(count, sides), 0));
}

static struct least_squares part_of(struct td_emitter *e, const struct least_squares *s, struct td_value all,
                                    struct td_value count)
{
    return (struct least_squares){.a = all_or_none(e, s->a, all, count),
                                  .b = all_or_none(e, s->b, all, count),
                                  .x = all_or_none(e, s->x, all, count),
                                  .dx = all_or_none(e, s->dx, all, count),
                                  .regularizer = s->regularizer};
}

/* Of a shape that is not known yet. */
static void either_determined(struct td_emitter *e, const struct least_squares *s, struct td_value *da,
                              struct td_value *db)
{
    const struct td_value shape = td_f_shape(e, s->a);
    const struct td_value all = td_emit(e, "Prod", TD_IN(td_f_but_last(e, shape, 2), td_f_ints(e, 0)),
                                        TD_ATTRS(TD_ATTR_OF_BOOL("keep_dims", true)));
    const struct td_value deep = td_f_2(e, "GreaterEqual", td_f_dim(e, s->a, 2), td_f_dim(e, s->a, 1));
    const struct td_value over = td_f_mul(e, all, td_f_cast(e, deep, TD_INT32));
    const struct least_squares first = part_of(e, s, all, over);
    const struct least_squares second = part_of(e, s, all, td_f_sub(e, all, over));
    struct td_value a[2], b[2];
    over_determined(e, &first, &a[0], &b[0]);
    under_determined(e, &second, &a[1], &b[1]);
    *da = td_f_reshape(e, td_f_concat(e, a, 2, 0), shape);
    *db = td_f_reshape_like(e, td_f_concat(e, b, 2, 0), s->b);
}

void td_matrix_solve_ls_grad(struct td_grad *g)
{
    if (!td_attr_bool(g->node, "fast")) {
        td_emit_fail(g->e, TD_UNIMPLEMENTED, "no gradient is defined for %s with fast=false, want fast=true",
                     TD_NODE_STR(g->node));
        return;
    }
    const struct least_squares s = {.a = td_grad_in(g, 0),
                                    .b = td_grad_in(g, 1),
                                    .x = td_grad_out(g, 0),
                                    .dx = td_grad_at(g, 0),
                                    .regularizer = td_grad_in(g, 2)};
    int64_t m, n;
    known_sides(g, &m, &n);
    struct td_value da, db;
    if (m < 0 || n < 0) {
        either_determined(g->e, &s, &da, &db);
    } else if (m >= n) {
        over_determined(g->e, &s, &da, &db);
    } else {
        under_determined(g->e, &s, &da, &db);
    }
    td_grad_give(g, 0, da);
    td_grad_give(g, 1, db);
}
