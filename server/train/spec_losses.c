/* server/train/spec_losses.c - `loss`, `metrics` and `weighted_metrics` of a job.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/train/spec_read.h"

/* ------------------------------------------------------------------ losses */

static enum td_code read_target(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                void *to)
{
    TD_TRY(td_spec_read_text(r, value, field, to));
    const char *path = *(const char **)to;
    if (strcmp(path, "targets") != 0 && (strncmp(path, "targets.", 8) != 0 || path[8] == '\0')) {
        return td_spec_read_wrong(r, value, "\"targets\" or \"targets.KEY\"");
    }
    return TD_OK;
}

static enum td_code read_reduction(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                   void *to)
{
    static const char *const words[] = {"sum_over_batch_size", "mean_with_sample_weight", "sum", NULL};
    static const enum td_reduction means[] = {TD_SUM_OVER_BATCH_SIZE, TD_MEAN_WITH_SAMPLE_WEIGHT, TD_SUM};
    const struct td_spec_field as_word = {.name = field->name, .words = words};
    const char *word = NULL;
    TD_TRY(td_spec_read_word(r, value, &as_word, &word));
    for (int i = 0; words[i] != NULL; i++) {
        *(enum td_reduction *)to = words[i] == word ? means[i] : *(enum td_reduction *)to;
    }
    return TD_OK;
}

/* A key of class_weight: digits, perhaps a minus. */
static bool is_class(const char *key, int64_t *class)
{
    char *end = NULL;
    const char *digits = key + (*key == '-');
    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 18) {
        return false;
    }
    *class = strtoll(key, &end, 10);
    return *end == '\0';
}

/* to: the loss. Whether the output has such a class is layout.c's to tell. */
static enum td_code read_class_weight(struct td_spec_reader *r, json_t *value,
                                      const struct td_spec_field *field, void *to)
{
    static const struct td_spec_field weight = {.range = TD_NOT_NEGATIVE};
    struct td_loss_spec *loss = to;
    const char *key;
    json_t *v;
    (void)field;
    if (!json_is_object(value)) {
        return td_spec_read_wrong(r, value, "an object of class -> weight");
    }
    loss->class_weight = td_spec_read_alloc(r, json_object_size(value), sizeof *loss->class_weight);
    if (loss->class_weight == NULL) {
        return r->f->err.code;
    }
    json_object_foreach(value, key, v)
    {
        struct td_class_weight *w = &loss->class_weight[loss->n_class_weights];
        const size_t mark = td_spec_read_enter(r, key);
        if (!is_class(key, &w->class)) {
            return TD_FAULT(r->f, "invalid_value", r->path, "%s: \"%.60s\" is no class, want an integer",
                            r->path, key);
        }
        TD_TRY(td_spec_read_number(r, v, &weight, &w->weight));
        td_spec_read_leave(r, mark);
        loss->n_class_weights++;
    }
    return TD_OK;
}

static const struct td_spec_field LOSS[] = {
    {.name = "name", .read = td_spec_read_nothing},
    {.name = "output", .read = td_spec_read_text, .at = offsetof(struct td_loss_spec, output)},
    {.name = "target", .read = read_target, .at = offsetof(struct td_loss_spec, target)},
    {.name = "weight", .read = td_spec_read_number, .at = offsetof(struct td_loss_spec, weight)},
    {.name = "reduction", .read = read_reduction, .at = offsetof(struct td_loss_spec, reduction)},
    {.name = "class_weight", .read = read_class_weight},
    {0},
};

static const char *loss_name(int i)
{
    const struct td_loss *row = td_loss_row(i);
    return row != NULL ? row->name : NULL;
}

static enum td_code read_loss(struct td_spec_reader *r, json_t *value, struct td_loss_spec *loss)
{
    const char *name;
    *loss = (struct td_loss_spec){.target = "targets", .weight = 1, .reduction = TD_SUM_OVER_BATCH_SIZE};
    TD_TRY(td_spec_read_name(r, value, &name));
    loss->loss = td_loss_find(name);
    if (loss->loss == NULL) {
        (void)td_spec_read_enter(r, "name");
        return td_spec_read_unknown(r, "loss", name, loss_name);
    }
    return td_spec_read_formula(r, value, LOSS, loss, loss->loss->fields, &loss->field);
}

