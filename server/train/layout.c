/* server/train/layout.c - inputs first, then the targets of losses and metrics, then weights; and the checks
 * that need the signature but no variable and no row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"

struct maker {
    const struct td_job_spec *spec;
    const struct td_signature *sig;
    struct td_row_layout *l;
    struct td_fault *f;
};

static enum td_code no_memory(struct maker *m)
{
    return TD_FAULT(m->f, "server_error", "", "no memory for the layout of rows");
}

/* "tensord.loss.output", or "tensord.loss[2].output" where there is a list. */
static void loss_param(const struct maker *m, int i, const char *field, char param[128])
{
    const json_t *loss = json_object_get(json_object_get(m->spec->json, "tensord"), "loss");
    if (json_is_array(loss)) {
        (void)snprintf(param, 128, "tensord.loss[%d].%s", i, field);
    } else {
        (void)snprintf(param, 128, "tensord.loss.%s", field);
    }
}

static void metric_param(const struct maker *m, int i, const char *field, char param[128])
{
    int first = 0;
    while (first < i && m->spec->metric[first].weighted != m->spec->metric[i].weighted) {
        first++;
    }
    (void)snprintf(param, 128, "tensord.%s[%d].%s",
                   m->spec->metric[i].weighted ? "weighted_metrics" : "metrics", i - first, field);
}

/* ------------------------------------------------------------------ outputs */

static enum td_code find_output(struct maker *m, const char *name, const char *param, int *out)
{
    char list[400] = "";
    for (int i = 0; i < m->sig->n_out; i++) {
        const size_t n = strlen(list);
        if (name != NULL ? strcmp(m->sig->out[i].key, name) == 0 : m->sig->n_out == 1) {
            *out = i;
            return TD_OK;
        }
        (void)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", m->sig->out[i].key);
    }
    if (name == NULL) {
        return TD_FAULT(m->f, "missing_field", param, "%s is missing: signature \"%s\" has %d outputs: %s",
                        param, m->sig->key, m->sig->n_out, list);
    }
    return TD_FAULT(m->f, "invalid_value", param,
                    "%s is \"%.100s\", which is no output of signature \"%s\"; there are %s", param, name,
                    m->sig->key, list);
}

/* As [batch, ..]: an output of rank 1 as a column. */
static struct td_shape column(const struct td_shape *s)
{
    struct td_shape c = *s;
    if (c.rank == 1) {
        c.rank = 2;
        c.dim[1] = 1;
    }
    if (c.rank >= 1) {
        c.dim[0] = -1;
    }
    return c;
}

