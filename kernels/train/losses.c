/* kernels/train/losses.c - losses of numbers, margins and directions, the table of all, and reductions. Cross
 * entropies: loss_entropy.c.
 *
 * Each formula is element-wise but for one sum over the last axis at its end, so that the compiler makes one
 * or two nodes of it. Where a formula has a kink, it is written with the op whose gradient there is
 * TensorFlow's: |x| has 0 at 0, max(x, 0) has 1 at 0 (Relu has 0).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/losses.h"

#include <string.h>

#include "kernels/train/loss_args.h"
#include "kernels/train/loss_entropy.h"

static struct td_loss_pair pair_of(struct td_emitter *e, const struct td_loss_args *a)
{
    return td_loss_pair_make(e, a->target, a->output);
}

static struct td_value abs_of(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Abs", x);
}

static struct td_value at_least(struct td_emitter *e, struct td_value x, double low)
{
    return td_f_2(e, "Maximum", x, td_f_number(e, x, low));
}

/* ------------------------------------------------------------------ numbers */

static struct td_value mse(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    return td_loss_mean_last(e, td_f_2(e, "SquaredDifference", x.p, x.y));
}

static struct td_value mae(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    return td_loss_mean_last(e, abs_of(e, td_f_sub(e, x.y, x.p)));
}

static struct td_value mape(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value size = at_least(e, abs_of(e, x.y), TD_LOSS_EPSILON);
    const struct td_value part = abs_of(e, td_f_div(e, td_f_sub(e, x.y, x.p), size));
    return td_f_scale(e, td_loss_mean_last(e, part), 100);
}

/* ln(max(x, epsilon) + 1) */
static struct td_value log_of_more(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Log", td_f_add(e, at_least(e, x, TD_LOSS_EPSILON), td_f_number(e, x, 1)));
}

static struct td_value msle(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    return td_loss_mean_last(e, td_f_2(e, "SquaredDifference", log_of_more(e, x.p), log_of_more(e, x.y)));
}

static const struct td_field huber_fields[] = {
    {.name = "delta", .kind = TD_FIELD_NUMBER, .standard = 1, .range = TD_POSITIVE},
    {.name = NULL},
};

/* With c = min(|d|, delta): c * (|d| - c / 2), which is d^2 / 2 within delta and linear beyond; the gradient
 * at d = 0 is 0, and both sides agree at |d| = delta. */
static struct td_value huber(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value size = abs_of(e, td_f_sub(e, x.p, x.y));
    const struct td_value small = td_f_2(e, "Minimum", size, td_f_number(e, size, a->field.v[0]));
    return td_loss_mean_last(e, td_f_mul(e, small, td_f_sub(e, size, td_f_scale(e, small, 0.5))));
}

static struct td_value log_cosh(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value d = td_f_sub(e, x.p, x.y);
    const struct td_value grown = td_f_add(e, d, td_f_1(e, "Softplus", td_f_scale(e, d, -2)));
    return td_loss_mean_last(e, td_f_sub(e, grown, td_f_number(e, d, M_LN2)));
}

static struct td_value poisson(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value log = td_f_1(e, "Log", td_f_add(e, x.p, td_f_number(e, x.p, TD_LOSS_EPSILON)));
    return td_loss_mean_last(e, td_f_sub(e, x.p, td_f_mul(e, x.y, log)));
}

/* ------------------------------------------------------------------ distributions and directions */

static struct td_value kl_divergence(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value y = td_loss_clipped(e, x.y, TD_LOSS_EPSILON, 1);
    const struct td_value p = td_loss_clipped(e, x.p, TD_LOSS_EPSILON, 1);
    return td_loss_sum_last(e, td_f_mul(e, y, td_f_1(e, "Log", td_f_div(e, y, p))));
}

static struct td_value cosine_similarity(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value product = td_f_mul(e, td_loss_unit(e, x.y), td_loss_unit(e, x.p));
    return td_f_neg(e, td_loss_sum_last(e, product));
}

/* ------------------------------------------------------------------ margins */

/* y of 0 and 1, if a whole batch is of these alone, as -1 and 1. */
static struct td_value signs(struct td_emitter *e, struct td_value y, struct td_loss_share *share)
{
    const struct td_value flat = td_f_reshape(e, y, td_f_ints(e, -1));
    const struct td_value binary = td_f_2(e, "LogicalOr", td_f_2(e, "Equal", flat, td_f_number(e, y, 0)),
                                          td_f_2(e, "Equal", flat, td_f_number(e, y, 1)));
    struct td_value all = td_f_2(e, "All", binary, td_f_int(e, 0));
    if (share != NULL) {
        const struct td_value not_all = td_f_cast(e, td_f_1(e, "LogicalNot", all), TD_FLOAT);
        const struct td_value others = td_loss_sum_shares(e, share, not_all);
        all = td_f_2(e, "Equal", others, td_f_number(e, others, 0));
    }
    return td_f_where(e, all, td_f_sub(e, td_f_scale(e, y, 2), td_f_number(e, y, 1)), y);
}

