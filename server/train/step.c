/* server/train/step.c - runs a training step.
 *
 * Feeds are the batch's tensors as they come, and scalars that the step keeps; fetches become numbers. Which
 * of the callables runs is a matter of where the batch stands in its cycle of accumulation.
 *
 * When the loss is not finite the check in the graph has failed the run before anything was assigned. The
 * forward pass is then run once more, node by node and watched, to tell which tensor was the first that is
 * not finite.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/collective.h"
#include "core/base/mem.h"
#include "server/train/step_impl.h"

#define STEP_BYTES ((size_t)64 << 20)

enum td_code td_step_no_memory(struct td_fault *f)
{
    return td_fault_of(f, td_no_memory(&f->err, 1, "a training step"), "server_error", NULL);
}

void *td_step_room(struct td_step *s, int n, size_t size)
{
    void *p = td_arena_alloc(s->arena, (size_t)n + 1, size);
    if (p != NULL) {
        memset(p, 0, ((size_t)n + 1) * size);
    }
    return p;
}

/* ------------------------------------------------------------------ new and free */

static enum td_code make_scalars(struct td_step *s, struct td_fault *f)
{
    const struct td_shape scalar = td_shape_scalar(), share = td_shape_vector(TD_SHARE_FIELDS);
    s->scalar = td_step_room(s, s->n_optimizers + 1, sizeof *s->scalar);
    if (s->scalar == NULL) {
        return td_step_no_memory(f);
    }
    TD_TRY(td_fault_of(f, td_tensor_new(&s->share, TD_INT32, &share, &f->err), "server_error", NULL));
    for (int i = 0; i < s->n_optimizers + 1; i++) {
        TD_TRY(
            td_fault_of(f, td_tensor_new(&s->scalar[i], TD_FLOAT, &scalar, &f->err), "server_error", NULL));
    }
    return td_fault_of(f, td_tensor_new(&s->number, TD_INT32, &scalar, &f->err), "server_error", NULL);
}

static enum td_code make_room(struct td_step *s, struct td_fault *f)
{
    const int n_losses = s->spec->n_losses, n_metrics = s->spec->n_metrics;
    for (int i = 0; s->spec->histograms && td_step_chosen(s, i) != NULL; i++) {
        s->n_shown++;
    }
    const int n_out = 3 + n_losses + n_metrics + s->n_shown;
    s->in = td_step_room(s, s->layout->n + s->n_optimizers + 3, sizeof *s->in);
    s->out = td_step_room(s, n_out > s->n_outputs + 1 ? n_out : s->n_outputs + 1, sizeof *s->out);
    s->gradient = td_step_room(s, s->n_shown, sizeof *s->gradient);
    s->losses = td_step_room(s, n_losses, sizeof *s->losses);
    s->sums = td_step_room(s, n_metrics, sizeof *s->sums);
    s->n_sums = td_step_room(s, n_metrics, sizeof *s->n_sums);
    if (s->in == NULL || s->out == NULL || s->losses == NULL || s->sums == NULL || s->n_sums == NULL ||
        s->gradient == NULL) {
        return td_step_no_memory(f);
    }
    return make_scalars(s, f);
}

static const char *names_of(const struct td_saved_model *m, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < m->n_signatures && n + 1 < bytes; i++) {
        if (strncmp(m->signatures[i].key, "__saved_model", 13) != 0) {
            const int put = snprintf(text + n, bytes - n, "%s%s", n > 0 ? ", " : "", m->signatures[i].key);
            n += put > 0 ? (size_t)put : 0;
        }
    }
    return text;
}

enum td_code td_step_signature(struct td_servable *s, const struct td_job_spec *spec,
                               const struct td_signature **out, struct td_fault *f)
{
    const bool own = spec->train_signature != NULL;
    const char *name = own ? spec->train_signature : spec->signature;
    char names[300];
    *out = td_servable_signature(s, name);
    if (*out == NULL) {
        return TD_FAULT(f, "invalid_value", own ? "tensord.train_signature" : "tensord.signature",
                        "model '%.100s' has no signature '%.100s'; it has: %s", td_servable_name(s),
                        name == NULL ? "serving_default" : name,
                        names_of(td_servable_model(s), names, sizeof names));
    }
    return TD_OK;
}

static enum td_code build(struct td_step *s, struct td_fault *f)
{
    const struct td_signature *sig;
    const struct td_collective *all = td_collective();
    s->several = all != NULL && all->size > 1;
    TD_TRY(td_step_signature(s->servable, s->spec, &sig, f));
    TD_TRY(s->spec->train_signature != NULL ? td_step_build_own(s, sig, f) : td_step_build(s, sig, f));
    return make_room(s, f);
}

