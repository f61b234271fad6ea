/* server/train/spec.c - the body of a job: OpenAI's fields, `tensord`, and what must hold between fields.
 *
 * Each object is a table, one row a field (spec_read.h); what its rows do not say is checked afterwards, by
 * check_together. The order of BODY matters in one place: method and hyperparameters come before `tensord`,
 * whose optimizers take their learning rate when they name none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/train/spec_read.h"

#define AT(member) .at = offsetof(struct td_job_spec, member)

/* ------------------------------------------------------------------ method */

static const struct td_spec_field HYPERPARAMETERS[] = {
    {.name = "n_epochs",
     .read = td_spec_read_int,
     AT(n_epochs),
     .can_auto = true,
     .least = 1,
     .most = 100000},
    {.name = "batch_size",
     .read = td_spec_read_int,
     AT(batch_size),
     .can_auto = true,
     .least = 1,
     .most = 1 << 20},
    {.name = "learning_rate", .read = td_spec_read_number, AT(rate), .range = TD_NOT_NEGATIVE},
    {.name = "learning_rate_multiplier",
     .read = td_spec_read_number,
     AT(rate_multiplier),
     .can_auto = true,
     .range = TD_POSITIVE},
    {0},
};

static enum td_code read_hyperparameters(struct td_spec_reader *r, json_t *value,
                                         const struct td_spec_field *field, void *to)
{
    (void)field;
    return td_spec_read_object(r, value, HYPERPARAMETERS, to);
}

static const struct td_spec_field SUPERVISED[] = {
    {.name = "hyperparameters", .read = read_hyperparameters},
    {0},
};
static const struct td_spec_field LORA[] = {
    {.name = "rank", .read = td_spec_read_int, AT(lora.rank), .least = 1, .most = 1 << 16},
    {.name = "alpha", .read = td_spec_read_number, AT(lora.alpha), .range = TD_POSITIVE},
    {.name = "targets", .read = td_spec_read_patterns, AT(lora.targets)},
    {.name = "hyperparameters", .read = read_hyperparameters},
    {0},
};

/* Method objects are read for the type that is named; another's is a mistake. */
static enum td_code read_method_type(struct td_spec_reader *r, json_t *value,
                                     const struct td_spec_field *field, void *to)
{
    struct td_job_spec *s = to;
    const char *word = NULL;
    TD_TRY(td_spec_read_word(r, value, field, &word));
    s->lora.on = strcmp(word, "lora") == 0;
    return TD_OK;
}

static enum td_code read_supervised(struct td_spec_reader *r, json_t *value,
                                    const struct td_spec_field *field, void *to)
{
    (void)field;
    return r->spec->lora.on ? td_spec_read_wrong(r, value, "method.lora, since method.type is \"lora\"")
                            : td_spec_read_object(r, value, SUPERVISED, to);
}

static enum td_code read_lora(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                              void *to)
{
    (void)field;
    return r->spec->lora.on
               ? td_spec_read_object(r, value, LORA, to)
               : td_spec_read_wrong(r, value, "method.supervised, since method.type is not \"lora\"");
}

static const char *const METHODS[] = {"supervised", "lora", NULL};
static const struct td_spec_field METHOD[] = {
    {.name = "type", .read = read_method_type, .words = METHODS},
    {.name = "supervised", .read = read_supervised},
    {.name = "lora", .read = read_lora},
    {0},
};

static enum td_code read_method(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                void *to)
{
    (void)field;
    return td_spec_read_object(r, value, METHOD, to);
}

/* ------------------------------------------------------------------ OpenAI's other fields */

