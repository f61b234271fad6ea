/* tests/unit/server/test_train_layout.c - what rows hold, from signature and losses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/layout.h"

#include "tests/unit/server/train_make.h"

static const struct make_info IN[] = {{"x", TD_FLOAT, 2, {-1, 3}}, {"ids", TD_INT32, 2, {-1, -1}}, {0}};
static const struct make_info OUT[] = {{"class_id", TD_INT64, 1, {-1}},    {"name", TD_STRING, 1, {-1}},
                                       {"price", TD_FLOAT, 2, {-1, 1}},    {"probs", TD_FLOAT, 2, {-1, 4}},
                                       {"tags", TD_FLOAT, 3, {-1, -1, 5}}, {"total", TD_FLOAT, 0, {0}},
                                       {"what", TD_FLOAT, -1, {0}},        {0}};
static const struct make_info ONE_IN[] = {{"x", TD_FLOAT, 2, {-1, 3}}, {0}};
static const struct make_info ONE_OUT[] = {{"y", TD_FLOAT, 2, {-1, 1}}, {0}};

static struct td_job_spec *spec;
static struct td_row_layout *l;
static struct td_fault f;

static enum td_code make(const char *members, const char *tensord, const struct make_info *in,
                         const struct make_info *out)
{
    f = (struct td_fault){.err.code = TD_OK};
    l = NULL;
    spec = make_spec(members, tensord);
    return td_row_layout_new(spec, make_signature(in, out), &l, &f);
}

static void makes(const char *tensord)
{
    if (make("'validation_file':'v',", tensord, IN, OUT)) {
        fprintf(stderr, "%s\n  %s\n", tensord, f.err.msg);
        exit(1);
    }
}

static void refuses(const char *tensord, const char *param, const char *words)
{
    if (make("'validation_file':'v',", tensord, IN, OUT) == TD_OK || strstr(f.err.msg, words) == NULL ||
        strcmp(f.param, param) != 0) {
        fprintf(stderr, "%s\n  '%s' (%s), want '%s' (%s)\n", tensord, f.err.msg, f.param, words, param);
        exit(1);
    }
    td_job_spec_free(spec);
}

static void done(void)
{
    td_row_layout_free(l);
    td_job_spec_free(spec);
}

TEST(one_loss_on_the_only_output)
{
    CHECK_INT(make("", "'loss':{'name':'mse'},'metrics':['mae']", ONE_IN, ONE_OUT), TD_OK);
    CHECK(l->n == 3 && l->bare_input && l->any_targets && !l->whole_batches);
    CHECK_STR(l->field[1].name, "targets");
    CHECK(l->field[1].kind == TD_ROW_TARGET && l->field[1].dtype == TD_FLOAT && l->field[1].shape.rank == 2);
    CHECK_STR(l->field[2].name, "sample_weight.y");
    CHECK(l->field[2].kind == TD_ROW_WEIGHT && l->field[2].shape.rank == 1 && l->field[2].target == 1);
    CHECK(l->loss[0].target == 1 && l->loss[0].weights == 2 && l->metric[0].target == 1);
    CHECK(l->metric[0].weights == -1 && l->metric[0].last_dim == 1);
    CHECK_STR(l->metric[0].label, "mae");
    done();
}

TEST(each_rule_has_its_target)
{
    makes("'loss':[{'name':'sparse_categorical_crossentropy','output':'tags','target':'targets.t','ignore_"
          "class':-1},"
          "{'name':'categorical_crossentropy','output':'probs','target':'targets.p'},"
          "{'name':'mae','output':'price','target':'targets.q'},{'name':'mse','output':'price','target':'"
          "targets.q'},"
          "{'name':'mse','output':'what','target':'targets.w'}]");
    const struct td_row_field *t = &l->field[l->loss[0].target];
    CHECK(t->dtype == TD_INT64 && t->shape.rank == 2 && t->n_classes == 5 && t->has_ignore &&
          t->ignore_class == -1);
    const struct td_row_field *w = &l->field[l->loss[0].weights];
    CHECK(w->shape.rank == 2 && w->shape.dim[1] == -1);
    CHECK(l->loss[0].classes && !l->loss[1].classes);
    CHECK(l->field[l->loss[1].target].shape.dim[1] == 4);
    CHECK_INT(l->loss[2].target, l->loss[3].target); /* shared */
    CHECK(l->loss[2].weights != l->loss[3].weights);
    CHECK_INT(l->field[l->loss[4].target].shape.rank, -1);
    CHECK_STR(l->loss[2].label, "price_loss");
    CHECK_INT(l->n, 2 + 4 + 5);
    done();
}

