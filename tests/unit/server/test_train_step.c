/* tests/unit/server/test_train_step.c - steps of training on small models (tests/models/train.py) against
 * formulas worked out here, and what a step leaves alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/step.h"

#include <math.h>

#include "core/base/mem.h"
#include "kernels/cpu/upcast.h"
#include "kernels/ops.h"
#include "tests/test.h"

static struct td_op_table *ops;
static struct td_err err;

/* A job on one of the models, ready to step. */
struct job {
    struct td_servable *servable;
    struct td_job_spec *spec;
    struct td_row_layout *layout;
    struct td_step *step;
    json_t *body;
    int64_t steps, updates;
};

/* tensord: its members but seed, as JSON. */
static enum td_code open_job(struct job *j, const char *model, const char *tensord, struct td_fault *f)
{
    char text[2000], dir[600];
    const struct td_signature *sig;
    const struct td_servable_opts opts = {.ops = ops};
    memset(j, 0, sizeof *j);
    (void)snprintf(text, sizeof text, "{\"model\":\"m\",\"training_file\":\"f\",\"tensord\":{%s}}", tensord);
    (void)snprintf(dir, sizeof dir, "%s/%s", MODELS_DIR, model);
    j->body = json_loads(text, 0, NULL);
    CHECK(j->body != NULL);
    CHECK_OK(td_servable_load("m", 1, dir, &opts, &j->servable, &err));
    TD_TRY(td_job_spec_read(j->body, &j->spec, f));
    TD_TRY(td_step_signature(j->servable, j->spec, &sig, f));
    TD_TRY(td_row_layout_new(j->spec, sig, &j->layout, f));
    return td_step_new(j->servable, j->spec, j->layout, &j->step, f);
}

static void close_job(struct job *j)
{
    td_step_free(j->step);
    td_row_layout_free(j->layout);
    td_job_spec_free(j->spec);
    td_servable_unref(j->servable);
    json_decref(j->body);
}

static void must_open(struct job *j, const char *model, const char *tensord)
{
    struct td_fault f = {0};
    if (ops == NULL) {
        CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    }
    if (open_job(j, model, tensord, &f)) {
        fprintf(stderr, "%s (%s)\n", f.err.msg, f.param);
        exit(1);
    }
}

/* The job is refused for that field; the text holds `says`. */
static void check_refused(const char *tensord, const char *param, const char *says)
{
    struct td_fault f = {0};
    struct job j;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    CHECK(open_job(&j, "train", tensord, &f) != TD_OK);
    CHECK_STR(f.param, param);
    CHECK_STR(f.code, "invalid_value");
    if (strstr(f.err.msg, says) == NULL) {
        CHECK_STR(f.err.msg, says);
    }
    close_job(&j);
    td_op_table_free(ops);
}

static void done(struct job *j)
{
    close_job(j);
    td_op_table_free(ops);
    ops = NULL;
}

/* ------------------------------------------------------------------ batches */

static const float XS[4][3] = {{1, 0.5f, -1}, {0.25f, 2, 1}, {-0.5f, 1, 3}, {2, -1, 0.75f}};
static const float YS[4] = {1, -2, 0.5f, 3};

/* Field i of the layout: rows [from, from + n) of x [.., columns]; ones for weights. */
static struct td_tensor field_of(const struct td_row_field *f, const float *x, int64_t n)
{
    struct td_tensor t;
    struct td_shape shape = f->shape;
    shape.dim[0] = n;
    CHECK_OK(td_tensor_new(&t, f->dtype, &shape, &err));
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        if (t.dtype == TD_FLOAT) {
            TD_DATA(&t, float)[i] = x == NULL ? 1 : x[i];
        } else {
            td_tensor_set_int(&t, i, (int64_t)x[i]);
        }
    }
    return t;
}

