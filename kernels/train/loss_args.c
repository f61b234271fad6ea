/* kernels/train/loss_args.c - ranks and shapes are taken from what is known before any input is seen; what is
 * not is computed from shapes when the graph runs, which costs nothing for a plan of known shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/loss_args.h"

#include "kernels/train/losses.h"

/* -1: not known. */
static int rank_of(struct td_emitter *e, struct td_value x)
{
    return x.node == NULL || e->rc ? -1 : td_emit_shape(e, x)->rank;
}

struct td_value td_loss_column(struct td_emitter *e, struct td_value x)
{
    const int rank = rank_of(e, x);
    if (rank >= 2) {
        return x;
    }
    if (rank == 1) {
        return td_f_expand(e, x, 1);
    }
    const struct td_value missing =
        td_f_2(e, "Maximum", td_f_sub(e, td_f_int(e, 2), td_f_rank(e, x)), td_f_int(e, 0));
    const struct td_value ones = td_f_fill(e, td_f_reshape(e, missing, td_f_ints(e, 1)), td_f_int(e, 1));
    return td_f_reshape(e, x, td_f_concat(e, TD_IN(td_f_shape(e, x), ones), 0));
}

/* Whether both are of one shape, the batch aside. */
static bool same_rows(struct td_emitter *e, struct td_value x, struct td_value y)
{
    if (e->rc || x.node == NULL || y.node == NULL) {
        return true;
    }
    const struct td_shape *a = td_emit_shape(e, x), *b = td_emit_shape(e, y);
    bool same = a->rank >= 2 && a->rank == b->rank;
    for (int i = 1; same && i < a->rank; i++) {
        same = a->dim[i] >= 0 && a->dim[i] == b->dim[i];
    }
    return same;
}

static struct td_loss_pair output_alone(struct td_emitter *e, struct td_value output)
{
    const int rank = rank_of(e, output);
    return (struct td_loss_pair){.p = td_f_cast(e, td_loss_column(e, output), TD_FLOAT),
                                 .rank = rank == 0 || rank == 1 ? 2 : rank};
}

static struct td_value position_shape(struct td_emitter *e, struct td_value p)
{
    return td_f_but_last(e, td_f_shape(e, p), 1);
}

struct td_loss_pair td_loss_pair_make(struct td_emitter *e, struct td_value target, struct td_value output)
{
    struct td_loss_pair r = output_alone(e, output);
    if (target.node != NULL && td_dtype_in(td_dtype_of(target), TD_SET_INDEX)) {
        r = td_loss_class_pair(e, target, output);
        r.y = td_f_cast(e, td_f_expand(e, r.y, -1), TD_FLOAT);
        return r;
    }
    r.y = td_f_cast(e, target, TD_FLOAT);
    if (!same_rows(e, target, output)) {
        r.y = td_f_reshape_like(e, r.y, r.p);
    }
    return r;
}

struct td_loss_pair td_loss_class_pair(struct td_emitter *e, struct td_value target, struct td_value output)
{
    struct td_loss_pair r = output_alone(e, output);
    r.y = r.rank == 2 && rank_of(e, target) == 1 ? target : td_f_reshape(e, target, position_shape(e, r.p));
    return r;
}

struct td_value td_loss_flat(struct td_emitter *e, struct td_value x, int rank)
{
    if (rank == 2) {
        return x;
    }
    const struct td_value classes = td_f_last(e, td_f_shape(e, x), 1);
    return td_f_reshape(e, x, td_f_concat(e, TD_IN(td_f_ints(e, -1), classes), 0));
}

struct td_value td_loss_unflat(struct td_emitter *e, struct td_value v, const struct td_loss_pair *of)
{
    return of->rank == 2 ? v : td_f_reshape(e, v, position_shape(e, of->p));
}

struct td_value td_loss_sum_last(struct td_emitter *e, struct td_value x)
{
    return td_f_sum(e, x, td_f_int(e, -1), false);
}

struct td_value td_loss_mean_last(struct td_emitter *e, struct td_value x)
{
    return td_f_mean(e, x, td_f_int(e, -1), false);
}

struct td_value td_loss_clipped(struct td_emitter *e, struct td_value x, double low, double high)
{
    const struct td_value at_most = td_f_2(e, "Minimum", x, td_f_number(e, x, high));
    return td_f_2(e, "Maximum", at_most, td_f_number(e, x, low));
}

/* Keras's x * min(1/sqrt(s), 1/epsilon), written so that s = 0 has a gradient that is a number. */
struct td_value td_loss_unit(struct td_emitter *e, struct td_value x)
{
    const struct td_value squares = td_f_sum(e, td_f_square(e, x), td_f_int(e, -1), true);
    const double least = TD_LOSS_EPSILON * TD_LOSS_EPSILON;
    return td_f_mul(e, x, td_f_1(e, "Rsqrt", td_f_2(e, "Maximum", squares, td_f_number(e, x, least))));
}

struct td_value td_loss_weights_like(struct td_emitter *e, struct td_value w, struct td_value values)
{
    const int mine = rank_of(e, w);
    if (mine >= 0 && mine == rank_of(e, values)) {
        return w;
    }
    const struct td_value missing =
        td_f_2(e, "Maximum", td_f_sub(e, td_f_rank(e, values), td_f_rank(e, w)), td_f_int(e, 0));
    const struct td_value ones = td_f_fill(e, td_f_reshape(e, missing, td_f_ints(e, 1)), td_f_int(e, 1));
    return td_f_reshape(e, w, td_f_concat(e, TD_IN(td_f_shape(e, w), ones), 0));
}

struct td_value td_loss_count(struct td_emitter *e, struct td_value x)
{
    return td_f_cast(e, td_f_size(e, x), TD_FLOAT);
}