/* max(1 - y p, 0) */
static struct td_value short_of_margin(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value product = td_f_mul(e, signs(e, x.y, a->share), x.p);
    return at_least(e, td_f_sub(e, td_f_number(e, x.p, 1), product), 0);
}

static struct td_value hinge(struct td_emitter *e, const struct td_loss_args *a)
{
    return td_loss_mean_last(e, short_of_margin(e, a));
}

static struct td_value squared_hinge(struct td_emitter *e, const struct td_loss_args *a)
{
    return td_loss_mean_last(e, td_f_square(e, short_of_margin(e, a)));
}

static struct td_value categorical_hinge(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = pair_of(e, a);
    const struct td_value right = td_loss_sum_last(e, td_f_mul(e, x.y, x.p));
    const struct td_value others = td_f_mul(e, td_f_sub(e, td_f_number(e, x.y, 1), x.y), x.p);
    const struct td_value wrong = td_f_2(e, "Max", others, td_f_int(e, -1));
    return at_least(e, td_f_add(e, td_f_sub(e, wrong, right), td_f_number(e, x.p, 1)), 0);
}

/* ------------------------------------------------------------------ the table */

static const struct td_field no_fields[] = {{.name = NULL}};

static const struct td_loss rows[] = {
    {"mse", TD_TARGET_LIKE_OUTPUT, no_fields, mse, NULL},
    {"mae", TD_TARGET_LIKE_OUTPUT, no_fields, mae, NULL},
    {"mape", TD_TARGET_LIKE_OUTPUT, no_fields, mape, NULL},
    {"msle", TD_TARGET_LIKE_OUTPUT, no_fields, msle, NULL},
    {"huber", TD_TARGET_LIKE_OUTPUT, huber_fields, huber, NULL},
    {"log_cosh", TD_TARGET_LIKE_OUTPUT, no_fields, log_cosh, NULL},
    {"poisson", TD_TARGET_LIKE_OUTPUT, no_fields, poisson, NULL},
    {"kl_divergence", TD_TARGET_DISTRIBUTION, no_fields, kl_divergence, NULL},
    {"cosine_similarity", TD_TARGET_LIKE_OUTPUT, no_fields, cosine_similarity, NULL},
    {"hinge", TD_TARGET_SIGN, no_fields, hinge, NULL},
    {"squared_hinge", TD_TARGET_SIGN, no_fields, squared_hinge, NULL},
    {"categorical_hinge", TD_TARGET_DISTRIBUTION, no_fields, categorical_hinge, NULL},
    {"binary_crossentropy", TD_TARGET_PROBABILITY, td_entropy_fields, td_entropy_binary, NULL},
    {"categorical_crossentropy", TD_TARGET_DISTRIBUTION, td_entropy_fields, td_entropy_dense, NULL},
    {"sparse_categorical_crossentropy", TD_TARGET_CLASS, td_entropy_sparse_fields, td_entropy_sparse,
     td_entropy_counted},
};

const struct td_loss *td_loss_row(int i)
{
    return i >= 0 && i < (int)(sizeof rows / sizeof *rows) ? &rows[i] : NULL;
}

const struct td_loss *td_loss_find(const char *name)
{
    int i = 0;
    while (td_loss_row(i) != NULL && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return td_loss_row(i);
}

/* ------------------------------------------------------------------ reductions */

struct td_value td_loss_sum_shares(struct td_emitter *e, struct td_loss_share *share, struct td_value x)
{
    const int number = share->n_sums++;
    return td_emit(e, "_SumNow", TD_IN(x), TD_ATTRS(TD_ATTR_OF_INT("number", number)));
}

/* What the sum of values is divided by. */
static struct td_value divisor(struct td_emitter *e, struct td_value values, struct td_value weights,
                               struct td_value counted, enum td_reduction how, struct td_loss_share *share)
{
    const struct td_value mask = td_f_cast(e, counted, TD_FLOAT);
    const bool by_weight = how == TD_MEAN_WITH_SAMPLE_WEIGHT && weights.node != NULL;
    if (!by_weight && counted.node == NULL) { /* a row has as many values as another */
        const struct td_value n = td_loss_count(e, values);
        return share == NULL ? n : td_f_mul(e, n, share->times);
    }
    struct td_value part = mask;
    if (by_weight) {
        part = counted.node == NULL ? weights : td_f_mul(e, td_loss_weights_like(e, weights, values), mask);
    }
    const struct td_value n = td_f_sum_all(e, part);
    return share == NULL ? n : td_loss_sum_shares(e, share, td_f_mul(e, n, share->counts));
}

struct td_value td_loss_reduce(struct td_emitter *e, struct td_value values, struct td_value weights,
                               struct td_value counted, enum td_reduction how, struct td_loss_share *share)
{
    const bool weighted = weights.node != NULL;
    const struct td_value w = weighted ? td_loss_weights_like(e, weights, values) : td_no_value;
    struct td_value sum = td_f_sum_all(e, weighted ? td_f_mul(e, values, w) : values);
    if (share != NULL) {
        sum = td_f_mul(e, sum, share->counts);
    }
    return how == TD_SUM ? sum : td_f_2(e, "DivNoNan", sum, divisor(e, values, weights, counted, how, share));
}
