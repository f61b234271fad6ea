/* kernels/sparse/sparse_grad.c - gradients by the values of sparse tensors [n], and by dense operands.
 *
 * An entry's gradient is where its index says in a dense one, and the other way round: GatherNd and
 * ScatterNd. A dense tensor that is broadcast over a sparse one has size 1 along some axes; there the entry's
 * index is capped to 0 (under()).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sparse/sparse_grad.h"

#include "kernels/formula/formula.h"

static struct td_value minus_one(struct td_emitter *e, struct td_value x)
{
    return td_f_sub(e, x, td_f_number(e, x, 1));
}

/* indices [n, r] of a sparse tensor as those of a dense one of shape [r], with sizes equal or 1. */
static struct td_value under(struct td_emitter *e, struct td_value indices, struct td_value shape)
{
    return td_f_2(e, "Minimum", indices, minus_one(e, shape));
}

/* A vector of n ones in the dtype of x. */
static struct td_value ones(struct td_emitter *e, struct td_value n, struct td_value x)
{
    return td_f_fill(e, td_f_reshape(e, n, td_f_ints(e, 1)), td_f_number(e, x, 1));
}

/* ------------------------------------------------------------------ sparse to dense */

void td_sparse_to_dense_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), indices = td_grad_in(g, 0), values = td_grad_in(g, 2);
    const struct td_value rank = td_f_size(e, td_grad_in(g, 1));
    const struct td_value row =
        td_emit(e, "Pack", TD_IN(td_f_int(e, -1), rank), TD_ATTRS(TD_ATTR_OF_INT("N", 2)));
    const struct td_value taken = td_f_2(e, "GatherNd", dy, td_f_reshape(e, indices, row));
    td_grad_give(g, 2, td_f_sum_to(e, taken, values));
    if (td_grad_wants(g, 3)) {
        const struct td_value scalar = td_f_shape(e, td_grad_in(g, 3));
        td_grad_give(g, 3,
                     td_f_sub(e, td_f_sum_to_shape(e, dy, scalar), td_f_sum_to_shape(e, taken, scalar)));
    }
}

void td_sparse_dense_add_grad(struct td_grad *g)
{
    const struct td_value dy = td_grad_at(g, 0);
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, td_f_2(g->e, "GatherNd", dy, td_grad_in(g, 0)));
    }
    td_grad_give(g, 3, dy);
}

/* ------------------------------------------------------------------ element by element */

/* The dense operand as its entries at those of the sparse one, and what leads back. */
struct spread {
    struct td_value shape;   /* of the dense operand, ones in front: as long as that of the sparse one */
    struct td_value indices; /* of each entry in it */
    struct td_value dense;   /* [n] */
};

static struct spread spread_dense(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value y = td_grad_in(g, 3), own = td_f_shape_as(e, y, TD_INT64);
    const struct td_value more = td_f_sub(e, td_f_size(e, td_grad_in(g, 2)), td_f_rank(e, y));
    struct spread s;
    s.shape = td_f_concat(e, TD_IN(ones(e, more, own), own), 0);
    s.indices = under(e, td_grad_in(g, 0), s.shape);
    s.dense = td_f_2(e, "GatherNd", td_f_reshape(e, y, s.shape), s.indices);
    return s;
}

static void give_dense(struct td_grad *g, const struct spread *s, struct td_value by_entry)
{
    td_grad_give(
        g, 3,
        td_f_reshape_like(g->e, td_f_3(g->e, "ScatterNd", s->indices, by_entry, s->shape), td_grad_in(g, 3)));
}

void td_sparse_cwise_add_grad(struct td_grad *g)
{
    const struct spread s = spread_dense(g);
    td_grad_give(g, 1, td_grad_at(g, 0));
    give_dense(g, &s, td_grad_at(g, 0));
}

void td_sparse_cwise_mul_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    const struct spread s = spread_dense(g);
    td_grad_give(g, 1, td_f_mul(g->e, dz, s.dense));
    give_dense(g, &s, td_f_mul(g->e, dz, td_grad_in(g, 1)));
}

void td_sparse_cwise_div_grad(struct td_grad *g)
{
    const struct td_value dz = td_grad_at(g, 0);
    const struct spread s = spread_dense(g);
    const struct td_value dx = td_f_div(g->e, dz, s.dense);
    td_grad_give(g, 1, dx);
    give_dense(g, &s, td_f_neg(g->e, td_f_mul(g->e, dx, td_grad_out(g, 0))));
}

/* ------------------------------------------------------------------ products */

