/* kernels/train/constraints.c - norms along axes, brought between limits.
 *
 *   norms = sqrt(sum of w^2 along axes)          w * desired / (epsilon + norms)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/constraints.h"

#include <string.h>

#include "kernels/train/clip.h"

#define EPSILON 1e-7
enum { MOST_AXES = 8 };

/* The axes of field `at`, which stands last of its row's; axis 0 when the job names none. */
static struct td_value norms_of(struct td_emitter *e, struct td_value x, const struct td_field_values *v,
                                int at)
{
    int64_t axes[MOST_AXES] = {0};
    int n = v->n_list[at];
    if (n > MOST_AXES) {
        return td_emit_fail(e, TD_INVALID_ARGUMENT, "a constraint along %d axes, want at most %d", n,
                            MOST_AXES);
    }
    for (int i = 0; i < n; i++) {
        axes[i] = (int64_t)v->list[at][i];
    }
    n = n == 0 ? 1 : n;
    return td_f_1(e, "Sqrt", td_f_sum(e, td_f_square(e, x), td_emit_ints(e, TD_INT32, axes, n), true));
}

static struct td_value over(struct td_emitter *e, struct td_value x, struct td_value norms)
{
    return td_f_div(e, x, td_f_add(e, norms, td_f_number(e, norms, EPSILON)));
}

static struct td_value between(struct td_emitter *e, struct td_value x, double low, double high)
{
    return td_f_2(e, "Maximum", td_f_2(e, "Minimum", x, td_f_number(e, x, high)), td_f_number(e, x, low));
}

static struct td_value in_update_dtype(struct td_emitter *e, struct td_value w)
{
    return td_f_cast(e, w, td_update_dtype(w));
}

/* ------------------------------------------------------------------ the rows */

#define AXIS_FIELD                                                                                           \
    {                                                                                                        \
        .name = "axis", .kind = TD_FIELD_INTEGERS, .standard = 0, .range = TD_ANY_FINITE                     \
    }

enum { MAX_VALUE, MAX_AXIS };
static const struct td_field max_fields[] = {
    {.name = "max_value", .kind = TD_FIELD_NUMBER, .standard = 2, .range = TD_NOT_NEGATIVE},
    AXIS_FIELD,
    {.name = NULL},
};

static struct td_value max_norm(struct td_emitter *e, struct td_value w, const struct td_field_values *v)
{
    const struct td_value x = in_update_dtype(e, w), norms = norms_of(e, x, v, MAX_AXIS);
    const struct td_value scale = over(e, between(e, norms, 0, v->v[MAX_VALUE]), norms);
    return td_f_cast(e, td_f_mul(e, x, scale), td_dtype_of(w));
}

static const struct td_field no_fields[] = {{.name = NULL}};

static struct td_value non_neg(struct td_emitter *e, struct td_value w, const struct td_field_values *v)
{
    (void)v;
    return td_f_2(e, "Maximum", w, td_f_number(e, w, 0));
}

enum { UNIT_AXIS };
static const struct td_field unit_fields[] = {AXIS_FIELD, {.name = NULL}};

static struct td_value unit_norm(struct td_emitter *e, struct td_value w, const struct td_field_values *v)
{
    const struct td_value x = in_update_dtype(e, w);
    return td_f_cast(e, over(e, x, norms_of(e, x, v, UNIT_AXIS)), td_dtype_of(w));
}

enum { LOW, HIGH, RATE, BETWEEN_AXIS };
static const struct td_field between_fields[] = {
    {.name = "min_value", .kind = TD_FIELD_NUMBER, .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = "max_value", .kind = TD_FIELD_NUMBER, .standard = 1, .range = TD_NOT_NEGATIVE},
    {.name = "rate", .kind = TD_FIELD_NUMBER, .standard = 1, .range = TD_UNIT},
    AXIS_FIELD,
    {.name = NULL},
};

static struct td_value min_max_norm(struct td_emitter *e, struct td_value w, const struct td_field_values *v)
{
    const struct td_value x = in_update_dtype(e, w), norms = norms_of(e, x, v, BETWEEN_AXIS);
    const struct td_value limited = td_f_scale(e, between(e, norms, v->v[LOW], v->v[HIGH]), v->v[RATE]);
    const struct td_value desired = td_f_add(e, limited, td_f_scale(e, norms, 1 - v->v[RATE]));
    return td_f_cast(e, td_f_mul(e, x, over(e, desired, norms)), td_dtype_of(w));
}

static const struct td_constraint rows[] = {
    {"max_norm", max_fields, MAX_AXIS, max_norm},
    {"non_neg", no_fields, -1, non_neg},
    {"unit_norm", unit_fields, UNIT_AXIS, unit_norm},
    {"min_max_norm", between_fields, BETWEEN_AXIS, min_max_norm},
};

const struct td_constraint *td_constraint_row(int i)
{
    return i >= 0 && i < (int)(sizeof rows / sizeof *rows) ? &rows[i] : NULL;
}

const struct td_constraint *td_constraint_find(const char *name)
{
    int i = 0;
    while (td_constraint_row(i) != NULL && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return td_constraint_row(i);
}
