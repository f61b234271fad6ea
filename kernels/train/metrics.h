/* kernels/train/metrics.h - streaming metrics: nodes that sum up a batch, and the number that the sums of all
 * batches give. Formulas: Keras 3.15, keras/src/metrics; a metric is one row.
 *
 *   batch    target, output, weights --nodes--> sums [n] float32     one vector a metric, fetched each step
 *   epoch    total[i] += sums[i], in double, on the host
 *   result   metric->result(total, n, field)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_METRICS_H
#define TD_KERNELS_TRAIN_METRICS_H

#include "kernels/formula/formula.h"
#include "kernels/train/fields.h"

struct td_metric_args {
    struct td_value target, output; /* as for losses (kernels/train/losses.h), columns where of rank 1 */
    struct td_value weights;        /* no node: ones */
    struct td_field_values field;
    bool classes; /* the target is classes, not a distribution */
};

struct td_metric {
    const char *name;
    bool of_classes; /* its target must be classes, where the output's last dimension is not 1 */
    const struct td_field *fields;
    struct td_value (*sums)(struct td_emitter *e, const struct td_metric_args *a);
    double (*result)(const double *total, int n, const struct td_field_values *v);
    int n_sums;
};
/* The row for a job's name; "accuracy" stands for others by what target and output are: last_dim of the
 * output, 1 for rank 1 (-1: not known). Its fields are the same whichever it is. NULL: none of that name. */
const struct td_metric *td_metric_find(const char *name, bool classes, long long last_dim);
const struct td_metric *td_metric_row(int i); /* NULL past the end */

#endif
