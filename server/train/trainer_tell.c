/* server/train/trainer_tell.c - what happens, told to the sink as events, to the result file as rows and to
 * TensorBoard as points.
 *
 *   "s12"   the step's event                          "m:.."   a message
 *   "e3"    the epoch's, after its last step's        keys: an event that is told again is no new one
 *
 * Data are FORMAT's ("Events"): a number that JSON cannot hold is null.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/bfloat16.h"
#include "server/train/trainer_impl.h"

static enum td_code no_memory(struct td_trainer *t)
{
    return td_trainer_own(t, td_no_memory(&t->f->err, 1, "an event"));
}

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static enum td_code tell(struct td_trainer *t, const struct td_train_event *e)
{
    if (!td_trainer_speaks(t)) {
        return TD_OK;
    }
    return td_trainer_own(t, t->o->sink.event(t->o->sink.ctx, e, &t->f->err));
}

/* ------------------------------------------------------------------ messages */

enum td_code td_tell_message(struct td_trainer *t, const char *key, const char *level, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return tell(t, &(struct td_train_event){.key = key, .level = level, .type = "message", .message = text});
}

enum td_code td_tell_left_alone(struct td_trainer *t)
{
    char names[800] = "";
    int n = 0;
    for (const char *name; (name = td_step_left_alone(t->step, n)) != NULL; n++) {
        const size_t at = strlen(names);
        (void)snprintf(names + at, sizeof names - at, "%s%.200s", n > 0 ? ", " : "", name);
    }
    return n == 0 ? TD_OK
                  : td_tell_message(t, "m:left_alone", "warn",
                                    "No gradient path leads from the loss to %d of the variables; they are "
                                    "left as they are: %s%s",
                                    n, names, strlen(names) + 1 == sizeof names ? ".." : "");
}

enum td_code td_tell_bfloat16(struct td_trainer *t)
{
    static const char *const how[] = {
        [TD_BFLOAT16_AS_FLOAT] = ": rounded to it and multiplied as float32, since this processor has no "
                                 "instructions for it; float32 is faster here",
        [TD_BFLOAT16_SLOW] = ": rounded to it and multiplied as float32, which this processor does faster; "
                             "float32 is faster here",
        [TD_BFLOAT16_NATIVE] = ", by this processor's instructions",
    };
    const int n = td_step_mixed(t->step);
    return n == 0 ? td_tell_message(t, "m:compute_dtype", "warn",
                                    "Nothing is computed in bfloat16: the model has no product of float32")
                  : td_tell_message(t, "m:compute_dtype", "info",
                                    "Computed in bfloat16: %d product%s of the model%s", n, n == 1 ? "" : "s",
                                    how[td_bfloat16_way()]);
}

/* ------------------------------------------------------------------ steps */

