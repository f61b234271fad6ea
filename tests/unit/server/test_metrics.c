/* tests/unit/server/test_metrics.c - counters and histograms: nothing is lost, labels are bounded and
 * escaped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/metrics.h"

#include <pthread.h>

#include "tests/test.h"

#define COUNT "/tensorflow/serving/request_count"

/* The whole text with a NUL behind it; the caller frees it. */
static struct td_sink text(void)
{
    struct td_sink s = {.limit = 0};
    struct td_err err = {0};
    CHECK_OK(td_metrics_write(&s, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    return s;
}

static void says(const char *line)
{
    struct td_sink s = text();
    if (strstr(s.p, line) == NULL) {
        fprintf(stderr, "no '%s' in:\n%s", line, s.p);
    }
    CHECK(strstr(s.p, line) != NULL);
    td_sink_fini(&s);
}

/* A request of a model that reached no version. */
static void request(struct td_metrics_model *m, enum td_api api, enum td_entry_point entry, enum td_code code,
                    int64_t us)
{
    td_latency_count(&td_metrics_latency(m)->none, api, entry, code, us);
}

static void *count(void *arg)
{
    for (int i = 0; i < 10000; i++) {
        struct td_metrics_model *m = td_metrics_model(i % 2 ? "a" : "b");
        request(m, (enum td_api)(i % TD_N_APIS), TD_ENTRY_REST, i % 3 ? TD_OK : TD_NOT_FOUND, i);
        td_metrics_graph_run(1);
        if (i % 500 == 0) {
            struct td_sink s = text();
            td_sink_fini(&s);
        }
    }
    return arg;
}

TEST(counting_on_many_threads_loses_nothing)
{
    pthread_t t[8];
    td_metrics_add_model("a");
    td_metrics_add_model("b");
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&t[i], NULL, count, NULL) == 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK_INT(td_metrics_counter(COUNT), 80000);
    CHECK_INT(td_metrics_counter("/tensorflow/core/graph_run_time_usecs"), 80000);
    CHECK_INT(td_metrics_counter("/tensorflow/core/graph_runs_and_more"), 0);
    says(":tensorflow:core:graph_run_time_usecs_histogram_count{} 80000\n");
}

TEST(only_names_that_were_configured_are_told)
{
    td_metrics_add_model("known");
    td_metrics_add_model("known");
    for (const char *const *name = (const char *const[]){"unknown", "know", "knownn", "", NULL};
         *name != NULL; name++) {
        request(td_metrics_model(*name), TD_API_PREDICT, TD_ENTRY_GRPC, TD_OK, 5);
    }
    request(td_metrics_model(NULL), TD_API_PREDICT, TD_ENTRY_GRPC, TD_OK, 5);
    request(td_metrics_model("known:signature"), TD_API_INFER, TD_ENTRY_GRPC, TD_OK, 5);
    says(":tensorflow:serving:request_count{model_name=\"\",status=\"OK\"} 5\n");
    says(":tensorflow:serving:request_count{model_name=\"known\",status=\"OK\"} 1\n");
}

TEST(values_fall_into_the_bucket_that_holds_them)
{
    td_metrics_add_model("m");
    struct td_metrics_model *m = td_metrics_model("m");
    const int64_t us[] = {0, 10, 11, 18, 19, INT64_MAX};
    for (int i = 0; i < 6; i++) {
        request(m, TD_API_PREDICT, TD_ENTRY_GRPC, TD_OK, us[i]);
    }
    request(m, TD_API_PREDICT, TD_ENTRY_GRPC, TD_INTERNAL, 1); /* latencies are of those that went well */
#define BUCKET                                                                                               \
    ":tensorflow:serving:request_latency_bucket{model_name=\"m\",API=\"Predict\",entrypoint=\"GRPC\",le="
    says(BUCKET "\"10\"} 2\n");
    says(BUCKET "\"18\"} 4\n");
    says(BUCKET "\"32.4\"} 5\n");
    says(BUCKET "\"+Inf\"} 6\n");
}

TEST(labels_are_escaped)
{
    td_metrics_add_model("a\"b\\c\nd");
    request(td_metrics_model("a\"b\\c\nd"), TD_API_PREDICT, TD_ENTRY_GRPC, TD_OK, 5);
    says("{model_name=\"a\\\"b\\\\c\\nd\",status=\"OK\"} 1\n");
}

TEST(paths_beyond_a_limit_share_a_cell)
{
    char path[40];
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "/models/m/%d", i);
        td_metrics_loaded(path, false, 0);
    }
    td_metrics_loaded("/models/m/7", false, 0);
    says("{model_path=\"/models/m/7\",status=\"fail\"} 2\n");
    says("{model_path=\"\",status=\"fail\"} 1000\n");
    CHECK_INT(td_metrics_counter("/tensorflow/cc/saved_model/load_attempt_count"), 5001);
}

