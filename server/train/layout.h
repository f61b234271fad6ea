/* server/train/layout.h - what a row of a training file holds, and what a batch of rows is fed as.
 *
 * Made of the signature and the losses: a field is an input of the signature, a target of a loss or metric,
 * or the weights of a loss. The step (server/train/step.h) has a feed for each field, in this order; the rows
 * (server/train/rows.h) are checked and stacked by it. Losses that look at the same target in the same way
 * share its field.
 *
 * What each loss and metric is of (output, target, weights, the name of its number) is settled here, once:
 * td_row_use.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_LAYOUT_H
#define TD_SERVER_TRAIN_LAYOUT_H

#include "proto/model/saved_model.h"
#include "server/train/spec.h"

enum td_row_field_kind { TD_ROW_INPUT, TD_ROW_TARGET, TD_ROW_WEIGHT };

struct td_row_field {
    enum td_row_field_kind kind;
    /* input: the signature's; target: "targets" or "targets.KEY"; weight: "sample_weight.OUTPUT" */
    const char *name;
    enum td_dtype dtype;
    /* Of a batch: dim[0] is -1, others -1 where rows may differ between batches; rank -1: not known. A
     * target's follows its output's (an output of rank 1 counts as [batch, 1]); where the output's is
     * unknown, so is the target's: what does not fit fails when it runs. Weights are [batch] for outputs of
     * rank 1 and 2 (and unknown), else [batch, positions..]: one a value of the loss. An input of rank 0 is
     * the same for all rows. */
    struct td_shape shape;
    enum td_target_rule rule; /* of a target */
    int64_t n_classes;        /* of a TARGET_CLASS; -1: not known */
    bool has_ignore;
    int64_t ignore_class;
    int loss;        /* number of the loss whose weights these are; of a target, the first that looks there
                         (-1: only a metric does) */
    int target;      /* of weights: the field of that loss's target */
    bool or_target;  /* of an input of a train_signature: looked for among the targets too */
    const char *pad; /* of an input whose rows may be ragged: the value, as JSON text; NULL: they are even */
};

/* What a loss or a metric is computed of. */
struct td_row_use {
    int output;        /* of the signature's */
    int target;        /* field */
    int weights;       /* field; -1: a metric that is not weighted */
    bool classes;      /* the target is integer classes */
    int64_t last_dim;  /* of the output: 1 for rank 1, -1 where not known */
    const char *label; /* of its number: "OUTPUT_loss", "accuracy", "weighted_OUTPUT_auc" */
};

struct td_row_layout {
    struct td_row_field *field;
    int n;
    bool bare_input;    /* a single input: `inputs` may be its value */
    bool any_targets;   /* rows need `targets` */
    bool whole_batches; /* the signature fixes how many rows a batch has: there can be no smaller last one */
    struct td_row_use *loss, *metric; /* by number of the spec's */
    int n_losses, n_metrics;
    struct td_arena *arena;
};

/* Returns new; borrows spec and sig. sig: of `signature` (with a head: the one that the result will have), or
 * of `train_signature` where the job has one, whose inputs are then looked for under inputs.NAME,
 * targets.NAME, and a bare inputs. Refused: an unknown output, a class_weight of no class, a monitor or
 * padding of nothing, inputs that rows cannot hold. */
TD_MUST enum td_code td_row_layout_new(const struct td_job_spec *spec, const struct td_signature *sig,
                                       struct td_row_layout **out, struct td_fault *f);
void td_row_layout_free(struct td_row_layout *l); /* accepts NULL */

#endif
