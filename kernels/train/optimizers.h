/* kernels/train/optimizers.h - optimizers as nodes: from a variable's value, its gradient and the slots kept
 * for it to the new value and slots. Formulas: Keras 3.15, keras/src/optimizers; an optimizer is one row.
 *
 * Slots are float32 (or the variable's dtype when that is double: td_update_dtype) variables of the same
 * shape, made by whoever trains (the step): a row names them and says what they start with.
 * Scalars that all variables of a group share (nadam's product) are slots of shape [], float32.
 *
 * Order: gradients clipped (kernels/train/clip.h), shared slots updated, then for each variable decay,
 * update, constraint (kernels/train/constraints.h), average.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_OPTIMIZERS_H
#define TD_KERNELS_TRAIN_OPTIMIZERS_H

#include "kernels/formula/formula.h"
#include "kernels/train/clip.h"
#include "kernels/train/constraints.h"
#include "kernels/train/fields.h"

enum { TD_MOST_SLOTS = 3 };

/* One variable's update, in double for a double, else in float32. t = updates so far + 1 and rate are float32
 * scalars. */
struct td_update {
    struct td_emitter *e;
    struct td_value w, g, rate, t; /* g of w's dtype or float32, dense; w decayed already */
    struct td_field_values field;
    struct td_value slot[TD_MOST_SLOTS];     /* in: what they hold; of a shared one: its value of this step */
    struct td_value new_w;                   /* out: of w's dtype */
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
    /* of the shared slots, once a step before the variables' updates: new_slot of those, given e, t, field
     * and slot; the variables' updates find these in slot. NULL: none is shared */
    void (*update_shared)(struct td_update *u);
};
const struct td_optimizer *td_optimizer_find(const char *name); /* NULL: none of that name */
const struct td_optimizer *td_optimizer_row(int i);             /* NULL past the end */
bool td_optimizer_keeps(const struct td_optimizer *o, int slot, const struct td_field_values *v);

#endif
