/* tests/unit/server/test_train_spec.c - the body of a fine-tuning job, field by field.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/spec.h"

#include <math.h>

#include "tests/unit/server/train_make.h"

static struct td_fault f;
static struct td_job_spec *s;

#define HEAD "'model':'m','training_file':'t'"
#define MSE "'tensord':{'loss':{'name':'mse'}}"

static enum td_code parse(const char *text)
{
    td_job_spec_free(s);
    s = NULL;
    f = (struct td_fault){0};
    json_t *doc = make_json(text);
    const enum td_code rc = td_job_spec_read(doc, &s, &f);
    json_decref(doc);
    return rc;
}

static void reads(const char *text)
{
    if (parse(text)) {
        fprintf(stderr, "%s\n  %s (%s, %s)\n", text, f.err.msg, f.code, f.param);
        exit(1);
    }
}

/* A job whose `tensord` is this. */
static void tensord(const char *inside)
{
    char text[2048];
    snprintf(text, sizeof text, "{" HEAD ",'validation_file':'v','tensord':{%s}}", inside);
    reads(text);
}

static void done(void)
{
    td_job_spec_free(s);
    s = NULL;
}

TEST(what_is_left_out_has_its_default)
{
    reads("{" HEAD "," MSE "}");
    CHECK_STR(s->model, "m");
    CHECK(s->version == -1 && s->label == NULL && s->validation_file == NULL && s->suffix == NULL);
    CHECK(s->seed == 0 && s->n_epochs == 3 && s->batch_size == 32 && isnan(s->rate));
    CHECK(s->rate_multiplier == 1 && s->signature == NULL && s->shuffle && s->accumulation == 1);
    CHECK_INT(s->n_losses, 1);
    CHECK_STR(s->loss[0].target, "targets");
    CHECK(s->loss[0].weight == 1 && s->loss[0].reduction == TD_SUM_OVER_BATCH_SIZE);
    CHECK_INT(s->n_optimizers, 1);
    CHECK_STR(s->optimizer[0].optimizer->name, "adam");
    CHECK(s->optimizer[0].rate == 0.001 && s->optimizer[0].pattern == NULL);
    CHECK(s->trainable.n == 1 && strcmp(s->trainable.pattern[0], "*") == 0 && s->frozen.n == 0);
    CHECK(!s->stopping.on && !s->ema.on && s->clip.kind == TD_NO_CLIP && s->publish && !s->lora.on);
    CHECK(s->head.at == NULL && !s->gate.on && !s->training_form && !s->bfloat16 && !s->histograms);
    done();
}

TEST(openai_fields_are_read)
{
    reads("{'model':'m/versions/12','training_file':'t','suffix':'a-B_9','seed':7,'integrations':[],"
          "'metadata':{'a':'b'},'hyperparameters':{'n_epochs':9,'batch_size':'auto'},"
          "'method':{'type':'supervised','supervised':{'hyperparameters':{'n_epochs':'auto','batch_size':4.0,"
          "'learning_rate':0.5,'learning_rate_multiplier':2}}},'tensord':{'loss':{'name':'mse'},'seed':8}}");
    CHECK(s->version == 12 && s->seed == 8 && s->n_epochs == 9 && s->batch_size == 4);
    CHECK(s->optimizer[0].rate == 0.5 && s->optimizer[0].multiplier == 2);
    CHECK(td_job_spec_rate(&s->optimizer[0], 3) == 1.0);
    char *text = NULL;
    json_t *hyper = td_job_spec_hyperparameters(s), *method = td_job_spec_method(s);
    json_t *want = make_json("{'n_epochs':9,'batch_size':4,'learning_rate_multiplier':2}");
    CHECK(json_equal(hyper, want));
    json_object_set_new(want, "learning_rate", json_real(0.5));
    CHECK(json_equal(json_object_get(json_object_get(method, "supervised"), "hyperparameters"), want));
    json_decref(hyper);
    json_decref(method);
    json_decref(want);
    free(text);
    reads("{'model':'m/labels/stable','training_file':'t'," MSE "}");
    CHECK_STR(s->label, "stable");
    CHECK_STR(s->model, "m");
    done();
}

TEST(lora_is_a_method)
{
    reads("{" HEAD ",'method':{'type':'lora','lora':{'rank':4,'alpha':2,'targets':['*q*'],"
          "'hyperparameters':{'n_epochs':2}}}," MSE "}");
    CHECK(s->lora.on && s->lora.rank == 4 && s->lora.alpha == 2 && s->lora.targets.n == 1 &&
          s->n_epochs == 2);
    json_t *method = td_job_spec_method(s);
    CHECK_STR(json_string_value(json_object_get(method, "type")), "lora");
    CHECK_INT(json_integer_value(json_object_get(json_object_get(method, "lora"), "rank")), 4);
    json_decref(method);
    done();
}