static enum td_code make(struct td_servable *servable, const struct td_job_spec *spec,
                         const struct td_row_layout *layout, bool dry, struct td_step **out,
                         struct td_fault *f)
{
    struct td_step *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_step_no_memory(f);
    }
    s->servable = td_servable_ref(servable);
    s->spec = spec;
    s->layout = layout;
    s->dry = dry;
    s->arena = td_arena_new(STEP_BYTES);
    const enum td_code rc = s->arena == NULL ? td_step_no_memory(f) : build(s, f);
    if (rc) {
        td_step_free(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

enum td_code td_step_new(struct td_servable *servable, const struct td_job_spec *spec,
                         const struct td_row_layout *layout, struct td_step **out, struct td_fault *f)
{
    return make(servable, spec, layout, false, out, f);
}

enum td_code td_step_check(struct td_servable *servable, const struct td_job_spec *spec,
                           const struct td_row_layout *layout, struct td_fault *f)
{
    struct td_step *s = NULL;
    TD_TRY(make(servable, spec, layout, true, &s, f));
    td_step_free(s);
    return TD_OK;
}

void td_step_free(struct td_step *s)
{
    if (s == NULL) {
        return;
    }
    for (int i = 0; s->sums != NULL && i < s->spec->n_metrics; i++) {
        td_free(s->sums[i]);
    }
    for (int i = 0; s->scalar != NULL && i < s->n_optimizers + 1; i++) {
        td_tensor_clear(&s->scalar[i]);
    }
    td_tensor_clear(&s->number);
    for (int i = 0; s->gradient != NULL && i < s->n_shown; i++) {
        td_tensor_clear(&s->gradient[i]);
    }
    td_tensor_clear(&s->share);
    td_model_unref(s->model);
    td_model_unref(s->evaluated);
    td_selection_free(s->selection);
    td_arena_free(s->arena);
    td_servable_unref(s->servable);
    td_free(s);
}

/* ------------------------------------------------------------------ what it is made of */

void td_step_stop_with(struct td_step *s, td_stop *stop)
{
    s->stop = stop;
}

const struct td_chosen *td_step_chosen(const struct td_step *s, int i)
{
    return s->chosen == NULL ? NULL : s->chosen[i];
}

const struct td_tensor *td_step_gradient(const struct td_step *s, int i)
{
    return i < s->n_shown && s->gradient[i].dtype != TD_DTYPE_NONE ? &s->gradient[i] : NULL;
}

const char *td_step_left_alone(const struct td_step *s, int i)
{
    return s->left_alone == NULL ? NULL : s->left_alone[i];
}

int td_step_mixed(const struct td_step *s)
{
    return s->n_mixed;
}

int td_step_optimizers(const struct td_step *s, const int **numbers)
{
    *numbers = s->optimizers;
    return s->n_optimizers;
}

const char *td_step_output_name(const struct td_step *s, int i)
{
    return s->output_name == NULL ? NULL : s->output_name[i];
}

/* ------------------------------------------------------------------ a run */

static double number_of(const struct td_tensor *t)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return TD_DATA(t, float)[0];
    case TD_DOUBLE:
        return TD_DATA(t, double)[0];
    case TD_BOOL:
        return TD_DATA(t, td_bool)[0];
    default:
        return td_dtype_in(t->dtype, TD_SET_INTS) ? (double)td_tensor_int(t, 0) : NAN;
    }
}

/* The sums of metric i, as doubles. */
static enum td_code take_sums(struct td_step *s, int i, const struct td_tensor *t, struct td_err *err)
{
    const int64_t n = td_tensor_count(t);
    double *grown = n == s->n_sums[i] ? s->sums[i] : td_realloc(s->sums[i], (size_t)n + 1, sizeof *grown);
    if (grown == NULL && n > 0) {
        return td_no_memory(err, (size_t)n, "a metric's sums");
    }
    s->sums[i] = grown;
    s->n_sums[i] = (int)n;
    for (int64_t k = 0; k < n; k++) {
        grown[k] = TD_DATA(t, float)[k];
    }
    return TD_OK;
}