TEST(metrics_take_their_losss_target)
{
    makes(
        "'loss':[{'name':'sparse_categorical_crossentropy','output':'probs','target':'targets.k'},"
        "{'name':'mae','output':'price','target':'targets.q'}],'metrics':['accuracy',{'name':'mse','output':'"
        "price'},"
        "{'name':'mae','output':'class_id','target':'targets.q'},{'name':'accuracy','output':'tags','target':"
        "'targets.z'}],'weighted_metrics':[{'name':'rmse','output':'price'}],'early_stopping':{'monitor':"
        "'val_weighted_price_rmse'}");
    CHECK(l->metric[0].target == l->loss[0].target && l->metric[0].classes && l->metric[0].last_dim == 4);
    CHECK_STR(l->metric[0].label, "probs_accuracy");
    CHECK(l->metric[1].target == l->loss[1].target && !l->metric[1].classes);
    CHECK(l->metric[2].target == l->loss[1].target);
    CHECK(l->field[l->metric[3].target].loss == -1 && l->metric[3].classes);
    CHECK_STR(l->metric[4].label, "weighted_price_rmse");
    CHECK_INT(l->metric[4].weights, l->loss[1].weights);
    done();
}

TEST(a_train_signature_has_inputs_alone)
{
    CHECK_INT(make("", "'train_signature':'train','train_loss_output':'total'", IN, OUT), TD_OK);
    CHECK(l->n == 2 && l->field[0].or_target && !l->any_targets);
    done();
    CHECK(make("", "'train_signature':'train'", IN, OUT) != TD_OK);
    CHECK_STR(f.param, "tensord.train_loss_output");
    CHECK(strstr(f.err.msg, "\"loss\", which is no output") != NULL);
    td_job_spec_free(spec);
}

TEST(what_does_not_go_with_the_signature_is_refused)
{
    refuses("'loss':{'name':'mse','output':'zeta'}", "tensord.loss.output", "\"zeta\", which is no output");
    refuses("'loss':[{'name':'mse'}]", "tensord.loss[0].output", "has 7 outputs: class_id, name, price");
    refuses("'loss':{'name':'mse','output':'total'}", "tensord.loss.output", "single number");
    refuses("'loss':{'name':'mse','output':'name'}", "tensord.loss.output", "string");
    refuses("'loss':{'name':'sparse_categorical_crossentropy','output':'probs','class_weight':{'0':1,'9':2}}",
            "tensord.loss.class_weight", "class 9, but the classes of output \"probs\" are 0 to 3");
    refuses("'loss':{'name':'binary_crossentropy','output':'price','class_weight':{'2':1}}",
            "tensord.loss.class_weight", "0 to 1");
    refuses(
        "'loss':{'name':'mse','output':'price'},'metrics':['mae'],'weighted_metrics':['mse',{'name':'mae',"
        "'output':'zeta'}]",
        "tensord.weighted_metrics[1].output", "zeta");
    refuses("'loss':{'name':'mse','output':'price'},'early_stopping':{'monitor':'val_acc'}",
            "tensord.early_stopping.monitor", "\"val_acc\"");
    refuses("'loss':{'name':'mse','output':'price'},'padding':{'z':0}", "tensord.padding", "\"z\"");
}

TEST(a_fixed_batch_is_the_jobs)
{
    static const struct make_info four[] = {{"x", TD_FLOAT, 2, {4, 3}}, {0}};
    CHECK(make("", "'loss':{'name':'mse'}", four, ONE_OUT) != TD_OK);
    CHECK(strstr(f.err.msg, "batch_size is 32, but input \"x\"") != NULL);
    td_job_spec_free(spec);
    CHECK_INT(make("'method':{'supervised':{'hyperparameters':{'batch_size':4}}},", "'loss':{'name':'mse'}",
                   four, ONE_OUT),
              TD_OK);
    CHECK(l->whole_batches);
    done();
}

TEST_MAIN(RUN(one_loss_on_the_only_output) RUN(each_rule_has_its_target) RUN(metrics_take_their_losss_target)
              RUN(a_train_signature_has_inputs_alone) RUN(what_does_not_go_with_the_signature_is_refused)
                  RUN(a_fixed_batch_is_the_jobs))