TEST(losses_have_their_fields)
{
    tensord("'loss':[{'name':'huber','delta':0.7,'output':'a','weight':0.5,'reduction':'sum'},"
            "{'name':'sparse_categorical_crossentropy','target':'targets.k.x','ignore_class':-1,"
            "'class_weight':{'0':2,'11':0.5}}],'metrics':['mae',{'name':'accuracy','threshold':0.25}],"
            "'weighted_metrics':['auc']");
    CHECK_INT(s->n_losses, 2);
    CHECK(s->loss[0].field.v[0] == 0.7 && s->loss[0].weight == 0.5 && s->loss[0].reduction == TD_SUM);
    CHECK_STR(s->loss[1].target, "targets.k.x");
    CHECK(s->loss[1].n_class_weights == 2 && s->loss[1].class_weight[1].class == 11);
    CHECK_INT(s->n_metrics, 3);
    CHECK(s->metric[1].field.v[0] == 0.25 && !s->metric[1].weighted && s->metric[2].weighted);
    done();
}

TEST(optimizers_are_in_order)
{
    tensord(
        "'loss':{'name':'mse'},'optimizers':[{'pattern':'a*','name':'sgd','momentum':0.9,'learning_rate':0}],"
        "'optimizer':{'name':'adamw','schedule':{'name':'piecewise','boundaries':[2],'values':[1,0.5]},"
        "'clip':{'value':2},'exclude_from_weight_decay':['*bias']},'clip':{'global_norm':1}");
    CHECK_INT(s->n_optimizers, 2);
    CHECK_STR(s->optimizer[0].pattern, "a*");
    CHECK(s->optimizer[0].rate == 0 && s->optimizer[0].field.v[0] == 0.9 && !s->optimizer[0].own_clip);
    CHECK(s->optimizer[1].own_clip && s->optimizer[1].clip.kind == TD_CLIP_VALUE &&
          s->optimizer[1].clip.at == 2);
    CHECK(s->optimizer[1].weight_decay == 0.004 && s->optimizer[1].no_decay.n == 1);
    CHECK(s->clip.kind == TD_CLIP_GLOBAL_NORM);
    CHECK(td_job_spec_rate(&s->optimizer[1], 2) == 1 && td_job_spec_rate(&s->optimizer[1], 3) == 0.5);
    done();
}

TEST(the_rest_of_tensord_is_read)
{
    tensord(
        "'loss':{'name':'mse'},'early_stopping':{'patience':2,'mode':'max','restore_best':false},"
        "'ema':{},'gradient_accumulation_steps':4,'shuffle':false,'regularizers':[{'pattern':'k','l2':0.1}],"
        "'constraints':[{'pattern':'k','name':'max_norm'}],'frozen':['x'],'training':'graph',"
        "'compute_dtype':'bfloat16','publish':false,'gate':{'monitor':'val_loss'},'base':'ftjob-1',"
        "'checkpoint_steps':100,'histograms':true,'padding':{'ids':0,'s':'p'},"
        "'head':{'at':'n:0','layers':[{'units':3,'activation':'relu','dropout':0.5},{'units':2}]}");
    CHECK(s->stopping.on && s->stopping.patience == 2 && s->stopping.max && !s->stopping.restore_best);
    CHECK_STR(s->stopping.monitor, "val_loss");
    CHECK(s->ema.on && s->ema.momentum == 0.99 && s->ema.overwrite_frequency == 0 && s->accumulation == 4);
    CHECK(!s->shuffle && s->penalty[0].l2 == 0.1 && s->penalty[0].l1 == 0 && s->n_constraints == 1);
    CHECK(s->training_form && s->training_signature == NULL && s->bfloat16 && !s->publish && s->gate.on &&
          !s->gate.max);
    CHECK(s->save_every_steps == 100 && s->histograms && s->n_paddings == 2);
    CHECK_STR(s->padding[1].input, "s");
    CHECK_STR(s->padding[1].value, "\"p\"");
    CHECK(s->head.n_layers == 2 && s->head.layer[0].dropout == 0.5 && s->head.layer[1].use_bias);
    CHECK_STR(s->head.layer[1].activation, "linear");
    tensord("'train_signature':'train','metrics':[],'signature':null,'clip':null");
    CHECK(s->n_optimizers == 0 && s->n_losses == 0);
    CHECK_STR(s->train_loss_output, "loss");
    done();
}

