/* server/train/select.h - which variables of a version a job trains, and by what.
 *
 * A variable is trained when it is floating point, marked trainable in the file, read by the signature,
 * matched by a `trainable` pattern and by no `frozen` one, and a gradient leads to it (that is told when the
 * step is built).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_SELECT_H
#define TD_SERVER_TRAIN_SELECT_H

#include "server/models/variables.h"
#include "server/train/spec.h"

struct td_chosen {
    const char *key;      /* checkpoint key, without /.ATTRIBUTES/VARIABLE_VALUE */
    const char *full_key; /* with it: what a tuned value is written under */
    const char *name;     /* the variable's own */
    /* TF1: the parts of one that was cut along `axis`; else one */
    const char *const *resources;
    int n_resources, axis;
    enum td_dtype dtype;
    struct td_shape shape; /* of what it holds */
    int optimizer;         /* of spec->optimizer */
    bool decays;
    double l1, l2;                               /* of all penalties that match */
    const struct td_constraint_spec *constraint; /* NULL: none */
};

struct td_selection {
    struct td_chosen *chosen; /* in the order of keys */
    int n;
    struct td_arena *arena;
};

/* Returns new. Patterns that match no variable, a trained variable without optimizer, nothing to train: each
 * an error with the pattern or names. sig: whose graph must read a variable. */
TD_MUST enum td_code td_select_variables(struct td_servable *s, const struct td_signature *sig,
                                         const struct td_job_spec *spec, struct td_selection **out,
                                         struct td_fault *f);
void td_selection_free(struct td_selection *s); /* accepts NULL */

#endif
