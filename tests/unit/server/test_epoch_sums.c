/* tests/unit/server/test_epoch_sums.c - what epochs come to, saved and loaded; and the result file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/epoch_sums.h"

#include <math.h>

#include "proto/bytes/file.h"
#include "server/train/result_csv.h"
#include "tests/unit/temp_dir.h"

/* A job of two losses and a metric of each kind of sums. */
struct fixture {
    struct td_job_spec *spec;
    struct td_row_use loss[2], metric[3];
    struct td_row_layout layout;
    struct td_epoch_sums *sums;
};

static void set_up(struct fixture *x)
{
    struct td_err err = {0};
    struct td_fault f = {0};
    json_t *body = json_pack("{ss ss s{s[{ss ss ss}{ss ss ss}] s[sss]}}", "model", "m", "training_file", "t",
                             "tensord", "loss", "name", "mse", "output", "a", "target", "targets.a", "name",
                             "mse", "output", "b", "target", "targets.b", "metrics", "mae", "rmse", "mae");
    CHECK(body != NULL);
    *x = (struct fixture){0};
    if (td_job_spec_read(body, &x->spec, &f)) {
        CHECK_STR(f.err.msg, "");
    }
    json_decref(body);
    x->loss[0].label = "a_loss";
    x->loss[1].label = "b_loss";
    x->metric[0].label = "a_mae";
    x->metric[1].label = "a_rmse, \"q\"";
    x->metric[2].label = "a_mae"; /* a name twice counts once */
    for (int i = 0; i < 3; i++) {
        x->metric[i].last_dim = 1;
    }
    x->layout = (struct td_row_layout){.loss = x->loss, .n_losses = 2, .metric = x->metric, .n_metrics = 3};
    CHECK_OK(td_epoch_sums_new(x->spec, &x->layout, &x->sums, &err));
}

static void tear_down(struct fixture *x)
{
    td_epoch_sums_free(x->sums);
    td_job_spec_free(x->spec);
}

/* A batch whose rows all have that error. */
static void add(struct td_epoch_sums *s, int64_t rows, double error)
{
    struct td_err err = {0};
    const double all = (double)rows, mean[2] = {error * all, all}, square[2] = {error * error * all, all};
    const double *sums[3] = {mean, square, mean};
    double losses[2] = {error * error, 1};
    int n[3] = {2, 2, 2};
    const struct td_step_result r = {.loss = error * error + 1, .losses = losses, .sums = sums, .n_sums = n};
    CHECK_OK(td_epoch_sums_add(s, rows, &r, &err));
}

TEST(batches_count_by_their_rows)
{
    struct fixture x;
    set_up(&x);
    CHECK(isnan(td_epoch_sums_value(x.sums, 0)));
    add(x.sums, 3, 1);
    add(x.sums, 1, 3);
    CHECK_INT(td_epoch_sums_n(x.sums), 5);
    CHECK_STR(td_epoch_sums_name(x.sums, 0), "loss");
    CHECK_STR(td_epoch_sums_name(x.sums, 3), "a_mae");
    CHECK(td_epoch_sums_named(x.sums, "loss") == (3 * 2 + 10) / 4.0);
    CHECK(td_epoch_sums_named(x.sums, "a_loss") == (3 + 9) / 4.0);
    CHECK(td_epoch_sums_named(x.sums, "b_loss") == 1);
    CHECK(td_epoch_sums_named(x.sums, "a_mae") == 6 / 4.0);
    CHECK(td_epoch_sums_value(x.sums, 4) == sqrt(12 / 4.0));
    CHECK(isnan(td_epoch_sums_named(x.sums, "mae")));
    td_epoch_sums_clear(x.sums);
    add(x.sums, 2, 5);
    CHECK(td_epoch_sums_named(x.sums, "a_mae") == 5);
    tear_down(&x);
}

