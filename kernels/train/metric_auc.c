/* kernels/train/metric_auc.c - predictions against yes and no.
 *
 * AUC has 200 thresholds t_i = i/199, the first a little below 0 and the last a little above 1. A prediction,
 * brought into [0, 1], is above the thresholds 0 to ceil(199 p) - 1: it goes into that bucket (0 for p = 0),
 * and what is above threshold i is the sum of the buckets from i on. One segment sum a batch does it for
 * positives and negatives together:
 *
 *   bucket of a positive: b,   of a negative: 200 + b       sums [400] += weight
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/metric_auc.h"

#include "kernels/train/loss_args.h"

enum { THRESHOLDS = TD_AUC_SUMS / 2 };

/* y not 0 is yes; w: one for each element, or no node. */
struct answers {
    struct td_value yes /* bool */, p, w;
};

static struct answers answers_of(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct td_loss_pair x = td_loss_pair_make(e, a->target, a->output);
    struct answers r = {.p = x.p};
    const struct td_value y = a->classes ? td_f_broadcast_like(e, x.y, x.p) : x.y;
    r.yes = td_f_2(e, "NotEqual", y, td_f_number(e, y, 0));
    if (a->weights.node != NULL) {
        r.w = td_f_broadcast_like(e, td_loss_weights_like(e, a->weights, x.p), x.p);
    }
    return r;
}

/* ------------------------------------------------------------------ AUC */

struct td_value td_auc_sums(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct answers x = answers_of(e, a);
    const struct td_value inside = td_loss_clipped(e, x.p, 0, 1);
    const struct td_value scaled = td_f_1(e, "Ceil", td_f_scale(e, inside, THRESHOLDS - 1));
    const struct td_value place =
        td_f_2(e, "Maximum", td_f_sub(e, scaled, td_f_number(e, scaled, 1)), td_f_number(e, scaled, 0));
    const struct td_value bucket = td_f_cast(e, place, TD_INT32);
    const struct td_value start = td_f_where(e, x.yes, td_f_int(e, 0), td_f_int(e, THRESHOLDS));
    const struct td_value all = td_f_ints(e, -1);
    const struct td_value ids = td_f_reshape(e, td_f_add(e, bucket, start), all);
    const struct td_value w = x.w.node != NULL ? x.w : td_f_ones_like(e, x.p);
    return td_f_3(e, "UnsortedSegmentSum", td_f_reshape(e, w, all), ids, td_f_int(e, 2 * THRESHOLDS));
}

static double quotient(double x, double y)
{
    return y == 0 ? 0 : x / y;
}

/* Trapezoids between neighbouring thresholds, from the highest, where no prediction is above. */
double td_auc_result(const double *total, int n, const struct td_field_values *v)
{
    (void)v;
    double yes = 0, no = 0, area = 0;
    for (int i = 0; i < n / 2; i++) {
        yes += total[i];
        no += total[n / 2 + i];
    }
    double tp = 0, fp = 0, x = 0, y = 0;
    for (int i = n / 2 - 1; i >= 0; i--) {
        tp += total[i];
        fp += total[n / 2 + i];
        const double next_x = quotient(fp, no), next_y = quotient(tp, yes);
        area += i == n / 2 - 1 ? 0 : (next_x - x) * (y + next_y) / 2;
        x = next_x;
        y = next_y;
    }
    return area;
}

/* ------------------------------------------------------------------ precision and recall, at p > 0.5 */

static struct td_value sum_where(struct td_emitter *e, struct td_value one, struct td_value other,
                                 struct td_value w)
{
    const struct td_value both = td_f_cast(e, td_f_2(e, "LogicalAnd", one, other), TD_FLOAT);
    return td_f_sum_all(e, w.node != NULL ? td_f_mul(e, both, w) : both);
}

static struct td_value two(struct td_emitter *e, struct td_value x, struct td_value y)
{
    return td_emit(e, "Pack", TD_IN(x, y), TD_NO_ATTRS);
}

struct td_value td_precision_sums(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct answers x = answers_of(e, a);
    const struct td_value said = td_f_2(e, "Greater", x.p, td_f_number(e, x.p, 0.5));
    const struct td_value no = td_f_1(e, "LogicalNot", x.yes);
    return two(e, sum_where(e, x.yes, said, x.w), sum_where(e, no, said, x.w));
}

struct td_value td_recall_sums(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct answers x = answers_of(e, a);
    const struct td_value said = td_f_2(e, "Greater", x.p, td_f_number(e, x.p, 0.5));
    const struct td_value missed = td_f_1(e, "LogicalNot", said);
    return two(e, sum_where(e, x.yes, said, x.w), sum_where(e, x.yes, missed, x.w));
}