/* Entry (r, c) of a gets row r of dy times row c of b, the adjoints taken into account. */
static struct td_value by_entries(struct td_grad *g, struct td_value dy, bool adjoint_a, bool adjoint_b)
{
    struct td_emitter *e = g->e;
    const struct td_value indices = td_grad_in(g, 0), b = td_grad_in(g, 3);
    const struct td_value pair =
        td_emit(e, "Unpack", TD_IN(indices), TD_ATTRS(TD_ATTR_OF_INT("num", 2), TD_ATTR_OF_INT("axis", 1)));
    const struct td_value rows = td_f_port(pair, adjoint_a ? 1 : 0),
                          cols = td_f_port(pair, adjoint_a ? 0 : 1);
    struct td_value x = td_f_gather(e, dy, rows, 0);
    struct td_value y = td_f_gather(e, adjoint_b ? td_f_swap(e, b) : b, cols, 0);
    x = adjoint_a ? td_f_conj(e, x) : x;
    y = adjoint_a == adjoint_b ? td_f_conj(e, y) : y;
    return td_f_sum(e, td_f_mul(e, x, y), td_f_ints(e, 1), false);
}

void td_sparse_dense_matmul_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const bool adjoint_a = td_attr_bool(g->node, "adjoint_a"), adjoint_b = td_attr_bool(g->node, "adjoint_b");
    const struct td_value dy = td_grad_at(g, 0);
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, by_entries(g, dy, adjoint_a, adjoint_b));
    }
    if (td_grad_wants(g, 3)) {
        const struct td_value db = td_emit(e, "SparseTensorDenseMatMul",
                                           TD_IN(td_grad_in(g, 0), td_grad_in(g, 1), td_grad_in(g, 2), dy),
                                           TD_ATTRS(TD_ATTR_OF_BOOL("adjoint_a", !adjoint_a)));
        td_grad_give(g, 3, adjoint_b ? td_f_adjoint(e, db) : db);
    }
}

/* ------------------------------------------------------------------ entries in other places */

/* The entries' numbers, ordered likewise, say where each went. */
void td_sparse_reorder_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value indices = td_grad_in(g, 0);
    const struct td_value n = td_f_size(e, td_grad_in(g, 1));
    const struct td_value number = td_f_range(e, td_f_int(e, 0), n);
    const struct td_value order = td_f_port(td_f_3(e, "SparseReorder", indices, number, td_grad_in(g, 2)), 1);
    td_grad_give(g, 1, td_f_gather(e, td_grad_at(g, 1), td_f_1(e, "InvertPermutation", order), 0));
}

void td_sparse_slice_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_grad_at(g, 1), td_grad_in(g, 0), td_grad_in(g, 3), td_grad_out(g, 0)};
    td_grad_give(g, 1, td_emit(g->e, "SparseSliceGrad", in, 4, TD_NO_ATTRS));
}

void td_sparse_add_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_grad_at(g, 1), td_grad_in(g, 0), td_grad_in(g, 3), td_grad_out(g, 0)};
    const struct td_value both = td_emit(g->e, "SparseAddGrad", in, 4, TD_NO_ATTRS);
    td_grad_give(g, 1, both);
    td_grad_give(g, 4, td_f_port(both, 1));
}

static void give_filled(struct td_grad *g, const char *op)
{
    const struct td_value both = td_f_2(g->e, op, td_grad_out(g, 3), td_grad_at(g, 1));
    td_grad_give(g, 1, both);
    td_grad_give(g, 3, td_f_port(both, 1));
}

void td_sparse_fill_rows_grad(struct td_grad *g)
{
    give_filled(g, "SparseFillEmptyRowsGrad");
}

void td_sparse_fill_ragged_rows_grad(struct td_grad *g)
{
    give_filled(g, "RaggedFillEmptyRowsGrad");
}

/* ------------------------------------------------------------------ sums */

void td_sparse_reduce_sum_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value shape = td_grad_in(g, 2), rank = td_f_size(e, shape);
    const struct td_value given = td_f_2(e, "FloorMod", td_grad_in(g, 3), rank);
    const struct td_value axes = td_f_reshape(e, given, td_f_ints(e, -1));
    const struct td_value in[] = {td_f_range(e, td_f_int(e, 0), rank), axes, shape,
                                  ones(e, td_f_size(e, axes), shape)};
    const struct td_value kept = td_emit(e, "DynamicStitch", in, 4, TD_ATTRS(TD_ATTR_OF_INT("N", 2)));
    const struct td_value dy = td_f_reshape(e, td_grad_at(g, 0), kept);
    td_grad_give(g, 1, td_f_2(e, "GatherNd", dy, under(e, td_grad_in(g, 0), kept)));
}

/* dx = y (dy - sum of y dy over the last axis) */
void td_sparse_softmax_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value indices = td_grad_in(g, 0), y = td_grad_out(g, 0), dy = td_grad_at(g, 0);
    const struct td_value in[] = {indices, td_f_mul(e, y, dy), td_grad_in(g, 2), td_f_ints(e, -1)};
    const struct td_value sum =
        td_emit(e, "SparseReduceSum", in, 4, TD_ATTRS(TD_ATTR_OF_BOOL("keep_dims", true)));
    const struct td_value by_entry =
        td_f_2(e, "GatherNd", sum, under(e, indices, td_f_shape_as(e, sum, TD_INT64)));
    td_grad_give(g, 1, td_f_mul(e, y, td_f_sub(e, dy, by_entry)));
}