static void says_nothing_of(const char *words)
{
    struct td_sink s = text();
    CHECK(strstr(s.p, words) == NULL);
    td_sink_fini(&s);
}

TEST(loads_are_told_until_their_version_is_forgotten)
{
    const int64_t before = td_metrics_counter("/tensorflow/cc/saved_model/load_attempt_count");
    td_metrics_loaded("/gone/7", true, 50);
    td_metrics_load_stage("/gone/7", "init_graph", 5);
    td_metrics_warmed("/gone/7/model.savedmodel", TD_OK, 5, 1);
    td_metrics_loaded("/gone/77", true, 50);
    says("load_attempt_count{model_path=\"/gone/7\",status=\"success\"} 1\n");
    td_metrics_forget("/gone/7");
    says_nothing_of("\"/gone/7\"");
    says_nothing_of("/gone/7/");
    says("load_attempt_count{model_path=\"/gone/77\",status=\"success\"} 1\n");
    td_metrics_forget("/gone/77");
    CHECK_INT(td_metrics_counter("/tensorflow/cc/saved_model/load_attempt_count"), before + 2);
}

/* A directory's path may have 4,095 bytes: what follows a label that is cut must still fit. */
TEST(long_labels_are_cut_and_what_follows_is_there)
{
    char path[4096];
    memset(path, '"', sizeof path - 1); /* each of which is escaped */
    path[sizeof path - 1] = '\0';
    td_metrics_loaded(path, false, 0);
    says("\\\"\",status=\"fail\"} 1\n");
    td_metrics_forget(path);
    struct td_labels l = {0};
    memset(path, 'a', sizeof path - 1);
    memcpy(path + TD_LABEL_VALUE - 1, "\xc3\xa4", 2); /* a character across the limit */
    for (int i = 0; i < TD_LABELS_MOST + 3; i++) {
        td_labels_add(&l, "name", path);
    }
    CHECK_INT((int64_t)l.n, TD_LABELS_MOST * (TD_LABEL_VALUE - 1 + (int64_t)strlen("name=\"\",")) - 1);
    CHECK(strlen(l.text) == l.n);
}

TEST(what_is_no_utf8_becomes_question_marks)
{
    struct td_labels l = {0};
    td_labels_add(&l, "a", "\xc3\xa4\n");
    td_labels_add(&l, "b", "x\xff\xc3");
    CHECK_STR(l.text, "a=\"\xc3\xa4\\n\",b=\"x\?\?\"");
}

TEST(the_scheduler_s_numbers)
{
    td_metrics_add_model("m");
    struct td_metrics_model *m = td_metrics_model("m");
    td_metrics_batched(m, 3, 50);
    td_metrics_batch(m, 3, 1);
    td_metrics_batch(m, 5000, 0);
    td_metrics_refused(m, TD_RESOURCE_EXHAUSTED);
    td_metrics_helped();
    says("tensord_queue_wait_us_count{model_name=\"m\"} 1\n");
    says(":tensorflow:serving:batching_session:queuing_latency_sum{thread_pool_name=\"batch_threads\"} 50\n");
    says(":tensorflow:serving:batching_session:padding_size_sum{execution_batch_size=\"4\"} 1\n");
    says(":tensorflow:serving:batching_session:padding_size_count{execution_batch_size=\"\"} 1\n");
    says(":tensorflow:serving:batching_session:processed_batch_size_sum{} 5004\n");
    says("tensord_lanes_lent_total{} 1\n");
    says("tensord_refused_total{model_name=\"m\",status=\"RESOURCE_EXHAUSTED\"} 1\n");
}

TEST_MAIN(RUN(counting_on_many_threads_loses_nothing) RUN(only_names_that_were_configured_are_told)
              RUN(values_fall_into_the_bucket_that_holds_them) RUN(labels_are_escaped)
                  RUN(paths_beyond_a_limit_share_a_cell) RUN(loads_are_told_until_their_version_is_forgotten)
                      RUN(long_labels_are_cut_and_what_follows_is_there)
                          RUN(what_is_no_utf8_becomes_question_marks) RUN(the_scheduler_s_numbers))
