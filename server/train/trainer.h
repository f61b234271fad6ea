/* server/train/trainer.h - one job from its first row to a finished version directory: what a child process
 * (or tensord train) does.
 *
 *   validate rows -> epochs of steps -> evaluate -> early stopping -> .. -> result written aside, synced
 *        \________ progress saved every 10 s, at each pause and epoch; continued from there _______/
 *
 * It knows nothing of jobs' database or of HTTP: what happens is told to a sink. Told twice after a
 * resumption is only what the sink has under the same key, and says the same.
 *
 * Several processes (server/train/ranks.h) run it together: all are given the same but for work_dir, which is
 * each one's own. Rank 0 alone saves progress, tells the sink and writes the result; what one of them is told
 * to do, or fails at, all do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_TRAINER_H
#define TD_SERVER_TRAIN_TRAINER_H

#include "server/train/ranks.h"
#include "server/train/step.h"

enum td_train_state { TD_TRAIN_VALIDATING, TD_TRAIN_RUNNING, TD_TRAIN_WRITING };

struct td_train_event {
    const char *key;   /* "s12", "e3", "m:..": an event of a key that is there already is not a new one */
    const char *level; /* info, warn, error */
    const char *type;  /* message, metrics */
    const char *message;
    json_t *data; /* borrowed; NULL */
};

struct td_train_sink {
    void *ctx;
    TD_MUST enum td_code (*state)(void *ctx, enum td_train_state state, struct td_err *err);
    TD_MUST enum td_code (*event)(void *ctx, const struct td_train_event *e, struct td_err *err);
    /* step, total_steps, epoch, rows seen; all that was told so far is to be on disk when it returns, if
     * sync. */
    TD_MUST enum td_code (*progress)(void *ctx, const int64_t at[4], bool sync, struct td_err *err);
    /* The checkpoint that becomes the result, told once, before it is written: step is the last of the epoch
     * whose weights it holds; {"step":..,"train_loss":..,"valid_loss":..,"full_valid_loss":..}, borrowed. */
    TD_MUST enum td_code (*checkpoint)(void *ctx, int64_t step, json_t *metrics, struct td_err *err);
};

struct td_train_opts {
    struct td_servable *servable; /* loaded for this job alone: its variables are trained */
    const struct td_job_spec *spec;
    const char *training_path, *training_name, *validation_path, *validation_name; /* the last two NULL */
    const char *work_dir;  /* progress, TensorBoard files, result.csv: the job's own directory */
    const char *stage_dir; /* where the version is written: in the base path, a name that starts with a dot */
    struct td_train_sink sink;
    td_stop *pause;              /* set (by anybody): saves after the step in hand and returns
                                     TD_TRAIN_PAUSED; NULL: never */
    struct td_servable *serving; /* what the gate compares with; NULL: `servable` as it was given */
    struct td_thread_pool *pool; /* NULL: one thread */
    struct td_ranks *ranks;      /* the processes that share the job; NULL: this one alone */
    int64_t save_ms;             /* 0: 10,000 */
};

enum td_train_end { TD_TRAIN_DONE, TD_TRAIN_PAUSED };
struct td_train_outcome {
    enum td_train_end end;
    int64_t rows;     /* seen in all steps: trained_tokens */
    int64_t step;     /* the last one of the epoch whose weights the result has */
    bool gate_passed; /* true without a gate */
    json_t *gate;     /* what was compared, for an event; NULL; owned by the caller */
};

/* On success with TD_TRAIN_DONE, stage_dir (of several processes rank 0's) is a complete SavedModel,
 * synced. Else it does not exist. */
TD_MUST enum td_code td_train(const struct td_train_opts *o, struct td_train_outcome *out,
                              struct td_fault *f);

#endif
