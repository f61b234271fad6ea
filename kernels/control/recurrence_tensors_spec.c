/* kernels/control/recurrence_tensors_spec.c - what a _RecurrenceTensors node says, and whether shapes fit it:
 * for the engine and for device modules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/recurrence_tensors.h"

void td_recurrence_tensors_attrs(const struct td_node *n, struct td_recurrence_tensors *t)
{
    int count;
    *t = (struct td_recurrence_tensors){0};
    t->cell = td_attr_ints(n, "_cell", &count);
    t->limits = td_attr_ints(n, "_limits", &count);
    t->n_limits = count / 3;
    t->becomes = td_attr_ints(n, "_becomes", &count);
    t->inputs = td_attr_ints(n, "_inputs", &t->n_inputs);
    t->outputs = td_attr_ints(n, "_outputs", &t->n_outputs);
    t->shapes = td_attr_ints(n, "_shapes", &count);
    t->numbers = td_attr_floats(n, "_numbers", &count);
    t->kind = (enum td_cell)t->cell[TD_RECURRENCE_CELL];
}

bool td_recurrence_tensors_is_list(const struct td_recurrence_tensors *t, int k, int *count)
{
    const int64_t o = t->outputs[k];
    const bool yes = t->becomes[2 * o] == TD_SETS_AT;
    *count = yes ? (int)t->inputs[o] : -1;
    return yes;
}

/* Input `what`, where there is one, has this shape. */
static bool is_of(const struct td_recurrence_tensors *t, const struct td_shape *in, int what,
                  struct td_shape want)
{
    const int at = td_recurrence_tensors_at(t, what);
    return at < 0 || td_shape_equal(&in[at], &want);
}

/* The list `what`, of elements [rows, width], has *n of them. */
static bool is_list_of(const struct td_recurrence_tensors *t, const struct td_shape *in, int what,
                       int64_t width, int64_t *n)
{
    const int at = td_recurrence_tensors_at(t, what);
    if (at < 0) {
        return true;
    }
    const struct td_shape *s = &in[at];
    *n = s->rank == 3 ? s->dim[0] : -1;
    return *n >= 0 && s->dim[1] == t->rows && s->dim[2] == width;
}

static bool weights_fit(const struct td_recurrence_tensors *t, const struct td_shape *in)
{
    const int64_t width = td_cell_gates(t->kind) * t->units;
    const struct td_shape bias = td_shape_vector(width);
    return is_of(t, in, TD_RECURRENCE_U, td_shape_matrix(t->units, width)) &&
           is_of(t, in, TD_RECURRENCE_U2, td_shape_matrix(t->units, t->units)) &&
           is_of(t, in, TD_RECURRENCE_BX, bias) && is_of(t, in, TD_RECURRENCE_BH, bias) &&
           is_of(t, in, TD_RECURRENCE_B2, td_shape_vector(t->units));
}

static bool states_fit(const struct td_recurrence_tensors *t, const struct td_shape *in)
{
    const struct td_shape h = td_shape_matrix(t->rows, t->units);
    return is_of(t, in, TD_RECURRENCE_C, h) && is_of(t, in, TD_RECURRENCE_O, h) &&
           is_of(t, in, TD_RECURRENCE_Z, h) &&
           is_of(t, in, TD_RECURRENCE_LENGTHS, td_shape_matrix(t->rows, 1));
}

static bool lists_fit(struct td_recurrence_tensors *t, const struct td_shape *in)
{
    const bool behind = t->kind == TD_CELL_GRU_BEFORE && t->cell[TD_RECURRENCE_ITEMS2] < 0;
    t->x_width = (td_cell_gates(t->kind) + behind) * t->units;
    bool ok = is_list_of(t, in, TD_RECURRENCE_ITEMS, t->x_width, &t->n_x) &&
              is_list_of(t, in, TD_RECURRENCE_ITEMS2, t->units, &t->n_x2) &&
              is_list_of(t, in, TD_RECURRENCE_MASK, 1, &t->n_masks);
    for (int k = 0; ok && k < t->n_outputs; k++) {
        const int64_t *shape = t->shapes + (ptrdiff_t)2 * k;
        ok = (shape[0] < 0 || shape[0] == t->rows) && (shape[1] < 0 || shape[1] == t->units);
    }
    return ok;
}

/* Numbers are one each. */
static bool numbers_fit(const struct td_recurrence_tensors *t, const struct td_node *n,
                        const struct td_shape *in)
{
    bool ok = true;
    for (int i = 0; ok && i < td_attr_len(n, "S"); i++) {
        ok = td_shape_known(&in[i]) && td_shape_count(&in[i]) == 1;
    }
    return ok && t->n_limits > 0;
}

bool td_recurrence_tensors_read(const struct td_node *n, const struct td_shape *in,
                                struct td_recurrence_tensors *t)
{
    td_recurrence_tensors_attrs(n, t);
    const struct td_shape *h = &in[td_recurrence_tensors_at(t, TD_RECURRENCE_H)];
    if (h->rank != 2 || h->dim[0] < 0 || h->dim[1] <= 0) {
        return false;
    }
    t->rows = h->dim[0];
    t->units = h->dim[1];
    const int64_t spoken_of = t->cell[TD_RECURRENCE_UNITS];
    return (spoken_of == 0 || spoken_of == t->units) && t->units <= INT32_MAX && numbers_fit(t, n, in) &&
           weights_fit(t, in) && states_fit(t, in) && lists_fit(t, in);
}