static enum td_code check_output(struct maker *m, int output, const char *param)
{
    const struct td_tensor_info *o = &m->sig->out[output];
    if (o->n_parts > 0 ||
        (o->dtype != TD_DTYPE_NONE && !td_dtype_in(o->dtype, TD_SET_REALS | TD_BIT(TD_BOOL)))) {
        return TD_FAULT(m->f, "invalid_value", param, "%s is \"%s\", whose values are %s, want numbers",
                        param, o->key, o->n_parts > 0 ? "a composite tensor" : td_dtype_name(o->dtype));
    }
    if (o->shape.rank == 0) {
        return TD_FAULT(m->f, "invalid_value", param,
                        "%s is \"%s\", a single number: want an output with a value for each row", param,
                        o->key);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ fields */

static struct td_row_field *add_field(struct maker *m, enum td_row_field_kind kind, const char *name)
{
    struct td_row_field *field = &m->l->field[m->l->n++];
    *field = (struct td_row_field){.kind = kind, .name = name, .n_classes = -1, .loss = -1, .target = -1};
    return field;
}

static enum td_code add_input(struct maker *m, const struct td_tensor_info *in)
{
    struct td_row_field *field = add_field(m, TD_ROW_INPUT, in->key);
    const bool held =
        td_dtype_in(in->dtype, TD_SET_REALS | TD_SET_QUANTIZED | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING));
    if (in->n_parts > 0 || in->dtype == TD_DTYPE_NONE || !held) {
        return TD_FAULT(m->f, "invalid_value", "tensord.signature",
                        "input \"%s\" of signature \"%s\" is %s, which no row can hold", in->key, m->sig->key,
                        in->n_parts > 0 ? "a composite tensor" : td_dtype_name(in->dtype));
    }
    field->dtype = in->dtype;
    field->shape = in->shape;
    field->or_target = m->spec->train_signature != NULL;
    if (in->shape.rank >= 1) {
        if (in->shape.dim[0] >= 0 && in->shape.dim[0] != m->spec->batch_size) {
            return TD_FAULT(m->f, "invalid_value", "method.supervised.hyperparameters.batch_size",
                            "batch_size is %" PRId64
                            ", but input \"%s\" of signature \"%s\" takes exactly %" PRId64 " rows",
                            m->spec->batch_size, in->key, m->sig->key, in->shape.dim[0]);
        }
        m->l->whole_batches = m->l->whole_batches || in->shape.dim[0] >= 0;
        field->shape.dim[0] = -1;
    }
    return TD_OK;
}

static enum td_code add_inputs(struct maker *m)
{
    for (int i = 0; i < m->sig->n_in; i++) {
        TD_TRY(add_input(m, &m->sig->in[i]));
    }
    m->l->bare_input = m->sig->n_in == 1;
    for (int i = 0; i < m->spec->n_paddings; i++) {
        const struct td_padding_spec *pad = &m->spec->padding[i];
        int at = 0;
        while (at < m->sig->n_in && strcmp(m->sig->in[at].key, pad->input) != 0) {
            at++;
        }
        if (at == m->sig->n_in) {
            return TD_FAULT(m->f, "invalid_value", "tensord.padding",
                            "tensord.padding names \"%.100s\", which is no input of signature \"%s\"",
                            pad->input, m->sig->key);
        }
        m->l->field[at].pad = pad->value;
    }
    return TD_OK;
}

/* The shape, dtype and classes of a target of this rule for this output. */
static struct td_row_field target_like(const char *path, enum td_target_rule rule,
                                       const struct td_shape *output)
{
    struct td_row_field field = {.kind = TD_ROW_TARGET,
                                 .name = path,
                                 .dtype = rule == TD_TARGET_CLASS ? TD_INT64 : TD_FLOAT,
                                 .shape = column(output),
                                 .rule = rule,
                                 .n_classes = -1,
                                 .loss = -1,
                                 .target = -1};
    if (rule == TD_TARGET_CLASS && field.shape.rank >= 2) {
        field.n_classes = field.shape.dim[--field.shape.rank];
    }
    return field;
}

/* Its number among the fields: of one that is the same, or a new one. */
static int put_target(struct maker *m, const struct td_row_field *t)
{
    for (int i = 0; i < m->l->n; i++) {
        const struct td_row_field *other = &m->l->field[i];
        if (other->kind == TD_ROW_TARGET && strcmp(other->name, t->name) == 0 && other->rule == t->rule &&
            td_shape_equal(&other->shape, &t->shape) && other->n_classes == t->n_classes &&
            other->has_ignore == t->has_ignore && other->ignore_class == t->ignore_class) {
            return i;
        }
    }
    m->l->any_targets = true;
    m->l->field[m->l->n] = *t;
    return m->l->n++;
}

static enum td_code add_weights(struct maker *m, int i_loss, struct td_row_use *use)
{
    const struct td_tensor_info *o = &m->sig->out[use->output];
    const size_t n = strlen(o->key) + sizeof "sample_weight.";
    char *name = td_arena_alloc(m->l->arena, n, 1);
    if (name == NULL) {
        return no_memory(m);
    }
    (void)snprintf(name, n, "sample_weight.%s", o->key);
    use->weights = m->l->n;
    struct td_row_field *field = add_field(m, TD_ROW_WEIGHT, name);
    field->dtype = TD_FLOAT;
    field->loss = i_loss;
    field->target = use->target;
    field->shape = td_shape_of_rank(1);
    if (o->shape.rank > 2) { /* a weight a position: what is left without the last axis */
        field->shape = column(&o->shape);
        field->shape.rank--;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ losses */

/* Classes that a target of this rule may have: [*low, *high]; false: any, or not known. */
static bool classes_of(const struct td_row_use *use, enum td_target_rule rule, int64_t *low, int64_t *high)
{
    const bool one = use->last_dim == 1 && rule != TD_TARGET_CLASS;
    *low = one && rule == TD_TARGET_SIGN ? -1 : 0;
    *high = one ? 1 : use->last_dim - 1;
    return use->last_dim > 0 && !(one && rule == TD_TARGET_LIKE_OUTPUT);
}

static enum td_code check_class_weights(struct maker *m, int i)
{
    const struct td_loss_spec *loss = &m->spec->loss[i];
    int64_t low, high;
    if (!classes_of(&m->l->loss[i], loss->loss->target, &low, &high)) {
        return TD_OK;
    }
    for (int k = 0; k < loss->n_class_weights; k++) {
        const int64_t class = loss->class_weight[k].class;
        if (class < low || class > high) {
            char param[128];
            loss_param(m, i, "class_weight", param);
            return TD_FAULT(m->f, "invalid_value", param,
                            "%s names class %" PRId64 ", but the classes of output \"%s\" are %" PRId64
                            " to %" PRId64,
                            param, class, m->sig->out[m->l->loss[i].output].key, low, high);
        }
    }
    return TD_OK;
}

/* A loss's own field of that name; NAN: none, or not given. */
static double own_field(const struct td_loss_spec *loss, const char *name)
{
    for (int i = 0; loss->loss->fields != NULL && loss->loss->fields[i].name != NULL; i++) {
        if (strcmp(loss->loss->fields[i].name, name) == 0) {
            return loss->field.v[i];
        }
    }
    return (double)NAN;
}

static int64_t last_dim(const struct td_shape *output)
{
    const struct td_shape c = column(output);
    return c.rank >= 1 ? c.dim[c.rank - 1] : -1;
}

static const char *label(struct maker *m, const char *a, const char *b, const char *c)
{
    const size_t n = strlen(a) + strlen(b) + strlen(c) + 3;
    char *text = td_arena_alloc(m->l->arena, n, 1);
    if (text != NULL) {
        (void)snprintf(text, n, "%s%s%s%s%s", a, *a ? "_" : "", b, *b ? "_" : "", c);
    }
    return text;
}

static enum td_code add_loss(struct maker *m, int i)
{
    const struct td_loss_spec *loss = &m->spec->loss[i];
    struct td_row_use *use = &m->l->loss[i];
    char param[128];
    loss_param(m, i, "output", param);
    TD_TRY(find_output(m, loss->output, param, &use->output));
    TD_TRY(check_output(m, use->output, param));
    const struct td_shape *shape = &m->sig->out[use->output].shape;
    struct td_row_field t = target_like(loss->target, loss->loss->target, shape);
    const double ignore = own_field(loss, "ignore_class");
    t.has_ignore = !isnan(ignore);
    t.ignore_class = isnan(ignore) ? 0 : (int64_t)ignore;
    t.loss = i;
    use->target = put_target(m, &t);
    use->classes = t.rule == TD_TARGET_CLASS;
    use->last_dim = last_dim(shape);
    use->label = label(m, "", m->sig->out[use->output].key, "loss");
    return use->label == NULL ? no_memory(m) : check_class_weights(m, i);
}

/* ------------------------------------------------------------------ metrics */

/* The loss that a metric goes with: of its output, else the first. */
static int loss_of(const struct maker *m, const struct td_metric_spec *metric)
{
    for (int i = 0; metric->output != NULL && i < m->spec->n_losses; i++) {
        if (strcmp(m->sig->out[m->l->loss[i].output].key, metric->output) == 0) {
            return i;
        }
    }
    return 0;
}

/* The field of a target that a metric names itself: that of a loss that looks there, or one of its own, read
 * by what the metric's name says. */
static int own_target(struct maker *m, const struct td_metric_spec *metric, int first,
                      const struct td_shape *shape)
{
    for (int i = 0; i < m->spec->n_losses; i++) {
        const int loss = i == 0 ? first : i - (i <= first);
        if (strcmp(m->spec->loss[loss].target, metric->target) == 0) {
            return m->l->loss[loss].target;
        }
    }
    const bool either = strcmp(metric->name, "accuracy") == 0 || strcmp(metric->name, "top_k_accuracy") == 0;
    const bool classes = strncmp(metric->name, "sparse_", 7) == 0 || (either && last_dim(shape) != 1);
    const struct td_row_field t =
        target_like(metric->target, classes ? TD_TARGET_CLASS : TD_TARGET_LIKE_OUTPUT, shape);
    return put_target(m, &t);
}

static enum td_code check_metric(struct maker *m, int i, const struct td_row_use *use)
{
    const char *name = m->spec->metric[i].name;
    const struct td_metric *row = td_metric_find(name, use->classes, use->last_dim);
    if (row == NULL || !row->of_classes || use->classes || use->last_dim == 1) {
        return TD_OK;
    }
    char param[128];
    metric_param(m, i, "name", param);
    return TD_FAULT(m->f, "invalid_value", param,
                    "%s is \"%s\", which counts classes, but the target of output '%.100s' is numbers", param,
                    name, m->sig->out[use->output].key);
}

static enum td_code add_metric(struct maker *m, int i)
{
    const struct td_metric_spec *metric = &m->spec->metric[i];
    struct td_row_use *use = &m->l->metric[i];
    const int loss = loss_of(m, metric);
    char param[128];
    metric_param(m, i, "output", param);
    use->output = m->l->loss[0].output;
    if (metric->output != NULL) {
        TD_TRY(find_output(m, metric->output, param, &use->output));
        TD_TRY(check_output(m, use->output, param));
    }
    const struct td_tensor_info *o = &m->sig->out[use->output];
    use->target = metric->target == NULL ? m->l->loss[loss].target : own_target(m, metric, loss, &o->shape);
    use->weights = metric->weighted ? m->l->loss[loss].weights : -1;
    use->classes = m->l->field[use->target].rule == TD_TARGET_CLASS;
    use->last_dim = last_dim(&o->shape);
    TD_TRY(check_metric(m, i, use));
    use->label =
        label(m, metric->weighted ? "weighted" : "", m->spec->n_losses > 1 ? o->key : "", metric->name);
    return use->label == NULL ? no_memory(m) : TD_OK;
}

/* ------------------------------------------------------------------ what is watched */

static bool is_number(const struct td_row_layout *l, const char *name)
{
    bool found = strcmp(name, "loss") == 0;
    for (int i = 0; l->n_losses > 1 && i < l->n_losses; i++) {
        found = found || strcmp(name, l->loss[i].label) == 0;
    }
    for (int i = 0; i < l->n_metrics; i++) {
        found = found || strcmp(name, l->metric[i].label) == 0;
    }
    return found;
}

static enum td_code check_monitor(struct maker *m, const char *param, const char *monitor)
{
    const char *name = strncmp(monitor, "val_", 4) == 0 ? monitor + 4 : monitor;
    if (is_number(m->l, name)) {
        return TD_OK;
    }
    char list[500] = "loss";
    for (int i = 0; i < m->l->n_metrics + (m->l->n_losses > 1 ? m->l->n_losses : 0); i++) {
        const size_t n = strlen(list);
        const bool metric = i < m->l->n_metrics;
        (void)snprintf(list + n, sizeof list - n, ", %s",
                       metric ? m->l->metric[i].label : m->l->loss[i - m->l->n_metrics].label);
    }
    return TD_FAULT(
        m->f, "invalid_value", param,
        "%s is \"%.100s\", which this job does not compute; there are, also with val_ before them: %s", param,
        monitor, list);
}

static enum td_code check_monitors(struct maker *m)
{
    if (m->spec->stopping.on && m->spec->train_signature == NULL) {
        TD_TRY(check_monitor(m, "tensord.early_stopping.monitor", m->spec->stopping.monitor));
    }
    return m->spec->gate.on && m->spec->train_signature == NULL
               ? check_monitor(m, "tensord.gate.monitor", m->spec->gate.monitor)
               : TD_OK;
}

/* ------------------------------------------------------------------ the whole */

static enum td_code make(struct maker *m)
{
    TD_TRY(add_inputs(m));
    if (m->spec->train_signature != NULL) {
        int output;
        TD_TRY(find_output(m, m->spec->train_loss_output, "tensord.train_loss_output", &output));
        return check_monitors(m);
    }
    for (int i = 0; i < m->spec->n_losses; i++) {
        TD_TRY(add_loss(m, i));
    }
    for (int i = 0; i < m->spec->n_losses; i++) {
        TD_TRY(add_weights(m, i, &m->l->loss[i]));
    }
    for (int i = 0; i < m->spec->n_metrics; i++) {
        TD_TRY(add_metric(m, i));
    }
    return check_monitors(m);
}

enum td_code td_row_layout_new(const struct td_job_spec *spec, const struct td_signature *sig,
                               struct td_row_layout **out, struct td_fault *f)
{
    struct td_row_layout *l = td_calloc(1, sizeof *l);
    struct maker m = {.spec = spec, .sig = sig, .l = l, .f = f};
    if (l == NULL || (l->arena = td_arena_new((size_t)16 << 20)) == NULL) {
        td_free(l);
        return no_memory(&m);
    }
    const size_t most = (size_t)sig->n_in + 2 * (size_t)spec->n_losses + (size_t)spec->n_metrics;
    l->n_losses = spec->n_losses;
    l->n_metrics = spec->n_metrics;
    l->field = td_arena_alloc(l->arena, most + 1, sizeof *l->field);
    l->loss = td_arena_alloc(l->arena, (size_t)spec->n_losses + 1, sizeof *l->loss);
    l->metric = td_arena_alloc(l->arena, (size_t)spec->n_metrics + 1, sizeof *l->metric);
    const enum td_code rc =
        l->field == NULL || l->loss == NULL || l->metric == NULL ? no_memory(&m) : make(&m);
    if (rc) {
        td_row_layout_free(l);
        return rc;
    }
    *out = l;
    return TD_OK;
}

void td_row_layout_free(struct td_row_layout *l)
{
    if (l != NULL) {
        td_arena_free(l->arena);
        td_free(l);
    }
}
