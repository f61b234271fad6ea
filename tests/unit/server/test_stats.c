/* tests/unit/server/test_stats.c - statistics of a model version.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/stats.h"

#include <pthread.h>

#include "tests/test.h"

static struct td_stats s;
static const struct td_times times = {.queue_ns = 1, .input_ns = 2, .infer_ns = 3, .output_ns = 4};

TEST(a_request_counts_once_and_its_rows_as_inferences)
{
    td_stats_request(&s, true, 5, 100, &times);
    td_stats_request(&s, false, 7, 50, &times);
    CHECK_INT(s.ok, 1);
    CHECK_INT(s.ok_ns, 100);
    CHECK_INT(s.failed, 1);
    CHECK_INT(s.failed_ns, 50);
    CHECK_INT(s.inferences, 5);
    CHECK_INT(s.queue_ns + s.input_ns * 10 + s.infer_ns * 100 + s.output_ns * 1000, 4321);
    CHECK_INT(s.executions, 0);
    CHECK(s.last_ms > 0);
}

TEST(runs_are_told_apart_by_their_size)
{
    for (int i = 1; i <= 3; i++) {
        for (int k = 0; k < i; k++) {
            td_stats_batch(&s, 10 * i, &times);
        }
    }
    CHECK_INT(s.executions, 6);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(s.sizes[i].size, 10 * (i + 1));
        CHECK_INT(s.sizes[i].n, i + 1);
        CHECK_INT(s.sizes[i].infer_ns, 3 * (i + 1));
    }
    CHECK_INT(s.sizes[3].size, 0);
}

TEST(sizes_without_a_row_count_in_the_totals)
{
    for (int i = 1; i <= TD_STATS_SIZES + 5; i++) {
        td_stats_batch(&s, i, &times);
    }
    td_stats_batch(&s, 0, &times);
    CHECK_INT(s.executions, TD_STATS_SIZES + 6);
    CHECK_INT(s.sizes[TD_STATS_SIZES - 1].size, TD_STATS_SIZES);
}

static void *report(void *arg)
{
    for (int i = 0; i < 10000; i++) {
        td_stats_request(&s, true, 1, 1, &times);
        td_stats_batch(&s, 1 + (i + (int)(size_t)arg) % 8, &times);
    }
    return NULL;
}

TEST(threads_lose_nothing)
{
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(pthread_create(&t[i], NULL, report, (void *)i), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
    }
    unsigned long long sum = 0;
    for (int i = 0; i < TD_STATS_SIZES; i++) {
        sum += s.sizes[i].n;
        for (int k = 0; k < i && s.sizes[i].size > 0; k++) {
            CHECK(s.sizes[k].size != s.sizes[i].size);
        }
    }
    CHECK_INT(sum, 40000);
    CHECK_INT(s.ok, 40000);
}

TEST_MAIN(RUN(a_request_counts_once_and_its_rows_as_inferences) RUN(runs_are_told_apart_by_their_size)
              RUN(sizes_without_a_row_count_in_the_totals) RUN(threads_lose_nothing))
