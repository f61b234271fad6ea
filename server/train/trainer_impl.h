/* server/train/trainer_impl.h - a job under way, as its parts see it: trainer.c goes through the epochs,
 * trainer_tell.c tells what happens, trainer_save.c saves and restores where it is, trainer_end.c chooses the
 * weights of the result and writes it; trainer_share.c is what several processes do to stay together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_TRAINER_IMPL_H
#define TD_SERVER_TRAIN_TRAINER_IMPL_H

#include "server/train/epoch_sums.h"
#include "server/train/result_csv.h"
#include "server/train/tensorboard.h"
#include "server/train/trainer.h"

enum td_trainer_phase { TD_PHASE_STEPS, TD_PHASE_EVALUATE, TD_PHASE_FINISHED };

/* Where a job is. Saved as integers in this order: all members are int64_t. */
struct td_trainer_at {
    int64_t step;                  /* done */
    int64_t epoch;                 /* under way, from 0 */
    int64_t batch;                 /* of it, done */
    int64_t rows;                  /* seen */
    int64_t phase;                 /* of the epoch; FINISHED: there is no other */
    int64_t best_epoch, best_step; /* from 1; 0: none yet */
    int64_t wait;                  /* epochs since the best */
    int64_t csv_bytes, board_bytes[TD_BOARD_SIDES];
};

/* Numbers that go with it; saved as reals in this order. */
struct td_trainer_numbers {
    double step_loss;                       /* of the last step */
    double valid_loss;                      /* of the last epoch; NAN: not evaluated */
    double best;                            /* what is monitored, at its best */
    double best_step_loss, best_valid_loss; /* of the best epoch */
    double gate_before;                     /* what the gate's monitor is for the weights it began with */
};

struct td_trainer {
    const struct td_train_opts *o;
    const struct td_job_spec *spec;
    struct td_fault *f;
    const struct td_signature *sig;
    struct td_row_layout *layout;
    struct td_step *step;
    struct td_rows *train, *valid; /* valid: NULL without a validation file */
    struct td_epoch_sums *sums, *valid_sums;
    struct td_result_csv *csv;
    struct td_tensorboard *board;
    struct td_trainer_at at;
    struct td_trainer_numbers num;
    struct td_tensor *best; /* by state, of those that are the model's; NULL: none yet */
    int64_t n_batches, total_steps;
    int64_t every; /* a step has an event when its number is a multiple, or it ends an epoch */
    const int *optimizers;
    double *rates; /* by optimizer in use */
    int n_rates;
    char *job; /* what the progress is of */
    struct td_run_opts run;
    int64_t saved_ns, step_ns; /* when progress was saved, and how long a step takes */
    bool begun;                /* rows are checked */
    /* of several processes: this one asks all to stop; they have agreed to; what this one failed at, of what
     * is not yet told */
    td_stop asks;
    bool stopping;
    enum td_code late;
};

/* rc of something that is not the job's fault: a disk, memory. */
enum td_code td_trainer_own(struct td_trainer *t, enum td_code rc);
bool td_trainer_paused(const struct td_trainer *t);

/* ---- trainer_share.c: of a process that is alone they do nothing, and it speaks */
/* Whether this process tells and saves: rank 0. */
static inline bool td_trainer_speaks(const struct td_trainer *t)
{
    return td_ranks_rank(t->o->ranks) == 0;
}
/* Before a run of the step: whether this process asks to stop. After it: whether all do. */
void td_trainer_ask(struct td_trainer *t);
void td_trainer_hear(struct td_trainer *t, const struct td_step_result *r);
/* rc of something that this process alone does. A failure is told at the next run, which all stop after. */
enum td_code td_trainer_later(struct td_trainer *t, enum td_code rc);
/* All of them are here, this one with rc: the same rc everywhere, with its fault. */
TD_MUST enum td_code td_trainer_agree(struct td_trainer *t, enum td_code rc);
/* What rank 0 has restored, to all. */
TD_MUST enum td_code td_trainer_share_progress(struct td_trainer *t, bool *resumed);

/* ---- trainer.c */
/* t->rates become those of a step, from 1. */
void td_trainer_set_rates(struct td_trainer *t, int64_t step);
/* The losses and metrics of the weights as they are, on the validation file, into t->valid_sums. *paused: it
 * was given up. */
TD_MUST enum td_code td_trainer_evaluate(struct td_trainer *t, struct td_step *step, bool *paused);

/* ---- trainer_tell.c */
TD_MUST enum td_code td_tell_message(struct td_trainer *t, const char *key, const char *level,
                                     const char *fmt, ...) TD_PRINTF(4, 5);
/* Variables that a gradient does not lead to. */
TD_MUST enum td_code td_tell_left_alone(struct td_trainer *t);
/* What compute_dtype bfloat16 comes to, with this model on this processor. */
TD_MUST enum td_code td_tell_bfloat16(struct td_trainer *t);
/* The step that was just done: t->at.step, t->rates. The result file has the last one of an epoch by
 * td_tell_epoch. */
TD_MUST enum td_code td_tell_step(struct td_trainer *t, const struct td_step_result *r);
/* The epoch t->at.epoch, by its sums; valid: t->valid_sums hold what it was evaluated to. */
TD_MUST enum td_code td_tell_epoch(struct td_trainer *t, bool valid);
TD_MUST enum td_code td_tell_progress(struct td_trainer *t, bool sync);
/* The metrics of a checkpoint; new reference. */
json_t *td_tell_checkpoint_metrics(int64_t step, double step_loss, double valid_loss);

/* ---- trainer_save.c */
/* Restores t from the progress in its work_dir, or begins; opens the files that go with it. */
TD_MUST enum td_code td_trainer_restore(struct td_trainer *t, bool *resumed);
TD_MUST enum td_code td_trainer_save(struct td_trainer *t);
/* Saves when it is time to, or `must`. */
TD_MUST enum td_code td_trainer_save_if(struct td_trainer *t, bool must);
/* The weights as they are become the best. */
TD_MUST enum td_code td_trainer_keep_best(struct td_trainer *t);
void td_trainer_drop_best(struct td_trainer *t);

/* ---- trainer_end.c */
/* Puts the result's weights in place, compares for the gate, writes the version. */
TD_MUST enum td_code td_trainer_finish(struct td_trainer *t, struct td_train_outcome *out);
/* The value of the gate's monitor, from t->valid_sums. */
double td_trainer_gate_value(const struct td_trainer *t);

#endif