/* Rows [from, from + n): x as the input, y as the target, or as the second input. */
static enum td_code step_on(struct job *j, const float *x, const float *y, int64_t n,
                            struct td_step_result *r, struct td_fault *f)
{
    struct td_tensor t[4];
    const double rates[] = {0.1, 0.1};
    const int64_t k = j->spec->accumulation > 1 ? j->spec->accumulation : 1;
    for (int i = 0, inputs = 0; i < j->layout->n; i++) {
        const struct td_row_field *field = &j->layout->field[i];
        const bool first = field->kind == TD_ROW_INPUT && strcmp(field->name, "t") != 0 && inputs++ == 0;
        t[i] = field_of(field, field->kind == TD_ROW_WEIGHT ? NULL : first ? x : y, n);
    }
    const struct td_batch b = {.rows = n, .tensor = t, .n = j->layout->n};
    const struct td_step_at at = {
        .step = ++j->steps, .updates = j->updates, .update = j->steps % k == 0, .rates = rates};
    const enum td_code rc = td_step_run(j->step, &b, &at, NULL, r, f);
    j->updates += rc == TD_OK && at.update;
    for (int i = 0; i < j->layout->n; i++) {
        td_tensor_clear(&t[i]);
    }
    return rc;
}

static struct td_step_result step_rows(struct job *j, int from, int n)
{
    struct td_step_result r;
    struct td_fault f = {0};
    if (step_on(j, XS[from], &YS[from], n, &r, &f)) {
        fprintf(stderr, "%s\n", f.err.msg);
        exit(1);
    }
    return r;
}

/* ------------------------------------------------------------------ states */