TEST(sums_go_on_from_where_they_were_saved)
{
    struct td_err err = {0};
    struct fixture x, y;
    struct td_tensor empty = {0}, saved = {0};
    set_up(&x);
    set_up(&y);
    CHECK_OK(td_epoch_sums_save(x.sums, &empty, &err));
    add(x.sums, 3, 0.1);
    CHECK_OK(td_epoch_sums_save(x.sums, &saved, &err));
    CHECK_OK(td_epoch_sums_load(y.sums, &saved, &err));
    add(x.sums, 1, 0.7);
    add(y.sums, 1, 0.7);
    for (int i = 0; i < 5; i++) {
        CHECK(td_epoch_sums_value(x.sums, i) == td_epoch_sums_value(y.sums, i));
    }
    CHECK_OK(td_epoch_sums_load(y.sums, &empty, &err));
    CHECK(isnan(td_epoch_sums_value(y.sums, 0)));
    saved.shape.dim[0]--;
    CHECK_INT(td_epoch_sums_load(y.sums, &saved, &err), TD_INVALID_ARGUMENT);
    td_tensor_clear(&empty);
    td_tensor_clear(&saved);
    tear_down(&x);
    tear_down(&y);
}

TEST(numbers_that_json_cannot_hold_are_null)
{
    struct fixture x;
    set_up(&x);
    add(x.sums, 1, INFINITY);
    json_t *o = td_epoch_sums_json(x.sums);
    CHECK(json_is_null(json_object_get(o, "loss")) && json_is_real(json_object_get(o, "b_loss")));
    CHECK_INT(json_object_size(o), 5);
    json_decref(o);
    tear_down(&x);
}

static void check_file(const char *path, const char *want)
{
    struct td_err err = {0};
    char *text = NULL;
    size_t n;
    CHECK_OK(td_file_read(path, 10000, &text, &n, &err));
    CHECK_STR(text, want);
    td_free(text);
}

#define HEADER                                                                                               \
    "step,epoch,train_loss,learning_rate,valid_loss,train_a_loss,valid_a_loss,train_b_loss,valid_b_loss,"    \
    "train_a_mae,valid_a_mae,\"train_a_rmse, \"\"q\"\"\",\"valid_a_rmse, \"\"q\"\"\"\n"

TEST(rows_are_written_and_cut)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    const struct temp_path path = temp_dir_file(&d, "result.csv");
    const double rates[2] = {0.001, 1.0 / 3};
    struct fixture x;
    struct td_result_csv *c = NULL;
    int64_t at = 0, ignored;
    set_up(&x);
    add(x.sums, 1, 2);
    struct td_csv_step s = {.step = 1, .epoch = 1, .loss = 0.1f, .rates = rates, .n_rates = 2};
    CHECK_OK(td_result_csv_open(path.s, x.sums, 0, &c, &err));
    CHECK_OK(td_result_csv_step(c, &s, &err));
    CHECK_OK(td_result_csv_flush(c, &at, &err));
    s = (struct td_csv_step){.step = 2, .epoch = 1, .loss = NAN, .rates = rates, .n_rates = 1};
    CHECK_OK(td_result_csv_epoch(c, &s, x.sums, x.sums, &err));
    CHECK_OK(td_result_csv_flush(c, &ignored, &err));
    td_result_csv_close(c);
    check_file(path.s, HEADER "1,1,0.10000000149011612,0.001 0.3333333333333333,,,,,,,,,\n"
                              "2,1,,0.001,5,4,4,1,1,2,2,2,2\n");
    CHECK_OK(td_result_csv_open(path.s, x.sums, at, &c, &err));
    s = (struct td_csv_step){.step = 2, .epoch = 1, .loss = 7};
    CHECK_OK(td_result_csv_epoch(c, &s, x.sums, NULL, &err));
    CHECK_OK(td_result_csv_flush(c, &ignored, &err));
    td_result_csv_close(c);
    check_file(path.s, HEADER "1,1,0.10000000149011612,0.001 0.3333333333333333,,,,,,,,,\n"
                              "2,1,7,,,4,,1,,2,,2,\n");
    CHECK_INT(td_result_csv_open(path.s, x.sums, 100000, &c, &err), TD_DATA_LOSS);
    tear_down(&x);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(batches_count_by_their_rows) RUN(sums_go_on_from_where_they_were_saved)
              RUN(numbers_that_json_cannot_hold_are_null) RUN(rows_are_written_and_cut))