static enum td_code take_fetches(struct td_step *s, bool norm, struct td_step_result *r, struct td_err *err)
{
    const int n_losses = s->spec->n_losses, n_metrics = s->spec->n_metrics;
    r->loss = number_of(&s->out[0]);
    for (int i = 0; i < n_losses; i++) {
        s->losses[i] = number_of(&s->out[1 + i]);
    }
    for (int i = 0; i < n_metrics; i++) {
        TD_TRY(take_sums(s, i, &s->out[1 + n_losses + i], err));
    }
    const struct td_tensor *more = &s->out[1 + n_losses + n_metrics];
    r->losses = s->losses;
    r->stop = s->several && number_of(more++) > 0;
    r->norm = norm ? number_of(more) : NAN;
    r->sums = (const double **)s->sums;
    r->n_sums = s->n_sums;
    return TD_OK;
}

static enum td_code take_own(struct td_step *s, struct td_step_result *r)
{
    r->loss = number_of(&s->out[s->loss_at]);
    for (int i = 0; i < s->n_outputs; i++) {
        s->outputs[i] = number_of(&s->out[s->output_at[i]]);
    }
    r->outputs = s->outputs;
    r->losses = s->losses;
    r->norm = NAN;
    r->sums = (const double **)s->sums;
    r->n_sums = s->n_sums;
    return TD_OK;
}

static void feed_share(struct td_step *s, const struct td_batch *b)
{
    int32_t *share = TD_DATA(&s->share, int32_t);
    share[TD_SHARE_COUNTS] = b->rows > 0;
    share[TD_SHARE_ALL] = (int32_t)b->all_rows;
    share[TD_SHARE_ROWS] = b->rows > 0 ? (int32_t)b->rows : 1;
    share[TD_SHARE_FIRST] = (int32_t)b->first;
    share[TD_SHARE_STOP] = s->stop != NULL && atomic_load(s->stop) != 0;
}

static void feed(struct td_step *s, const struct td_batch *b, const struct td_step_at *at)
{
    const bool own = s->input_field != NULL;
    int n = s->layout->n;
    for (int i = 0; i < s->layout->n; i++) {
        s->in[i] = b->tensor[own ? s->input_field[i] : i]; /* borrowed */
    }
    if (s->several) {
        feed_share(s, b);
        s->in[n++] = s->share;
    }
    if (at != NULL && s->draws) {
        s->in[n++] = s->number;
        TD_DATA(&s->number, int32_t)[0] = (int32_t)((at->step - 1) % INT32_MAX);
    }
    for (int i = 0; at != NULL && !own && i < s->n_optimizers + 1; i++) {
        s->in[n + i] = s->scalar[i];
        TD_DATA(&s->scalar[i], float)
        [0] = i < s->n_optimizers ? (float)at->rates[i] : (float)(at->updates + 1);
    }
}

static int n_fetched(const struct td_step *s, enum td_step_run_kind kind)
{
    return s->input_field != NULL ? s->n_outputs + 1
                                  : 1 + s->spec->n_losses + s->spec->n_metrics + s->several +
                                        (kind != TD_RUN_EVALUATE) + (kind == TD_RUN_UPDATE ? s->n_shown : 0);
}

/* The last fetches of an update. */
static void take_gradients(struct td_step *s)
{
    struct td_tensor *from = &s->out[n_fetched(s, TD_RUN_UPDATE) - s->n_shown];
    for (int i = 0; i < s->n_shown; i++) {
        td_tensor_clear(&s->gradient[i]);
        s->gradient[i] = from[i];
        from[i] = (struct td_tensor){0};
    }
}

static enum td_code run_batch(struct td_step *s, enum td_step_run_kind kind, const struct td_run_opts *run,
                              struct td_step_result *r, struct td_err *err)
{
    const struct td_collective *all = s->several ? td_collective() : NULL;
    if (all != NULL) {
        all->begin(all->ctx);
    }
    TD_TRY(td_callable_run(s->run[kind], s->in, s->out, run, err));
    memset(r, 0, sizeof *r);
    enum td_code rc =
        s->input_field != NULL ? take_own(s, r) : take_fetches(s, kind != TD_RUN_EVALUATE, r, err);
    rc = rc || all == NULL || all->held == NULL ? rc : all->held(all->ctx, err);
    if (kind == TD_RUN_UPDATE) {
        take_gradients(s);
    }
    for (int i = 0; i < n_fetched(s, kind); i++) {
        td_tensor_clear(&s->out[i]);
    }
    return rc;
}

/* ------------------------------------------------------------------ which tensor was not finite */

struct watch {
    char nan[300], infinite[300]; /* the first of each; "" none */
};