static const struct {
    const char *text, *code, *param, *words;
} WRONG[] = {
    {"[1]", "invalid_value", "", "object"},
    {"{'training_file':'t'," MSE "}", "missing_field", "model", "model is missing"},
    {"{'model':'m'," MSE "}", "missing_field", "training_file", "training_file is missing"},
    {"{" HEAD "}", "missing_field", "tensord", "tensord is missing"},
    {"{" HEAD ",'tensord':{}}", "missing_field", "tensord.loss", "tensord.loss is missing"},
    {"{" HEAD ",'tensor':{}," MSE "}", "unknown_field", "tensor", "tensor: there is no such field"},
    {"{'model':'../etc','training_file':'t'," MSE "}", "invalid_value", "model", "\"../etc\""},
    {"{'model':'m/versions/x','training_file':'t'," MSE "}", "invalid_value", "model", "VERSION"},
    {"{" HEAD ",'suffix':'../../etc'," MSE "}", "invalid_value", "suffix", "suffix is \"../../etc\""},
    {"{" HEAD ",'seed':1.5," MSE "}", "invalid_value", "seed", "1.5"},
    {"{" HEAD ",'metadata':{'a':1}," MSE "}", "invalid_value", "metadata.a", "a string"},
    {"{" HEAD ",'method':{'type':'dpo'}," MSE "}", "invalid_value", "method.type",
     "\"supervised\", \"lora\""},
    {"{" HEAD ",'method':{'supervised':{'hyperparameters':{'batch_size':2.5}}}," MSE "}", "invalid_value",
     "method.supervised.hyperparameters.batch_size", "batch_size is 2.5, want an integer from 1 to 1048576"},
    {"{" HEAD ",'method':{'supervised':{'hyperparameters':{'n_epochs':-1}}}," MSE "}", "invalid_value",
     "method.supervised.hyperparameters.n_epochs", "n_epochs is -1"},
    {"{" HEAD ",'method':{'supervised':{'hyperparameters':{'epochs':1}}}," MSE "}", "unknown_field",
     "method.supervised.hyperparameters.epochs", "epochs"},
    {"{" HEAD ",'method':{'type':'lora','supervised':{}}," MSE "}", "invalid_value", "method.supervised",
     "lora"},
    {"{" HEAD ",'method':{'type':'lora','lora':{'rank':0}}," MSE "}", "invalid_value", "method.lora.rank",
     "rank"},
};
/* The inside of tensord. */
static const struct {
    const char *inside, *code, *param, *words;
} WRONG_INSIDE[] = {
    {"'loss':{'name':'squared_mistake'}", "invalid_value", "tensord.loss.name",
     "\"squared_mistake\", which is no loss; there are mse, mae"},
    {"'loss':{}", "missing_field", "tensord.loss.name", "name is missing"},
    {"'loss':[]", "invalid_value", "tensord.loss", "at least one"},
    {"'loss':[{'name':'mse','delta':1}]", "unknown_field", "tensord.loss[0].delta", "delta"},
    {"'loss':{'name':'mse','target':'labels'}", "invalid_value", "tensord.loss.target", "\"targets.KEY\""},
    {"'loss':{'name':'mse','class_weight':{'x':1}}", "invalid_value", "tensord.loss.class_weight.x",
     "no class"},
    {"'loss':{'name':'mse','reduction':'mean'}", "invalid_value", "tensord.loss.reduction", "\"sum\""},
    {"'loss':{'name':'binary_crossentropy','label_smoothing':1.5}", "invalid_value",
     "tensord.loss.label_smoothing", "from 0 to 1"},
    {"'optimizer':{'name':'adamzilla'}", "invalid_value", "tensord.optimizer.name", "adamzilla"},
    {"'optimizer':{'name':'sgd','learing_rate':0.1}", "unknown_field", "tensord.optimizer.learing_rate",
     "learing_rate"},
    {"'optimizer':{'name':'sgd','learning_rate':-1}", "invalid_value", "tensord.optimizer.learning_rate",
     "learning_rate is -1, want a finite float32 number of 0 or more"},
    {"'optimizer':{'name':'sgd','learning_rate':1e300}", "invalid_value", "tensord.optimizer.learning_rate",
     "1e"},
    {"'optimizer':{'name':'sgd','momentum':1}", "invalid_value", "tensord.optimizer.momentum", "below 1"},
    {"'optimizer':{'name':'sgd','pattern':'*'}", "unknown_field", "tensord.optimizer.pattern", "pattern"},
    {"'optimizer':{'name':'adam','beta_1':-0.1}", "invalid_value", "tensord.optimizer.beta_1", "beta_1"},
    {"'optimizers':[{'name':'sgd'}]", "missing_field", "tensord.optimizers[0].pattern", "pattern is missing"},
    {"'optimizer':{'name':'sgd','clip':{'norm':0}}", "invalid_value", "tensord.optimizer.clip.norm",
     "above 0"},
    {"'optimizer':{'name':'sgd','schedule':{'name':'exponential','decay_rate':0.5}}", "missing_field",
     "tensord.optimizer.schedule.decay_steps", "decay_steps is missing: exponential needs it"},
    {"'optimizer':{'name':'sgd','schedule':{'name':'piecewise','boundaries':[8,16],'values':[0.1,0.2]}}",
     "invalid_value", "tensord.optimizer.schedule", "values"},
    {"'optimizer':{'name':'sgd','schedule':{'name':'linear'}}", "invalid_value",
     "tensord.optimizer.schedule.name", "no schedule"},
    {"'clip':{'norm':1.0,'global_norm':1.0}", "invalid_value", "tensord.clip", "exactly one"},
    {"'clip':{}", "invalid_value", "tensord.clip", "exactly one"},
    {"'metrics':['wisdom']", "invalid_value", "tensord.metrics[0]", "\"wisdom\", which is no metric"},
    {"'metrics':'mae'", "invalid_value", "tensord.metrics", "a list"},
    {"'ema':{'momentum':1}", "invalid_value", "tensord.ema.momentum", "below 1"},
    {"'ema':{'overwrite_frequency':0}", "invalid_value", "tensord.ema.overwrite_frequency", "1 or more"},
    {"'trainable':['']", "invalid_value", "tensord.trainable[0]", "not empty"},
    {"'regularizers':[{'l2':1}]", "missing_field", "tensord.regularizers[0].pattern", "pattern is missing"},
    {"'regularizers':[{'pattern':'*','l2':-1}]", "invalid_value", "tensord.regularizers[0].l2", "l2 is -1"},
    {"'early_stopping':{}", "invalid_value", "tensord.early_stopping.monitor", "val_loss"},
    {"'early_stopping':{'mode':'auto'}", "invalid_value", "tensord.early_stopping.mode", "\"min\", \"max\""},
    {"'gate':{'monitor':'val_loss'}", "invalid_value", "tensord.gate.monitor", "validation_file"},
    {"'gate':{'monitor':'loss'}", "invalid_value", "tensord.gate.monitor", "val_"},
    {"'constraints':[{'pattern':'*','name':'tidy'}]", "invalid_value", "tensord.constraints[0].name",
     "max_norm"},
    {"'head':{'at':'x:0','layers':[]}", "invalid_value", "tensord.head.layers", "at least one"},
    {"'head':{'layers':[{'units':1}]}", "missing_field", "tensord.head.at", "at is missing"},
    {"'head':{'at':'x','layers':[{'units':1,'activation':'magic'}]}", "invalid_value",
     "tensord.head.layers[0].activation", "magic"},
    {"'padding':{'x':[0]}", "invalid_value", "tensord.padding.x", "[0]"},
    {"'training':'signature:'", "invalid_value", "tensord.training", "signature:NAME"},
    {"'training':true", "invalid_value", "tensord.training", "a string"},
    {"'compute_dtype':'float16'", "invalid_value", "tensord.compute_dtype", "bfloat16"},
    {"'shuffle':1", "invalid_value", "tensord.shuffle", "true or false"},
    {"'train_signature':'t'", "invalid_value", "tensord.loss", "tensord.train_signature"},
};