enum td_code td_spec_losses_read(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                 void *to)
{
    struct td_job_spec *s = to;
    (void)field;
    if (!json_is_array(value)) {
        s->loss = td_spec_read_alloc(r, 1, sizeof *s->loss);
        s->n_losses = 1;
        return s->loss != NULL ? read_loss(r, value, s->loss) : r->f->err.code;
    }
    TD_TRY(td_spec_read_list(r, value, sizeof *s->loss, &s->loss, &s->n_losses));
    if (s->n_losses == 0) {
        return td_spec_read_wrong(r, value, "at least one loss");
    }
    for (int i = 0; i < s->n_losses; i++) {
        const size_t mark = td_spec_read_item(r, i);
        TD_TRY(read_loss(r, json_array_get(value, (size_t)i), &s->loss[i]));
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ metrics */

static const struct td_spec_field METRIC[] = {
    {.name = "name", .read = td_spec_read_nothing},
    {.name = "output", .read = td_spec_read_text, .at = offsetof(struct td_metric_spec, output)},
    {.name = "target", .read = read_target, .at = offsetof(struct td_metric_spec, target)},
    {0},
};

static const char *metric_name(int i)
{
    const struct td_metric *row = td_metric_row(i);
    return row != NULL ? row->name : NULL;
}

static int n_fields(const struct td_metric *m)
{
    int n = 0;
    while (m != NULL && m->fields != NULL && m->fields[n].name != NULL) {
        n++;
    }
    return n;
}

/* Which row "accuracy" stands for is known with the output; of those that it may be, the one with the most
 * fields says what may be set. */
static const struct td_metric *find_metric(const char *name)
{
    static const struct {
        bool classes;
        long long last_dim;
    } cases[] = {{false, 1}, {true, 2}, {false, 2}};
    const struct td_metric *best = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct td_metric *m = td_metric_find(name, cases[i].classes, cases[i].last_dim);
        best = best == NULL || n_fields(m) > n_fields(best) ? m : best;
    }
    return best;
}

static enum td_code read_metric(struct td_spec_reader *r, json_t *value, struct td_metric_spec *metric)
{
    if (!json_is_string(value)) {
        TD_TRY(td_spec_read_name(r, value, &metric->name));
    } else {
        TD_TRY(td_spec_read_text(r, value, NULL, &metric->name));
    }
    const struct td_metric *row = find_metric(metric->name);
    if (row == NULL) {
        return td_spec_read_unknown(r, "metric", metric->name, metric_name);
    }
    if (json_is_object(value)) {
        return td_spec_read_formula(r, value, METRIC, metric, row->fields, &metric->field);
    }
    for (int i = 0; i < n_fields(row); i++) {
        metric->field.v[i] = row->fields[i].standard;
    }
    return TD_OK;
}

/* Both lists end up in one. */
static enum td_code read_metrics(struct td_spec_reader *r, json_t *value, struct td_job_spec *s,
                                 bool weighted)
{
    struct td_metric_spec *more;
    int n;
    TD_TRY(td_spec_read_list(r, value, sizeof *more, &more, &n));
    struct td_metric_spec *all = td_spec_read_alloc(r, (size_t)s->n_metrics + (size_t)n, sizeof *all);
    if (all == NULL) {
        return r->f->err.code;
    }
    for (int i = 0; i < s->n_metrics; i++) {
        all[i] = s->metric[i];
    }
    for (int i = 0; i < n; i++) {
        const size_t mark = td_spec_read_item(r, i);
        all[s->n_metrics + i].weighted = weighted;
        TD_TRY(read_metric(r, json_array_get(value, (size_t)i), &all[s->n_metrics + i]));
        td_spec_read_leave(r, mark);
    }
    s->metric = all;
    s->n_metrics += n;
    return TD_OK;
}

enum td_code td_spec_losses_read_metrics(struct td_spec_reader *r, json_t *value,
                                         const struct td_spec_field *field, void *to)
{
    (void)field;
    return read_metrics(r, value, to, false);
}

enum td_code td_spec_losses_read_weighted(struct td_spec_reader *r, json_t *value,
                                          const struct td_spec_field *field, void *to)
{
    (void)field;
    return read_metrics(r, value, to, true);
}
