/* kernels/train/loss_entropy.c - cross entropies of probabilities and of logits.
 *
 *   p [.., K], y [.., K] or classes [..]     ->     [..]; binary: the mean over K
 *
 * Logits go through the op that gives loss and gradient at once; the binary form
 * is exact for large |x|. Probabilities are clipped to [epsilon, 1 - epsilon], in
 * float32: 1 - 1.2e-7.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/loss_entropy.h"

#include "kernels/train/loss_args.h"

enum { FROM_LOGITS, LABEL_SMOOTHING, IGNORE_CLASS = 1 };

const struct td_field td_entropy_fields[] = {
    {.name = "from_logits", .kind = TD_FIELD_BOOL, .standard = 0},
    {.name = "label_smoothing", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_UNIT},
    {.name = NULL},
};
const struct td_field td_entropy_sparse_fields[] = {
    {.name = "from_logits", .kind = TD_FIELD_BOOL, .standard = 0},
    {.name = "ignore_class", .kind = TD_FIELD_INTEGER, .standard = NAN, .range = TD_ANY_FINITE},
    {.name = NULL},
};

static struct td_value clipped(struct td_emitter *e, struct td_value p)
{
    return td_loss_clipped(e, p, TD_LOSS_EPSILON, 1 - TD_LOSS_EPSILON);
}

static struct td_value log_of(struct td_emitter *e, struct td_value x)
{
    return td_f_1(e, "Log", x);
}

static struct td_value one_minus(struct td_emitter *e, struct td_value x)
{
    return td_f_sub(e, td_f_number(e, x, 1), x);
}

/* y (1 - s) + share */
static struct td_value smoothed(struct td_emitter *e, struct td_value y, double s, struct td_value share)
{
    return s == 0 ? y : td_f_add(e, td_f_scale(e, y, 1 - s), share);
}

/* ------------------------------------------------------------------ binary */

/* max(x, 0) - x y + ln(1 + e^-|x|), as x (u - y) + ln(1 + e^((1 - 2u) x)) with u = 1 where x >= 0, else 0.
 * So the gradient at 0 is 1/2 - y, and for a sure x it is the tiny number that it is, not a difference of
 * ones. */
static struct td_value binary_of_logits(struct td_emitter *e, struct td_value y, struct td_value x)
{
    const struct td_value u = td_f_cast(e, td_f_2(e, "GreaterEqual", x, td_f_number(e, x, 0)), TD_FLOAT);
    const struct td_value sign = one_minus(e, td_f_scale(e, u, 2));
    const struct td_value linear = td_f_mul(e, x, td_f_sub(e, u, y));
    const struct td_value rest = td_f_1(e, "Log1p", td_f_1(e, "Exp", td_f_mul(e, x, sign)));
    return td_f_add(e, linear, rest);
}

static struct td_value binary_of(struct td_emitter *e, struct td_value y, struct td_value p)
{
    const struct td_value q = clipped(e, p);
    const struct td_value yes = td_f_mul(e, y, log_of(e, q));
    const struct td_value no = td_f_mul(e, one_minus(e, y), log_of(e, one_minus(e, q)));
    return td_f_neg(e, td_f_add(e, yes, no));
}

struct td_value td_entropy_binary(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = td_loss_pair_make(e, a->target, a->output);
    const double s = a->field.v[LABEL_SMOOTHING];
    const struct td_value y = smoothed(e, x.y, s, td_f_number(e, x.y, s / 2));
    return td_loss_mean_last(e, a->field.v[FROM_LOGITS] != 0 ? binary_of_logits(e, y, x.p)
                                                             : binary_of(e, y, x.p));
}

/* ------------------------------------------------------------------ of K classes */

/* s / K */
static struct td_value share_of(struct td_emitter *e, double s, struct td_value y)
{
    const struct td_value classes = td_f_element(e, td_f_shape(e, y), -1);
    return td_f_div(e, td_f_number(e, y, s), td_f_cast(e, classes, TD_FLOAT));
}

struct td_value td_entropy_dense(struct td_emitter *e, const struct td_loss_args *a)
{
    const struct td_loss_pair x = td_loss_pair_make(e, a->target, a->output);
    const double s = a->field.v[LABEL_SMOOTHING];
    const struct td_value y = s == 0 ? x.y : smoothed(e, x.y, s, share_of(e, s, x.y));
    if (a->field.v[FROM_LOGITS] != 0) {
        const struct td_value loss = td_f_2(e, "SoftmaxCrossEntropyWithLogits", td_loss_flat(e, x.p, x.rank),
                                            td_loss_flat(e, y, x.rank));
        return td_loss_unflat(e, loss, &x);
    }
    const struct td_value sum = td_f_sum(e, x.p, td_f_int(e, -1), true);
    const struct td_value log = log_of(e, clipped(e, td_f_div(e, x.p, sum)));
    return td_f_neg(e, td_loss_sum_last(e, td_f_mul(e, y, log)));
}

static bool ignores(const struct td_loss_args *a)
{
    return !isnan(a->field.v[IGNORE_CLASS]);
}

/* bool [batch, positions..]: y is another class. */
static struct td_value not_ignored(struct td_emitter *e, struct td_value y, const struct td_loss_args *a)
{
    return td_f_2(e, "NotEqual", y, td_f_number(e, y, a->field.v[IGNORE_CLASS]));
}

/* An ignored position counts as class 0 of equal logits: what its output holds, even no number, does not
 * matter, nor does it have a gradient. */
struct td_value td_entropy_sparse(struct td_emitter *e, const struct td_loss_args *a)
{
    struct td_loss_pair x = td_loss_class_pair(e, a->target, a->output);
    struct td_value valid = td_no_value;
    if (ignores(a)) {
        valid = not_ignored(e, x.y, a);
        x.y = td_f_where(e, valid, x.y, td_f_number(e, x.y, 0));
        x.p = td_f_where(e, td_f_expand(e, valid, -1), x.p, td_f_number(e, x.p, 0));
    }
    const struct td_value flat = td_loss_flat(e, x.p, x.rank);
    const struct td_value logits = a->field.v[FROM_LOGITS] != 0 ? flat : log_of(e, clipped(e, flat));
    const struct td_value classes = x.rank == 2 ? x.y : td_f_reshape(e, x.y, td_f_ints(e, -1));
    const struct td_value loss =
        td_loss_unflat(e, td_f_2(e, "SparseSoftmaxCrossEntropyWithLogits", logits, classes), &x);
    return ignores(a) ? td_f_where(e, valid, loss, td_f_number(e, loss, 0)) : loss;
}

struct td_value td_entropy_counted(struct td_emitter *e, const struct td_loss_args *a)
{
    if (!ignores(a)) {
        return td_no_value;
    }
    const struct td_loss_pair x = td_loss_class_pair(e, a->target, a->output);
    return not_ignored(e, x.y, a);
}
