/* kernels/train/optimizers.h - optimizers as nodes: from a variable's value, its gradient and the slots kept
 * for it to the new value and slots. Formulas: Keras 3.15, keras/src/optimizers; an optimizer is one row.
 *
 * Slots are float32 (or the variable's dtype when that is double) variables of the same shape, made by
 * whoever trains (the step): a row names them and says what they start with. Scalars that all
 * variables of a group share (nadam's product) are slots of shape [].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_OPTIMIZERS_H
#define TD_KERNELS_TRAIN_OPTIMIZERS_H

#include "kernels/formula/formula.h"
#include "kernels/train/fields.h"

enum { TD_MOST_SLOTS = 3 };

/* One variable's update. t = updates so far + 1 and rate are float32 scalars. */
struct td_update {
    struct td_emitter *e;
    struct td_value w, g, rate, t;
    struct td_field_values field;
    struct td_value slot[TD_MOST_SLOTS];     /* in: what they hold */
    struct td_value new_w;                   /* out */
    struct td_value new_slot[TD_MOST_SLOTS]; /* out: no node: as before */
};

struct td_slot {
    const char *name; /* NULL ends the list */
    int start_field;  /* number of the field that it starts with; -1: zeros */
    bool if_field;    /* kept only when field `only_field` is not 0 (momentum, centered, amsgrad) */
    int only_field;
    bool shared;  /* one scalar for the group, updated once a step */
    double start; /* of a shared one */
};

struct td_optimizer {
    const char *name;
    double rate;         /* learning_rate when the job names none */
    double weight_decay; /* 0: none */
    const struct td_field *fields;
    struct td_slot slots[TD_MOST_SLOTS + 1];
    void (*update)(struct td_update *u);
    /* of the shared slots, once a step before the variables' updates: new_slot of those; NULL: none */
    void (*update_shared)(struct td_update *u);
};
const struct td_optimizer *td_optimizer_find(const char *name); /* NULL: none of that name */
const struct td_optimizer *td_optimizer_row(int i);             /* NULL past the end */
bool td_optimizer_keeps(const struct td_optimizer *o, int slot, const struct td_field_values *v);

/* ---- around the update */
enum td_clip_kind { TD_NO_CLIP, TD_CLIP_NORM, TD_CLIP_GLOBAL_NORM, TD_CLIP_VALUE };
/* g[n] clipped in place: norm and value each by itself, global_norm all together. */
void td_clip(struct td_emitter *e, struct td_value *g, int n, enum td_clip_kind kind, double at);
/* sqrt of the sum of the squares of all: float32 scalar. */
struct td_value td_global_norm(struct td_emitter *e, const struct td_value *g, int n);
/* w - w * decay * rate */
struct td_value td_decayed(struct td_emitter *e, struct td_value w, double decay, struct td_value rate);
/* l1 * sum |w| + l2 * sum w^2; no node when both are 0 */
struct td_value td_penalty(struct td_emitter *e, struct td_value w, double l1, double l2);
/* The average after update t: w at the first, else momentum * average + (1 - momentum) * w. */
struct td_value td_averaged(struct td_emitter *e, struct td_value average, struct td_value w,
                            struct td_value t, double momentum);

/* ---- constraints: what w is brought back to after an update; Keras 3.15, keras/src/constraints */
struct td_constraint {
    const char *name; /* max_norm, non_neg, unit_norm, min_max_norm */
    const struct td_field *fields;
    struct td_value (*project)(struct td_emitter *e, struct td_value w, const struct td_field_values *v);
};
const struct td_constraint *td_constraint_find(const char *name);

#endif
