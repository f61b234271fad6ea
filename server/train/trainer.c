/* server/train/trainer.c - the life of a job: rows checked, epochs of steps, each evaluated, until they are
 * all done or nothing gets better.
 *
 *   STEPS      batches of the epoch: run, add up, tell                \
 *   EVALUATE   validation file, the epoch's event, early stopping      > again for each epoch, or FINISHED
 *
 * Where a job is (struct td_trainer_at) is enough, with the weights, the slots and the sums, to go on as if
 * nothing had happened: the order of rows is fixed by seed and epoch, rates by the number of updates. So the
 * numbers of updates are not counted but follow from the number of steps: one at every k-th.
 *
 * A pause is looked for between steps and between batches of an evaluation, which begins anew when the job
 * goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/file_tree.h"
#include "server/base/clock.h"
#include "server/train/trainer_impl.h"

enum { MOST_STEP_EVENTS = 100000 };
#define EPOCH_SAVE_NS ((int64_t)500000000) /* epochs that are shorter are not each saved */

enum td_code td_trainer_own(struct td_trainer *t, enum td_code rc)
{
    return td_fault_of(t->f, rc, "server_error", "");
}

/* ------------------------------------------------------------------ what it begins with */

static enum td_code open_rows(struct td_trainer *t, const char *path, const char *name, bool training,
                              struct td_rows **out)
{
    const struct td_rows_opts opts = {
        .path = path,
        .name = name,
        .param = training ? "training_file" : "validation_file",
        .scratch = t->o->work_dir,
        .class_weights = training,
        .layout = t->layout,
        .spec = t->spec,
        .stop = t->o->pause,
    };
    return td_rows_open(&opts, out, t->f);
}

static enum td_code make_parts(struct td_trainer *t)
{
    TD_TRY(td_step_signature(t->o->servable, t->spec, &t->sig, t->f));
    TD_TRY(td_row_layout_new(t->spec, t->sig, &t->layout, t->f));
    TD_TRY(td_step_new(t->o->servable, t->spec, t->layout, &t->step, t->f));
    td_step_stop_with(t->step, &t->asks);
    t->n_rates = td_step_optimizers(t->step, &t->optimizers);
    t->rates = td_calloc((size_t)t->n_rates + 1, sizeof *t->rates);
    if (t->rates == NULL) {
        return td_trainer_own(t, td_no_memory(&t->f->err, 1, "learning rates"));
    }
    TD_TRY(open_rows(t, t->o->training_path, t->o->training_name, true, &t->train));
    if (t->o->validation_path != NULL) {
        TD_TRY(open_rows(t, t->o->validation_path, t->o->validation_name, false, &t->valid));
    }
    TD_TRY(td_trainer_own(t, td_epoch_sums_new(t->spec, t->layout, &t->sums, &t->f->err)));
    return td_trainer_own(t, td_epoch_sums_new(t->spec, t->layout, &t->valid_sums, &t->f->err));
}

static void count_steps(struct td_trainer *t)
{
    const int64_t rows = td_rows_count(t->train);
    t->n_batches = (rows + t->spec->batch_size - 1) / t->spec->batch_size;
    t->total_steps = t->n_batches * t->spec->n_epochs;
    t->every = (t->total_steps + MOST_STEP_EVENTS - 1) / MOST_STEP_EVENTS;
}

static enum td_code prepare(struct td_trainer *t)
{
    TD_TRY(td_trainer_own(t, td_tree_make(t->o->work_dir, 0755, &t->f->err)));
    TD_TRY(td_trainer_own(t, t->o->sink.state(t->o->sink.ctx, TD_TRAIN_VALIDATING, &t->f->err)));
    TD_TRY(make_parts(t));
    count_steps(t);
    return TD_OK;
}

static void fini(struct td_trainer *t)
{
    td_result_csv_close(t->csv);
    td_tensorboard_close(t->board);
    td_trainer_drop_best(t);
    td_epoch_sums_free(t->sums);
    td_epoch_sums_free(t->valid_sums);
    td_rows_close(t->train);
    td_rows_close(t->valid);
    td_step_free(t->step);
    td_row_layout_free(t->layout);
    td_free(t->rates);
    td_free(t->job);
}

/* ------------------------------------------------------------------ the steps of an epoch */