static void look(struct watch *w, const struct td_node *n, int port, const struct td_tensor *t)
{
    const int64_t count = t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE ? td_tensor_count(t) : 0;
    for (int64_t i = 0; i < count && w->nan[0] == 0; i++) {
        const double x = t->dtype == TD_FLOAT ? TD_DATA(t, float)[i] : TD_DATA(t, double)[i];
        char *to = isnan(x) ? w->nan : isinf(x) && w->infinite[0] == 0 ? w->infinite : NULL;
        if (to != NULL) {
            (void)snprintf(to, sizeof w->nan, "'%.200s:%d' (%.40s)", n->name, port, n->op_name);
        }
    }
}

static void watch_node(void *ctx, const struct td_observed *what)
{
    for (int i = 0; i < what->n_out; i++) {
        look(ctx, what->node, i, &what->out[i]);
    }
}

/* The batch is fed. */
static enum td_code not_finite(struct td_step *s, int64_t step, struct td_fault *f)
{
    struct watch w = {.nan = "", .infinite = ""};
    const struct td_run_opts run = {.eager = true, .observe = watch_node, .ctx = &w};
    struct td_step_result r;
    struct td_err ignored = {0};
    const enum td_code rc = run_batch(s, TD_RUN_EVALUATE, &run, &r, &ignored);
    if (rc && s->several) {
        td_step_fail_evaluation(s);
    }
    const char *first = w.infinite[0] != 0 ? w.infinite : w.nan; /* looked for only before a NaN */
    const bool both = w.nan[0] != 0 && strcmp(first, w.nan) != 0;
    f->err = (struct td_err){0}; /* what was seen until then is what can be told */
    if (first[0] == 0 && s->several) {
        return td_fault_of(f, td_fail(&f->err, TD_ABORTED, TD_NOT_FINITE " at step %lld", (long long)step),
                           "training_error", NULL);
    }
    return first[0] != 0
               ? TD_FAULT(f, "training_error", NULL,
                          TD_NOT_FINITE " at step %lld: the first tensor that is not is %s%s%s",
                          (long long)step, first, both ? ", the first with a NaN " : "", both ? w.nan : "")
               : TD_FAULT(f, "training_error", NULL, TD_NOT_FINITE " at step %lld", (long long)step);
}

enum td_code td_step_run(struct td_step *s, const struct td_batch *b, const struct td_step_at *at,
                         const struct td_run_opts *run, struct td_step_result *out, struct td_fault *f)
{
    const int64_t cycle = s->input_field != NULL ? 1 : s->spec->accumulation;
    const enum td_step_run_kind kind = at->update || cycle <= 1      ? TD_RUN_UPDATE
                                       : (at->step - 1) % cycle == 0 ? TD_RUN_BEGIN
                                                                     : TD_RUN_ACCUMULATE;
    feed(s, b, at);
    const enum td_code rc = run_batch(s, kind, run, out, &f->err);
    if (rc == TD_OK && s->input_field != NULL && !isfinite(out->loss)) {
        return TD_FAULT(f, "training_error", NULL, TD_NOT_FINITE " at step %lld", (long long)at->step);
    }
    const bool unfinite = rc == TD_INVALID_ARGUMENT && strstr(f->err.msg, TD_NOT_FINITE) != NULL;
    const bool apart = rc && s->several && !td_step_fail_training(s, unfinite);
    if (unfinite && apart) {
        f->err = (struct td_err){0};
        return td_fault_of(f, td_fail(&f->err, TD_ABORTED, "another process of the job failed"),
                           "training_error", NULL);
    }
    if (unfinite) {
        return not_finite(s, at->step, f);
    }
    if (rc) {
        (void)td_err_wrap(&f->err, "step %lld", (long long)at->step);
    }
    return td_fault_of(f, rc, "training_error", NULL);
}

enum td_code td_step_evaluate(struct td_step *s, const struct td_batch *b, const struct td_run_opts *run,
                              struct td_step_result *out, struct td_fault *f)
{
    if (s->run[TD_RUN_EVALUATE] == NULL) {
        return TD_FAULT(f, "invalid_value", "validation_file",
                        "a job with a train_signature has no loss of its own to evaluate: leave "
                        "validation_file out");
    }
    feed(s, b, NULL);
    const enum td_code rc = run_batch(s, TD_RUN_EVALUATE, run, out, &f->err);
    if (rc && s->several) {
        td_step_fail_evaluation(s);
    }
    return td_fault_of(f, rc, "training_error", NULL);
}
