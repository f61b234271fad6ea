/* kernels/train/losses.h - losses as nodes: from target and output to one value a row or position, and from
 * those to a number. Formulas: Keras 3.15, keras/src/losses/losses.py; a loss is one row of td_losses.
 *
 *   values  = loss->values(e, a)                         [batch] or [batch, positions..], float32
 *   number  = td_loss_reduce(e, values, weights, ..)     scalar
 *
 * The output is cast to float32 first; gradients go through the cast. Axes before the last are rows and
 * positions; an output of rank 1 counts as a column [batch, 1] (td_loss_column).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_LOSSES_H
#define TD_KERNELS_TRAIN_LOSSES_H

#include "kernels/formula/formula.h"
#include "kernels/train/fields.h"

/* What a target may be, checked row by row before training (server/train/layout.h). */
enum td_target_rule {
    TD_TARGET_LIKE_OUTPUT,  /* float32 of the output's shape; a last dimension of 1 may be left out */
    TD_TARGET_CLASS,        /* an integer class of the output's last axis: int64 [batch] or [batch, T] */
    TD_TARGET_DISTRIBUTION, /* float32 [batch, .., K]: one-hot or a distribution */
    TD_TARGET_PROBABILITY,  /* like the output, each from 0 to 1 */
    TD_TARGET_SIGN,         /* like the output, each 0 or 1, or -1 or 1 */
};

/* The rows at hand are one process's share of a batch (core/base/collective.h): what is said of a whole batch
 * is found out together, and losses of shares add up to the batch's. */
struct td_loss_share {
    struct td_value counts; /* float32 scalar: 1; 0: of a row that only stands in for none */
    struct td_value times;  /* float32 scalar: rows of the batch over rows at hand */
    int n_sums;             /* over processes, made so far: their numbers */
};
/* The sum of x over all processes, at once. */
struct td_value td_loss_sum_shares(struct td_emitter *e, struct td_loss_share *share, struct td_value x);

struct td_loss_args {
    struct td_value target; /* float32, or int64 classes */
    struct td_value output; /* as the signature gives it */
    struct td_field_values field;
    struct td_loss_share *share; /* NULL: the rows are the whole batch */
};

struct td_loss {
    const char *name;
    enum td_target_rule target;
    const struct td_field *fields;
    struct td_value (*values)(struct td_emitter *e, const struct td_loss_args *a);
    /* bool like values: the positions that count; NULL: all do (ignore_class) */
    struct td_value (*counted)(struct td_emitter *e, const struct td_loss_args *a);
};
/* NULL when there is none of that name. */
const struct td_loss *td_loss_find(const char *name);
const struct td_loss *td_loss_row(int i); /* NULL past the end */

enum td_reduction { TD_SUM_OVER_BATCH_SIZE, TD_MEAN_WITH_SAMPLE_WEIGHT, TD_SUM };
/* values and weights (float32, values' shape or [batch]; no node: ones) to a scalar; counted: none: all.
 * With share (NULL: none) to the part of the batch's number that is this process's: it is divided by what
 * the whole batch counts. */
struct td_value td_loss_reduce(struct td_emitter *e, struct td_value values, struct td_value weights,
                               struct td_value counted, enum td_reduction how, struct td_loss_share *share);
/* x of rank 1 as a column, else x; its rank must be known or found when the graph runs. */
struct td_value td_loss_column(struct td_emitter *e, struct td_value x);

#endif