/* Updates that have been made after so many steps. */
static int64_t updates_after(const struct td_trainer *t, int64_t steps)
{
    return steps / t->spec->accumulation;
}

void td_trainer_set_rates(struct td_trainer *t, int64_t step)
{
    for (int i = 0; i < t->n_rates; i++) {
        t->rates[i] = td_job_spec_rate(&t->spec->optimizer[t->optimizers[i]], updates_after(t, step - 1));
    }
}

static enum td_code run_step(struct td_trainer *t, const struct td_batch *b, struct td_step_result *r)
{
    const int64_t updates = updates_after(t, t->at.step);
    td_trainer_set_rates(t, t->at.step + 1);
    const struct td_step_at at = {
        .step = t->at.step + 1,
        .updates = updates,
        .update = updates_after(t, t->at.step + 1) > updates,
        .rates = t->rates,
    };
    td_trainer_ask(t);
    TD_TRY(td_step_run(t->step, b, &at, &t->run, r, t->f));
    td_trainer_hear(t, r);
    const int64_t every = t->spec->ema.on ? t->spec->ema.overwrite_frequency : 0;
    const bool overwrites = at.update && every > 0 && (updates + 1) % every == 0;
    return td_trainer_later(t, overwrites ? td_trainer_own(t, td_step_use_averages(t->step, &t->f->err))
                                          : TD_OK);
}

static enum td_code one_step(struct td_trainer *t, const struct td_batch *b)
{
    struct td_step_result r = {0};
    const int64_t from_ns = td_clock_ns();
    TD_TRY(run_step(t, b, &r));
    TD_TRY(td_trainer_later(t, td_trainer_own(t, td_epoch_sums_add(t->sums, b->all_rows, &r, &t->f->err))));
    t->at.step++;
    t->at.batch++;
    t->at.rows += b->all_rows;
    t->num.step_loss = r.loss;
    t->step_ns = td_clock_ns() - from_ns;
    TD_TRY(td_trainer_later(t, td_tell_step(t, &r)));
    if (t->at.batch == t->n_batches) {
        t->at.phase = TD_PHASE_EVALUATE;
        return TD_OK;
    }
    const int64_t every = t->spec->save_every_steps;
    return td_trainer_later(t, td_trainer_save_if(t, every > 0 && t->at.step % every == 0));
}

static enum td_code go_through(struct td_trainer *t, struct td_batches *batches, bool *paused)
{
    enum td_code rc = TD_OK;
    while (rc == TD_OK && t->at.phase == TD_PHASE_STEPS) {
        struct td_batch b = {0};
        if (td_trainer_paused(t)) {
            *paused = true;
            return TD_OK;
        }
        rc = td_batches_next(batches, &b, t->f);
        if (rc) {
            td_step_give_up(t->step, true);
            return rc;
        }
        rc = b.all_rows > 0 ? one_step(t, &b)
                            : TD_FAULT(t->f, "server_error", "", "the epoch's rows end at batch %lld of %lld",
                                       (long long)t->at.batch, (long long)t->n_batches);
        td_batch_clear(&b);
    }
    return rc;
}

static enum td_code train_epoch(struct td_trainer *t, bool *paused)
{
    const struct td_epoch e = {
        .rows = t->train,
        .epoch = t->at.epoch,
        .batch_size = t->spec->batch_size,
        .from_batch = t->at.batch,
        .seed = (uint64_t)t->spec->seed,
        .shuffle = t->spec->shuffle,
        .part = td_ranks_rank(t->o->ranks),
        .n_parts = td_ranks_size(t->o->ranks),
    };
    struct td_batches *batches = NULL;
    const enum td_code opened = td_batches_open(&e, &batches, t->f);
    if (opened) {
        td_step_give_up(t->step, true);
        return opened;
    }
    const enum td_code rc = go_through(t, batches, paused);
    td_batches_close(batches);
    return rc;
}

/* ------------------------------------------------------------------ the end of an epoch */