static int find_state(const struct job *j, const char *name)
{
    for (int i = 0; i < td_step_n_state(j->step); i++) {
        if (strcmp(td_step_state_name(j->step, i), name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "there is no state '%s'\n", name);
    exit(1);
}

/* Up to 16 numbers of the state `name`; returns how many it has. */
static int64_t numbers(const struct job *j, const char *name, float out[16])
{
    struct td_tensor t;
    CHECK_OK(td_step_get_state(j->step, find_state(j, name), &t, &err));
    const int64_t n = td_tensor_count(&t);
    memcpy(out, t.data, (size_t)(n < 16 ? n : 16) * sizeof *out);
    td_tensor_clear(&t);
    return n;
}

static void check_close(double got, double want)
{
    if (!(fabs(got - want) <= 2e-6 * (1 + fabs(want)))) {
        fprintf(stderr, "got %.9g, want %.9g\n", got, want);
        exit(1);
    }
}

/* w and b after a step of descent by `rate` on the mean of (x w + b - y)^2; returns that mean. */
static double descend(double w[3], double *b, int from, int n, double rate)
{
    double dw[3] = {0}, db = 0, loss = 0;
    for (int i = from; i < from + n; i++) {
        const double e = XS[i][0] * w[0] + XS[i][1] * w[1] + XS[i][2] * w[2] + *b - YS[i];
        loss += e * e / n;
        db += 2 * e / n;
        for (int k = 0; k < 3; k++) {
            dw[k] += 2 * e * XS[i][k] / n;
        }
    }
    for (int k = 0; k < 3; k++) {
        w[k] -= rate * dw[k];
    }
    *b -= rate * db;
    return loss;
}

#define MSE "\"loss\":{\"name\":\"mse\"}"
#define SGD MSE ",\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":0.1}"

/* ------------------------------------------------------------------ what a step does */

TEST(a_step_of_descent_is_the_formula)
{
    struct job j;
    double w[3] = {0.5, -1, 0.25}, b = 0.125;
    float got[16];
    must_open(&j, "train", SGD);
    for (int i = 0; i < 20; i++) {
        const int from = i % 3, n = i % 3 == 0 ? 4 : 1;
        const double want = descend(w, &b, from, n, 0.1);
        check_close(step_rows(&j, from, n).loss, want);
    }
    CHECK_INT(numbers(&j, "w", got), 3);
    for (int k = 0; k < 3; k++) {
        check_close(got[k], w[k]);
    }
    CHECK_INT(numbers(&j, "b", got), 1);
    check_close(got[0], b);
    done(&j);
}

/* The same where the product is of bfloat16: its operands are rounded, also those of its gradient, and its
 * results; bias, loss and update are not. */
static double descend_rounded(double w[3], double *b, int n, double rate)
{
    double dw[3] = {0}, db = 0, loss = 0;
    for (int i = 0; i < n; i++) {
        float y = 0;
        for (int k = 0; k < 3; k++) {
            y += td_round_bf16(XS[i][k]) * td_round_bf16((float)w[k]);
        }
        const double e = (double)td_round_bf16(y) + *b - (double)YS[i];
        loss += e * e / n;
        db += 2 * e / n;
        for (int k = 0; k < 3; k++) {
            dw[k] += (double)(td_round_bf16((float)(2 * e / n)) * td_round_bf16(XS[i][k]));
        }
    }
    for (int k = 0; k < 3; k++) {
        w[k] -= rate * (double)td_round_bf16((float)dw[k]);
    }
    *b -= rate * db;
    return loss;
}

TEST(a_step_in_bfloat16_rounds_what_is_multiplied_and_nothing_else)
{
    struct job j;
    double w[3] = {0.5, -1, 0.25}, b = 0.125;
    float got[16];
    must_open(&j, "train", SGD ",\"compute_dtype\":\"bfloat16\"");
    CHECK_INT(td_step_mixed(j.step), 1);
    for (int i = 0; i < 20; i++) {
        const double want = descend_rounded(w, &b, 4, 0.1);
        check_close(step_rows(&j, 0, 4).loss, want);
    }
    (void)numbers(&j, "w", got);
    for (int k = 0; k < 3; k++) {
        check_close(got[k], w[k]);
        CHECK(got[k] != td_round_bf16(got[k])); /* the weight itself is a float */
    }
    (void)numbers(&j, "b", got);
    check_close(got[0], b);
    done(&j);
}

TEST(a_model_without_products_has_nothing_in_bfloat16)
{
    struct job j;
    must_open(&j, "train", "\"signature\":\"lookup\",\"compute_dtype\":\"bfloat16\"," MSE);
    CHECK_INT(td_step_mixed(j.step), 0);
    done(&j);
}

TEST(batches_added_up_are_one_large_batch)
{
    struct job j;
    double w[3] = {0.5, -1, 0.25}, b = 0.125;
    float got[16];
    must_open(&j, "train", SGD ",\"gradient_accumulation_steps\":2");
    for (int cycle = 0; cycle < 3; cycle++) {
        float before[16], after[16];
        (void)numbers(&j, "w", before);
        (void)step_rows(&j, 0, 2);
        (void)numbers(&j, "w", after);
        CHECK(memcmp(before, after, 3 * sizeof *after) == 0);
        (void)step_rows(&j, 2, 2);
        (void)descend(w, &b, 0, 4, 0.1);
    }
    (void)numbers(&j, "w", got);
    for (int k = 0; k < 3; k++) {
        check_close(got[k], w[k]);
    }
    done(&j);
}

TEST(rows_that_a_batch_names_twice_are_added_up_first)
{
    struct job j;
    struct td_step_result r;
    struct td_fault f = {0};
    const float ids[2][2] = {{1, 3}, {1, 1}}, y[2] = {20, 10};
    float table[16];
    must_open(&j, "train",
              "\"signature\":\"lookup\",\"loss\":{\"name\":\"mse\"},\"optimizer\":{\"name\":\"adagrad\","
              "\"learning_rate\":0.1,\"initial_accumulator_value\":0.5}");
    CHECK_INT(step_on(&j, ids[0], y, 2, &r, &f), TD_OK);
    /* sums 22 and 14: errors 2 and 4, each times 2 / 2; row 1 comes once and twice */
    check_close(r.loss, (4 + 16) / 2.0);
    CHECK_INT(numbers(&j, "table", table), 10);
    const double g1 = 2 + 4 + 4, g3 = 2;
    check_close(table[2], 3 - 0.1 * g1 / sqrt(0.5 + g1 * g1 + 1e-7));
    check_close(table[6], 7 - 0.1 * g3 / sqrt(0.5 + g3 * g3 + 1e-7));
    check_close(table[0], 1);
    done(&j);
}

TEST(the_parts_of_a_variable_are_clipped_as_one)
{
    struct job j;
    struct td_step_result r;
    struct td_fault f = {0};
    const float x[4] = {1, 2, 2, 4}, y = 4;
    float top[16], bottom[16];
    must_open(&j, "train_parts", SGD ",\"clip\":{\"norm\":1}");
    CHECK_INT(step_on(&j, x, &y, 1, &r, &f), TD_OK); /* error 5: gradient 10 x, of norm 50 */
    check_close(r.norm, 50);
    CHECK_INT(numbers(&j, "w/part_0", top), 2);
    CHECK_INT(numbers(&j, "w/part_1", bottom), 2);
    check_close(top[0], 1 - 0.1 * 10 / 50);
    check_close(top[1], 1 - 0.1 * 20 / 50);
    check_close(bottom[1], 1 - 0.1 * 40 / 50);
    done(&j);
}

static enum td_code take_value(void *ctx, const char *key, const struct td_tensor *value, struct td_err *e)
{
    struct td_tensor *all = ctx;
    (void)e;
    CHECK(strcmp(key, "w") == 0 || strcmp(key, "w/.ATTRIBUTES/VARIABLE_VALUE") == 0 ||
          strcmp(key, "b/.ATTRIBUTES/VARIABLE_VALUE") == 0);
    if (key[0] == 'w') {
        td_tensor_ref(all, value);
    }
    return TD_OK;
}

TEST(a_variable_in_parts_is_one_value_of_the_result)
{
    struct job j;
    struct td_step_result r;
    struct td_fault f = {0};
    struct td_tensor w;
    const float x[4] = {1, 2, 2, 4}, y = 4;
    must_open(&j, "train_parts", SGD);
    CHECK_INT(step_on(&j, x, &y, 1, &r, &f), TD_OK);
    CHECK_OK(td_step_each_result(j.step, true, take_value, &w, &err));
    CHECK_INT(w.shape.rank, 2);
    CHECK_INT(w.shape.dim[0], 4);
    for (int i = 0; i < 4; i++) {
        check_close(TD_DATA(&w, float)[i], 1 - 0.1 * 10 * x[i]);
    }
    td_tensor_clear(&w);
    done(&j);
}

TEST(averages_are_of_the_weights_after_each_update)
{
    struct job j;
    double w[3] = {0.5, -1, 0.25}, b = 0.125, average = 0;
    struct td_tensor value;
    must_open(&j, "train", SGD ",\"ema\":{\"momentum\":0.75}");
    for (int i = 0; i < 4; i++) {
        (void)step_rows(&j, 0, 4);
        (void)descend(w, &b, 0, 4, 0.1);
        average = i == 0 ? w[1] : 0.75 * average + 0.25 * w[1];
    }
    CHECK_OK(td_step_each_result(j.step, false, take_value, &value, &err));
    check_close(TD_DATA(&value, float)[1], w[1]);
    td_tensor_clear(&value);
    CHECK_OK(td_step_each_result(j.step, true, take_value, &value, &err));
    check_close(TD_DATA(&value, float)[1], average);
    td_tensor_clear(&value);
    done(&j);
}

/* Where the state `name` lies. */
static const void *place_of(const struct job *j, const char *name)
{
    struct td_tensor t;
    CHECK_OK(td_step_get_state(j->step, find_state(j, name), &t, &err));
    const void *data = t.data;
    td_tensor_clear(&t);
    return data;
}

TEST(weights_and_slots_stay_where_they_are)
{
    struct job j;
    must_open(&j, "train", MSE ",\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.1}");
    (void)step_rows(&j, 0, 4); /* the first weights are mapped from the file, and not written */
    const void *w = place_of(&j, "w"), *m = place_of(&j, "train/momentum/w");
    for (int i = 0; i < 5; i++) {
        (void)step_rows(&j, 0, 4);
        CHECK(place_of(&j, "w") == w);
        CHECK(place_of(&j, "train/momentum/w") == m);
    }
    done(&j);
}

/* ------------------------------------------------------------------ what it leaves alone */

TEST(a_loss_that_is_not_finite_changes_nothing)
{
    struct job j;
    struct td_step_result r;
    struct td_fault f = {0};
    const float good[3] = {2, 0, 0}, bad[3] = {-2, 0, 0}, y = 0;
    float before[16], after[16], slots[2][16];
    must_open(&j, "train",
              "\"signature\":\"log\"," MSE ",\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.1}");
    CHECK_INT(step_on(&j, good, &y, 1, &r, &f), TD_OK);
    (void)numbers(&j, "w", before);
    (void)numbers(&j, "train/momentum/w", slots[0]);
    CHECK(step_on(&j, bad, &y, 1, &r, &f) != TD_OK);
    CHECK_STR(f.code, "training_error");
    CHECK(strstr(f.err.msg, "loss is not finite at step 2") != NULL);
    CHECK(strstr(f.err.msg, "(Log)") != NULL);
    (void)numbers(&j, "w", after);
    (void)numbers(&j, "train/momentum/w", slots[1]);
    CHECK(memcmp(before, after, 3 * sizeof *after) == 0);
    CHECK(memcmp(slots[0], slots[1], 3 * sizeof *after) == 0);
    done(&j);
}

TEST(a_variable_without_gradient_is_left_alone_and_told)
{
    struct job j;
    must_open(&j, "train",
              "\"signature\":\"aside\"," MSE
              ",\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":0.1,\"weight_decay\":0.5}");
    (void)step_rows(&j, 0, 4);
    CHECK_STR(td_step_chosen(j.step, 0)->key, "w");
    CHECK(td_step_chosen(j.step, 1) == NULL);
    CHECK_STR(td_step_left_alone(j.step, 0), "aside");
    CHECK(td_step_left_alone(j.step, 1) == NULL);
    done(&j);
}

/* ------------------------------------------------------------------ progress */

#define RICH                                                                                                 \
    MSE ",\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.1,\"amsgrad\":true},"                         \
        "\"gradient_accumulation_steps\":3,\"ema\":{\"momentum\":0.9}"

/* Steps until `steps` were made, then all states, one behind the other. */
static size_t run_to(struct job *j, int64_t steps, char bytes[1000])
{
    size_t n = 0;
    while (j->steps < steps) {
        (void)step_rows(j, (int)(j->steps % 3), 2);
    }
    for (int i = 0; i < td_step_n_state(j->step); i++) {
        struct td_tensor t;
        CHECK_OK(td_step_get_state(j->step, i, &t, &err));
        memcpy(bytes + n, t.data, td_tensor_bytes(&t));
        n += td_tensor_bytes(&t);
        td_tensor_clear(&t);
    }
    return n;
}

TEST(a_step_goes_on_from_its_states_with_the_same_bytes)
{
    struct job j, again;
    char straight[1000], resumed[1000], unused[1000];
    struct td_tensor saved[64];
    must_open(&j, "train", RICH);
    must_open(&again, "train", RICH);
    (void)run_to(&j, 7, unused);
    const int n_states = td_step_n_state(j.step);
    for (int i = 0; i < n_states; i++) {
        CHECK_OK(td_step_get_state(j.step, i, &saved[i], &err));
    }
    const size_t n = run_to(&j, 16, straight);
    for (int i = 0; i < n_states; i++) {
        CHECK_STR(td_step_state_name(again.step, i), td_step_state_name(j.step, i));
        CHECK_OK(td_step_set_state(again.step, i, &saved[i], &err));
    }
    again.steps = 7;
    again.updates = 2;
    CHECK_INT(run_to(&again, 16, resumed), n);
    CHECK(memcmp(straight, resumed, n) == 0);
    close_job(&j);
    done(&again);
}

TEST(a_state_of_another_shape_is_not_taken)
{
    struct job j;
    struct td_tensor t;
    const struct td_shape shape = td_shape_vector(3);
    must_open(&j, "train", SGD);
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    CHECK_INT(td_step_set_state(j.step, find_state(&j, "w"), &t, &err), TD_INVALID_ARGUMENT);
    td_tensor_clear(&t);
    done(&j);
}

/* ------------------------------------------------------------------ a model that trains itself */

TEST(a_signature_that_trains_is_run_as_it_is)
{
    struct job j;
    float w[16];
    double want[3] = {0.5, -1, 0.25}, loss = 0;
    must_open(&j, "train", "\"train_signature\":\"train\"");
    const struct td_step_result r = step_rows(&j, 0, 4);
    for (int pass = 0; pass < 2; pass++) {
        double g[3] = {0};
        for (int i = 0; i < 4; i++) {
            const double e = XS[i][0] * want[0] + XS[i][1] * want[1] + XS[i][2] * want[2] - YS[i];
            loss += pass == 0 ? e * e / 4 : 0;
            for (int k = 0; k < 3; k++) {
                g[k] += e * XS[i][k];
            }
        }
        for (int k = 0; k < 3; k++) {
            want[k] -= 0.1 * g[k];
        }
    }
    check_close(r.loss, loss);
    CHECK_STR(td_step_output_name(j.step, 0), "count");
    check_close(r.outputs[0], 1);
    CHECK_INT(td_step_n_state(j.step), 2); /* assigned in a loop, and beside it; nothing else */
    (void)find_state(&j, "count");
    (void)numbers(&j, "w", w);
    check_close(w[1], want[1]);
    done(&j);
}

/* ------------------------------------------------------------------ what is refused */

TEST(a_job_that_can_train_nothing_is_refused)
{
    check_refused("\"signature\":\"blind\"," MSE, "tensord.loss", "'class'");
    check_refused(MSE ",\"frozen\":[\"*\"]", "tensord.frozen", "frozen");
    check_refused(MSE ",\"trainable\":[\"shift\"]", "tensord.trainable", "not marked trainable");
    check_refused(MSE ",\"trainable\":[\"spare\"]", "tensord.trainable", "not read by the signature");
    check_refused(MSE ",\"trainable\":[\"count\"]", "tensord.trainable", "floating-point");
}

TEST(a_pattern_that_matches_nothing_is_refused)
{
    check_refused(MSE ",\"trainable\":[\"w\",\"nothing/*\"]", "tensord.trainable", "'nothing/*'");
    check_refused(MSE ",\"frozen\":[\"W\"]", "tensord.frozen", "'W'");
    check_refused(MSE ",\"regularizers\":[{\"pattern\":\"[x-z]\",\"l2\":1}]",
                  "tensord.regularizers[0].pattern", "'[x-z]'");
    check_refused(
        MSE ",\"optimizers\":[{\"pattern\":\"?\",\"name\":\"sgd\"},{\"pattern\":\"q\",\"name\":\"sgd\"}]",
        "tensord.optimizers[1].pattern", "'q'");
    check_refused(MSE ",\"optimizers\":[{\"pattern\":\"w\",\"name\":\"sgd\"}]", "tensord.optimizers", "'b'");
    check_refused(MSE ",\"signature\":\"serving_defualt\"", "tensord.signature", "serving_default");
}

TEST_MAIN(
    RUN(a_step_of_descent_is_the_formula) RUN(a_step_in_bfloat16_rounds_what_is_multiplied_and_nothing_else)
        RUN(a_model_without_products_has_nothing_in_bfloat16) RUN(batches_added_up_are_one_large_batch)
            RUN(rows_that_a_batch_names_twice_are_added_up_first)
                RUN(the_parts_of_a_variable_are_clipped_as_one)
                    RUN(a_variable_in_parts_is_one_value_of_the_result)
                        RUN(averages_are_of_the_weights_after_each_update)
                            RUN(weights_and_slots_stay_where_they_are)
                                RUN(a_loss_that_is_not_finite_changes_nothing)
                                    RUN(a_variable_without_gradient_is_left_alone_and_told)
                                        RUN(a_step_goes_on_from_its_states_with_the_same_bytes)
                                            RUN(a_state_of_another_shape_is_not_taken)
                                                RUN(a_signature_that_trains_is_run_as_it_is)
                                                    RUN(a_job_that_can_train_nothing_is_refused)
                                                        RUN(a_pattern_that_matches_nothing_is_refused))