static void refused(const char *text, const char *code, const char *param, const char *words)
{
    if (parse(text) == TD_OK || strcmp(f.code, code) != 0 || strcmp(f.param, param) != 0 ||
        strstr(f.err.msg, words) == NULL) {
        fprintf(stderr, "%s\n  gives '%s' (%s, %s), want '%s' (%s, %s)\n", text, f.err.msg, f.code, f.param,
                words, code, param);
        exit(1);
    }
    CHECK(s == NULL);
}

TEST(what_is_wrong_is_named)
{
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        refused(WRONG[i].text, WRONG[i].code, WRONG[i].param, WRONG[i].words);
    }
    for (size_t i = 0; i < sizeof WRONG_INSIDE / sizeof WRONG_INSIDE[0]; i++) {
        char text[1024];
        const char *loss = strncmp(WRONG_INSIDE[i].inside, "'loss'", 6) == 0 ? "" : "'loss':{'name':'mse'},";
        snprintf(text, sizeof text, "{" HEAD ",'tensord':{%s%s}}", loss, WRONG_INSIDE[i].inside);
        refused(text, WRONG_INSIDE[i].code, WRONG_INSIDE[i].param, WRONG_INSIDE[i].words);
    }
}

TEST_MAIN(RUN(what_is_left_out_has_its_default) RUN(openai_fields_are_read) RUN(lora_is_a_method)
              RUN(losses_have_their_fields) RUN(optimizers_are_in_order) RUN(the_rest_of_tensord_is_read)
                  RUN(what_is_wrong_is_named))