static json_t *rates_json(const struct td_trainer *t)
{
    json_t *a = json_array();
    for (int i = 0; a != NULL && i < t->n_rates; i++) {
        if (json_array_append_new(a, number(t->rates[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

/* The scalars that a train_signature gives beside its loss; NULL: there are none. */
static json_t *outputs_json(const struct td_trainer *t, const struct td_step_result *r)
{
    json_t *o = NULL;
    const char *name;
    for (int i = 0; (name = td_step_output_name(t->step, i)) != NULL; i++) {
        o = o != NULL ? o : json_object();
        if (o == NULL || json_object_set_new(o, name, number(r->outputs[i])) != 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

static json_t *step_data(const struct td_trainer *t, const struct td_step_result *r)
{
    json_t *o = json_pack("{sI sI sI so so}", "step", (json_int_t)t->at.step, "total_steps",
                          (json_int_t)t->total_steps, "epoch", (json_int_t)t->at.epoch + 1, "train_loss",
                          number(r->loss), "learning_rate", rates_json(t));
    if (o != NULL && td_step_output_name(t->step, 0) != NULL &&
        json_object_set_new(o, "outputs", outputs_json(t, r)) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static enum td_code step_event(struct td_trainer *t, const struct td_step_result *r)
{
    char key[40], text[120];
    json_t *data = step_data(t, r);
    if (data == NULL) {
        return no_memory(t);
    }
    (void)snprintf(key, sizeof key, "s%lld", (long long)t->at.step);
    (void)snprintf(text, sizeof text, "Step %lld/%lld: training loss=%.4g", (long long)t->at.step,
                   (long long)t->total_steps, r->loss);
    const enum td_code rc =
        tell(t, &(struct td_train_event){
                    .key = key, .level = "info", .type = "metrics", .message = text, .data = data});
    json_decref(data);
    return rc;
}

static enum td_code step_curves(struct td_trainer *t, double loss)
{
    struct td_err *err = &t->f->err;
    char tag[60];
    TD_TRY(td_tensorboard_scalar(t->board, TD_BOARD_TRAIN, t->at.step, "batch_loss", loss, err));
    for (int i = 0; i < t->n_rates; i++) {
        (void)snprintf(tag, sizeof tag, t->n_rates > 1 ? "batch_learning_rate_%d" : "batch_learning_rate",
                       i + 1);
        TD_TRY(td_tensorboard_scalar(t->board, TD_BOARD_TRAIN, t->at.step, tag, t->rates[i], err));
    }
    return TD_OK;
}

static struct td_csv_step csv_step(const struct td_trainer *t)
{
    return (struct td_csv_step){.step = t->at.step,
                                .epoch = t->at.epoch + 1,
                                .loss = t->num.step_loss,
                                .rates = t->rates,
                                .n_rates = t->n_rates};
}

enum td_code td_tell_step(struct td_trainer *t, const struct td_step_result *r)
{
    const bool last = t->at.batch == t->n_batches;
    if (!td_trainer_speaks(t)) {
        return TD_OK;
    }
    if (last || t->at.step % t->every == 0) {
        const struct td_csv_step row = csv_step(t);
        TD_TRY(step_event(t, r));
        TD_TRY(td_trainer_own(t, step_curves(t, r->loss)));
        TD_TRY(last ? TD_OK : td_trainer_own(t, td_result_csv_step(t->csv, &row, &t->f->err)));
    }
    return td_tell_progress(t, false);
}

enum td_code td_tell_progress(struct td_trainer *t, bool sync)
{
    if (!td_trainer_speaks(t)) {
        return TD_OK;
    }
    const int64_t under_way = t->at.epoch + (t->at.phase == TD_PHASE_FINISHED ? 0 : 1);
    const int64_t at[4] = {t->at.step, t->total_steps, under_way, t->at.rows};
    return td_trainer_own(t, t->o->sink.progress(t->o->sink.ctx, at, sync, &t->f->err));
}

/* ------------------------------------------------------------------ epochs */

static json_t *epoch_data(const struct td_trainer *t, bool valid)
{
    return json_pack(
        "{sI sI so s{so so}}", "step", (json_int_t)t->at.step, "epoch", (json_int_t)t->at.epoch + 1,
        "valid_loss", valid ? number(t->num.valid_loss) : json_null(), "metrics", "train",
        td_epoch_sums_json(t->sums), "validation", valid ? td_epoch_sums_json(t->valid_sums) : json_null());
}

static enum td_code epoch_event(struct td_trainer *t, bool valid)
{
    char key[40], text[200], more[60] = "";
    json_t *data = epoch_data(t, valid);
    if (data == NULL) {
        return no_memory(t);
    }
    if (valid) {
        (void)snprintf(more, sizeof more, ", validation loss=%.4g", t->num.valid_loss);
    }
    (void)snprintf(key, sizeof key, "e%lld", (long long)t->at.epoch + 1);
    (void)snprintf(text, sizeof text, "Epoch %lld/%lld: training loss=%.4g%s", (long long)t->at.epoch + 1,
                   (long long)t->spec->n_epochs, td_epoch_sums_value(t->sums, 0), more);
    const enum td_code rc =
        tell(t, &(struct td_train_event){
                    .key = key, .level = "info", .type = "metrics", .message = text, .data = data});
    json_decref(data);
    return rc;
}

static enum td_code epoch_side(struct td_trainer *t, enum td_board_side side, const struct td_epoch_sums *s)
{
    char tag[300];
    for (int i = 0; i < td_epoch_sums_n(s); i++) {
        (void)snprintf(tag, sizeof tag, "epoch_%.200s", td_epoch_sums_name(s, i));
        TD_TRY(td_tensorboard_scalar(t->board, side, t->at.epoch + 1, tag, td_epoch_sums_value(s, i),
                                     &t->f->err));
    }
    return TD_OK;
}

static enum td_code weight_histogram(void *ctx, const char *key, const struct td_tensor *value,
                                     struct td_err *err)
{
    struct td_trainer *t = ctx;
    char tag[600];
    (void)snprintf(tag, sizeof tag, "%.500s/histogram", key);
    return td_dtype_in(value->dtype, TD_SET_FLOATS)
               ? td_tensorboard_histogram(t->board, TD_BOARD_TRAIN, t->at.epoch + 1, tag, value, err)
               : TD_OK;
}

static enum td_code gradient_histograms(struct td_trainer *t)
{
    const struct td_tensor *g;
    char tag[600];
    for (int i = 0; (g = td_step_gradient(t->step, i)) != NULL; i++) {
        (void)snprintf(tag, sizeof tag, "%.500s/gradient", td_step_chosen(t->step, i)->full_key);
        TD_TRY(td_tensorboard_histogram(t->board, TD_BOARD_TRAIN, t->at.epoch + 1, tag, g, &t->f->err));
    }
    return TD_OK;
}

static enum td_code epoch_curves(struct td_trainer *t, bool valid)
{
    TD_TRY(epoch_side(t, TD_BOARD_TRAIN, t->sums));
    TD_TRY(valid ? epoch_side(t, TD_BOARD_VALIDATION, t->valid_sums) : TD_OK);
    if (!t->spec->histograms) {
        return TD_OK;
    }
    TD_TRY(td_step_each_result(t->step, false, weight_histogram, t, &t->f->err));
    return gradient_histograms(t);
}

enum td_code td_tell_epoch(struct td_trainer *t, bool valid)
{
    if (!td_trainer_speaks(t)) {
        return TD_OK;
    }
    td_trainer_set_rates(t, t->at.step); /* they are those of a step that an earlier process may have done */
    const struct td_csv_step row = csv_step(t);
    TD_TRY(epoch_event(t, valid));
    TD_TRY(td_trainer_own(t, epoch_curves(t, valid)));
    return td_trainer_own(
        t, td_result_csv_epoch(t->csv, &row, t->sums, valid ? t->valid_sums : NULL, &t->f->err));
}

json_t *td_tell_checkpoint_metrics(int64_t step, double step_loss, double valid_loss)
{
    json_t *o = json_pack("{sI so}", "step", (json_int_t)step, "train_loss", number(step_loss));
    if (o != NULL && isfinite(valid_loss) &&
        (json_object_set_new(o, "valid_loss", json_real(valid_loss)) != 0 ||
         json_object_set_new(o, "full_valid_loss", json_real(valid_loss)) != 0)) {
        json_decref(o);
        return NULL;
    }
    return o;
}
