/* core/run/late_choice.c - one entry a step: the shapes it was asked for last, and what was chosen for them.
 *
 *   entry   shape: inputs, then outputs | value: constants among the inputs, NULL for others | choice
 *
 * Other shapes take the entry's place: a list that grows from round to round chooses anew each time, as it
 * would without entries. An entry without a kernel remembers that none serves these shapes without values.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/late_choice.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/select.h"

struct td_late_choice {
    struct td_shape *shape;         /* n_in + n_out; NULL: never asked */
    const struct td_tensor **value; /* n_in; in shape's block */
    struct td_choice choice;
};

static bool same_shapes(const struct td_late_choice *e, const struct td_kernel_query *q)
{
    for (int i = 0; i < q->n_in; i++) {
        if (!td_shape_equal(&e->shape[i], &q->in[i])) {
            return false;
        }
    }
    for (int i = 0; i < q->n_out; i++) {
        if (!td_shape_equal(&e->shape[q->n_in + i], &q->out[i])) {
            return false;
        }
    }
    return true;
}

/* Room for the entry's arrays, and the constants, which do not change. False without memory. */
static bool open_entry(struct td_late_choice *e, const struct td_bound_plan *l, int step)
{
    const struct td_step *s = &l->plan->steps[step];
    const size_t n_in = (size_t)s->n_in, shapes = n_in + (size_t)s->n_out;
    char *block = td_calloc(1, shapes * sizeof *e->shape + (n_in + 1) * sizeof *e->value);
    if (block == NULL) {
        return false;
    }
    e->shape = (struct td_shape *)block;
    e->value = (const struct td_tensor **)(block + shapes * sizeof *e->shape);
    for (int i = 0; i < s->n_in; i++) {
        const bool by_reference = s->deref != NULL && s->deref[i];
        const struct td_tensor *known = &l->known[s->in[i]];
        e->value[i] = by_reference || known->dtype == TD_DTYPE_NONE ? NULL : known;
    }
    return true;
}

/* An integer vector or scalar that comes with the run may be a shape or an axis: without it, what the kernel
 * would be prepared for is not known. */
static bool wants_values(const struct td_late_choice *e, const struct td_bound_plan *l,
                         const struct td_step *s, const struct td_kernel_query *now)
{
    for (int i = 0; i < now->n_in; i++) {
        if (e->value[i] == NULL && td_bound_plan_judges(&now->in[i], l->plan->dtype[s->in[i]])) {
            return true;
        }
    }
    return false;
}

static void choose(struct td_late_choice *e, const struct td_bound_plan *l, const struct td_step *s,
                   const struct td_kernel_query *now)
{
    struct td_err ignored = {0};
    struct td_kernel_query q = *now;
    memcpy(e->shape, now->in, (size_t)now->n_in * sizeof *e->shape);
    memcpy(e->shape + now->n_in, now->out, (size_t)now->n_out * sizeof *e->shape);
    q.in = e->shape;
    q.out = e->shape + now->n_in;
    q.value = e->value;
    q.lasting = true;
    td_choice_fini(&e->choice);
    if (wants_values(e, l, s, now) || td_select_bind(&q, s->rows, s->n_rows, &e->choice, &ignored)) {
        e->choice = (struct td_choice){0};
    }
}

const struct td_choice *td_late_choice(struct td_frame *f, const struct td_bound_plan *l, int step,
                                       const struct td_kernel_query *q)
{
    if (f->late == NULL && !f->beside) {
        f->late = td_calloc((size_t)l->plan->n_steps + 1, sizeof *f->late);
    }
    if (f->late == NULL) {
        return NULL;
    }
    struct td_late_choice *e = &f->late[step];
    const bool asked = e->shape != NULL;
    if (!asked && !open_entry(e, l, step)) {
        return NULL;
    }
    if (!asked || !same_shapes(e, q)) {
        choose(e, l, &l->plan->steps[step], q);
    }
    return e->choice.kernel != NULL ? &e->choice : NULL;
}

void td_late_choices_free(struct td_late_choice *late, int n_steps)
{
    for (int k = 0; late != NULL && k < n_steps; k++) {
        if (late[k].choice.kernel != NULL) {
            td_choice_fini(&late[k].choice);
        }
        td_free(late[k].shape);
    }
    td_free(late);
}