static enum td_code evaluate(struct td_trainer *t, struct td_step *step, struct td_batches *batches,
                             bool *paused)
{
    for (;;) {
        struct td_batch b = {0};
        struct td_step_result r = {0};
        if (td_trainer_paused(t)) {
            *paused = true;
            return TD_OK;
        }
        enum td_code rc = td_batches_next(batches, &b, t->f);
        if (rc) {
            td_step_give_up(step, false);
            return rc;
        }
        if (b.all_rows == 0) {
            return TD_OK;
        }
        td_trainer_ask(t);
        rc = td_step_evaluate(step, &b, &t->run, &r, t->f);
        td_trainer_hear(t, &r);
        rc = rc ? rc
                : td_trainer_later(
                      t, td_trainer_own(t, td_epoch_sums_add(t->valid_sums, b.all_rows, &r, &t->f->err)));
        td_batch_clear(&b);
        TD_TRY(rc);
    }
}

enum td_code td_trainer_evaluate(struct td_trainer *t, struct td_step *step, bool *paused)
{
    const struct td_epoch e = {.rows = t->valid,
                               .batch_size = t->spec->batch_size,
                               .part = td_ranks_rank(t->o->ranks),
                               .n_parts = td_ranks_size(t->o->ranks)};
    struct td_batches *batches = NULL;
    td_step_stop_with(step, &t->asks);
    td_epoch_sums_clear(t->valid_sums);
    const enum td_code opened = td_batches_open(&e, &batches, t->f);
    if (opened) {
        td_step_give_up(step, false);
        return opened;
    }
    const enum td_code rc = evaluate(t, step, batches, paused);
    td_batches_close(batches);
    return rc;
}

/* Whether there is something to evaluate: a train_signature has no loss but of what it trains on. */
static bool evaluates(const struct td_trainer *t)
{
    return t->valid != NULL && t->spec->train_signature == NULL;
}

static double monitored(const struct td_trainer *t)
{
    const char *monitor = t->spec->stopping.monitor;
    return strncmp(monitor, "val_", 4) == 0 ? td_epoch_sums_named(t->valid_sums, monitor + 4)
                                            : td_epoch_sums_named(t->sums, monitor);
}

/* After the epoch t->at.epoch. Keras 3.15, keras/src/callbacks/early_stopping.py. */
static enum td_code stop_early(struct td_trainer *t, bool *stops)
{
    const struct td_early_stopping_spec *s = &t->spec->stopping;
    if (!s->on) {
        return TD_OK;
    }
    double value = monitored(t);
    const double delta = fabs(s->min_delta);
    TD_TRY(td_trainer_own(t, td_ranks_share(t->o->ranks, &value, sizeof value, &t->f->err)));
    const bool better = t->at.best_epoch == 0 ? (s->max ? value > -INFINITY : value < INFINITY)
                        : s->max              ? value > t->num.best + delta
                                              : value < t->num.best - delta;
    t->at.wait++;
    if (better) {
        t->num.best = value;
        t->num.best_step_loss = t->num.step_loss;
        t->num.best_valid_loss = t->num.valid_loss;
        t->at.best_epoch = t->at.epoch + 1;
        t->at.best_step = t->at.step;
        t->at.wait = 0;
        return td_trainer_later(t, s->restore_best ? td_trainer_keep_best(t) : TD_OK);
    }
    *stops = t->at.wait >= s->patience && t->at.epoch > 0;
    return TD_OK;
}

static enum td_code tell_stop(struct td_trainer *t)
{
    char since[60] = "";
    if (t->at.best_epoch > 0) {
        (void)snprintf(since, sizeof since, " since epoch %lld", (long long)t->at.best_epoch);
    }
    return td_tell_message(t, "m:stopped", "info", "Stopped early after epoch %lld: no better %.100s%s",
                           (long long)t->at.epoch + 1, t->spec->stopping.monitor, since);
}

static enum td_code end_epoch(struct td_trainer *t, bool *paused)
{
    bool stops = false;
    t->num.valid_loss = NAN;
    if (evaluates(t)) {
        TD_TRY(td_trainer_evaluate(t, t->step, paused));
        if (*paused) {
            return TD_OK;
        }
        t->num.valid_loss = td_epoch_sums_value(t->valid_sums, 0);
    }
    TD_TRY(td_trainer_later(t, td_tell_epoch(t, evaluates(t))));
    TD_TRY(stop_early(t, &stops));
    TD_TRY(td_trainer_later(t, stops ? tell_stop(t) : TD_OK));
    const bool last = stops || t->at.epoch + 1 == t->spec->n_epochs;
    t->at.epoch++;
    t->at.batch = 0;
    t->at.phase = last ? TD_PHASE_FINISHED : TD_PHASE_STEPS;
    td_epoch_sums_clear(t->sums);
    const bool must = last || td_clock_ns() - t->saved_ns > EPOCH_SAVE_NS;
    return td_trainer_later(t, td_trainer_save_if(t, must));
}

