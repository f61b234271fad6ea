/* kernels/train/metrics.c - metrics that are means, and the table.
 *
 * A mean's sums of a batch of B rows with P values each (positions, and for some columns) are
 *
 *   [sum of w v / P,  sum of w / P]     w: a row's or a position's weight, 1 where there are none
 *
 * so that rows count, not positions. Sums of a batch are float32; a batch is far below 2^24 rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/metrics.h"

#include <string.h>

#include "kernels/train/loss_args.h"
#include "kernels/train/losses.h"
#include "kernels/train/metric_auc.h"

/* ------------------------------------------------------------------ means */

static struct td_value rows_of(struct td_emitter *e, struct td_value values)
{
    return td_f_cast(e, td_f_element(e, td_f_shape(e, values), 0), TD_FLOAT);
}

static struct td_value mean_sums(struct td_emitter *e, struct td_value values, struct td_value weights)
{
    const struct td_value rows = rows_of(e, values);
    const struct td_value share = td_f_div(e, rows, td_loss_count(e, values)); /* 1 / P */
    struct td_value sum, count = rows;
    if (weights.node != NULL) {
        const struct td_value w = td_loss_weights_like(e, weights, values);
        sum = td_f_sum_all(e, td_f_mul(e, values, w));
        count = td_f_mul(e, td_f_sum_all(e, w), td_f_div(e, rows, td_loss_count(e, w)));
    } else {
        sum = td_f_sum_all(e, values);
    }
    return td_emit(e, "Pack", TD_IN(td_f_mul(e, sum, share), count), TD_NO_ATTRS);
}

/* DivNoNan, as Keras: what has no rows or no weight is 0. */
static double quotient(const double *total, int n, const struct td_field_values *v)
{
    (void)v;
    return n < 2 || total[1] == 0 ? 0 : total[0] / total[1];
}

/* Of the first to both. */
static double part_of_both(const double *total, int n, const struct td_field_values *v)
{
    (void)v;
    const double both = n < 2 ? 0 : total[0] + total[1];
    return both == 0 ? 0 : total[0] / both;
}

static double root_of_quotient(const double *total, int n, const struct td_field_values *v)
{
    return sqrt(quotient(total, n, v));
}

static double minus_quotient(const double *total, int n, const struct td_field_values *v)
{
    return -quotient(total, n, v);
}

/* ------------------------------------------------------------------ of losses */

static struct td_value of_loss(struct td_emitter *e, const struct td_metric_args *a, const char *name)
{
    const struct td_loss_args loss = {.target = a->target, .output = a->output, .field = a->field};
    return mean_sums(e, td_loss_find(name)->values(e, &loss), a->weights);
}

