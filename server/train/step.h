/* server/train/step.h - the training step: one compiled function of ordinary ops.
 *
 *   feeds     the batch (a tensor a field of the layout), a learning rate for each optimizer in use, t
 *   computes  forward, losses, penalties, gradients, clipping, decay, update, average; sums of metrics
 *   effects   the variables and the slots that are kept for them
 *   fetches   loss, losses, sums of metrics, global norm of the gradients
 *
 * It is a model derived of the served one's (extend.h of core/grad) and shares its variables; slots are
 * further variables of it, named "train/SLOT/KEY". Three callables: a step that updates, one that only adds
 * up gradients (accumulation), and one that evaluates. With `train_signature` the step is that signature's.
 *
 * A loss that is not finite changes nothing: the updates wait for a check.
 *
 * Where the process has a collective of several (core/base/collective.h) when a step is made, each of them
 * runs it on its share of the batch: all numbers are those of the whole batch, and all variables stay the
 * same everywhere (step_share.c).
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_STEP_H
#define TD_SERVER_TRAIN_STEP_H

#include "server/train/layout.h"
#include "server/train/rows.h"
#include "server/train/select.h"

struct td_step;

/* The signature whose inputs rows hold: train_signature where the job has one, else `signature`. Faults name
 * what there is. Borrowed of s. */
TD_MUST enum td_code td_step_signature(struct td_servable *s, const struct td_job_spec *spec,
                                       const struct td_signature **out, struct td_fault *f);
/* Returns new; borrows spec and layout, counts s, whose variables it trains. The faults are those of a job
 * that is refused: no gradient path (names the output), unknown output, .. */
TD_MUST enum td_code td_step_new(struct td_servable *s, const struct td_job_spec *spec,
                                 const struct td_row_layout *layout, struct td_step **out,
                                 struct td_fault *f);
/* The faults that td_step_new would give, as far as they show without making slots: s stays as it is, and may
 * be one that serves. */
TD_MUST enum td_code td_step_check(struct td_servable *s, const struct td_job_spec *spec,
                                   const struct td_row_layout *layout, struct td_fault *f);
void td_step_free(struct td_step *s); /* accepts NULL */

/* ---- of several processes
 *
 * A run that fails in one of them fails in all: its sums are completed with what is not finite, so that the
 * others' check fails, or (evaluation has none) they are asked to stop. TD_ABORTED is the code of those that
 * have no reason of their own. */
/* stop: looked at before each run; the result says whether any process is to stop. Borrowed. */
void td_step_stop_with(struct td_step *s, td_stop *stop);
/* In place of a run of td_step_run (trains) or td_step_evaluate, which cannot be. Alone: nothing. */
void td_step_give_up(struct td_step *s, bool trains);
/* A run failed so late that the others go on: there is no way back to them. */
bool td_step_is_lost(const struct td_step *s);

/* What it trains: those of the selection that a gradient leads to. Borrowed. */
const struct td_chosen *td_step_chosen(const struct td_step *s, int i); /* NULL past the end */
/* Its gradient as the last update took it, all batches added up and clipped; NULL: there was none, or the job
 * does not ask for histograms. Borrowed until the next run. */
const struct td_tensor *td_step_gradient(const struct td_step *s, int i);
/* Variables that were selected and have no gradient, for a warning. Borrowed; NULL past the end. */
const char *td_step_left_alone(const struct td_step *s, int i);
/* Products of the training graph that are computed in bfloat16; one inside of a loop counts once. */
int td_step_mixed(const struct td_step *s);
/* Numbers of the optimizers in use, in the order in which rates are given and told. */
int td_step_optimizers(const struct td_step *s, const int **numbers);

struct td_step_result {
    double loss;         /* total, penalties included, before the update */
    double *losses;      /* by loss, before its weight; the step's own, until the next run */
    bool stop;           /* of several processes: one at least is to stop */
    double norm;         /* global norm of this batch's gradients before clipping; NAN: there are none */
    const double **sums; /* by metric of the spec */
    int *n_sums;
    const double *outputs; /* of train_signature: its other scalars (td_step_output_name) */
};
struct td_step_at {
    int64_t step;        /* from 1: for errors */
    int64_t updates;     /* made so far: t - 1 */
    bool update;         /* else the gradients are added up (accumulation) */
    const double *rates; /* by optimizer in use */
};
/* One batch (borrowed). training_error: "loss is not finite at step N", TensorFlow's words for a bad id. */
TD_MUST enum td_code td_step_run(struct td_step *s, const struct td_batch *b, const struct td_step_at *at,
                                 const struct td_run_opts *run, struct td_step_result *out,
                                 struct td_fault *f);
/* Loss and sums of a batch, class weights left out, nothing changed. */
TD_MUST enum td_code td_step_evaluate(struct td_step *s, const struct td_batch *b,
                                      const struct td_run_opts *run, struct td_step_result *out,
                                      struct td_fault *f);
const char *td_step_output_name(const struct td_step *s, int i); /* NULL past the end */

/* ---- what a job's progress is made of: trained variables, slots, sums of gradients, averages (and, with a
 * train_signature or the training form, every variable that the step assigns). */
int td_step_n_state(const struct td_step *s);
const char *td_step_state_name(const struct td_step *s, int i); /* "KEY" or "train/SLOT/KEY": unique */
/* Whether it is part of the model, a variable that the result is made of: not a slot, a sum or an average.
 * The best epoch is kept as copies of these. */
bool td_step_state_is_model(const struct td_step *s, int i);
TD_MUST enum td_code td_step_get_state(struct td_step *s, int i, struct td_tensor *out, struct td_err *err);
TD_MUST enum td_code td_step_set_state(struct td_step *s, int i, struct td_tensor *takes, struct td_err *err);

/* ---- what the result is: checkpoint key -> value; averages in place of weights when ema and final. */
typedef enum td_code td_step_value_fn(void *ctx, const char *key, const struct td_tensor *value,
                                      struct td_err *err);
TD_MUST enum td_code td_step_each_result(struct td_step *s, bool final, td_step_value_fn *fn, void *ctx,
                                         struct td_err *err);
/* Weights become their averages (overwrite_frequency). */
TD_MUST enum td_code td_step_use_averages(struct td_step *s, struct td_err *err);

#endif
