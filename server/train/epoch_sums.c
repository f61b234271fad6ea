/* server/train/epoch_sums.c - one vector of doubles: rows, loss, each loss, then of each metric how many sums
 * it has and those. How many is known from the first batch on; before it there are none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/epoch_sums.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

enum { MOST_SUMS = 1 << 16 }; /* of one metric: auc has 4 for each of 200 thresholds */

struct metric {
    const struct td_metric *row;
    const struct td_field_values *field;
    double *total;
    int n; /* 0: no batch yet */
};

/* What is told under a name: number of a loss or of a metric, -1: not that. */
struct number {
    const char *name;
    int loss, metric;
};

struct td_epoch_sums {
    double rows, loss;
    double *losses;
    int n_losses;
    struct metric *metrics;
    int n_metrics;
    struct number *numbers;
    int n_numbers;
};

/* ------------------------------------------------------------------ names */

static void add_number(struct td_epoch_sums *s, const char *name, int loss, int metric)
{
    for (int i = 0; i < s->n_numbers; i++) {
        if (strcmp(s->numbers[i].name, name) == 0) {
            return;
        }
    }
    s->numbers[s->n_numbers++] = (struct number){name, loss, metric};
}

static void add_numbers(struct td_epoch_sums *s, const struct td_row_layout *l)
{
    add_number(s, "loss", -1, -1);
    for (int i = 0; l->n_losses > 1 && i < l->n_losses; i++) {
        add_number(s, l->loss[i].label, i, -1);
    }
    for (int i = 0; i < l->n_metrics; i++) {
        add_number(s, l->metric[i].label, -1, i);
    }
}

static enum td_code make(struct td_epoch_sums *s, const struct td_job_spec *spec,
                         const struct td_row_layout *l, struct td_err *err)
{
    s->n_losses = l->n_losses;
    s->n_metrics = l->n_metrics;
    s->losses = td_calloc((size_t)l->n_losses + 1, sizeof *s->losses);
    s->metrics = td_calloc((size_t)l->n_metrics + 1, sizeof *s->metrics);
    s->numbers = td_calloc((size_t)l->n_losses + (size_t)l->n_metrics + 1, sizeof *s->numbers);
    if (s->losses == NULL || s->metrics == NULL || s->numbers == NULL) {
        return td_no_memory(err, sizeof *s, "the sums of an epoch");
    }
    for (int i = 0; i < l->n_metrics; i++) {
        const struct td_row_use *use = &l->metric[i];
        s->metrics[i].row = td_metric_find(spec->metric[i].name, use->classes, use->last_dim);
        s->metrics[i].field = &spec->metric[i].field;
        TD_FAIL_IF(s->metrics[i].row == NULL, err, INTERNAL, "there is no metric '%s'", spec->metric[i].name);
    }
    add_numbers(s, l);
    return TD_OK;
}

