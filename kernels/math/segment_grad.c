/* kernels/math/segment_grad.c - gradients of y[s] = reduce(x[i] where ids[i] = s): x[i] has what arrived at
 * its segment.
 *
 * An id below 0, which the unsorted ops leave out, has zeros. A product is divided by each of its factors;
 * where one factor is 0, by none of the others, and where two are, all have zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/segment_grad.h"

#include "kernels/formula/formula.h"

/* ------------------------------------------------------------------ by segment, sorted or not */

/* What the gradient of either kind of node asks for. */
struct segments {
    struct td_grad *g;
    struct td_value ids;     /* int32 or int64 */
    struct td_value safe;    /* sorted: ids; else ids, 0 for those below 0 */
    struct td_value counted; /* bool, of ids' shape and 1 for the axes behind; sorted: none */
    const char *sum, *prod;
};

static struct segments sorted(struct td_grad *g)
{
    const struct td_value ids = td_grad_in(g, 1);
    return (struct segments){g, ids, ids, td_no_value, "SegmentSum", "SegmentProd"};
}

/* v, of ids' shape, with an axis of 1 for each that x has behind those. */
static struct td_value with_axes_behind(struct td_grad *g, struct td_value v)
{
    struct td_emitter *e = g->e;
    const struct td_value more = td_f_sub(e, td_f_rank(e, td_grad_in(g, 0)), td_f_rank(e, v));
    const struct td_value ones = td_f_fill(e, td_f_expand(e, more, 0), td_f_int(e, 1));
    return td_f_reshape(e, v, td_f_concat(e, TD_IN(td_f_shape(e, v), ones), 0));
}

static struct segments unsorted(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value given = td_grad_in(g, 1);
    const struct td_value ids = td_dtype_of(given) == TD_INT16 ? td_f_cast(e, given, TD_INT32) : given;
    const struct td_value zero = td_f_number(e, ids, 0);
    return (struct segments){.g = g,
                             .ids = ids,
                             .safe = td_f_2(e, "Maximum", ids, zero),
                             .counted = with_axes_behind(g, td_f_2(e, "GreaterEqual", ids, zero)),
                             .sum = "UnsortedSegmentSum",
                             .prod = "UnsortedSegmentProd"};
}

/* x reduced by op as the node reduces. */
static struct td_value reduced(const struct segments *s, const char *op, struct td_value x)
{
    return s->counted.node == NULL ? td_f_2(s->g->e, op, x, s->ids)
                                   : td_f_3(s->g->e, op, x, s->ids, td_grad_in(s->g, 2));
}

/* To each x what its segment has; any, where it has none. */
static struct td_value spread(const struct segments *s, struct td_value v)
{
    return td_f_gather(s->g->e, v, s->safe, 0);
}

/* The same, but zeros where there is none. */
static struct td_value spread_or_zero(const struct segments *s, struct td_value v)
{
    const struct td_value all = spread(s, v);
    return s->counted.node == NULL ? all : td_f_where(s->g->e, s->counted, all, td_f_number(s->g->e, all, 0));
}

static void give_product(const struct segments *s)
{
    struct td_emitter *e = s->g->e;
    const struct td_value x = td_grad_in(s->g, 0), dy = td_grad_at(s->g, 0);
    const struct td_value is_zero = td_f_2(e, "Equal", x, td_f_number(e, x, 0));
    const struct td_value zeros = reduced(s, s->sum, td_f_cast(e, is_zero, TD_INT32));
    const struct td_value many = td_f_2(e, "Greater", zeros, td_f_int(e, 1));
    const struct td_value kept = td_f_where(e, many, td_f_number(e, dy, 0), dy);
    const struct td_value factors = td_f_where(e, is_zero, td_f_number(e, x, 1), x);
    const struct td_value others = td_f_where(e, is_zero, spread(s, reduced(s, s->prod, factors)),
                                              td_f_div(e, spread(s, td_grad_out(s->g, 0)), factors));
    td_grad_give(s->g, 0, td_f_mul(e, spread_or_zero(s, kept), others));
}

/* Elements that are their segment's extreme share its gradient. */
static void give_extreme(const struct segments *s)
{
    struct td_emitter *e = s->g->e;
    const struct td_value x = td_grad_in(s->g, 0);
    const struct td_value equal = td_f_2(e, "Equal", x, spread(s, td_grad_out(s->g, 0)));
    const struct td_value chosen =
        s->counted.node == NULL ? equal : td_f_2(e, "LogicalAnd", equal, s->counted);
    const struct td_value count = reduced(s, s->sum, td_f_cast(e, chosen, td_dtype_of(x)));
    const struct td_value share = spread(s, td_f_div(e, td_grad_at(s->g, 0), count));
    td_grad_give(s->g, 0, td_f_where(e, chosen, share, td_f_number(e, x, 0)));
}

