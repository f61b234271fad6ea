/* kernels/train/metric_auc.h - metrics of yes or no: area under the ROC curve, precision, recall. Rows of
 * kernels/train/metrics.h; Keras 3.15, keras/src/metrics/confusion_metrics.py.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_METRIC_AUC_H
#define TD_KERNELS_TRAIN_METRIC_AUC_H

#include "kernels/train/metrics.h"

enum { TD_AUC_SUMS = 400 };
/* [TD_AUC_SUMS]: by bucket of the prediction, weights of positives, then of negatives. */
struct td_value td_auc_sums(struct td_emitter *e, const struct td_metric_args *a);
double td_auc_result(const double *total, int n, const struct td_field_values *v);
/* [2]: true positives, and false positives or false negatives. */
struct td_value td_precision_sums(struct td_emitter *e, const struct td_metric_args *a);
struct td_value td_recall_sums(struct td_emitter *e, const struct td_metric_args *a);

#endif