enum td_code td_epoch_sums_new(const struct td_job_spec *spec, const struct td_row_layout *layout,
                               struct td_epoch_sums **out, struct td_err *err)
{
    struct td_epoch_sums *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "the sums of an epoch");
    }
    const enum td_code rc = make(s, spec, layout, err);
    if (rc) {
        td_epoch_sums_free(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

void td_epoch_sums_free(struct td_epoch_sums *s)
{
    if (s == NULL) {
        return;
    }
    for (int i = 0; s->metrics != NULL && i < s->n_metrics; i++) {
        td_free(s->metrics[i].total);
    }
    td_free(s->losses);
    td_free(s->metrics);
    td_free(s->numbers);
    td_free(s);
}

/* ------------------------------------------------------------------ sums */

void td_epoch_sums_clear(struct td_epoch_sums *s)
{
    s->rows = s->loss = 0;
    memset(s->losses, 0, (size_t)s->n_losses * sizeof *s->losses);
    for (int i = 0; i < s->n_metrics; i++) {
        td_free(s->metrics[i].total);
        s->metrics[i].total = NULL;
        s->metrics[i].n = 0;
    }
}

static enum td_code metric_room(struct metric *m, int n, struct td_err *err)
{
    if (m->n == n) {
        return TD_OK;
    }
    TD_FAIL_IF(m->n != 0 || n <= 0 || n > MOST_SUMS, err, INTERNAL, "metric '%s' has %d sums, then %d",
               m->row->name, m->n, n);
    m->total = td_calloc((size_t)n, sizeof *m->total);
    if (m->total == NULL) {
        return td_no_memory(err, (size_t)n, "the sums of a metric");
    }
    m->n = n;
    return TD_OK;
}

enum td_code td_epoch_sums_add(struct td_epoch_sums *s, int64_t rows, const struct td_step_result *r,
                               struct td_err *err)
{
    s->rows += (double)rows;
    s->loss += (double)rows * r->loss;
    for (int i = 0; i < s->n_losses; i++) {
        s->losses[i] += (double)rows * r->losses[i];
    }
    for (int i = 0; i < s->n_metrics; i++) {
        struct metric *m = &s->metrics[i];
        TD_TRY(metric_room(m, r->n_sums[i], err));
        for (int k = 0; k < m->n; k++) {
            m->total[k] += r->sums[i][k];
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ what they come to */

int td_epoch_sums_n(const struct td_epoch_sums *s)
{
    return s->n_numbers;
}

const char *td_epoch_sums_name(const struct td_epoch_sums *s, int i)
{
    return s->numbers[i].name;
}

double td_epoch_sums_value(const struct td_epoch_sums *s, int i)
{
    const struct number *n = &s->numbers[i];
    if (s->rows <= 0) {
        return NAN;
    }
    if (n->metric >= 0) {
        const struct metric *m = &s->metrics[n->metric];
        return m->row->result(m->total, m->n, m->field);
    }
    return (n->loss >= 0 ? s->losses[n->loss] : s->loss) / s->rows;
}

double td_epoch_sums_named(const struct td_epoch_sums *s, const char *name)
{
    for (int i = 0; i < s->n_numbers; i++) {
        if (strcmp(s->numbers[i].name, name) == 0) {
            return td_epoch_sums_value(s, i);
        }
    }
    return NAN;
}

json_t *td_epoch_sums_json(const struct td_epoch_sums *s)
{
    json_t *o = json_object();
    for (int i = 0; o != NULL && i < s->n_numbers; i++) {
        const double v = td_epoch_sums_value(s, i);
        json_t *number = isfinite(v) ? json_real(v) : json_null();
        if (json_object_set_new(o, s->numbers[i].name, number) != 0) {
            json_decref(o);
            o = NULL;
        }
    }
    return o;
}

/* ------------------------------------------------------------------ as a vector */

enum td_code td_epoch_sums_save(const struct td_epoch_sums *s, struct td_tensor *out, struct td_err *err)
{
    int64_t n = 2 + s->n_losses + s->n_metrics;
    for (int i = 0; i < s->n_metrics; i++) {
        n += s->metrics[i].n;
    }
    const struct td_shape shape = td_shape_vector(n);
    TD_TRY(td_tensor_new(out, TD_DOUBLE, &shape, err));
    double *to = TD_DATA(out, double);
    *to++ = s->rows;
    *to++ = s->loss;
    for (int i = 0; i < s->n_losses; i++) {
        *to++ = s->losses[i];
    }
    for (int i = 0; i < s->n_metrics; i++) {
        *to++ = s->metrics[i].n;
        for (int k = 0; k < s->metrics[i].n; k++) {
            *to++ = s->metrics[i].total[k];
        }
    }
    return TD_OK;
}

static enum td_code load_metric(struct metric *m, const double **from, const double *end, struct td_err *err)
{
    const double n = *from < end ? *(*from)++ : -1;
    TD_FAIL_IF(!(n >= 0 && n <= MOST_SUMS && n <= (double)(end - *from)), err, INVALID_ARGUMENT,
               "the saved sums are not those of this job: metric '%s'", m->row->name);
    TD_TRY(n > 0 ? metric_room(m, (int)n, err) : TD_OK);
    for (int k = 0; k < m->n; k++) {
        m->total[k] = *(*from)++;
    }
    return TD_OK;
}

enum td_code td_epoch_sums_load(struct td_epoch_sums *s, const struct td_tensor *t, struct td_err *err)
{
    const int64_t n = td_tensor_count(t);
    TD_FAIL_IF(t->dtype != TD_DOUBLE || n < 2 + s->n_losses, err, INVALID_ARGUMENT,
               "the saved sums are not those of this job: %lld numbers", (long long)n);
    const double *from = TD_DATA(t, double), *end = from + n;
    td_epoch_sums_clear(s);
    s->rows = *from++;
    s->loss = *from++;
    for (int i = 0; i < s->n_losses; i++) {
        s->losses[i] = *from++;
    }
    for (int i = 0; i < s->n_metrics; i++) {
        TD_TRY(load_metric(&s->metrics[i], &from, end, err));
    }
    TD_FAIL_IF(from != end, err, INVALID_ARGUMENT, "the saved sums are not those of this job: %lld too many",
               (long long)(end - from));
    return TD_OK;
}