/* NAME, NAME/versions/V or NAME/labels/L. */
static enum td_code read_model(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                               void *to)
{
    struct td_job_spec *s = to;
    char *name;
    TD_TRY(td_spec_read_text(r, value, field, &name));
    char *slash = strchr(name, '/');
    bool known = slash != name;
    if (slash != NULL && strncmp(slash, "/versions/", 10) == 0) {
        const char *digits = slash + 10;
        const size_t n = strlen(digits);
        known = known && n > 0 && n <= 18 && strspn(digits, "0123456789") == n;
        s->version = 0;
        for (size_t i = 0; known && i < n; i++) {
            s->version = s->version * 10 + (digits[i] - '0');
        }
    } else if (slash != NULL) {
        known =
            known && strncmp(slash, "/labels/", 8) == 0 && slash[8] != '\0' && strchr(slash + 8, '/') == NULL;
        s->label = slash + (known ? 8 : 0);
    }
    if (!known) {
        return td_spec_read_wrong(r, value,
                                  "NAME, NAME/versions/VERSION or NAME/labels/LABEL of a served model");
    }
    if (slash != NULL) {
        *slash = '\0';
    }
    s->model = name;
    return TD_OK;
}

static enum td_code read_suffix(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                void *to)
{
    static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    const size_t n = json_string_length(value);
    if (n < 1 || n > 64 || strspn(text, may) != n) {
        return td_spec_read_wrong(r, value, "1 to 64 characters of A-Z a-z 0-9 _ -");
    }
    return td_spec_read_text(r, value, field, to);
}

