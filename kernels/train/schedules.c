/* kernels/train/schedules.c - a learning rate as a function of the number of updates. All in float32, in the
 * order of operations that Keras has: on which step a stair or a restart falls hangs on the rounding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/train/schedules.h"

#include <math.h>
#include <string.h>

static float of(const struct td_field_values *v, int field)
{
    return (float)v->v[field];
}

static float fraction(double step, float of_steps, bool staircase)
{
    const float p = (float)step / of_steps;
    return staircase ? floorf(p) : p;
}

/* ------------------------------------------------------------------ stairs and powers */

enum { DECAY_STEPS, DECAY_RATE, STAIRCASE };
static const struct td_field decay_fields[] = {
    {.name = "decay_steps", .standard = NAN, .range = TD_POSITIVE, .required = true},
    {.name = "decay_rate", .standard = NAN, .range = TD_NOT_NEGATIVE, .required = true},
    {.name = "staircase", .kind = TD_FIELD_BOOL, .standard = 0},
    {.name = NULL},
};

static double exponential(double first, double step, const struct td_field_values *v)
{
    const float p = fraction(step, of(v, DECAY_STEPS), v->v[STAIRCASE] != 0);
    return (double)((float)first * powf(of(v, DECAY_RATE), p));
}

static double inverse_time(double first, double step, const struct td_field_values *v)
{
    const float p = fraction(step, of(v, DECAY_STEPS), v->v[STAIRCASE] != 0);
    return (double)((float)first / (1.0F + of(v, DECAY_RATE) * p));
}

enum { POLYNOMIAL_STEPS, END_RATE, POWER };
static const struct td_field polynomial_fields[] = {
    {.name = "decay_steps", .standard = NAN, .range = TD_POSITIVE, .required = true},
    {.name = "end_learning_rate", .standard = 0.0001, .range = TD_NOT_NEGATIVE},
    {.name = "power", .standard = 1, .range = TD_ANY_FINITE},
    {.name = NULL},
};

static double polynomial(double first, double step, const struct td_field_values *v)
{
    const float steps = of(v, POLYNOMIAL_STEPS), end = of(v, END_RATE);
    const float p = fminf((float)step, steps) / steps;
    return (double)(((float)first - end) * powf(1.0F - p, of(v, POWER)) + end);
}

enum { BOUNDARIES, VALUES };
static const struct td_field piecewise_fields[] = {
    {.name = "boundaries", .kind = TD_FIELD_NUMBERS, .standard = NAN, .required = true},
    {.name = "values", .kind = TD_FIELD_NUMBERS, .standard = NAN, .range = TD_NOT_NEGATIVE, .required = true},
    {.name = NULL},
};

static double piecewise(double first, double step, const struct td_field_values *v)
{
    (void)first;
    int i = 0;
    while (i < v->n_list[BOUNDARIES] && step > v->list[BOUNDARIES][i]) {
        i++;
    }
    return (double)(float)v->list[VALUES][i];
}

static const char *piecewise_wrong(const struct td_field_values *v)
{
    if (v->n_list[VALUES] != v->n_list[BOUNDARIES] + 1) {
        return "values must hold one number more than boundaries";
    }
    for (int i = 1; i < v->n_list[BOUNDARIES]; i++) {
        if (!(v->list[BOUNDARIES][i - 1] < v->list[BOUNDARIES][i])) {
            return "boundaries must ascend";
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ cosines */

static const float pi = 3.14159265358979F;

enum { COSINE_STEPS, ALPHA, WARMUP_TARGET, WARMUP_STEPS };
static const struct td_field cosine_fields[] = {
    {.name = "decay_steps", .standard = NAN, .range = TD_POSITIVE, .required = true},
    {.name = "alpha", .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = "warmup_target", .standard = NAN, .range = TD_NOT_NEGATIVE},
    {.name = "warmup_steps", .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = NULL},
};

static double cosine(double first, double step, const struct td_field_values *v)
{
    const bool warms_up = !isnan(v->v[WARMUP_TARGET]);
    const float top = warms_up ? of(v, WARMUP_TARGET) : (float)first;
    const float before = warms_up ? of(v, WARMUP_STEPS) : 0, steps = of(v, COSINE_STEPS);
    const float at = fminf((float)step, steps + before);
    if (at < before) {
        return (double)((top - (float)first) * (at / before) + (float)first);
    }
    const float half = 0.5F * (1.0F + cosf(pi * ((at - before) / steps)));
    const float alpha = of(v, ALPHA);
    return (double)(top * ((float)(1 - v->v[ALPHA]) * half + alpha));
}

enum { FIRST_STEPS, T_MUL, M_MUL, RESTART_ALPHA };
static const struct td_field restart_fields[] = {
    {.name = "first_decay_steps", .standard = NAN, .range = TD_POSITIVE, .required = true},
    {.name = "t_mul", .standard = 2, .range = TD_POSITIVE},
    {.name = "m_mul", .standard = 1, .range = TD_NOT_NEGATIVE},
    {.name = "alpha", .standard = 0, .range = TD_NOT_NEGATIVE},
    {.name = NULL},
};

static double cosine_restarts(double first, double step, const struct td_field_values *v)
{
    const float t = of(v, T_MUL), alpha = of(v, RESTART_ALPHA);
    float f = (float)step / of(v, FIRST_STEPS), i;
    if (t == 1.0F) {
        i = floorf(f);
        f -= i;
    } else {
        i = floorf(logf(1.0F - f * (1.0F - t)) / logf(t));
        const float begun = (1.0F - powf(t, i)) / (1.0F - t);
        f = (f - begun) / powf(t, i);
    }
    const float half = 0.5F * powf(of(v, M_MUL), i) * (1.0F + cosf(pi * f));
    return (double)((float)first * ((1.0F - alpha) * half + alpha));
}

/* ------------------------------------------------------------------ the table */

static const struct td_schedule rows[] = {
    {"exponential", decay_fields, exponential, NULL},
    {"inverse_time", decay_fields, inverse_time, NULL},
    {"polynomial", polynomial_fields, polynomial, NULL},
    {"piecewise", piecewise_fields, piecewise, piecewise_wrong},
    {"cosine", cosine_fields, cosine, NULL},
    {"cosine_restarts", restart_fields, cosine_restarts, NULL},
};

const struct td_schedule *td_schedule_row(int i)
{
    return i >= 0 && i < (int)(sizeof rows / sizeof *rows) ? &rows[i] : NULL;
}

const struct td_schedule *td_schedule_find(const char *name)
{
    int i = 0;
    while (td_schedule_row(i) != NULL && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return td_schedule_row(i);
}
