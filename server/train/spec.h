/* server/train/spec.h - a job as it was asked for: the body of POST /v1/fine_tuning/jobs, read and checked
 * against itself (suites/finetune/FORMAT.md and the page on fine-tuning say what each field means).
 *
 * Names of losses, optimizers, schedules, metrics and constraints are rows of kernels/train; what needs the
 * model (signature, outputs, patterns) or the files is checked later: select.h, layout.h, rows.h.
 *
 * Ownership: td_job_spec_read makes it and all it points to; immutable afterwards. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_SPEC_H
#define TD_SERVER_TRAIN_SPEC_H

#include <jansson.h>
#include <stdint.h>

#include "kernels/train/losses.h"
#include "kernels/train/metrics.h"
#include "kernels/train/optimizers.h"
#include "kernels/train/schedules.h"
#include "server/train/fault.h"

struct td_class_weight {
    int64_t class;
    double weight;
};

struct td_loss_spec {
    const struct td_loss *loss;
    const char *output; /* NULL: the signature's only one */
    const char *target; /* "targets" or "targets.KEY" */
    double weight;
    enum td_reduction reduction;
    struct td_field_values field;
    struct td_class_weight *class_weight;
    int n_class_weights;
};

struct td_metric_spec {
    const char *name;            /* as asked: "accuracy" */
    const char *output, *target; /* NULL: the first loss's; of a named output, its own loss's target */
    bool weighted;
    struct td_field_values field;
};

struct td_schedule_spec {
    const struct td_schedule *schedule; /* NULL: a constant rate */
    struct td_field_values field;
};

struct td_clip_spec {
    enum td_clip_kind kind;
    double at;
};

/* Globs: server/base/glob.h. */
struct td_patterns {
    const char **pattern;
    int n;
};

struct td_optimizer_spec {
    const struct td_optimizer *optimizer;
    const char *pattern; /* NULL: takes what no other does */
    double rate;         /* learning_rate, defaults applied: what schedules start from */
    struct td_schedule_spec schedule;
    double multiplier;   /* of the rate, constant or scheduled: td_job_spec_rate does all of this */
    double weight_decay; /* 0: none */
    struct td_patterns no_decay;
    bool own_clip; /* clip is its own, not the job's */
    struct td_clip_spec clip;
    struct td_field_values field;
};

struct td_penalty_spec {
    const char *pattern;
    double l1, l2;
};

struct td_constraint_spec {
    const char *pattern;
    const struct td_constraint *constraint;
    struct td_field_values field;
};

struct td_early_stopping_spec {
    bool on;
    const char *monitor;
    int64_t patience;
    double min_delta;
    bool max, restore_best;
};

/* ---- beyond FORMAT.md */
struct td_head_layer_spec {
    int64_t units;
    const char *activation, *kernel_initializer, *bias_initializer;
    bool use_bias;
    double l1, l2, dropout;
};
struct td_head_spec { /* at NULL: none */
    const char *at, *output;
    struct td_head_layer_spec *layer;
    int n_layers;
};
struct td_lora_spec {
    bool on;
    int64_t rank;
    double alpha;
    struct td_patterns targets;
};
struct td_gate_spec {
    bool on;
    const char *monitor;
    bool max;
    double min_gain;
};

struct td_padding_spec {
    const char *input, *value; /* the value as JSON text */
};

struct td_job_spec {
    json_t *json; /* the request, as sent */
    /* model: NAME, and at most one of version (-1: none) and label */
    const char *model, *label;
    int64_t version;
    const char *training_file, *validation_file, *suffix; /* the last two may be NULL */
    int64_t seed;
    int64_t n_epochs, batch_size;
    double rate, rate_multiplier; /* rate: of every optimizer that names none; NAN: not given */
    const char *signature;        /* NULL: the default one (with train_signature: "infer" if there is one) */
    struct td_loss_spec *loss;
    int n_losses;
    struct td_metric_spec *metric;
    int n_metrics;
    struct td_optimizer_spec *optimizer; /* in the order of `optimizers`, then `optimizer` */
    int n_optimizers;
    struct td_patterns trainable, frozen;
    struct td_penalty_spec *penalty;
    int n_penalties;
    struct td_constraint_spec *constraint;
    int n_constraints;
    struct td_clip_spec clip; /* the job's */
    int64_t accumulation;     /* gradient_accumulation_steps */
    struct {
        bool on;
        double momentum;
        int64_t overwrite_frequency; /* 0: at the end only */
    } ema;
    bool shuffle;
    struct td_early_stopping_spec stopping;
    const char *train_signature, *train_loss_output; /* the first NULL: none */
    struct td_head_spec head;
    struct td_lora_spec lora;
    struct td_gate_spec gate;
    bool training_form;             /* "training" is not "inference" */
    const char *training_signature; /* of "signature:NAME"; NULL: "graph" */
    bool bfloat16;                  /* "compute_dtype": products in bfloat16 */
    int64_t gpus;                   /* that it computes on, a process each; 1: as its process is told to */
    bool publish;
    const char *base;                /* job whose result it continues from; NULL: none */
    int64_t save_every_steps;        /* "checkpoint_steps"; 0: by time and epoch alone */
    bool histograms;                 /* of weights and gradients in the TensorBoard files */
    struct td_padding_spec *padding; /* inputs whose rows may be ragged */
    int n_paddings;
    struct td_arena *arena;
};

/* Returns new. Every error has param and code; unknown fields of `tensord` and its objects are refused. */
TD_MUST enum td_code td_job_spec_read(json_t *body, struct td_job_spec **out, struct td_fault *f);
void td_job_spec_free(struct td_job_spec *s); /* accepts NULL */
/* {"n_epochs":..,"batch_size":..,"learning_rate_multiplier":..} with defaults filled in; new reference. */
json_t *td_job_spec_hyperparameters(const struct td_job_spec *s);
/* The answer's "method"; new reference. */
json_t *td_job_spec_method(const struct td_job_spec *s);
/* The learning rate of an optimizer after so many updates. */
double td_job_spec_rate(const struct td_optimizer_spec *o, int64_t updates);

#endif
