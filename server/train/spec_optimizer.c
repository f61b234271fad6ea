/* server/train/spec_optimizer.c - `optimizer`, `optimizers`, `schedule` and `clip` of a job.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "server/train/spec_read.h"

/* ------------------------------------------------------------------ clip */

struct clip {
    double norm, global_norm, value; /* 0: not given */
};
static const struct td_spec_field CLIP[] = {
    {.name = "norm", .read = td_spec_read_number, .at = offsetof(struct clip, norm), .range = TD_POSITIVE},
    {.name = "global_norm",
     .read = td_spec_read_number,
     .at = offsetof(struct clip, global_norm),
     .range = TD_POSITIVE},
    {.name = "value", .read = td_spec_read_number, .at = offsetof(struct clip, value), .range = TD_POSITIVE},
    {0},
};

enum td_code td_spec_optimizer_read_clip(struct td_spec_reader *r, json_t *value,
                                         const struct td_spec_field *field, void *to)
{
    struct clip c = {0};
    (void)field;
    TD_TRY(td_spec_read_object(r, value, CLIP, &c));
    const struct td_clip_spec kinds[] = {
        {TD_CLIP_NORM, c.norm}, {TD_CLIP_GLOBAL_NORM, c.global_norm}, {TD_CLIP_VALUE, c.value}};
    int n = 0;
    for (int i = 0; i < 3; i++) {
        if (kinds[i].at > 0) {
            *(struct td_clip_spec *)to = kinds[i];
            n++;
        }
    }
    return n == 1 ? TD_OK : td_spec_read_wrong(r, value, "exactly one of norm, global_norm and value");
}

/* to: the optimizer, whose own this is. */
static enum td_code read_own_clip(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                  void *to)
{
    struct td_optimizer_spec *o = to;
    o->own_clip = true;
    return td_spec_optimizer_read_clip(r, value, field, &o->clip);
}

/* ------------------------------------------------------------------ schedule */

static const struct td_spec_field SCHEDULE[] = {
    {.name = "name", .read = td_spec_read_nothing},
    {0},
};

static const char *schedule_name(int i)
{
    const struct td_schedule *row = td_schedule_row(i);
    return row != NULL ? row->name : NULL;
}

static enum td_code read_schedule(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                  void *to)
{
    struct td_schedule_spec *s = to;
    const char *name;
    (void)field;
    TD_TRY(td_spec_read_name(r, value, &name));
    s->schedule = td_schedule_find(name);
    if (s->schedule == NULL) {
        (void)td_spec_read_enter(r, "name");
        return td_spec_read_unknown(r, "schedule", name, schedule_name);
    }
    TD_TRY(td_spec_read_formula(r, value, SCHEDULE, s, s->schedule->fields, &s->field));
    const char *wrong = s->schedule->wrong != NULL ? s->schedule->wrong(&s->field) : NULL;
    return wrong == NULL ? TD_OK : TD_FAULT(r->f, "invalid_value", r->path, "%s: %s", r->path, wrong);
}

/* ------------------------------------------------------------------ optimizers */

#define AT(member) .at = offsetof(struct td_optimizer_spec, member)
#define EVERY_OPTIMIZER                                                                                      \
    {.name = "name", .read = td_spec_read_nothing},                                                          \
        {.name = "learning_rate", .read = td_spec_read_number, AT(rate), .range = TD_NOT_NEGATIVE},          \
        {.name = "schedule", .read = read_schedule, AT(schedule)},                                           \
        {.name = "weight_decay", .read = td_spec_read_number, AT(weight_decay), .range = TD_NOT_NEGATIVE},   \
        {.name = "exclude_from_weight_decay", .read = td_spec_read_patterns, AT(no_decay)},                  \
    {                                                                                                        \
        .name = "clip", .read = read_own_clip                                                                \
    }
static const struct td_spec_field OPTIMIZER[] = {EVERY_OPTIMIZER, {0}};
/* An entry of `optimizers`. */
static const struct td_spec_field PATTERNED[] = {
    {.name = "pattern", .read = td_spec_read_text, AT(pattern), .required = true}, EVERY_OPTIMIZER, {0}};
#undef AT

static const char *optimizer_name(int i)
{
    const struct td_optimizer *row = td_optimizer_row(i);
    return row != NULL ? row->name : NULL;
}

static enum td_code read_optimizer(struct td_spec_reader *r, json_t *value, const struct td_spec_field *rows,
                                   struct td_optimizer_spec *o)
{
    const char *name;
    TD_TRY(td_spec_read_name(r, value, &name));
    const struct td_optimizer *row = td_optimizer_find(name);
    if (row == NULL) {
        (void)td_spec_read_enter(r, "name");
        return td_spec_read_unknown(r, "optimizer", name, optimizer_name);
    }
    *o = (struct td_optimizer_spec){
        .optimizer = row,
        .rate = isnan(r->spec->rate) ? row->rate : r->spec->rate,
        .multiplier = r->spec->rate_multiplier,
        .weight_decay = row->weight_decay,
    };
    return td_spec_read_formula(r, value, rows, o, row->fields, &o->field);
}

enum td_code td_spec_optimizer_read_list(struct td_spec_reader *r, json_t *value,
                                         const struct td_spec_field *field, void *to)
{
    struct td_job_spec *s = to;
    (void)field;
    TD_TRY(td_spec_read_list(r, value, sizeof *s->optimizer, &s->optimizer, &s->n_optimizers));
    for (int i = 0; i < s->n_optimizers; i++) {
        const size_t mark = td_spec_read_item(r, i);
        TD_TRY(read_optimizer(r, json_array_get(value, (size_t)i), PATTERNED, &s->optimizer[i]));
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

/* The one without a pattern, behind those of `optimizers`, which have been read. */
enum td_code td_spec_optimizer_read(struct td_spec_reader *r, json_t *value,
                                    const struct td_spec_field *field, void *to)
{
    struct td_job_spec *s = to;
    (void)field;
    struct td_optimizer_spec *all = td_spec_read_alloc(r, (size_t)s->n_optimizers + 1, sizeof *all);
    if (all == NULL) {
        return r->f->err.code;
    }
    for (int i = 0; i < s->n_optimizers; i++) {
        all[i] = s->optimizer[i];
    }
    TD_TRY(read_optimizer(r, value, OPTIMIZER, &all[s->n_optimizers]));
    s->optimizer = all;
    s->n_optimizers++;
    return TD_OK;
}

double td_job_spec_rate(const struct td_optimizer_spec *o, int64_t updates)
{
    const struct td_schedule_spec *s = &o->schedule;
    return o->multiplier *
           (s->schedule != NULL ? s->schedule->rate(o->rate, (double)updates, &s->field) : o->rate);
}