/* At most 16 pairs: keys of at most 64 characters, values strings of at most 512. */
static enum td_code read_metadata(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                  void *to)
{
    const char *key;
    json_t *v;
    (void)field;
    (void)to;
    if (!json_is_object(value) || json_object_size(value) > 16) {
        return td_spec_read_wrong(r, value, "an object of at most 16 texts");
    }
    json_object_foreach(value, key, v)
    {
        const size_t mark = td_spec_read_enter(r, key);
        if (strlen(key) > 64 || !json_is_string(v) || json_string_length(v) > 512) {
            return td_spec_read_wrong(r, v, "a string of at most 512 bytes under a key of at most 64");
        }
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

static enum td_code read_integrations(struct td_spec_reader *r, json_t *value,
                                      const struct td_spec_field *field, void *to)
{
    (void)field;
    (void)to;
    if (!json_is_array(value)) {
        return td_spec_read_wrong(r, value, "a list");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const size_t mark = td_spec_read_item(r, (int)i);
        json_t *item = json_array_get(value, i);
        if (!json_is_string(json_object_get(item, "type"))) {
            return td_spec_read_wrong(r, item, "an object with a type");
        }
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ tensord */

static enum td_code read_regularizers(struct td_spec_reader *r, json_t *value,
                                      const struct td_spec_field *field, void *to)
{
    static const struct td_spec_field row[] = {
        {.name = "pattern",
         .read = td_spec_read_text,
         .at = offsetof(struct td_penalty_spec, pattern),
         .required = true},
        {.name = "l1",
         .read = td_spec_read_number,
         .at = offsetof(struct td_penalty_spec, l1),
         .range = TD_NOT_NEGATIVE},
        {.name = "l2",
         .read = td_spec_read_number,
         .at = offsetof(struct td_penalty_spec, l2),
         .range = TD_NOT_NEGATIVE},
        {0},
    };
    struct td_job_spec *s = to;
    (void)field;
    TD_TRY(td_spec_read_list(r, value, sizeof *s->penalty, &s->penalty, &s->n_penalties));
    for (int i = 0; i < s->n_penalties; i++) {
        const size_t mark = td_spec_read_item(r, i);
        TD_TRY(td_spec_read_object(r, json_array_get(value, (size_t)i), row, &s->penalty[i]));
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

static enum td_code read_ema(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                             void *to)
{
    static const struct td_spec_field rows[] = {
        {.name = "momentum", .read = td_spec_read_number, AT(ema.momentum), .range = TD_BELOW_ONE},
        {.name = "overwrite_frequency",
         .read = td_spec_read_int,
         AT(ema.overwrite_frequency),
         .least = 1,
         .most = INT64_MAX},
        {0},
    };
    struct td_job_spec *s = to;
    (void)field;
    s->ema.on = true;
    s->ema.momentum = 0.99;
    return td_spec_read_object(r, value, rows, s);
}

static enum td_code read_stopping(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                  void *to)
{
    static const char *const modes[] = {"min", "max", NULL};
    struct {
        struct td_early_stopping_spec s;
        const char *mode;
    } read = {.s = {.on = true, .monitor = "val_loss", .restore_best = true}, .mode = "min"};
#define IN(member) .at = offsetof(struct td_early_stopping_spec, member)
    static const struct td_spec_field rows[] = {
        {.name = "monitor", .read = td_spec_read_text, IN(monitor)},
        {.name = "patience", .read = td_spec_read_int, IN(patience), .least = 0, .most = INT64_MAX},
        {.name = "min_delta", .read = td_spec_read_number, IN(min_delta)},
        {.name = "mode",
         .read = td_spec_read_word,
         .at = sizeof(struct td_early_stopping_spec),
         .words = modes},
        {.name = "restore_best", .read = td_spec_read_bool, IN(restore_best)},
        {0},
    };
#undef IN
    (void)field;
    TD_TRY(td_spec_read_object(r, value, rows, &read));
    read.s.max = strcmp(read.mode, "max") == 0;
    *(struct td_early_stopping_spec *)to = read.s;
    return TD_OK;
}

/* A word of two, of which the second sets a flag. */
static enum td_code read_choice(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                void *to)
{
    const char *word = NULL;
    TD_TRY(td_spec_read_word(r, value, field, &word));
    *(bool *)to = word == field->words[1];
    return TD_OK;
}

static const char *const COMPUTE_DTYPES[] = {"float32", "bfloat16", NULL};

/* "inference", "graph" or "signature:NAME". */
static enum td_code read_training(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                  void *to)
{
    static const char named[] = "signature:";
    const size_t n = sizeof named - 1;
    struct td_job_spec *s = to;
    char *form;
    TD_TRY(td_spec_read_text(r, value, field, &form));
    const bool is_named = strncmp(form, named, n) == 0 && form[n] != '\0';
    s->training_form = is_named || strcmp(form, "graph") == 0;
    s->training_signature = is_named ? form + n : NULL;
    return s->training_form || strcmp(form, "inference") == 0
               ? TD_OK
               : td_spec_read_wrong(r, value, "\"inference\", \"graph\" or \"signature:NAME\"");
}

static const struct td_spec_field TENSORD[] = {
    {.name = "signature", .read = td_spec_read_text, AT(signature)},
    {.name = "loss", .read = td_spec_losses_read},
    {.name = "optimizers", .read = td_spec_optimizer_read_list},
    {.name = "optimizer", .read = td_spec_optimizer_read},
    {.name = "trainable", .read = td_spec_read_patterns, AT(trainable)},
    {.name = "frozen", .read = td_spec_read_patterns, AT(frozen)},
    {.name = "regularizers", .read = read_regularizers},
    {.name = "constraints", .read = td_spec_more_read_constraints},
    {.name = "clip", .read = td_spec_optimizer_read_clip, AT(clip)},
    {.name = "gradient_accumulation_steps",
     .read = td_spec_read_int,
     AT(accumulation),
     .least = 1,
     .most = 1 << 20},
    {.name = "ema", .read = read_ema},
    {.name = "shuffle", .read = td_spec_read_bool, AT(shuffle)},
    {.name = "seed", .read = td_spec_read_int, AT(seed), .least = INT64_MIN, .most = INT64_MAX},
    {.name = "metrics", .read = td_spec_losses_read_metrics},
    {.name = "weighted_metrics", .read = td_spec_losses_read_weighted},
    {.name = "early_stopping", .read = read_stopping, AT(stopping)},
    {.name = "train_signature", .read = td_spec_read_text, AT(train_signature)},
    {.name = "train_loss_output", .read = td_spec_read_text, AT(train_loss_output)},
    {.name = "head", .read = td_spec_more_read_head, AT(head)},
    {.name = "training", .read = read_training},
    {.name = "compute_dtype", .read = read_choice, AT(bfloat16), .words = COMPUTE_DTYPES},
    {.name = "gpus", .read = td_spec_read_int, AT(gpus), .least = 1, .most = 64},
    {.name = "publish", .read = td_spec_read_bool, AT(publish)},
    {.name = "gate", .read = td_spec_more_read_gate, AT(gate)},
    {.name = "base", .read = td_spec_read_text, AT(base)},
    {.name = "checkpoint_steps",
     .read = td_spec_read_int,
     AT(save_every_steps),
     .least = 1,
     .most = INT64_MAX},
    {.name = "histograms", .read = td_spec_read_bool, AT(histograms)},
    {.name = "padding", .read = td_spec_more_read_padding},
    {0},
};

static enum td_code read_tensord(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                 void *to)
{
    (void)field;
    return td_spec_read_object(r, value, TENSORD, to);
}

static const struct td_spec_field BODY[] = {
    {.name = "model", .read = read_model, .required = true},
    {.name = "training_file", .read = td_spec_read_text, AT(training_file), .required = true},
    {.name = "validation_file", .read = td_spec_read_text, AT(validation_file)},
    {.name = "suffix", .read = read_suffix, AT(suffix)},
    {.name = "seed", .read = td_spec_read_int, AT(seed), .least = INT64_MIN, .most = INT64_MAX},
    {.name = "hyperparameters", .read = read_hyperparameters}, /* OpenAI's older place; method's win */
    {.name = "method", .read = read_method},
    {.name = "integrations", .read = read_integrations},
    {.name = "metadata", .read = read_metadata},
    {.name = "tensord", .read = read_tensord, .required = true},
    {0},
};

/* ------------------------------------------------------------------ between fields */

static bool given(const struct td_job_spec *s, const char *name)
{
    const json_t *value = json_object_get(json_object_get(s->json, "tensord"), name);
    const bool empty = json_is_array(value) && json_array_size(value) == 0;
    return value != NULL && !json_is_null(value) && !empty;
}

/* A job of a train_signature has neither loss nor optimizer of its own, nor what goes with them. */
static enum td_code check_train_signature(const struct td_job_spec *s, struct td_fault *f)
{
    static const char *const not_with[] = {
        "loss",         "optimizer",   "optimizers", "trainable", "frozen",           "clip",         "ema",
        "regularizers", "constraints", "metrics",    "head",      "weighted_metrics", "compute_dtype"};
    for (size_t i = 0; i < sizeof not_with / sizeof not_with[0]; i++) {
        if (given(s, not_with[i])) {
            char param[64];
            (void)snprintf(param, sizeof param, "tensord.%s", not_with[i]);
            return TD_FAULT(f, "invalid_value", param,
                            "%s does not go with tensord.train_signature: that signature \"%s\" does it",
                            param, s->train_signature);
        }
    }
    if (s->accumulation != 1) {
        return TD_FAULT(f, "invalid_value", "tensord.gradient_accumulation_steps",
                        "tensord.gradient_accumulation_steps does not go with tensord.train_signature");
    }
    if (s->lora.on) {
        return TD_FAULT(f, "invalid_value", "method.type",
                        "method.type \"lora\" does not go with tensord.train_signature");
    }
    return TD_OK;
}

static enum td_code check_together(const struct td_job_spec *s, struct td_fault *f)
{
    if (s->train_signature != NULL) {
        TD_TRY(check_train_signature(s, f));
    } else if (s->n_losses == 0) {
        return TD_FAULT(f, "missing_field", "tensord.loss",
                        "tensord.loss is missing: what is trained for (or tensord.train_signature)");
    }
    if (s->stopping.on && strncmp(s->stopping.monitor, "val_", 4) == 0 && s->validation_file == NULL) {
        return TD_FAULT(f, "invalid_value", "tensord.early_stopping.monitor",
                        "tensord.early_stopping.monitor is \"%s\", but there is no validation_file",
                        s->stopping.monitor);
    }
    if (s->gate.on && s->validation_file == NULL) {
        return TD_FAULT(f, "invalid_value", "tensord.gate.monitor",
                        "tensord.gate.monitor is \"%s\", but there is no validation_file", s->gate.monitor);
    }
    return TD_OK;
}

/* What a job has that names nothing: {"name": "adam"}. */
static enum td_code default_optimizer(struct td_spec_reader *r)
{
    json_t *adam = json_pack("{s:s}", "name", "adam");
    if (adam == NULL) {
        return TD_FAULT(r->f, "server_error", "tensord.optimizer", "no memory for an optimizer");
    }
    (void)td_spec_read_enter(r, "tensord");
    (void)td_spec_read_enter(r, "optimizer");
    const enum td_code rc = td_spec_optimizer_read(r, adam, NULL, r->spec);
    json_decref(adam);
    return rc;
}

/* ------------------------------------------------------------------ the whole */

static enum td_code read_body(struct td_spec_reader *r, json_t *body)
{
    struct td_job_spec *s = r->spec;
    if (!json_is_object(body)) {
        return TD_FAULT(r->f, "invalid_value", "", "a job is a JSON object");
    }
    TD_TRY(td_spec_read_object(r, body, BODY, s));
    TD_TRY(check_together(s, r->f));
    const bool named = s->n_optimizers > 0 || s->train_signature != NULL;
    return named ? TD_OK : default_optimizer(r);
}

enum td_code td_job_spec_read(json_t *body, struct td_job_spec **out, struct td_fault *f)
{
    static const char *all = "*";
    struct td_job_spec *s = td_calloc(1, sizeof *s);
    struct td_arena *arena = td_arena_new((size_t)64 << 20);
    if (s == NULL || arena == NULL) {
        td_free(s);
        td_arena_free(arena);
        return TD_FAULT(f, "server_error", "", "no memory for a job");
    }
    *s = (struct td_job_spec){
        .json = json_incref(body),
        .arena = arena,
        .version = -1,
        .n_epochs = 3,
        .batch_size = 32,
        .rate = (double)NAN,
        .rate_multiplier = 1,
        .trainable = {&all, 1},
        .accumulation = 1,
        .shuffle = true,
        .train_loss_output = "loss",
        .lora = {.rank = 8, .alpha = 16, .targets = {&all, 1}},
        .gpus = 1,
        .publish = true,
    };
    struct td_spec_reader r = {.spec = s, .f = f};
    const enum td_code rc = read_body(&r, body);
    if (rc) {
        td_job_spec_free(s);
        return rc;
    }
    *out = s;
    return TD_OK;
}

void td_job_spec_free(struct td_job_spec *s)
{
    if (s != NULL) {
        json_decref(s->json);
        td_arena_free(s->arena);
        td_free(s);
    }
}

/* ------------------------------------------------------------------ answers */

/* 1 rather than 1.0. */
static json_t *number(double v)
{
    return v == floor(v) && fabs(v) < 0x1p53 ? json_integer((json_int_t)v) : json_real(v);
}

json_t *td_job_spec_hyperparameters(const struct td_job_spec *s)
{
    return json_pack("{s:I, s:I, s:o}", "n_epochs", (json_int_t)s->n_epochs, "batch_size",
                     (json_int_t)s->batch_size, "learning_rate_multiplier", number(s->rate_multiplier));
}

static json_t *patterns(const struct td_patterns *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->n; i++) {
        json_array_append_new(list, json_string(p->pattern[i]));
    }
    return list;
}

json_t *td_job_spec_method(const struct td_job_spec *s)
{
    json_t *hyper = td_job_spec_hyperparameters(s);
    if (!isnan(s->rate)) {
        json_object_set_new(hyper, "learning_rate", number(s->rate));
    }
    if (!s->lora.on) {
        return json_pack("{s:s, s:{s:o}}", "type", "supervised", "supervised", "hyperparameters", hyper);
    }
    return json_pack("{s:s, s:{s:I, s:o, s:o, s:o}}", "type", "lora", "lora", "rank",
                     (json_int_t)s->lora.rank, "alpha", number(s->lora.alpha), "targets",
                     patterns(&s->lora.targets), "hyperparameters", hyper);
}
