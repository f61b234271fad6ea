/* server/train/trainer_end.c - from the last step to a version directory.
 *
 *   best epoch's weights, where they are asked for -> averages, where they are kept -> gate -> written aside
 *
 * In this order: what is averaged is the result, whatever epoch was best. Nothing here changes progress: a
 * process that is killed meanwhile does all of it again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/train/result.h"
#include "server/train/trainer_impl.h"

/* ------------------------------------------------------------------ the weights */

static enum td_code take_best(struct td_trainer *t)
{
    for (int i = 0; i < td_step_n_state(t->step); i++) {
        if (td_step_state_is_model(t->step, i)) {
            TD_TRY(td_step_set_state(t->step, i, &t->best[i], &t->f->err));
        }
    }
    return TD_OK;
}

static enum td_code choose_weights(struct td_trainer *t)
{
    TD_TRY(t->best != NULL ? take_best(t) : TD_OK);
    return t->spec->ema.on ? td_step_use_averages(t->step, &t->f->err) : TD_OK;
}

/* ------------------------------------------------------------------ the gate */

double td_trainer_gate_value(const struct td_trainer *t)
{
    const char *monitor = t->spec->gate.monitor;
    return td_epoch_sums_named(t->valid_sums, strncmp(monitor, "val_", 4) == 0 ? monitor + 4 : monitor);
}

/* What the version that serves now comes to. */
static enum td_code evaluate_serving(struct td_trainer *t, double *value, bool *paused)
{
    struct td_step *step = NULL;
    if (t->o->serving == NULL) {
        *value = t->num.gate_before;
        return TD_OK;
    }
    TD_TRY(td_step_new(t->o->serving, t->spec, t->layout, &step, t->f));
    const enum td_code rc = td_trainer_evaluate(t, step, paused);
    *value = td_trainer_gate_value(t);
    td_step_free(step);
    return rc;
}

static enum td_code compare(struct td_trainer *t, struct td_train_outcome *out, bool *paused)
{
    const struct td_gate_spec *g = &t->spec->gate;
    double before = NAN;
    TD_TRY(evaluate_serving(t, &before, paused));
    TD_TRY(*paused ? TD_OK : td_trainer_evaluate(t, t->step, paused));
    if (*paused) {
        return TD_OK;
    }
    const double after = td_trainer_gate_value(t), gain = g->max ? after - before : before - after;
    out->gate_passed = g->min_gain > 0 ? gain >= g->min_gain : gain > 0; /* a NaN passes neither */
    out->gate = json_pack("{ss so so sb}", "monitor", g->monitor, "serving",
                          isfinite(before) ? json_real(before) : json_null(), "tuned",
                          isfinite(after) ? json_real(after) : json_null(), "passed", out->gate_passed);
    if (out->gate == NULL) {
        return td_trainer_own(t, td_no_memory(&t->f->err, 1, "the gate's event"));
    }
    return td_tell_message(t, "m:gate", out->gate_passed ? "info" : "warn",
                           "Gate: %.100s is %.6g on the validation file, the serving version's %.6g: %s",
                           g->monitor, after, before, out->gate_passed ? "passed" : "not passed");
}

/* ------------------------------------------------------------------ the version */

static enum td_code tell_checkpoint(struct td_trainer *t, struct td_train_outcome *out)
{
    const bool best = t->best != NULL;
    const int64_t step = best ? t->at.best_step : t->at.step;
    json_t *metrics = td_tell_checkpoint_metrics(step, best ? t->num.best_step_loss : t->num.step_loss,
                                                 best ? t->num.best_valid_loss : t->num.valid_loss);
    if (metrics == NULL) {
        return td_no_memory(&t->f->err, 1, "a checkpoint's metrics");
    }
    const enum td_code rc = t->o->sink.checkpoint(t->o->sink.ctx, step, metrics, &t->f->err);
    json_decref(metrics);
    out->step = step;
    return rc;
}

static enum td_code write_version(struct td_trainer *t)
{
    struct td_result *r = NULL;
    TD_TRY(td_result_begin(t->o->servable, t->o->stage_dir, &r, &t->f->err));
    const enum td_code rc = td_step_each_result(t->step, false, td_result_put, r, &t->f->err);
    if (rc) {
        td_result_abandon(r);
        return rc;
    }
    return td_result_finish(r, &t->f->err);
}

static enum td_code finish(struct td_trainer *t, struct td_train_outcome *out)
{
    TD_TRY(t->o->sink.state(t->o->sink.ctx, TD_TRAIN_WRITING, &t->f->err));
    TD_TRY(tell_checkpoint(t, out));
    TD_TRY(write_version(t));
    int64_t bytes[TD_BOARD_SIDES];
    TD_TRY(td_tensorboard_flush(t->board, bytes, &t->f->err));
    TD_TRY(td_result_csv_flush(t->csv, &bytes[0], &t->f->err));
    return td_tell_progress(t, true);
}

enum td_code td_trainer_finish(struct td_trainer *t, struct td_train_outcome *out)
{
    bool paused = false;
    TD_TRY(td_trainer_own(t, choose_weights(t)));
    TD_TRY(t->spec->gate.on && t->valid != NULL ? compare(t, out, &paused) : TD_OK);
    if (paused) {
        out->end = TD_TRAIN_PAUSED; /* the last epoch's end is saved */
        return TD_OK;
    }
    return td_trainer_speaks(t) ? td_trainer_own(t, finish(t, out)) : TD_OK;
}