static enum td_code go_on(struct td_trainer *t, bool *paused)
{
    while (t->at.phase != TD_PHASE_FINISHED && !*paused) {
        TD_TRY(t->at.phase == TD_PHASE_STEPS ? train_epoch(t, paused) : TD_OK);
        TD_TRY(t->at.phase == TD_PHASE_EVALUATE && !*paused ? end_epoch(t, paused) : TD_OK);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ all of it */

static enum td_code tell_start(struct td_trainer *t, bool resumed)
{
    if (resumed) {
        char key[60];
        (void)snprintf(key, sizeof key, "m:resumed:%lld", (long long)t->at.step);
        return td_tell_message(t, key, "info", "The job is resumed after step %lld of %lld",
                               (long long)t->at.step, (long long)t->total_steps);
    }
    TD_TRY(td_tell_message(t, "m:started", "info", "Training on %lld rows: %lld epochs of %lld steps",
                           (long long)td_rows_count(t->train), (long long)t->spec->n_epochs,
                           (long long)t->n_batches));
    if (t->valid != NULL && !evaluates(t)) {
        TD_TRY(td_tell_message(t, "m:unevaluated", "warn",
                               "The validation file is not evaluated: signature '%.100s' trains as it runs",
                               t->spec->train_signature));
    }
    TD_TRY(td_tell_left_alone(t));
    return t->spec->bfloat16 ? td_tell_bfloat16(t) : TD_OK;
}

/* What the gate compares with is looked at before the first step. */
static enum td_code look_before(struct td_trainer *t, bool *paused)
{
    if (!t->spec->gate.on || t->o->serving != NULL || !evaluates(t)) {
        return TD_OK;
    }
    TD_TRY(td_trainer_evaluate(t, t->step, paused));
    t->num.gate_before = td_trainer_gate_value(t);
    return TD_OK;
}

static enum td_code tell_running(struct td_trainer *t, bool resumed)
{
    TD_TRY(td_trainer_own(t, t->o->sink.state(t->o->sink.ctx, TD_TRAIN_RUNNING, &t->f->err)));
    TD_TRY(tell_start(t, resumed));
    return td_tell_progress(t, false);
}

static enum td_code begin(struct td_trainer *t, bool *resumed)
{
    enum td_code rc = prepare(t);
    rc = rc ? rc : td_trainer_restore(t, resumed);
    TD_TRY(td_trainer_agree(t, rc));
    t->begun = true;
    return td_trainer_share_progress(t, resumed);
}

static enum td_code train(struct td_trainer *t, struct td_train_outcome *out)
{
    bool resumed = false, paused = false;
    TD_TRY(begin(t, &resumed));
    TD_TRY(td_trainer_later(t, tell_running(t, resumed)));
    enum td_code rc = resumed ? TD_OK : look_before(t, &paused);
    const bool worth_saving = resumed || !paused;
    rc = rc ? rc : go_on(t, &paused);
    TD_TRY(td_trainer_agree(t, rc));
    out->rows = t->at.rows;
    if (paused) {
        out->end = TD_TRAIN_PAUSED;
        return td_trainer_agree(t, worth_saving ? td_trainer_save(t) : TD_OK);
    }
    return td_trainer_agree(t, td_trainer_finish(t, out));
}

enum td_code td_train(const struct td_train_opts *o, struct td_train_outcome *out, struct td_fault *f)
{
    struct td_trainer t = {
        .o = o,
        .spec = o->spec,
        .f = f,
        .num = {.step_loss = NAN, .valid_loss = NAN, .gate_before = NAN},
        .run = {.pool = o->pool},
    };
    *out = (struct td_train_outcome){.end = TD_TRAIN_DONE, .gate_passed = true};
    enum td_code rc = train(&t, out);
    if (rc == TD_CANCELLED && td_trainer_paused(&t) && !t.begun) { /* while rows were looked at */
        *f = (struct td_fault){0};
        out->end = TD_TRAIN_PAUSED;
        rc = TD_OK;
    }
    if (rc || out->end == TD_TRAIN_PAUSED) {
        json_decref(out->gate);
        out->gate = NULL;
    }
    fini(&t);
    return rc;
}