#define OF_LOSS(name)                                                                                        \
    static struct td_value name(struct td_emitter *e, const struct td_metric_args *a)                        \
    {                                                                                                        \
        return of_loss(e, a, #name);                                                                         \
    }

OF_LOSS(mse)
OF_LOSS(mae)
OF_LOSS(mape)
OF_LOSS(msle)
OF_LOSS(poisson)
OF_LOSS(kl_divergence)
OF_LOSS(cosine_similarity)

/* ------------------------------------------------------------------ accuracies */

static struct td_value argmax(struct td_emitter *e, struct td_value x)
{
    return td_emit(e, "ArgMax", TD_IN(x, td_f_int(e, -1)), TD_NO_ATTRS);
}

static struct td_value equal_sums(struct td_emitter *e, const struct td_metric_args *a, struct td_value x,
                                  struct td_value y)
{
    return mean_sums(e, td_f_cast(e, td_f_2(e, "Equal", x, y), TD_FLOAT), a->weights);
}

static struct td_value binary_accuracy(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct td_loss_pair x = td_loss_pair_make(e, a->target, a->output);
    const struct td_value said = td_f_2(e, "Greater", x.p, td_f_number(e, x.p, a->field.v[0]));
    return equal_sums(e, a, x.y, td_f_cast(e, said, TD_FLOAT));
}

static struct td_value categorical_accuracy(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct td_loss_pair x = td_loss_pair_make(e, a->target, a->output);
    return equal_sums(e, a, argmax(e, x.y), argmax(e, x.p));
}

static struct td_value sparse_categorical_accuracy(struct td_emitter *e, const struct td_metric_args *a)
{
    const struct td_loss_pair x = td_loss_class_pair(e, a->target, a->output);
    return equal_sums(e, a, td_f_cast(e, x.y, TD_INT64), argmax(e, x.p));
}

static struct td_value top_k_accuracy(struct td_emitter *e, const struct td_metric_args *a)
{
    struct td_loss_pair x;
    if (a->classes) {
        x = td_loss_class_pair(e, a->target, a->output);
        x.y = td_f_cast(e, x.y, TD_INT64);
    } else {
        x = td_loss_pair_make(e, a->target, a->output);
        x.y = argmax(e, x.y);
    }
    const struct td_value classes = x.rank == 2 ? x.y : td_f_reshape(e, x.y, td_f_ints(e, -1));
    const struct td_value k = td_emit_int(e, TD_INT64, (int64_t)a->field.v[0]);
    const struct td_value in = td_f_3(e, "InTopKV2", td_loss_flat(e, x.p, x.rank), classes, k);
    return mean_sums(e, td_loss_unflat(e, td_f_cast(e, in, TD_FLOAT), &x), a->weights);
}

/* ------------------------------------------------------------------ the table */

static const struct td_field no_fields[] = {{.name = NULL}};
static const struct td_field threshold_fields[] = {
    {.name = "threshold", .kind = TD_FIELD_NUMBER, .standard = 0.5, .range = TD_ANY_FINITE},
    {.name = NULL},
};
static const struct td_field k_fields[] = {
    {.name = "k", .kind = TD_FIELD_INTEGER, .standard = 5, .range = TD_POSITIVE},
    {.name = NULL},
};

static const struct td_metric rows[] = {
    {"binary_accuracy", false, threshold_fields, binary_accuracy, quotient, 2},
    {"categorical_accuracy", false, no_fields, categorical_accuracy, quotient, 2},
    {"sparse_categorical_accuracy", true, no_fields, sparse_categorical_accuracy, quotient, 2},
    {"top_k_accuracy", false, k_fields, top_k_accuracy, quotient, 2},
    {"auc", false, no_fields, td_auc_sums, td_auc_result, TD_AUC_SUMS},
    {"precision", false, no_fields, td_precision_sums, part_of_both, 2},
    {"recall", false, no_fields, td_recall_sums, part_of_both, 2},
    {"mse", false, no_fields, mse, quotient, 2},
    {"mae", false, no_fields, mae, quotient, 2},
    {"mape", false, no_fields, mape, quotient, 2},
    {"msle", false, no_fields, msle, quotient, 2},
    {"rmse", false, no_fields, mse, root_of_quotient, 2},
    {"poisson", false, no_fields, poisson, quotient, 2},
    {"kl_divergence", false, no_fields, kl_divergence, quotient, 2},
    {"cosine_similarity", false, no_fields, cosine_similarity, minus_quotient, 2},
};

/* What "accuracy" may stand for. All have the field that one of them has, so that a job's values stand in one
 * order before it is known which it is. */
static const struct td_metric accuracies[] = {
    {"accuracy", false, threshold_fields, binary_accuracy, quotient, 2},
    {"accuracy", false, threshold_fields, sparse_categorical_accuracy, quotient, 2},
    {"accuracy", false, threshold_fields, categorical_accuracy, quotient, 2},
};

const struct td_metric *td_metric_row(int i)
{
    const int n = (int)(sizeof rows / sizeof *rows);
    return i >= 0 && i < n ? &rows[i] : i == n ? &accuracies[0] : NULL;
}

const struct td_metric *td_metric_find(const char *name, bool classes, long long last_dim)
{
    if (strcmp(name, "accuracy") == 0) {
        return &accuracies[last_dim == 1 ? 0 : classes ? 1 : 2];
    }
    int i = 0;
    while (td_metric_row(i) != NULL && strcmp(td_metric_row(i)->name, name) != 0) {
        i++;
    }
    return td_metric_row(i);
}