void td_segment_sum_grad(struct td_grad *g)
{
    const struct segments s = sorted(g);
    td_grad_give(g, 0, spread(&s, td_grad_at(g, 0)));
}

void td_segment_mean_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct segments s = sorted(g);
    const struct td_value shape = td_f_shape(e, with_axes_behind(g, s.ids));
    const struct td_value ones = td_f_fill(e, shape, td_f_number(e, td_grad_in(g, 0), 1));
    td_grad_give(g, 0, spread(&s, td_f_div(e, td_grad_at(g, 0), reduced(&s, s.sum, ones))));
}

void td_segment_prod_grad(struct td_grad *g)
{
    const struct segments s = sorted(g);
    give_product(&s);
}

void td_segment_extreme_grad(struct td_grad *g)
{
    const struct segments s = sorted(g);
    give_extreme(&s);
}

void td_unsorted_segment_sum_grad(struct td_grad *g)
{
    const struct segments s = unsorted(g);
    td_grad_give(g, 0, spread_or_zero(&s, td_grad_at(g, 0)));
}

void td_unsorted_segment_prod_grad(struct td_grad *g)
{
    const struct segments s = unsorted(g);
    give_product(&s);
}

void td_unsorted_segment_extreme_grad(struct td_grad *g)
{
    const struct segments s = unsorted(g);
    give_extreme(&s);
}

/* ------------------------------------------------------------------ of rows that indices choose
 *
 * (data, indices, segment_ids): each has an op for its gradient, whose V2 gives the rows that are named. */

struct sparse_ops {
    const char *dense, *rows;
};

static void give_chosen_rows(struct td_grad *g, const struct sparse_ops *ops)
{
    struct td_emitter *e = g->e;
    const struct td_value shape = td_f_shape(e, td_grad_in(g, 0));
    const struct td_value in[] = {td_grad_at(g, 0), td_grad_in(g, 1), td_grad_in(g, 2),
                                  td_f_element(e, shape, 0)};
    if (td_attr_bool(g->node, "sparse_gradient")) {
        const struct td_value rows = td_emit(e, ops->rows, in, 4, TD_NO_ATTRS);
        td_grad_give_slices(g, 0, (struct td_slices){rows, td_f_port(rows, 1), shape});
    } else {
        td_grad_give(g, 0, td_emit(e, ops->dense, in, 4, TD_NO_ATTRS));
    }
}

void td_sparse_segment_sum_grad(struct td_grad *g)
{
    give_chosen_rows(g, &(struct sparse_ops){"SparseSegmentSumGrad", "SparseSegmentSumGradV2"});
}

void td_sparse_segment_mean_grad(struct td_grad *g)
{
    give_chosen_rows(g, &(struct sparse_ops){"SparseSegmentMeanGrad", "SparseSegmentMeanGradV2"});
}

void td_sparse_segment_sqrt_n_grad(struct td_grad *g)
{
    give_chosen_rows(g, &(struct sparse_ops){"SparseSegmentSqrtNGrad", "SparseSegmentSqrtNGradV2"});
}

/* z = XGrad(dy, indices, segment_ids, rows) is linear in dy: its gradient is X. */
static void give_reduced(struct td_grad *g, const char *op)
{
    struct td_emitter *e = g->e;
    const struct td_value n = td_f_element(e, td_f_shape(e, td_grad_in(g, 0)), 0);
    const struct td_value in[] = {td_grad_at(g, 0), td_grad_in(g, 1), td_grad_in(g, 2), n};
    td_grad_give(g, 0, td_emit(e, op, in, 4, TD_NO_ATTRS));
}

void td_sparse_segment_sum_grad_grad(struct td_grad *g)
{
    give_reduced(g, "SparseSegmentSumWithNumSegments");
}

void td_sparse_segment_mean_grad_grad(struct td_grad *g)
{
    give_reduced(g, "SparseSegmentMeanWithNumSegments");
}

void td_sparse_segment_sqrt_n_grad_grad(struct td_grad *g)
{
    give_reduced(g, "SparseSegmentSqrtNWithNumSegments");
}
