/* server/train/step_impl.h - a training step as its parts see it: step_build.c makes it of a signature and a
 * job, step_own.c of a train_signature; step.c runs it, step_state.c reads and writes what it keeps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_STEP_IMPL_H
#define TD_SERVER_TRAIN_STEP_IMPL_H

#include "core/base/arena.h"
#include "core/base/collective.h"
#include "core/function/callable.h"
#include "core/run/variable.h"
#include "server/train/step.h"

/* What the graph of a step is run for. All that see a batch feed the fields of the layout, and an update
 * rates and t as well; those with gradients fetch their norm, behind loss, losses and sums. */
enum td_step_run_kind {
    TD_RUN_UPDATE,     /* gradients (with those added up before), and the updates */
    TD_RUN_BEGIN,      /* gradients, which become the sums */
    TD_RUN_ACCUMULATE, /* gradients, which are added to the sums */
    TD_RUN_EVALUATE,   /* loss and metrics alone */
    TD_RUN_START,      /* slots take the values they start with */
    TD_RUN_AVERAGES,   /* weights become their averages */
    TD_RUN_KINDS
};

/* A tensor that progress is made of: a variable of the engine. */
struct td_step_state {
    const char *name;
    struct td_variable *variable; /* borrowed of the model's resources; NULL until the step has started */
    const char *resource;
    enum td_dtype dtype;
    struct td_shape shape;
    bool model; /* the result is made of it */
};

/* A value of the result: a variable by its parts. */
struct td_step_result_row {
    const char *key;    /* NULL: of the step alone, an adapter */
    int state, n, axis; /* parts are states [state, state + n) */
    int average;        /* number of the state that holds its average; -1: none */
};

struct td_step {
    struct td_servable *servable; /* counted */
    const struct td_job_spec *spec;
    const struct td_row_layout *layout;
    bool dry; /* only whether it can be made: no slots, which would be the servable's */
    struct td_arena *arena;
    struct td_selection *selection; /* NULL with a train_signature */
    struct td_model *model;         /* derived; NULL with a train_signature: its callable is the servable's */
    /* what TD_RUN_EVALUATE is of, where training computes something else (dropout); NULL: model */
    struct td_model *evaluated;
    struct td_callable *run[TD_RUN_KINDS]; /* NULL: not needed */

    const struct td_chosen **chosen; /* those that a gradient leads to, and a NULL */
    const char **left_alone;         /* names of those without, and a NULL */
    int n_mixed;                     /* products that are computed in bfloat16 */
    int *optimizers, n_optimizers;   /* in use */
    struct td_step_state *state;
    int n_state;
    struct td_step_result_row *result;
    int n_result;

    /* the run at hand */
    struct td_tensor *in, *out; /* room for the most feeds and fetches */
    struct td_tensor *scalar;   /* what rates and t are fed as */
    bool draws;                 /* training draws random numbers: the number of the step is fed, too */
    struct td_tensor number;    /* as which; int32 */
    struct td_tensor *gradient; /* by chosen, of the last update; n_shown of them */
    int n_shown;                /* 0: they are not asked for */
    bool several;               /* processes share each batch */
    struct td_tensor share;     /* what this one's share is fed as: int32 by enum td_step_share_field */
    td_stop *stop;              /* borrowed; NULL */
    struct td_sum *sum;         /* over processes, by number: n_numbers of evaluation, then the gradients */
    int n_shared, n_numbers;    /* number n_numbers - 1: losses, sums of metrics, how many are to stop */
    bool lost;                  /* td_step_is_lost */
    double *losses, **sums;
    int *n_sums;
    const char **output_name; /* train_signature: scalars beside the loss, and a NULL */
    double *outputs;
    int *input_field;        /* by feed of the train_signature: field of the layout */
    int *output_at, loss_at; /* fetches */
    int n_outputs;
};

/* What a step of several processes is told of this one's share: 1, or 0 where its row stands in for none;
 * rows of the whole batch; rows at hand, and where in the batch they begin; 1: this process is to stop. */
enum td_step_share_field {
    TD_SHARE_COUNTS,
    TD_SHARE_ALL,
    TD_SHARE_ROWS,
    TD_SHARE_FIRST,
    TD_SHARE_STOP,
    TD_SHARE_FIELDS
};

/* A run failed in this one of several processes: the others hear of it (step_share.c). In training: whether
 * that the loss is not finite (this one's only reason: not_finite) is the reason of them all. */
bool td_step_fail_training(struct td_step *s, bool not_finite);
void td_step_fail_evaluation(struct td_step *s);

#define TD_NOT_FINITE "loss is not finite"

/* Make the step of what is set: servable, spec, layout, arena. (step_build.c, step_own.c) */
TD_MUST enum td_code td_step_build(struct td_step *s, const struct td_signature *sig, struct td_fault *f);
TD_MUST enum td_code td_step_build_own(struct td_step *s, const struct td_signature *sig, struct td_fault *f);
/* Room for n elements of the step's arena, and one more, zeroed; NULL: no memory. */
void *td_step_room(struct td_step *s, int n, size_t size);
enum td_code td_step_no_memory(struct td_fault *f);
/* The variables behind its states. (step_state.c) */
TD_MUST enum td_code td_step_bind_state(struct td_step *s, struct td_err *err);

#endif
